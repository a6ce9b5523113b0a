"""The reduced-basis closed form against stacked least squares and refits, by every path to the sums."""

import naive_reduced_basis as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.datasets import motorcycle
from substrate.kernels import RBF, Linear, Polynomial
from substrate.reduced.answer import careful_pass
from substrate.reduced.features import eigen_features, reconstruction_errors
from substrate.reduced.folds import GivenFolds
from substrate.reduced.left_out import left_out_rows, leverage_factor
from substrate.reduced.moments import origin_of
from substrate.reduced.row_products import sum_products
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import solve_reduced
from substrate.reduced.spectrum import reduced_spectrum
from substrate.reduced.statistic import LARGEST_ERROR, accumulate
from substrate.streaming.source import LEAF

RNG = np.random.default_rng(7)
X = RNG.normal(size=(150, 3))
Y = np.column_stack([np.sin(2.0 * X[:, 0]) + X[:, 1], 1e3 + 50.0 * X[:, 2] ** 2])
BASIS = X[:40]
METHODS = ("accumulated", "row-wise")


def solved(kernel, X, Y, points, gamma, method="auto", folds=()):
    rows, K = KernelRows.of(kernel, X, points, Y), kernel(points)
    features, origin = eigen_features(K), origin_of(K, rows.target_summary(), 1.0)
    statistic = accumulate(rows, features, origin, 1.0 / gamma, GivenFolds.of(folds, len(Y)), method)
    spectrum = reduced_spectrum(features, statistic.origin, statistic.total, statistic.error)
    return rows, statistic, spectrum, solve_reduced(rows, spectrum, 1.0 / gamma, K)


def left_out(kernel, X, Y, points, gamma, method="auto"):
    rows, _, spectrum, solution = solved(kernel, X, Y, points, gamma, method)
    factor = leverage_factor(spectrum, 1.0 / gamma)
    parts = list(left_out_rows(rows, solution.coefficients, solution.bias, factor))
    return [
        np.concatenate([getattr(p, name) for p in parts]) for name in ("fitted", "leverages", "residuals")
    ], spectrum


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("kernel", [RBF(1.5), Linear(), Polynomial(2, 1.0)], ids=repr)
def test_the_fit_is_that_of_stacked_least_squares(kernel, gamma, method):
    rows, _, _, solution = solved(kernel, X, Y, BASIS, gamma, method)
    fitted = kernel(X, BASIS) @ solution.coefficients + solution.bias
    for k in range(2):
        expected = naive.fit(kernel(BASIS), kernel(X, BASIS), Y[:, k], gamma)
        assert_allclose(fitted[:, k], expected, atol=1e-7 * np.ptp(Y[:, k]))
    assert all(row.passes for row in solution.rows)
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


def test_both_ways_to_the_sums_agree_and_the_estimate_covers_the_difference():
    kernel = RBF(1.5)
    fast, slow = (solved(kernel, X, Y, BASIS, 5.0, method) for method in METHODS)
    assert (fast[1].method, slow[1].method) == METHODS
    scale = np.abs(slow[1].total.second).max()
    assert_allclose(fast[1].total.second, slow[1].total.second, atol=1e-9 * scale)
    for one, other in zip((fast[2].weights(0.2), fast[3].bias), (slow[2].weights(0.2), slow[3].bias), strict=True):
        assert_allclose(one, other, rtol=1e-6)
    predicted = [kernel(X, BASIS) @ one[3].coefficients + one[3].bias for one in (fast, slow)]
    difference = np.abs(predicted[0] - predicted[1]).max() / np.abs(predicted[1]).max()
    assert difference <= fast[1].error


def test_the_choice_follows_the_estimated_error():
    assert solved(RBF(0.5), X, Y, BASIS, 1.0)[1].method == "accumulated"
    assert solved(RBF(0.5), X, Y, BASIS, 1.0)[1].error <= LARGEST_ERROR
    smooth = solved(RBF(20.0), X, Y, BASIS, 1.0)
    assert smooth[1].method == "row-wise"
    assert solved(RBF(20.0), X, Y, BASIS, 1.0, "accumulated")[1].error > LARGEST_ERROR


def test_where_the_fast_path_would_be_wrong_the_slow_one_is_right():
    kernel, (times, forces) = RBF(10.0), motorcycle()
    expected = naive.explicit_leave_one_out(kernel(times), kernel(times), forces, 20.0)
    (_, _, residuals), _ = left_out(kernel, times, forces[:, None], times, 20.0)
    assert_allclose(residuals[:, 0], expected, atol=1e-8)


