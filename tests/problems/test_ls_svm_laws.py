"""The dense LS-SVM is the bordered system of the papers at every scale, weight and limit."""

import bordered_system as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from problems import LSSVMRegressor
from substrate.errors import DataError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Polynomial

KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(0.7)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def data(n=25, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=n)


def fitted(kernel, X, y, gamma=1.0, weights=None):
    return LSSVMRegressor(kernel, gamma).fit(X, y, sample_weight=weights)


@every_kernel
@pytest.mark.parametrize("n", [2, 3, 50, 130])
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
def test_it_solves_the_bordered_system(kernel, n, gamma):
    """:equation [Suykens2002]_ (4)-(5), (12)-(13): against the dense system, with and without weights."""
    X, y = data(n)
    for v in (np.ones(n), np.random.default_rng(1).uniform(0.2, 3.0, n)):
        model = fitted(kernel, X, y, gamma, v)
        alpha, b = oracle.solve(kernel(X), y, 1.0 / (gamma * v))
        assert_allclose(model.support_values_, alpha, rtol=1e-8, atol=1e-9 * np.abs(alpha).max())
        assert_allclose(model.bias_, b, rtol=1e-8, atol=1e-9 * np.abs(y).max())
        assert_allclose(y - model.predict(X), alpha / (gamma * v), atol=1e-7 * np.abs(y).max())
        assert model.certificate_.holds


@pytest.mark.parametrize("constant", [0.0, 3.0, 0.1, -1e8, 1e-150, 1e150])
@every_kernel
def test_a_constant_target_gives_no_support_and_its_value_as_bias(constant, kernel):
    for n in (2, 7, 100):
        model = fitted(kernel, data(n)[0], np.full(n, constant), 10.0)
        assert_array_equal(model.support_values_, 0.0)
        assert model.bias_ == constant
        assert model.certificate_.holds


@every_kernel
@pytest.mark.parametrize("unit", [2.0**-498, 1e-150, 1e-12, 1e12, 1e150, 2.0**498])
def test_the_solution_scales_with_the_target(kernel, unit):
    X, y = data()
    plain, scaled = fitted(kernel, X, y), fitted(kernel, X, unit * y)
    assert_allclose(scaled.support_values_ / unit, plain.support_values_, rtol=1e-9, atol=1e-11)
    assert_allclose(scaled.bias_ / unit, plain.bias_, rtol=1e-9)
    assert scaled.certificate_.holds


@every_kernel
def test_gamma_to_nought_leaves_the_weighted_mean(kernel):
    X, y = data(30)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 30)
    mean = np.average(y, weights=weights)
    models = [fitted(kernel, X, y, gamma, weights) for gamma in (1e-4, 1e-6, 1e-8)]
    gaps = [np.abs(model.predict(X) - mean).max() for model in models]
    assert_allclose(models[-1].support_values_, 1e-8 * weights * (y - mean), rtol=0.0, atol=1e-8 * 1e-5)
    assert_allclose(gaps[1:], [gaps[0] / 1e2, gaps[0] / 1e4], rtol=0.05)


def test_gamma_to_infinity_interpolates_and_takes_means_of_repeated_points():
    X, y = data(30)
    errors = [np.abs(y - fitted(Laplacian(1.0), X, y, gamma).predict(X)).max() for gamma in (1e4, 1e6, 1e8)]
    assert_allclose(errors[1:], [errors[0] / 1e2, errors[0] / 1e4], rtol=0.1)
    repeated = np.repeat(np.arange(4.0), 3)[:, None]
    means = np.repeat(y[:12].reshape(4, 3).mean(axis=1), 3)
    assert_allclose(fitted(RBF(0.5), repeated, y[:12], 1e7).predict(repeated), means, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the bound misses the tolerance at 1e10
@pytest.mark.parametrize("gamma", [1e-8, 1.0, 1e10])
def test_a_kernel_of_rank_one_is_a_line_through_ridge_regression(gamma):
    x, y = np.random.default_rng(6).normal(size=(2, 40))
    model = fitted(Linear(), x[:, None], y, gamma)
    centred = x - x.mean()
    slope = (centred @ y) / (centred @ centred + 1.0 / gamma)
    rounding = 1e-13 * np.linalg.norm(x) * np.linalg.norm(model.support_values_)  # of the sum w = x'alpha itself
    assert_allclose(x @ model.support_values_, slope, rtol=1e-12, atol=rounding)
    assert_allclose(model.bias_, y.mean() - slope * x.mean(), rtol=1e-12, atol=rounding)


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("gamma", [3.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_left_out_one_by_one_and_the_hat_matrix_is_refits_of_unit_vectors(kernel, gamma, weighted):
    """:place [Cawley2004]_ section 2.5: against one refit a row."""
    X, Y = data(21)[0], np.random.default_rng(5).normal(size=(21, 3))
    v = np.random.default_rng(6).uniform(0.1, 4.0, size=21) if weighted else np.ones(21)
    ridge = 1.0 / (gamma * v)
    model = fitted(kernel, X, Y, gamma, v)
    explicit = oracle.leave_one_out(kernel(X), Y, ridge)
    assert_allclose(model.leave_one_out().residuals, explicit, rtol=1e-7, atol=1e-7 * np.abs(explicit).max())
    trace = np.trace(oracle.hat_matrix(kernel(X), ridge))
    assert_allclose(model.effective_parameters_, trace, rtol=1e-7)
    assert_allclose(model.leave_one_out().degrees_of_freedom, trace, rtol=1e-7)


@pytest.mark.parametrize(("gamma", "weight"), [(1e-308, 1e-10), (1e308, 1e10), (1e-300, 1e-300)])
def test_a_ridge_outside_floating_point_is_refused(gamma, weight):
    with pytest.raises(
        DataError, match=r"1/\(gamma v\) leaves the range of floating point: gamma = 1e.30[08], weights"
    ):
        fitted(RBF(1.0), np.eye(2), [1.0, 2.0], gamma, [1.0, weight])


@pytest.mark.parametrize("kernel", [RBF(2.0), Componentwise(RBF(1.5)), Polynomial(2)])
def test_a_bound_that_misses_the_tolerance_is_computed_once_more_from_differences(kernel):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 3))
    y = np.sin(points[:, 0]) + points[:, 1] ** 2 + 0.1 * rng.normal(size=120)
    plain = fitted(kernel, points, y, 1e4).certificate_.answer
    strict = LSSVMRegressor(kernel, gamma=1e4, tol=0.5 * plain.relative).fit(points, y).certificate_.answer
    assert strict.formula == f"{plain.formula}, from differences"
    assert strict.passes
    beyond = LSSVMRegressor(kernel, gamma=1e4, tol=1e-3 * strict.relative)
    with pytest.warns(ConvergenceWarning, match="double precision cannot give the answer"):
        beyond.fit(points, y)
    assert beyond.certificate_.answer.value == strict.value
