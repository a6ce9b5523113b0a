"""Pre-images: ridge by leave-one-out, and a fixed point that is never worse than its start."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DeclarationError
from substrate.kernels import RBF, Laplacian
from substrate.spectral.pre_images import fit_pre_images, follow_fixed_point


def test_the_left_out_error_is_that_of_refits():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(12, 2))
    X = np.column_stack([Z[:, 0] ** 2, Z.sum(axis=1), np.full(12, 3.0)]) + 0.1 * rng.normal(size=(12, 3))
    found = fit_pre_images(Z, X)
    errors = []
    lam = found_lambda(found, X)
    for i in range(12):
        kept = np.arange(12) != i
        K = found.kernel(Z[kept])
        system = np.block([[np.zeros((1, 1)), np.ones((1, 11))], [np.ones((11, 1)), K + lam * np.eye(11)]])
        solved = np.linalg.solve(system, np.vstack([np.zeros((1, 3)), X[kept]]))
        errors.append(X[i] - (found.kernel(Z[[i]], Z[kept]) @ solved[1:] + solved[0])[0])
    assert_allclose(found.left_out, np.sqrt(np.mean(np.square(errors))), rtol=1e-6)


def found_lambda(found, X):
    """Return lambda from e = lambda alpha."""
    errors = X - found(found.scores)
    return float(np.sum(errors * found.coefficients) / np.sum(found.coefficients**2))


def test_a_fixed_point_is_a_stationary_point_and_an_improvement():
    """Find where the gradient vanishes, from a start that is worse.

    :place [Mika1999]_ fixed-point iteration: the fixed point of a pre-image, with steps that are improvements only
    """
    rng = np.random.default_rng(0)
    X, kernel = rng.normal(size=(40, 2)), RBF(1.5)
    c = rng.uniform(-0.02, 0.1, size=(5, 40))
    start = X[:5] + 0.3
    answer = follow_fixed_point(kernel, X, c, start)

    def height(points):
        return np.sum(c * kernel(points, X), axis=1)

    assert np.all(height(answer) >= height(start))
    weights = c * kernel(answer, X)
    gradient = weights @ X - weights.sum(axis=1)[:, None] * answer
    assert np.abs(gradient).max() < 1e-6


def test_a_pure_feature_has_its_point_as_pre_image():
    X, kernel = np.random.default_rng(0).normal(size=(20, 3)), RBF(1.0)
    assert_allclose(follow_fixed_point(kernel, X, np.eye(20), X + 0.05), X, atol=1e-6)


def test_another_kernel_has_no_fixed_point():
    X = np.zeros((3, 1))
    with pytest.raises(DeclarationError, match="use pre_image='ridge'"):
        follow_fixed_point(Laplacian(1.0), X, np.ones((1, 3)), X[:1])
