"""The inverse from a Cholesky factor by halves, against the identity, at sizes on both sides of a single block."""

import numpy as np
import pytest
from scipy.linalg.lapack import dpotrf

from substrate.least_squares.triangular_inverse import invert_from_factor


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 131, 200])
def test_the_product_with_the_matrix_is_the_identity(n):
    """To n eps times the condition of the matrix, whatever is below the diagonal of the factor."""
    rng = np.random.default_rng(n)
    half = rng.normal(size=(n, n + 5)) * np.logspace(0.0, -2.0, n)[:, None]
    A = half @ half.T + 1e-3 * np.eye(n)
    factor, info = dpotrf(np.asfortranarray(A), lower=0, clean=0)
    assert info == 0
    below = np.tril(factor, -1)
    inverse = invert_from_factor(factor)
    assert inverse is not None
    np.testing.assert_array_equal(np.tril(inverse, -1), below)
    whole = np.triu(inverse) + np.triu(inverse, 1).T
    condition = float(np.linalg.cond(A))
    assert np.abs(whole @ A - np.eye(n)).max() <= 10.0 * n * np.finfo(float).eps * condition


def test_a_zero_on_the_diagonal_has_no_inverse():
    for place in (0, 40, 99):
        factor = np.asfortranarray(np.triu(np.ones((100, 100))))
        factor[place, place] = 0.0
        assert invert_from_factor(factor) is None
