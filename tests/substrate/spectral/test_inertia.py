"""Counts of eigenvalues: against exact ones, at thresholds near them, and where the factors do not say."""

import mpmath
import numpy as np
import pytest

from substrate.spectral.inertia import count_above


@pytest.mark.parametrize("n", [1, 2, 3, 17, 60])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_count_is_that_of_the_eigenvalues(n, scale):
    A = np.random.default_rng(n).normal(size=(n, n))
    A = scale * (A + A.T)
    values = np.linalg.eigvalsh(A)
    for threshold in scale * np.array([-2.3, -0.1, 0.4, 3.1]):
        counted = count_above(A, threshold)
        assert counted.radius < 1e-8 * scale
        assert np.sum(values > counted.above) <= counted.count <= np.sum(values >= threshold - counted.radius)


def test_the_radius_covers_exact_eigenvalues_next_to_the_threshold():
    """With mpmath: a threshold a little above and below an eigenvalue, near enough for rounding to matter."""
    rng = np.random.default_rng(0)
    A = rng.integers(-9, 9, size=(6, 6)).astype(float)
    A = A + A.T
    with mpmath.workdps(60):
        exact = sorted(mpmath.eigsy(mpmath.matrix(A.tolist()), eigvals_only=True))
    for value in exact:
        for shift in (-1e-13, 0.0, 1e-13):
            counted = count_above(A, float(value) + shift)
            above = mpmath.mpf(counted.threshold) + mpmath.mpf(counted.radius)
            below = mpmath.mpf(counted.threshold) - mpmath.mpf(counted.radius)
            assert sum(v > above for v in exact) <= counted.count <= sum(v >= below for v in exact)


def test_the_error_of_the_matrix_is_added():
    A = np.diag([1.0, 2.0, 3.0])
    assert count_above(A, 2.5, error=0.25).radius >= 0.25
    assert count_above(A, 2.5).count == 1


def test_a_singular_pivot_says_nothing():
    assert count_above(np.zeros((3, 3)), 0.0).radius == np.inf
