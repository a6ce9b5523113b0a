"""The parts of the walk: the updated factorisation, the ratio test, low-rank products, the choice of the compiler."""

import numpy as np
import pytest

from substrate.compilation import choose_twin, has_compiler, run_interpreted
from substrate.penalized.homotopy import block_basis, block_steps, ratio_test, vector_loops
from substrate.penalized.homotopy.block_basis import (
    append,
    drift,
    exchange,
    rebuild,
    refine_coefficients,
    remove,
    straighten,
)
from substrate.penalized.homotopy.block_steps import rows_times
from substrate.penalized.homotopy.ratio_test import first_event, travel
from substrate.penalized.homotopy.signed_rows import SignedProduct, SignedRows

R = 12


class Basis:
    """The factors of some rows D, and the direction and coefficients of one vector q."""

    def __init__(self, m, seed=0, r=R):
        self.rng = np.random.default_rng(seed)
        self.Q, self.S, self.C = np.zeros((3, r, r))
        self.x, self.y, self.q = np.zeros(r), np.zeros(r), self.rng.standard_normal(r)
        self.du, self.m, self.D = -self.q, 0, np.zeros((0, r))
        for _ in range(m):
            assert self.add(self.rng.standard_normal(r)) >= 1.0

    def add(self, w, smallest=1e-10):
        size = append(self.Q, self.S, self.C, self.x, self.y, self.du, self.m, w, smallest)
        if size > 0.0:
            self.m, self.D = self.m + 1, np.vstack([self.D, w])
        return size

    def drop(self, k):
        size = remove(self.Q, self.S, self.C, self.x, self.y, self.du, self.m, k)
        self.D[k] = self.D[-1]
        self.m, self.D = self.m - 1, self.D[:-1].copy()
        return size

    def check(self, rounding=1e-10):
        """D = CQ, orthonormal and dual, and the projection and coefficients those of least squares."""
        m, D, Q, C = self.m, self.D, self.Q[: self.m], self.C[: self.m, : self.m]
        np.testing.assert_allclose(Q @ Q.T, np.eye(m), atol=1e-12)
        np.testing.assert_allclose(C @ Q, D, atol=1e-11)
        np.testing.assert_allclose(self.S[:m, :m] @ C.T, np.eye(m), atol=rounding)
        expected = np.linalg.lstsq(D.T, self.q)[0] if m else np.zeros(0)
        np.testing.assert_allclose(self.x[:m], expected, atol=rounding)
        np.testing.assert_allclose(self.y[:m], Q @ self.q, atol=1e-11)
        np.testing.assert_allclose(self.du, -(self.q - expected @ D), atol=1e-11)


def test_rows_come_and_go():
    basis = Basis(6)
    basis.check()
    for _ in range(200):
        if basis.m == R or (basis.m > 1 and basis.rng.random() < 0.5):
            basis.drop(int(basis.rng.integers(basis.m)))
        else:
            assert basis.add(basis.rng.standard_normal(R))
        refine_coefficients(basis.S, basis.C, basis.x, basis.y, basis.m)
        basis.check(1e-9)
    assert max(drift(basis.Q, basis.S, basis.C, basis.D, basis.rng)) < 1e-10


