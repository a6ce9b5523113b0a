"""Gamma on a reduced basis with weights of rows: the criterion against refits, and its bound against a grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.kernels import RBF

RNG = np.random.default_rng(8)
N = 30
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=N)
V = RNG.uniform(1.0, 40.0, size=N)
V[::9] = 0.0
KEPT = np.flatnonzero(V)
FEW, MANY = X[:8] + 0.05, X[KEPT]


def refitted(gamma, cv, points):
    """The criterion by fits without the rows that are left out, weighted means of squares."""
    rows, targets, v = X[KEPT], Y[KEPT], V[KEPT]
    model = LSSVMRegressor(RBF(1.0), gamma, basis=points)
    if cv == "gcv":
        model.fit(rows, targets, sample_weight=v)
        # leverages are averaged by weight: the leverage of a row is what it predicts of a unit of its target
        unit = np.eye(KEPT.size)
        own = [model.fit(rows, one, sample_weight=v).predict(rows)[i] for i, one in enumerate(unit)]
        model.fit(rows, targets, sample_weight=v)
        spare = 1.0 - np.average(own, weights=v)
        return np.average((targets - model.predict(rows)) ** 2, weights=v) / spare**2
    splits = list(KFold(KEPT.size if cv == "loo" else cv).split(rows))
    errors = np.empty(KEPT.size)
    for train, test in splits:
        errors[test] = targets[test] - model.fit(rows[train], targets[train], sample_weight=v[train]).predict(
            rows[test]
        )
    if cv == "loo":
        return np.average(errors**2, weights=v)
    return np.mean([np.average(errors[test] ** 2, weights=v[test]) for _, test in splits])


@pytest.mark.parametrize(
    "points", [pytest.param(FEW, id="few"), pytest.param(MANY, id="as many as rows", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("cv", ["loo", "gcv", 3])
@pytest.mark.some_cases(1)
def test_the_criterion_is_that_of_weighted_refits_and_its_bound_is_below_a_grid(cv, points):
    model = LSSVMRegressorCV(RBF(1.0), basis=points, cv=cv, gamma_range=(1e-3, 10.0)).fit(X, Y, sample_weight=V)
    assert model.certificate_.holds
    assert_allclose(model.criterion_, refitted(model.gamma_, cv, points), rtol=1e-8)
    low, high = model.gamma_range_
    assert_allclose((low, high), (1e-3, 10.0), rtol=1e-12)
    assert low <= model.gamma_ <= high
    for gamma in (1e-2, min(1.1 * model.gamma_, high), model.gamma_ / 1.1):
        value = refitted(gamma, cv, points)
        assert value >= model.criterion_lower_bound_
        assert value >= (1.0 - 2.0 * model.gap) * model.criterion_
    plain = LSSVMRegressor(RBF(1.0), model.gamma_, basis=points).fit(X, Y, sample_weight=V)
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    assert_allclose(model.degrees_of_freedom_, plain.degrees_of_freedom_, rtol=1e-10)


@pytest.mark.parametrize("cv", ["loo", 3])
def test_a_factor_of_all_weights_is_one_of_gamma_and_the_default_range_follows(cv):
    model = LSSVMRegressorCV(RBF(1.0), basis=FEW, cv=cv).fit(X, Y, sample_weight=V)
    heavy = LSSVMRegressorCV(RBF(1.0), basis=FEW, cv=cv).fit(X, Y, sample_weight=1e6 * V)
    assert_allclose(heavy.gamma_, 1e-6 * model.gamma_, rtol=1e-6)
    assert_allclose(heavy.criterion_, model.criterion_, rtol=1e-9)
    assert_allclose(heavy.gamma_range_, 1e-6 * model.gamma_range_, rtol=1e-9)
    left, again = model.leave_one_out(X, Y, V), heavy.leave_one_out(X, Y, 1e6 * V)
    assert left.certificate.holds
    assert again.certificate.holds
    assert_allclose(left.residuals, again.residuals, rtol=1e-8)
    if cv == "loo":
        assert_allclose(model.criterion_, np.average(left.residuals**2, weights=V[KEPT]), rtol=1e-9)


@pytest.mark.parametrize(
    ("cv", "points"),
    [("loo", FEW), ("gcv", FEW)],
)
def test_rows_of_vanishing_weight_count_as_absent_ones(cv, points):
    heavy = np.arange(0, N, 3)
    weights = np.where(np.isin(np.arange(N), heavy), 2.0, 2e-30)
    kernels = [RBF(0.03), RBF(1.0)]
    model = LSSVMRegressorCV(kernels=kernels, basis=points, cv=cv).fit(X, Y, sample_weight=weights)
    absent = LSSVMRegressorCV(kernels=kernels, basis=points, cv=cv).fit(X[heavy], Y[heavy])
    assert model.certificate_.holds
    assert model.kernel_ == absent.kernel_
    assert_allclose(model.criterion_, absent.criterion_, rtol=1e-8)
    assert_allclose(2.0 * model.gamma_, absent.gamma_, rtol=1e-5)
    assert_allclose(model.cv_results_["mean_test_score"], absent.cv_results_["mean_test_score"], rtol=1e-8)
    left = model.leave_one_out(X, Y, weights)
    assert_allclose(left.gcv, absent.leave_one_out(X[heavy], Y[heavy]).gcv, rtol=1e-7)
