"""The inverse curvature by secants: exact for a quadratic function, bounded, and unmoved by what is no secant."""

import numpy as np

from problems.estimators.chosen.secant_curvature import inverse_curvature

RNG = np.random.default_rng(3)
TURN = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
HESSIAN = (TURN * np.array([0.2, 0.5, 1.0, 2.0])) @ TURN.T


def along(directions, hessian):
    """Places that leave the origin along one direction after the other, and their slopes."""
    places = [np.zeros(hessian.shape[0])]
    for direction in directions:
        places.append(places[-1] + direction)
    return places, [hessian @ place for place in places]


def test_secants_in_conjugate_directions_give_the_inverse_of_a_quadratic_function():
    """Directions that are conjugate leave each other's secants as they are."""
    places, slopes = along(0.3 * TURN.T, HESSIAN)
    found = inverse_curvature(places, slopes)
    np.testing.assert_allclose(found @ HESSIAN, np.eye(4), atol=1e-12)
    # a Newton step from anywhere ends at the minimum
    here = RNG.normal(size=4)
    np.testing.assert_allclose(here - found @ (HESSIAN @ here), 0.0, atol=1e-12)


def test_the_last_secant_holds_whatever_came_before():
    places, slopes = along(RNG.normal(size=(6, 4)) * 0.2, HESSIAN)
    for first in (None, np.eye(4)):
        found = inverse_curvature(places, slopes, first)
        # eigenvalues between the bounds are those of the update
        assert 0.3 < np.linalg.eigvalsh(found)[0] <= np.linalg.eigvalsh(found)[-1] < 10.0
        np.testing.assert_allclose(found @ (slopes[-1] - slopes[-2]), places[-1] - places[-2], atol=1e-12)


def test_its_eigenvalues_are_bounded():
    places, slopes = along(0.3 * np.eye(2), np.diag([50.0, 0.01]))
    np.testing.assert_allclose(np.linalg.eigvalsh(inverse_curvature(places, slopes)), [0.3, 10.0])
    # a penalty with the second derivative c makes an eigenvalue h of the inverse 1/(1/h + c)
    places, slopes = along(0.3 * np.eye(2), np.diag([50.0, 0.01]) + 20.0 * np.eye(2))
    held = inverse_curvature(places, slopes, penalty=20.0)
    np.testing.assert_allclose(np.linalg.eigvalsh(held), [1.0 / (1.0 / 0.3 + 20.0), 1.0 / (0.1 + 20.0)])


def test_what_is_no_secant_changes_nothing():
    """A jump, a step of rounding, a direction in which the slope falls, and no step at all."""
    first = np.diag([1.0, 2.0, 3.0, 4.0])
    for step, hessian in ((3.0, HESSIAN), (1e-6, HESSIAN), (0.3, -HESSIAN)):
        places, slopes = along(np.array([[step, 0.0, 0.0, 0.0]]), hessian)
        np.testing.assert_allclose(inverse_curvature(places, slopes, first), first, atol=1e-14)
        assert inverse_curvature(places, slopes) is None
    assert inverse_curvature([np.zeros(2)], [np.ones(2)]) is None
