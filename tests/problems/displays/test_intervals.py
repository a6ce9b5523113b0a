"""Intervals as a band or as bars: the numbers come from predict_interval, and infinite ends are drawn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import LSSVMClassifier, LSSVMRegressor
from problems.displays import IntervalDisplay
from substrate.datasets import additive_function, motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = motorcycle()
TRAIN, TEST = np.arange(0, Y.size, 2), np.arange(1, Y.size, 2)


def test_over_one_input_there_is_a_band(plt):
    model = LSSVMRegressor(RBF(6.6), gamma=2.0).fit(X[TRAIN], Y[TRAIN])
    display = IntervalDisplay.from_estimator(
        model, X[TEST], Y[TEST], coverage=0.8, names=["time (ms)"], target="acceleration (g)"
    )
    ends = model.predict_interval(X[TEST], 0.8)
    assert_array_equal(display.ends, ends)
    inside = (ends[:, 0] <= Y[TEST]) & (Y[TEST] <= ends[:, 1])
    assert display.covered == inside.mean()
    lines = {line.get_label(): line for line in display.ax_.lines}
    assert_array_equal(lines["target inside"].get_ydata(), Y[TEST][inside])
    assert_array_equal(lines["target outside"].get_ydata(), Y[TEST][~inside])
    places = display.band[:, [0]]
    assert_allclose(lines["prediction"].get_ydata(), model.predict(places))
    assert_allclose(display.band[:, 2:], model.predict_interval(places, 0.8))
    assert f"{inside.mean():.1%} of {TEST.size} targets covered" in display.ax_.get_title()
    assert "covers at least 0.8 of new rows" in " ".join(display.ax_.get_title().split())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("time (ms)", "acceleration (g)")


def test_over_several_inputs_there_are_bars_and_infinite_ends_reach_the_edge(plt):
    A, b = additive_function(30, 4, random_state=0)
    model = LSSVMRegressor(RBF(2.0)).fit(A[:5], b[:5])
    _, ax = plt.subplots()
    display = IntervalDisplay.from_estimator(model, A[5:], b[5:], ax=ax)
    assert np.isinf(display.ends).all()
    assert display.covered == 1.0
    assert display.ax_ is ax
    assert np.isfinite(ax.get_ylim()).all()
    (bars,) = ax.collections
    assert len(bars.get_segments()) == 25
    assert np.isfinite(np.concatenate(bars.get_segments())).all()


def test_what_cannot_be_drawn_is_refused(plt):
    A, b = additive_function(30, 4, random_state=0)
    with pytest.raises(DeclarationError, match="IntervalDisplay draws regressors; received LSSVMClassifier"):
        IntervalDisplay.from_estimator(LSSVMClassifier().fit(A, b > np.median(b)), A, b)
    with pytest.raises(NotFittedError):
        IntervalDisplay.from_estimator(LSSVMRegressor(), A, b)
    model = LSSVMRegressor(RBF(2.0)).fit(A, b)
    with pytest.raises(DataError, match="y must have one entry per row of X: expected 30, received 29"):
        IntervalDisplay.from_estimator(model, A, b[1:])
    matrix = LSSVMRegressor("precomputed").fit(RBF(2.0)(A), b)
    with pytest.raises(DeclarationError, match="which a precomputed kernel does not have"):
        IntervalDisplay.from_estimator(matrix, RBF(2.0)(A), b)
