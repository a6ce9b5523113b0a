"""Code books: every class has a different code, every machine tells something, and no two say the same."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from substrate.codings import CODINGS, code_book, correlation_scores
from substrate.errors import DeclarationError

SIZES = (*range(3, 41), 64, 100)
over_codings = pytest.mark.parametrize("coding", CODINGS)


def distances(book):
    """How many entries differ, for each pair of rows."""
    return np.array([np.count_nonzero(a != b) for a, b in itertools.combinations(book, 2)])


@over_codings
def test_every_class_has_its_own_code(coding):
    for n_classes in SIZES:
        book = code_book(coding, n_classes)
        assert book.shape[0] == n_classes
        assert book.dtype == np.float64
        assert len({row.tobytes() for row in book}) == n_classes


@over_codings
def test_every_machine_has_two_sides(coding):
    for n_classes in SIZES:
        book = code_book(coding, n_classes)
        assert set(np.unique(book)) == {-1.0, 1.0}
        assert (book == 1.0).any(axis=0).all()
        assert (book == -1.0).any(axis=0).all()


@over_codings
def test_no_machine_repeats_another_or_its_opposite(coding):
    for n_classes in SIZES:
        columns = code_book(coding, n_classes).T
        oriented = {(column * column[np.flatnonzero(column)[0]]).tobytes() for column in columns}
        assert len(oriented) == len(columns), n_classes


@over_codings
@pytest.mark.parametrize("n_classes", [3, 5, 8, 13])
def test_a_code_is_decoded_to_its_class(coding, n_classes):
    book = code_book(coding, n_classes)
    assert_array_equal(correlation_scores(book, book).argmax(axis=1), np.arange(n_classes))
    outputs = np.random.default_rng(n_classes).normal(size=(50, book.shape[1]))
    scores = correlation_scores(outputs, book)
    nearest = [[np.sum((f - code) ** 2) for code in book] for f in outputs]
    assert_array_equal(scores.argmax(axis=1), np.argmin(nearest, axis=1))
    naive = [[np.mean([a * b for a, b in zip(f, code, strict=True)]) for code in book] for f in outputs]
    np.testing.assert_allclose(scores, naive, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n_classes", [5, 7, 12])
def test_ecoc_corrects_as_many_errors_as_it_promises(n_classes):
    book = code_book("ecoc", n_classes)
    correctable = (int(distances(book).min()) - 1) // 2
    assert correctable >= 1
    rng = np.random.default_rng(n_classes)
    for k in range(n_classes):
        received = book[k].copy()
        received[rng.choice(received.size, correctable, replace=False)] *= -1.0
        assert correlation_scores(received[None], book).argmax() == k


@pytest.mark.parametrize("coding", ["", "ovr", "one_vs_one", "ECOC", None, 3])
def test_unknown_codings_are_refused(coding):
    with pytest.raises(DeclarationError, match=r"one of one_vs_rest, minimum_output, ecoc.*OneVsOneClassifier"):
        code_book(coding, 3)


@over_codings
@pytest.mark.parametrize("n_classes", [1, 0, -1])
def test_fewer_than_two_classes_are_refused(coding, n_classes):
    with pytest.raises(DeclarationError, match="class"):
        code_book(coding, n_classes)
