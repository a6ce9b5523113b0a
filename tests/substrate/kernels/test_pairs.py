"""Kernel matrices and derivatives from differences that are taken once: those of the kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.kernels import RBF, Laplacian, Linear, Matern, PowerExponential
from substrate.kernels.pairs import PairDistances

RNG = np.random.default_rng(2)
POINTS = np.vstack([RNG.normal(size=(12, 3)), RNG.normal(size=(1, 3)).repeat(2, axis=0)])
W = RNG.normal(size=(14, 14))
W += W.T
KERNELS = (
    RBF,
    Laplacian,
    lambda s: Matern(s, 0.5),
    lambda s: Matern(s, 1.5),
    lambda s: Matern(s, 2.5),
    PowerExponential,
)


@pytest.mark.parametrize("made", KERNELS)
@pytest.mark.parametrize("widths", [(1.3, 0.7), ((1.0, 2.0, 0.5), (0.3, 5.0, 1.0))], ids=["one width", "each"])
def test_matrix_and_derivatives_are_those_of_the_kernel(made, widths):
    first, kernel = made(widths[0]), made(widths[1])
    pairs = PairDistances.of(first, POINTS)
    K, slopes = pairs.matrix(kernel)
    assert_allclose(K, kernel(POINTS, POINTS), rtol=1e-12, atol=1e-13)
    expected = kernel.scale_gradient(POINTS, POINTS, W)
    assert_allclose(pairs.scale_gradient(kernel, slopes, W), expected, rtol=1e-9, atol=1e-9)


def test_units_offsets_and_points_beyond_every_width():
    units = np.array([1e-12, 1.0, 1e12])
    far = (POINTS + np.array([0.0, 1e8, 0.0])) * units
    far[0, 2] = 1e300
    kernel = RBF(tuple(units))
    K, slopes = PairDistances.of(kernel, far).matrix(kernel)
    assert_allclose(K, kernel(far, far), rtol=1e-6, atol=1e-12)
    assert np.isfinite(slopes).all()


def test_kernels_of_another_kind_are_left_to_their_own_formulas():
    assert PairDistances.of(Linear(), POINTS) is None
    assert PairDistances.of(Matern(1.0, 0.9), POINTS) is None
    assert PairDistances.of(0.5 * RBF(1.0), POINTS) is None
    assert PairDistances.of(RBF("median"), POINTS) is None
    assert PairDistances.of(RBF(1.0), np.zeros((4001, 1))) is None, "too many pairs to keep"
    assert PairDistances.of(RBF((1.0,) * 57), np.zeros((1001, 57))) is None, "too many numbers to keep"
    pairs = PairDistances.of(Matern(1.0, 1.5), POINTS)
    with pytest.raises(TypeError, match=r"differs from .* by more than its widths"):
        pairs.matrix(Matern(1.0, 2.5))
    with pytest.raises(TypeError, match="differs from"):
        pairs.matrix(RBF(1.0))
