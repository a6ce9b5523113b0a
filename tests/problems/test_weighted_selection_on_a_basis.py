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


@pytest.mark.parametrize("points", [pytest.param(FEW, id="few"), pytest.param(MANY, id="as many as rows")])
@pytest.mark.parametrize("cv", ["loo", "gcv", 3])
@pytest.mark.covering
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
