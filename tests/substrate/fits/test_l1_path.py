"""The L1 path: against one zeta, a conic solver and lars_path; ties and dependence; what tampering does."""

import cvxpy as cp
import numpy as np
import pytest
from path_instances import knots_and_midpoints, l1_instance, l1_point_rows, rbf
from sklearn.linear_model import lars_path

from substrate.fits.l1 import solve_l1, zeta_max
from substrate.fits.paths import Path, correlation_noise, l1_path


def smooth(n=60, seed=0, width=0.7):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return rbf(X, width), np.sin(4.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def worst(path: Path, Phi, y, zero_sum=True, values=None):
    """The largest relative residual over knots and midpoints, leaving out zeta so small that it is zero."""
    values = knots_and_midpoints(path) if values is None else values
    rows = [
        row.relative
        for zeta in values
        if zeta > 1e-9 * path.values[-1]
        for point in [path.at(float(zeta))]
        for row in l1_point_rows(Phi, y, float(zeta), point.primal, point.bias, zero_sum)
    ]
    return max(rows)


def test_the_path_begins_where_the_closed_form_says_and_two_atoms_enter_together():
    K, y = smooth()
    path = l1_path(K, y)
    assert path.values[-1] == pytest.approx(zeta_max(K, y), abs=correlation_noise(K, y - y.mean()))
    assert not path.at(path.values[-1]).primal.any()
    assert not path.at(10.0 * path.values[-1]).primal.any()
    assert path.at(path.values[-1]).bias == pytest.approx(y.mean(), rel=1e-13)
    first = path.primal[[-2]].toarray()[0]
    assert np.sign(first[first != 0.0]).tolist() in ([1.0, -1.0], [-1.0, 1.0])


@pytest.mark.parametrize("share", [0.9, 0.31, 0.013, 2e-4])
def test_between_knots_it_equals_the_solution_there(share):
    K, y = smooth()
    zeta = share * zeta_max(K, y)
    point, other = l1_path(K, y).at(zeta), solve_l1(K, y, zeta)
    np.testing.assert_allclose(point.primal, other.coefficients, atol=1e-7 * np.abs(other.coefficients).max())
    assert np.array_equal(point.primal != 0.0, other.coefficients != 0.0)
    assert point.bias == pytest.approx(other.bias, rel=1e-7)


def test_between_knots_it_equals_a_conic_solver():
    """:equation [Pelckmans2005]_ (16): the path against a conic solver."""
    rng = np.random.default_rng(3)
    Phi, y = rng.standard_normal((25, 12)), rng.standard_normal(25)
    path = l1_path(Phi, y, 0.0)
    for zeta in rng.uniform(0.01, 1.0, 4) * path.values[-1]:
        a, b = cp.Variable(12), cp.Variable()
        cost = 0.5 * cp.sum_squares(y - Phi @ a - b) + zeta * cp.norm1(a)
        cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0]).solve(solver="CLARABEL")
        np.testing.assert_allclose(path.at(zeta).primal, a.value, atol=1e-5)
        assert path.at(zeta).bias == pytest.approx(float(b.value), abs=1e-5)


@pytest.mark.parametrize("shape", [(40, 15), (30, 30), (20, 45)])
def test_without_the_equality_it_is_lars_path(shape):
    rng = np.random.default_rng(1)
    Phi, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    centred = Phi - Phi.mean(axis=0)
    alphas, _, coefficients = lars_path(centred, y - y.mean(), method="lasso")
    path = l1_path(Phi, y, 1e-3 * alphas[0] * shape[0], zero_sum=False)
    for alpha, a in zip(alphas, coefficients.T, strict=True):
        if path.lowest <= alpha * shape[0] <= path.highest:
            np.testing.assert_allclose(path.at(alpha * shape[0]).primal, a, atol=1e-10)
    expected = (alphas * shape[0] > 1.001e-3 * alphas[0] * shape[0]).sum()
    assert len(path) == expected + 1, "as many knots, and the end"


@pytest.mark.parametrize("zero_sum", [True, False])
@pytest.mark.parametrize("seed", range(14))
@pytest.mark.covering
def test_residuals_at_knots_and_midpoints(seed, zero_sum):
    kind, Phi, y = l1_instance(seed)
    path = l1_path(Phi, y, zero_sum=zero_sum)
    assert worst(path, Phi, y, zero_sum) < 1e-9, kind
    assert path.complete


def test_rounding_ends_the_path_and_is_said():
    rng = np.random.default_rng(11)
    K = rbf(rng.standard_normal((60, 1)), 2.0)
    path = l1_path(K, rng.standard_normal(60), 0.0)
    assert path.stop.startswith("stopped where")
    assert path.values[0] > 0.0


def test_tampering_with_a_knot_makes_rows_fail():
    K, y = smooth(30)
    path = l1_path(K, y)
    k = len(path) // 2
    zeta, a = float(path.values[k]), path.primal[[k]].toarray()[0]
    exact = a.copy()
    assert all(row.passes for row in l1_point_rows(K, y, zeta, a, path.bias[k]))
    a[np.flatnonzero(a)[0]] *= 1.001
    failed = {row.name for row in l1_point_rows(K, y, zeta, a, path.bias[k]) if not row.passes}
    assert {"duality gap", "1'alpha = 0", "subgradient slackness"} <= failed
    early = {row.name for row in l1_point_rows(K, y, 1.01 * zeta, exact, path.bias[k]) if not row.passes}
    assert "duality gap" in early
