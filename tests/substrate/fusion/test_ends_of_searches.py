"""Every end of a search is told: interrupts and limits leave the best machine so far, a bound that is true, no proof.

A solver raises an interrupt at its k-th solve, for k from the first one on, so that every phase is met: the first
solves, the search, what lies beyond it, the numbers of the proof, and the machine that is returned.
"""

import warnings
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from sampled_cases import first

from substrate import Machine, Substrate, fuse
from substrate.composition.machine import Machine as ComposedMachine
from substrate.errors import DeclarationError, LongFitWarning
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.conic_family import ConicFamily
from substrate.kernels import RBF, Componentwise
from substrate.search import best_first

pytestmark = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")

GAP = 0.02
BOX = (0.05, 20.0)


def rows(seed=0, n=14, d=2):
    rng = np.random.default_rng(seed)
    X, V = (rng.uniform(-2.0, 2.0, size=(n, d)) for _ in range(2))
    y, w = (np.sin(2.0 * P[:, 0]) + 0.3 * rng.normal(size=n) for P in (X, V))
    return X, y, V, w


def variation(X, y):
    s, rho = Substrate(Componentwise(RBF(1.5)), X, y), cp.Parameter(nonneg=True, name="rho")
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))


def two_weights(X, y):
    s = Substrate(Componentwise(RBF(1.5)), X, y, cutoff=1e-2)
    rho = [cp.Parameter(nonneg=True, name=name) for name in ("one", "two")]
    penalty = rho[0] * s.maximal_variation[0] + rho[1] * s.maximal_variation[1]
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty)


def all_squares(X, y):
    """The weight of all squares: searched as its inverse, by the intervals between knots."""
    s, tau = Substrate(RBF(1.5), X, y), cp.Parameter(nonneg=True, name="tau")
    losses = cp.norm1(s.f()) + cp.sum(cp.pos(cp.abs(s.e) - 0.1))
    return Machine(s, minimize=0.5 * tau * (s.squared_norm + cp.sum_squares(s.e)) + losses)


def tube(X, y, kernel=None):
    s, C = Substrate(kernel or RBF(1.5), X, y), cp.Parameter(nonneg=True, name="C")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def width(X, y):
    s, eps = Substrate(RBF(1.5), X, y), cp.Parameter(nonneg=True, name="eps")
    return Machine(s, minimize=0.5 * s.squared_norm + 3.0 * cp.sum(cp.pos(cp.abs(s.e) - eps)))


def fused(build, over, **options):
    X, y, V, w = rows()
    return fuse(build, over=over, data=(X, y), validation=(V, w), **({"gap": GAP} | options))


def lasso(**options):
    X, y, V, w = rows()
    x, weight = cp.Variable(2), cp.Parameter(nonneg=True, name="weight")
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X @ x - y) + weight * cp.norm1(x)))
    return fuse(problem, weight, box={weight: BOX}, validation=cp.sum_squares(V @ x - w), **({"gap": GAP} | options))


FORMS = {
    "one weight": lambda **o: fused(variation, "rho", **({"gap": 1e-4} | o)),
    "two weights": lambda **o: fused(two_weights, ("one", "two"), **o),
    "weight of all squares": lambda **o: fused(all_squares, "tau", **({"gap": 1e-4} | o)),
    "a range": lambda **o: fused(tube, "C", box={"C": BOX}, **o),
    "width of a tube": lambda **o: fused(width, "eps", box={"eps": (0.05, 0.4)}, **o),
    "folds": lambda **o: fuse(tube, over="C", data=rows()[:2], cv=2, box={"C": BOX}, **({"gap": 0.1} | o)),
    "folds of chords": lambda **o: fuse(variation, over="rho", data=rows()[:2], cv=2, **({"gap": 0.1} | o)),
    "a user's problem": lasso,
}


def interrupted_at(monkeypatch, k):
    """Solvers of the searches that raise an interrupt at their k-th solve, once."""
    count = [0]
    for cls in (AffineProgram, ConicFamily):
        solve = cls.solve

        def counted(self, *args, solve=solve):
            count[0] += 1
            if count[0] == k:
                raise KeyboardInterrupt
            return solve(self, *args)

        monkeypatch.setattr(cls, "solve", counted)
    return count


def assert_honest(early, whole, reason):
    assert reason in early.stop
    assert early.lower_bound <= early.validation_error
    assert early.lower_bound <= whole.validation_error * (1.0 + 1e-9)
    if not early.certificate.holds:
        first = str(early.certificate).splitlines()[0]
        assert "DOES NOT HOLD" in first
        assert "not proved to be the best there is" in first or "proved to be within" in first
    else:
        assert early.validation_error <= (1.0 + 2.0 * GAP) * whole.validation_error


