"""Leave-one-out against fit: the diamonds are explicit refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from problems import L1SubstrateRegressor, LSSVMClassifier, LSSVMRegressor
from problems.displays import LeaveOneOutDisplay
from substrate.datasets import additive_function, motorcycle
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = motorcycle()
ORDER = np.random.default_rng(0).permutation(np.arange(0, Y.size, 5))  # a curve must not depend on it
X, Y = X[ORDER], Y[ORDER]


def test_over_one_input_the_diamonds_are_refits(plt):
    model = LSSVMRegressor(RBF(6.6), gamma=2.0).fit(X, Y)
    display = LeaveOneOutDisplay.from_estimator(model, X, Y, names=["time (ms)"])
    lines = {line.get_label(): line for line in display.ax_.lines}
    explicit = [
        LSSVMRegressor(RBF(6.6), gamma=2.0).fit(np.delete(X, i, 0), np.delete(Y, i)).predict(X[i : i + 1])[0]
        for i in range(Y.size)
    ]
    assert_array_equal(lines["row left out"].get_xdata(), X[:, 0])
    assert_allclose(lines["row left out"].get_ydata(), explicit, rtol=1e-7)
    assert_allclose(lines["data"].get_ydata(), Y)
    order = np.argsort(X[:, 0], kind="stable")
    assert_allclose(lines["fit"].get_ydata(), model.predict(X)[order])
    assert_allclose(display.mean_square, np.mean((Y - explicit) ** 2))
    assert_allclose(display.fit_mean_square, np.mean((Y - model.predict(X)) ** 2))
    assert f"{display.mean_square:.4g}" in display.ax_.get_title()
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("time (ms)", "y (its unit)")


def test_over_several_inputs_it_is_drawn_against_the_fit(plt):
    A, b = additive_function(20, 4, random_state=0)
    model = LSSVMRegressor(RBF(1.0)).fit(A, b)
    _, ax = plt.subplots()
    display = LeaveOneOutDisplay.from_estimator(model, A, b, ax=ax)
    diagonal, rows = ax.lines
    assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    assert_allclose(rows.get_xdata(), model.predict(A))
    assert_allclose(rows.get_ydata(), model.leave_one_out().outputs)
    assert display.ax_ is ax
    assert ax.get_xlabel() == "fit (units of y)"


def test_a_machine_of_a_classifier_and_a_precomputed_kernel(plt):
    A, b = additive_function(20, 4, random_state=0)
    labels = np.digitize(b, np.quantile(b, [0.33, 0.66]))
    model = LSSVMClassifier("precomputed", coding="one_vs_one").fit(K := RBF(1.0)(A), labels)
    display = LeaveOneOutDisplay.from_estimator(model, K, labels, output=2)
    (members,) = np.nonzero(model.support_codes_[:, 2])
    assert_allclose(display.targets, model.support_codes_[members, 2], atol=1e-9)
    assert_allclose(display.left_out, model.leave_one_out(K).outputs[members, 2])


def test_refusals(plt):
    model = LSSVMRegressor(RBF(6.6)).fit(X, Y)
    with pytest.raises(DeclarationError, match="LeaveOneOutDisplay draws LSSVMRegressor"):
        LeaveOneOutDisplay.from_estimator(L1SubstrateRegressor(), X, Y)
    with pytest.raises(NotFittedError):
        LeaveOneOutDisplay.from_estimator(LSSVMRegressor(), X, Y)
    with pytest.raises(DataError, match="does not hold the targets of the fit"):
        LeaveOneOutDisplay.from_estimator(model, X, Y[::-1])
    with pytest.raises(DataError, match="one entry per row of X"):
        LeaveOneOutDisplay.from_estimator(model, X, Y[:-1])
    with pytest.raises(DataError, match="pass the rows of fit, in order"):
        LeaveOneOutDisplay.from_estimator(model, X + 1.0, Y)
    with pytest.raises(DeclarationError, match="outputs 0 to 0; received output=1"):
        LeaveOneOutDisplay.from_estimator(model, X, Y, output=1)
    assert plt.get_fignums() == []
