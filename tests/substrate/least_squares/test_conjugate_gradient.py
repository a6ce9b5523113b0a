"""Conjugate gradients reach the closed form without the matrix, and say so when they do not."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sampled_cases import first
from sklearn.exceptions import ConvergenceWarning

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.certificates import tolerances_of
from substrate.datasets import sinc
from substrate.errors import DeclarationError, IndefiniteKernelWarning, SubstrateError
from substrate.gram import Gram
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed
from substrate.least_squares.conjugate_gradient import solve_by_conjugate_gradients
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.least_squares.preconditioner import SampledInverse
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system

KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(1.5), Matern(2.0), 0.5 * RBF(0.5) + Linear()]


def make(n=120, outputs=1, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin((k + 1) * X[:, 0]) + 0.1 * rng.normal(size=n) for k in range(outputs)])
    return X, Y


def iterated_by(kernel, X, Y, ridge, tolerance=1e-8, size=30):
    """On tiles in double precision, with a preconditioner of sampled rows."""
    matrix = KernelTiles(kernel, X)
    matrix.use_accurate_products()
    rows = np.sort(np.random.default_rng(0).permutation(len(Y))[: min(size, len(Y) // 2)])
    inverse = SampledInverse(kernel, X, rows, ridge)
    radii = np.array([one.largest_radius for one in tolerances_of(Y, 1.0 / ridge, tolerance)])
    return solve_by_conjugate_gradients(matrix, inverse, Y, ridge, radii, 1000)


def both(kernel, X, Y, gamma, weights=None, **options):
    ridge = ridge_of(gamma, np.ones(len(Y)) if weights is None else weights)
    direct = solve_saddle_system(Gram.of(kernel, X), Y, ridge)
    return direct, iterated_by(kernel, X, Y, ridge, **options)


def assert_same(found, expected, tolerance=1e-6):
    scale = np.abs(expected.support_values).max(axis=0)
    assert_allclose(found.support_values / scale, expected.support_values / scale, atol=tolerance)
    assert_allclose(found.bias, expected.bias, atol=tolerance)
    assert_allclose(found.products, expected.products, atol=tolerance * np.abs(expected.products).max())
    assert_allclose(found.support_values.sum(axis=0) / scale, 0.0, atol=tolerance)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("gamma", [1e-4, 1.0, 100.0])
def test_equals_the_closed_form(kernel, gamma):
    """:place [Suykens2002]_ end of section 2: against the direct solution."""
    direct, iterated = both(kernel, *make(), gamma)
    assert not iterated.reason
    assert_same(iterated, direct)


@pytest.mark.parametrize("n", [2, 3, 51, 300])
def test_small_and_large_numbers_of_rows(n):
    direct, iterated = both(RBF(1.0), *make(n), 10.0)
    assert not iterated.reason
    assert_same(iterated, direct)


def test_weights():
    X, Y = make()
    weights = np.random.default_rng(1).uniform(0.01, 10.0, len(Y))
    direct, iterated = both(RBF(1.0), X, Y, 5.0, weights)
    assert_same(iterated, direct)
    unweighted, _ = both(RBF(1.0), X, Y, 5.0)
    assert np.abs(unweighted.support_values - direct.support_values).max() > 1e-2


def test_many_outputs_with_different_scales():
    X, Y = make(outputs=4)
    Y = Y * np.array([1e-6, 1.0, 1e6, 0.0]) + np.array([0.0, 1e3, 0.0, 2.0])
    direct, iterated = both(RBF(1.0), X, Y, 5.0)
    assert not iterated.reason
    for k in range(3):
        scale = np.abs(direct.support_values[:, k]).max()
        assert_allclose(iterated.support_values[:, k] / scale, direct.support_values[:, k] / scale, atol=1e-6)
    assert (iterated.support_values[:, 3] == 0.0).all(), "a constant output has no support values"
    assert iterated.bias[3] == 2.0


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_points(container):
    X, Y = make(n=150, d=4)
    X = np.where(X > 0.5, X, 0.0)
    direct, _ = both(RBF(1.0), X, Y, 5.0)
    _, iterated = both(RBF(1.0), container(X), Y, 5.0)
    assert_same(iterated, direct)


def test_duplicated_points():
    X, Y = make(n=60)
    twice, target = np.repeat(X, 3, axis=0), np.repeat(Y, 3, axis=0) + np.random.default_rng(2).normal(size=(180, 1))
    direct, iterated = both(RBF(1.0), twice, target, 100.0)
    assert not iterated.reason
    assert_same(iterated, direct)


def test_a_kernel_that_is_nought():
    X, Y = np.zeros((8, 2)), np.arange(8.0)[:, None]
    direct, iterated = both(Linear(), X, Y, 2.0)
    assert not iterated.reason
    assert_same(iterated, direct)
    assert_allclose(iterated.bias, [3.5])


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [0.1, 50.0])
def test_the_estimator_agrees_with_itself(outputs, weighted, gamma):
    X, Y = make(outputs=outputs)
    y = Y[:, 0] if outputs == 1 else Y
    weights = np.arange(120) % 4 if weighted else None
    closed = LSSVMRegressor(RBF(1.0), gamma=gamma).fit(X, y, sample_weight=weights)
    model = LSSVMRegressor(RBF(1.0), gamma=gamma, solver="cg", tol=1e-8).fit(X, y, sample_weight=weights)
    assert_allclose(model.predict(X), closed.predict(X), atol=1e-6)
    assert model.certificate_.holds
    assert model.n_iter_ >= 1
    assert "120 x 120, never stored" in str(model.certificate_) or weighted


def test_each_output_with_its_own_gamma():
    X, Y = make(outputs=3)
    gammas = [0.1, 10.0, 0.1]
    closed = LSSVMRegressor(RBF(1.0), gamma=gammas).fit(X, Y)
    model = LSSVMRegressor(RBF(1.0), gamma=gammas, solver="cg", tol=1e-8).fit(X, Y)
    assert_allclose(model.predict(X), closed.predict(X), atol=1e-6)
    assert model.certificate_.holds


def test_a_tighter_tolerance_comes_closer():
    X, Y = make(n=300)
    errors, iterations = [], []
    for tolerance in (1e-2, 1e-5, 1e-10):
        direct, iterated = both(Laplacian(0.5), X, Y, 100.0, tolerance=tolerance)
        errors.append(np.abs(iterated.support_values - direct.support_values).max())
        iterations.append(iterated.steps)
    assert errors[0] > errors[1] > errors[2]
    assert iterations[0] < iterations[1] < iterations[2]


# ---- products in blocks --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 64, 511, 512, 513, 1100])
@pytest.mark.parametrize("kernel", [RBF(1.0), Linear(), Componentwise(RBF(0.7))], ids=repr)
@pytest.mark.some_cases(11)
def test_a_product_in_tiles_is_the_product(n, kernel):
    X, _ = make(n)
    V = np.random.default_rng(3).normal(size=(n, 3))
    K = kernel(X)
    assert_allclose(KernelTiles(kernel, X).accurate_product(V), K @ V, atol=1e-11 * np.abs(K).max() * n)
    assert_allclose(KernelTiles(kernel, sp.csr_matrix(X)).accurate_product(V), K @ V, atol=1e-10 * np.abs(K).max() * n)
    unit = np.zeros((n, 1))
    unit[n // 2] = 1.0
    assert_allclose(KernelTiles(kernel, X).accurate_product(unit)[:, 0], K[:, n // 2], atol=1e-12 * np.abs(K).max())


def test_half_of_the_matrix_is_evaluated():
    entries = []

    class Counted(RBF):
        def evaluate(self, X, Z, dtype):
            entries.append(X.shape[0] * Z.shape[0])
            return super().evaluate(X, Z, dtype)

    X, _ = make(2000)
    KernelTiles(Counted(1.0), X).accurate_product(np.ones((2000, 1)))
    assert 0.5 * 2000**2 < sum(entries) < 0.7 * 2000**2


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", first(1, ["cg", "auto"]))
def test_the_matrix_is_never_allocated(solver):
    X, y = sinc(n_samples=1500, noise=0.1, random_state=0)
    matrix = 8 * 1500**2
    tracemalloc.start()
    try:
        model = LSSVMRegressor(RBF(1.0), gamma=1.0, solver=solver).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.certificate_.holds
    if solver == "cg":
        assert peak < 0.6 * matrix
    else:
        assert peak > matrix, "the measure sees a matrix where there is one"


def test_products_take_a_few_blocks():
    X, _ = make(3000)
    V = np.ones((3000, 2))
    tracemalloc.start()
    try:
        KernelTiles(RBF(1.0), X).accurate_product(V)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12e6


# ---- honest failure ------------------------------------------------------------------------------


def hard():
    X, Y = make(n=400, seed=5)
    return X, Y[:, 0]


@pytest.mark.parametrize("max_iter", [1, 3])
def test_too_few_iterations_warn_and_the_certificate_does_not_hold(max_iter):
    X, y = hard()
    model = LSSVMRegressor(Laplacian(0.3), gamma=1e4, solver="cg", max_iter=max_iter)
    with pytest.warns(ConvergenceWarning, match=f"stopped after {max_iter} iterations .*raise max_iter"):
        model.fit(X, y)
    assert model.n_iter_ == max_iter
    assert not model.certificate_.holds
    assert not model.certify(X, y).holds
    assert np.isfinite(model.predict(X)).all()
    assert LSSVMRegressor(Laplacian(0.3), gamma=1e4, solver="cg").fit(X, y).certificate_.holds


def test_too_few_iterations_of_a_classifier():
    X, y = hard()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        model = LSSVMClassifier(Laplacian(0.3), gamma=1e4, solver="cg", max_iter=1).fit(X, y > 0.0)
    assert not model.certificate_.holds


def not_positive(X, Z):
    return -np.exp(-np.square(X[:, None, :] - Z[None, :, :]).sum(axis=2))


def indefinite(X, Z):
    return np.tanh(2.0 * X @ Z.T - 1.0)


@pytest.mark.parametrize("kernel", [not_positive, indefinite])
def test_a_kernel_that_is_not_positive_is_pointed_out_or_refused(kernel):
    """The closed form warns and records it; the iteration meets negative curvature and must not hide it."""
    X, y = hard()
    model = LSSVMRegressor(kernel, gamma=10.0, solver="cg")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X[:60], y[:60])
        except SubstrateError:
            return
    assert any(issubclass(w.category, IndefiniteKernelWarning) for w in caught) or not model.certificate_.holds


@pytest.mark.parametrize("gamma", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("n", [40, 200])
def test_extreme_gamma_converges_or_says_so(gamma, n):
    """Smooth kernel, hardly any ridge: the hardest system there is."""
    X, Y = make(n=n)
    model = LSSVMRegressor(RBF(3.0), gamma=gamma, solver="cg", max_iter=200)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y[:, 0])
    assert all(issubclass(warning.category, ConvergenceWarning) for warning in caught), [str(w.message) for w in caught]
    assert np.isfinite(model.support_values_).all()
    assert model.certificate_.holds or caught, str(model.certificate_)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_a_bias_far_beyond_the_spread_of_the_target_is_allowed_for(tolerance):
    """The residual of the machine is that of y less b, and b = -88 where y is within 3 of nought."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 1))
    y, ridge = x + 0.1 * rng.normal(size=(80, 1)), np.full(80, 1e-2)
    solved = iterated_by(Linear() + RBF(0.5), 100.0 + x, y, ridge, tolerance=tolerance, size=5)
    assert not solved.reason
    assert abs(float(solved.bias[0])) > 50.0
    left = y - solved.products - ridge[:, None] * solved.support_values - solved.bias
    assert np.linalg.norm(left) <= tolerance * np.linalg.norm(y - y.mean())


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 2.0 * Precomputed()], ids=repr)
def test_a_precomputed_matrix_is_refused(kernel):
    X, Y = make(20)
    with pytest.raises(
        DeclarationError, match="solver='cg' needs a kernel that is positive semi-definite by its formula"
    ):
        LSSVMRegressor(kernel, solver="cg").fit(RBF(1.0)(X), Y[:, 0])


@pytest.mark.parametrize("parameters", [{"tol": 0.0}, {"tol": "small"}, {"max_iter": 0}, {"max_iter": 2.5}])
def test_options_out_of_range(parameters):
    X, Y = make(20)
    with pytest.raises(DeclarationError, match=next(iter(parameters))):
        LSSVMRegressor(solver="cg", **parameters).fit(X, Y[:, 0])
