"""Rows that are active at all vertices bound a step to the second order, whatever multiples of them are taken."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.fusion.common_rows import bend_of, lift_of
from substrate.fusion.knot_store import Reach, SimplexReach
from substrate.fusion.simplex_bound import simplex_bound
from tests.oracles.joint_machines import rows, store_of, two_groups

#: A simplex inside which rows change, while others are active at all of its vertices.
CORNERS = ((2.26, 2.73), (2.938, 2.73), (2.26, 3.549))


@pytest.fixture(scope="module")
def store():
    X, y, *held = rows(n=12, d=4)
    return store_of(*two_groups(X, y), ((0.0, 20.0), (0.0, 20.0)), held)


def vertices(store, corners=CORNERS):
    return [store.add(corner) for corner in corners]


class AnyMultiples:
    """Multiples of rows, negative only where all vertices have multipliers, in place of those of a projection."""

    def __init__(self, eta):
        self.eta = eta

    def pressed(self, c):
        return self.eta


def claimed(reach, Q, t):
    """What is said of the distance from the chord at places t."""
    g = np.einsum("...i,ij,...j->...", t, Q, t)
    return reach.sigmas[0] * np.sqrt(g) + reach.bends[0] * g + t @ reach.losses


@pytest.mark.parametrize("multiples", ["projection", "random"])
def test_no_optimum_is_farther_than_its_reach(store, multiples):
    at, rng, (fold,) = vertices(store), np.random.default_rng(0), store.folds
    reach, Q = SimplexReach(store, at, common=True), store.radii(0, at)[0]
    duals = np.array([store.knots[0][i].dual[fold.program.b.size :] for i in at])
    shared = duals.min(axis=0) > 1e-6
    assert 0 < shared.sum() < (duals > 1e-6).any(axis=0).sum()
    T = rng.dirichlet(np.ones(3), 6)
    solved = [fold.program.solve(tuple(map(float, t @ np.array(CORNERS)))) for t in T]
    steps = T @ store.errors[at] - np.array([fold.errors(knot) for knot in solved])
    for _ in range(20):
        u = rng.normal(size=steps.shape[1])
        u /= 1.001 * np.linalg.norm(u)
        if multiples == "projection":
            (common,) = reach.common_rows(u, [float(Q.max())])
            assert common is not None
        else:
            # rows of one maximum whose multiples add up to zero, so that the quadratic term determines what is left
            bounds = fold.program.bounds
            eta = np.zeros(duals.shape[1])
            for rows_of_one in np.split(bounds.rows, bounds.starts[1:]):
                if shared[rows_of_one].any():
                    down = rng.choice(rows_of_one[shared[rows_of_one]])
                    up = rng.choice(rows_of_one)
                    eta[up] += 0.3
                    eta[down] -= 0.3
            common = AnyMultiples(eta)
        assert (steps @ u <= claimed(reach.pressed(u, [common]), Q, T) + 1e-12).all()


def test_common_rows_sharpen_a_bound(store):
    at = vertices(store)
    found = simplex_bound(store, at)
    assert found.etas
    assert any((eta != 0.0).any() for eta in found.etas)
    u = found.direction
    reach, Q = SimplexReach(store, at, common=True), store.radii(0, at)[0]
    plain, (common,) = reach.along(u), reach.common_rows(u, [float(Q.max())])
    pressed = reach.pressed(u, [common])
    assert pressed.sigmas[0] < 0.9 * plain.sigmas[0]
    assert pressed.bends[0] * np.sqrt(Q.max()) <= 0.3 * plain.sigmas[0]
    # the spectrum says of the direction what the linear system says
    (spectrum,) = reach.common_spectra([common])
    assert_allclose(Reach.nearly(u, [spectrum]).sigmas, pressed.sigmas, rtol=1e-5)
    (whole,) = reach.spectra()
    assert_allclose(Reach.nearly(u, [whole]).sigmas, plain.sigmas, rtol=1e-5)


def test_bends_and_lifts_are_those_of_the_formula():
    eta, duals = np.array([-2.0, 0.5, 0.0, -1.0]), np.array([[1.0, 0.0, 0.0, 4.0], [3.0, 1.0, 0.0, 0.25]])
    assert_allclose(bend_of(eta, duals), 4.0, rtol=1e-12)
    assert bend_of(eta, duals) >= 4.0
    assert bend_of(np.abs(eta), duals) == 0.0
    assert bend_of(np.array([0.0, -1.0, 0.0, 0.0]), duals) == np.inf
    slacks = np.array([[5.0, 2.0, 7.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    assert_allclose(lift_of(eta, slacks), [1.0, 0.0], rtol=1e-12)
    assert lift_of(eta, slacks)[0] >= 1.0


def test_a_check_finds_what_a_search_found_whatever_it_asks_for(store):
    """The bound of a search that asked for less is found again by a check that asks for all of it."""
    at = vertices(store)
    whole = simplex_bound(store, at)
    assert simplex_bound(store, at, 0.999 * whole.value, saved=0.4).etas
    for share in (0.5, 0.9, 0.99, 0.999, 1.0 - 1e-9):
        assert simplex_bound(store, at, share * whole.value).value >= share * whole.value
    # a search cuts what common rows would not save, and looks for none
    assert not simplex_bound(store, at, 2.0 * whole.flat, saved=0.4).etas
