"""The path of maximal variation: against lars_path, a conic solver and a linear program; ties, dependence."""

import cvxpy as cp
import numpy as np
import pytest
from path_instances import (
    knots_and_midpoints,
    prox_form,
    rbf,
    shared_form,
    variation_instance,
    variation_point_rows,
)
from scipy.optimize import linprog
from sklearn.linear_model import lars_path

from substrate.fits.paths import Path, variation_path


def smooth(n=18, d=3, seed=0, width=0.3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    y = 5.0 * np.sin(4.0 * X[:, 0]) + 3.0 * X[:, 1] + rng.standard_normal(n)
    return shared_form([rbf(x[:, None], width) for x in X.T], y)


def worst(path: Path, parts, target, most=400):
    """The largest relative residual over knots and midpoints, thinned out where there are many."""
    values = knots_and_midpoints(path)
    values = np.append(values[:: max(1, values.size // most)], path.values[-1])
    rows = [
        row.relative
        for rho in values
        for point in [path.at(float(rho))]
        for row in variation_point_rows(parts, target, float(rho), point.primal, point.dual)
    ]
    return max(rows)


def naive(parts, target, rho):
    u, t = cp.Variable(target.size), cp.Variable(len(parts))
    limits = [cp.abs(part @ u) <= t[k] for k, part in enumerate(parts)]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(u - target) + rho * cp.sum(t)), limits)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return u.value, problem.value


def smallest_rho(parts, target):
    """The linear program: the least rho whose multipliers leave u = 0."""
    B = np.vstack(parts)
    p = B.shape[0]
    home = np.repeat(np.eye(len(parts)), [part.shape[0] for part in parts], axis=0).T
    sums = np.hstack([home, home, -np.ones((len(parts), 1))])
    cost = np.append(np.zeros(2 * p), 1.0)
    equal = np.hstack([B.T, -B.T, np.zeros((target.size, 1))])
    return linprog(cost, A_ub=sums, b_ub=np.zeros(len(parts)), A_eq=equal, b_eq=target, method="highs").fun


def test_the_path_begins_at_the_target_and_ends_at_zero():
    form = smooth()
    path = variation_path(form.parts, form.target)
    assert path.values[0] == 0.0
    rounding = form.target.size * np.finfo(float).eps * np.linalg.norm(form.target)  # into its unit and back
    np.testing.assert_allclose(path.at(0.0).primal, form.target, rtol=0.0, atol=rounding)
    assert not path.at(0.0).dual.any()
    assert path.stop == "all components have vanished"
    assert path.complete
    assert not path.at(2.0 * path.values[-1]).primal.any()
    beyond = variation_point_rows(form.parts, form.target, 2.0 * path.values[-1], *path.at(2.0 * path.values[-1])[1:3])
    assert all(row.passes for row in beyond)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_where_the_linear_program_says(seed):
    form = smooth(seed=seed)
    path = variation_path(form.parts, form.target)
    assert path.values[-1] == pytest.approx(smallest_rho(form.parts, form.target), rel=1e-4)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (60, 12)])
def test_with_linear_kernels_it_is_lars_path(n, d):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    X = X / np.abs(X).max(axis=0)
    centred = X - X.mean(axis=0)
    form = prox_form(centred, y - y.mean(), [np.outer(x, one) for x, one in zip(X.T, np.eye(d), strict=True)])
    path = variation_path(form.parts, form.target)
    alphas, _, coefficients = lars_path(centred, y - y.mean(), method="lasso")
    for alpha, expected in zip(alphas, coefficients.T, strict=True):
        np.testing.assert_allclose(form.expand(path.at(n * alpha).primal), expected, atol=1e-11)
    assert path.values[-1] == pytest.approx(n * alphas[0], rel=1e-6)


def test_between_knots_it_equals_a_conic_solver():
    """:equation [Pelckmans2005]_ (25): the path against a conic solver."""
    form = smooth()
    path = variation_path(form.parts, form.target)
    for rho in np.random.default_rng(1).uniform(0.0, 1.1, 6) * path.values[-1]:
        u, value = naive(form.parts, form.target, rho)
        point = path.at(rho)
        np.testing.assert_allclose(point.primal, u, atol=2e-5 * np.abs(form.target).max())
        levels = sum(np.abs(part @ point.primal).max() for part in form.parts)
        ours = 0.5 * np.sum((point.primal - form.target) ** 2) + rho * levels
        assert ours == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_random_instances_complete_or_say_so(seed):
    kind, parts, target = variation_instance(seed)
    path = variation_path(parts, target)
    assert path.complete, (kind, path.stop)
    assert worst(path, parts, target) < 1e-8, kind


def test_tampering_with_a_knot_makes_rows_fail():
    """:equation [Pelckmans2005]_ (27a)-(27f): a changed knot breaks them."""
    form = smooth()
    path = variation_path(form.parts, form.target)
    k = len(path) // 2
    rho, u, xi = float(path.values[k]), path.primal[k], path.dual[[k]].toarray()[0]

    def failed(rho, u, xi):
        return {row.name for row in variation_point_rows(form.parts, form.target, rho, u, xi) if not row.passes}

    assert failed(rho, u, xi) == set()
    assert {"u = y - B'xi", "duality gap"} <= failed(rho, 1.001 * u, xi)
    assert {"u = y - B'xi", "|xi^l|_1 <= rho"} <= failed(rho, u, 1.001 * xi)
    assert {"|xi^l|_1 <= rho", "complementarity", "duality gap"} <= failed(0.999 * rho, u, xi)
    assert {"complementarity", "duality gap"} <= failed(1.001 * rho, u, xi)
