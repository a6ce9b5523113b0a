"""Partial pivoted Cholesky: the trace of what is left falls, and nothing is left at full rank."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.conjugate_gradient import pivoted_cholesky

KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(1.5), 0.3 * RBF(0.5) + Linear()]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture(name="X")
def points():
    return np.random.default_rng(0).normal(size=(40, 3))


def naive(K, rank):
    """The same by eliminating one row and column of K at a time."""
    left = np.array(K)
    columns = []
    for _ in range(rank):
        pivot = int(np.argmax(np.diag(left)))
        if left[pivot, pivot] <= 1e-12 * np.diag(K).max():
            break
        column = left[:, pivot] / np.sqrt(left[pivot, pivot])
        columns.append(column)
        left = left - np.outer(column, column)
    return np.column_stack(columns)


@every_kernel
def test_the_remaining_trace_falls_and_the_rest_stays_positive(X, kernel):
    K = kernel(X)
    L = pivoted_cholesky(kernel, X, 40)
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
    L = pivoted_cholesky(kernel, X, 40)
    assert_allclose(L @ L.T, K, atol=1e-10 * np.abs(K).max())


@every_kernel
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_equals_elimination_step_by_step(X, kernel, rank):
    assert_allclose(pivoted_cholesky(kernel, X, rank), naive(kernel(X), rank), atol=1e-9)


def test_a_rank_is_a_prefix_of_a_larger_one(X):
    assert_allclose(pivoted_cholesky(RBF(1.0), X, 7), pivoted_cholesky(RBF(1.0), X, 20)[:, :7], atol=1e-14)
    assert pivoted_cholesky(RBF(1.0), X, 1000).shape[1] <= 40


def test_kernels_of_low_rank_stop_early(X):
    assert pivoted_cholesky(Linear(), X, 40).shape == (40, 3)
    assert pivoted_cholesky(Polynomial(1, 2.0), X, 40).shape == (40, 4)
    assert pivoted_cholesky(Polynomial(2, 1.0), X, 40).shape == (40, 10)
    assert pivoted_cholesky(RBF(1.0).on(0), np.zeros((12, 1)), 12).shape == (12, 1)


def test_duplicates_stop_early(X):
    twice = np.repeat(X[:9], 3, axis=0)
    L = pivoted_cholesky(RBF(1.0), twice, 27)
    assert L.shape == (27, 9)
    assert_allclose(L @ L.T, RBF(1.0)(twice), atol=1e-12)


@pytest.mark.parametrize("kernel", [0.0 * RBF(1.0), Linear()], ids=repr)
def test_a_kernel_that_is_nought_has_no_columns(kernel):
    assert pivoted_cholesky(kernel, np.zeros((6, 2)), 4).shape == (6, 0)


def test_a_looser_tolerance_stops_earlier(X):
    ranks = [pivoted_cholesky(RBF(3.0), X, 40, tolerance=t).shape[1] for t in (1e-1, 1e-3, 1e-6)]
    assert ranks[0] < ranks[1] < ranks[2]
    for tolerance, rank in zip((1e-1, 1e-3, 1e-6), ranks, strict=True):
        L = pivoted_cholesky(RBF(3.0), X, 40, tolerance=tolerance)
        assert (1.0 - (L**2).sum(axis=1)).max() <= tolerance
        assert rank == L.shape[1]


def test_sparse_points(X):
    X = np.where(X > 0.0, X, 0.0)
    dense = pivoted_cholesky(RBF(1.0), X, 15)
    assert_allclose(pivoted_cholesky(RBF(1.0), sp.csr_matrix(X), 15), dense, atol=1e-10)


def test_the_points_are_not_changed(X):
    before = X.copy()
    pivoted_cholesky(Linear(), X, 3)
    assert_array_equal(X, before)
