"""The walk finds estimators and problems, and every estimator is a regressor or a classifier."""

from every_model import CLASSIFIERS, ESTIMATORS, FUNCTIONS, KERNELED, REGRESSORS


def test_the_walk_finds_estimators_and_problems():
    assert ESTIMATORS
    assert KERNELED
    assert {"ls_svm_regression.declare", "ls_svm_regression.closed_form"} <= set(FUNCTIONS)
    assert set(REGRESSORS) | set(CLASSIFIERS) == set(ESTIMATORS)
