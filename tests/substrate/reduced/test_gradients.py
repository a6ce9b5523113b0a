"""Conjugate gradients on a reduced basis against the direct solve, by one thread or more, and cut short."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.kernels import RBF, Linear, Polynomial
from substrate.reduced.basis_matrix import BasisMatrix
from substrate.reduced.features import eigen_features
from substrate.reduced.gradients import PER_VECTOR, ProductsOfLeaf, sampled_scatter, solve_by_gradients
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.solution import solve_reduced
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import accumulate
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3000, 4))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=3000), 1e3 + 50.0 * X[:, 2] ** 2])
BASIS = X[::50]


def pieces(kernel, points=BASIS, targets=Y, passes=None):
    rows, K = KernelRows.of(kernel, X, points, targets), kernel(points)
    if passes is not None:
        rows = KernelRows(rows.values, rows.source, passes)
    return rows, eigen_features(K), origin_of(K, rows.target_summary(), 1.0), K


def iterated(kernel, gamma, **options):
    rows, features, origin, K = pieces(kernel)
    return solve_by_gradients(rows, features, origin, 1.0 / gamma, K, **options)


def fitted(kernel, solution, points=BASIS):
    return kernel(X, points) @ solution.coefficients + solution.bias


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(10.0), Linear(), Polynomial(2, 1.0)], ids=repr)
@pytest.mark.some_cases(6)
def test_the_outputs_are_those_of_the_direct_solve(kernel, gamma):
    rows, features, origin, K = pieces(kernel)
    statistic = accumulate(rows, features, origin, 1.0 / gamma)
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    direct = fitted(kernel, solve_reduced(rows, spectrum, 1.0 / gamma, K))
    solution = solve_by_gradients(rows, features, origin, 1.0 / gamma, K)
    difference = np.linalg.norm(fitted(kernel, solution) - direct, axis=0)
    assert (difference <= 1e-6 * np.linalg.norm(direct - direct.mean(axis=0), axis=0)).all()
    assert solution.is_converged
    assert [row.name for row in solution.rows][:4] == [
        "accuracy",
        "1'e = 0",
        "stationarity in beta",
        "stationarity in w",
    ]


def test_columns_do_not_disturb_one_another():
    both = iterated(RBF(1.5), 10.0)
    rows, features, origin, K = pieces(RBF(1.5), targets=Y[:, :1])
    alone = solve_by_gradients(rows, features, origin, 0.1, K)
    assert_allclose(fitted(RBF(1.5), both)[:, 0], fitted(RBF(1.5), alone)[:, 0], atol=1e-6)


def test_the_preconditioner_is_the_matrix_of_its_sample():
    rows, features, origin, K = pieces(RBF(1.0), points=X[:5])
    scatter = sampled_scatter(rows, features, origin, 0.3, BasisMatrix(KernelValues(RBF(1.0), X[:5]), K, features))
    assert scatter.sampled == PER_VECTOR * 5
    drawn = np.sort(np.random.default_rng(0).choice(3000, size=40, replace=False))
    Z = np.column_stack([RBF(1.0)(X[drawn], X[:5]) @ features.transform, np.ones(40)])
    M = 3000 / 40 * Z.T @ Z + np.diag([0.3] * 5 + [0.0])
    assert_allclose(M @ scatter.solve(np.eye(6)), np.eye(6), atol=1e-9)


def test_with_all_rows_in_the_sample_one_step_is_enough():
    rows, features, origin, K = pieces(RBF(1.0), points=X[::5])
    solution = solve_by_gradients(rows, features, origin, 1.0, K)
    assert solution.sampled == 3000
    assert solution.iterations <= 2
    assert solution.is_converged


def test_an_iteration_cut_short_says_so():
    solution = iterated(RBF(1.5), 100.0, most=2)
    assert solution.iterations == 2
    assert not solution.is_converged
    (row,) = [row for row in solution.rows if row.name == "outputs against the solution's"]
    assert row.relative > row.tolerance


def test_a_constant_target_is_its_bias():
    rows, features, origin, K = pieces(RBF(1.5), targets=np.full((3000, 1), 7.3))
    solution = solve_by_gradients(rows, features, origin, 0.1, K)
    assert solution.is_converged
    assert_allclose(fitted(RBF(1.5), solution), 7.3, rtol=1e-12)


def test_a_kernel_that_is_zero_leaves_the_mean():
    kernel, points = Linear(), np.zeros((3, 4))
    rows, features, origin, K = pieces(kernel, points=points)
    solution = solve_by_gradients(rows, features, origin, 1.0, K)
    assert features.rank == 0
    assert_allclose(solution.bias, Y.mean(axis=0), rtol=1e-12)


def test_whoever_makes_the_passes_gets_the_same_bits():
    # enough rows that the tree has several spans, of which threads take their own
    many = np.tile(X, (14, 1)) + 1e-3 * RNG.normal(size=(42_000, 4))
    source = ArraySource(many, np.tile(Y, (14, 1)))
    results = []
    for passes in (OpenPasses(), OpenPasses(threads=2), OpenPasses(memory_budget=1.0)):
        rows = KernelRows(KernelRows.of(RBF(1.5), many, BASIS[:20]).values, source, passes)
        K = RBF(1.5)(BASIS[:20])
        origin = origin_of(K, rows.target_summary(), 1.0)
        results.append(solve_by_gradients(rows, eigen_features(K), origin, 0.1, K))
    for other in results[1:]:
        assert np.array_equal(results[0].coefficients, other.coefficients)
        assert np.array_equal(results[0].bias, other.bias)
        assert results[0].rows == other.rows


def test_sums_of_products_are_those_of_the_whole_matrix():
    rows, *_ = pieces(RBF(1.5))
    beta, b = RNG.normal(size=(60, 2)), np.array([0.5, -2.0])
    sums = rows.sums(ProductsOfLeaf(rows.values, beta, b), "products")
    K = RBF(1.5)(X, BASIS)
    assert_allclose(sums.slope, K.T @ (K @ beta + b), rtol=1e-10)
    assert_allclose(sums.total, (K @ beta + b).sum(axis=0), rtol=1e-10)
