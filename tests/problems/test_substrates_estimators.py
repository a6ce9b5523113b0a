"""The estimators of the substrate family: they are the declared problems, sparse where they say so."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import (
    L1SubstrateClassifier,
    L1SubstrateRegressor,
    LSSVMRegressor,
    l1_substrate,
    load,
    ls_svm_substrate,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed

KERNEL = RBF(1.0)


def regression(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=n)


def classes(n=36, k=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + 2.0 * np.eye(3)[np.arange(n) % k][:, :2]
    return X, np.array(["a", "b", "c"])[np.arange(n) % k]


def stored(model, folder):
    model.save(folder / "m.npz")
    return [load(folder / "m.npz"), pickle.loads(pickle.dumps(model))]


# ---- the substrate with given constants ----------------------------------------------------------


@pytest.mark.parametrize("c", [0.0, -1.5, np.float32(2.0), 3, np.array(0.5)], ids=repr)
def test_the_substrate_is_the_declared_problem(c):
    X, y = regression()
    model = LSSVMRegressor(KERNEL, c=c).fit(X, y)
    declared = ls_svm_substrate.declare(KERNEL(X), y, c).solve()
    assert model.certificate_.holds
    assert_allclose(model.support_values_, declared.support_values, atol=1e-6)
    assert_allclose(model.bias_, declared.bias, atol=1e-6)
    assert_allclose(y - model.predict(X), model.support_values_ + model.constants_, atol=1e-10)
    assert_allclose(model.constants_, np.full(30, c))


@pytest.mark.parametrize("c", [np.nan, np.inf, "1", 1j, True, {}, np.zeros((30, 1)), []], ids=str)
def test_what_is_no_constant_is_refused(c):
    X, y = regression()
    with pytest.raises(DataError, match=r"^c "):
        LSSVMRegressor(KERNEL, c=c).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"c": 1.0, "gamma": 2.0}, "with c the errors are alpha . c, which is gamma=1"),
        ({"c": 1.0, "robust": "huber"}, "c is given to the plain machine"),
        ({"c": 1.0, "solver": "cg"}, "with c the machine is solved in closed form"),
        ({"robust": "huber", "solver": "cg"}, "with robust the machine is solved in closed form"),
        ({"robust": "huber", "bounds": (0.0, None)}, "robust weights are of a machine without a shape"),
        ({"linear_columns": [0], "bounds": (0.0, None)}, "shapes are of the kernel machine alone"),
        ({"robust": 3}, "robust must be None, the name of a weighting or a Robust"),
    ],
)
def test_parameters_that_exclude_each_other_are_refused(parameters, message):
    X, y = regression()
    with pytest.raises(DeclarationError, match=message):
        LSSVMRegressor(KERNEL, **parameters).fit(X, y)


# ---- the sparse substrate ------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 0.03])
def test_the_sparse_regressor_is_the_declared_problem(share):
    X, y = regression()
    K = KERNEL(X)
    zeta = share * l1_substrate.zeta_max(K, y)
    model = L1SubstrateRegressor(KERNEL, zeta=zeta).fit(X, y)
    declared = l1_substrate.declare(K, y, zeta).solve()
    assert model.certificate_.holds
    assert 2 <= model.n_support_ < 30
    assert model.n_support_ == model.support_.size == model.support_values_.size == model.support_vectors_.shape[0]
    assert model.support_values_.all(), "nothing that is zero is kept"
    assert_array_equal(model.support_vectors_, X[model.support_])
    full = np.zeros(30)
    full[model.support_] = model.support_values_
    assert_allclose(full, declared.support_values, atol=1e-5)
    assert_allclose(model.predict(X), y - declared.errors, atol=1e-6)
    assert_allclose(model.zeta_max_, l1_substrate.zeta_max(K, y), rtol=1e-12)
    new, _ = regression(seed=3)
    assert_allclose(model.predict(new), KERNEL(new, X) @ full + model.bias_, atol=1e-12)


@pytest.mark.parametrize("kernel", [KERNEL, Precomputed()], ids=repr)
def test_above_zeta_max_only_the_bias_is_left(kernel, tmp_path):
    X, y = regression()
    X = KERNEL(X) if kernel == Precomputed() else X
    largest = L1SubstrateRegressor(kernel, zeta=0.1).fit(X, y).zeta_max_
    for factor in (1.0, 10.0):
        model = L1SubstrateRegressor(kernel, zeta=factor * largest).fit(X, y)
        for other in (model, *stored(model, tmp_path)):
            assert other.n_support_ == 0
            assert other.certificate_.holds
            rounding = 30 * np.finfo(float).eps * np.abs(y).max()  # of a mean of 30
            assert_allclose(other.predict(X), np.full(30, y.mean()), rtol=0.0, atol=rounding)
    assert L1SubstrateRegressor(kernel, zeta=0.999 * largest).fit(X, y).n_support_ >= 2


@pytest.mark.parametrize("estimator", [L1SubstrateRegressor, L1SubstrateClassifier])
@pytest.mark.parametrize("zeta", [0.0, -1.0, np.nan, np.inf, "1", None, True, [1.0]], ids=str)
def test_what_is_no_zeta_is_refused(estimator, zeta):
    X, y = regression() if estimator is L1SubstrateRegressor else classes()
    with pytest.raises(DeclarationError, match="zeta must be"):
        estimator(KERNEL, zeta=zeta).fit(X, y)
