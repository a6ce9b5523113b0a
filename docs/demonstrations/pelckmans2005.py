r"""Errata of [Pelckmans2005], sections 2 to 4.1: the substrate, its sensitivities, sparse and fused least squares.

Misprints, which cannot be computed:

:typography [Pelckmans2005]_ (13)-(14): $\varphi$ for $\varphi_l$, the map of component l
:typography [Pelckmans2005]_ (16): $e^v$ among the variables, where it does not occur
:typography [Pelckmans2005]_ section 5.2: the text refers twice to a section 4.3, which does not exist; 4.2 is meant
:typography [Pelckmans2005]_ Fig. 4: the evolution diagram ends at 1000 in the text and at 10000 in the caption
:typography [Pelckmans2005]_ Fig. 6 and 7: the points called training points are the test points
:typography [Pelckmans2005]_ sections 3.2, 4.2 and 5.1: $\zeta$ and $\xi$ for one parameter
"""

import cvxpy as cp
import numpy as np

from demonstrations.shown import Shown
from problems import l1_substrate, ls_svm_regression, ls_svm_substrate, tikhonov_fusion
from substrate.datasets import motorcycle
from substrate.fits.stacked_least_squares import solve_stacked
from substrate.kernels import RBF, Polynomial

__all__ = [
    "features_in_the_lagrangian",
    "fusion_without_convexity",
    "ones_of_the_lower_block",
    "sensitivities",
    "sign_of_the_validation_errors",
    "the_half_of_sparsity",
    "tikhonov_as_a_special_case",
    "transposed_kernel_values",
    "uniqueness_of_fused_least_squares",
]


def _points(n=14, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)


def features_in_the_lagrangian() -> Shown:
    r"""The Lagrangian contains features, not inputs.

    :equation [Pelckmans2005]_ (1): $w^\top x_i$ in the Lagrangian below it
    :holds: $w^\top \varphi(x_i)$
    """
    x = np.linspace(-2.0, 2.0, 15)[:, None]
    y = np.cos(x[:, 0])
    features = x**2  # the quadratic kernel of one input: a feature of the same dimension, so that both can be computed
    solved = ls_svm_regression.closed_form(Polynomial(2, 0.0)(x), y, 10.0)
    w = features.T @ solved["support_values"]

    def distance(rows):
        return float(np.linalg.norm(rows @ w + solved["bias"] + solved["errors"] - y) / np.linalg.norm(y))

    return Shown("derivative of the Lagrangian in alpha at the solution, relative", distance(x), distance(features))


def transposed_kernel_values() -> Shown:
    r"""The matrix of kernel values changes its shape between the sections.

    :equation [Pelckmans2005]_ (3), (20), (28): $\Omega^v$ is $N \times n$ in (3), $n \times N$ from (20) on, and (28)
        lets i run to n and j to N in $\Omega^v_{ji}$
    :holds: rows are validation points and columns training points, $n \times N$, everywhere
    """
    X, _ = _points(14)
    V, _ = _points(9, seed=1)
    N, n, kernel = 14, 9, RBF(1.0)

    def missing(shape):
        """Rows of the validation equalities that a matrix of this shape cannot make with N support values."""
        return float(abs(shape[0] - n) + abs(shape[1] - N))

    return Shown(
        "rows and columns that do not fit the validation equalities", missing((N, n)), missing(kernel(V, X).shape), 0.0
    )


def tikhonov_as_a_special_case() -> Shown:
    r"""The inverse of $\gamma$ is correct here: it is not a misprint.

    :equation [Pelckmans2005]_ (12): $\gamma^{-1}\alpha = \alpha + c$
    :holds: as printed: the substrate with these constants is the LS-SVM
    """
    X, y = _points()
    K, gamma = RBF(1.0)(X), 3.0
    machine = ls_svm_regression.closed_form(K, y, gamma)
    c = ls_svm_substrate.tikhonov_constants(machine["support_values"], gamma)
    printed = float(np.abs(machine["support_values"] / gamma - machine["support_values"] - c).max())
    alpha_of_substrate = ls_svm_substrate.closed_form(K, y, c)["support_values"]
    return Shown(
        "both sides of (12), and both machines",
        printed,
        float(np.abs(alpha_of_substrate - machine["support_values"]).max()),
        slip=False,
    )


def sensitivities() -> Shown:
    r"""The minus sign is correct: it is not a misprint.

    :equation [Pelckmans2005]_ (15): $\hat\alpha_i = -\partial p^* / \partial c_i$
    :holds: as printed
    """
    X, y = _points(8)
    K, c = RBF(1.0)(X), np.random.default_rng(5).normal(size=8)

    def optimum(constants):
        solved = ls_svm_substrate.closed_form(K, y, constants)
        alpha = solved["support_values"]
        return 0.5 * alpha @ K @ alpha + 0.5 * np.sum((solved["errors"] - constants) ** 2)

    step = 1e-5 * np.eye(8)
    slopes = np.array([(optimum(c + h) - optimum(c - h)) / 2e-5 for h in step])
    distance = float(np.abs(ls_svm_substrate.closed_form(K, y, c)["support_values"] + slopes).max())
    return Shown("largest difference of alpha and minus the slope", distance, distance, slip=False)


