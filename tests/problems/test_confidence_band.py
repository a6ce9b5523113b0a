"""Confidence bands of LS-SVMs: the smoother agrees with refits, bands cover, and what cannot be is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor
from substrate.intervals.bands import Smoother, tube_quantile
from substrate.kernels import RBF, Linear

KERNEL, GAMMA = RBF(1.2), 5.0
X = np.sort(np.random.default_rng(0).uniform(-3.0, 3.0, 40))[:, None]
Y = np.sin(1.5 * X[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(40)
NEW = np.linspace(-3.0, 3.0, 25)[:, None]


def explicit_lines(machine, A, new, weights=None):
    """The derivative of predictions in every target, by one fit per target."""
    zero = machine.fit(A, np.zeros(len(A)), weights).predict(new)
    return np.column_stack([machine.fit(A, unit, weights).predict(new) - zero for unit in np.eye(len(A))])


@pytest.mark.parametrize("kernel", [KERNEL, Linear()], ids=["rbf", "features"])
def test_a_band_is_that_of_refits(kernel):
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 40)
    model = LSSVMRegressor(kernel, GAMMA).fit(X, Y, weights)
    all_lines = explicit_lines(LSSVMRegressor(kernel, GAMMA), X, np.vstack([NEW, X]), weights)
    hat = all_lines[25:]
    for corrected in (True, False):
        band = model.confidence_band(NEW, 0.95, bias_corrected=corrected)
        lines = all_lines[:25]
        center = lines @ Y
        if corrected:
            center, lines = center + lines @ (Y - hat @ Y), 2.0 * lines - lines @ hat
        deviation, freedom = Smoother.of(hat, Y - hat @ Y, weights, corrected).noise()
        reach = tube_quantile(0.95, freedom) * deviation * np.sqrt(lines**2 @ (1.0 / weights))
        assert_allclose(band, np.column_stack([center - reach, center + reach]), rtol=1e-6, atol=1e-8)


def test_bands_of_the_mean_are_inside_prediction_intervals_and_a_simultaneous_one_is_wider():
    model = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y)
    pointwise, everywhere = (model.confidence_band(NEW, simultaneous=s) for s in (False, True))
    assert (np.diff(everywhere) > 1.2 * np.diff(pointwise)).all()
    assert_allclose(everywhere.mean(axis=1), pointwise.mean(axis=1), atol=1e-12)
    assert (np.diff(pointwise)[:, 0] < 2.0 * 1.645 * model.predict(NEW, return_std=True)[1]).all()
    shuffled = np.random.default_rng(3).permutation(25)
    assert_allclose(model.confidence_band(NEW[shuffled], simultaneous=True), everywhere[shuffled], rtol=1e-9)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_bands_cover_the_mean_as_often_as_they_state(simultaneous):
    """Of 200 draws."""
    truth, rng, shares = np.sin(1.5 * NEW[:, 0]), np.random.default_rng(5), []
    for _ in range(200):
        y = np.sin(1.5 * X[:, 0]) + 0.3 * rng.standard_normal(40)
        model = LSSVMRegressor(KERNEL, GAMMA).fit(X, y)
        low, high = model.confidence_band(NEW, simultaneous=simultaneous).T
        inside = (low <= truth) & (truth <= high)
        shares.append(inside.all() if simultaneous else inside.mean())
    error = np.sqrt(0.9 * 0.1 / 200)  # pointwise shares vary less than that
    assert 0.9 - 2.0 * error <= np.mean(shares) <= 0.9 + 3.0 * error


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_units_and_offsets_of_the_targets_do_not_matter(unit, offset):
    band = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y).confidence_band(NEW, simultaneous=True)
    other = LSSVMRegressor(KERNEL, GAMMA).fit(X, unit * Y + offset).confidence_band(NEW, simultaneous=True)
    assert_allclose((other - offset) / unit, band, rtol=1e-6, atol=1e-6)