def test_folds_add_up_and_leave_by_subtraction():
    folds = [np.arange(k, 150, 4) for k in range(4)]
    kernel = RBF(1.5)
    _, statistic, _, _ = solved(kernel, X, Y, BASIS, 5.0, folds=folds)
    total = statistic.folds[0] + statistic.folds[1] + statistic.folds[2] + statistic.folds[3]
    assert total.count == 150
    assert_allclose(total.second, statistic.total.second, rtol=1e-12, atol=1e-9)
    others = np.setdiff1d(np.arange(150), folds[1])
    alone = naive.fit(kernel(BASIS), kernel(X, BASIS)[others], Y[others, 0], 5.0)
    spectrum = reduced_spectrum(statistic.features, statistic.origin, statistic.total - statistic.folds[1])
    weights = spectrum.weights(0.2)
    fitted = kernel(X[others], BASIS) @ statistic.features.coefficients(weights) + spectrum.bias(weights)
    assert_allclose(fitted[:, 0], alone, atol=1e-10)


def test_rows_that_are_in_no_fold_count_in_the_total_only():
    _, statistic, _, _ = solved(RBF(1.5), X, Y, BASIS, 5.0, folds=[np.array([3, 5])])
    assert (statistic.total.count, statistic.folds[0].count) == (150, 2)


def test_tied_vectors_lower_the_rank_and_nothing_else():
    kernel = RBF(1.5)
    once, twice = eigen_features(kernel(X[:10])), eigen_features(kernel(np.repeat(X[:10], 2, axis=0)))
    assert (once.rank, twice.rank) == (10, 10)
    fitted = [left_out(kernel, X, Y, points, 5.0)[0][0] for points in (X[:10], np.repeat(X[:10], 2, axis=0))]
    assert_allclose(fitted[0], fitted[1], rtol=1e-10)