@cache
def whole_of(name):
    """The search that nothing ends early, made where a case needs it."""
    return FORMS[name]()


@pytest.fixture
def whole(name):
    return whole_of(name)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("k", first(6, [1, 2, 5, 13, 34, 55, 3, 8, 21]))
@pytest.mark.some_cases(9)
def test_an_interrupt_at_any_solve_keeps_the_best_so_far(name, k, whole, monkeypatch):
    count = interrupted_at(monkeypatch, k)
    try:
        early = FORMS[name]()
    except KeyboardInterrupt:
        assert k <= 2 * len(whole.path.knots if hasattr(whole, "path") else [1])  # nothing was known
        return
    if count[0] < k:  # the search is shorter
        return
    assert_honest(early, whole, "interrupted")
    if early.stop.startswith("interrupted"):
        assert not early.certificate.holds


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.some_cases(4)
def test_a_spent_budget_or_time_is_told(name, whole):
    for limits, reason in (({"budget": 12}, "budget of 12 solves is spent"), ({"time_limit": 1e-9}, "time limit")):
        early = FORMS[name](gap=1e-6, **limits)
        assert_honest(early, whole, reason)
        assert not early.certificate.holds


@pytest.mark.parametrize("name", ["one weight", "a range"])
def test_an_interrupt_of_the_last_solve_returns_a_machine(name, whole, monkeypatch):
    solve, count = ComposedMachine.solve, [0]

    def interrupted(self, *args, **options):
        count[0] += 1
        if count[0] == 1:
            raise KeyboardInterrupt
        return solve(self, *args, **options)

    monkeypatch.setattr(ComposedMachine, "solve", interrupted)
    best = FORMS[name]()
    assert "interrupted while the best machine was solved" in best.stop
    np.testing.assert_allclose(best.validation_error, whole.validation_error, rtol=1e-6)


def test_the_bound_is_that_of_all_cells_reached_or_not(monkeypatch):
    """The map of two weights lists every cell: the bound is the smallest of theirs, whenever the search ended."""
    for k in (60, 70, 80):
        with monkeypatch.context() as patch:
            interrupted_at(patch, k)
            early = fused(two_weights, ("one", "two"), gap=1e-4)
        assert early.stop.startswith("interrupted")
        assert len(early.path.bounds) > 0
        assert early.lower_bound <= early.path.bounds.min()


def test_no_weight_is_below_the_bound_of_a_search_that_ended_early(monkeypatch):
    X, y, V, w = rows()
    machine = tube(X, y)
    for k in (5, 8, 12):
        with monkeypatch.context() as patch:
            interrupted_at(patch, k)
            early = fuse(machine, over="C", validation=(V, w), box={"C": BOX}, gap=1e-3)
        assert not early.certificate.holds
        for C in np.geomspace(*BOX, 9):
            error = float(np.mean((w - machine.solve(C=float(C)).predict(V)) ** 2))
            assert error >= early.lower_bound * (1.0 - 1e-6)


# --- estimates and limits of time -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
def test_the_result_has_an_estimate_of_the_time(name, whole):
    estimate = whole.estimate
    assert 0.0 < estimate.seconds <= estimate.most
    assert estimate.solves >= 1
    assert "about" in str(estimate)
    assert "at most" in str(estimate)


def test_a_limit_of_time_is_the_most_of_the_estimate():
    best = lasso(time_limit=3600.0, budget=10**9)
    assert best.certificate.holds
    assert best.estimate.most == 3600.0


def test_very_long_work_is_announced(monkeypatch):
    monkeypatch.setattr(best_first, "_LONG", 0.0)
    with pytest.warns(LongFitWarning, match="time_limit="):
        lasso()


def test_the_estimate_counts_the_solves_left():
    limits = best_first.Limits(100)
    limits.announce(10, 3.0, limits.started)
    assert limits.estimate.solves == 10
    first = limits.estimate
    np.testing.assert_allclose(first.most, first.seconds * 100.0 / 30.0, rtol=0.3)
    limits.announce(50, 3.0, limits.started)
    assert limits.estimate is first


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), "ten"])
def test_a_limit_of_time_is_a_positive_number(seconds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in ("one weight", "a user's problem"):
            with pytest.raises(DeclarationError, match="time_limit"):
                FORMS[form](time_limit=seconds)