def sign_of_the_validation_errors() -> Shown:
    r"""Text and equation have opposite signs.

    :equation [Pelckmans2005]_ (11): the line before it calls $\hat f(x^v_j) - y^v_j$ the residual $e^v_j$
    :holds: $e^v = y^v - f(x^v)$, as (11) itself has it
    """
    X, y = _points()
    V, targets = _points(9, seed=1)
    solved = ls_svm_substrate.closed_form(RBF(1.0)(X), y, 0.0)
    f = RBF(1.0)(V, X) @ solved["support_values"] + solved["bias"]
    printed, holds = (float(np.abs(f + e - targets).max()) for e in (f - targets, targets - f))
    return Shown("largest residual of (11)", printed, holds)


def the_half_of_sparsity() -> Shown:
    r"""The squared errors have a half in one section and none in the other.

    :equation [Pelckmans2005]_ (16), (23): $\lVert e\rVert^2$ without the half that (24) has
    :holds: with the half everywhere, the printed $\zeta$ and $\xi$ are twice ours
    """
    X, y = _points()
    K, zeta = RBF(1.5)(X), 0.3
    a, b = cp.Variable(y.size), cp.Variable()
    weight = cp.Parameter(nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(y - K @ a - b) + weight * cp.norm1(a)), [cp.sum(a) == 0])
    errors = l1_substrate.closed_form(K, y, zeta)["errors"]

    def distance(value):
        weight.value = value
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
        return float(np.abs(y - K @ a.value - b.value - errors).max())

    return Shown("largest difference of the errors from ours", distance(zeta), distance(2.0 * zeta), 1e-4)


def fusion_without_convexity() -> Shown:
    r"""Not convex, but a function of one variable.

    :equation [Pelckmans2005]_ (19): non-convex, and therefore left for additive regularization
    :holds: non-convex, as printed; but after an eigendecomposition it is a function of one variable, whose global
        optimum over a range comes with a lower bound
    """
    X, y = motorcycle()
    train, valid, kernel = slice(1, None, 2), slice(0, None, 2), RBF(10.0)
    K, below = kernel(X[train]), kernel(X[valid], X[train])
    optimum = tikhonov_fusion.search(K, y[train], below, y[valid], gap=1e-6)
    errors = [
        np.mean((y[valid] - below @ s["support_values"] - s["bias"]) ** 2)
        for s in (ls_svm_regression.closed_form(K, y[train], gamma) for gamma in np.geomspace(1e-3, 1e6, 60))
    ]
    bends = np.sign(np.diff(errors, n=2))
    assert {-1.0, 1.0} <= set(bends), "the criterion is not convex on the grid"
    gap = float(1.0 - optimum.lower_bound[0] / optimum.criterion[0])
    above = max(0.0, float(1.0 - min(errors) / optimum.criterion[0]))
    return Shown("what a grid gains over the optimum, and the certified gap, relative", above, gap, 1.1e-6, slip=False)


def ones_of_the_lower_block() -> Shown:
    r"""The lower block has a row for each validation point.

    :equation [Pelckmans2005]_ (22): $1_N$ next to $\Omega^v$
    :holds: $1_n$
    """
    X, _ = _points(14)
    V, _ = _points(9, seed=1)
    rows = RBF(1.0)(V, X).shape[0]
    return Shown("rows that the two blocks differ by", float(abs(14 - rows)), float(abs(9 - rows)), 0.0)


def uniqueness_of_fused_least_squares() -> Shown:
    r"""The errors are unique, the coefficients need not be.

    :equation [Pelckmans2005]_ (22): the criterion leads to a unique solution
    :holds: the errors are unique; $\alpha$ and b only where the stacked matrix has full rank
    """
    X, y = _points(10)
    X[7] = X[3]  # a tie
    stacked, t = RBF(1.0)(np.vstack([X, X + 0.1]), X), np.append(y, y)
    coefficients, bias, solved_errors = solve_stacked(stacked, t)
    other_coefficients = coefficients + (np.arange(10) == 3) - (np.arange(10) == 7)
    errors = t - stacked @ other_coefficients - bias
    return Shown(
        "difference of two minimisers, and of their errors",
        float(np.abs(other_coefficients - coefficients).max()),
        float(np.abs(errors - solved_errors).max()),
        1e-8,
    )
