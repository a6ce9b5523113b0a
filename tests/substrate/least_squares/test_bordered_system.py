"""The linear system (4), and why one matrix serves all labels."""

import column_reduction as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.arrays import memory_limit
from substrate.errors import DataError
from substrate.kernels import RBF
from substrate.least_squares.saddle_system import bordered_matrix, bordered_system, bordered_target


def data(n=15, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return RBF(1.0)(rng.normal(size=(n, 2))), y


def test_it_is_the_printed_system_with_the_ridge_on_the_diagonal():
    """:equation [Carvalho2006]_ (4): against the system written out."""
    K, y = data()
    A, B = bordered_system(K, y, np.full(15, 1.0 / 3.0))
    expected, target = oracle.system(K, y, 3.0)
    assert_allclose(A, expected, rtol=1e-15)
    assert_array_equal(B, target)
    assert_array_equal(A, A.T)


def test_labels_are_signs_of_rows_and_columns():
    K, y = data()
    ridge = np.full(15, 0.5)
    A, B = bordered_system(K, y, ridge)
    M, signs = bordered_matrix(K, ridge), np.append(1.0, y)
    assert_array_equal(signs[:, None] * A * signs, M)
    assert_array_equal(signs * B, bordered_target(y))
    assert_allclose(np.linalg.svd(A)[1], np.linalg.svd(M)[1], rtol=1e-12)


def test_several_targets_get_a_zero_each():
    Y = np.ones((4, 3))
    assert_array_equal(bordered_target(Y)[0], 0.0)
    assert bordered_target(Y).shape == (5, 3)


def test_the_kernel_matrix_is_left_alone_and_size_is_checked():
    K, _ = data()
    before = K.copy()
    bordered_matrix(K, np.full(15, 0.5))
    assert_array_equal(K, before)
    with memory_limit(100.0), pytest.raises(DataError, match="16 x 16 matrix of the linear system needs 2048 bytes"):
        bordered_matrix(K, np.full(15, 0.5))
