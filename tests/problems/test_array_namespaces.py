"""Estimators fitted to arrays that are not numpy's: the same machines, where the arrays are."""

import numpy as np
import pytest
from array_homes import HOMES, close, sender

from problems import (
    L1SubstrateRegressor,
    LSSVMClassifier,
    LSSVMClassifierCV,
    LSSVMRegressor,
    LSSVMRegressorCV,
    RobustLSSVMRegressor,
    SparseLSSVMClassifier,
    SparseLSSVMRegressor,
    load,
)
from substrate.errors import DataError, DeclarationError, ScaleWarning
from substrate.kernels import RBF, Componentwise, SinglePrecision
from substrate.namespaces import is_device_array, to_numpy

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90)
Y = np.stack([y, X[:, 1] ** 2 + 0.3 * RNG.normal(size=90)], axis=1)
LABELS = (X[:, 0] > 0.3).astype(np.int64) + 2 * (X[:, 1] > 0.0)
WEIGHTS = np.where(np.arange(90) % 7 == 0, 0.0, RNG.uniform(0.5, 2.0, size=90))
NEW = RNG.normal(size=(20, 3))
SPARSE = {"n_basis": 12, "basis": "random", "random_state": 0}

FITS = {
    "dense": (LSSVMRegressor(RBF(1.5), 2.0), y),
    "median width, two outputs": (LSSVMRegressor(gamma=[2.0, 3.0]), Y),
    "weighted": (LSSVMRegressor(RBF(1.5), 2.0), y, WEIGHTS),
    "componentwise": (LSSVMRegressor(Componentwise(RBF(1.5)), 2.0), y),
    "classes": (LSSVMClassifier(RBF(1.5)), LABELS),
    "two classes": (LSSVMClassifier(RBF(1.5)), 2 * (LABELS > 0) - 1),
    "pairs": (LSSVMClassifier(RBF(1.5), coding="one_vs_one"), LABELS),
    "balanced": (LSSVMClassifier(RBF(1.5), coding="minimum_output", class_weight="balanced"), LABELS, WEIGHTS),
    "leave-one-out": (LSSVMRegressorCV(RBF(1.5)), y),
    "gcv of two outputs": (LSSVMRegressorCV(kernels=[RBF(1.5), RBF(3.0)], criterion="gcv"), Y),
    "absolute": (LSSVMRegressorCV(RBF(1.5), criterion="mean_absolute"), y),
    "classes, leave-one-out": (LSSVMClassifierCV(RBF(1.5)), LABELS),
    "pairs, leave-one-out": (LSSVMClassifierCV(RBF(1.5), coding="one_vs_one"), LABELS),
    "reduced": (SparseLSSVMRegressor(RBF(1.5), 2.0, **SPARSE), y),
    "reduced, feature vectors": (SparseLSSVMRegressor(RBF(1.5), 2.0, n_basis=12, random_state=0), y),
    "reduced, rows": (SparseLSSVMRegressor(RBF(1.5), 2.0, basis=np.arange(9)), y),
    "reduced, points": (SparseLSSVMRegressor(RBF(1.5), 2.0, basis=NEW), y),
    "reduced, pruned": (SparseLSSVMRegressor(RBF(1.5), 2.0, n_basis=12, basis="pruned", random_state=0), y),
    "reduced, classes": (SparseLSSVMClassifier(RBF(1.5), **SPARSE), LABELS),
}

everywhere = pytest.mark.parametrize("home", HOMES)


@everywhere
@pytest.mark.parametrize("name", FITS)
def test_the_machine_is_that_of_numpy_where_the_arrays_are(name, home, tmp_path):
    send, (model, *rest) = sender(home), FITS[name]
    model.fit(X, *rest)
    alpha, values = model.support_values_, model.predict(NEW)
    bias = model.bias_
    try:
        model.fit(send(X), *(send(part) for part in rest))
        assert model.certificate_.holds
        assert all(isinstance(row.value, float) for row in model.certificate_.rows)
        assert home in dict(model.certificate_.record)["computed by"]
        close(model.support_values_, alpha, 1e-9)
        assert is_device_array(model.support_vectors_)
        np.testing.assert_allclose(to_numpy(model.bias_), bias, rtol=1e-8, atol=1e-10)
        close(model.predict(send(NEW)), values, 1e-9)
        model.save(tmp_path / "model.npz")
        for moved in (load(tmp_path / "model.npz"), model.to_numpy()):
            np.testing.assert_allclose(moved.predict(NEW), values, rtol=0.0, atol=1e-9 * np.abs(values).max())
    finally:
        model._forget()


