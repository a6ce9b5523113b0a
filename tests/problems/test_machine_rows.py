"""Labels as targets of machines, and some of the points of a machine."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from problems.estimators.shared.coded import Classes, numbers_of_codes
from substrate.arrays import take_points
from substrate.codings import CODINGS
from substrate.errors import DataError, DeclarationError

LABELS = np.array(["ash", "oak", "elm", "ash", "elm", "yew", "oak", "ash"])


@pytest.mark.parametrize("coding", CODINGS)
def test_codes_lead_back_to_the_classes_of_the_labels(coding):
    classes = Classes.of(LABELS, coding)
    assert_array_equal(classes.names, ["ash", "elm", "oak", "yew"])
    assert_array_equal(classes.names[classes.numbers(LABELS)], LABELS)
    assert_array_equal(numbers_of_codes(classes.codes(LABELS), classes.book), classes.numbers(LABELS))


def test_one_class_and_an_unknown_coding_are_refused():
    with pytest.raises(DataError, match="at least two classes"):
        Classes.of(np.array(["ash", "ash"]), "one_vs_rest")
    with pytest.raises(DeclarationError, match="coding must be one of"):
        Classes.of(LABELS, "by_height")


@pytest.mark.parametrize("kind", [np.array, csr_matrix])
def test_points_of_a_machine_are_rows_or_the_square_of_a_matrix(kind):
    X = np.random.default_rng(0).normal(size=(8, 8))
    rows = [0, 3, 4]
    assert_array_equal(csr_matrix(take_points(kind(X), rows, False)).toarray(), X[rows])
    assert_array_equal(csr_matrix(take_points(kind(X), rows, True)).toarray(), X[rows][:, rows])
    assert_array_equal(take_points(X, [5, 2], True), [[X[5, 5], X[5, 2]], [X[2, 5], X[2, 2]]])
