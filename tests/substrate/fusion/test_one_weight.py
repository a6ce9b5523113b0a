"""One weight is searched as several are: where its intervals start and end, and that tampered knots show."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sampled_cases import first

from substrate import Machine, Substrate
from substrate.errors import SolverError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import levels
from substrate.fusion.joint import _fold, _optima
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.simplex_bound import simplex_bound
from substrate.fusion.simplex_search import cell_simplices, search_simplices
from substrate.fusion.upper_ends import choose_upper_ends
from substrate.fusion.validation import check_validation
from substrate.kernels import RBF, Componentwise, Linear

EVERY = ((0.0, np.inf),)


def quiet(*_):
    return None


def fold(seed=0, n=12, d=2, n_val=8, gap=1e-3, offset=0.0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(n_val, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) + offset for P in (X, V))
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
    return _fold(machine, AffineTerms.of(machine.problem, [rho]), check_validation(machine, V, w), EVERY, gap)


def search(folds, gap, budget=300):
    """Return the knots, the search, and the end of its box."""
    store = KnotStore(list(folds))
    inner = choose_upper_ends(store, EVERY)
    cells = cell_simplices([levels(ends, 1) for ends in inner])
    return store, search_simplices(store, cells, gap, budget, quiet), inner


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_the_bound_holds_at_every_value_between_the_knots(seed):
    """Solves of their own between the knots, none below the bound of its interval."""
    one = fold(seed, gap=1e-2)
    store, found, _ = search([one], 1e-2)
    for simplex, bound in zip(found.simplices, found.bounds, strict=True):
        (low,), (high,) = (store.corners[k] for k in simplex)
        for share in (0.3, 0.5, 0.8):
            errors = one.errors(one.program.solve((low + share * (high - low),)))
            assert errors @ errors >= max(bound, found.lower_bound) * (1.0 - 1e-9)


def test_the_intervals_start_at_zero_and_end_where_nothing_changes():
    one = fold()
    store, _, inner = search([one], 1e-3)
    ((low, last),) = inner
    assert low == 0.0
    further = one.program.solve((100.0 * last,))
    assert_allclose(one.errors(further), one.errors(store.knots[0][store.add((last,))]), atol=1e-8)


def test_a_penalty_that_cannot_vanish_ends_where_it_is_smallest():
    """Absolute errors of repeated rows with two targets: some stay, whatever their weight."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-2.0, 2.0, size=(4, 1)), 2, axis=0)
    s, rho = Substrate(RBF(1.0), X, rng.normal(size=8), bias=False), cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * s.squared_norm + rho * cp.norm1(s.e))
    held = check_validation(machine, X[:3] + 0.1, np.ones(3))
    store = KnotStore([_fold(machine, AffineTerms.of(machine.problem, [rho]), held, EVERY)])
    inner = choose_upper_ends(store, EVERY)
    assert np.isfinite(inner[0][1])
    penalties = [store.folds[0].program.penalty(0, knot.x) for knot in store.knots[0]]
    assert penalties[-1] > 0.1 * penalties[0]


@pytest.mark.parametrize("what", ["x", "dual"])
def test_a_tampered_knot_shows_in_the_bound(what, monkeypatch):
    """Moved points do not solve their programs: their gap grows and the bound drops."""
    one = fold()
    store, found, _ = search([one], 1e-3)
    best, (worst, *_) = store.best, (simplex for simplex in found.simplices if store.best in simplex)
    knot, program = store.knots[0][best], one.program
    moved = getattr(knot, what).copy()
    moved += 0.05 * np.abs(moved).max() * np.random.default_rng(0).normal(size=moved.size)
    parts = {"x": knot.x, "dual": knot.dual, what: moved}
    m = program.b.size
    dual = np.append(parts["dual"][:m], np.maximum(parts["dual"][m:], 0.0))
    again = program.at(store.corners[best], program.feasible.near(parts["x"]), dual)
    assert again.gap > 1e3 * knot.gap
    before = simplex_bound(store, worst).value
    known = {store.corners[k]: again if k == best else store.knots[0][k] for k in worst}
    monkeypatch.setattr(program, "solve", known.__getitem__)
    other = KnotStore([one])
    for corner in known:
        other.add(corner)
    assert simplex_bound(other, [0, 1]).value < before * (1.0 - 1e-2)


def test_the_knots_of_another_machine_do_not_pass():
    one, other = fold(0), fold(1)
    for value in (0.01, 0.1, 1.0):
        foreign = other.program.solve((value,))
        size = one.program.q0.size
        if foreign.x.size == size and foreign.dual.size == one.program.b.size + one.program.h.size:
            point = one.program.feasible.near(foreign.x)
            assert isinstance(point, str) or one.program.at((value,), point, foreign.dual).gap > 1e-3


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_an_offset_of_the_targets_costs_no_digits_that_matter(offset):
    """The program is solved again for the step from its first point, in which there is no offset."""
    program = fold(offset=offset).program
    for value in (0.0, 1e-3, 0.05, 0.4, 3.0):
        assert program.solve((value,)).gap <= 1e-10, value


