"""The robust regressor: Algorithm 1 and its repetition, one kernel matrix, weights that count rows, a true record."""

from itertools import pairwise

import bordered_system
import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from variants import robust_machine

from problems import LSSVMRegressor, weighted_ls_svm
from substrate.datasets import sinc_outliers
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed
from substrate.robust_weights import SCALES, WEIGHTINGS, robust_scale, robust_weights

KERNEL, GAMMA = RBF(1.0), 10.0


def data(n=80, n_outliers=5, seed=0):
    return sinc_outliers(n, n_outliers=n_outliers, random_state=seed)


def robust(**parameters):
    return robust_machine(KERNEL, GAMMA, **parameters)


def test_it_is_algorithm_1():
    """:place [Suykens2002]_ Algorithm 1: against the steps written out."""
    X, y = data()
    model = robust().fit(X, y)
    v, alpha, b = naive.algorithm_1(KERNEL(X), y, GAMMA)
    assert_allclose(model.weights_, v, rtol=1e-8)
    assert_allclose(model.support_values_, alpha, atol=1e-9)
    assert_allclose(model.bias_, b, atol=1e-10)
    declared = weighted_ls_svm.declare(KERNEL(X), y, GAMMA).solve()
    assert_allclose(model.support_values_, declared.support_values, atol=1e-4)


def test_without_reweighting_it_is_the_plain_machine():
    X, y = data()
    plain = LSSVMRegressor(KERNEL, GAMMA).fit(X, y)
    model = robust(max_reweightings=0).fit(X, y)
    assert_array_equal(model.support_values_, plain.support_values_)
    assert_array_equal(model.weights_, 1.0)
    assert len(model.history_) == 1
    assert_array_equal(robust().fit(X, y).history_[0].support_values, plain.support_values_)


@pytest.mark.parametrize("weighting", WEIGHTINGS[:-1])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.covering
def test_outliers_do_less_harm(weighting, scale):
    points = np.linspace(-5.0, 5.0, 300)[:, None]
    truth = np.sinc(points[:, 0])
    for seed in range(3):
        X, y = data(300, 15, seed)
        plain = np.mean((LSSVMRegressor(KERNEL, GAMMA).fit(X, y).predict(points) - truth) ** 2)
        model = robust(weighting=weighting, scale=scale).fit(X, y)
        assert np.mean((model.predict(points) - truth) ** 2) < 0.5 * plain
        assert model.certificate_.holds


def test_the_history_tells_where_every_weight_comes_from():
    X, y = data()
    K = KERNEL(X)
    model = robust(max_reweightings=60).fit(X, y)
    history = model.history_
    assert len(history) > 3
    assert_array_equal(history[0].weights, 1.0)
    for before, after in pairwise(history):
        errors = y - K @ before.support_values - before.bias
        assert_allclose(before.support_values, GAMMA * before.weights * errors, atol=1e-9)  # not alpha / gamma
        assert_allclose(before.scale, robust_scale(errors), rtol=1e-8)
        assert_allclose(after.weights, robust_weights(errors, before.scale), atol=1e-7)
        change = np.abs(after.support_values - before.support_values).max() / np.abs(after.support_values).max()
        assert_allclose(after.change, change)
    assert history[-1].change <= 1e-4 < history[-2].change
    assert model.scale_ == history[-2].scale
    once = robust().fit(X, y)
    assert once.scale_ == once.history_[0].scale != once.history_[1].scale
    assert_array_equal(model.weights_, history[-1].weights)


def test_it_says_when_it_has_not_settled():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match=r"still changed by .* after 2 reweightings; raise max_reweightings"):
        model = robust(max_reweightings=2).fit(X, y)
    assert model.certificate_.holds, "the weighted problem itself is solved"
    assert "reweightings: 2, last change" in str(model.certificate_)


def test_weights_count_rows_also_in_the_scale():
    X, y = data()
    times = np.arange(len(y)) % 4
    for scale in SCALES:
        weighted = robust(scale=scale, max_reweightings=30).fit(X, y, sample_weight=times)
        repeated = robust(scale=scale, max_reweightings=30).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
        assert_allclose(weighted.scale_, repeated.scale_, rtol=1e-9)
        assert_allclose(np.repeat(weighted.weights_, times[times > 0]), repeated.weights_, atol=1e-8)


def test_leaving_one_out_is_refitting_with_the_same_weights():
    X, y = data(30, 3)
    sample = 1.0 + np.arange(30) % 3
    K = KERNEL(X)
    model = robust().fit(X, y, sample_weight=sample)
    left = model.leave_one_out()
    ridge = 1.0 / (GAMMA * sample * model.weights_)
    for row in range(30):
        rest = np.delete(np.arange(30), row)
        alpha, b = bordered_system.solve(K[np.ix_(rest, rest)], y[rest], ridge[rest])
        assert_allclose(left.residuals[row], y[row] - K[row, rest] @ alpha - b, atol=1e-9)
    assert left.certificate.holds
    assert "weights" in str(left.certificate)
    paired = robust_machine(Precomputed(), GAMMA).fit(K, y, sample_weight=sample)
    assert_allclose(paired.leave_one_out(K).residuals, left.residuals, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weighting": "tukey"}, "weighting must be one of hampel, huber"),
        ({"weighting": None}, "weighting must be one of"),
        ({"scale": "std"}, "scale must be one of iqr, mad"),
        ({"max_reweightings": -1}, "max_reweightings must be an integer >= 0"),
        ({"max_reweightings": 1.5}, "max_reweightings must be an integer"),
        ({"max_reweightings": True}, "max_reweightings must be an integer"),
    ],
)
def test_bad_settings_are_refused(parameters, message):
    X, y = data()
    with pytest.raises(DeclarationError, match=message):
        robust(**parameters).fit(X, y)


def test_several_outputs_have_several_weights_and_are_refused():
    X, y = data()
    with pytest.raises(DataError, match="robust weights are of one output, received 2"):
        robust().fit(X, np.column_stack([y, y]))
