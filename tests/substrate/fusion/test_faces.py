"""Beyond the box: all larger weights are bounded where penalties vanish exactly, and only there."""

import numpy as np
import pytest

from substrate.fusion.faces import Faces, bound_beyond_box, outer_ends
from tests.oracles.joint_machines import lines, rows, sparse_ridge, store_of, two_groups

EVERY = ((0.0, np.inf), (0.0, np.inf))


def line_store(v=-0.3):
    """w_k = max(1 - rho_k / 2, 0), validated at one row where the target is below all predictions."""
    return store_of(*lines(), EVERY, (np.ones((1, 2)), np.array([v])))


def test_the_ends_are_where_penalties_have_vanished():
    store = line_store()
    ends = outer_ends(store, EVERY)
    assert all(low == 0.0 and 2.0 <= high <= 8.0 for low, high in ends)
    assert outer_ends(store, ((0.0, 3.0), (0.0, 4.0))) == ((0.0, 3.0), (0.0, 4.0))


def test_the_bound_beyond_the_box_is_exact_where_nothing_changes():
    """For rho_1 >= 2 the error depends on rho_2 alone; with both beyond it is that of w = 0."""
    store = line_store()
    faces = Faces.of(store, EVERY, ((0.0, 4.0), (0.0, 4.0)))
    assert faces.growing == (0, 1)
    corner = store.add((4.0, 4.0))
    assert 0.089 <= faces.bound([corner], (0, 1)).value <= 0.09
    edge = [store.add((4.0, 0.0)), store.add((4.0, 0.5))]
    found = faces.bound(edge, (0,)).value
    least = (0.3 + 1.0 - 0.25) ** 2
    assert 0.99 * least <= found <= least
    lower, covered = bound_beyond_box(faces, 0.06, 200)
    assert covered == (0, 1)
    assert 0.06 <= lower <= 0.09


def test_a_face_that_is_too_near_gives_no_false_bound():
    """At rho = 1 the penalty has not vanished: the far point is far, and the bound at the corner weak but true."""
    store = line_store()
    faces = Faces.of(store, EVERY, ((0.0, 1.0), (0.0, 1.0)))
    found = faces.bound([store.add((1.0, 1.0))], (0, 1)).value
    assert 0.0 <= found <= 0.09
    lower, covered = bound_beyond_box(faces, 0.0899, 200)
    assert covered == (0,)  # one weight alone may grow, as long as the other one is at most 1
    assert 0.0899 <= lower <= 0.64
    assert bound_beyond_box(faces, 1.0, 200) == (np.inf, ())


def test_a_penalty_that_may_be_negative_is_not_followed_to_infinity():
    X, y, *held = rows(n=6, d=2)
    machine, parameters = sparse_ridge(X, y)
    ends = ((0.0, np.inf), (0.1, 1.0))
    store = store_of(machine, parameters, ends, held)
    assert Faces.of(store, ends, ((0.0, 9.0), (0.1, 1.0))).growing == (0,)
    store.folds[0].program.q[0] *= -1.0
    assert Faces.of(store, ends, ((0.0, 9.0), (0.1, 1.0))).growing == ()


@pytest.mark.parametrize("beyond", [(0,), pytest.param((1,), marks=pytest.mark.slow), (0, 1)])
def test_no_larger_weight_is_below_the_bound(beyond):
    X, y, *held = rows(n=6, d=2)
    store = store_of(*two_groups(X, y), EVERY, held)
    ends = outer_ends(store, EVERY)
    faces = Faces.of(store, EVERY, ends)
    (fold,) = store.folds
    rng = np.random.default_rng(0)
    pieces = [corners for which, corners in faces.pieces() if which == beyond][:2]
    for corners in pieces:
        found = faces.bound([store.add(corner) for corner in corners], beyond)
        for _ in range(3):
            theta = rng.dirichlet(np.ones(len(corners))) @ np.array(corners)
            theta[list(beyond)] *= 10.0 ** rng.uniform(0.0, 3.0, size=len(beyond))
            e = fold.errors(fold.program.solve(tuple(map(float, theta))))
            assert found is None or float(e @ e) >= found.value * (1.0 - 1e-9)
