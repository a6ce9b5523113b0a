"""The closed form equals the bordered system of the papers, at every scale, weight and limit."""

import bordered_system as oracle
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose, assert_array_equal

from substrate.datasets import motorcycle
from substrate.errors import DataError, IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.saddle_certificate import saddle_row
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system

KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(0.7)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def _data(n, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n)


def _fit(kernel, X, y, gamma=1.0, weights=None):
    gram = Gram.of(kernel, X)
    ridge = ridge_of(gamma, np.ones(len(X)) if weights is None else weights)
    return gram, ridge, solve_saddle_system(gram, y, ridge)


def _failures(gram, ridge, y, solved):
    row = saddle_row(gram.product(solved.support_values), gram.diagonal, y, ridge, solved.support_values, solved.bias)
    return [] if row.passes else [f"{row.name}: {row.relative / row.tolerance:.2g} of the tolerance"]


# ---- agreement -----------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("n", [2, 3, 50, 130])
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
@pytest.mark.some_cases(24)
def test_equals_the_dense_bordered_system(kernel, n, gamma):
    """:equation [Suykens2002]_ (5), (12)-(13): against the dense system, with and without weights."""
    X, y = _data(n)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, n)
    for v in (np.ones(n), weights):
        _, ridge, solved = _fit(kernel, X, y, gamma, v)
        assert_allclose(ridge, 1.0 / (gamma * v), rtol=1e-15)
        alpha, b = oracle.solve(kernel(X), y, ridge)
        assert_allclose(solved.support_values, alpha, rtol=1e-8, atol=1e-9 * np.abs(alpha).max())
        assert_allclose(solved.bias, b, rtol=1e-8, atol=1e-9 * np.abs(y).max())
        assert_allclose(solved.products, kernel(X) @ alpha, rtol=1e-7, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("balance", [0.7, -1e6])
def test_a_balance_is_what_the_support_values_sum_to(balance):
    """Against the system of all rows, of which one is held fixed and moved to the right-hand side."""
    X, y = _data(30)
    K, ridge = RBF(1.0)(X), np.full(30, 0.3)
    solved = solve_saddle_system(Gram.from_matrix(K), y, ridge, balance)
    matrix = np.block([[np.zeros((1, 1)), np.ones((1, 30))], [np.ones((30, 1)), K + np.diag(ridge)]])
    expected = np.linalg.solve(matrix, np.append(balance, y))
    assert_allclose(solved.support_values, expected[1:], rtol=1e-9, atol=1e-9)
    assert_allclose(solved.bias, expected[0], rtol=1e-9)
    assert_allclose(solved.support_values.sum(), balance, rtol=1e-12)


@every_kernel
@pytest.mark.parametrize("outputs", [1, 3, 12])
def test_many_outputs_are_many_single_ones(kernel, outputs):
    X, _ = _data(40)
    Y = np.random.default_rng(2).normal(size=(40, outputs)) * 10.0 ** np.linspace(-3, 3, outputs)
    gram, ridge, together = _fit(kernel, X, Y, 2.0)
    assert together.support_values.shape == together.products.shape == (40, outputs)
    assert together.bias.shape == (outputs,)
    alpha, b = oracle.solve(kernel(X), Y, ridge)
    for j in range(outputs):
        alone = solve_saddle_system(gram, Y[:, j], ridge)
        size = np.abs(alpha[:, j]).max()
        assert_allclose(together.support_values[:, j], alone.support_values, rtol=1e-9, atol=1e-11 * size)
        assert_allclose(together.support_values[:, j], alpha[:, j], rtol=1e-8, atol=1e-9 * size)
        assert_allclose(together.bias[j], b[j], rtol=1e-8, atol=1e-9 * np.abs(Y[:, j]).max())


def test_integer_weights_are_repeated_rows():
    X, y = _data(12)
    counts = np.arange(12) % 3 + 1
    _, _, weighted = _fit(RBF(1.0), X, y, 5.0, counts.astype(float))
    repeated_gram, _, repeated = _fit(RBF(1.0), np.repeat(X, counts, axis=0), np.repeat(y, counts), 5.0)
    f = weighted.products + weighted.bias
    assert_allclose(np.repeat(f, counts), repeated_gram.product(repeated.support_values) + repeated.bias, rtol=1e-9)
    assert_allclose(repeated.bias, weighted.bias, rtol=1e-9)


def test_the_target_and_the_ridge_are_never_modified():
    X, y = _data(20)
    ridge = np.full(20, 0.5)
    kept = y.copy()
    solve_saddle_system(Gram.of(RBF(1.0), X), y, ridge)
    assert_array_equal(y, kept)
    assert_array_equal(ridge, 0.5)


def test_an_indefinite_kernel_warns_and_the_system_is_solved():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.5], [0.0, 0.5, 1.0]])
    y, ridge = np.array([1.0, -2.0, 0.5]), np.full(3, 0.1)
    gram = Gram.from_matrix(K)
    with pytest.warns(IndefiniteKernelWarning):
        solved = solve_saddle_system(gram, y, ridge)
    alpha, b = oracle.solve(K, y, ridge)
    assert_allclose(solved.support_values, alpha, rtol=1e-12)
    assert_allclose(solved.bias, b, rtol=1e-12)


