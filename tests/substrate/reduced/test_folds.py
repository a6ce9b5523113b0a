"""Folds by the numbers of rows: those of scikit-learn's KFold, however the rows are cut."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from substrate.codings import code_book
from substrate.reduced.folds import ConsecutiveFolds, GivenFolds, StratifiedFolds
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import MICRO


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


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("classes", [2, 4])
def test_stratified_folds_are_those_of_scikit_learn(classes, count):
    rng = np.random.default_rng(classes)
    n = 2 * MICRO + 77
    labels = rng.integers(0, classes, size=n)
    labels[: n // 3] = classes - 1  # the last class comes first, and one is rare
    labels[labels == 0] = np.where(rng.random((labels == 0).sum()) < 0.99, 1, 0)
    assert np.bincount(labels).min() >= count
    book = code_book("one_vs_rest", classes)
    Y = book[labels]
    folds = StratifiedFolds.of(count, ArraySource(np.zeros((n, 1)), Y), book, OpenPasses())
    expected = GivenFolds.of([fold for _, fold in StratifiedKFold(count).split(np.zeros(n), labels)], n)
    for start in range(0, n, MICRO):
        rows = slice(start, min(start + MICRO, n))
        assert np.array_equal(folds.labels(rows, Y[rows]), expected.labels(rows))
