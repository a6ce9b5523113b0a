"""The second stage as a convex problem: declared = closed form = pseudo-inverse, and what its columns may be."""

import column_reduction as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import column_reduced_ls_svm, ls_svm_classification
from substrate.errors import DataError
from substrate.kernels import RBF

selections = pytest.mark.parametrize("selection", ["signed", "absolute"])


def data(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return RBF(1.0)(X), np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)


@selections
@pytest.mark.parametrize("n_support", [1, 9, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 30.0])
@pytest.mark.covering
def test_three_ways_to_the_same_numbers(selection, n_support, gamma):
    """:place [Carvalho2006]_ sections 3.3 to 3.5, X = pinv(A) B: declared, closed form and numpy."""
    K, y = data()
    declared = column_reduced_ls_svm.declare(K, y, gamma, n_support, selection).solve()
    closed = column_reduced_ls_svm.closed_form(K, y, gamma, n_support, selection)
    certificate = declared.certificate(against=closed)
    assert certificate.holds, str(certificate)
    alpha = ls_svm_classification.closed_form(K, y, gamma)["support_values"]
    rank = np.argsort(-(alpha if selection == "signed" else np.abs(alpha)))
    kept = np.sort(rank[: n_support if isinstance(n_support, int) else round(40 * n_support)])
    A, B = oracle.system(K, y, gamma)
    expected = oracle.pseudo_inverse(A, kept, B)
    assert_array_equal(np.flatnonzero(closed["support_values"]), kept)
    assert_allclose(closed["support_values"][kept], expected[1:], rtol=1e-8, atol=1e-9)
    assert_allclose(closed["bias"], expected[0], rtol=1e-8, atol=1e-9)
    assert_allclose(closed["errors"], B - A[:, [0, *(kept + 1)]] @ expected, atol=1e-8)


@pytest.mark.parametrize("columns", [[-1], [40], [0.5], "ab", [[1, 2]], [True, False]], ids=repr)
def test_columns_that_are_none_are_refused(columns):
    K, y = data()
    with pytest.raises(DataError, match="columns must be a list of patterns, integers from 0 to 39"):
        column_reduced_ls_svm.declare(K, y, 2.0, columns=columns)


def test_a_ridge_in_every_entry_is_another_machine():
    """The erratum of (3): 1/gamma belongs on the diagonal."""
    K, y = data()
    A, B = oracle.system(K, y, 2.0)
    A[1:, 1:] += 0.5 * (1.0 - np.eye(40))
    closed = column_reduced_ls_svm.closed_form(K, y, 2.0, 1.0)
    printed = np.linalg.solve(A, B)
    assert np.abs(printed[1:] - closed["support_values"]).max() > 1e-2


def test_the_sign_in_the_first_row_changes_nothing():
    """The erratum of (4): -Y' for Y' leaves the least-squares solution as it is, whatever the columns."""
    K, y = data()
    A, B = oracle.system(K, y, 2.0)
    A[0] *= -1.0
    kept = np.arange(0, 40, 3)
    closed = column_reduced_ls_svm.closed_form(K, y, 2.0, columns=kept)
    assert_allclose(oracle.pseudo_inverse(A, kept, B)[1:], closed["support_values"][kept], rtol=1e-8, atol=1e-9)
