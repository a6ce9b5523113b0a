"""Beyond the last knot: what is claimed there is true, and nothing is claimed before the penalty has vanished."""

import cvxpy as cp
import numpy as np
import pytest

from substrate.fusion.fold import tail_distance
from substrate.fusion.parametric_qp import ParametricQP


def norms(seed=0, floor=0.0):
    """min 1/2||x - c||^2 + rho 1't under |B x| + floor <= t: its penalty falls to the floor."""
    rng = np.random.default_rng(seed)
    B, c = rng.normal(size=(7, 4)), rng.normal(size=4)
    x, t, rho = cp.Variable(4, name="x"), cp.Variable(7, name="t"), cp.Parameter(nonneg=True, name="rho")
    rows = [B @ x + floor <= t, floor - B @ x <= t]
    return ParametricQP(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - c) + rho * cp.sum(t)), rows), rho, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_all_larger_values_are_within_the_distance(seed):
    program = norms(seed)
    before, last = program.solve(20.0), program.solve(80.0)
    distance = tail_distance(program, last, before)
    assert distance <= 1e-4
    for value in (81.0, 1e3, 1e6):
        found = program.solve(value)
        assert np.sqrt(2.0 * program.distance(found.x, last.x)) <= distance + np.sqrt(found.gap)


def test_a_knot_whose_penalty_is_there_is_no_end():
    program = norms()
    assert program.penalty(program.solve(0.1).x) > 1e-3
    assert tail_distance(program, program.solve(0.1), program.solve(0.01)) is None


def test_a_penalty_that_does_not_vanish_has_no_end():
    program = norms(floor=0.5)
    assert tail_distance(program, program.solve(80.0), program.solve(20.0)) is None


def test_a_poor_knot_before_the_last_counts():
    program = norms()
    last, good, poor = program.solve(80.0), program.solve(20.0), program.solve(0.1)
    assert tail_distance(program, last, poor) > 1e3 * tail_distance(program, last, good)