def test_a_row_that_depends_is_refused_and_one_that_nearly_does_is_not():
    basis = Basis(5)
    kept = [array.copy() for array in (basis.Q, basis.S, basis.C, basis.x, basis.y, basis.du)]
    dependent = np.arange(1.0, 6.0) @ basis.D
    assert not basis.add(dependent)
    for now, before in zip((basis.Q, basis.S, basis.C, basis.x, basis.y, basis.du), kept, strict=True):
        np.testing.assert_array_equal(now, before)
    size = basis.add(dependent + 1e-6 * np.eye(R)[0])
    assert 1e6 < size < 1e9, "how near it is"
    np.testing.assert_allclose(basis.Q[:6] @ basis.Q[:6].T, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(basis.S[:6, :6] @ basis.C[:6, :6].T, np.eye(6), atol=1e-6)
    assert basis.drop(5) == pytest.approx(size, rel=1e-6)
    np.testing.assert_allclose(basis.Q[:5] @ basis.Q[:5].T, np.eye(5), atol=1e-14)


def test_a_full_basis_takes_no_more():
    assert not Basis(R).add(np.ones(R))


def test_another_reference_keeps_the_subspace():
    basis = Basis(5)
    members, old = np.array([0, 2, 3]), basis.D
    exchange(basis.S, basis.C, basis.x, basis.y, 5, members, 2)
    basis.D = np.array([old[0] - old[2], old[1], -old[2], old[3] - old[2], old[4]])
    basis.q = basis.q + old[2]
    basis.check()


def test_made_anew_it_is_the_same():
    basis = Basis(7)
    projection, dual = basis.Q[:7].T @ basis.Q[:7], basis.S[:7, :7] @ basis.Q[:7]
    assert rebuild(basis.Q, basis.S, basis.C, basis.D)
    np.testing.assert_allclose(basis.Q[:7].T @ basis.Q[:7], projection, atol=1e-13)
    np.testing.assert_allclose(basis.S[:7, :7] @ basis.Q[:7], dual, atol=1e-12)
    basis.D[3] = basis.D[2]
    assert not rebuild(basis.Q, basis.S, basis.C, basis.D)


def test_rounding_of_each_factor_is_seen():
    basis = Basis(7)
    sound = drift(basis.Q, basis.S, basis.C, basis.D, basis.rng)
    assert max(sound) < 1e-12
    for wrong, factor in enumerate((basis.C, basis.Q, basis.S)):
        before = factor.copy()
        factor[2, 3] += 1e-6
        assert drift(basis.Q, basis.S, basis.C, basis.D, basis.rng)[wrong] > 1e-9
        factor[:] = before
    assert drift(basis.Q, basis.S, basis.C, basis.D[:0], basis.rng) == (0.0, 0.0, 0.0)


def test_a_direction_that_became_short_is_made_orthogonal_again():
    basis = Basis(5)
    basis.du = basis.du / np.linalg.norm(basis.du) + 1e-9 * basis.Q[2]
    assert straighten(basis.Q, 5, basis.du, 1.0) == pytest.approx(1.0)
    assert abs(basis.Q[2] @ basis.du) > 1e-10, "not much shorter: left as it is"
    assert straighten(basis.Q, 5, basis.du, 100.0) == pytest.approx(1.0)
    assert np.abs(basis.Q[:5] @ basis.du).max() < 1e-15


@pytest.mark.parametrize("given", [False, True])
def test_levels_and_sums_of_signed_rows(given):
    rng = np.random.default_rng(5)
    B, block = rng.standard_normal((20, 6)), np.concatenate([np.arange(20) % 3, np.arange(20) % 2])
    problem, u = SignedRows(B, block, np.zeros(6)), rng.standard_normal(6)
    values = np.concatenate([B @ u, -B @ u])
    assert problem.blocks == 3
    np.testing.assert_array_equal(problem.levels(u), [values[block == k].max() for k in range(3)])
    rows = np.arange(40) if given else np.array([3, 23])
    weights = rng.standard_normal(rows.size)
    np.testing.assert_allclose(problem.combine(rows, weights), weights @ problem.rows(rows), atol=1e-13)


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

    def times(product):
        return rows_times(
            product.B, product.F, product.G, x, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        )

    product = SignedProduct.of(low, block)
    assert product.F.shape == (4, 3, 40)
    np.testing.assert_allclose(times(product), low @ x, atol=1e-11)
    for B, blocks in ((rng.standard_normal((160, 30)), block), (low, np.zeros(160, dtype=int)), (low, block[::-1])):
        np.testing.assert_allclose(times(SignedProduct.of(B, blocks)), B @ x, atol=1e-11)
    assert SignedProduct.of(low, block[::-1].copy()).F.size == 0, "blocks out of order"


def test_plain_functions_inside_the_block():
    with run_interpreted():
        assert choose_twin(travel) is travel
    assert (choose_twin(travel) is travel) != has_compiler()


@pytest.mark.parametrize("rows", [0, 3, 9])
def test_loops_are_the_products_that_they_stand_for(rows):
    rng = np.random.default_rng(rows)
    A, v, w = rng.standard_normal((10, 10)), rng.standard_normal(10), rng.standard_normal(10)
    for plain, loops in (
        (block_basis.times, block_basis._times),
        (block_basis.transposed_times, block_basis._transposed_times),
    ):
        np.testing.assert_allclose(loops(A, rows, 7, v), plain(A, rows, 7, v), atol=1e-14)
    Q = np.linalg.qr(A)[0]
    for plain, loops, given in (
        (block_basis.subtract_outer, block_basis._subtract_outer_by_loops, (A, rows, 7, v, w)),
        (block_basis.sweep, block_basis._sweep, (Q, rows, v, w)),
    ):
        one, other = ([np.array(part) for part in given] for _ in range(2))
        plain(*(int(part) if part.ndim == 0 else part for part in one))
        loops(*(int(part) if part.ndim == 0 else part for part in other))
        for ours, expected in zip(other, one, strict=True):
            np.testing.assert_allclose(ours, expected, atol=1e-13)
    home = np.concatenate([np.arange(3), rng.integers(3, size=rows)])
    slopes = [make(v, home, 3, 3 + rows) for make in (block_steps.slopes_of, block_steps._slopes_of)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-14)
    active = rng.permutation(10)[:rows] + 10 * rng.integers(2, size=rows)
    known = np.where(active < 10, 1.0, -1.0) * (A @ v)[active % 10]
    found = block_steps._others_times(A, v, active, np.arange(rows), known)
    np.testing.assert_allclose(found, A @ v, atol=1e-13)
    for plain, loops in (
        (lambda out: vector_loops.copy_into(out, w), lambda out: vector_loops._copy_into(out, w)),
        (lambda out: vector_loops.scale_into(out, -3.0, w), lambda out: vector_loops._scale_into(out, -3.0, w)),
        (lambda out: vector_loops.scale_into(out, -3.0, out), lambda out: vector_loops._scale_into(out, -3.0, out)),
        (lambda out: vector_loops.add_multiple(out, 0.5, w), lambda out: vector_loops._add_multiple(out, 0.5, w)),
    ):
        one, other = v.copy(), v.copy()
        plain(one)
        loops(other)
        np.testing.assert_array_equal(other, one)
        assert not np.array_equal(one, v)
    for which in range(3):
        places = vector_loops.find_members(home, which)
        assert (home[places] == which).all()
        assert places.size == (home == which).sum()
        np.testing.assert_array_equal(vector_loops._find_members(home, which), places)
        values = np.round(rng.standard_normal(home.size))  # with ties
        largest = vector_loops.find_largest(values, places)
        assert vector_loops._find_largest(values, places) == largest == places[values[places].argmax()]
    least = [np.full(20, 7.0), np.full(20, 7.0)]
    for opened, one in zip((block_steps.open_rows, block_steps._open_rows_by_loops), least, strict=True):
        opened(one, np.arange(20.0), active, rows)
    np.testing.assert_array_equal(*least)


@pytest.mark.parametrize("seed", range(8))
def test_the_ratio_test_in_loops_is_the_same(seed):
    """Ties, slacks below zero, rows that may not enter and multipliers that cannot fall included."""
    rng = np.random.default_rng(seed)
    p, d = 15, 3
    dv, dt, t = rng.integers(-2, 3, size=p) * 1.0, -rng.random(d), 1.0 + rng.random(d)
    block, slack = rng.integers(d, size=2 * p), rng.integers(0, 4, size=2 * p) - 1e-13
    least = np.where(rng.random(2 * p) < 0.3, np.inf, 1e-10)
    eta, slope = rng.integers(0, 3, size=6) * 1.0, rng.integers(-1, 2, size=6) * 1.0
    for draw in (-1.0, 0.0, 0.6):
        for floor in (0.0, t.sum() - 1e-9):
            ends = []
            for go in (travel, ratio_test._travel):
                moved = [array.copy() for array in (slack, eta, t)]
                ends.append(
                    (go(dv, block, moved[0], least, moved[1], slope, moved[2], dt, 1.0, 1.0, floor, draw), moved)
                )
            rate = np.concatenate([dv, -dv]) - dt[block]
            given = (slack, rate, least, eta, slope, 1.0, 2.0, 1.0, draw)
            assert first_event(*given) == ratio_test._first_event(*given)
            (one, moved), (other, also) = ends
            assert one == pytest.approx(other, rel=1e-14)
            for ours, expected in zip(moved, also, strict=True):
                np.testing.assert_allclose(ours, expected, atol=1e-14)
