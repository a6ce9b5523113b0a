"""The program for SCIP: how its endings are taken. What it finds is tested with the problems that use it."""

from types import SimpleNamespace

import pytest

from substrate.errors import SolverError
from substrate.fusion.complementarity_program import _ComplementarityModel


def _ended(status, points=1):
    asked = {}
    model = SimpleNamespace(
        setParam=asked.__setitem__, optimize=lambda: None, getStatus=lambda: status, getNSols=lambda: points
    )
    return SimpleNamespace(model=model), asked


@pytest.mark.parametrize("status", ["optimal", "gaplimit", "timelimit"])
def test_an_ending_with_a_point_is_reported_and_the_limit_reaches_scip(status):
    program, asked = _ended(status)
    assert _ComplementarityModel.run(program, 7.0) == status
    assert asked == {"limits/time": 7.0}


def test_an_interrupt_that_scip_takes_for_its_own_is_raised():
    program, _ = _ended("userinterrupt")
    with pytest.raises(KeyboardInterrupt):
        _ComplementarityModel.run(program, 7.0)


@pytest.mark.parametrize(("status", "points"), [("timelimit", 0), ("unbounded", 1)])
def test_other_endings_are_errors(status, points):
    program, _ = _ended(status, points)
    with pytest.raises(SolverError, match=f"SCIP ended with {status} and {points} points"):
        _ComplementarityModel.run(program, 7.0)
