"""The same numbers give the same model: twice in a row, as an array or a list, and in parallel threads."""

import numpy as np
import pytest
from every_model import ESTIMATORS, make_data, output, parameters_of, quick_kernel

from problems import L1SubstrateRegressor, LSSVMRegressor
from substrate.basis import RULES, Basis
from substrate.kernels import RBF

READERS = [estimator for estimator in ESTIMATORS if "basis" in parameters_of(estimator)]


def as_it_comes(estimator):
    """The estimator with its defaults; only the rows it holds out need a seed, which is a separate parameter."""
    seed = {"random_state": 0} if "random_state" in parameters_of(estimator) else {}
    return estimator(kernel=quick_kernel(estimator), **seed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a default range need not have a proof
@pytest.mark.parametrize("estimator", READERS)
def test_defaults_draw_the_same_rows(estimator):
    """More rows than a basis has vectors: which become the basis is drawn, and always in the same way."""
    X, y = make_data(estimator, n=130, columns=2)
    model = as_it_comes(estimator).fit(X, y)
    again = as_it_comes(estimator).fit(X.tolist(), y.tolist())
    np.testing.assert_array_equal(output(model, X), output(again, X))
    assert str(model.certificate_) == str(again.certificate_)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("estimator", [LSSVMRegressor, L1SubstrateRegressor])
def test_every_rule_has_a_seed(estimator, rule):
    """Fewer candidates and scoring rows than rows, so that these are drawn too."""
    X, y = make_data(estimator, n=60)
    basis = Basis(6, rule, n_candidates=20, n_scoring=15)
    model, again = (estimator(RBF(1.5), basis=basis).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(model.basis_indices_, again.basis_indices_)
    np.testing.assert_array_equal(output(model, X), output(again, X))
    others = [estimator(RBF(1.5), basis=basis.with_params(random_state=seed)).fit(X, y) for seed in range(1, 6)]
    assert any(not np.array_equal(one.basis_indices_, model.basis_indices_) for one in others)


def test_other_rows_on_request():
    X, y = make_data(L1SubstrateRegressor, n=130, columns=2)
    model = L1SubstrateRegressor(RBF(1.5), basis=Basis(10, random_state=None))
    drawn = {tuple(model.fit(X, y).basis_indices_) for _ in range(4)}
    assert len(drawn) > 1
