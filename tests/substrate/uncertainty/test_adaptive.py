"""Adaptive conformal inference: its update, and a guarantee that no series breaks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.uncertainty.adaptive import AdaptiveIntervals

RNG = np.random.default_rng(2)
N = 300
#: Series of errors, some made to break intervals: ever larger, in bursts, always or never outside of what came before.
SERIES = {
    "white": RNG.normal(size=N),
    "growing": np.exp(0.1 * np.arange(N)),
    "vanishing": np.exp(-0.1 * np.arange(N)),
    "bursts": np.where(np.arange(N) // 50 % 2, 100.0, 0.01) * RNG.normal(size=N),
    "zero": np.zeros(N),
}


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("rate", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("name", SERIES)
def test_no_series_breaks_the_guarantee(name, rate, coverage):
    """The share of rows outside is within the bound after every number of rows.

    :place [Gibbs2021]_ Proposition 4.1: the long-run coverage of every series
    """
    intervals = AdaptiveIntervals([1.0, 2.0, 0.5], coverage, rate)
    missed = np.array([not intervals.observe(error) for error in SERIES[name]])
    shares = np.cumsum(missed) / np.arange(1, N + 1)
    bounds = np.array([intervals.bound(rows) for rows in range(1, N + 1)])
    assert (np.abs(shares - (1.0 - coverage)) <= bounds).all()
    assert -rate <= intervals.level <= 1.0 + rate


def test_an_adversary_does_not_break_it():
    """Every error is chosen after the interval is known, so as to be outside whenever that is possible."""
    intervals = AdaptiveIntervals([1.0], 0.9, 0.05)
    missed = 0
    for row in range(1, 401):
        radius = intervals.radius
        missed += not intervals.observe(0.0 if np.isinf(radius) else 2.0 if np.isnan(radius) else 2.0 * radius + 1.0)
        assert abs(missed / row - 0.1) <= intervals.bound()
    assert missed > 10


def test_intervals_by_hand():
    intervals = AdaptiveIntervals([1.0, 2.0, 3.0, 4.0], 0.5, 0.1)
    assert intervals.radius == 3.0  # the third smallest of four: 5 x 0.5 rounded up
    assert not intervals.observe(-3.5)
    assert_allclose(intervals.level, 0.45)
    assert intervals.scores == [1.0, 2.0, 3.0, 3.5, 4.0]
    assert intervals.radius == 3.5  # 6 x 0.55 rounded up
    intervals.level = 0.0
    assert intervals.radius == np.inf
    intervals.level = 1.0
    assert np.isnan(intervals.radius)
    assert not intervals.observe(0.0)
    assert intervals.bound(0) == np.inf


def test_followed_intervals_have_ends_around_predictions():
    predictions, targets = RNG.normal(size=50), RNG.normal(size=50)
    followed = AdaptiveIntervals([0.1], 0.8, 0.1).follow(predictions, targets)
    assert followed.holds
    kept = np.isfinite(followed.ends).all(axis=1)
    assert_allclose(followed.ends[kept].mean(axis=1), predictions[kept])
    assert followed.share == followed.covered.mean()


def test_what_makes_no_interval_is_refused():
    with pytest.raises(DataError, match="at least one"):
        AdaptiveIntervals([])
    with pytest.raises(DataError, match="finite"):
        AdaptiveIntervals([np.nan])
    with pytest.raises(DeclarationError, match="rate"):
        AdaptiveIntervals([1.0], rate=1.0)
    with pytest.raises(DeclarationError, match="coverage"):
        AdaptiveIntervals([1.0], 1.5)
    with pytest.raises(DataError, match="not finite"):
        AdaptiveIntervals([1.0]).observe(np.inf)
    with pytest.raises(DataError, match="one length"):
        AdaptiveIntervals([1.0]).follow(np.zeros(3), np.zeros(4))
