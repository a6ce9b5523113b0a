"""Support vectors: rings are at the rows of the support, their areas grow with the support values."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVR

from problems import L1SubstrateClassifier, L1SubstrateRegressor, LSSVMRegressor
from problems.displays import SupportVectorsDisplay
from substrate.datasets import motorcycle, ripley
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = motorcycle()
X, Y = X[::3], Y[::3]
P, LABELS = ripley()
P, LABELS = P[::5], LABELS[::5]


def rings(axes):
    (found,) = [c for c in axes.collections if c.get_label() == "support vector"]
    return found


def test_a_regression(plt):
    model = L1SubstrateRegressor(RBF(6.6), zeta=20.0).fit(X, Y)
    display = SupportVectorsDisplay.from_estimator(model, X, Y, names=["time (ms)"], target="acceleration (g)")
    axes = display.ax_
    assert_array_equal(rings(axes).get_offsets(), np.column_stack([X[model.support_, 0], Y[model.support_]]))
    area = rings(axes).get_sizes()
    assert_allclose(np.corrcoef(area, np.abs(model.support_values_))[0, 1], 1.0)
    data, curve = axes.lines
    assert_array_equal(data.get_xydata(), np.column_stack([X[:, 0], Y]))
    assert_allclose(curve.get_ydata(), model.predict(curve.get_xdata()[:, None]))
    assert axes.get_title() == f"L1SubstrateRegressor: {model.support_.size} of {Y.size} rows"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (ms)", "acceleration (g)")


def test_two_classes(plt):
    model = L1SubstrateClassifier(RBF(0.6), zeta=1.0).fit(P, LABELS)
    axes = SupportVectorsDisplay.from_estimator(model, P, LABELS).ax_
    assert_array_equal(rings(axes).get_offsets(), P[model.support_])
    first, second = axes.lines[:2]
    assert_array_equal(first.get_xydata(), P[model.classes_[0] == LABELS])
    assert_array_equal(second.get_xydata(), P[model.classes_[1] == LABELS])
    assert first.get_marker() != second.get_marker(), "classes are told apart without colour"
    contours = [c for c in axes.collections if hasattr(c, "levels")]
    (zero,) = [c for c in contours if list(c.levels) == [0.0]]
    boundary = np.vstack([path.vertices for path in zero.get_paths()])
    assert_allclose(model.decision_function(boundary), 0.0, atol=0.01 * np.ptp(model.decision_function(P)))


def test_refusals(plt):
    model = LSSVMRegressor(RBF(6.6)).fit(X, Y)
    with pytest.raises(DeclarationError, match="draws kernel machines of this package"):
        SupportVectorsDisplay.from_estimator(SVR().fit(X, Y), X, Y)
    with pytest.raises(NotFittedError):
        SupportVectorsDisplay.from_estimator(LSSVMRegressor(), X, Y)
    with pytest.raises(DataError, match="pass the rows of fit, in order"):
        SupportVectorsDisplay.from_estimator(model, X[::-1], Y)
    with pytest.raises(DataError, match=r"regression is drawn over 1 input\(s\), not precomputed; received 2"):
        SupportVectorsDisplay.from_estimator(model, P, Y)
    with pytest.raises(DataError, match="one target per row"):
        SupportVectorsDisplay.from_estimator(model, X, Y[:-1])
    three = L1SubstrateClassifier(RBF(0.6)).fit(P, np.arange(LABELS.size) % 3)
    with pytest.raises(DataError, match="two classes can be drawn, the model has 3"):
        SupportVectorsDisplay.from_estimator(three, P, np.arange(LABELS.size) % 3)
    assert plt.get_fignums() == []
