"""Relevance of inputs: bars are the numbers of the model, the most important input on top."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import L1SubstrateRegressor, LSSVMClassifier, LSSVMRegressor, SparseLSSVMRegressor
from problems.displays import RelevanceDisplay
from substrate.datasets import additive_function
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Polynomial

X, Y = additive_function(30, 4, random_state=0)


def bars(axes):
    return np.array([bar.get_width() for bar in axes.patches])


def test_two_measures_in_one_order(plt):
    model = LSSVMRegressor(RBF((1.0, 2.0, 4.0, 8.0)), gamma=5.0).fit(X, Y)
    display = RelevanceDisplay.from_estimator(model, names=list("abcd"), target="price (EUR)", n_repeats=3)
    known = model.left_out_importance(n_repeats=3)
    assert_array_equal(display.order_, np.argsort(-known.importances_mean))
    left, right = display.axes_
    assert_allclose(bars(left), model.relevance_[display.order_])
    assert_allclose(bars(right), known.importances_mean[display.order_])
    ends = np.array(right.collections[0].get_segments())[:, :, 0]
    assert_allclose(np.ptp(ends, axis=1), 2.0 * known.importances_std[display.order_])
    assert [label.get_text() for label in left.get_yticklabels()] == ["abcd"[number] for number in display.order_]
    assert right.get_xlabel() == "increase of mean square error,\nleft out (EUR, squared)"
    assert left.get_ylim()[0] > left.get_ylim()[1], "the first on top"


def test_one_measure_is_enough(plt):
    model = LSSVMRegressor(RBF((1.0, 2.0, 4.0, 8.0)), gamma=5.0).fit(X, Y)
    display = RelevanceDisplay.from_estimator(model, importance=False, most=2)
    assert display.importance is None
    assert_allclose(bars(display.axes_[0]), np.sort(model.relevance_)[:1:-1])
    without = L1SubstrateRegressor(RBF((2.0, 2.0, 2.0, 3.0))).fit(X, Y)
    assert len(RelevanceDisplay.from_estimator(without).axes_) == 1
    labels = LSSVMClassifier(Polynomial(2)).fit(X, np.median(Y) < Y)
    display = RelevanceDisplay.from_estimator(labels)
    assert display.relevance is None
    assert display.axes_[0].get_xlabel() == "drop of accuracy, left out\n(share of rows)"


def test_given_axes_and_rows_given_again(plt):
    model = SparseLSSVMRegressor(RBF((2.0, 2.0, 2.0, 3.0)), gamma=5.0, basis=8).fit(X, Y)
    _, axes = plt.subplots(1, 2)
    assert RelevanceDisplay.from_estimator(model, X, Y, ax=axes).figure_ is axes[0].figure
    with pytest.raises(DataError, match="give the training rows again"):
        RelevanceDisplay.from_estimator(model)
    with pytest.raises(DeclarationError, match="draws on 2 axes"):
        RelevanceDisplay.from_estimator(model, X, Y, ax=axes[0])


def test_refusals(plt):
    with pytest.raises(DeclarationError, match="RelevanceDisplay draws estimators of this package"):
        RelevanceDisplay.from_estimator(3)
    with pytest.raises(NotFittedError):
        RelevanceDisplay.from_estimator(LSSVMRegressor())
    model = LSSVMRegressor(Polynomial(2)).fit(X, Y)
    with pytest.raises(DeclarationError, match="has no relevance_"):
        RelevanceDisplay.from_estimator(model, importance=False)
    with pytest.raises(DeclarationError, match="names must be a list of one name per input"):
        RelevanceDisplay.from_estimator(model, names=["a"])
    with pytest.raises(DeclarationError, match="needs a relevance, an importance or both"):
        RelevanceDisplay(("a",), None, None).plot()
