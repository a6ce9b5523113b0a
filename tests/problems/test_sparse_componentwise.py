"""The componentwise LS-SVM on a reduced basis: the dense one on all points, and what its components are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import SparseComponentwiseLSSVMRegressor, SparseLSSVMRegressor
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Componentwise
from substrate.reduced import Basis
from tests.oracles.variants import componentwise_machine

RNG = np.random.default_rng(12)
X = RNG.uniform(-1.0, 1.0, size=(120, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * RNG.normal(size=120)


def test_on_all_points_it_is_the_dense_machine():
    dense = componentwise_machine(RBF(0.7), 5.0).fit(X, Y)
    here = SparseComponentwiseLSSVMRegressor(RBF(0.7), 5.0, basis=np.arange(120)).fit(X, Y)
    assert_allclose(here.predict(X), dense.predict(X), atol=1e-6)
    assert_allclose(here.maximal_variation_, dense.maximal_variation_, atol=3e-6)
    assert_allclose(here.component_norms_, dense.component_norms_, atol=1e-5)
    assert_allclose(here.component_functions(X), dense.component_functions(X), atol=3e-6)
    assert_array_equal(here.get_support(relevance=0.2), dense.get_support(relevance=0.2))


def test_it_is_the_sparse_machine_of_the_sum_and_its_components_add_up():
    here = SparseComponentwiseLSSVMRegressor(RBF(0.7), 5.0, basis=Basis(15, random_state=0)).fit(X, Y)
    plain = SparseLSSVMRegressor(Componentwise(RBF(0.7)), 5.0, basis=Basis(15, random_state=0)).fit(X, Y)
    assert_array_equal(here.support_values_, plain.support_values_)
    values = here.component_functions(X)
    assert_allclose(values.sum(axis=1) + here.bias_, here.predict(X), atol=1e-9)
    assert_allclose(np.abs(values).max(axis=0), here.maximal_variation_, atol=1e-9)
    assert here.certificate_.holds
    assert here.certify(X, Y).holds
    assert here.leave_one_out(X, Y).certificate.holds


def test_blocks_are_fitted_like_an_array():
    options = {"basis": Basis(15, random_state=0)}
    blocks = [(X[:50], Y[:50]), (X[50:], Y[50:])]
    whole = SparseComponentwiseLSSVMRegressor(RBF(0.7), **options).fit(X, Y)
    parts = SparseComponentwiseLSSVMRegressor(RBF(0.7), **options).fit(blocks)
    assert_array_equal(parts.maximal_variation_, whole.maximal_variation_)
    assert_array_equal(parts.support_values_, whole.support_values_)


def test_a_negative_share_is_refused():
    with pytest.raises(DeclarationError, match="relevance"):
        SparseComponentwiseLSSVMRegressor(relevance=-0.1).fit(X, Y)
