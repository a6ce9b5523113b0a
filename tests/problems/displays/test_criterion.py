"""The criterion over gamma: the curve is the criterion of the fit, never below its certified bound."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from problems import LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV
from problems.displays import CriterionDisplay
from substrate.datasets import motorcycle, ripley
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = motorcycle()
X, Y = X[::3], Y[::3]
P, LABELS = ripley()
P, LABELS = P[::5], LABELS[::5]


def checked(display):
    """The laws that hold for every model."""
    curve, best, bound, _ = display.ax_.lines
    assert_array_equal(curve.get_xydata(), np.column_stack([display.gammas, display.values]))
    assert (np.diff(display.gammas) > 0.0).all()
    assert_array_equal(best.get_xydata(), [[display.best_gamma, display.best_value]])
    assert set(bound.get_ydata()) == {display.lower_bound}
    assert display.values.min() >= display.lower_bound
    assert_allclose(display.values.min(), display.best_value, rtol=0.02)
    assert bound.get_linestyle() != curve.get_linestyle()
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "mean squared error (units of y, squared)"
    return display


@pytest.mark.parametrize("criterion", ["loo", "gcv", "folds"])
def test_the_curve_of_a_search_is_that_of_refits(plt, criterion):
    model = LSSVMRegressorCV(RBF(6.6), cv=5 if criterion == "folds" else criterion).fit(X, Y)
    display = checked(CriterionDisplay.from_estimator(model))
    k = int(np.argmin(np.abs(np.log(display.gammas) - np.log(3.0 * model.gamma_))))
    refit = LSSVMRegressor(RBF(6.6), gamma=display.gammas[k])
    if criterion == "folds":
        parts = [np.mean((Y[b] - refit.fit(X[a], Y[a]).predict(X[b])) ** 2) for a, b in KFold(5).split(X)]
        expected = np.mean(parts)
    else:
        left = refit.fit(X, Y).leave_one_out()
        expected = left.mean_square if criterion == "loo" else left.gcv
    assert_allclose(display.values[k], expected, rtol=1e-6)


@pytest.mark.parametrize("criterion", ["loo", "folds"])
def test_classifiers(plt, criterion):
    model = LSSVMClassifierCV(RBF(0.6), cv=5 if criterion == "folds" else criterion).fit(
        P, np.where(LABELS[0] == LABELS, "b", "a")
    )
    checked(CriterionDisplay.from_estimator(model))


def test_refusals(plt):
    with pytest.raises(DeclarationError, match="CriterionDisplay draws machines that chose"):
        CriterionDisplay.from_estimator(LSSVMRegressor().fit(X, Y))
    with pytest.raises(NotFittedError):
        CriterionDisplay.from_estimator(LSSVMRegressorCV())
    with pytest.raises(DataError, match="this choice of gamma has no lower bound"):
        CriterionDisplay.from_estimator(LSSVMRegressorCV(RBF(6.6), robust="huber", cv=2, gamma_range=(1, 10)).fit(X, Y))
    model = LSSVMRegressorCV(RBF(6.6)).fit(X, Y)
    with pytest.raises(DeclarationError, match="outputs 0 to 0; received output=1"):
        CriterionDisplay.from_estimator(model, output=1)
    assert plt.get_fignums() == []
