"""Residuals: every error is counted once, and every training row lies on the weight function."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from variants import robust_machine

from problems import LSSVMRegressor
from problems.displays import ResidualsDisplay
from substrate.datasets import sinc_outliers
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF
from substrate.robust_weights import robust_weights

X, Y = sinc_outliers(random_state=0)
X, Y = X[::3], Y[::3]


@pytest.mark.parametrize("weighting", ["hampel", "huber"])
@pytest.mark.parametrize("reweightings", [1, 40])
def test_the_rows_lie_on_the_weight_function(plt, weighting, reweightings):
    model = robust_machine(RBF(1.0), 10.0, weighting=weighting, max_reweightings=reweightings).fit(X, Y)
    display = ResidualsDisplay.from_estimator(model, X, Y)
    curve, rows = display.axes_[1].lines
    assert_array_equal(rows.get_ydata(), model.weights_)
    assert_allclose(robust_weights(rows.get_xdata(), 1.0, weighting), model.weights_, rtol=1e-9)
    assert_allclose(curve.get_ydata(), robust_weights(curve.get_xdata(), 1.0, weighting))
    plain = LSSVMRegressor(RBF(1.0), 10.0).fit(X, Y)
    assert_allclose(display.plain_residuals * model.scale_, Y - plain.predict(X), atol=1e-8)


def test_refusals(plt):
    with pytest.raises(DeclarationError, match="ResidualsDisplay draws LSSVMRegressor with robust weights"):
        ResidualsDisplay.from_estimator(LSSVMRegressor().fit(X, Y), X, Y)
    with pytest.raises(NotFittedError):
        ResidualsDisplay.from_estimator(robust_machine(), X, Y)
    model = robust_machine(RBF(1.0), 10.0).fit(X, Y)
    with pytest.raises(DataError, match="one entry per row of X"):
        ResidualsDisplay.from_estimator(model, X, Y[:-1])
    flat = robust_machine(RBF(1.0), 10.0).fit(X, np.ones(Y.size))
    with pytest.raises(DataError, match="robust scale of the errors is zero"):
        ResidualsDisplay.from_estimator(flat, X, np.ones(Y.size))
    assert plt.get_fignums() == []
