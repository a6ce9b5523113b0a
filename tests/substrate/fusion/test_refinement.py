"""The search: where it starts, where it cuts, when it ends; and that a tampered path shows."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sampled_cases import first

from substrate import Machine, Substrate
from substrate.errors import SolverError
from substrate.fusion.fuse import _fold
from substrate.fusion.refinement import refine
from substrate.fusion.validation import check_validation
from substrate.kernels import RBF, Componentwise
from substrate.penalized.homotopy.chord_certificate import interval_bounds


def quiet(*_):
    return None


def fold(seed=0, n=12, d=2, n_val=8):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(n_val, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
    return _fold(machine, rho, check_validation(machine, V, w))


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_the_bound_holds_at_every_value_between_the_knots(seed):
    """Sixty solves of their own between the knots, none below the bound of its interval."""
    one = fold(seed)
    found = refine([one], 1e-2, 200, quiet)
    bounds, _ = interval_bounds(*one.track(found.values).quadratics())
    places = np.linspace(0.0, found.values.size - 1.000001, 60)
    for place in places:
        k = int(place)
        value = found.values[k] + (place - k) * (found.values[k + 1] - found.values[k])
        errors = one.errors(one.program.solve(float(value)))
        assert errors @ errors >= bounds[k] * (1.0 - 1e-9)
        assert errors @ errors >= found.lower_bound * (1.0 - 1e-9)


def test_the_path_starts_at_zero_and_ends_where_nothing_changes():
    one = fold()
    found = refine([one], 1e-3, 200, quiet)
    assert found.complete
    assert found.values[0] == 0.0
    last = float(found.values[-1])
    further = one.program.solve(100.0 * last)
    assert_allclose(one.errors(further), one.errors(one.knots[last]), atol=1e-8)
    assert found.squares[found.best] == found.squares.min()


def test_no_knot_lies_off_the_path():
    """Near a breakpoint a polished point may leave its bounds; it must not pass for a better one."""
    rng = np.random.default_rng(0)
    X, V = rng.uniform(-2.0, 2.0, (5, 1)), rng.uniform(-2.0, 2.0, (4, 1))
    y, w = np.sin(X[:, 0]) + 0.3 * rng.normal(size=5), np.sin(V[:, 0]) + 0.3 * rng.normal(size=4)
    s = Substrate(Componentwise(RBF(1.0)), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
    one = _fold(machine, rho, check_validation(machine, V, w))
    found = refine([one], 1e-5, 300, quiet)
    assert found.stop == "the gap of 1e-05 is met"
    for value in found.values:
        knot = one.knots[float(value)]
        violated = np.maximum(one.program.G @ knot.x - one.program.h, 0.0)
        assert violated.max() <= 1e-9


@pytest.mark.parametrize("what", ["x", "dual"])
def test_a_tampered_knot_shows_in_the_bound(what):
    """Moved points do not solve their programs: their gap grows and the bound drops, or the error is worse."""
    one = fold()
    found = refine([one], 1e-3, 200, quiet)
    value = float(found.values[found.best])
    knot = one.knots[value]
    moved = getattr(knot, what).copy()
    moved += 0.05 * np.abs(moved).max() * np.random.default_rng(0).normal(size=moved.size)
    parts = {"x": knot.x, "dual": knot.dual, what: moved}
    m = one.program.b.size
    again = one.program._knot(value, parts["x"], np.append(parts["dual"][:m], np.maximum(parts["dual"][m:], 0.0)))
    assert again.gap > 1e3 * knot.gap
    one.knots[value] = again
    bounds, _ = interval_bounds(*one.track(found.values).quadratics())
    assert bounds.min() < found.lower_bound * (1.0 - 1e-2)


def test_a_swapped_path_does_not_pass():
    """The knots of another data set, put in place of ours, are not optimal for our program."""
    one, other = fold(0), fold(1)
    found = refine([one], 1e-3, 100, quiet)
    for value in found.values[1:4]:
        other.solve(float(value))
        foreign = other.knots[float(value)]
        checked = one.program._knot(float(value), foreign.x[: one.program.q0.size], foreign.dual)
        assert checked.gap > 1e-3


def test_two_folds_search_their_common_knots():
    folds = [fold(0), fold(1, n=10)]
    found = refine(folds, 5e-2, 300, quiet)
    assert found.stop == "the gap of 0.05 is met"
    assert found.solves == 2 * found.values.size
    expected = [
        sum(float(f.errors(f.knots[float(v)]) @ f.errors(f.knots[float(v)])) for f in folds) for v in found.values
    ]
    assert_allclose(found.squares, expected)
    assert found.lower_bound <= found.squares.min()


def test_a_failing_solver_ends_the_search_with_what_is_known(monkeypatch):
    one = fold()
    solve, count = one.program.solve, [0]

    def failing(value):
        count[0] += 1
        if count[0] > 15:
            raise SolverError("out of luck")
        return solve(value)

    monkeypatch.setattr(one.program, "solve", failing)
    found = refine([one], 1e-9, 300, quiet)
    assert found.stop == "a solver failed: out of luck"
    assert found.values.size > 2
    count[0] = 100
    one.knots.clear()
    with pytest.raises(SolverError, match="out of luck"):
        refine([one], 1e-9, 300, quiet)


def test_an_interruption_before_anything_is_known_is_passed_on(monkeypatch):
    one = fold()

    def interrupted(value):
        raise KeyboardInterrupt

    monkeypatch.setattr(one.program, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        refine([one], 1e-3, 100, quiet)


def test_rounding_ends_a_search_that_asks_for_too_much():
    one = fold()
    found = refine([one], 1e-15, 2000, quiet)
    assert found.stop == "the intervals have collapsed to rounding"
    assert found.solves < 1000
    assert found.lower_bound >= found.squares.min() * (1.0 - 1e-4)


def test_an_infinite_sensitivity_leaves_no_bound():
    one = replace(fold(), sigma=np.inf)
    found = refine([one], 1e-2, 300, quiet)
    assert found.lower_bound == -np.inf
    assert found.stop == "the best knot of a grid is settled"
