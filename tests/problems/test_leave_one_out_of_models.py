"""``leave_one_out()`` of a fitted machine equals refits without each row, whatever weights, outputs or coding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    LSSVMClassifier,
    LSSVMRegressor,
)
from substrate.datasets import motorcycle
from substrate.kernels import RBF

RNG = np.random.default_rng(8)
X = RNG.normal(size=(26, 2))
Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * RNG.normal(size=(26, 2))
WEIGHTS = RNG.uniform(0.2, 3.0, size=26)
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.3 * RNG.normal(size=26), [-0.4, 0.4])]


def others(i, n=26):
    return np.arange(n) != i


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("gamma", [3.0, [3.0, 500.0], 1e6], ids=str)
@pytest.mark.covering
def test_regression_equals_refits(weights, gamma):
    model = LSSVMRegressor(RBF(1.0), gamma).fit(X, Y, weights)
    left_out = model.leave_one_out()
    for i in range(26):
        w = None if weights is None else weights[others(i)]
        refit = LSSVMRegressor(RBF(1.0), gamma).fit(X[others(i)], Y[others(i)], w)
        assert_allclose(left_out.predictions[i], refit.predict(X[i : i + 1])[0], rtol=1e-6, atol=1e-7)
    assert_allclose(left_out.residuals, Y - left_out.outputs, atol=1e-8)
    assert_allclose(left_out.mean_square, np.mean(left_out.residuals**2, axis=0))
    assert_allclose(left_out.mean_absolute, np.mean(np.abs(left_out.residuals), axis=0))
    assert_allclose(left_out.mean_square, np.mean(left_out.residuals**2, axis=0))
    assert_allclose(left_out.median_absolute, np.median(np.abs(left_out.residuals), axis=0))
    assert left_out.certificate.holds
    assert "left-out row included" in dict(left_out.certificate.record)["conditional on"]
    assert left_out.misclassification is None


def test_one_output_gives_plain_numbers_and_gcv_is_by_definition():
    X1, y1 = motorcycle()
    left_out = LSSVMRegressor(RBF(10.0), 20.0).fit(X1, y1).leave_one_out()
    assert left_out.residuals.shape == (133,)
    for value in (left_out.mean_square, left_out.median_absolute):
        assert isinstance(value, float)
    errors = y1 - LSSVMRegressor(RBF(10.0), 20.0).fit(X1, y1).predict(X1)
    expected = np.mean((errors / (1.0 - left_out.degrees_of_freedom / 133.0)) ** 2)
    assert_allclose(left_out.gcv, expected, rtol=1e-9)
    assert 22.0 < np.sqrt(left_out.mean_square) < 24.0  # a good fit; the noise is about that large


def test_the_printed_gamma_of_the_motorcycle_lacks_a_sign_in_its_exponent():
    # [Cawley2004] section 3.1: gamma 1.2055e-3, ours twice that, and 1/sigma^2 = 13.1 on the time scaled to [0, 1]
    X1, y1 = motorcycle()
    unit = (X1 - X1.min()) / np.ptp(X1)
    printed, meant = (
        LSSVMRegressor(RBF(13.1**-0.5), 2.0 * gamma).fit(unit, y1).leave_one_out() for gamma in (1.2055e-3, 1.2055e3)
    )
    assert np.sqrt(printed.mean_square) > 0.9 * y1.std()  # hardly better than the mean
    assert np.sqrt(meant.mean_square) < 23.6


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
@pytest.mark.parametrize("class_weight", [None, {"a": 1.0, "b": 2.0, "c": 0.5}])
@pytest.mark.covering
def test_classification_equals_refits(coding, class_weight):
    made = {"kernel": RBF(1.0), "gamma": 5.0, "coding": coding, "class_weight": class_weight}
    left_out = LSSVMClassifier(**made).fit(X, LABELS).leave_one_out()
    predictions = np.array(
        [LSSVMClassifier(**made).fit(X[others(i)], LABELS[others(i)]).predict(X[i : i + 1])[0] for i in range(26)]
    )
    assert_array_equal(left_out.predictions, predictions)
    assert left_out.misclassification == np.mean(predictions != LABELS)
    assert left_out.certificate.holds


def test_a_changed_coefficient_fails_the_check_by_refit():
    model = LSSVMRegressor(RBF(1.0), 3.0).fit(X, Y[:, 0])
    assert model.leave_one_out().certificate.holds
    model.support_values_ = model.support_values_ + 0.01  # their sum is no longer zero: no machine has these
    assert not model.leave_one_out().certificate.holds


# ---- machines that are an LS-SVM once something is held fixed ----------------------------------------


def test_the_substrate_leaves_rows_out_of_the_ls_svm_of_y_less_c():
    c = 0.3 * np.cos(X[:, 0])
    left = LSSVMRegressor(RBF(1.0), c=c).fit(X, Y[:, 0]).leave_one_out()
    plain = LSSVMRegressor(RBF(1.0), 1.0)
    for row in (0, 7, 25):
        rest = np.delete(np.arange(26), row)
        expected = plain.fit(X[rest], (Y[:, 0] - c)[rest]).predict(X[[row]])[0]
        assert_allclose(left.outputs[row], expected, atol=1e-10)
        assert_allclose(left.residuals[row], Y[row, 0] - c[row] - expected, atol=1e-10)
    assert left.certificate.holds
