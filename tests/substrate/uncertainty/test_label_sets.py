"""Counts of less strange rows, and the rank that they are compared with."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.errors import DeclarationError
from substrate.uncertainty.calibration import in_set, less_strange, nonconformity


def test_nonconformity_is_minus_the_margin_of_the_own_class():
    assert_array_equal(nonconformity(np.array([2.0, 2.0, -1.0]), [1, 0, 0]), [-2.0, 2.0, -1.0])
    assert_array_equal(nonconformity(np.array([[1.0, 3.0, 2.0]] * 3), [0, 1, 2]), [2.0, -1.0, 1.0])


def test_equally_strange_rows_are_not_less_strange():
    found = less_strange(np.array([3.0, 1.0, 1.0, 2.0]), np.array([-1.0, -2.5, 9.0]))
    assert_array_equal(found, [[0, 0], [0, 3], [4, 0]])
    assert_array_equal(less_strange(np.array([1.0]), np.array([1.0])), [[0, 0]])


def test_labels_belong_while_fewer_rows_are_less_strange_than_the_rank():
    assert_array_equal(in_set([8, 9, 10], 0.9, 9), [True, False, False])  # ceil(0.9 * 10) = 9
    assert in_set([8], 0.9, 8).all(), "too few rows for the coverage: every label belongs"


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, np.nan, True, "0.9"])
def test_coverage_is_between_zero_and_one(coverage):
    with pytest.raises(DeclarationError, match="coverage must be"):
        in_set([0], coverage, 9)