def test_features_reproduce_the_kernel_inside_the_span():
    kernel = RBF(1.5)
    features = eigen_features(kernel(BASIS))
    Z = kernel(X, BASIS) @ features.transform
    assert_allclose(Z[:40] @ Z[:40].T, kernel(BASIS), atol=1e-11)
    beta = RNG.normal(size=40)
    assert_allclose(features.coefficients(features.weights(beta)), beta, rtol=1e-6)
    errors = reconstruction_errors(kernel(X, BASIS), np.ones(150), features)
    assert_allclose(errors[:40], 0.0, atol=1e-11)
    assert_allclose(errors.mean(), naive.reconstruction(kernel(X), list(range(40))), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_any_size_give_the_same(monkeypatch, method):
    import substrate.reduced.rows as module

    _, _, _, whole = solved(RBF(1.5), X, Y, BASIS, 5.0, method)
    monkeypatch.setattr(module.KernelValues, "step", property(lambda self: 7))
    _, _, _, pieces = solved(RBF(1.5), X, Y, BASIS, 5.0, method)
    assert_allclose(pieces.bias, whole.bias, rtol=1e-9)
    assert_allclose(pieces.coefficients, whole.coefficients, rtol=1e-5, atol=1e-8 * np.abs(whole.coefficients).max())


@pytest.mark.parametrize("part", ["coefficients", "bias", "target", "gamma"])
def test_every_row_of_the_certificate_sees_a_change(part):
    from substrate.reduced.certificate import reduced_rows
    from substrate.reduced.solution import residual_pass

    kernel, target = RBF(1.5), Y[:, :1].copy()
    rows, statistic, _, solution = solved(kernel, X, target, BASIS, 5.0)
    beta, bias, lam = solution.coefficients.copy(), solution.bias.copy(), 0.2
    if part == "coefficients":
        beta[4] *= 1.0 + 1e-6
    elif part == "bias":
        bias += 1e-6
    elif part == "target":
        target[3] += 1e-5
    else:
        lam *= 1.0 + 1e-6
    features, K = statistic.features, kernel(BASIS)
    checks = reduced_rows(residual_pass(rows, 1.0, beta, bias), features, K, beta, features.weights(beta), bias, lam)[0]
    failed = {row.name for row in checks if not row.passes}
    assert {"stationarity in beta", "stationarity in w"} <= failed
    if part in ("bias", "target"):
        assert "1'e = 0" in failed


def test_the_duality_gap_bounds_the_distance_from_the_minimum():
    kernel, gamma = RBF(1.5), 5.0
    _, statistic, _, solution = solved(kernel, X, Y[:, :1], BASIS, gamma)
    from substrate.reduced.certificate import reduced_rows
    from substrate.reduced.solution import residual_pass

    K, K_rows = kernel(BASIS), kernel(X, BASIS)
    best = naive.objective(K, K_rows, Y[:, 0], gamma, solution.coefficients[:, 0], solution.bias[0])
    rows = KernelRows.of(kernel, X, BASIS, Y[:, :1])
    for size in (1e-3, 1e-2):
        beta = solution.coefficients + size * RNG.normal(size=(40, 1))
        # errors that sum to zero, so that the dual point is feasible
        bias = solution.bias + np.mean(Y[:, :1] - K_rows @ beta - solution.bias)
        value = naive.objective(K, K_rows, Y[:, 0], gamma, beta[:, 0], bias[0])
        residuals = residual_pass(rows, 1.0, beta, bias)
        checks = reduced_rows(
            residuals, statistic.features, K, beta, statistic.features.weights(beta), bias, 1.0 / gamma
        )
        gap = gamma * checks[0][-1].value
        errors = Y[:, 0] - K_rows @ beta[:, 0] - bias[0]
        alpha, Z = gamma * errors, K_rows @ statistic.features.transform
        dual = Y[:, 0] @ alpha - 0.5 * np.sum((Z.T @ alpha) ** 2) - 0.5 * alpha @ alpha / gamma
        assert_allclose(gap, value - dual, rtol=1e-6)
        assert 0.0 < value - best <= gap * (1.0 + 1e-9)


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


def test_products_are_counted_by_the_parts_in_which_they_are_added_up(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr("substrate.reduced.rows.PART", 32)
    here = KernelRows.of(RBF(1.5), X, BASIS, Y)
    there = KernelRows.of(RBF(1.5), *(strict.asarray(part) for part in (X, BASIS, Y)))
    assert here.product_terms == 128 + 2 + 1 < here.terms  # a part, both parts, one group; one leaf
    assert there.terms == 32 + 5 + 1  # a part, all parts, and one tile of 150 rows
    assert there.product_terms == there.terms + 8  # and the change of their origin


def test_terms_of_several_leaves_include_the_height_of_their_tree():
    one, five = (
        KernelRows.of(RBF(1.5), np.zeros((n, 1)), BASIS[:, :1], np.zeros((n, 1))) for n in (LEAF, 4 * LEAF + 1)
    )
    assert five.terms == one.terms + 3
    assert five.product_terms == one.product_terms + 3


def test_the_rounding_of_careful_sums_includes_the_height_of_their_tree(monkeypatch):
    rows = KernelRows.of(RBF(1.5), X, BASIS, Y)
    arguments = rows, 1.0, np.ones((len(BASIS), Y.shape[1])), np.zeros(Y.shape[1]), np.ones(len(BASIS)), Y.mean(axis=0)
    low = careful_pass(*arguments)[1].slopes
    monkeypatch.setattr("substrate.reduced.answer.highest", lambda n_rows: 6)
    assert careful_pass(*arguments)[1].slopes == 2.0 * low


@pytest.mark.parametrize("rows", [5, 64, 150])
def test_products_over_rows_of_a_device_are_those_of_matrices(rows, monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setattr("substrate.reduced.row_products.PART", 32)
    left, right = X[:rows], Y[:rows]
    found = sum_products(strict.asarray(left), strict.asarray(right))
    assert_allclose(np.asarray(found), left.T @ right, rtol=1e-13, atol=1e-13)
    found = sum_products(strict.asarray(left[:, 0]), strict.asarray(right))
    assert_allclose(np.asarray(found), left[:, 0] @ right, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("sigma", [0.3, 30.0])  # on a device an origin is subtracted from the sums, and from the rows
@pytest.mark.parametrize("place", ["numpy", "array_api_strict"])
def test_the_rounding_of_sums_is_relative_to_the_lengths_of_kernel_values(sigma, place):
    send = pytest.importorskip(place).asarray
    kernel = RBF(sigma)
    K = kernel(BASIS)
    rows = KernelRows.of(kernel, send(X), send(BASIS), send(Y))
    features, origin = eigen_features(send(K)), origin_of(send(K), rows.target_summary(), 1.0)
    statistic = accumulate(rows, features, origin, 1.0, method="accumulated")
    values, about = kernel(X, BASIS), np.asarray(statistic.origin.kernel_values)
    columns = np.asarray(statistic.columns)
    assert (columns >= np.linalg.norm(values - about, axis=0)).all()
    if place != "numpy" and sigma < 1.0:
        assert (columns >= np.linalg.norm(values, axis=0) + np.sqrt(len(X)) * np.abs(about)).all()
    assert (columns <= 1.26 * (np.linalg.norm(values, axis=0) + np.sqrt(len(X)) * np.abs(about))).all()


def test_sums_that_rounding_hides_bound_nothing(monkeypatch):
    monkeypatch.setattr(KernelRows, "product_terms", property(lambda rows: 10**17))
    answer = solved(RBF(1.5), X, Y, BASIS, 5.0)[-1].rows[0]
    assert answer.name == "accuracy"
    assert answer.value == np.inf
    assert not answer.passes
