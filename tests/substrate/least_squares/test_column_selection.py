"""Which columns stay: counts and fractions, ranking, echelon reduction, and where its tolerance acts."""

import column_reduction as oracle
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear
from substrate.least_squares.column_reduction import (
    echelon_columns,
    echelon_threshold,
    ranked_columns,
    support_count,
)
from substrate.least_squares.saddle_system import bordered_matrix, bordered_system


def matrix(n=30, gamma=1.0, kernel=None, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return (kernel or RBF(1.0))(X), np.full(n, 1.0 / gamma)


@pytest.mark.parametrize(
    ("n_support", "expected"),
    [(1, 1), (40, 40), (np.int64(7), 7), (1.0, 40), (0.5, 20), (0.01, 1), (np.float32(0.25), 10), (np.array(0.1), 4)],
)
def test_counts_and_fractions(n_support, expected):
    assert support_count(n_support, 40) == expected


@pytest.mark.parametrize(
    "n_support", [0, -1, 41, 10**400, 0.0, -0.5, 1.5, 2.0, np.nan, np.inf, "half", None, True, 1j, [3], np.array([1])]
)
def test_what_is_neither_is_refused_with_both(n_support):
    with pytest.raises(DeclarationError, match=r"n_support must be a count .* or a fraction in \(0, 1\]"):
        support_count(n_support, 40)


def test_ranking_keeps_the_largest_in_the_order_of_the_rows():
    assert_array_equal(ranked_columns(np.array([0.1, 5.0, -7.0, 2.0]), 2), [1, 3])
    assert_array_equal(ranked_columns(np.abs([0.1, 5.0, -7.0, 2.0]), 2), [1, 2])


def test_ties_up_to_rounding_go_to_the_earlier_row():
    assert_array_equal(ranked_columns(np.array([1.0, 1.0 + 1e-15, 1.0 + 2e-15, 0.5]), 2), [0, 1])
    assert_array_equal(ranked_columns(np.zeros(4), 3), [0, 1, 2])


@pytest.mark.parametrize("gamma", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(5.0), Linear()], ids=repr)
@pytest.mark.parametrize("tolerance", [1e-3, 0.1, 0.6])
def test_the_reduction_is_that_of_the_textbook(gamma, kernel, tolerance):
    """:place [Carvalho2006]_ section 3.3: against Gaussian elimination written out."""
    K, ridge = matrix(gamma=gamma, kernel=kernel)
    M = bordered_matrix(K, ridge)
    threshold = echelon_threshold(K.diagonal(), ridge, tolerance)
    assert_array_equal(echelon_columns(M, threshold), oracle.echelon(M, threshold))


def test_labels_change_no_pivot():
    K, ridge = matrix()
    y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
    A, _ = bordered_system(K, y, ridge)
    assert_array_equal(echelon_columns(A, 1.2), echelon_columns(bordered_matrix(K, ridge), 1.2))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 20.0, 1000.0])
def test_below_one_over_gamma_nothing_is_dropped_and_just_above_much_is(gamma):
    """The erratum of section 3.3: the tolerance acts relative to the diagonal, so the support count jumps there."""
    K, ridge = matrix(60, gamma, RBF(4.0))
    M = bordered_matrix(K, ridge)
    assert echelon_columns(M, 0.99 / gamma).size >= 59  # whatever the kernel explains
    assert echelon_columns(M, 1e-3 / gamma).size == 60
    assert echelon_columns(M, 1.0 / gamma + 0.2).size < 30
    assert echelon_columns(M, 1.0 / gamma + 3.0).size == 0


def test_the_tolerance_is_a_share_of_the_kernel():
    K, ridge = matrix(gamma=2.0)
    assert echelon_threshold(3.0 * K.diagonal(), ridge, 0.2) == pytest.approx(0.5 + 0.6)
    with pytest.raises(DeclarationError, match="tolerance"):
        echelon_threshold(K.diagonal(), ridge, 0.0)


def test_the_bias_stays_however_large_the_threshold():
    K, ridge = matrix()
    assert echelon_columns(bordered_matrix(K, ridge), 1e9).size == 0
