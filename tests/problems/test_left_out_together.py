"""Searches that leave rows out together: groups, and neighbours where errors are correlated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut

from problems import (
    LSSVMRegressor,
    LSSVMRegressorCV,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF


def correlated(n, share, seed):
    """A smooth function of time, and the same with errors that an autoregression of order one makes."""
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 1.0, n)
    errors = np.zeros(n)
    for row in range(1, n):
        errors[row] = share * errors[row - 1] + np.sqrt(1.0 - share**2) * rng.normal()
    truth = np.sin(4.0 * np.pi * x) * np.exp(-x)
    return x[:, None], truth, truth + 0.3 * errors


def test_groups_are_the_splits_of_scikit_learn():
    """:equation [Cawley2004]_ (A.1): against refits without each group."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    groups = np.repeat(np.arange(4), 6)
    y = X[:, 0] + rng.normal(size=4)[groups] + 0.1 * rng.normal(size=24)
    kernel = RBF(1.5)
    model = LSSVMRegressorCV(kernel, cv="groups").fit(X, y, groups=groups)
    folds = LSSVMRegressorCV(kernel, cv=LeaveOneGroupOut()).fit(X, y, groups=groups)
    assert_allclose(model.gamma_, folds.gamma_, rtol=1e-3)
    assert_allclose(model.criterion_, folds.criterion_, rtol=1e-6)
    assert model.certificate_.holds
    assert "4 groups" in str(model.certificate_)
    errors = np.empty(24)
    for train, test in LeaveOneGroupOut().split(X, y, groups):
        errors[test] = y[test] - LSSVMRegressor(kernel, model.gamma_).fit(X[train], y[train]).predict(X[test])
    assert_allclose(model.criterion_, np.mean(errors**2), rtol=1e-8)
    whole = LSSVMRegressorCV(kernel, cv=2).fit(X, y, groups=groups)
    named = LSSVMRegressorCV(kernel, cv=list(GroupKFold(2).split(X, y, groups))).fit(X, y)
    assert whole.gamma_ == named.gamma_


def test_widths_are_searched():
    X, _, y = correlated(60, 0.6, 4)
    start = LSSVMRegressorCV(RBF(0.3), cv="blocks", reach=2).fit(X, y)
    model = LSSVMRegressorCV(RBF(0.3), cv="blocks", reach=2, search="gradient").fit(X, y)
    assert model.criterion_ <= start.criterion_ * (1.0 + 1e-9)
    assert model.certificate_.holds


def test_refusals_name_the_next_step():
    X, _, y = correlated(20, 0.5, 0)
    with pytest.raises(DataError, match="one label per row"):
        LSSVMRegressorCV(cv="groups").fit(X, y)
    with pytest.raises(DeclarationError, match="not by cv='loo'"):
        LSSVMRegressorCV().fit(X, y, groups=np.arange(20))
    with pytest.raises(DataError, match="for each of the 20 rows"):
        LSSVMRegressorCV(cv="groups").fit(X, y, groups=np.arange(19))
    with pytest.raises(DataError, match="not finite"):
        LSSVMRegressorCV(cv="groups").fit(X, y, groups=np.full(20, np.nan))
    with pytest.raises(DeclarationError, match="received cv='loo'"):
        LSSVMRegressorCV(reach=2).fit(X, y)
    with pytest.raises(DeclarationError, match="widths='shared'"):
        LSSVMRegressorCV(cv="blocks", reach=1, search="gradient", widths="auto").fit(X, y)
    with pytest.raises(DeclarationError, match="needs reach, the number of neighbours"):
        LSSVMRegressorCV(cv="blocks").fit(X, y)
    with pytest.raises(DeclarationError, match="cv='blocks' is a closed form"):
        LSSVMRegressorCV(cv="blocks", reach=1, monotone={0: 1}).fit(X, y)
