"""Machines without a solution: a smallest set of constraints that contradict each other is named."""

import cvxpy as cp
import numpy as np
import pytest

from substrate import Machine, Substrate
from substrate.errors import SolverError
from substrate.kernels import RBF, Linear

X = np.linspace(-2.0, 2.0, 10)[:, None]
Y = np.sin(2.0 * X[:, 0])


def labelled(constraint, label):
    constraint.set_label(label)
    return constraint


def bounds(s):
    return [
        labelled(s.f() <= 3.0, "ceiling"),
        labelled(s.f(X[:3]) >= 1.0, "high at first"),
        labelled(s.f(X[:3]) <= 0.5, "low at first"),
        labelled(s.f(X[6:]) >= -3.0, "floor"),
    ], {"high at first", "low at first"}


def a_cycle(s):
    f = s.f()
    return [f[0] >= f[1] + 1.0, f[1] >= f[2] + 1.0, f[2] >= f[0] + 1.0, f[3] >= f[0]], {
        "constraint 1",
        "constraint 2",
        "constraint 3",
    }


def equalities(s):
    f = s.f()
    return [
        labelled(f[0] + f[1] == 1.0, "sum"),
        labelled(f[0] == 1.0, "first"),
        labelled(f[1] == 1.0, "second"),
        labelled(f[2] == 5.0, "third"),
    ], {"sum", "first", "second"}


def a_norm(s):
    return [labelled(s.norm <= 0.1, "small w"), labelled(s.f()[0] - s.f()[9] >= 3.0, "steep"), s.f() <= 100.0], {
        "small w",
        "steep",
    }


def an_own_variable(s):
    w = cp.Variable(nonneg=True, name="w")
    return [labelled(s.f()[0] + w <= -1.0, "sum"), labelled(s.f()[0] >= 0.0, "value")], {
        "sum",
        "value",
    }


def a_cone(s):
    t = cp.Variable(name="t")
    return [
        labelled(cp.SOC(t, s.f()[:2] - 5.0), "near five"),
        labelled(t <= 1.0, "radius"),
        labelled(s.f()[0] <= 0.0, "below"),
        t >= -1.0,
    ], {"near five", "radius", "below"}


CASES = [bounds, a_cycle, equalities, a_norm, an_own_variable, a_cone]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_smallest_contradictory_set_is_named(case):
    s = Substrate(RBF(1.0), X, Y)
    constraints, expected = case(s)
    objective = s.squared_norm + cp.sum_squares(s.e)
    with pytest.raises(SolverError, match="that the machine is infeasible") as caught:
        Machine(s, minimize=objective, subject_to=constraints).solve()
    assert all(name in str(caught.value) for name in expected)
    names = [constraint.label or f"constraint {k}" for k, constraint in enumerate(constraints, start=1)]
    others = {name for name in names if name not in expected}
    assert not any(f"{name} " in str(caught.value) or f"{name}," in str(caught.value) for name in others)
    assert "contradict each other" in str(caught.value)
    # without any one of them the others can be met
    for left_out in expected:
        kept = [c for name, c in zip(names, constraints, strict=True) if name in expected - {left_out}]
        Machine(s, minimize=objective, subject_to=kept).solve(certify=False)


def test_one_constraint_alone_can_be_impossible():
    s = Substrate(Linear(), np.ones((10, 1)), Y)
    impossible = labelled(s.f()[0] >= s.f()[1] + 1.0, "equal rows differ")
    machine = Machine(s, minimize=s.squared_norm + cp.sum_squares(s.e), subject_to=[impossible, s.f() <= 9.0])
    with pytest.raises(SolverError, match="equal rows differ cannot be met by any f"):
        machine.solve()
