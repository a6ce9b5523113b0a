"""``subtract_below``: never above the exact difference of a value and a product, each rounded once."""

from fractions import Fraction

import numpy as np

from substrate.numbers import subtract_below


def test_a_difference_is_never_above_the_exact_one():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        h, s, d = rng.normal(size=3) * 10.0 ** rng.uniform(-8.0, 8.0, size=3)
        if rng.uniform() < 0.5:  # nearly equal
            h = s * d * (1.0 + 4.0 * np.finfo(float).eps * rng.normal())
        exact = Fraction(float(h)) - Fraction(float(s)) * Fraction(float(d))
        found = subtract_below(float(h), float(s * d))
        assert Fraction(found) <= exact
        assert float(exact - Fraction(found)) <= 16.0 * np.finfo(float).eps * (abs(h) + abs(s * d))


def test_arrays_are_taken_entry_by_entry():
    h, loss = np.array([1.0, 2.0]), np.array([[0.5, 0.25], [-3.0, 0.0]])
    found = subtract_below(h, loss)
    for i in range(2):
        for j in range(2):
            assert found[i, j] == subtract_below(float(h[j]), float(loss[i, j]))
