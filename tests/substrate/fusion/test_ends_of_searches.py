"""Every end of a search is told: interrupts and limits leave the best machine so far, a bound that is true, no proof.

A solver raises an interrupt at its k-th solve, for k from the first one on, so that every phase is met.
"""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from fused_forms import BOX, rows, tube, two_weights, variation, width

from substrate import fuse
from substrate.declare.program import Program
from substrate.errors import DeclarationError, SolverError

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

GAP = 0.02


def fused(build, over, **options):
    X, y, V, w = rows()
    return fuse(build, over=over, data=(X, y), validation=(V, w), **({"gap": GAP} | options))


def lasso(**options):
    X, y, V, w = rows()
    x, weight = cp.Variable(2), cp.Parameter(nonneg=True, name="weight")
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + weight * cp.norm1(x)))
    return fuse(problem, weight, box={weight: BOX}, validation=cp.sum_squares(V @ x - w), **({"gap": GAP} | options))


FORMS = {
    "one weight": lambda **o: fused(variation, "rho", **({"gap": 1e-3} | o)),
    "two weights": lambda **o: fused(two_weights, ("one", "two"), **o),
    "a range": lambda **o: fused(tube, "C", box={"C": BOX}, **o),
    "width of a tube": lambda **o: fused(width, "eps", box={"eps": (0.05, 0.4)}, **o),
    "folds": lambda **o: fuse(tube, over="C", data=rows()[:2], cv=2, box={"C": BOX}, **({"gap": 0.1} | o)),
    "a user's problem": lasso,
}


def interrupted_at(monkeypatch, k, error=KeyboardInterrupt):
    """Solvers of the searches that raise an error at their k-th solve, once."""
    count, solve = [0], Program.solve

    def counted(self, weights):
        count[0] += 1
        if count[0] == k:
            raise error
        return solve(self, weights)

    monkeypatch.setattr(Program, "solve", counted)
    return count


def assert_honest(early, whole, reason):
    assert reason in early.stop
    assert early.lower_bound <= early.validation_error
    assert early.lower_bound <= whole.validation_error * (1.0 + 1e-9)
    assert not early.certificate.holds
    words = str(early.certificate).splitlines()[0]
    assert "DOES NOT HOLD" in words
    assert "not proved to be the best there is" in words or "proved to be within" in words


@cache
def whole_of(name):
    """The search that nothing ends early, made where a case needs it."""
    return FORMS[name]()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("k", [2, 5, 13, 34])
@pytest.mark.covering
def test_an_interrupt_at_any_solve_keeps_the_best_so_far(name, k, monkeypatch):
    whole = whole_of(name)
    count = interrupted_at(monkeypatch, k)
    try:
        early = FORMS[name]()
    except KeyboardInterrupt:
        assert k <= 3  # nothing was known
        return
    if count[0] >= k and early.stop.startswith("interrupted"):
        assert_honest(early, whole, "interrupted")


@pytest.mark.parametrize("name", FORMS)
def test_a_spent_budget_or_time_is_told(name):
    whole = whole_of(name)
    for limits, reason in (({"budget": 12}, "budget of 12 solves is spent"), ({"time_limit": 1e-9}, "time limit")):
        assert_honest(FORMS[name](gap=1e-6, **limits), whole, reason)


def test_a_failing_solver_ends_the_search_with_what_is_known(monkeypatch):
    interrupted_at(monkeypatch, 9, SolverError("out of luck"))
    early = FORMS["one weight"](gap=1e-6)
    assert early.stop == "a solver failed: out of luck"
    assert early.lower_bound <= early.validation_error
    interrupted_at(monkeypatch, 1, SolverError("out of luck"))
    with pytest.raises(SolverError, match="out of luck"):
        FORMS["one weight"]()


def test_the_bound_is_that_of_all_cells_reached_or_not(monkeypatch):
    """The map of two weights lists every cell, with no hole, and the bound is the smallest of theirs."""
    interrupted_at(monkeypatch, 60)
    early = fused(two_weights, ("one", "two"), gap=1e-4)
    assert early.stop.startswith("interrupted")
    assert len(early.path.bounds) > 0
    assert early.lower_bound <= early.path.bounds.min() * (1.0 + 1e-12)
    corners = early.path.values[early.path.simplices]
    areas = 0.5 * np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    np.testing.assert_allclose(areas.sum(), np.prod([high - low for low, high in early.proved_on.values()]), rtol=1e-6)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), "ten"])
def test_a_limit_of_time_is_a_positive_number(seconds):
    with pytest.raises(DeclarationError, match="time_limit"):
        lasso(time_limit=seconds)
