"""Left-out residuals equal explicit refits; criteria are what their names say; bad folds and splits are refused."""

import bordered_system as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear
from substrate.least_squares.leave_one_out import (
    checked_splits,
    generalized_cross_validation,
    hat_matrix,
    leave_one_out_residuals,
    left_out_residuals,
    projected_diagonal,
    projected_inverse,
)
from substrate.least_squares.saddle_system import solve_saddle_system

RNG = np.random.default_rng(5)
X = RNG.normal(size=(21, 2))
Y = RNG.normal(size=(21, 3))
WEIGHTED = 0.3 / RNG.uniform(0.1, 4.0, size=21)
cases = pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Linear()], ids=repr)
ridges = pytest.mark.parametrize("ridge", [np.full(21, 0.3), np.full(21, 1e-6), WEIGHTED], ids=["1", "1e-6", "weights"])


def fitted(kernel, ridge, y=Y):
    gram = Gram.of(kernel, X[: len(ridge)])
    return solve_saddle_system(gram, y, ridge).support_values, projected_inverse(gram, ridge)


@cases
@ridges
def test_leave_one_out_equals_one_refit_a_row(kernel, ridge):
    """:place [Cawley2004]_ section 2.5: against one refit a row."""
    alpha, B = fitted(kernel, ridge)
    residuals = leave_one_out_residuals(alpha, B.diagonal())
    explicit = oracle.leave_one_out(kernel(X), Y, ridge)
    assert_allclose(residuals, explicit, rtol=1e-7, atol=1e-7 * np.abs(explicit).max())
    one = leave_one_out_residuals(alpha[:, 0], B.diagonal())
    assert_allclose(one, residuals[:, 0], rtol=1e-12)


@cases
@ridges
def test_left_out_blocks_equal_refits(kernel, ridge):
    """:equation [Cawley2004]_ (A.1): the block of the inverse gives what refits without its rows give."""
    alpha, B = fitted(kernel, ridge)
    folds = [np.arange(k, 21, 4) for k in range(4)]
    for fold in folds:
        residuals = left_out_residuals(alpha, B, fold)
        explicit = oracle.left_out_residuals(kernel(X), Y, ridge, list(fold))
        assert_allclose(residuals, explicit, rtol=1e-6, atol=1e-7 * np.abs(explicit).max())
        assert_allclose(left_out_residuals(alpha[:, 1], B, fold), residuals[:, 1], rtol=1e-10)


@cases
@ridges
def test_the_diagonal_alone_is_that_of_the_inverse(kernel, ridge):
    gram = Gram.of(kernel, X)
    B = projected_inverse(gram, ridge)
    assert_allclose(projected_diagonal(gram, ridge), B.diagonal(), rtol=1e-7)
    assert_allclose(B, B.T, atol=0.0)


def test_the_diagonal_of_an_indefinite_matrix_goes_by_its_own_factor():
    K = np.diag([1.0, -2.0, 3.0, 1.5])
    gram = Gram.from_matrix(K)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        diagonal = projected_diagonal(gram, np.full(4, 0.5))
    inverse = np.linalg.inv(K + 0.5 * np.eye(4))
    eta = inverse.sum(axis=1)
    assert_allclose(diagonal, (inverse - np.outer(eta, eta) / eta.sum()).diagonal(), rtol=1e-12)


def test_two_rows_predict_each_other():
    alpha, B = fitted(RBF(1.0), np.full(2, 0.3), Y[:2, 0])
    assert_allclose(leave_one_out_residuals(alpha, B.diagonal()), [Y[0, 0] - Y[1, 0], Y[1, 0] - Y[0, 0]], rtol=1e-12)


def test_one_row_and_a_fold_of_all_rows_leave_nothing():
    with pytest.raises(SolverError, match=r"without row 0 .* B_ii is 0"):
        leave_one_out_residuals(np.zeros(1), np.zeros(1))
    alpha, B = fitted(RBF(1.0), np.full(21, 0.3))
    with pytest.raises(DataError, match="holds all 21 rows"):
        left_out_residuals(alpha, B, np.arange(21))
    with pytest.raises(SolverError, match="not positive definite"):
        left_out_residuals(alpha, np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), [0, 1])
    with pytest.raises(SolverError, match="zero on its diagonal"):
        left_out_residuals(alpha, np.zeros((3, 3)), [0, 1])


def test_gcv_is_leave_one_out_with_equal_leverages():
    ridge = np.full(21, 0.3)
    H = hat_matrix(Gram.of(RBF(1.0), X), ridge)
    errors = Y[:, 0] - H @ Y[:, 0]
    expected = np.mean((errors / (1.0 - np.trace(H) / 21.0)) ** 2)
    assert_allclose(generalized_cross_validation(errors, np.trace(H)), expected, rtol=1e-12)
    assert_allclose(generalized_cross_validation(errors, np.trace(H), np.full(21, 2.0)), 2.0 * expected, rtol=1e-12)
    with pytest.raises(SolverError, match="degrees of freedom"):
        generalized_cross_validation(errors, 21.0)


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
