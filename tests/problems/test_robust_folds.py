"""Gamma of robust machines by folds: every fold is a fit with separate weights, and outliers do not choose gamma."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from variants import robust_machine

from problems import LSSVMRegressorCV, Robust, load
from substrate.datasets import sinc_outliers
from substrate.errors import DeclarationError
from substrate.kernels import RBF

KERNEL = RBF(1.0)
X, Y = sinc_outliers(60, n_outliers=6, random_state=0)
FOLDS = [(np.flatnonzero(np.arange(60) % 3 != k), np.flatnonzero(np.arange(60) % 3 == k)) for k in range(3)]


def test_criteria_are_those_of_refits(tmp_path):
    model = LSSVMRegressorCV(KERNEL, robust="density", cv=FOLDS, gamma_range=(0.1, 1e3)).fit(X, Y)
    for gamma, criterion in zip(model.path_["values"], model.path_["criterion"], strict=True):
        errors, fold = np.empty(60), robust_machine(KERNEL, gamma, weighting="density")
        for train, test in FOLDS:
            errors[test] = Y[test] - fold.fit(X[train], Y[train]).predict(X[test])
        assert_allclose(criterion, np.abs(errors).mean(), rtol=1e-6)
    assert model.criterion_ == model.path_["criterion"].min()
    assert model.certificate_.holds
    assert model.certify(X, Y).holds
    assert_allclose(model.predict(X), robust_machine(KERNEL, model.gamma_, weighting="density").fit(X, Y).predict(X))
    model.save(tmp_path / "m.npz")
    assert load(tmp_path / "m.npz").robust == "density"


def test_weights_of_rows_count_rows():
    times = np.array([1, 2] * 30)
    twice = np.repeat(np.arange(60), times)
    repeated = [tuple(np.flatnonzero(np.isin(twice, rows)) for rows in pair) for pair in FOLDS]
    robust, ends = Robust(scale="mad"), (0.1, 1e3)
    weighted = LSSVMRegressorCV(KERNEL, robust=robust, cv=FOLDS, gamma_range=ends).fit(X, Y, sample_weight=times)
    rows = LSSVMRegressorCV(KERNEL, robust=robust, cv=repeated, gamma_range=ends).fit(X[twice], Y[twice])
    assert_allclose(weighted.path_["criterion"], rows.path_["criterion"], rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "cv='loo' is a closed form of the machine without a shape and robust weights"),
        ({"cv": 3, "kernels": [RBF(1.0), RBF(2.0)]}, "gamma is chosen for one kernel"),
        ({"cv": "groups"}, "cv='groups' is a closed form"),
    ],
)
def test_rules_of_closed_forms_are_refused(parameters, message):
    with pytest.raises(DeclarationError, match=message):
        LSSVMRegressorCV(KERNEL, robust="hampel", **parameters).fit(X, Y)