@everywhere
def test_a_certificate_is_checked_again(home):
    send = sender(home)
    for model, target in ((LSSVMRegressor(RBF(1.5)), Y), (LSSVMClassifier(RBF(1.5), coding="one_vs_one"), LABELS)):
        model.fit(send(X), send(target))
        assert model.certify(send(X), send(target)).holds
        model.support_values_ = 1.001 * model.support_values_
        assert not model.certify(send(X), send(target)).holds


@everywhere
def test_a_precomputed_matrix(home):
    send, K = sender(home), RBF(1.5)(X)
    model = LSSVMRegressor("precomputed", 2.0)
    values = model.fit(K, y, WEIGHTS).predict(K[:5])
    close(model.fit(send(K), send(y), send(WEIGHTS)).predict(send(K[:5])), values)


@everywhere
def test_single_precision_is_on_the_record(home):
    send = sender(home)
    for model in (
        LSSVMRegressor(SinglePrecision(RBF(1.5)), 2.0),
        SparseLSSVMRegressor(SinglePrecision(RBF(1.5)), **SPARSE),
    ):
        values = model.fit(X, y).predict(NEW)
        model.fit(send(X), send(y))
        assert model.certificate_.holds
        assert "SinglePrecision" in dict(model.certificate_.record)["kernel"]
        close(model.predict(send(NEW)), values, 1e-4)
        assert not np.array_equal(to_numpy(model.predict(send(NEW))), values)


def test_rows_are_not_moved_in_silence():
    send = sender("array_api_strict")
    here, there = LSSVMRegressor(RBF(1.5)).fit(X, y), LSSVMRegressor(RBF(1.5)).fit(send(X), send(y))
    with pytest.raises(DataError, match=r"fitted to arrays of numpy, X is array_api_strict"):
        here.predict(send(NEW))
    with pytest.raises(DataError, match=r"X is numpy; move X to them \(model\.to_numpy\(\)"):
        there.predict(NEW)
    with pytest.raises(DataError, match="2 features, this model was fitted to 3"):
        there.predict(send(NEW[:, :2]))
    with pytest.raises(DataError, match="y is numpy"):
        LSSVMRegressor().fit(send(X), y)
    with pytest.raises(DataError, match=r"to_numpy\(\)\.leave_one_out"):
        there.leave_one_out()


@pytest.mark.parametrize(
    ("target", "message"),
    [(y, "whole numbers"), (LABELS[:5], "one label for each"), (LABELS > 0, "dtype"), (0 * LABELS, "two classes")],
)
def test_labels_on_a_device_are_checked(target, message):
    send = sender("array_api_strict")
    with pytest.raises(DataError, match=message):
        LSSVMClassifier().fit(send(X), send(target))


@pytest.mark.parametrize("model", [L1SubstrateRegressor(), RobustLSSVMRegressor()])
def test_the_other_estimators_say_what_to_do(model):
    send = sender("array_api_strict")
    with pytest.raises(DataError, match=r"works on numpy arrays; .*X\.cpu\(\)\.numpy\(\)"):
        model.fit(send(X), send(y))


def test_what_a_device_does_not_do_is_named():
    send = sender("array_api_strict")
    for solver in ("cg", "cvxpy"):
        with pytest.raises(DeclarationError, match="works on numpy arrays"):
            LSSVMRegressor(solver=solver).fit(send(X), send(y))
    with pytest.raises(DeclarationError, match="'loo' or 'gcv'"):
        LSSVMRegressorCV(criterion="folds").fit(send(X), send(y))
    with pytest.raises(DataError, match="precomputed"):
        SparseLSSVMRegressor("precomputed").fit(send(X @ X.T), send(y))
    with pytest.raises(DataError, match="must not be negative"):
        LSSVMRegressor().fit(send(X), send(y), send(-WEIGHTS))
    with pytest.raises(DataError, match="at least two rows"):
        LSSVMRegressor().fit(send(X[:1]), send(y[:1]))


def test_columns_of_different_scale_are_warned_of():
    send = sender("array_api_strict")
    with pytest.warns(ScaleWarning, match="drowns column"):
        LSSVMRegressor(RBF(1.0)).fit(send(X * np.array([1.0, 1e4, 1.0])), send(y))
