"""Arrays with twice the digits, against ball arithmetic."""

import numpy as np
import pytest

pytest.importorskip("flint")

import flint

from substrate.certificates.doubled_numbers import DoubledNumbers
from substrate.kernels.doubled_matrix import doubled_matrix
from substrate.proof import balls, formula_of, precision
from tests.oracles.kernel_examples import ALL, columns_for

RNG = np.random.default_rng(0)
SIZES = np.concatenate([10.0 ** RNG.uniform(-12.0, 2.8, 200), [1e-300, 1.0]])
LOW = 1e-17 * SIZES * RNG.normal(size=SIZES.size)


def exact(number, place):
    return flint.arb(float(number.pair[0][place])) + flint.arb(float(number.pair[1][place]))


@pytest.mark.parametrize(
    ("function", "bound"),
    [
        (lambda x: (-x).exp(), 2.0**-97),
        (lambda x: x.sqrt(), 2.0**-101),
        (lambda x: 1 / x, 2.0**-100),
        (lambda x: x * x, 2.0**-100),
        (lambda x: x / 3 + 2 * x - abs(-x) * 0.5, 2.0**-98),
        (lambda x: (x + 1) ** 3, 2.0**-97),
    ],
    ids=["exp", "sqrt", "inverse", "square", "sums", "power"],
)
def test_functions_are_right_to_twice_the_digits(function, bound):
    found = function(DoubledNumbers(SIZES, LOW))
    with precision(300):
        for place, (size, low) in enumerate(zip(SIZES.tolist(), LOW.tolist(), strict=True)):
            if 1e-200 < size < 600.0:
                true = function(flint.arb(size) + flint.arb(low))
                assert float(abs(exact(found, place) / true - 1)) <= bound


def test_the_exponential_of_what_is_far_below_zero_is_zero_and_of_no_number_is_none():
    with np.errstate(invalid="ignore"):
        found = DoubledNumbers(np.array([-1e4, 0.0, np.nan])).exp().pair[0]
    assert found[0] == 0.0
    assert found[1] == 1.0
    assert np.isnan(found[2])


@pytest.mark.parametrize("kernel", [example.kernel for example in ALL if example.kernel.trusted], ids=repr)
@pytest.mark.some_cases(22)
def test_kernel_values_are_within_their_rounding(kernel):
    X = np.random.default_rng(1).normal(size=(5, columns_for(kernel)))
    X[1] = X[0] + 3e-8
    found = doubled_matrix(kernel, X)
    if found is None:  # no formula in this arithmetic
        return
    (high, low), rounding = found
    size = np.sqrt(np.diagonal(high))
    with precision(300):
        formula, points = formula_of(kernel, X.shape[1]), [balls(x) for x in X]
        for i in range(5):
            for j in range(5):
                rest = formula(points[i], points[j]) - flint.arb(high[i, j]) - flint.arb(low[i, j])
                assert float(abs(rest)) <= rounding * size[i] * size[j]
