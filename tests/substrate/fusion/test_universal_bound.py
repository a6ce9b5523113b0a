"""The inequality behind every fusion: true on random problems, and each of its parts is needed."""

import numpy as np
import pytest

from substrate.fusion.universal_bound import bound_game, bound_interval, bound_one_side


def toss(rng):
    """Functions phi_k and v on a finite set S, and points of it: no convexity is needed."""
    corners, size = int(rng.integers(2, 5)), int(rng.integers(2, 40))
    phi, v = rng.normal(size=(corners, size)) ** 3, rng.normal(size=size) ** 2
    return phi, v


def h_of(phi, v, s, p):
    return np.array([(v + s_k * (phi_k - p_k)).min() for phi_k, s_k, p_k in zip(phi, s, p, strict=True)])


def matrix_of(phi, v, s, p, points):
    return h_of(phi, v, s, p) - s * (phi[:, points].T - p)


def smallest_error(phi, v, rng, s):
    """The least v at a minimiser of many sums of the phi_k."""
    least = np.inf
    for share in rng.dirichlet(np.full(len(phi), 0.5), size=100):
        least = min(least, v[((share * s) @ phi).argmin()])
    return least


def test_no_minimiser_is_below_the_bound():
    rng = np.random.default_rng(0)
    for _ in range(80):
        phi, v = toss(rng)
        s = 10.0 ** rng.uniform(-2.0, 2.0, size=len(phi))  # its own at every vertex
        exact = rng.random() < 0.5  # any points and any numbers p will do
        points = phi.argmin(axis=1) if exact else rng.integers(phi.shape[1], size=len(phi))
        p = phi.min(axis=1) if exact else rng.normal(size=len(phi))
        assert smallest_error(phi, v, rng, s) >= bound_game(matrix_of(phi, v, s, p, points)) - 1e-12


def test_every_value_of_a_game_is_proved():
    rng = np.random.default_rng(1)
    for n in (2, 2, 2, 3, 4):
        M = rng.normal(size=(n, n))
        value = bound_game(M)
        shares = rng.dirichlet(np.ones(n), size=2000)
        assert (shares @ M.T).max(axis=1).min() >= value
    assert bound_game(np.array([[1.0, -np.inf], [0.0, 1.0]])) == -np.inf
    np.testing.assert_allclose(bound_game(np.array([[3.0, 1.0], [1.0, 3.0]])), 2.0, rtol=1e-14)


def test_an_interval_is_never_below_its_game():
    rng = np.random.default_rng(2)
    for _ in range(40):
        phi, v = toss(rng)
        phi = phi[:2]
        points = phi.argmin(axis=1)
        p = phi.min(axis=1)
        D = phi[:, points].T - p
        ladder = 8.0 ** np.arange(-2.0, 3.0)
        values = [[(s, float((v + s * (phi[k] - p[k])).min())) for s in ladder] for k in range(2)]
        bound = bound_interval(values, D, (0.0, 0.0))
        truth = min(v[((1.0 - t) * phi[0] + t * phi[1]).argmin()] for t in np.linspace(0.0, 1.0, 201))
        assert truth >= bound - 1e-12
        game = max(
            bound_game(np.array([a[1], b[1]]) - np.array([a[0], b[0]]) * D) for a in values[0] for b in values[1]
        )
        assert bound >= game - 1e-9


def test_an_inexact_minimum_is_paid_for():
    near, far = [(1.0, 1.0)], [(1.0, 1.0)]
    assert bound_one_side(near, far, 0.1, 0.0) > bound_one_side(near, far, 0.1, 1e-2)
    assert bound_one_side([], far, 0.1, 0.0) == -np.inf
    assert bound_one_side(near, far, np.inf, 0.0) == -np.inf


# --- each part of it is needed --------------------------------------------------------------------------------------


def jump():
    """h and D, at s = 1, of phi = x + theta (1 - x) on [0, 1] with v = (x - 1/2)^2 and theta in [1/2, 3/2].

    At theta = 1 every x is optimal, and the smallest validation error is 0.
    """
    x = np.linspace(0.0, 1.0, 2001)
    phi = np.array([x + theta * (1.0 - x) for theta in (0.5, 1.5)])
    p = phi.min(axis=1)
    return h_of(phi, (x - 0.5) ** 2, np.ones(2), p), phi[:, phi.argmin(axis=1)].T - p


def test_half_of_the_excess_is_not_enough():
    h, D = jump()
    assert bound_game(h - D) <= 1e-12
    np.testing.assert_allclose(bound_game(h - 0.5 * D), 0.0625, atol=1e-6)  # above the true 0


def test_the_excess_cannot_be_dropped():
    h, _ = jump()
    assert bound_game(np.tile(h, (2, 1))) > 0.1


def test_the_ends_cannot_be_exchanged():
    """phi_a = x^2, phi_b = 100 (x - 1)^2, v = x^2: the smallest validation error is 0, at a."""
    x = np.linspace(-1.0, 2.0, 3001)
    phi, v, s = np.array([x**2, 100.0 * (x - 1.0) ** 2]), x**2, np.array([0.1, 0.1])
    p = phi.min(axis=1)
    h, D = h_of(phi, v, s, p), phi[:, phi.argmin(axis=1)].T - p
    assert bound_interval([[(s[0], h[0])], [(s[1], h[1])]], D, (0.0, 0.0)) <= 1e-12
    assert bound_one_side([(s[1], h[1])], [(s[1], h[1])], float(D[1, 0]), 0.0) > 0.8


@pytest.mark.parametrize("broken", ["without the excess", "half of it", "exchanged"])
def test_the_law_notices_a_broken_inequality(broken):
    rng = np.random.default_rng(4)
    wrong = 0
    for _ in range(150):
        phi, v = toss(rng)
        points, p, s = phi.argmin(axis=1), phi.min(axis=1), 10.0 ** rng.uniform(-1.0, 1.0, size=len(phi))
        D, h = phi[:, points].T - p, h_of(phi, v, s, p)
        M = {"without the excess": h - 0.0 * D, "half of it": h - 0.5 * s * D, "exchanged": h[::-1] - s * D}[broken]
        wrong += smallest_error(phi, v, rng, s) < bound_game(M) - 1e-9
    assert wrong >= 1
