"""Confidence bands: linear smoothers by explicit matrices, the tube formula against simulation, and coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import stdtrit

from substrate.intervals.bands import Smoother, curve_length, tube_quantile

N = 12


def smoothed(seed=0, weighted=True):
    """A hat matrix of ridge regression on three columns, targets and weights."""
    rng = np.random.default_rng(seed)
    A, y = rng.normal(size=(N, 3)), rng.normal(size=N)
    v = rng.uniform(0.2, 3.0, N) if weighted else np.ones(N)
    hat = A @ np.linalg.solve(A.T @ (v[:, None] * A) + 0.3 * np.eye(3), A.T * v)
    return hat, y, v


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("corrected", [False, True])
def test_noise_and_freedom_are_those_of_the_smoother_in_use(corrected, weighted):
    hat, y, v = smoothed(weighted=weighted)
    smoother = Smoother.of(hat, y - hat @ y, v, corrected)
    in_use = 2.0 * hat - hat @ hat if corrected else hat
    R = np.eye(N) - in_use
    G = R.T @ np.diag(v) @ R @ np.diag(1.0 / v)
    deviation, freedom = smoother.noise()
    assert_allclose(deviation**2, (v * (R @ y) ** 2).sum() / np.trace(G), rtol=1e-10)
    assert_allclose(freedom, np.trace(G) ** 2 / np.trace(G @ G), rtol=1e-10)
    rows = np.random.default_rng(1).normal(size=(4, N))
    lines = 2.0 * rows - rows @ hat if corrected else rows
    assert_allclose(smoother.lines(rows), lines / np.sqrt(v), rtol=1e-10, atol=1e-12)
    assert_allclose(rows @ y + smoother.shift(rows), lines @ y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("freedom", [3.5, 20.0, 1e6])
def test_without_a_curve_the_quantile_is_students(freedom):
    assert_allclose(tube_quantile(0.9, freedom), stdtrit(freedom, 0.95), rtol=1e-9)
    assert tube_quantile(0.9, freedom, 2.0) > tube_quantile(0.9, freedom, 1.0) > tube_quantile(0.9, freedom)


def test_the_tube_formula_covers_a_random_curve_as_often_as_it_states():
    """:place [SunLoader1994]_ the tube formula: against simulation"""
    rng = np.random.default_rng(3)
    t = np.linspace(0.0, 1.0, 200)
    raw = np.exp(-0.5 * ((t[:, None] - np.linspace(0.0, 1.0, 9)) / 0.12) ** 2)

    def unit(points):
        raw = np.exp(-0.5 * ((points - np.linspace(0.0, 1.0, 9)) / 0.12) ** 2)
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)

    length = curve_length(unit, np.array([[0.0], [1.0]]))
    vectors = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    largest = np.abs(rng.standard_normal((20_000, 9)) @ vectors.T).max(axis=1)
    for coverage in (0.8, 0.9, 0.95):
        share = np.mean(largest <= tube_quantile(coverage, 1e9, length))
        assert abs(share - coverage) < 0.015, coverage
    estimated = np.sqrt(rng.chisquare(8.0, 20_000) / 8.0)
    assert abs(np.mean(largest / estimated <= tube_quantile(0.9, 8.0, length)) - 0.9) < 0.015