@pytest.mark.parametrize("penalty", ["alpha", "variation"])
def test_the_knots_of_tiny_weights_are_exact(penalty):
    """Their multipliers are far below the tolerance of a solver: active rows are those of larger weights."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8, 2))
    y, rho = X @ [1.0, -2.0] + 0.1 * rng.normal(size=8), cp.Parameter(nonneg=True, name="rho")
    s = Substrate(Linear() if penalty == "alpha" else Componentwise(RBF(1.5)), X, y)
    weighed = cp.norm1(s.alpha) if penalty == "alpha" else cp.sum(s.maximal_variation)
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * weighed)
    held = check_validation(machine, X[:4] + 0.1, y[:4])
    one = _fold(machine, AffineTerms.of(machine.problem, [rho]), held, EVERY, 1e-3)
    knots = {value: one.program.solve((value,)) for value in (0.0, 1e-30, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)}
    assert max(knot.gap for knot in knots.values()) <= 1e-11
    # a solver's own point reveals the same rows at a hundredth of a weight, with multipliers of a hundredth
    small, large = (one.program.eliminated.solve(one.program.linear((value,)), 0.0, 1e-12) for value in (1e-6, 1e-4))
    guesses = [{tuple(rows) for rows in one.program.eliminated.guess_rows(*point)} for point in (small, large)]
    assert penalty == "variation" or guesses[0] & guesses[1]
    # and so is the search over weights that are all tiny, with as many knots as it starts with
    store = KnotStore([one])
    cells = cell_simplices([levels((0.0, 1e-8), 1)])
    found = search_simplices(store, cells, 1e-3, 300, quiet)
    assert found.stop == "the gap of 0.001 is met"
    assert store.solves == len(cells) + 1


def test_where_every_row_is_active_all_are_found():
    """At a weight that leaves no component, slacks differ by rounding alone."""
    elimination = fold().program.eliminated
    x, rows = np.zeros(elimination.T.shape[0]), elimination.h.size
    assert not elimination.h.any()
    dual = np.append(np.zeros(elimination.rows.size + elimination.kept.size), np.geomspace(1.0, 1e-6, rows))
    nudge = np.random.default_rng(0).uniform(-1e-15, 1e-15, size=x.size)
    assert max(guess.size for guess in elimination.guess_rows(x + nudge, dual)) == rows


@pytest.mark.parametrize("inverse", [False, True])
def test_a_knot_is_an_optimum_of_its_machine(inverse):
    """Point and multipliers in the numbers of the machine, which certifies them as it does a solver's."""
    rng = np.random.default_rng(2)
    X, V = rng.uniform(-2.0, 2.0, size=(10, 2)), rng.uniform(-2.0, 2.0, size=(5, 2))
    y, u = (7.0 * np.sin(2.0 * P[:, 0]) for P in (X, V))
    weight = cp.Parameter(nonneg=True, name="weight")
    s = Substrate(RBF(1.5), X, y, bias=False) if inverse else Substrate(Componentwise(RBF(1.5)), X, y)
    objective = (
        0.5 * weight * s.squared_norm + cp.sum(cp.pos(cp.abs(s.e) - 0.1))
        if inverse
        else 0.5 * cp.sum_squares(s.e) + weight * cp.sum(s.maximal_variation)
    )
    machine = Machine(s, minimize=objective)
    terms = AffineTerms.of(machine.problem, [weight])
    assert terms.inverse == inverse
    store = KnotStore([_fold(machine, terms, check_validation(machine, V, u), EVERY, 1e-3)])
    for value in (0.05, 0.6):
        k = store.add((1.0 / value if inverse else value,))
        ((x, z),) = _optima(store, k)
        result = machine.take_optimum(x, z, weight=value)
        assert result.certificate.holds, str(result.certificate)
        assert_allclose(u - result.predict(V), store.errors[k], rtol=0.0, atol=1e-9)


def test_the_gap_that_is_asked_for_sets_how_exact_knots_are():
    assert fold(gap=1e-6).program.exact == 1e-16
    assert fold(gap=0.1).program.exact == 1e-10
    one = fold(1, gap=1e-5)
    store, found, _ = search([one], 1e-5)
    assert found.stop == "the gap of 1e-05 is met"
    assert found.lower_bound >= (1.0 - 1e-5) * store.squares.min()


def test_two_folds_search_their_common_knots():
    folds = [fold(0), fold(1, n=10)]
    store, found, _ = search(folds, 5e-2)
    assert found.stop == "the gap of 0.05 is met"
    assert store.solves == 2 * len(store.corners)
    pairs = [zip(folds, row, strict=True) for row in zip(*store.knots, strict=True)]
    expected = [sum(float(one.errors(knot) @ one.errors(knot)) for one, knot in pair) for pair in pairs]
    assert_allclose(store.squares, expected)


def test_a_failing_solver_ends_the_search_with_what_is_known(monkeypatch):
    one = fold()
    solve, count = one.program.solve, [0]

    def failing(value):
        count[0] += 1
        if count[0] > 15:
            raise SolverError("out of luck")
        return solve(value)

    monkeypatch.setattr(one.program, "solve", failing)
    store, found, _ = search([one], 1e-9)
    assert found.stop == "a solver failed: out of luck"
    assert len(store.corners) == 15
    with pytest.raises(SolverError, match="out of luck"):
        search([one], 1e-9)


def test_rounding_ends_a_search_that_asks_for_too_much():
    one = fold(gap=1e-15)
    store, found, _ = search([one], 1e-15, 2000)
    assert found.stop == "the simplices have collapsed to rounding"
    assert store.solves < 400
    assert found.lower_bound >= store.squares.min() * (1.0 - 1e-4)
