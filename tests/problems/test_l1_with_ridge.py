"""The L1 substrate with a ridge on w: agreement, limits, bounds that are true, files and refusals."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import L1SubstrateClassifier, L1SubstrateRegressor, LSSVMRegressor, l1_substrate
from substrate.certificate import Tolerance
from substrate.errors import DeclarationError
from substrate.fits.l1 import solve_l1
from substrate.kernels import RBF
from substrate.penalties import Columns, OneNorm, accuracy_of

KERNEL = RBF(1.0)


def data(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def written_down(K, y, zeta, ridge):
    a, b = cp.Variable(y.size), cp.Variable()
    cost = 0.5 * cp.sum_squares(y - K @ a - b) + zeta * cp.norm1(a) + 0.5 * ridge * cp.quad_form(a, cp.psd_wrap(K))
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value, K @ a.value + b.value


# ---- agreement and limits ------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.05, 5.0])
@pytest.mark.parametrize("zeta", [0.05, 2.0])
def test_fast_path_declared_and_written_down_agree(zeta, ridge):
    X, y = data()
    K = KERNEL(X)
    value, fitted = written_down(K, y, zeta, ridge)
    fast = l1_substrate.closed_form(K, y, zeta, ridge=ridge)
    a, e = fast["support_values"], fast["errors"]
    assert_allclose(0.5 * e @ e + zeta * np.abs(a).sum() + 0.5 * ridge * a @ K @ a, value, rtol=1e-8)
    assert_allclose(y - e, fitted, atol=1e-5)
    assert 0 < np.count_nonzero(a) < y.size
    declared = l1_substrate.declare(K, y, zeta, ridge=ridge).solve()
    certificate = declared.certificate(against=fast)
    assert certificate.holds, str(certificate)
    declared.parameters["ridge"].value = 2.0 * ridge
    assert {"subgradient slackness", "accuracy"} <= {row.name for row in declared.certificate().failures}
    again = declared.solve().certificate(against=l1_substrate.closed_form(K, y, zeta, ridge=2.0 * ridge))
    assert again.holds, str(again)


def test_the_limit_of_small_zeta_is_the_ls_svm():
    X, y = data()
    model = L1SubstrateRegressor(KERNEL, 1e-9, ridge=0.1).fit(X, y)
    assert_allclose(model.predict(X), LSSVMRegressor(KERNEL, 10.0).fit(X, y).predict(X), atol=1e-6)


def test_the_limit_of_a_small_ridge_is_the_sparse_substrate():
    X, y = data()
    model, plain = (L1SubstrateRegressor(KERNEL, 0.1, ridge=ridge).fit(X, y) for ridge in (1e-10, 0.0))
    assert_array_equal(model.support_, plain.support_)
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-8)


# ---- the answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("zeta", "ridge"), [(1e-4, 1.0), (0.1, 1e-3), (0.1, 100.0), (2.0, 1.0)])
def test_bounds_are_small_at_the_optimum_and_true_beside_it(zeta, ridge):
    X, y = data(20)
    K, rng = KERNEL(X), np.random.default_rng(1)
    solved = solve_l1(K, y, zeta, ridge=ridge)
    best, tolerance = K @ solved.coefficients + solved.bias, Tolerance.of(y, np.ones(20), 1e-6)
    for size in (0.0, 1e-8, 1e-4, 0.1):
        a = solved.coefficients * (1.0 + size * rng.normal(size=y.size))
        fitted = K @ a + solved.bias
        row = accuracy_of(Columns.of_kernel(KERNEL, X, K, ridge), OneNorm(zeta), y, a, fitted, tolerance)
        assert row.value >= np.sqrt(np.mean((fitted - best) ** 2)) - 1e-12
        assert row.passes or size > 0.0
        other = accuracy_of(Columns.of_kernel(KERNEL, X, K, 1.5 * ridge), OneNorm(zeta), y, a, fitted, tolerance)
        true = solve_l1(K, y, zeta, ridge=1.5 * ridge)
        assert other.value >= np.sqrt(np.mean((fitted - K @ true.coefficients - true.bias) ** 2)) - 1e-12


def test_certify_and_prove_know_the_ridge():
    pytest.importorskip("flint")
    X, y = data(20)
    model = L1SubstrateRegressor(KERNEL, 0.1, ridge=0.5).fit(X, y)
    assert model.certificate_.holds, str(model.certificate_)
    assert "0.5/2 w'w" in dict(model.certificate_.record)["ridge"]
    assert model.certify(X, y).holds
    assert model.prove(X, y).proved
    model.ridge = 1.0
    assert not model.certify(X, y).holds
    assert not model.prove(X, y).proved


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_a_bad_ridge_is_refused_by_name(wrong):
    X, y = data(12)
    for estimator, target in ((L1SubstrateRegressor, y), (L1SubstrateClassifier, y > 1.0)):
        with pytest.raises(DeclarationError, match="ridge must be"):
            estimator(KERNEL, ridge=wrong).fit(X, target)
    for function in (l1_substrate.declare, l1_substrate.closed_form):
        with pytest.raises(DeclarationError, match="ridge must be"):
            function(KERNEL(X), y, 0.1, ridge=wrong)
