"""``solver="auto"``: a factorisation or conjugate gradients, the same answer to ``tol``, and a record of which."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from problems import LSSVMRegressor
from substrate.errors import DeclarationError
from substrate.kernels import RBF


@pytest.fixture
def iterating(monkeypatch):
    """Conjugate gradients for few rows too, and as many iterations as there are rows."""
    monkeypatch.setattr("problems.estimators.full.saddle_machine.FACTORED_ROWS", 10)
    monkeypatch.setattr("problems.estimators.full.saddle_machine._ROWS_PER_ITERATION", 1)


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
    monkeypatch.setattr("problems.estimators.full.saddle_machine.FACTORED_ROWS", 500)
    monkeypatch.setattr("problems.estimators.full.saddle_machine._ROWS_PER_ITERATION", 10)
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    assert model.solver_ == "cg"
    assert fact(model, "Gram matrix") == "900 x 900, never stored"
    assert model.certificate_.accuracy <= 1e-6 * model.certificate_.spread
    few = LSSVMRegressor(RBF(1.0)).fit(X[:300], y[:300])
    assert (few.solver_, fact(few, "choice")) == ("cholesky", "")
    assert_array_equal(
        few.support_values_, LSSVMRegressor(RBF(1.0), solver="cholesky").fit(X[:300], y[:300]).support_values_
    )


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


# ---- where iterations do not do ------------------------------------------------------------------


def test_cg_needs_a_kernel_known_to_be_definite():
    X, y = rows()
    with pytest.raises(DeclarationError, match=r"solver='cg' needs a kernel .* use solver='cholesky'"):
        LSSVMRegressor(lambda A, B: A @ B.T, solver="cg").fit(X, y)
