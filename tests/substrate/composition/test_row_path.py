"""The way from one machine with row losses to another: its end is the optimum of the other one, or there is none."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.composition import row_method
from substrate.composition.row_losses import read_row_losses
from substrate.composition.row_path import follow_rows
from substrate.composition.row_solution import solve_rows
from substrate.kernels import RBF


def insensitive(e, width):
    return cp.sum(cp.pos(cp.abs(e) - width))


def pinball(e, width):
    return cp.sum(cp.maximum(0.9 * e, -(0.1 + 0.0 * width) * e))


def absolute(e, width):
    return cp.norm1(e + 0.0 * width)


LOSSES = {"insensitive": insensitive, "pinball": pinball, "absolute": absolute}


def rows_of(seed, n=60, unit=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, unit * (np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=n) + 5.0)


def machine(X, y, loss, weight, width, p=0.5, bias=True):
    """The substrate, and what is read of a machine: the weight of w'w and the losses of the rows."""
    s = Substrate(RBF(1.0), X, y, bias=bias)
    objective = p * s.squared_norm + weight * LOSSES[loss](s.e, width)
    leaves = {holder.role: holder.leaf for holder in s.holders()}
    return s, read_row_losses(objective, leaves["f"], leaves.get("squared_norm"), 0.0)


def cost_of(K, point, p, losses):
    return p * float(point.a @ K @ point.a) + float(losses.values(point.f).sum())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("factor", "width", "p"), [(1.1, 0.1, 0.5), (1.0, 0.12, 0.5), (0.9, 0.09, 0.6)])
def test_the_end_of_the_way_is_the_optimum(loss, bias, factor, width, p):
    for seed, unit in ((0, 1.0), (1, 1e9), (2, 1e-9)):
        X, y = rows_of(seed, unit=unit)
        s, old = machine(X, y, loss, 3.0 / unit, 0.1 * unit, 0.5 / unit**2, bias)
        _, new = machine(X, y, loss, 3.0 * factor / unit, width * unit, p / unit**2, bias)
        K, spread = s.gram.matrix, float(np.ptp(y))
        start = solve_rows(K, old[1], old[0], bias, spread)
        way = follow_rows(K, bias, start, old, new)
        wanted = solve_rows(K, new[1], new[0], bias, spread)
        assert way.point is not None, (seed, way)
        assert_allclose(way.point.f, K @ way.point.a + way.point.b, rtol=1e-9, atol=1e-9 * spread)
        assert_allclose(way.point.f, wanted.f, rtol=0.0, atol=1e-8 * spread)
        assert not bias or abs(way.point.a.sum()) <= 1e-9 * np.abs(way.point.a).sum()
        costs = [cost_of(K, point, *new) for point in (way.point, wanted)]
        assert costs[0] <= costs[1] + 1e-9 * abs(costs[1])
        assert solve_rows(K, new[1], new[0], bias, spread, start=way.point).steps <= 1


def test_a_machine_that_is_far_away_is_not_followed():
    X, y = rows_of(0, 200)
    s, old = machine(X, y, "insensitive", 3.0, 0.1)
    start = solve_rows(s.gram.matrix, old[1], old[0], True, 2.0)
    way = follow_rows(s.gram.matrix, True, start, old, machine(X, y, "insensitive", 3e-3, 0.1)[1])
    assert way.point is None
    assert way.is_far


def test_no_way_is_known_over_curved_pieces_or_to_another_form():
    X, y = rows_of(0)
    s, old = machine(X, y, "insensitive", 3.0, 0.1)
    K = s.gram.matrix
    start = solve_rows(K, old[1], old[0], True, 2.0)
    curved = (old[0], replace(old[1], curvature=old[1].curvature + 1.0))
    assert follow_rows(K, True, start, old, curved).point is None
    other = machine(X, y, "pinball", 3.0, 0.1)[1]
    assert follow_rows(K, True, start, old, other).point is None
    assert follow_rows(K, True, start, old, old, deadline=-1.0).point is None
    assert follow_rows(K, True, start, old, old).point is not None


@pytest.mark.parametrize("hostile", ["duplicates", "ties", "constant", "few"])
def test_a_machine_that_is_solved_again_is_certified_whatever_its_rows(hostile, monkeypatch):
    X, y = rows_of(3, 2 if hostile == "few" else 40)
    if hostile == "duplicates":
        X[20:], y[20:] = X[:20], y[:20] + 0.01 * (np.arange(20) % 3)
    elif hostile == "ties":
        y = np.round(y)
    elif hostile == "constant":
        y = np.full(40, 7.0)
    followed = []

    def follow(*given):
        followed.append(follow_rows(*given))
        return followed[-1]

    monkeypatch.setattr(row_method, "follow_rows", follow)
    weight = cp.Parameter(nonneg=True, name="weight")
    s = Substrate(RBF(1.0), X, y)
    again = Machine(s, minimize=0.5 * s.squared_norm + weight * insensitive(s.e, 0.1))
    for value in (3.0, 3.3, 1e-3, 0.0):
        result = again.solve(weight=value)
        fresh = Substrate(RBF(1.0), X, y)
        once = Machine(fresh, minimize=0.5 * fresh.squared_norm + value * insensitive(fresh.e, 0.1)).solve()
        assert result.certificate.holds
        assert_allclose(result.objective, once.objective, rtol=1e-6, atol=1e-9)
    assert len(followed) == 3


def test_a_small_change_of_a_weight_is_followed_and_a_large_one_begins_anew():
    X, y = rows_of(0, 200)
    weight = cp.Parameter(nonneg=True, name="weight")
    s = Substrate(RBF(1.0), X, y)
    again = Machine(s, minimize=0.5 * s.squared_norm + weight * insensitive(s.e, 0.1))
    again.solve(weight=3.0)
    starts = []
    kept = row_method.solve_rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_method, "solve_rows", lambda *given: starts.append(given[-1]) or kept(*given))
        again.solve(weight=3.1)
        again.solve(weight=3e-3)
    assert starts[0] is not None
    assert starts[1] is None
