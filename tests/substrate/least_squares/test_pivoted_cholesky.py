"""Partial Cholesky with random pivots: the trace of what is left falls, and nothing is left at full rank."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import SolverError
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.kernels.foreign import Foreign
from substrate.least_squares.preconditioner import LowRankInverse, random_pivots

KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(1.5), 0.3 * RBF(0.5) + Linear()]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture(name="X")
def points():
    return np.random.default_rng(0).normal(size=(40, 3))


@every_kernel
def test_the_remaining_trace_falls_and_the_rest_stays_positive(X, kernel):
    K = kernel(X)
    L = random_pivots(kernel, X, 40)
    previous = np.trace(K)
    for k in range(1, L.shape[1] + 1):
        left = K - L[:, :k] @ L[:, :k].T
        assert np.trace(left) < previous
        assert np.linalg.eigvalsh(left)[0] > -1e-10 * np.trace(K)
        assert np.linalg.norm(left, 2) <= np.trace(left) + 1e-9 * np.trace(K)
        previous = np.trace(left)


@every_kernel
def test_full_rank_is_exact(X, kernel):
    K = kernel(X)
    L = random_pivots(kernel, X, 40)
    assert_allclose(L @ L.T, K, atol=1e-10 * np.abs(K).max())


@every_kernel
@pytest.mark.parametrize("rank", [1, 2, 5, 20])
def test_the_factor_is_that_of_its_pivots(X, kernel, rank):
    """L L' agrees with K in the rows that it was made of, which are as many as it has columns."""
    K, L = kernel(X), random_pivots(kernel, X, rank)
    same = np.abs(K - L @ L.T).max(axis=1) <= 1e-10 * np.abs(K).max()
    assert L.shape[1] <= rank
    assert same.sum() >= L.shape[1]
    rows = np.flatnonzero(same)
    assert_allclose(L @ L.T, K[:, rows] @ np.linalg.pinv(K[np.ix_(rows, rows)], rcond=1e-11) @ K[rows], atol=1e-6)


def test_rows_that_lie_apart_are_drawn_as_soon_as_nothing_else_is_left():
    """A sample of 30 of 1005 rows misses the five that lie apart; what they leave is all that is left."""
    rng = np.random.default_rng(0)
    X = np.concatenate([0.1 * rng.normal(size=(1000, 2)), 100.0 * np.arange(1, 6)[:, None] * np.ones(2)])
    L = random_pivots(RBF(1.0), X, 60)
    assert (1.0 - np.square(L).sum(axis=1)).max() <= 1e-11


def test_kernels_of_low_rank_stop_early(X):
    assert random_pivots(Linear(), X, 40).shape == (40, 3)
    assert random_pivots(Polynomial(1, 2.0), X, 40).shape == (40, 4)
    assert random_pivots(Polynomial(2, 1.0), X, 40).shape == (40, 10)
    assert random_pivots(RBF(1.0).on(0), np.zeros((12, 1)), 12).shape == (12, 1)


def test_duplicates_stop_early(X):
    twice = np.repeat(X[:9], 3, axis=0)
    L = random_pivots(RBF(1.0), twice, 27)
    assert L.shape == (27, 9)
    assert_allclose(L @ L.T, RBF(1.0)(twice), atol=1e-12)


@pytest.mark.parametrize("kernel", [0.0 * RBF(1.0), Linear()], ids=repr)
def test_a_kernel_that_is_nought_has_no_columns(kernel):
    assert random_pivots(kernel, np.zeros((6, 2)), 4).shape == (6, 0)


def test_a_diagonal_without_a_positive_number_has_no_columns():
    assert random_pivots(Foreign(lambda A, B: -np.ones((len(A), len(B)))), np.zeros((6, 2)), 4).shape == (6, 0)


def test_a_looser_tolerance_stops_earlier(X):
    ranks = [random_pivots(RBF(3.0), X, 40, tolerance=t).shape[1] for t in (1e-1, 1e-3, 1e-6)]
    assert ranks[0] < ranks[1] < ranks[2]
    for tolerance, rank in zip((1e-1, 1e-3, 1e-6), ranks, strict=True):
        L = random_pivots(RBF(3.0), X, 40, tolerance=tolerance)
        assert (1.0 - (L**2).sum(axis=1)).max() <= tolerance
        assert rank == L.shape[1]


def test_sparse_points(X):
    X = np.where(X > 0.0, X, 0.0)
    dense = random_pivots(RBF(1.0), X, 15)
    assert_allclose(random_pivots(RBF(1.0), sp.csr_array(X), 15), dense, atol=1e-10)


def test_the_points_are_not_changed_and_the_pivots_are_always_the_same(X):
    before = X.copy()
    assert_array_equal(random_pivots(RBF(1.0), X, 20), random_pivots(RBF(1.0), X, 20))
    assert_array_equal(X, before)


@pytest.mark.parametrize("rank", [0, 1, 30])
def test_the_inverse_is_that_of_the_factor_with_the_diagonal(X, rank):
    ridge = np.random.default_rng(1).uniform(0.1, 10.0, 40)
    L = random_pivots(RBF(1.0), X, rank)
    inverse = LowRankInverse(L, None, ridge)
    assert_allclose((L @ L.T + np.diag(ridge)) @ inverse(np.eye(40)), np.eye(40), atol=1e-12)


def test_the_inverse_takes_all_rows_of_a_tall_factor():
    rng = np.random.default_rng(1)
    C, ridge, R = rng.normal(size=(9000, 3)), rng.uniform(0.5, 2.0, size=9000), rng.normal(size=(9000, 2))
    small = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 3.0]])
    for G in (None, small):
        found = LowRankInverse(C, G, ridge)(R)
        inner = C.T @ found if G is None else np.linalg.solve(G, C.T @ found)
        assert_allclose(C @ inner + ridge[:, None] * found, R, atol=1e-10)


def test_no_inverse_where_numbers_overflow(X):
    with pytest.raises(SolverError, match=r"between 1\.0e-305 and 1\.0e-305; use solver='cholesky', lower gamma"):
        LowRankInverse(1e10 * random_pivots(RBF(1.0), X, 5), None, np.full(40, 1e-305))


def test_what_overflows_is_refused_whatever_the_factorisation_says(X, monkeypatch):
    monkeypatch.setattr("substrate.least_squares.preconditioner.cholesky", lambda core: core)  # as some LAPACK does
    with pytest.raises(SolverError, match="no preconditioner in double precision"):
        LowRankInverse(1e10 * random_pivots(RBF(1.0), X, 5), None, np.full(40, 1e-305))
