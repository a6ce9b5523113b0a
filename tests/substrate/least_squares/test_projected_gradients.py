"""Conjugate gradients among vectors that sum to zero: as accurate as asked, on a matrix or on tiles of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.certificates import spread_of, tolerances_of
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from substrate.least_squares.conjugate_gradient import solve_by_conjugate_gradients
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.least_squares.preconditioner import SampledInverse, sample_rows
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system
from substrate.numbers import root_mean_square

KERNELS = [RBF(1.0), Laplacian(1.5), Matern(2.0), Polynomial(2, 0.5), Linear(), 0.5 * RBF(0.5) + Linear()]
LONG = 500


def make(n=150, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.column_stack([np.sin((k + 1) * X[:, 0]) + 0.1 * rng.normal(size=n) for k in range(outputs)])


def solved(kernel, X, Y, ridge, tolerance, limits=LONG, size=20):
    inverse = SampledInverse(kernel, X, some_rows(len(X), size), ridge)
    return solve_by_conjugate_gradients(Gram.of(kernel, X), inverse, Y, ridge, radii_of(Y, ridge, tolerance), limits)


def some_rows(n, size):
    return np.sort(np.random.default_rng(0).permutation(n)[:size])


def radii_of(Y, ridge, share):
    """The absolute errors that a share of the spread permits."""
    return np.array([one.largest_radius for one in tolerances_of(Y, 1.0 / ridge, share)])


def assert_accurate(found, kernel, X, Y, ridge, tolerance):
    """Fitted values within the tolerance of the exact ones, in the norm and the units of the certificate."""
    exact = solve_saddle_system(Gram.of(kernel, X), Y, ridge)
    apart = found.products + found.bias - exact.products - exact.bias
    for k in range(Y.shape[1]):
        spread, rounding = spread_of(Y[:, k], 1.0 / ridge)
        assert root_mean_square(apart[:, k], 1.0 / ridge) <= max(tolerance * spread, rounding)


# ---- the matrix and its sample -------------------------------------------------------------------


def test_the_preconditioner_inverts_the_sampled_matrix_with_the_diagonal():
    X, _ = make(80)
    ridge = np.random.default_rng(1).uniform(0.1, 10.0, 80)
    rows = some_rows(80, 12)
    C = RBF(1.0)(X, X[rows])
    M = C @ np.linalg.solve(C[rows], C.T) + np.diag(ridge)
    assert_allclose(M @ SampledInverse(RBF(1.0), X, rows, ridge)(np.eye(80)), np.eye(80), atol=1e-8)


def test_equal_rows_in_the_sample():
    X = np.repeat(make(20)[0], 10, axis=0)
    Y = np.sin(X[:, :1]) + 0.1 * np.random.default_rng(0).normal(size=(200, 1))
    found = solved(RBF(1.0), X, Y, np.full(200, 0.1), 1e-6, size=60)
    assert not found.reason
    assert_accurate(found, RBF(1.0), X, Y, np.full(200, 0.1), 1e-6)


# ---- the iteration -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
@pytest.mark.some_cases(9)
def test_fitted_values_are_as_accurate_as_asked(kernel, tolerance):
    X, Y = make()
    ridge = ridge_of(10.0, np.random.default_rng(1).uniform(0.01, 10.0, len(Y)))
    found = solved(kernel, X, Y, ridge, tolerance)
    assert not found.reason
    assert_accurate(found, kernel, X, Y, ridge, tolerance)
    assert abs(found.support_values.sum()) <= 1e-12 * np.abs(found.support_values).sum()


@pytest.mark.parametrize("matrix", [Gram.of, KernelTiles], ids=["whole", "tiles"])
@pytest.mark.parametrize("inverse", ["none", "sample"])
def test_every_operator_finds_the_same_machine(matrix, inverse):
    """One method on one protocol: a Gram matrix or its tiles, preconditioned or not."""
    X, Y = make(outputs=2)
    ridge, kernel = ridge_of(5.0, np.random.default_rng(1).uniform(0.1, 2.0, len(Y))), RBF(1.0)
    sampled = None if inverse == "none" else SampledInverse(kernel, X, some_rows(len(X), 30), ridge)
    found = solve_by_conjugate_gradients(matrix(kernel, X), sampled, Y, ridge, radii_of(Y, ridge, 1e-8), LONG)
    assert not found.reason
    assert_accurate(found, kernel, X, Y, ridge, 1e-8)


def test_a_preconditioner_that_leaves_nothing_of_the_border_is_given_up():
    X, Y = make(40)
    ridge, kernel = np.full(40, 0.5), RBF(1.0)
    found = solve_by_conjugate_gradients(
        KernelTiles(kernel, X), lambda R: 0.0 * R, Y, ridge, radii_of(Y, ridge, 1e-6), LONG
    )
    assert not found.reason
    assert_accurate(found, kernel, X, Y, ridge, 1e-6)


def test_outputs_of_any_unit_and_offset_and_constant_ones():
    X, Y = make(outputs=4)
    Y = Y * np.array([1e-6, 1.0, 1e6, 0.0]) + np.array([0.0, 1e3, 0.0, 2.0])
    ridge = np.full(len(Y), 0.2)
    found = solved(RBF(1.0), X, Y, ridge, 1e-6)
    assert not found.reason
    assert_accurate(found, RBF(1.0), X, Y, ridge, 1e-6)
    assert (found.support_values[:, 3] == 0.0).all()
    assert found.bias[3] == 2.0


def test_a_coarser_tolerance_takes_fewer_iterations():
    X, Y = make()
    coarse, fine = (solved(RBF(0.3), X, Y, np.full(len(Y), 0.01), tolerance) for tolerance in (1e-2, 1e-8))
    assert coarse.steps < fine.steps


def test_an_iteration_that_ends_early_says_why():
    X, Y = make()
    ridge = np.full(len(Y), 1e-4)
    ended = solved(Laplacian(0.3), X, Y, ridge, 1e-6, 3)
    assert (ended.steps, ended.reason) == (3, "no more were allowed")
    hopeless = solved(RBF(1.0), X, Y, np.full(len(Y), 1e-18), 1e-6)
    assert hopeless.reason


# ---- the sample ----------------------------------------------------------------------------------


def test_the_size_of_the_sample_grows_with_gamma_and_is_finite():
    X = make(4000)[0]
    sizes = [sample_rows(RBF(1.0), X, np.full(4000, 1.0 / gamma)).size for gamma in (0.1, 1.0, 100.0, 1e300)]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 2000
    assert sample_rows(RBF(1.0), X[:3], np.ones(3)).size == 1
