"""Folds by the numbers of rows: those of scikit-learn's KFold, however the rows are cut."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from substrate.closed_form.fold_labels import ConsecutiveFolds, GivenFolds


@pytest.mark.parametrize(("n", "count"), [(10, 5), (11, 3), (17, 4), (5, 5), (23, 2)])
def test_consecutive_folds_are_those_of_kfold(n, count):
    expected = [fold for _, fold in KFold(count).split(np.zeros(n))]
    folds = ConsecutiveFolds(count, n)
    given = GivenFolds.of(expected, n)
    for rows in (slice(0, n), slice(3, n - 1), slice(n - 2, n)):
        assert np.array_equal(folds.labels(rows), given.labels(rows))


def test_no_folds_are_none():
    assert GivenFolds.of([], 4) is None
    assert list(GivenFolds.of([[2]], 4).labels(slice(0, 4))) == [-1, -1, 0, -1]