# ---- certificates over the whole domain ----------------------------------------------------------

gammas = st.floats(-8.0, 10.0).map(lambda power: 10.0**power)
seeds = st.integers(0, 2**20)


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    seed=seeds,
    n=st.integers(2, 40),
    distinct=st.integers(1, 40),
    gamma=gammas,
    kernel=st.sampled_from(KERNELS),
    unit=st.sampled_from([1.0, 1e-12, 1e12]),
    offset=st.sampled_from([0.0, 1e8]),
)
@example(seed=0, n=30, distinct=3, gamma=1e10, kernel=RBF(1.0), unit=1.0, offset=0.0)
@example(seed=0, n=30, distinct=1, gamma=1e-8, kernel=Linear(), unit=1.0, offset=1e8)
def test_the_certificate_holds_from_gamma_1e_minus_8_to_1e10_with_repeated_points(
    seed, n, distinct, gamma, kernel, unit, offset
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(distinct, 2))[rng.integers(0, distinct, n)]
    y = unit * (rng.normal(size=n) + offset)
    gram, ridge, solved = _fit(kernel, X, y, gamma)
    assert _failures(gram, ridge, y, solved) == []


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    seed=seeds,
    n=st.integers(2, 30),
    gamma=gammas,
    kernel=st.sampled_from(KERNELS),
    spread=st.sampled_from([1.0, 2.0, 4.0, 6.0]),
    outlier=st.sampled_from([0.0, 1e6]),
)
@example(seed=0, n=12, gamma=1e-6, kernel=RBF(1.0), spread=6.0, outlier=1e6)
def test_the_certificate_holds_with_weights_of_many_sizes(seed, n, gamma, kernel, spread, outlier):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    y[0] += outlier
    weights = 10.0 ** rng.uniform(-spread, spread, n)
    gram, ridge, solved = _fit(kernel, X, y, gamma, weights)
    assert _failures(gram, ridge, y, solved) == []


def test_a_row_of_hardly_any_weight_leaves_the_certificate_intact():
    X, y, weights = np.array([[0.0], [1.0]]), np.array([0.0, 1e3]), np.array([1.0, 1e-9])
    gram, ridge, solved = _fit(RBF(1.0), X, y, 1e-4, weights)
    assert _failures(gram, ridge, y, solved) == []


def test_repeated_points_at_a_large_gamma_reach_lapacks_backward_error():
    X = np.repeat(np.linspace(0.0, 1.0, 10), 6)[:, None]
    y = np.random.default_rng(0).normal(size=60)
    gram, ridge, solved = _fit(RBF(1.0), X, y, 1e10)
    M = np.block([[np.zeros((1, 1)), np.ones((1, 60))], [np.ones((60, 1)), gram.matrix + np.diag(ridge)]])
    x = np.append(solved.bias, solved.support_values)
    rhs = np.append(0.0, y)
    backward = np.linalg.norm(rhs - M @ x) / (np.linalg.norm(M, 2) * np.linalg.norm(x) + np.linalg.norm(rhs))
    # rounding of sums of n products, both what was solved and what is evaluated here: no two of them need agree
    assert backward < 60 * np.finfo(float).eps


