"""Confidence bands of LS-SVMs: the smoother agrees with refits, bands cover, and what cannot be is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from problems import LSSVMRegressor, LSSVMRegressorCV
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.leave_one_out import hat_matrix
from substrate.uncertainty.bands import Smoother, tube_quantile

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


def test_the_hat_matrix_is_that_of_the_closed_form():
    model = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y)
    (machine,) = model._intervals.machines(None)
    assert_allclose(machine.lines(X), hat_matrix(Gram.of(KERNEL, X), np.full(40, 1.0 / GAMMA)), atol=1e-11)


def test_bands_of_the_mean_are_inside_prediction_intervals_and_a_simultaneous_one_is_wider():
    model = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y)
    pointwise, everywhere = (model.confidence_band(NEW, simultaneous=s) for s in (False, True))
    assert (np.diff(everywhere) > 1.2 * np.diff(pointwise)).all()
    assert_allclose(everywhere.mean(axis=1), pointwise.mean(axis=1), atol=1e-12)
    assert (np.diff(pointwise)[:, 0] < 2.0 * 1.645 * model.predict(NEW, return_std=True)[1]).all()
    shuffled = np.random.default_rng(3).permutation(25)
    assert_allclose(model.confidence_band(NEW[shuffled], simultaneous=True), everywhere[shuffled], rtol=1e-9)


def test_a_band_along_a_path_of_several_inputs():
    rng = np.random.default_rng(4)
    A = rng.uniform(-1.0, 1.0, (40, 2))
    y = A[:, 0] + A[:, 1] ** 2 + 0.1 * rng.standard_normal(40)
    model = LSSVMRegressor(KERNEL, GAMMA).fit(A, y)
    path = np.column_stack([np.linspace(-1.0, 1.0, 5), np.zeros(5)])
    there, both_ways = (model.confidence_band(p, simultaneous=True) for p in (path, np.vstack([path, path[::-1]])))
    assert (np.diff(both_ways[:5]) > np.diff(there)).all()  # a longer curve
    one = model.confidence_band(path[:1], simultaneous=True)
    assert_allclose(one, model.confidence_band(path[:1]))


@pytest.mark.slow
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


def test_weights_of_many_orders_of_magnitude_and_constant_targets():
    weights = np.where(np.arange(40) % 4, 1.0, 1e-30)
    band = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y, weights).confidence_band(NEW)
    few = LSSVMRegressor(KERNEL, GAMMA).fit(X[weights == 1.0], Y[weights == 1.0])
    assert np.isfinite(band).all()
    assert_allclose(band.mean(axis=1), few.confidence_band(NEW).mean(axis=1), rtol=1e-6)
    flat = LSSVMRegressor(KERNEL, GAMMA).fit(X, np.full(40, 3.0)).confidence_band(NEW, simultaneous=True)
    assert_allclose(flat, 3.0)


def test_outputs_linear_columns_a_matrix_and_a_search_have_bands():
    Z = np.column_stack([Y, 2.0 * Y])
    both = LSSVMRegressor(KERNEL, (GAMMA, 2.0)).fit(X, Z).confidence_band(NEW)
    assert both.shape == (25, 2, 2)
    assert_allclose(both[:, 0], LSSVMRegressor(KERNEL, GAMMA).fit(X, Y).confidence_band(NEW))
    K, K_new = KERNEL(X), KERNEL(NEW, X)
    matrix = LSSVMRegressor("precomputed", GAMMA).fit(K, Y)
    assert_allclose(matrix.confidence_band(K_new, rows=K), both[:, 0], rtol=1e-7)
    with pytest.raises(DataError, match="needs X, the kernel matrix"):
        matrix.confidence_band(K_new)
    with pytest.raises(DeclarationError, match="which a precomputed kernel does not give"):
        matrix.confidence_band(K_new, simultaneous=True, rows=K)
    A = np.column_stack([X[:, 0], X[:, 0] ** 2])
    linear = LSSVMRegressor(KERNEL, GAMMA, linear_columns=(1,)).fit(A, Y)
    lines = explicit_lines(LSSVMRegressor(KERNEL, GAMMA, linear_columns=(1,)), A, A)
    assert_allclose(linear._intervals.machines(None)[0].lines(A), lines, atol=1e-8)
    assert linear.confidence_band(A[:3]).shape == (3, 2)
    chosen = LSSVMRegressorCV(KERNEL).fit(X, Y)
    expected = LSSVMRegressor(KERNEL, float(chosen.gamma_)).fit(X, Y).confidence_band(NEW)
    assert_allclose(chosen.confidence_band(NEW), expected, rtol=1e-6)


def test_what_cannot_be_is_refused():
    with pytest.raises(NotFittedError):
        LSSVMRegressor(KERNEL).confidence_band(NEW)
    model = LSSVMRegressor(KERNEL, GAMMA).fit(X, Y)
    with pytest.raises(ValueError, match="coverage"):
        model.confidence_band(NEW, coverage=1.0)
