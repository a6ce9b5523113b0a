r"""Errata of [Carvalho2006]: the ridge, a sign, an algorithm without an end, a tolerance, and figures of the tables."""

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from demonstrations.shown import Shown
from problems import IPLSSVMClassifier, column_reduced_ls_svm
from substrate.datasets import pima, tic_tac_toe
from substrate.fits.adaline import eliminate_patterns
from substrate.fits.column_reduction import echelon_columns, echelon_threshold
from substrate.kernels import RBF
from substrate.operators.saddle_system import bordered_matrix, bordered_system, bordered_target

__all__ = [
    "columns_at_random",
    "majority_class",
    "no_stopping_rule",
    "ridge_in_every_entry",
    "slower_by_the_tables",
    "the_bias_stays",
    "tolerance_below_the_ridge",
    "unsymmetric_border",
]


def _label_points(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.4 * rng.normal(size=n) > 0.3, 1.0, -1.0)


def ridge_in_every_entry() -> Shown:
    r"""Only the diagonal of the kernel matrix gets the ridge.

    :equation [Carvalho2006]_ (3): $\tfrac1\gamma$ added inside the double sum, to every entry of the matrix
    :holds: $\tfrac1\gamma$ on the diagonal
    """
    X, y = _label_points()
    K, gamma, n = RBF(1.0)(X), 3.0, y.size

    def cost(added):
        matrix = np.block([[np.zeros((1, 1)), y[None]], [y[:, None], np.outer(y, y) * K + added]])
        solution = np.linalg.solve(matrix, np.append(0.0, np.ones(n)))
        alpha, b = solution[1:], solution[0]
        e = 1.0 - y * (K @ (y * alpha) + b)
        return 0.5 * (y * alpha) @ K @ (y * alpha) + 0.5 * gamma * e @ e

    # the optimum itself, as regression on the labels with b eliminated: half of y'alpha
    A = K + np.eye(n) / gamma
    nu, eta = np.linalg.solve(A, y), np.linalg.solve(A, np.ones(n))
    optimum = 0.5 * y @ (nu - eta * nu.sum() / eta.sum())
    printed, holds = (cost(added) / optimum - 1.0 for added in (np.full((n, n), 1.0 / gamma), np.eye(n) / gamma))
    return Shown("objective (2) at the solution over its minimum, minus one", float(printed), abs(float(holds)))


def unsymmetric_border() -> Shown:
    r"""The minus sign is harmless but destroys the symmetry.

    :equation [Carvalho2006]_ (4): $-Y^\top$ in the first row of A
    :holds: $Y^\top$: the right-hand side there is zero, so that both have one solution, and A is symmetric
    """
    X, y = _label_points()
    A, B = bordered_system(RBF(1.0)(X), y, np.full(y.size, 0.5))
    printed = A.copy()
    printed[0] *= -1.0
    assert np.allclose(np.linalg.solve(printed, B), np.linalg.solve(A, B), atol=1e-10)
    asymmetry = [float(np.abs(M - M.T).max()) for M in (printed, A)]
    return Shown("largest entry of A - A', the solutions being one", *asymmetry)


def no_stopping_rule() -> Shown:
    r"""The support vectors of A-LSSVM depend on when it is stopped.

    :place [Carvalho2006]_ section 3.1, step 4: training goes on until a stopping criterion is reached; the patterns not
        eliminated are the support vectors
    :holds: $AX = B$ has an exact solution, so every error tends to zero and every pattern leaves in time; a stated
        number of support vectors ends it
    """
    X, y = _label_points()
    A, B = bordered_matrix(RBF(1.0)(X), np.full(y.size, 0.1)), bordered_target(y)

    def count_left(count, epochs):
        return eliminate_patterns(A, B, threshold=0.1, count=count, max_epochs=epochs, seed=0).patterns.size

    printed, holds = count_left(1, 500) - count_left(1, 50_000), count_left(12, 5000) - count_left(12, 50_000)
    return Shown(
        "patterns that leave if training lasts ten or a hundred times as long", float(printed), float(holds), 0.0
    )


def the_bias_stays() -> Shown:
    r"""The first row and column of A belong to no pattern.

    :place [Carvalho2006]_ sections 3.1, 3.3 to 3.5: patterns and columns are eliminated; the bias is not mentioned
    :holds: its row and column stay in all four methods; without them another machine is fitted
    """
    X, y = _label_points()
    K, ridge = RBF(1.0)(X), np.full(y.size, 0.5)
    A, B = bordered_matrix(K, ridge), bordered_target(y)
    exact = np.linalg.solve(A, B)

    def distance(columns):
        solution = np.zeros(B.size)
        solution[columns] = np.linalg.lstsq(A[:, columns], B, rcond=None)[0]
        return float(np.abs(K @ (solution - exact)[1:] + (solution - exact)[0]).max())

    every = np.arange(B.size)
    return Shown("largest change of a decision value", distance(every[1:]), distance(every))


