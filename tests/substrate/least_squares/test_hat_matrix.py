"""The hat matrix equals refits of unit vectors; its trace counts degrees of freedom."""

import bordered_system as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.leave_one_out import hat_matrix, projected_inverse
from substrate.least_squares.saddle_system import solve_saddle_system

RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 2))
RIDGES = [np.full(25, 0.5), np.full(25, 1e3), np.linspace(0.01, 2.0, 25)]
cases = pytest.mark.parametrize(
    ("kernel", "ridge"),
    [(kernel, ridge) for kernel in (RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(1.0)) for ridge in RIDGES],
)


@cases
def test_the_hat_matrix_is_one_refit_a_column(kernel, ridge):
    """:place [Cawley2004]_ section 2.6: against one fit a column."""
    H = hat_matrix(Gram.of(kernel, X), ridge)
    assert_allclose(H, oracle.hat_matrix(kernel(X), ridge), atol=1e-10)


@cases
def test_fitted_values_are_the_hat_matrix_times_y_and_a_constant_is_kept(kernel, ridge):
    y = np.random.default_rng(1).normal(size=25)
    gram = Gram.of(kernel, X)
    H = hat_matrix(gram, ridge)
    solved = solve_saddle_system(gram, y, ridge)
    assert_allclose(H @ y, solved.products + solved.bias, atol=1e-10)
    assert_allclose(H @ np.ones(25), 1.0, atol=1e-11)
    assert_allclose(projected_inverse(gram, ridge) @ y, solved.support_values, atol=1e-9)


@cases
def test_the_map_to_support_values_is_symmetric_and_kills_constants(kernel, ridge):
    B = projected_inverse(Gram.of(kernel, X), ridge)
    assert_allclose(B, B.T, atol=1e-10 * np.abs(B).max())
    assert_allclose(B.sum(axis=0), 0.0, atol=1e-10 * np.abs(B).max())


def freedom(gram, ridge):
    return np.trace(hat_matrix(gram, ridge))


def test_degrees_of_freedom_grow_with_gamma_from_one_to_the_number_of_distinct_points():
    repeated = np.repeat(np.arange(6.0), 4)[:, None]
    gram = Gram.of(RBF(0.7), repeated)
    counts = [freedom(gram, np.full(24, 1.0 / gamma)) for gamma in 10.0 ** np.arange(-8, 7)]
    assert_allclose(counts[0], 1.0, atol=1e-6)
    assert_allclose(counts[-1], 6.0, atol=1e-5)
    assert (np.diff(counts) > 0.0).all()


def test_degrees_of_freedom_of_a_line_are_two_at_most():
    gram = Gram.of(Linear(), X[:, :1])
    assert_allclose(freedom(gram, np.full(25, 1e-8)), 2.0, atol=1e-5)
    assert_allclose(freedom(gram, np.full(25, 1e8)), 1.0, atol=1e-5)
