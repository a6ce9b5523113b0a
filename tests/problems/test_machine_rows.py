"""Labels as targets of machines, and the machines one by one: a code of zero leaves a row out."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix

from problems.estimators.shared.coded import Classes, numbers_of_codes
from problems.estimators.shared.machine_rows import each_machine, in_columns, points_of
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


@pytest.mark.parametrize("coding", CODINGS)
def test_a_machine_has_the_rows_whose_code_is_not_zero(coding):
    Y = Classes.of(LABELS, coding).codes(LABELS)
    machines = list(each_machine(Y, labels=True))
    assert [one.column for one in machines] == list(range(Y.shape[1]))
    for one in machines:
        assert_array_equal(one.rows, [row for row in range(LABELS.size) if Y[row, one.column] != 0.0])
        assert_array_equal(one.y, [Y[row, one.column] for row in one.rows])
        assert one.whole == (coding != "one_vs_one")


def test_a_target_of_zero_is_a_target_where_there_are_no_labels():
    (one,) = each_machine(np.array([[0.0], [2.0], [0.0]]), labels=False)
    assert one.whole
    assert_array_equal(one.rows, [0, 1, 2])
    assert_array_equal(one.y, [0.0, 2.0, 0.0])


@pytest.mark.parametrize("components", [(), (3,)])
def test_coefficients_stand_in_the_rows_of_their_machine_and_zeros_elsewhere(components):
    Y = Classes.of(LABELS, "one_vs_one").codes(LABELS)
    whole = np.random.default_rng(0).normal(size=(*Y.shape, *components))
    machines = list(each_machine(Y, labels=True))
    columns = in_columns(machines, [whole[one.rows, one.column] for one in machines], LABELS.size)
    assert_array_equal(columns, np.where((Y != 0.0).reshape(*Y.shape, *[1 for _ in components]), whole, 0.0))


@pytest.mark.parametrize("kind", [np.array, csr_matrix])
def test_points_of_a_machine_are_rows_or_the_square_of_a_matrix(kind):
    X = np.random.default_rng(0).normal(size=(8, 8))
    for one in each_machine(Classes.of(LABELS, "one_vs_one").codes(LABELS), labels=True):
        rows = csr_matrix(one.points(kind(X), False)).toarray()
        square = csr_matrix(one.points(kind(X), True)).toarray()
        assert_array_equal(rows, X[one.rows])
        assert_array_equal(square, one.square(X))
        assert_array_equal(square, X[one.rows][:, one.rows])
    assert_array_equal(points_of(X, [5, 2], True), [[X[5, 5], X[5, 2]], [X[2, 5], X[2, 2]]])
