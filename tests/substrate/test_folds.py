import numpy as np
import pytest

from substrate.errors import DataError
from substrate.folds import checked_folds, checked_splits


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([], "no folds"),
        ([[0, 1], []], "fold 1 must be row numbers, at least one"),
        ([[0, 1], [1, 2]], "row 1 a second time"),
        ([[0, 0]], "row 0 a second time"),
        ([[0, 5]], "names row 5 of 5"),
        ([[-1]], "row numbers run from 0"),
        ([[0.5]], "fold 0 must be row numbers"),
        ([[0, 1, 2, 3, 4]], "holds all 5 rows"),
    ],
)
def test_bad_folds_are_refused_by_number(folds, message):
    with pytest.raises(DataError, match=message):
        checked_folds(folds, 5)


def test_folds_come_back_as_row_numbers():
    folds = checked_folds([[3, 1], np.array([0], dtype=np.uint8)], 5)
    assert [fold.tolist() for fold in folds] == [[3, 1], [0]]
    assert all(fold.dtype == np.intp for fold in folds)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "no split"),
        ([(np.arange(4), np.arange(3, 5))], "split 0 trains on row 3 and validates on it"),
        ([([0], [1]), ([0], [])], "split 1: test must be row numbers, at least one"),
        ([([], [1])], "split 0: train must be row numbers, at least one"),
        ([([0], [4, 5])], "split 0: test names row 5 of 5 rows; row numbers run from 0 to 4"),
        ([([-1], [2])], "split 0: train names row -1"),
        ([(np.ones(5, dtype=bool), [2])], "split 0: train must be row numbers"),
    ],
)
def test_bad_splits_are_refused_by_number(splits, message):
    with pytest.raises(DataError, match=message):
        checked_splits(splits, 5)


def test_splits_may_be_a_generator_and_may_validate_a_row_twice():
    pairs = checked_splits((([0, 1], [test]) for test in (2, 2)), 3)
    assert [(train.tolist(), test.tolist()) for train, test in pairs] == [([0, 1], [2]), ([0, 1], [2])]
