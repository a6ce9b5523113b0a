"""The L1 substrate on a reduced basis: declared = by the path, the bound, the estimators."""

import copy
from contextlib import nullcontext

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from problems import L1SubstrateRegressor
from problems.reduced_l1_substrate import closed_form, declare
from substrate.errors import DataError
from substrate.kernels import RBF

RNG = np.random.default_rng(6)
X = RNG.normal(size=(120, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.normal(size=120)
KERNEL = RBF(1.0)
S = np.arange(0, 120, 8)
PHI = KERNEL(X, X[S])
TOP = float(np.abs((PHI - PHI.mean(axis=0)).T @ Y).max())


def model(share=0.05, **parameters):
    return L1SubstrateRegressor(KERNEL, share * TOP, **{"basis": S, **parameters})


# --- the problem ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["CLARABEL", "PIQP"])
@pytest.mark.parametrize("share", [0.3, 0.01])
def test_declared_is_from_sums(solver, share):
    K = KERNEL(X)
    declared = declare(K, Y, share * TOP, basis=S).solve(solver)
    certificate = declared.certificate(against=closed_form(K, Y, share * TOP, basis=S))
    assert certificate.holds, str(certificate)


def test_what_is_no_basis_is_refused():
    with pytest.raises(DataError, match="basis must be a list of points"):
        declare(KERNEL(X), Y, 1.0, basis=[0, 120])


# --- the bound ------------------------------------------------------------------------------------------------------


def moved(fitted, size):
    """The same machine with coefficients that are not optimal."""
    other = copy.deepcopy(fitted)
    other.support_values_ = fitted.support_values_ * (1.0 + size)
    return other


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("share", [0.5, 0.05, 1e-3])
def test_certificate_and_proof_bound_the_distance_of_moved_coefficients(share, ridge):
    pytest.importorskip("flint")
    best = model(share, ridge=ridge).fit(X, Y)
    assert best.certificate_.holds
    for size in (1e-10, 1e-3, 0.5):
        other = moved(best, size)
        distance = np.sqrt(np.mean((other.predict(X) - best.predict(X)) ** 2))
        assert other.certify(X, Y).accuracy >= distance * (1.0 - 1e-6)
        assert other.prove(X, Y).accuracy >= distance * (1.0 - 1e-6)
    assert not other.certify(X, Y).holds


def test_a_ridge_is_that_of_the_declared_norm():
    a, b, K = cp.Variable(S.size), cp.Variable(), KERNEL(X[S])
    cost = 0.5 * cp.sum_squares(Y - PHI @ a - b) + 0.05 * TOP * cp.norm1(a) + 0.25 * cp.quad_form(a, cp.psd_wrap(K))
    cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    assert_allclose(model(ridge=0.5).fit(X, Y).predict(X), PHI @ a.value + b.value, atol=1e-5)


# --- the estimators -------------------------------------------------------------------------------------------------


def test_the_estimator_is_the_problem():
    found = closed_form(KERNEL(X), Y, 0.05 * TOP, basis=S)
    fitted = model().fit(X, Y)
    assert fitted.certificate_.holds
    assert_array_equal(fitted.support_, S[found["coefficients"] != 0.0])
    assert_allclose(fitted.predict(X), Y - found["errors"], atol=1e-9)
    assert_allclose(fitted.zeta_max_, TOP)


def unknowable(wide):
    """A kernel so wide that its values differ by little more than rounding does not tell the answer, and says so."""
    return pytest.warns(ConvergenceWarning, match="larger zeta") if wide else nullcontext()


@pytest.mark.parametrize("sigma", [None, 30.0, 3000.0])
def test_from_zeta_max_on_everything_is_exactly_zero(sigma):
    """Whatever rounding makes of the sums: the last knot and zeta_max are the same number, rounded differently."""
    kernel = KERNEL if sigma is None else RBF(sigma)
    top = L1SubstrateRegressor(kernel, 1e6, basis=S).fit(X, Y).zeta_max_
    with unknowable(sigma == 3000.0):
        fitted = L1SubstrateRegressor(kernel, 0.5 * top, basis=S).fit(X, Y)
    for factor in (1.0 - 1e-12, 1.0, 1.0 + 1e-12, 2.0):
        again = L1SubstrateRegressor(kernel, factor * fitted.zeta_max_, basis=S).fit(X, Y)
        assert again.n_support_ == 0
        assert again.certificate_.holds
