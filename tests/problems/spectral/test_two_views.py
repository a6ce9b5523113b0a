"""Kernel CCA, kernel PLS and the kernel Fisher discriminant: problems, limits, choice of weights, certificates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh
from sklearn.cross_decomposition import CCA
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from problems import KernelCCA, KernelFisherDiscriminant, load
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear
from substrate.spectral import correlations, find_pairs, view_of


def two_views(n=60, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.0, 1.0, n)
    X = np.column_stack([t, rng.normal(size=n)]) + noise * rng.normal(size=(n, 2))
    Y = np.column_stack([np.cos(4.0 * t), rng.normal(size=n)]) + noise * rng.normal(size=(n, 2))
    return X, Y


def centred(kernel, X):
    P = np.eye(X.shape[0]) - 1.0 / X.shape[0]
    return P @ kernel(X) @ P


@pytest.mark.parametrize("nus", [(0.5, 0.1), (0.0, 0.0), (30.0, 2.0)])
def test_singular_values_are_those_of_the_generalised_eigenproblem(nus):
    """Against scipy's dense pencil of order 2N, made definite by a small shift.

    :place [Suykens2002b]_ kernel CCA: the generalised eigenproblem of two views
    :place [Suykens2002b]_ kernel CCA conditions: both equalities of the generalised eigenproblem
    """
    X, Y = two_views(25)
    K1, K2 = centred(RBF(1.0), X), centred(RBF(1.0), Y)
    A = np.block([[np.zeros((25, 25)), K1 @ K2], [K2 @ K1, np.zeros((25, 25))]])
    B1, B2 = K1 + nus[0] * K1 @ K1, K2 + nus[1] * K2 @ K2
    B = np.block([[B1, np.zeros((25, 25))], [np.zeros((25, 25)), B2]]) + 1e-10 * np.eye(50)
    expected = eigh(A, B, eigvals_only=True)[::-1][:3]
    solved = find_pairs(view_of(RBF(1.0), X), view_of(RBF(1.0), Y), nus, 3)
    assert_allclose(solved.values, expected, rtol=1e-6)
    assert solved.radius < 1e-6 * expected[0]
    e, r = K1 @ solved.alpha, K2 @ solved.beta
    assert_allclose(r, solved.values * (solved.alpha + nus[0] * e), atol=1e-7)
    assert_allclose(e, solved.values * (solved.beta + nus[1] * r), atol=1e-7)


def test_the_radius_covers_the_singular_values_in_more_digits():
    mpmath = pytest.importorskip("mpmath")
    X, Y = two_views(8)
    solved = find_pairs(view_of(RBF(1.0), X), view_of(RBF(1.0), Y), (0.7, 0.2), 2)
    with mpmath.workdps(40):

        def shrunk(points, nu):
            n = len(points)
            K = mpmath.matrix(n)
            for i in range(n):
                for j in range(n):
                    square = sum(
                        (mpmath.mpf(float(a)) - mpmath.mpf(float(b))) ** 2
                        for a, b in zip(points[i], points[j], strict=True)
                    )
                    K[i, j] = mpmath.exp(-square)
            P = mpmath.eye(n) - mpmath.ones(n) / n
            K = P * K * P
            return K * mpmath.inverse(mpmath.eye(n) + mpmath.mpf(nu) * K)

        product = shrunk(X, 0.7) * shrunk(Y, 0.2)
        squares = sorted((mpmath.re(v) for v in mpmath.eig(product, left=False, right=False)), reverse=True)
        exact = [mpmath.sqrt(v) for v in squares[:2]]
    assert all(abs(mpmath.mpf(v) - e) <= solved.radius for v, e in zip(solved.values, exact, strict=True))
    assert solved.radius < 1e-9


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of weights without regularisation
def test_linear_kernels_give_linear_analyses():
    """:place [Suykens2002b]_ kernel PLS: the eigenproblem of two views without weights of the variances"""
    X, Y = two_views()
    pls = KernelCCA(Linear(), 2, kernel_y=Linear(), method="pls").fit(X, Y)
    assert_allclose(pls.singular_values_, np.linalg.svd((X - X.mean(0)).T @ (Y - Y.mean(0)))[1], rtol=1e-9)
    assert pls.certificate_.holds
    cca = KernelCCA(Linear(), 1, kernel_y=Linear(), nu=1e4).fit(X, Y)
    first, second = CCA(1).fit(X, Y).transform(X, Y)
    assert_allclose(cca.correlations_[0], correlations(first, second)[0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_new_rows_have_correlated_scores_and_left_out_rows_choose_the_weight():
    X, Y = two_views(120)
    model = KernelCCA(RBF(1.0), 1, kernel_y=RBF(1.0)).fit(X, Y)
    assert model.criterion_ == model.candidate_criteria_.max() > 0.9
    new = two_views(80, seed=1)
    assert model.score(*new) > 0.9
    assert model.certificate_.holds
    assert model.certify(X, Y).holds
    unregularised = KernelCCA(RBF(0.1), 1, kernel_y=RBF(0.1), nu=1e8).fit(X, Y)
    assert unregularised.correlations_[0] > 0.999
    assert unregularised.score(*new) < model.score(*new)


def test_a_changed_model_fails():
    X, Y = two_views()
    for name in ("support_values_", "y_support_values_", "singular_values_", "bias_", "y_bias_"):
        model = KernelCCA(RBF(1.0), 2, kernel_y=RBF(1.0), nu=1.0).fit(X, Y)
        assert model.certify(X, Y).holds
        setattr(model, name, 1.001 * getattr(model, name) + 1e-4)
        assert not model.certify(X, Y).holds, name


@pytest.mark.parametrize("method", ["cca", "pls"])
def test_a_file_holds_both_views(tmp_path, method):
    X, Y = two_views()
    model = KernelCCA(RBF(1.0), 2, kernel_y=RBF(2.0), method=method).fit(X, Y)
    model.save(tmp_path / "views.npz")
    again = load(tmp_path / "views.npz")
    for left, right in zip(again.transform(X, Y), model.transform(X, Y), strict=True):
        assert_array_equal(left, right)
    assert again.certify(X, Y).holds


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_are_separated_as_by_the_linear_discriminant():
    """:place [Mika1999b]_ Fisher criterion: the variance of class means over the one of all scores, regularised"""
    X, y = load_iris(return_X_y=True)
    kernel = KernelFisherDiscriminant(Linear(), nu=1e4).fit(X, y)
    linear = LinearDiscriminantAnalysis().fit(X, y)
    ours, theirs = kernel.transform(X), linear.transform(X)[:, :2]
    assert_allclose(np.abs(correlations(ours, theirs)), 1.0, atol=1e-4)
    assert kernel.score(X, y) > 0.96
    chosen = KernelFisherDiscriminant(RBF(3.0)).fit(X[::2], y[::2])
    assert chosen.score(X[1::2], y[1::2]) > 0.93
    assert chosen.certificate_.holds
    assert chosen.certify(X[::2], y[::2]).holds
    assert not chosen.certify(X[::2], np.roll(y[::2], 1)).holds


@pytest.mark.parametrize(
    ("model", "fault", "message"),
    [
        (KernelCCA(n_components=0), DeclarationError, "n_components"),
        (KernelCCA(n_components=60), DataError, "use at most 59"),
        (KernelCCA(nu=-1.0), DeclarationError, "nu"),
        (KernelCCA(cv=1), DeclarationError, "cv"),
        (KernelCCA(cv=40), DataError, "use at most 30"),
        (KernelCCA(kernel_y="precomputed"), DeclarationError, "points of both views"),
        (KernelFisherDiscriminant(n_components=2), DataError, "use at most 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(model, fault, message):
    X, Y = two_views()
    target = (Y[:, 0] > 0.0).astype(int) if isinstance(model, KernelFisherDiscriminant) else Y
    with pytest.raises(fault, match=message):
        model.fit(X, target)
