"""Least squares on some of the columns: the pseudo-inverse's solution."""

import column_reduction as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.column_reduction import column_rows, solve_columns, with_bias
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target, solve_saddle_system


def data(n=40, gamma=1.0, kernel=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    K = (kernel or RBF(1.0))(X)
    return K, bordered_matrix(K, np.full(n, 1.0 / gamma)), bordered_target(y)


def values(K, columns, bias, coefficients):
    return K[:, columns] @ coefficients + bias


@pytest.mark.parametrize("gamma", [1e-8, 1e-2, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(10.0), Linear()], ids=repr)
@pytest.mark.parametrize("size", [0, 1, 13, 40])
@pytest.mark.some_cases(30)
def test_decision_values_are_those_of_the_pseudo_inverse(gamma, kernel, size):
    """:place [Carvalho2006]_ sections 3.3 to 3.5, X = pinv(A) B: against numpy."""
    K, M, B = data(gamma=gamma, kernel=kernel)
    columns = np.sort(np.random.default_rng(1).permutation(40)[:size])
    solved = solve_columns(M, columns, B)
    # equilibrated: for gamma = 1e-8 the plain pseudo-inverse would cut the bias off as noise
    length = np.linalg.norm(M, axis=0)
    expected = oracle.pseudo_inverse(M / length, columns, B) / length[with_bias(columns)]
    assert solved.coefficients.shape == (size,)
    f, known = values(K, columns, solved.bias, solved.coefficients), values(K, columns, expected[0], expected[1:])
    # coefficients of the size of gamma cancel in f, and rounding is of their size
    assert_allclose(f, known, atol=1e-8 + 1e-13 * np.abs(expected).max())
    assert all(row.passes for row in column_rows(M, columns, B, solved.bias, solved.coefficients))


@pytest.mark.parametrize("kernel", [RBF(3.0), Linear()], ids=repr)
def test_columns_of_any_length_are_solved(kernel):
    _, M, B = data(gamma=1e4, kernel=kernel)
    columns = np.arange(20)
    solved = solve_columns(M, columns, B)
    C = M[:, with_bias(columns)]
    length = np.linalg.norm(C, axis=0)
    expected = np.linalg.lstsq(C / length, B, rcond=None)[0] / length
    assert_allclose(solved.coefficients, expected[1:], atol=1e-8 * np.abs(expected).max())


def test_equal_columns_share_the_weight():
    """The shortest solution: twins get the same coefficient."""
    _, M, B = data()
    M[:, 2] = M[:, 1]
    solved = solve_columns(M, [0, 1, 5], B)
    assert solved.rank == 3
    assert_allclose(solved.coefficients[0], solved.coefficients[1], rtol=1e-9)
    assert_allclose(np.append(solved.bias, solved.coefficients), oracle.pseudo_inverse(M, [0, 1, 5], B), rtol=1e-8)


def test_all_columns_are_the_ls_svm():
    K, M, B = data(gamma=5.0)
    solved = solve_columns(M, np.arange(40), B)
    expected = solve_saddle_system(Gram.from_matrix(K), B[1:], np.full(40, 0.2))
    assert_allclose(solved.coefficients, expected.support_values, rtol=1e-9, atol=1e-10)
    assert_allclose(solved.bias, expected.bias, rtol=1e-9)


def test_no_columns_leave_the_mean():
    _, M, B = data()
    solved = solve_columns(M, [], B)
    # two ways to add 40 numbers
    assert_allclose(solved.bias, B[1:].mean(), rtol=0.0, atol=40 * np.finfo(float).eps * np.abs(B).max())


@given(st.integers(0, 2**32 - 1), st.integers(1, 15), st.floats(-2.0, 4.0))
@settings(max_examples=40, deadline=None)
def test_no_other_weights_fit_better(seed, size, power):
    _, M, B = data(16, 10.0**power, seed=seed)
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.permutation(16)[:size])
    C = M[:, with_bias(columns)]
    solved = solve_columns(M, columns, B)
    x = np.append(solved.bias, solved.coefficients)
    best = np.linalg.norm(B - C @ x)
    for scale in (1e-3, 1.0):
        assert best <= np.linalg.norm(B - C @ (x + scale * rng.normal(size=x.size))) * (1.0 + 1e-12)


@pytest.mark.parametrize("entry", [0, 3])
def test_a_tampered_number_fails_its_row(entry):
    _, M, B = data()
    columns = np.arange(0, 40, 3)
    solved = solve_columns(M, columns, B)
    x = np.append(solved.bias, solved.coefficients)
    x[entry] += 1e-6
    rows = column_rows(M, columns, B, x[0], x[1:])
    assert [row.name for row in rows] == ["errors orthogonal to the bias column", "errors orthogonal to the columns"]
    assert not any(row.passes for row in rows)


def test_what_overflows_is_refused():
    _, M, B = data()
    with pytest.raises(SolverError, match="overflows; scale the kernel"):
        solve_columns(1e-200 * M, [0, 1], 1e200 * B)


def test_the_bias_column_comes_first():
    assert_array_equal(with_bias([2, 4]), [0, 3, 5])
    assert_array_equal(with_bias([]), [0])