def slower_by_the_tables() -> Shown:
    r"""The text and the tables of the paper disagree.

    :place [Carvalho2006]_ section 4, training times: Ada-Pinv is 4 to 40 times slower than the SVM
    :holds: 3 to 18 times, by Tables 1-3
    """
    printed = ((2427.3, 695.9), (3762.0, 1276.9), (455.0, 24.96))  # seconds of Ada-Pinv and of the SVM
    slower = [adaline / machine for adaline, machine in printed]

    def distance(low, high):
        return max(abs(low / min(slower) - 1.0), abs(high / max(slower) - 1.0))

    return Shown(
        "relative distance of the two ends from the ends in the tables", distance(4.0, 40.0), distance(3.0, 18.0), 0.05
    )


def majority_class() -> Shown:
    r"""A training accuracy that is the share of the larger class.

    :place [Carvalho2006]_ Table 2: the SVM classifies 0.65 of its training boards and 0.96 of the others
    :holds: 626 of 958 boards are won by the first player: 0.65 is a machine that always predicts this, not one that
        classifies 0.96 of the test boards
    """
    _, labels = tic_tac_toe()
    share = float(np.mean(labels == "positive"))
    accuracy, tested = 0.65, 0.96  # as printed
    return Shown(
        "distance of 0.65 from the test accuracy, and from the larger class",
        tested - accuracy,
        abs(accuracy - share),
        0.01,
    )


def tolerance_below_the_ridge() -> Shown:
    r"""Below the ridge no pivot of the echelon reduction can fall.

    :place [Carvalho2006]_ section 3.3: values below a specified threshold are set to zero, which drops the dependent
        columns
    :holds: the ridge is in every pivot, so that below $1/\gamma$ almost nothing is dropped for any kernel; the
        threshold must count from $1/\gamma$
    """
    rng = np.random.default_rng(2)
    K, ridge = RBF(4.0)(rng.normal(size=(60, 2))), np.full(60, 1.0)
    M, tolerance = bordered_matrix(K, ridge), 0.2
    rank = int((np.linalg.eigvalsh(K) > tolerance).sum())
    kept = [
        echelon_columns(M, threshold).size
        for threshold in (tolerance, echelon_threshold(K.diagonal(), ridge, tolerance))
    ]
    measure = f"share of columns kept beyond the {rank} eigenvalues above the tolerance"
    return Shown(measure, *(max(0.0, (count - rank) / 60.0) for count in kept), 0.2)


def columns_at_random() -> Shown:
    r"""The tables lack the control that would show what the choice of columns is worth.

    :place [Carvalho2006]_ Tables 1-3: accuracies of columns chosen by relevance, without a control
    :holds: as many columns of Pima drawn at random, with the same pseudo-inverse, classify as well, within the printed
        deviation of 0.03
    """
    X, labels = pima()
    y = np.where(labels == np.unique(labels)[-1], 1.0, -1.0)
    accuracies = []
    for seed in range(4):
        arrays = train_test_split(X, y, train_size=2 / 3, random_state=seed)
        scaler = StandardScaler().fit(arrays[0])
        X_train, X_test = scaler.transform(arrays[0]), scaler.transform(arrays[1])
        rule = IPLSSVMClassifier(RBF(8.0), 1.0, n_support=0.75).fit(X_train, arrays[2])
        drawn = np.random.default_rng(seed).permutation(arrays[2].size)[: rule.n_support_]
        lot = column_reduced_ls_svm.closed_form(RBF(8.0)(X_train), arrays[2], 1.0, columns=drawn)
        f = RBF(8.0)(X_test, X_train) @ (arrays[2] * lot["support_values"]) + lot["bias"]
        accuracies.append((rule.score(X_test, arrays[3]), np.mean(np.sign(f) == arrays[3])))
    by_rule, at_random = np.mean(accuracies, axis=0)
    published, deviation = 0.75, 0.03  # as printed
    distances = abs(float(by_rule) - published), abs(float(by_rule - at_random))
    return Shown(
        "distance of the rule's accuracy from the published one, and from random columns",
        *distances,
        deviation,
        slip=False,
    )
