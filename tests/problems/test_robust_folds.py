"""Gamma by folds with robust weights inside: every fold is a fit of its own, and outliers do not choose gamma."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from problems import RobustLSSVMRegressor
from substrate.datasets import sinc_outliers
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed

KERNEL, GAMMAS = RBF(1.0), np.array([0.1, 3.0, 100.0, 3000.0])
X, Y = sinc_outliers(60, n_outliers=6, random_state=0)
FOLDS = KFold(4, shuffle=True, random_state=0)


def robust(**parameters):
    return RobustLSSVMRegressor(KERNEL, **parameters)


@pytest.mark.parametrize("loss", ["mean_absolute", "median_absolute", "squared"])
def test_criteria_are_those_of_refits(loss):
    chosen = robust(weighting="density").gamma_by_folds(X, Y, cv=FOLDS, loss=loss, gammas=GAMMAS)
    judge = {"mean_absolute": lambda e: np.abs(e).mean(), "median_absolute": lambda e: np.median(np.abs(e))}
    for gamma, criterion in zip(GAMMAS, chosen.criteria, strict=True):
        errors, model = np.empty(60), RobustLSSVMRegressor(KERNEL, gamma, weighting="density")
        for train, test in FOLDS.split(X):
            errors[test] = Y[test] - model.fit(X[train], Y[train]).predict(X[test])
        assert_allclose(criterion, judge.get(loss, lambda e: np.mean(e**2))(errors), rtol=1e-6)
        if gamma == chosen.gamma:
            assert_allclose(chosen.outputs, Y - errors, atol=1e-6)
    assert chosen.criterion == chosen.criteria.min()
    assert chosen.certificate.holds


def test_weights_of_rows_count_rows_and_zeros_none():
    times = np.array([1, 2] * 30)
    twice = np.repeat(np.arange(60), times)
    folds = [(np.flatnonzero(np.arange(60) % 3 != k), np.flatnonzero(np.arange(60) % 3 == k)) for k in range(3)]
    repeated = [tuple(np.flatnonzero(np.isin(twice, rows)) for rows in pair) for pair in folds]
    weighted = robust(scale="mad").gamma_by_folds(X, Y, times, cv=folds, gammas=GAMMAS)
    rows = robust(scale="mad").gamma_by_folds(X[twice], Y[twice], cv=repeated, gammas=GAMMAS)
    assert_allclose(weighted.criteria, rows.criteria, rtol=1e-6)
    without = robust().gamma_by_folds(X, Y, (times == 1).astype(float), cv=FOLDS, gammas=GAMMAS)
    assert_array_equal(np.isnan(without.outputs), times == 2)


def test_a_matrix_units_and_the_default_list():
    folds = KFold(3, shuffle=True, random_state=1)
    chosen = robust().gamma_by_folds(X, Y, cv=folds)
    assert chosen.gammas.size == 33
    matrix = RobustLSSVMRegressor(Precomputed()).gamma_by_folds(KERNEL(X), Y, cv=folds)
    assert_allclose(matrix.criteria, chosen.criteria, rtol=1e-8)
    other = RobustLSSVMRegressor(1e6 * KERNEL).gamma_by_folds(X, 1e-9 * Y, cv=folds)
    assert_allclose(other.criteria, 1e-9 * chosen.criteria, rtol=1e-6)
    assert_allclose(other.gamma, 1e-6 * chosen.gamma, rtol=1e-9)


def test_an_end_of_the_list_is_no_minimum():
    with pytest.warns(ConvergenceWarning, match="give gammas beyond it"):
        chosen = robust().gamma_by_folds(X, Y, cv=FOLDS, gammas=[1e-6, 1e-5])
    assert not chosen.certificate.holds
    assert robust().gamma_by_folds(X, Y, cv=FOLDS, gammas=[10.0]).certificate.holds


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "hinge"}, DeclarationError, "loss must be one of mean_absolute"),
        ({"gammas": []}, DataError, "gammas is empty"),
        ({"gammas": [1.0, -1.0]}, DataError, "gammas must be positive numbers"),
        ({"cv": [([0], [1, 2])]}, DataError, "leaves 1 rows to train on"),
        ({"cv": [([0, 1], [1, 2])]}, DataError, "trains on row 1 and validates on it"),
    ],
)
def test_what_cannot_be_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        robust().gamma_by_folds(X, Y, **options)
