"""Weights of maximal variations: one number, or one for each component."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.errors import DeclarationError
from substrate.ingredients.component_weights import each_weight, penalty, weights_of


def test_a_number_and_equal_numbers_mean_the_same():
    t = np.array([1.0, 0.0, 3.0])
    for rho, total in ((2.0, 8.0), (np.full(3, 2.0), 8.0), (np.array([1.0, 5.0, 2.0]), 7.0)):
        assert penalty(rho, t) == total
        assert list(each_weight(rho, 3)) == np.broadcast_to(rho, 3).tolist()


def test_what_was_given_is_kept():
    assert weights_of(2, 3) == 2.0
    for given in ([1, 2.5], (1.0, 2.5), np.array([1.0, 2.5])):
        assert_array_equal(weights_of(given, 2), [1.0, 2.5])


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "2", None, True, np.ones((2, 2)), {"a": 1.0}])
def test_one_number_must_be_positive(wrong):
    with pytest.raises(DeclarationError, match="rho must be"):
        weights_of(wrong, 2)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "2", None, True])
def test_every_number_must_be_positive_and_is_named(wrong):
    with pytest.raises(DeclarationError, match=r"rho\[1\] must be"):
        weights_of([1.0, wrong], 2)


def test_there_is_one_for_each_component():
    with pytest.raises(DeclarationError, match="one for each component: expected 3, received 2"):
        weights_of([1.0, 2.0], 3)
