"""Ranks of order statistics follow the written decimal."""

import math

import numpy as np
import pytest

from substrate.errors import DeclarationError
from substrate.intervals.conformal import exact_level, rank


def test_the_rank_is_that_of_the_decimal_at_every_per_cent():
    for percent in range(1, 100):
        for n in (1, 3, 9, 19, 49, 99, 199, 999):
            assert rank(float(f"0.{percent:02d}"), n) == -(-percent * (n + 1) // 100), (percent, n)


@pytest.mark.parametrize("coverage", [0, 1, 0.0, 1.0, -0.1, 1.5, 90, math.nan, math.inf, np.float64("nan")])
def test_a_level_that_is_no_share_is_refused(coverage):
    with pytest.raises(DeclarationError, match=r"coverage must be above 0 and below 1.*received"):
        rank(coverage, 10)


@pytest.mark.parametrize("coverage", [True, "0.9", None, [0.9], np.array([0.9]), 0.9 + 0j])
def test_what_is_no_number_is_refused(coverage):
    with pytest.raises(DeclarationError, match="coverage must be a number between 0 and 1, received"):
        exact_level(coverage)
