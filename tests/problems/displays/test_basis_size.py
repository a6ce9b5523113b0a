"""Curves over the size of a basis are the arrays given."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from problems.displays import BasisSizeDisplay
from substrate.errors import DataError

SIZES = np.array([5.0, 10.0, 20.0])


def test_the_lines_are_the_arrays(plt):
    errors = {"pruned": [3.0, 2.0, 1.0], "selected": [2.0, 1.5, 1.2]}
    display = BasisSizeDisplay.from_arrays(SIZES, errors, [0.5, 1e-2, 1e-4])
    above, below = display.axes_
    for line, (name, values) in zip(above.lines, errors.items(), strict=True):
        assert line.get_label() == name
        assert_array_equal(line.get_xdata(), SIZES)
        assert_array_equal(line.get_ydata(), values)
    assert_array_equal(below.lines[0].get_ydata(), [0.5, 1e-2, 1e-4])
    assert (above.get_yscale(), below.get_yscale()) == ("linear", "log")
    assert above.lines[0].get_linestyle() != above.lines[1].get_linestyle()
    assert below.get_xlabel() == "basis vectors (number)"
    assert above.get_ylabel() == "mean squared error (units of y, squared)"
    assert below.get_ylabel() == "relative reconstruction error (share)"


def test_one_array_is_one_panel_on_the_axes_given(plt):
    _, ax = plt.subplots()
    display = BasisSizeDisplay.from_arrays(SIZES, [3.0, 2.0, 1.0], error_label="wrong (share)", ax=ax)
    assert list(display.axes_) == [ax]
    assert ax.get_ylabel() == "wrong (share)"


def test_a_zero_error_keeps_the_axis_linear(plt):
    display = BasisSizeDisplay.from_arrays(SIZES, [3.0, 2.0, 0.0])
    assert display.axes_[0].get_yscale() == "linear"


def test_refusals(plt):
    with pytest.raises(DataError, match=r"errors\['error'\] must have one entry per size: 3, received 2"):
        BasisSizeDisplay.from_arrays(SIZES, [1.0, 2.0])
    with pytest.raises(DataError, match="names no curve"):
        BasisSizeDisplay.from_arrays(SIZES, {})
    with pytest.raises(DataError, match="NaN or infinity"):
        BasisSizeDisplay.from_arrays(SIZES, [1.0, np.nan, 2.0])
    assert plt.get_fignums() == []
