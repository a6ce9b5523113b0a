"""The reduced-basis closed form against stacked least squares and refits."""

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.datasets import motorcycle
from substrate.kernels import RBF, Linear, Polynomial
from substrate.reduced.features import basis_features, reconstruction_errors
from substrate.reduced.left_out import left_out_rows, leverage_factor
from substrate.reduced.moments import accumulate, fold_labels, origin_of
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import solve_reduced
from substrate.reduced.spectrum import reduced_spectrum

RNG = np.random.default_rng(7)
X = RNG.normal(size=(150, 3))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + X[:, 1], 1e3 + 50.0 * X[:, 2] ** 2])
BASIS = X[:40]


def solved(kernel, X, Y, points, gamma, folds=()):
    rows, K = KernelRows.of(kernel, X, points, Y), kernel(points)
    splits = [(np.setdiff1d(np.arange(len(Y)), fold), fold) for fold in folds]
    origin = origin_of(K, rows.target_summary(), 1.0)
    statistic = accumulate(rows, basis_features(K), origin, 1.0 / gamma, K, fold_labels(splits, len(Y)))
    spectrum = reduced_spectrum(statistic)
    return rows, statistic, spectrum, solve_reduced(rows, spectrum, 1.0 / gamma, K)


def left_out(kernel, X, Y, points, gamma):
    rows, _, spectrum, solution = solved(kernel, X, Y, points, gamma)
    factor = leverage_factor(spectrum, 1.0 / gamma)
    parts = list(left_out_rows(rows, solution.coefficients, solution.bias, factor))
    return [
        np.concatenate([getattr(p, name) for p in parts]) for name in ("fitted", "leverages", "residuals")
    ], spectrum


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("kernel", [RBF(1.5), Linear(), Polynomial(2, 1.0)], ids=repr)
def test_the_fit_is_that_of_stacked_least_squares(kernel, gamma):
    rows, _, _, solution = solved(kernel, X, Y, BASIS, gamma)
    fitted = kernel(X, BASIS) @ solution.coefficients + solution.bias
    for k in range(2):
        expected = naive.fit(kernel(BASIS), kernel(X, BASIS), Y[:, k], gamma)
        assert_allclose(fitted[:, k], expected, atol=1e-7 * np.ptp(Y[:, k]))
    assert solution.row.passes
    assert rows.n_rows == 150


@pytest.mark.parametrize("points", [X[:40], X[:3], X, np.repeat(X[:10], 3, axis=0)], ids=["40", "3", "all", "tied"])
@pytest.mark.parametrize("kernel", [RBF(1.5), Linear()], ids=repr)
@pytest.mark.some_cases(4)
def test_leave_one_out_is_one_refit_a_row(kernel, points):
    """:place [Cawley2004]_ section 2.6: against one refit a row."""
    (_, leverages, residuals), spectrum = left_out(kernel, X, Y[:, :1], points, 5.0)
    expected = naive.explicit_leave_one_out(kernel(points), kernel(X, points), Y[:, 0], 5.0)
    assert_allclose(residuals[:, 0], expected, atol=1e-10)
    assert_allclose(leverages.sum(), spectrum.degrees_of_freedom(0.2), rtol=1e-10)
    assert ((leverages > 1.0 / 150) & (leverages < 1.0)).all()


def test_leave_one_out_on_tied_inputs_is_one_refit_a_row():
    kernel, (times, forces) = RBF(10.0), motorcycle()
    expected = naive.explicit_leave_one_out(kernel(times), kernel(times), forces, 20.0)
    (_, _, residuals), _ = left_out(kernel, times, forces[:, None], times, 20.0)
    assert_allclose(residuals[:, 0], expected, atol=1e-6)


def test_folds_add_up_and_leave_by_subtraction():
    folds = [np.arange(k, 150, 4) for k in range(4)]
    kernel = RBF(1.5)
    _, statistic, _, _ = solved(kernel, X, Y, BASIS, 5.0, folds=folds)
    total = statistic.folds[0] + statistic.folds[1] + statistic.folds[2] + statistic.folds[3]
    assert total.count == 150
    assert_allclose(total.second, statistic.total.second, rtol=1e-12, atol=1e-9)
    others = np.setdiff1d(np.arange(150), folds[1])
    alone = naive.fit(kernel(BASIS), kernel(X, BASIS)[others], Y[others, 0], 5.0)
    spectrum = reduced_spectrum(statistic, statistic.total - statistic.folds[1])
    weights = spectrum.weights(0.2)
    fitted = kernel(X[others], BASIS) @ statistic.features.coefficients(weights) + spectrum.bias(weights)
    assert_allclose(fitted[:, 0], alone, atol=1e-10)


def test_rows_that_are_in_no_fold_count_in_the_total_only():
    _, statistic, _, _ = solved(RBF(1.5), X, Y, BASIS, 5.0, folds=[np.array([3, 5])])
    assert (statistic.total.count, statistic.folds[0].count) == (150, 2)


def test_tied_vectors_lower_the_rank_and_nothing_else():
    kernel = RBF(1.5)
    once, twice = basis_features(kernel(X[:10])), basis_features(kernel(np.repeat(X[:10], 2, axis=0)))
    assert (once.rank, twice.rank) == (10, 10)
    fitted = [left_out(kernel, X, Y, points, 5.0)[0][0] for points in (X[:10], np.repeat(X[:10], 2, axis=0))]
    assert_allclose(fitted[0], fitted[1], rtol=1e-10)


def test_features_reproduce_the_kernel_inside_the_span():
    kernel = RBF(1.5)
    features = basis_features(kernel(BASIS))
    Z = kernel(X, BASIS) @ features.transform
    assert_allclose(Z[:40] @ Z[:40].T, kernel(BASIS), atol=1e-11)
    beta = RNG.normal(size=40)
    assert_allclose(features.coefficients(features.weights(beta)), beta, rtol=1e-6)
    errors = reconstruction_errors(kernel(X, BASIS), np.ones(150), features)
    assert_allclose(errors[:40], 0.0, atol=1e-11)
    assert_allclose(errors.mean(), naive.reconstruction(kernel(X), list(range(40))), atol=1e-10)


def test_a_constant_target_needs_no_vector():
    _, _, spectrum, solution = solved(RBF(1.5), X, np.full((150, 1), -1e8), BASIS, 5.0)
    assert (solution.coefficients == 0.0).all()
    assert solution.bias == -1e8
    assert spectrum.squares == 0.0


def test_a_kernel_of_zeros_leaves_the_mean():
    _, _, spectrum, solution = solved(Linear(), np.zeros((20, 2)), Y[:20, :1], np.zeros((4, 2)), 5.0)
    assert spectrum.values.size == 0
    # two ways to add 20 numbers
    assert_allclose(solution.bias, Y[:20, 0].mean(), rtol=0.0, atol=20 * np.finfo(float).eps * np.abs(Y[:20, 0]).max())
