"""The chord bound: below everything that can happen between two knots, for one path and for several."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from substrate.errors import DeclarationError
from substrate.penalized.homotopy.chord_certificate import Track, find_settled, interval_bounds, merge_tracks

THETA = np.linspace(0.0, 1.0, 301)


def random_track(seed, values, rows=3, sigma=0.4, size=1.0):
    rng = np.random.default_rng(seed)
    k = len(values)
    gaps = size * rng.uniform(0.0, 0.3, k)
    return Track(
        np.asarray(values, float), rng.normal(size=(k, rows)), gaps, size * rng.uniform(0.0, 1.0, k - 1), sigma
    )


def squares_and_gap(track, value):
    """Error along the chord and sigma^2 gap at one value, from the formulas; constant beyond the last knot."""
    values = track.values
    if value >= values[-1]:
        return track.errors[-1] @ track.errors[-1], track.sigma**2 * track.gaps[-1]
    k = int(np.searchsorted(values, value, side="right")) - 1
    theta = (value - values[k]) / (values[k + 1] - values[k])
    e = (1.0 - theta) * track.errors[k] + theta * track.errors[k + 1]
    gap = (1.0 - theta) ** 2 * track.gaps[k] + theta**2 * track.gaps[k + 1] + theta * (1.0 - theta) * track.crosses[k]
    return e @ e, track.sigma**2 * gap


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), sigma=st.floats(0.0, 3.0), size=st.sampled_from([1e-6, 1e-2, 1.0, 30.0]))
def test_the_bound_is_below_dense_sampling(seed, sigma, size):
    track = random_track(seed, [0.0, 0.3, 1.0, 4.0], sigma=sigma, size=size)
    bounds, places = interval_bounds(*track.quadratics())
    for k in range(3):
        values = track.values[k] + THETA * (track.values[k + 1] - track.values[k])
        found = [squares_and_gap(track, value) for value in values[:-1]]
        sampled = [max(np.sqrt(s) - np.sqrt(max(g, 0.0)), 0.0) ** 2 for s, g in found]
        assert bounds[k] <= min(sampled) + 1e-12 * max(sampled)
    assert ((places >= 0.0) & (places <= 1.0)).all()


def test_the_bound_is_tight_where_the_chord_is_exact():
    """On one segment of a path there is no gap, and the bound is the minimum of a parabola."""
    track = Track(np.array([0.0, 1.0]), np.array([[1.0, 2.0], [-1.0, 2.0]]), np.zeros(2), np.zeros(1), 5.0)
    bounds, places = interval_bounds(*track.quadratics())
    assert_allclose(bounds, [4.0], rtol=1e-12)  # less the rounding of a few sums
    assert_allclose(places, [0.5], atol=1e-14)


def test_the_quadratics_are_the_formulas():
    track = random_track(0, [0.0, 1.0, 2.5])
    errors, gaps = track.quadratics()
    for k in range(2):
        for theta in (0.0, 0.25, 0.9):
            value = track.values[k] + theta * (track.values[k + 1] - track.values[k])
            squares, gap = squares_and_gap(track, value)
            assert_allclose(errors[k] @ [1.0, theta, theta**2], squares, rtol=1e-12)
            assert_allclose(gaps[k] @ [1.0, theta, theta**2], gap, rtol=1e-12, atol=1e-15)


def test_a_larger_gap_or_cross_term_lowers_the_bound():
    track = random_track(4, [0.0, 1.0], rows=8, size=1e-4)
    before = interval_bounds(*track.quadratics())[0]
    for tampered in (
        Track(track.values, track.errors, track.gaps + 1e-3, track.crosses, track.sigma),
        Track(track.values, track.errors, track.gaps, track.crosses + 1e-2, track.sigma),
        Track(track.values, track.errors, track.gaps, track.crosses, 10.0 * track.sigma),
    ):
        assert (interval_bounds(*tampered.quadratics())[0] < before - 1e-6).all()


def test_merged_knots_are_brute_force():
    one = random_track(1, [0.0, 1.0, 3.0])
    two = random_track(2, [0.0, 0.5, 2.0, 2.5], rows=5, sigma=0.7)
    values = np.union1d(one.values, two.values)
    errors, gaps = merge_tracks([one, two], values)
    for k in range(values.size - 1):
        for theta in (0.0, 0.2, 0.7, 0.999):
            value = values[k] + theta * (values[k + 1] - values[k])
            expected = [sum(pair) for pair in zip(*(squares_and_gap(t, value) for t in (one, two)), strict=True)]
            powers = [1.0, theta, theta**2]
            assert_allclose([errors[k] @ powers, gaps[k] @ powers], expected, rtol=1e-10)
    bounds, _ = interval_bounds(errors, gaps)
    for k in range(values.size - 1):
        inside = values[k] + THETA[:-1] * (values[k + 1] - values[k])
        total = np.array([np.sum([squares_and_gap(t, value) for t in (one, two)], axis=0) for value in inside])
        assert bounds[k] <= (np.maximum(np.sqrt(total[:, 0]) - np.sqrt(total[:, 1]), 0.0) ** 2).min() + 1e-12


def test_a_track_of_one_knot_is_constant():
    point = Track(np.zeros(1), np.array([[3.0, 4.0]]), np.array([0.01]), np.zeros(0), 2.0)
    errors, gaps = merge_tracks([point], np.array([0.0, 1.0, 5.0]))
    assert_allclose(errors, [[25.0, 0.0, 0.0]] * 2)
    assert_allclose(gaps, [[0.04, 0.0, 0.0]] * 2)


@pytest.mark.parametrize("values", [[0.0, 3.0], [-1.0, 0.0, 1.0, 3.0]])
def test_common_knots_that_skip_one_are_refused(values):
    with pytest.raises(DeclarationError, match="every knot of each track"):
        merge_tracks([random_track(1, [0.0, 1.0, 3.0])], np.array(values))


def test_settled_intervals_gain_nothing_from_a_cut():
    """With the gap of the ends all along, or none, and no better error inside; not so with a cross term."""
    e = np.array([[1.0], [2.0], [3.0], [-1.0]])
    track = Track(np.arange(4.0), e, np.full(4, 1e-3), np.array([2e-3, 1.0, 2e-3]), 1.0)
    found = find_settled(*track.quadratics(), 1.0)
    assert found.tolist() == [True, False, False], "the last chord passes through zero error"
