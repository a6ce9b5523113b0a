"""Quantile regression with the new row among the rows: against a conic solver, its limits, and its coverage."""

import cvxpy as cp
import numpy as np
import pytest
from sampled_cases import first

from problems import LSSVMRegressor, RobustLSSVMRegressor
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed
from substrate.uncertainty import ConditionalQuantiles


def solve_multipliers(K, scores, level, lam):
    """Return the multipliers of all rows by the dual problem."""
    eta = cp.Variable(scores.size)
    root = np.linalg.cholesky(K)
    value = cp.sum_squares(root.T @ eta) / (2.0 * lam) - scores @ eta
    problem = cp.Problem(cp.Minimize(value), [eta <= level, eta >= level - 1.0, cp.sum(eta) == 0.0])
    problem.solve(solver="CLARABEL")
    return eta.value


@pytest.mark.parametrize(("level", "rho"), [(0.8, 0.01), (0.9, 1e-3), (0.5, 0.3)])
def test_the_multiplier_of_the_new_row_reaches_the_level_at_the_largest_score(level, rho):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-2.0, 2.0, (30, 1)), rng.uniform(-2.5, 2.5, (3, 1))
    scores = np.abs(rng.normal(size=30) * (0.2 + np.abs(X[:, 0])))
    scores[5], X[6] = scores[4], X[7]  # a tie, and two scores at one point
    quantiles = ConditionalQuantiles.of(RBF(0.8)(X), scores, level, rho)
    assert quantiles.violation(quantiles.state, 0.0, np.zeros(30)) < 1e-10
    values = RBF(0.8)(X, Z)
    for j, bound in enumerate(quantiles.bounds(values, np.ones(3))):
        column = values[:, [j]]
        K = np.block([[quantiles.K, column], [column.T, np.array([[1.0 + quantiles.own]])]])
        below, above = (
            solve_multipliers(K, np.append(scores, bound + step), level, quantiles.lam)[-1] for step in (-0.02, 0.02)
        )
        assert below < level - 1e-4
        np.testing.assert_allclose(above, level, atol=1e-5)


def test_a_large_penalty_is_the_split_conformal_interval():
    """Without a function h_K there is one quantile: the k-th smallest of n scores and infinity."""
    scores = np.random.default_rng(1).exponential(size=39)
    X = np.random.default_rng(2).normal(size=(39, 2))
    quantiles = ConditionalQuantiles.of(RBF(1.0)(X), scores, 0.9, 1e9)
    bounds = quantiles.bounds(RBF(1.0)(X, X[:4]), np.ones(4))
    np.testing.assert_allclose(bounds, np.sort(scores)[35], rtol=1e-6)  # ceil(0.9 * 40) = 36
    np.testing.assert_allclose(quantiles.losses(RBF(1.0)(X, X[:4])), 0.0, atol=0.9)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_of_the_scores_change_nothing_but_units(unit):
    """The penalty is in units of the scores: rho times unit, and scores over it."""
    scores = np.random.default_rng(3).exponential(size=25)
    K = RBF(1.0)(np.random.default_rng(4).normal(size=(25, 1)))
    values = K[:, :3]
    plain = ConditionalQuantiles.of(K, scores, 0.8, 0.1).bounds(values, np.ones(3))
    scaled = ConditionalQuantiles.of(K, unit * scores, 0.8, 0.1 / unit).bounds(values, np.ones(3))
    np.testing.assert_allclose(scaled, unit * plain, rtol=1e-6)


def test_few_rows_and_equal_scores():
    K = RBF(1.0)(np.arange(8.0)[:, None])
    assert np.isinf(ConditionalQuantiles.of(K, np.ones(8), 0.9, 0.1).bounds(K[:, :1], np.ones(1))).all()
    K = RBF(1.0)(np.zeros((20, 1)))
    np.testing.assert_allclose(ConditionalQuantiles.of(K, np.ones(20), 0.9, 0.1).bounds(K[:, :1], [1.0]), 1.0)


def draw(rng, n):
    X = rng.uniform(-2.0, 2.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0]) + rng.normal(size=n) * (0.1 + 0.125 * (X[:, 0] + 2.0))


@pytest.mark.parametrize("estimator", first(1, [LSSVMRegressor, RobustLSSVMRegressor]))
def test_coverage_holds_and_is_even_where_errors_are_not(estimator):
    """Over draws the mean coverage is the level, and the thirds are nearer to it than those of split intervals."""
    rng, conditional, split = np.random.default_rng(5), [], []
    model = estimator(RBF(1.0), 5.0, standardize=True).fit(*draw(rng, 80))
    for _ in range(8):
        rows, (X, y) = draw(rng, 60), draw(rng, 60)
        found = model.predict_conditional_interval(X, rows, 0.9)
        ends = model.calibrate(*rows).predict_interval(X, 0.9, "split")
        third = np.digitize(X[:, 0], [-2.0 / 3.0, 2.0 / 3.0])
        for each, kept in ((found.ends, conditional), (ends, split)):
            inside = (each[:, 0] <= y) & (y <= each[:, 1])
            kept.append([inside.mean(), *(inside[third == k].mean() for k in range(3))])
    mean, of_split = np.mean(conditional, axis=0), np.mean(split, axis=0)
    assert mean[0] > 0.86
    assert np.ptp(mean[1:]) < 0.5 * np.ptp(of_split[1:])
    assert found.losses.max() < 0.1
    assert "covers at least 0.9 of new rows in finite samples" in str(found)


def test_bad_calibration_rows_are_refused():
    X, y = draw(np.random.default_rng(6), 30)
    model = LSSVMRegressor(RBF(1.0)).fit(X, y)
    with pytest.raises(DataError, match="rows must be a pair"):
        model.predict_conditional_interval(X, X)
    with pytest.raises(DataError, match="one target for each of at least 2 calibration rows"):
        model.predict_conditional_interval(X, (X, y[:-1]))
    with pytest.raises(DeclarationError, match="regularization"):
        model.predict_conditional_interval(X, (X, y), regularization=0.0)
    with pytest.raises(DeclarationError, match="one output"):
        LSSVMRegressor(RBF(1.0)).fit(X, np.column_stack([y, y])).predict_conditional_interval(X, (X, y))
    with pytest.raises(DeclarationError, match="by their inputs"):
        LSSVMRegressor(Precomputed()).fit(RBF(1.0)(X), y).predict_conditional_interval(X, (X, y))
