"""What all displays share: matplotlib on use only, axes given or made, refusals, and names."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import problems.displays
from problems import LSSVMRegressor
from problems.displays.canvas import axes_for, column_names, demand, distinct, pyplot, training_rows, unit_of, with_unit
from substrate.errors import DataError, DeclarationError


def test_the_package_is_cheap_and_no_display_needs_matplotlib_to_be_imported():
    code = """
import sys, problems.displays as displays
print([name for name in ("sklearn", "cvxpy", "matplotlib") if name in sys.modules])
for name in displays.__all__:
    getattr(displays, name)
print([name for name in ("cvxpy", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["[]", "[]"], done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'NoSuchDisplay'"):
        problems.displays.NoSuchDisplay  # noqa: B018
    assert set(problems.displays.__all__) == set(problems.displays.DISPLAYS) <= set(dir(problems.displays))


def test_without_matplotlib_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        pyplot()
    model = LSSVMRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    with pytest.raises(ImportError, match="pip install matplotlib"):
        problems.displays.SupportVectorsDisplay.from_estimator(model, [[0.0], [1.0]], [0.0, 1.0])


def test_axes_are_taken_as_given_and_must_be_enough(plt):
    figure, axes = plt.subplots(1, 2)
    assert_array_equal(axes_for(list(axes), 1, 2)[1], axes)
    assert axes_for(axes[1])[0] is figure
    with pytest.raises(DeclarationError, match="draws on 2 axes, as an array or a list; received 1"):
        axes_for(axes[0], 2)
    with pytest.raises(DeclarationError, match="draws on one axes; received 1: 'here'"):
        axes_for("here")


def test_new_axes_are_laid_out_so_that_nothing_is_clipped(plt):
    figure, axes = axes_for(None, 2, 3)
    assert axes.shape == (6,)
    assert "constrained" in type(figure.get_layout_engine()).__name__.lower()


def test_estimators_of_another_kind_are_refused():
    with pytest.raises(DeclarationError, match="SomeDisplay draws an LS-SVM; received 'model'"):
        demand("model", "alpha_", "SomeDisplay", "an LS-SVM")


def test_names_of_inputs():
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    model = LSSVMRegressor().fit(X, y)
    assert column_names(model) == ["x1", "x2"]
    assert column_names(model, ["a", "b"]) == ["a", "b"]
    model.feature_names_in_ = np.array(["u", "v"])
    assert column_names(model) == ["u", "v"]
    with pytest.raises(DeclarationError, match=r"one name per input, 2 of them; received \['a'\]"):
        column_names(model, ["a"])
    with pytest.raises(DeclarationError, match="one name per input"):
        column_names(model, "ab")
    assert (with_unit("time"), with_unit("time (ms)")) == ("time (its unit)", "time (ms)")


def test_rows_other_than_those_of_the_fit_are_refused():
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    model = LSSVMRegressor().fit(X, y)
    training_rows(model, X)
    with pytest.raises(DataError, match="has row 3 in its support, X has 3 rows"):
        training_rows(model, X[:3])
    with pytest.raises(DataError, match="pass the rows of fit, in order"):
        training_rows(model, X[::-1])
    with pytest.raises(DataError, match="pass the rows of fit, in order"):
        training_rows(model, X[:, :1])


def test_curves_differ_in_more_than_colour():
    styles = distinct(12)
    marks = {(style["marker"], style["linestyle"]) for style in styles}
    assert len(marks) == 12


def test_units_are_read_from_names():
    assert (unit_of("acceleration (g)"), unit_of("y")) == ("g", "units of y")
