"""``solver="auto"``: a factorisation or conjugate gradients, the same answer to ``tol``, and a record of which."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from variants import componentwise_machine

from problems import LSSVMClassifier, LSSVMRegressor
from problems.estimators.full import saddle_fit
from substrate.arrays import memory_limit
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian, Linear, Polynomial


@pytest.fixture
def iterating(monkeypatch):
    """Conjugate gradients for few rows too, and as many iterations as there are rows."""
    monkeypatch.setattr(saddle_fit, "FACTORED_ROWS", 10)
    monkeypatch.setattr(saddle_fit, "_ROWS_PER_ITERATION", 1)


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n)


def fact(model, name):
    return dict(model.certificate_.record).get(name, "")


def assert_near(model, exact, X, y, weights=None):
    """Fitted values within what the certificate of the first states."""
    apart = np.square(model.predict(X) - exact.predict(X))
    assert np.sqrt(np.average(apart, axis=0, weights=weights)).max() <= model.certificate_.accuracy
    assert model.certificate_.holds


# ---- by the number of rows -----------------------------------------------------------------------


def test_few_rows_are_factored_and_many_are_not(monkeypatch):
    X, y = rows(900)
    monkeypatch.setattr(saddle_fit, "FACTORED_ROWS", 500)
    monkeypatch.setattr(saddle_fit, "_ROWS_PER_ITERATION", 10)
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    assert model.solver_ == "cg"
    assert fact(model, "Gram matrix") == "900 x 900, never stored"
    assert model.certificate_.accuracy <= 1e-6 * model.certificate_.spread
    few = LSSVMRegressor(RBF(1.0)).fit(X[:300], y[:300])
    assert (few.solver_, fact(few, "choice")) == ("cholesky", "")
    assert_array_equal(
        few.support_values_, LSSVMRegressor(RBF(1.0), solver="cholesky").fit(X[:300], y[:300]).support_values_
    )


def test_a_row_that_fails_leaves_the_fit_to_a_factorisation(iterating, monkeypatch):
    X, y = rows()
    right = saddle_fit.worst_rows
    calls = []

    def strict(outputs):
        calls.append(1)  # the calls of the iteration come first
        worst = right(outputs)
        return worst if len(calls) > 1 else tuple(replace(row, tolerance=1e-300, value=1.0) for row in worst)

    monkeypatch.setattr(saddle_fit, "worst_rows", strict)
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    assert model.solver_ == "cholesky"
    assert "'backward error' does not hold" in fact(model, "choice")
    assert model.certificate_.holds


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_the_accuracy_asked_for_is_reached_and_certified(iterating, tol, gamma):
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    model = LSSVMRegressor(RBF(1.0), gamma, tol=tol).fit(X, y, weights)
    exact = LSSVMRegressor(RBF(1.0), gamma, solver="cholesky").fit(X, y, weights)
    assert (model.solver_, exact.solver_) == ("cg", "cholesky")
    assert model.certificate_.accuracy <= tol * model.certificate_.spread
    assert_near(model, exact, X, y, weights)
    assert model.certify(X, y, weights).holds
    assert f"conjugate gradients, {model.n_iter_} iterations" in fact(model, "solver")


def test_outputs_with_a_gamma_each_and_sparse_rows(iterating):
    X, y = rows()
    X, Y = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), np.column_stack([y, 1e6 * y**2 + 1e8, np.full(len(y), 3.0)])
    model = LSSVMRegressor(RBF(1.0), [1.0, 5.0, 1.0]).fit(X, Y)
    exact = LSSVMRegressor(RBF(1.0), [1.0, 5.0, 1.0], solver="cholesky").fit(X, Y)
    assert model.solver_ == "cg"
    assert model.certificate_.holds
    assert_allclose(model.predict(X), exact.predict(X), atol=1e-6 * Y.std(axis=0).max())
    assert_array_equal(model.predict(X)[:, 2], 3.0)


@pytest.mark.parametrize("coding", ["one_vs_rest", "ecoc"])
def test_classes_and_what_follows_from_a_fit(iterating, coding):
    X, y = rows()
    labels = np.digitize(y, [-0.5, 0.5])
    model = LSSVMClassifier(RBF(1.0), coding=coding).fit(X, labels)
    exact = LSSVMClassifier(RBF(1.0), coding=coding, solver="cholesky").fit(X, labels)
    assert model.solver_ == "cg"
    assert model.certificate_.holds
    assert model.certify(X, labels).holds
    assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-5)
    assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=1e-4)
    left, other = model.leave_one_out(), exact.leave_one_out()
    assert left.certificate.holds
    assert_allclose(left.residuals, other.residuals, atol=1e-5)


def test_error_bars_intervals_and_components(iterating):
    X, y = rows()
    model, exact = (LSSVMRegressor(RBF(1.0), solver=solver).fit(X, y) for solver in ("auto", "cholesky"))
    for one, other in zip(model.predict(X, return_std=True), exact.predict(X, return_std=True), strict=True):
        assert_allclose(one, other, atol=1e-5)
    assert_allclose(model.leave_one_out().residuals, exact.leave_one_out().residuals, atol=1e-5)
    parts = componentwise_machine(RBF(1.0)).fit(X, y)
    assert (parts.solver_, parts.certificate_.holds) == ("cg", True)


# ---- where iterations do not do ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "unit", "gamma"),
    [(RBF(1.0), 1.0, 1e10), (Polynomial(3), 1e4, 1.0), (Linear(), 1e12, 1.0), (Laplacian(0.1), 1.0, 1e5)],
    ids=repr,
)
def test_a_factorisation_after_all_has_the_bits_of_one_at_once(iterating, kernel, unit, gamma):
    X, y = rows()
    X[:, 1] = X[0, 1]
    X[40:] = X[:50]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LSSVMRegressor(kernel, gamma).fit(unit * X, y)
        exact = LSSVMRegressor(kernel, gamma, solver="cholesky").fit(unit * X, y)
    if model.solver_ == "cholesky":
        assert "a factorisation" in fact(model, "choice")
        assert_array_equal(model.support_values_, exact.support_values_)
        assert model.certificate_.accuracy == exact.certificate_.accuracy
    else:
        assert model.certificate_.holds
    assert model.certificate_.holds >= exact.certificate_.holds


def test_a_matrix_that_memory_does_not_hold_is_computed_in_blocks(iterating):
    X, y = rows(150)
    with memory_limit(16.0 * 149**2):
        model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    assert model.solver_ == "cg"
    assert "never stored" in fact(model, "Gram matrix")
    assert_near(model, LSSVMRegressor(RBF(1.0), solver="cholesky").fit(X, y), X, y)


def test_cg_needs_a_kernel_known_to_be_definite():
    X, y = rows()
    with pytest.raises(DeclarationError, match=r"solver='cg' needs a kernel .* use solver='cholesky'"):
        LSSVMRegressor(lambda A, B: A @ B.T, solver="cg").fit(X, y)
