"""Every estimator, and data that differ in the last place: another processor or BLAS rounds no more than that.

What changes are digits that nobody promised. What must not: whether the certificate holds, which rows and components a
machine uses, which class a point gets, and the outputs to a millionth of their spread; or, where the certificate
promises less, as with a shape that holds everywhere, the fitted values to what both certificates promise.
"""

import numpy as np
import pytest
from every_model import TYPICAL, way_in_words
from sklearn.base import is_classifier

import problems
from substrate.basis import Basis
from substrate.certificate import Accuracy
from substrate.kernels import RBF

ESTIMATORS = [getattr(problems, name) for name in problems.ESTIMATORS]
#: What a machine has decided, where it has it: equal, not close.
VERDICTS = ("n_support_", "support_", "basis_indices_", "component_support_", "classes_")


def data_of(estimator, n=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    signal = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)
    return X, np.where(signal > np.median(signal), "up", "down") if is_classifier(estimator()) else signal


def rounded_otherwise(values, seed):
    """The same numbers, each moved by a unit in the last place, or not."""
    eps = np.finfo(np.float64).eps
    return values * (1.0 + eps * np.random.default_rng(seed).integers(-1, 2, size=values.shape))


def fitted(estimator, choice, X, y):
    own = estimator().get_params(deep=False)
    choices = {name: value for name, value in {"kernel": RBF(1.5), "random_state": 0}.items() if name in own} | choice
    if "basis" in choice:
        choices["basis"] = Basis(12, random_state=0)
    return estimator(**choices).fit(X, y)


def promised_distance(model):
    """How far the fitted values may be from the optimum by the certificate, where it tolerates more than usual."""
    row = model.certificate_.rows[0]
    assert row.name == "accuracy" or not isinstance(row, Accuracy)
    return row.value if isinstance(row, Accuracy) and row.tolerance > 1e-4 else 0.0


def outputs(model, X):
    return model.decision_function(X) if is_classifier(model) else model.predict(X)


@pytest.mark.parametrize(("estimator", "choice"), [*((one, {}) for one in ESTIMATORS), *TYPICAL], ids=way_in_words)
def test_no_verdict_hangs_on_rounding(estimator, choice):
    X, y = data_of(estimator)
    plain = fitted(estimator, choice, X, y)
    points = 0.99 * np.clip(np.random.default_rng(4).normal(size=(20, 3)), X.min(axis=0), X.max(axis=0))
    assert plain.certificate_.holds, str(plain.certificate_)
    known = outputs(plain, points)
    for seed in range(2):
        targets = y if is_classifier(plain) else rounded_otherwise(y, seed)
        rows = rounded_otherwise(X, seed)
        other = fitted(estimator, choice, rows, targets)
        assert other.certificate_.holds, str(other.certificate_)
        for name in VERDICTS:
            if hasattr(plain, name):
                np.testing.assert_array_equal(getattr(other, name), getattr(plain, name), err_msg=name)
        if hasattr(plain, "maximal_variation_"):
            np.testing.assert_array_equal(other.maximal_variation_ == 0.0, plain.maximal_variation_ == 0.0)
        promised = [promised_distance(model) for model in (plain, other)]
        if max(promised) > 0.0:  # both are that near to the same optimum
            differences = outputs(other, rows) - outputs(plain, X)
            assert np.sqrt(np.mean(np.square(differences))) <= sum(promised) + 1e-6 * np.ptp(known)
        else:
            np.testing.assert_allclose(outputs(other, points), known, rtol=0.0, atol=1e-6 * np.ptp(known))
        if is_classifier(plain):
            np.testing.assert_array_equal(other.predict(points), plain.predict(points))
