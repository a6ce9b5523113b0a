"""Products without rounding: within their stated error of the exact ones, in all units, zeros and overflow included."""

from fractions import Fraction

import numpy as np
import pytest

from substrate.certificates.doubled_precision import SlicedMatrix, multiply


@pytest.mark.parametrize("unit", [1e-160, 1e-30, 1.0, 1e30, 1e140])
@pytest.mark.parametrize("wild", [False, True])
def test_a_product_is_within_its_error(unit, wild):
    rng = np.random.default_rng(0)
    matrix, vector = unit * rng.normal(size=(4, 30)), unit * rng.normal(size=30)
    if wild:
        matrix *= 10.0 ** rng.uniform(-12, 12, size=matrix.shape)
        vector *= 10.0 ** rng.uniform(-12, 12, size=30)
    (high, low), error = SlicedMatrix(matrix).times(vector)
    for row, *found in zip(matrix, high, low, error, strict=True):
        true = sum(Fraction(k) * Fraction(a) for k, a in zip(row, vector, strict=True))
        assert abs(Fraction(found[0]) + Fraction(found[1]) - true) <= Fraction(found[2])
        assert found[2] <= 2.0**-60 * np.abs(row).max() * np.abs(vector).max() + 1e-318


def test_nothing_times_anything_is_exactly_nothing():
    (high, low), error = SlicedMatrix(1e30 * np.ones((2, 3))).times(np.zeros(3))
    assert not high.any()
    assert not low.any()
    assert not error.any()


def test_overflow_is_never_finite():
    with np.errstate(all="ignore"):
        (high, low), error = SlicedMatrix(np.full((1, 2), 1e200)).times(np.full(2, 1e200))
        product, rest = multiply(np.array([1e305]), np.array([2.0]))
    assert not np.isfinite(high + low + error).any()
    assert not np.isfinite(product + rest).any()
