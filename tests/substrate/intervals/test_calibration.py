"""Maps from scores to probabilities: the optimum of each, monotone, and on the side of the decision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from substrate.intervals.calibration import (
    beside_decision,
    fit_isotonic,
    fit_sigmoid,
    smoothed_targets,
)


def sample(seed, n=80, noise=1.0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    return np.where(positive, 1.0, -1.0) + noise * rng.standard_normal(n), positive, rng.uniform(0.5, 2.0, n)


def log_loss(point, scores, targets, weights):
    logits = point[0] * scores + point[1]
    return weights @ (np.logaddexp(0.0, logits) - targets * logits)


@pytest.mark.parametrize("seed", range(4))
def test_platts_sigmoid_is_the_optimum_and_its_certificate_says_so(seed):
    scores, positive, weights = sample(seed)
    found = fit_sigmoid(scores, positive, weights)
    targets = smoothed_targets(positive, weights)
    peer = minimize(log_loss, [1.0, 0.0], (scores, targets, weights), tol=1e-12)
    assert log_loss((found.slope, found.offset), scores, targets, weights) <= peer.fun + 1e-9
    assert_allclose([found.slope, found.offset], peer.x, rtol=1e-4)
    assert found.gradient <= 1e-11
    residual = weights * (found(scores) - targets)
    assert_allclose([residual.sum(), residual @ scores], 0.0, atol=1e-8)


def test_separable_scores_have_a_finite_slope():
    """Targets that are not 0 and 1 keep it so.

    :place [Platt2000]_ smoothed targets: they keep the slope finite
    """
    scores = np.concatenate([-np.ones(50), np.ones(30)])
    found = fit_sigmoid(scores, scores > 0.0, np.ones(80))
    assert 0.0 < found.slope < 10.0
    assert_allclose(found(np.array([-1.0, 1.0])), [1.0 / 52.0, 31.0 / 32.0], rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_isotonic_regression_is_scikit_learns(seed):
    scores, positive, weights = sample(seed)
    scores = np.round(scores, 1)  # ties
    peer = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, positive, weights)
    new = np.linspace(-5.0, 5.0, 201)
    found = fit_isotonic(scores, positive, weights)
    assert_allclose(found(new), peer.predict(new), atol=1e-12)
    assert (np.diff(found(new)) >= 0.0).all()


def test_probabilities_are_moved_to_the_side_of_the_decision_and_no_further():
    given = np.array([[0.7, 0.3], [0.3, 0.7], [0.5, 0.5]])
    assert_array_equal(beside_decision(given, [0, 1, 0]).argmax(axis=1), [0, 1, 0])
    assert_allclose(beside_decision(given, [0, 1, 0]), given, atol=1e-11)
    moved = beside_decision(given, [1, 0, 1])
    assert_array_equal(moved.argmax(axis=1), [1, 0, 1])
    assert_allclose(moved, 0.5, atol=1e-11)
    three = beside_decision(np.array([[0.9, 0.9, 0.0]]), [1])
    assert three.argmax() == 1
    assert_allclose(three.sum(), 1.0, rtol=1e-15)