# ---- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1, -1e8, 1e-150, 1e150])
@pytest.mark.parametrize("n", [2, 7, 100])
@every_kernel
@pytest.mark.some_cases(36)
def test_a_constant_target_gives_no_support_and_its_value_as_bias(constant, n, kernel):
    X, _ = _data(n)
    gram, ridge, solved = _fit(kernel, X, np.full(n, constant), 10.0)
    assert_array_equal(solved.support_values, 0.0)
    assert solved.bias == constant
    assert _failures(gram, ridge, np.full(n, constant), solved) == []


@every_kernel
@pytest.mark.parametrize("power", [-498, -40, 40, 498])
@pytest.mark.parametrize("gamma", [1e-8, 1.0, 1e10])
@pytest.mark.some_cases(24)
def test_a_power_of_two_in_the_target_is_a_power_of_two_in_the_solution(kernel, power, gamma):
    X, y = _data(25)
    _, _, plain = _fit(kernel, X, y, gamma)
    gram, ridge, scaled = _fit(kernel, X, y * 2.0**power, gamma)
    size = np.abs(plain.support_values).max()
    assert_allclose(scaled.support_values * 2.0**-power, plain.support_values, rtol=1e-12, atol=1e-14 * size)
    assert_allclose(scaled.bias * 2.0**-power, plain.bias, rtol=1e-12)
    assert _failures(gram, ridge, y * 2.0**power, scaled) == []


@every_kernel
@pytest.mark.parametrize("unit", [1e-150, 1e-12, 1e12, 1e150])
def test_the_solution_scales_with_the_target(kernel, unit):
    X, y = _data(25)
    _, _, plain = _fit(kernel, X, y, 1.0)
    gram, ridge, scaled = _fit(kernel, X, unit * y, 1.0)
    assert_allclose(scaled.support_values / unit, plain.support_values, rtol=1e-9, atol=1e-11)
    assert_allclose(scaled.bias / unit, plain.bias, rtol=1e-9)
    assert _failures(gram, ridge, unit * y, scaled) == []


@every_kernel
def test_an_offset_of_the_target_goes_into_the_bias_alone(kernel):
    X, y = _data(25)
    y = np.round(y * 1024.0) / 1024.0  # y + 1e8 is exact
    _, _, plain = _fit(kernel, X, y, 3.0)
    gram, ridge, moved = _fit(kernel, X, y + 1e8, 3.0)
    assert_allclose(moved.support_values, plain.support_values, rtol=1e-9, atol=1e-12)
    assert_allclose(moved.bias, plain.bias + 1e8, rtol=25 * np.finfo(float).eps)  # a mean of 25 values of this size
    assert _failures(gram, ridge, y + 1e8, moved) == []


def test_two_points_by_hand():
    X, y, gamma = np.array([[0.0], [1.0]]), np.array([1.0, 5.0]), 2.0
    _, _, solved = _fit(RBF(1.0), X, y, gamma)
    k = np.exp(-1.0)
    expected = (5.0 - 1.0) / (2.0 * (1.0 - k + 1.0 / gamma))
    assert_allclose(solved.support_values, [-expected, expected], rtol=1e-14)
    assert_allclose(solved.bias, 3.0, rtol=1e-14)


@every_kernel
def test_gamma_to_nought_leaves_the_weighted_mean(kernel):
    X, y = _data(30)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 30)
    gaps = []
    for gamma in (1e-4, 1e-6, 1e-8):
        _, _, solved = _fit(kernel, X, y, gamma, weights)
        mean = np.average(y, weights=weights)
        gaps.append(np.abs(solved.products + solved.bias - mean).max())
    assert_allclose(solved.support_values, 1e-8 * weights * (y - mean), rtol=0.0, atol=1e-8 * 1e-5)
    assert_allclose(gaps[1:], [gaps[0] / 1e2, gaps[0] / 1e4], rtol=0.05)


def test_gamma_to_infinity_interpolates():
    X, y = _data(30)
    errors = []
    for gamma in (1e4, 1e6, 1e8):
        _, _, solved = _fit(Laplacian(1.0), X, y, gamma)
        errors.append(np.abs(y - solved.products - solved.bias).max())
    assert_allclose(errors[1:], [errors[0] / 1e2, errors[0] / 1e4], rtol=0.1)


