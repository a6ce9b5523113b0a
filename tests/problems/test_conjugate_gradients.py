"""Conjugate gradients reach the closed form without the matrix, and say so when they do not."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from problems import LSSVMRegressor
from substrate.datasets import sinc
from substrate.errors import DeclarationError, IndefiniteKernelWarning, SubstrateError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed

KERNELS = [
    RBF(1.0),
    Linear(),
    Polynomial(2, 0.5),
    Laplacian(1.5),
    Matern(2.0),
    0.5 * RBF(0.5) + Linear(),
    Componentwise(RBF(0.7)),
]


def make(n=120, outputs=1, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin((k + 1) * X[:, 0]) + 0.1 * rng.normal(size=n) for k in range(outputs)])
    return X, Y


def assert_same(kernel, gamma, X, y, weights=None, form=np.asarray, **options):
    """Predictions of both solvers, to what the tolerances of both promise."""
    closed = LSSVMRegressor(kernel, gamma).fit(X, y, sample_weight=weights)
    model = LSSVMRegressor(kernel, gamma, solver="cg", tol=1e-8, **options).fit(form(X), y, sample_weight=weights)
    assert model.certificate_.holds
    assert model.n_iter_ >= 0
    assert_allclose(model.predict(X), closed.predict(X), atol=2e-6 * np.abs(y).max())
    scale = np.abs(closed.support_values_).max(axis=0)
    difference = np.abs(model.support_values_ - closed.support_values_).max(axis=0)
    assert (difference <= 1e-5 * scale).all()
    return model


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("gamma", [1e-4, 1.0, 100.0])
def test_equals_the_closed_form(kernel, gamma):
    """:place [Suykens2002]_ end of section 2: against the direct solution."""
    X, Y = make()
    assert_same(kernel, gamma, X, Y[:, 0])


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["cg", "auto"])
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


@pytest.mark.parametrize(("gamma", "n"), [(1e6, 200), (1e10, 40)])
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a bound is true whether or not it holds
@pytest.mark.parametrize("gamma", [1e-6, 10.0, 1e7])
@pytest.mark.parametrize(("unit", "offset"), [(1.0, 0.0), (1e9, 1e8), (1e-9, 0.0)])
def test_a_certificate_of_tiles_is_true(gamma, unit, offset):
    rng = np.random.default_rng(2)
    points = 1e6 + rng.normal(size=(300, 2))
    y = offset + unit * (np.sin(3.0 * points[:, 0]) + 0.1 * rng.normal(size=300))
    exact = LSSVMRegressor(RBF(1.0), gamma, solver="cholesky", tol=1e-9).fit(points, y)
    model = LSSVMRegressor(RBF(1.0), gamma, solver="cg", tol=1e-4, max_iter=5000).fit(points, y)
    bound = model.certificate_.rows[0].value
    distance = np.sqrt(np.square(model.predict(points) - exact.predict(points)).mean())
    assert distance <= bound + exact.certificate_.rows[0].value
