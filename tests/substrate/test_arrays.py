"""What comes in: arrays that are what they seem, weights that are weights, memory that is there."""

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from substrate.arrays import (
    available_memory,
    check_memory,
    is_sparse,
    memory_limit,
    non_negative,
    positive,
    real_array,
    real_points,
    refuse_disguised,
    row_weights,
    whole_number,
)
from substrate.errors import DataError, DeclarationError

VALUES = [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        tuple(VALUES),
        np.array([1, 2, 3]),
        np.array(VALUES, dtype=np.float32),
        np.array([9.0, 1.0, 9.0, 2.0, 9.0, 3.0])[1::2],
        pandas.Series(VALUES),
        pandas.Series(VALUES, index=[5, 1, 3]),
        polars.Series(VALUES),
    ],
    ids=["list", "tuple", "int", "float32", "strided", "pandas", "pandas index", "polars"],
)
def test_a_vector_is_read_as_contiguous_doubles(values):
    array = real_array(values, "y", ndim=1)
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert_array_equal(array, VALUES)


@pytest.mark.parametrize(
    "frame", [pandas.DataFrame({"a": VALUES, "b": VALUES}), polars.DataFrame({"a": VALUES, "b": VALUES})], ids=str
)
def test_a_frame_is_read_as_a_matrix(frame):
    assert_array_equal(real_points(frame), np.column_stack([VALUES, VALUES]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, np.nan], "y contains NaN or infinity, first at 1; drop or impute"),
        ([np.inf, 1.0], "y contains NaN or infinity, first at 0;"),
        ([[1.0]], r"y must be 1-D, received 2-D of shape \(1, 1\)"),
        ([], r"y is empty: received shape \(0,\)"),
        (["1", "2"], "y must hold real numbers, received dtype <U1"),
        ([None, 1.0], "y must hold real numbers, received dtype object"),
        ([1j], "y is complex; pass its real part"),
        ([[1.0], [1.0, 2.0]], "y cannot be read as an array"),
        (np.ma.masked_array(VALUES, [0, 1, 0]), "y is a masked array and its mask would be lost"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "y holds dates or durations"),
        (np.array([5], dtype="timedelta64[s]"), "y holds dates or durations"),
        (pandas.Series(pandas.to_datetime(["2020-01-01"])), "y holds dates or durations"),
    ],
)
def test_a_vector_that_is_not_one_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        real_array(values, "y", ndim=1)


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"a": [1.0], "b": pandas.to_datetime(["2020-01-01"])}),
        pandas.DataFrame({"a": [1.0], "b": pandas.to_timedelta(["1 day"])}),
        polars.DataFrame({"a": [1.0], "b": ["2020-01-01"]}).with_columns(polars.col("b").str.to_date()),
    ],
    ids=["pandas date", "pandas duration", "polars date"],
)
def test_dates_in_one_column_of_a_frame_are_refused(frame):
    with pytest.raises(DataError, match="X holds dates or durations"):
        refuse_disguised(frame, "X")


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "coo_array", "lil_matrix"])
def test_sparse_points_stay_sparse_and_are_not_modified(form):
    given = getattr(scipy.sparse, form)(np.eye(3, dtype=np.float32))
    points = real_points(given)
    assert is_sparse(points)
    assert points.dtype == np.float64
    points.data[:] = 7.0
    assert_array_equal(given.toarray(), np.eye(3))


@pytest.mark.parametrize(
    "value", [0, -1.0, np.nan, np.inf, "1", None, True, 1j, [1.0], 10**400], ids=lambda v: str(v)[:6]
)
def test_what_is_not_a_positive_number_is_refused_by_name(value):
    with pytest.raises(DeclarationError, match=r"gamma must be (a positive number|positive and finite), received"):
        positive(value, "gamma")


@pytest.mark.parametrize("value", [-1e-300, -1.0, np.nan, np.inf, "1", None, True, 10**400], ids=lambda v: str(v)[:6])
def test_what_is_negative_or_no_number_is_refused_by_name(value):
    with pytest.raises(DeclarationError, match=r"offset must be (a finite number >= 0|>= 0 to keep)"):
        non_negative(value, "offset")


@pytest.mark.parametrize("value", [1, -1, 2.0, "2", None, True, np.True_, np.array([2]), np.nan], ids=repr)
def test_what_is_no_whole_number_or_too_small_is_refused_by_name(value):
    with pytest.raises(DeclarationError, match=r"folds must be an integer >= 2, received "):
        whole_number(value, "folds", 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "weights must have one entry per row: expected 3, received 2"),
        ([1.0, -2.0, 1.0], r"weights must not be negative, received -2\.0 at row 1"),
        ([1.0, 0.0, 1.0], "weights must be positive here: .*drop those rows first"),
        ([1.0, np.nan, 1.0], "weights contains NaN or infinity, first at 1"),
        ([[1.0, 1.0, 1.0]], "weights must be 1-D"),
    ],
)
def test_weights_that_are_no_weights_are_refused(weights, message):
    with pytest.raises(DataError, match=message):
        row_weights(weights, 3)


def test_memory_is_checked_against_the_machine_or_the_given_limit():
    assert 1e6 < available_memory() < 1e16
    check_memory(1.0, "a byte", "none.")
    with memory_limit(100.0):
        check_memory(100.0, "it", "none.")
        with pytest.raises(DataError, match=r"it needs 101 bytes .* and 100 bytes .* are available; try less"):
            check_memory(101.0, "it", "try less.")
    with pytest.raises(DataError, match="it needs 1000000000000000000 bytes"):
        check_memory(1e18, "it", "none.")
