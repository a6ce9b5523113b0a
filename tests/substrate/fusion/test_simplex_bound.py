"""The bound over a simplex is below the error at every point of it, and tight where that is known by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.knot_store import KnotStore
from substrate.fusion.simplex_bound import nearest_combination, simplex_bound
from tests.oracles.joint_machines import MACHINES, lines, ridge_line, rows, store_of, two_groups

#: What double precision may have changed in the independent solves.
ROUNDING = 1e-9


def corners(rng, box):
    """The corners of a random simplex: of any size, and often on the border of the box."""
    width = 10.0 ** rng.uniform(-2.5, 0.0)
    centre = [low + (high - low) * rng.random() ** 4 for low, high in box]
    found = []
    for _ in range(len(box) + 1):
        moved = [c * (1.0 + width * rng.uniform(-1.0, 1.0)) for c in centre]
        at = [low if rng.random() < 0.1 else np.clip(m, low, high) for m, (low, high) in zip(moved, box, strict=True)]
        found.append(tuple(map(float, at)))
    return found


def scan(store, box, rng, simplices, points):
    """The smallest ratio of an error in a simplex to the bound of that simplex."""
    smallest, (fold,) = np.inf, store.folds
    for _ in range(simplices):
        at = corners(rng, box)
        bound = simplex_bound(store, [store.add(corner) for corner in at]).value
        for _ in range(points):
            inside = rng.dirichlet(np.full(len(at), 0.7)) @ np.array(at)
            e = fold.errors(fold.program.solve(tuple(map(float, inside))))
            smallest = min(smallest, float(e @ e) / max(bound, 1e-300))
    return smallest


@pytest.mark.parametrize("name", MACHINES)
def test_no_point_of_a_random_simplex_is_below_its_bound(name):
    build, box = MACHINES[name]
    X, y, *held = rows()
    store = store_of(*build(X, y), box, held)
    assert scan(store, box, np.random.default_rng(0), simplices=7, points=2) >= 1.0 - ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_no_point_of_thousands_of_simplices_is_below_its_bound(name):
    build, box = MACHINES[name]
    rng = np.random.default_rng(1)
    for seed in range(20):
        X, y, *held = rows(n=int(rng.integers(4, 12)), d=2 + seed % 2, seed=seed)
        store = store_of(*build(X, y), box, held)
        assert scan(store, box, rng, simplices=100, points=10) >= 1.0 - ROUNDING


def test_no_point_of_a_random_tetrahedron_is_below_its_bound():
    X, y, *held = rows(n=8)
    box = ((0.0, 20.0),) * 3
    store = store_of(*two_groups(X, y, components=3), box, held)
    assert scan(store, box, np.random.default_rng(0), simplices=4, points=2) >= 1.0 - ROUNDING


def claimed_at(store, at, t):
    """What the bound says of points of a simplex: the line minus the root, before the minimum is taken."""
    found = simplex_bound(store, at)
    nearest = found.place @ store.errors[list(at)]
    line = t @ (store.errors[list(at)] @ (nearest / np.linalg.norm(nearest)))
    return line - np.sqrt(np.einsum("...i,ij,...j->...", t, found.radii, t))


def broken(monkeypatch, what):
    """Drop one factor of the bound."""
    if what == "half of sigma_u":
        whole = DeterminedErrors._length
        monkeypatch.setattr(DeterminedErrors, "_length", lambda *given: 0.5 * whole(*given))
    radii = KnotStore.radii
    if what == "Q_ij":
        monkeypatch.setattr(KnotStore, "radii", lambda self, f, at: (np.diag(np.diag(radii(self, f, at)[0])),) * 2)
    if what == "the covariance of a ridge":
        monkeypatch.setattr(KnotStore, "radii", lambda self, f, at: (radii(self, f, at)[0], np.zeros((len(at),) * 2)))


@pytest.mark.parametrize("what", [None, "half of sigma_u", "Q_ij"])
def test_the_bound_is_tight_at_a_kink_and_false_without_a_factor(monkeypatch, what):
    """w_k = max(1 - rho_k / 2, 0): in the middle from 0 to 4 the optimum is as far from the chord as the gap says."""
    broken(monkeypatch, what)
    store = store_of(*lines(), ((0.0, 4.0), (0.0, 4.0)), (np.ones((1, 2)), np.array([-0.3])))
    at = [store.add((0.0, 0.0)), store.add((4.0, 4.0)), store.add((4.0, 0.0))]
    middle = claimed_at(store, at[:2], np.array([0.5, 0.5]))
    if what is None:
        assert_allclose(middle, 0.3, rtol=2e-3)
    assert (middle <= 0.3) == (what is None)
    t = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    rho = t @ np.array([store.corners[k] for k in at])
    errors = 0.3 + np.maximum(1.0 - rho / 2.0, 0.0).sum(axis=1)
    assert (claimed_at(store, at, t) <= errors).all() == (what is None)


@pytest.mark.parametrize("what", [None, "half of sigma_u", "the covariance of a ridge"])
def test_the_bound_of_a_ridge_is_false_without_its_covariance(monkeypatch, what):
    """w = 2 / (2 + tau) is below its chord, by as much as the covariance of tau and w says."""
    broken(monkeypatch, what)
    store = store_of(*ridge_line(), ((0.0, 4.0), (0.1, 4.0)), (np.ones((1, 1)), np.array([-2.0])))
    at = [store.add((0.0, 0.1)), store.add((0.0, 0.5))]
    error = 2.0 + 2.0 / (2.0 + 0.3)
    middle = claimed_at(store, at, np.array([0.5, 0.5]))
    assert (middle <= error) == (what is None)
    if what is None:
        assert error - middle <= 1e-3


def test_inexact_knots_only_weaken_the_bound():
    """A knot whose multipliers are those of other values: its residual is part of the bound."""
    X, y, *held = rows(n=8)
    build, box = MACHINES["two groups"]
    exact, rough = (store_of(*build(X, y), box, held) for _ in range(2))
    at = [(1.0, 1.0), (2.0, 1.0), (1.0, 2.0)]
    program = rough.folds[0].program
    other = program.solve((1.05, 0.95))
    rough._keep(at[0], [program.knot(at[0], other.x, other.dual)])
    bounds = [simplex_bound(store, [store.add(corner) for corner in at]).value for store in (exact, rough)]
    assert rough.knots[0][0].gap > 1e3 * exact.knots[0][0].gap
    assert bounds[1] < bounds[0]


def test_the_nearest_combination_is_optimal():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 4):
        E = rng.normal(size=(n, 7)) + 0.5
        t = nearest_combination(E)
        assert_allclose(t.sum(), 1.0)
        assert (t >= 0.0).all()
        assert (E @ (t @ E) >= (1.0 - 1e-9) * float((t @ E) @ (t @ E))).all()
    assert_allclose(nearest_combination(np.ones((3, 4))).sum(), 1.0)
