"""Component functions: curves are the components, dots the partial residuals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from variants import componentwise_machine

from problems import LSSVMRegressor
from problems.displays import ComponentFunctionsDisplay
from substrate.datasets import additive_function
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF

X, Y = additive_function(30, 4, random_state=0)


@pytest.fixture(scope="module")
def model():
    return componentwise_machine(RBF(1.0), gamma=5.0).fit(X, Y)


def test_curves_and_partial_residuals(plt, model):
    display = ComponentFunctionsDisplay.from_estimator(model, X, Y, components=[2, 0])
    values = model.component_functions(X)
    errors = Y - model.predict(X)
    for axes, column in zip(display.axes_, (2, 0), strict=True):
        dots, curve = axes.lines
        assert_array_equal(dots.get_xdata(), X[:, column])
        assert_allclose(dots.get_ydata(), values[:, column] + errors, atol=1e-9)
        points = np.tile(X[3], (curve.get_xdata().size, 1))  # whatever the other columns hold
        points[:, column] = curve.get_xdata()
        assert_allclose(curve.get_ydata(), model.component_functions(points)[:, column], atol=1e-9)
        assert (curve.get_xdata()[0], curve.get_xdata()[-1]) == (X[:, column].min(), X[:, column].max())
        assert axes.get_xlabel() == f"x{column + 1} (its unit)"
    assert display.axes_[0].get_ylabel() == "contribution (units of y)"


def test_unless_named_those_that_matter_come_largest_first(plt, model):
    display = ComponentFunctionsDisplay.from_estimator(model, X)
    variation = model.maximal_variation_
    supported = [f"x{column + 1}" for column in np.flatnonzero(variation > 0.05 * variation.max())]
    assert sorted(part.name for part in display.components) == supported
    assert display.components[0].name == f"x{int(model.maximal_variation_.argmax()) + 1}"
    assert all(part.partial_residuals is None for part in display.components)
    assert all(len(axes.lines) == 1 for axes in display.axes_)
    assert len(display.figure_.axes) == len(display.components), "no empty panel"


def test_refusals(plt, model):
    with pytest.raises(DeclarationError, match="draws additive models"):
        ComponentFunctionsDisplay.from_estimator(LSSVMRegressor().fit(X, Y), X)
    with pytest.raises(NotFittedError):
        ComponentFunctionsDisplay.from_estimator(componentwise_machine(), X)
    with pytest.raises(DeclarationError, match="numbers from 0 to 3"):
        ComponentFunctionsDisplay.from_estimator(model, X, components=[4])
    with pytest.raises(DeclarationError, match="machines 0 to 0"):
        ComponentFunctionsDisplay.from_estimator(model, X, machine=1)
    with pytest.raises(DataError, match=r"expected 30, received shape \(29,\)"):
        ComponentFunctionsDisplay.from_estimator(model, X, Y[:-1])
    assert plt.get_fignums() == []
