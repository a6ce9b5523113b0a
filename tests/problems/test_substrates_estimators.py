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


def test_a_constant_for_each_row_goes_to_fit():
    X, y = regression()
    c = np.random.default_rng(1).normal(size=30)
    model = LSSVMRegressor(KERNEL, c=c).fit(X, y)
    expected = ls_svm_substrate.closed_form(KERNEL(X), y, c)
    assert_allclose(model.support_values_, expected["support_values"], atol=1e-10)
    assert_array_equal(model.constants_, c)
    c[:] = 0.0
    assert model.constants_.any(), "a copy is kept"
    equal = LSSVMRegressor(KERNEL, c=[7.0] * 30).fit(X, y)
    assert_allclose(equal.bias_, LSSVMRegressor(KERNEL, c=7.0).fit(X, y).bias_)


def test_the_constants_of_an_ls_svm_make_an_ls_svm():
    X, y = regression()
    machine = LSSVMRegressor(KERNEL, gamma=20.0).fit(X, y)
    c = ls_svm_substrate.tikhonov_constants(machine.support_values_, 20.0)
    model = LSSVMRegressor(KERNEL, c=c).fit(X, y)
    new, _ = regression(seed=9)
    assert_allclose(model.predict(new), machine.predict(new), atol=1e-8)


@pytest.mark.parametrize("c", [np.zeros(29), np.zeros(31), [1.0]], ids=len)
def test_constants_of_another_length_are_refused(c):
    X, y = regression()
    with pytest.raises(DataError, match=f"c must be one number or one for each row: expected 30, .*{len(c)}"):
        LSSVMRegressor(KERNEL, c=c).fit(X, y)


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


def test_constants_and_robust_weights_go_with_linear_columns_and_weights():
    X, y = regression()
    y, v = y + 3.0 * X[:, 1], 1.0 + np.arange(30) % 3
    c = 0.1 * np.cos(X[:, 0])
    for parameters in ({"c": c}, {"robust": "huber"}):
        model = LSSVMRegressor(KERNEL, linear_columns=[1], **parameters).fit(X, y, v)
        assert model.certificate_.holds
        assert model.certify(X, y, v).holds
        assert abs(model.coef_[0] - 3.0) < 1.0
        with pytest.raises(DeclarationError, match="is a closed form of the machine without robust weights"):
            model.predict(X, return_std=True)
    plain = LSSVMRegressor(KERNEL, linear_columns=[1]).fit(X, y - c, v)
    with_c = LSSVMRegressor(KERNEL, linear_columns=[1], c=c).fit(X, y, v)
    assert_allclose(with_c.predict(X), plain.predict(X), atol=1e-10)


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


@pytest.mark.parametrize("coding", ["one_vs_rest", "minimum_output", "ecoc"])
def test_every_machine_of_the_classifier_is_the_declared_problem(coding, tmp_path):
    X, y = classes()
    model = L1SubstrateClassifier(KERNEL, zeta=0.5, coding=coding).fit(X, y)
    assert model.certificate_.holds
    codes = model.code_book_[np.searchsorted(model.classes_, y)]
    full = np.zeros((36, codes.shape[1]))
    full[model.support_] = model.support_values_
    assert_array_equal(model.support_codes_, codes[model.support_])
    for column in range(codes.shape[1]):
        members = codes[:, column] != 0.0
        K, labels = KERNEL(X[members]), codes[members, column]
        expected = l1_substrate.closed_form(K, labels, 0.5, "classification")
        assert_allclose(full[members, column], expected["support_values"], atol=1e-9)
        assert_allclose(model.bias_[column], expected["bias"], atol=1e-9)
        assert not full[~members, column].any()
    assert model.n_support_ == model.support_.size < 36
    assert model.score(X, y) > 0.7
    for other in stored(model, tmp_path):
        assert_array_equal(other.decision_function(X), model.decision_function(X))
        assert_array_equal(other.predict(X), model.predict(X))


@pytest.mark.parametrize("k", [2, 3])
def test_a_classifier_without_support_vectors_says_the_largest_class(k, tmp_path):
    X, y = classes(30, k)
    y[:3] = "a"  # the most frequent now
    model = L1SubstrateClassifier(KERNEL, zeta=1e6).fit(X, y)
    for other in (model, *stored(model, tmp_path)):
        assert other.n_support_ == 0
        assert set(other.predict(X)) == {"a"}
        assert other.decision_function(X[:4]).shape == ((4,) if k == 2 else (4, 3))


@pytest.mark.parametrize("estimator", [L1SubstrateRegressor, L1SubstrateClassifier])
def test_a_sparse_model_is_small_when_saved(estimator, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    y = X[:, 0] + 0.1 * rng.normal(size=200)
    y = y if estimator is L1SubstrateRegressor else y > 0.0
    sizes, supports = [], []
    for zeta in (1e-3, 2.0):
        model = estimator(RBF(9.0), zeta=zeta).fit(X, y)
        model.save(tmp_path / "m.npz")
        sizes.append((tmp_path / "m.npz").stat().st_size)
        supports.append(model.n_support_)
        assert sizes[-1] < 8.0 * 44 * model.n_support_ + 20_000
    assert supports[1] < 0.5 * supports[0]
    assert sizes[1] < sizes[0] - 8.0 * 40 * 0.9 * (supports[0] - supports[1])


@pytest.mark.parametrize("estimator", [L1SubstrateRegressor, L1SubstrateClassifier])
@pytest.mark.parametrize("zeta", [0.0, -1.0, np.nan, np.inf, "1", None, True, [1.0]], ids=str)
def test_what_is_no_zeta_is_refused(estimator, zeta):
    X, y = regression() if estimator is L1SubstrateRegressor else classes()
    with pytest.raises(DeclarationError, match="zeta must be"):
        estimator(KERNEL, zeta=zeta).fit(X, y)


# ---- habits --------------------------------------------------------------------------------------
