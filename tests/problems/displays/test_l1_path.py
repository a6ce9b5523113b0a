"""The L1 path: lines are solutions of the problem at their zeta."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import FusedL1SubstrateRegressor, L1SubstrateClassifier, L1SubstrateRegressor, LSSVMRegressor
from problems.displays import L1PathDisplay
from substrate.datasets import motorcycle, ripley
from substrate.errors import DataError, DeclarationError
from substrate.fits.paths import l1_path
from substrate.kernels import RBF

X, Y = motorcycle()
X, Y = X[::5], Y[::5]
KERNEL = RBF(3.0)


def test_the_lines_are_solutions(plt):
    model = L1SubstrateRegressor(KERNEL, zeta=30.0).fit(X, Y)
    display = L1PathDisplay.from_estimator(model, X, Y)
    assert_allclose(display.values[0], 3.0)  # a tenth of the zeta of the model
    k = int(np.searchsorted(display.values, 30.0))
    other = L1SubstrateRegressor(KERNEL, zeta=display.values[k]).fit(X, Y)
    expected = np.zeros(Y.size)
    expected[other.support_] = other.support_values_
    assert_allclose(display.coefficients[k], expected, atol=1e-6 * np.abs(expected).max())
    above, below = display.axes_
    for line in above.lines:
        if line.get_label().startswith("row "):
            row = int(line.get_label().removeprefix("row "))
            assert_array_equal(line.get_ydata(), display.coefficients[:, row])
            assert_array_equal(line.get_xdata(), display.values)
    (largest,) = [line for line in above.lines if line.get_label().startswith("row ")][:1]
    assert largest.get_label() == f"row {model.support_[np.abs(model.support_values_).argmax()]}"
    assert any(line.get_label() == "zeta = 30" and set(line.get_xdata()) == {30.0} for line in above.lines)
    (stairs,) = below.patches
    assert_array_equal(stairs.get_data().values, display.n_support)
    assert_array_equal(stairs.get_data().edges, display.values)
    assert display.n_support[-1] == 2, "two atoms enter together, one of each sign"
    assert below.get_xlabel() == "zeta (units of y times kernel)"
    assert above.get_xscale() == below.get_xscale() == "log"


def test_a_path_by_itself_on_the_axes_given(plt):
    path = l1_path(KERNEL(X), Y)
    _, axes = plt.subplots(2)
    display = L1PathDisplay.from_path(path, ax=axes)
    assert_array_equal(display.axes_, axes)
    assert np.isin(path.values, display.values).all()
    assert_allclose(display.coefficients[-1], 0.0)
    assert not any(line.get_label().startswith("zeta") for line in axes[0].lines)


def test_a_zeta_above_everything_still_shows_the_path(plt):
    model = L1SubstrateRegressor(KERNEL, zeta=1e6).fit(X, Y)
    assert model.n_support_ == 0
    display = L1PathDisplay.from_estimator(model, X, Y)
    assert display.values[-1] < 1e5
    low, high = display.axes_[0].get_xlim()
    assert low < 1e6 < high


def test_fused_and_classes(plt):
    fused = FusedL1SubstrateRegressor(KERNEL, random_state=0).fit(X, Y)
    assert L1PathDisplay.from_estimator(fused, X, Y).zeta == fused.zeta_
    P, labels = ripley()
    P, labels = P[::10], np.arange(25) % 3
    model = L1SubstrateClassifier(RBF(0.6), coding="one_vs_one").fit(P, labels)
    display = L1PathDisplay.from_estimator(model, P, labels, machine=1)
    assert display.coefficients.shape[1] == np.count_nonzero(model.code_book_[labels, 1])
    with pytest.raises(DataError, match="machine be below 3; received"):
        L1PathDisplay.from_estimator(model, P, labels, machine=3)


def test_refusals(plt):
    with pytest.raises(DeclarationError, match="L1PathDisplay draws L1SubstrateRegressor"):
        L1PathDisplay.from_estimator(LSSVMRegressor(), X, Y)
    with pytest.raises(NotFittedError):
        L1PathDisplay.from_estimator(L1SubstrateRegressor(), X, Y)
    with pytest.raises(DeclarationError, match="draws a path in zeta"):
        L1PathDisplay.from_path("path")
    with pytest.raises(DataError, match="nothing to draw: a = 0 for every requested zeta"):
        L1PathDisplay.from_path(l1_path(KERNEL(X), Y, 1e9))
    model = L1SubstrateRegressor(KERNEL, zeta=30.0).fit(X, Y)
    with pytest.raises(DataError, match="one entry per row of X"):
        L1PathDisplay.from_estimator(model, X, Y[:-1])
    assert plt.get_fignums() == []
