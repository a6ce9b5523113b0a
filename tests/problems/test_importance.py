"""Importance of inputs by left-out predictions: the same numbers as explicit refits, and the laws of a permutation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from variants import componentwise_machine

import problems
from problems import LSSVMClassifier, LSSVMRegressor
from substrate.kernels import RBF, Polynomial

_N, _REPEATS = 20, 2


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(_N, 4)) * [1.0, 1e6, 1e-6, 1.0]
    X[:, 3] = 0.1  # a mean of equal numbers is not always that number
    X[:, 2] = np.round(1e6 * X[:, 2]) * 1e-6  # ties
    y = np.sin(2.0 * X[:, 0]) + 0.5e-6 * X[:, 1] + 0.1 * rng.normal(size=_N) + 30.0
    return X / [1.0, 1e6, 1e-6, 1.0], y, np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]


def refitted(make, X, y, weights=None, score_weights=None):
    """Importances by a fit without each row, and scikit-learn's habit of permuting a copy of X."""
    source, rest = np.random.default_rng(0), ~np.eye(_N, dtype=bool)
    given = [() if weights is None else (weights[keep],) for keep in rest]
    machines = [make().fit(X[keep], y[keep], *more) for keep, more in zip(rest, given, strict=True)]

    copies = [X]
    for column in np.repeat(range(X.shape[1]), _REPEATS):
        copies.append(X.copy())
        copies[-1][:, column] = X[source.permutation(_N), column]
    found = np.stack([machine.predict(np.stack([c[i] for c in copies])) for i, machine in enumerate(machines)], axis=1)
    losses = found != y if y.dtype.kind == "U" else (found - y) ** 2
    scores = np.average(losses, axis=1, weights=score_weights)
    return np.reshape(scores[1:] - scores[0], (X.shape[1], _REPEATS))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LSSVMRegressor(RBF(1.5), 5.0),
        lambda: LSSVMRegressor(Polynomial(degree=2), 1e6),  # kept in primal weights
        lambda: componentwise_machine(RBF(1.5), 5.0),
    ],
    ids=["kernel", "features", "componentwise"],
)
def test_regressions_without_a_row_are_those_of_a_refit(data, make):
    X, y, _ = data
    found = make().fit(X, y).left_out_importance(n_repeats=_REPEATS)
    expected = refitted(make, X, y)
    assert_allclose(found.importances, expected, atol=1e-9 * np.abs(expected).max())
    assert found.score == "mean square error"


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output"])
def test_classes_without_a_row_are_those_of_a_refit(data, coding):
    X, _, labels = data

    def make():
        return LSSVMClassifier(RBF(1.5), 1.0, coding=coding)

    model = make().fit(X, labels)
    found = model.left_out_importance(n_repeats=_REPEATS)
    assert_allclose(found.importances, refitted(make, X, labels), atol=1e-12)
    assert found.score == "accuracy"
    assert found.left_out_score == pytest.approx(1.0 - model.leave_one_out().misclassification)


def test_a_useless_input_is_worth_nothing_and_a_constant_one_exactly_nothing():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    X[:, 2] = 1e8 + 0.1
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=120)
    model = LSSVMRegressor(RBF(2.0), 10.0).fit(X[:, :2], y)
    mean = model.left_out_importance().importances_mean
    assert mean[0] > 0.4
    assert abs(mean[1]) < 0.1 * mean[0]
    with_constant = LSSVMRegressor(RBF(2.0), 10.0).fit(X - [0.0, 0.0, 1e8], y).left_out_importance()
    assert_array_equal(with_constant.importances[2], 0.0)
    assert_array_equal(with_constant.importances_mean, with_constant.importances.mean(axis=1))


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in problems.ESTIMATORS
        if hasattr(getattr(problems, name), "left_out_importance")
        and hasattr(getattr(problems, name), "leave_one_out")
        and "Sparse" not in name
        and name != "LSSVMRegressor"
    ),
)
def test_every_machine_with_leave_one_out_has_importances(data, name):
    X, y, labels = data
    target = np.where(labels == "a", "a", "b") if "Classifier" in name else y
    model = getattr(problems, name)().fit(X, target)
    found = model.left_out_importance(n_repeats=1)
    left_out = model.leave_one_out()
    expected = 1.0 - left_out.misclassification if "Classifier" in name else left_out.mean_square
    assert found.left_out_score == pytest.approx(expected)
    assert np.isfinite(found.importances).all()
    assert found.importances_mean[3] == 0.0
