"""The simplest kernel within a standard error: which one is taken, by explicit errors, and what is said."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMRegressor, LSSVMRegressorCV, load

FACT = "simplest kernel within a standard error"


def heteroscedastic(seed, n=60):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, size=(n, 1))
    return x, np.sin(x[:, 0]) + (0.05 + 0.08 * x[:, 0]) * rng.normal(size=n)


def by_hand(model, X, y, weights=None):
    """The best of the table, and the one that the rule takes, from refits of every candidate without every row."""
    v = np.ones(y.size) if weights is None else weights
    squares, freedoms = [], []
    for kernel, gamma in zip(model.cv_results_["param_kernel"], model.cv_results_["param_gamma"], strict=True):
        left_out = LSSVMRegressor(kernel, gamma).fit(X, y, sample_weight=weights).leave_one_out()
        squares.append(np.square(left_out.residuals))
        freedoms.append(left_out.degrees_of_freedom)
    v = v / v.sum()
    best = int(np.argmin([v @ each for each in squares]))
    taken, fewest = best, 0.95 * freedoms[best]
    for number, (each, freedom) in enumerate(zip(squares, freedoms, strict=True)):
        d = each - squares[best]
        error = np.sqrt(y.size / (y.size - 1.0) * np.sum((v * (d - v @ d)) ** 2))
        if number != best and freedom < fewest and v @ d <= error and v @ each <= 1.5 * (v @ squares[best]):
            taken, fewest = number, freedom
    return best, taken, freedoms


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_the_one_that_is_taken_is_that_of_explicit_errors(seed, tmp_path):
    X, y = heteroscedastic(seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, size=y.size) if seed == 5 else None
    model = LSSVMRegressorCV(kernels="families", search="gradient", max_evaluations=8).fit(X, y, sample_weight=weights)
    best, taken, freedoms = by_hand(model, X, y, weights)
    assert model.kernel_ == model.cv_results_["param_kernel"][taken]
    assert model.certificate_.holds
    assert model.cv_results_["rank_test_score"][taken] == 1
    assert_allclose(model.effective_parameters_, freedoms[taken], rtol=1e-6)
    # the bound stays below the criterion of every candidate
    assert model.criterion_lower_bound_ <= -model.cv_results_["mean_test_score"].max()
    said = dict(model.certificate_.record)
    assert (FACT in said) == (taken != best)
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").criterion_lower_bound_ == model.criterion_lower_bound_