def test_gamma_to_infinity_on_repeated_points_takes_their_means():
    X = np.repeat(np.arange(4.0), 3)[:, None]
    y = np.random.default_rng(5).normal(size=12)
    _, _, solved = _fit(RBF(0.5), X, y, 1e7)
    assert_allclose(solved.products + solved.bias, np.repeat(y.reshape(4, 3).mean(axis=1), 3), atol=1e-6)


@pytest.mark.parametrize("gamma", [1e-8, 1.0, 1e10])
def test_a_kernel_of_rank_one_is_a_line_through_ridge_regression(gamma):
    x, y = np.random.default_rng(6).normal(size=(2, 40))
    gram, ridge, solved = _fit(Linear(), x[:, None], y, gamma)
    centred = x - x.mean()
    slope = (centred @ y) / (centred @ centred + 1.0 / gamma)
    rounding = 1e-13 * np.linalg.norm(x) * np.linalg.norm(solved.support_values)  # of the sum w = x'alpha itself
    assert_allclose(x @ solved.support_values, slope, rtol=1e-12, atol=rounding)
    assert_allclose(solved.bias, y.mean() - slope * x.mean(), rtol=1e-12, atol=rounding)
    assert _failures(gram, ridge, y, solved) == []


@pytest.mark.parametrize("factor", [0.0, 1.0], ids=["nought", "one point"])
def test_a_kernel_that_tells_nothing_leaves_the_mean(factor):
    y = np.array([1.0, 2.0, 6.0])
    gram, ridge, solved = _fit(Linear(), np.full((3, 1), factor), y, 2.0)
    assert_allclose(solved.products + solved.bias, 3.0, rtol=1e-13)
    assert _failures(gram, ridge, y, solved) == []


def test_motorcycle_against_the_dense_system():
    X, y = motorcycle()
    gram, ridge, solved = _fit(RBF(6.6), X, y, 2.0)
    alpha, b = oracle.solve(gram.matrix, y, ridge)
    assert_allclose(solved.support_values, alpha, rtol=1e-8, atol=1e-9 * np.abs(alpha).max())
    assert_allclose(solved.bias, b, rtol=1e-10)


@pytest.mark.parametrize(("gamma", "weight"), [(1e-308, 1e-10), (1e308, 1e10)])
def test_a_ridge_out_of_range_is_refused_with_both_causes(gamma, weight):
    with pytest.raises(DataError, match=r"1/\(gamma v\) leaves the range of floating point: gamma = 1e.308, weights"):
        ridge_of(gamma, np.array([1.0, weight]))


def test_refinement_recovers_what_a_sloppy_factor_lost(monkeypatch):
    rng = np.random.default_rng(5)
    X, y, ridge = rng.normal(size=(40, 3)), rng.normal(size=40), np.full(40, 0.01)
    exact = solve_saddle_system(Gram.of(RBF(2.0), X), y, ridge)
    solve = Gram.solve
    monkeypatch.setattr(Gram, "solve", lambda self, B: solve(self, B).astype(np.float32).astype(np.float64))
    sloppy = solve_saddle_system(Gram.of(RBF(2.0), X), y, ridge)
    assert sloppy.steps > 1
    assert sloppy.steps >= exact.steps
    assert_allclose(sloppy.support_values, exact.support_values, atol=1e-12)
    assert_allclose(sloppy.support_values, exact.support_values, rtol=1e-9, atol=1e-9)


@given(st.floats(1e-120, 1e120), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=5))
def test_the_ridge_is_one_over_gamma_v(gamma, v):
    with mp.workdps(40):
        for computed, weight in zip(ridge_of(gamma, np.array(v)), v, strict=True):
            exact = 1 / (mpf(gamma) * mpf(weight))
            assert abs(mpf(float(computed)) - exact) <= 2.0**-52 * exact


@pytest.mark.parametrize(("gamma", "weight"), [(1e-300, 1e-300), (1e300, 1e300)])
def test_a_ridge_outside_floating_point_is_refused(gamma, weight):
    with pytest.raises(DataError, match="leaves the range of floating point"):
        ridge_of(gamma, np.array([1.0, weight]))
