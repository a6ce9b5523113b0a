"""The parts of the walk: the updated factorisation, the ratio test, low-rank products, the choice of the compiler."""

import numpy as np
import pytest

from substrate.paths.block_basis import append, exchange, first_event, rebuild, remove, slopes, travel
from substrate.paths.signed_rows import Product, chosen, has_compiler, interpreted


def checked(Q, Z, D, m):
    np.testing.assert_allclose(Q[:m] @ Q[:m].T, np.eye(m), atol=1e-12)
    np.testing.assert_allclose(Z[:m] @ D[:m].T, np.eye(m), atol=1e-10)
    np.testing.assert_allclose((D[:m] @ Q[:m].T) @ Q[:m], D[:m], atol=1e-12)
    np.testing.assert_allclose((Z[:m] @ Q[:m].T) @ Q[:m], Z[:m], atol=1e-10)


def filled(m, r=12, seed=0):
    rng = np.random.default_rng(seed)
    Q, Z, D = np.zeros((3, r, r))
    for k in range(m):
        assert append(Q, Z, D, k, rng.standard_normal(r), 1e-10)
    return Q, Z, D


def test_rows_come_and_go():
    rng = np.random.default_rng(1)
    Q, Z, D = filled(6)
    m = 6
    checked(Q, Z, D, m)
    for _ in range(200):
        if m == 12 or (m > 1 and rng.random() < 0.5):
            remove(Q, Z, D, m, int(rng.integers(m)))
            m -= 1
        else:
            assert append(Q, Z, D, m, rng.standard_normal(12), 1e-10)
            m += 1
        checked(Q, Z, D, m)


def test_a_row_that_depends_is_refused_and_one_that_nearly_does_is_not():
    Q, Z, D = filled(5)
    kept = Q.copy(), Z.copy(), D.copy()
    dependent = np.arange(1.0, 6.0) @ D[:5]
    assert not append(Q, Z, D, 5, dependent, 1e-10)
    for now, before in zip((Q, Z, D), kept, strict=True):
        np.testing.assert_array_equal(now, before)
    assert append(Q, Z, D, 5, dependent + 1e-6 * np.eye(12)[0], 1e-10)
    np.testing.assert_allclose(Q[:6] @ Q[:6].T, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(Z[:6] @ D[:6].T, np.eye(6), atol=1e-6)


def test_a_full_basis_takes_no_more():
    Q, Z, D = filled(12)
    assert not append(Q, Z, D, 12, np.ones(12), 1e-10)


def test_another_reference_keeps_the_subspace():
    Q, Z, D = filled(5)
    members, old = np.array([0, 2, 3]), D.copy()
    exchange(Z, D, members, 2)
    checked(Q, Z, D, 5)
    np.testing.assert_allclose(D[:5], [old[0] - old[2], old[1], -old[2], old[3] - old[2], old[4]])


def test_made_anew_it_is_the_same():
    Q, Z, D = filled(7)
    projection, dual = Q[:7].T @ Q[:7], Z.copy()
    assert rebuild(Q, Z, D, 7)
    checked(Q, Z, D, 7)
    np.testing.assert_allclose(Q[:7].T @ Q[:7], projection, atol=1e-13)
    np.testing.assert_allclose(Z, dual, atol=1e-12)
    D[3] = D[2]
    assert not rebuild(Q, Z, D, 7)


@pytest.mark.parametrize("m", [0, 1, 7])
def test_slopes_are_projection_and_least_squares(m):
    Q, Z, D = filled(m)
    q = np.random.default_rng(2).standard_normal(12)
    du, slope = slopes(Q, Z, D, m, q)
    expected = np.linalg.lstsq(D[:m].T, q)[0] if m else np.zeros(0)
    np.testing.assert_allclose(slope, -expected, atol=1e-12)
    np.testing.assert_allclose(du, -(q - expected @ D[:m]), atol=1e-13)


def event(slack, rate, eta=(1.0,), slope=(1.0,), least=None, draw=-1.0):
    least = np.full(len(slack), 1e-10) if least is None else np.asarray(least)
    arrays = [np.asarray(values, dtype=float) for values in (slack, rate)]
    return first_event(*arrays, least, np.asarray(eta), np.asarray(slope), 1.0, 1.0, 1.0, draw)


def test_the_first_to_arrive_ends_the_segment():
    assert event([3.0, 2.0, 9.0], [1.0, 1.0, 1.0]) == (False, 1, 2.0)
    assert event([3.0, 2.0], [1.0, 1.0], [0.5, 4.0], [-1.0, -1.0]) == (True, 0, 0.5)
    assert event([3.0, 2.0], [1.0, -1.0]) == (False, 0, 3.0)
    assert event([3.0, 2.0], [-1.0, 1e-13]) == (False, -1, np.inf)
    assert event([3.0, 2.0], [1.0, 1.0], least=[1e-10, np.inf]) == (False, 0, 3.0)


def test_of_near_ties_the_steepest_and_by_chance_any():
    slack, rate = [1.0, 1e-6 * (1.0 - 1e-12), 5.0], [1.0, 1e-6, 1.0]
    assert event(slack, rate)[1] == 0
    assert {event([2.0, 2.0, 9.0], [1.0, 1.0, 1.0], draw=draw)[1] for draw in (0.0, 0.9)} == {0, 1}
    assert event([1.0], [1.0], [1.0], [-1.0])[0], "a row that can leave does so first"


def test_a_bound_already_passed_is_no_step_back():
    assert event([-1e-13, 2.0], [1.0, 1.0]) == (False, 0, 0.0)


def test_travelling_moves_everything_or_nothing():
    block = np.array([0, 0, 0, 0])
    slack, eta, t, least = np.array([1.0, 2.0, 9.0, 9.0]), np.ones(1), np.array([4.0]), np.full(4, 1e-10)
    dv, dt, slope = np.array([1.0, 0.0]), np.array([-1.0]), np.ones(1)
    kind, which, step = travel(dv, block, slack, least, eta, slope, t, dt, 1.0, 1.0, 0.0, -1.0)
    assert (kind, which, step) == (1, 0, 0.5)
    assert (slack.tolist(), eta.tolist(), t.tolist()) == ([0.0, 1.5, 9.0, 8.5], [1.5], [3.5])
    kind, _, step = travel(dv, block, slack + 9.0, least, eta, slope, t, dt, 1.0, 1.0, 3.0, -1.0)
    assert (kind, step) == (3, 0.5)
    before = eta.copy()
    assert travel(dv * 0.0, block, slack, least, eta, slope, t, dt * 0.0, 1.0, 1.0, 0.0, -1.0)[0] == 0
    assert (eta == before).all()


def test_products_through_factors():
    rng = np.random.default_rng(3)
    low = np.vstack([rng.standard_normal((40, 3)) @ rng.standard_normal((3, 30)) for _ in range(4)])
    block = np.repeat(np.arange(4), 40)
    x = rng.standard_normal(30)
    product = Product.of(low, block)
    assert product.F is not None
    assert product.F.shape == (4, 3, 40)
    np.testing.assert_allclose(product(x), low @ x, atol=1e-11)
    for B, blocks in ((rng.standard_normal((160, 30)), block), (low, np.zeros(160, dtype=int)), (low, block[::-1])):
        full = Product.of(B, blocks)
        np.testing.assert_allclose(full(x), B @ x, atol=1e-11)
    assert Product.of(low, block[::-1].copy()).F is None, "blocks out of order"


def test_plain_functions_inside_the_block():
    with interpreted():
        assert chosen(slopes) is slopes
    assert (chosen(slopes) is slopes) != has_compiler()
