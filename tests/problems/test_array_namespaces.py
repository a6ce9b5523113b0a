"""Estimators fitted to arrays that are not numpy's: the same machines, where the arrays are."""

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from numpy.testing import assert_array_equal
from sklearn.base import clone
from variants import symmetric_machine

import problems
from problems import LSSVMClassifier, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV, load
from substrate.arrays import is_device_array, to_numpy
from substrate.basis import Basis
from substrate.errors import (
    DataError,
    DeclarationError,
)
from substrate.kernels import RBF, Componentwise

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90)
Y = np.stack([y, X[:, 1] ** 2 + 0.3 * RNG.normal(size=90)], axis=1)
LABELS = (X[:, 0] > 0.3).astype(np.int64) + 2 * (X[:, 1] > 0.0)
WEIGHTS = np.where(np.arange(90) % 7 == 0, 0.0, RNG.uniform(0.5, 2.0, size=90))
NEW = RNG.normal(size=(20, 3))
SPARSE = {"basis": Basis(12, "random", random_state=0)}

FITS = {
    "dense": (LSSVMRegressor(RBF(1.5), 2.0), y),
    "median width, two outputs": (LSSVMRegressor(gamma=[2.0, 3.0]), Y),
    "weighted": (LSSVMRegressor(RBF(1.5), 2.0), y, WEIGHTS),
    "componentwise": (LSSVMRegressor(Componentwise(RBF(1.5)), 2.0), y),
    "odd": (symmetric_machine(RBF(1.5), 2.0, symmetry="odd"), y),
    "partially linear": (LSSVMRegressor(RBF(1.5), [2.0, 3.0], linear_columns=[1, 2]), Y, WEIGHTS),
    "partially linear classes": (LSSVMClassifier(RBF(1.5), linear_columns=[2]), LABELS),
    "partially linear, leave-one-out": (LSSVMRegressorCV(RBF(1.5), linear_columns=[1]), y),
    "partially linear classes, gcv": (LSSVMClassifierCV(RBF(1.5), cv="gcv", linear_columns=[2]), LABELS),
    "classes": (LSSVMClassifier(RBF(1.5)), LABELS),
    "two classes": (LSSVMClassifier(RBF(1.5)), 2 * (LABELS > 0) - 1),
    "ecoc": (LSSVMClassifier(RBF(1.5), coding="ecoc"), LABELS),
    "balanced": (LSSVMClassifier(RBF(1.5), coding="minimum_output", class_weight="balanced"), LABELS, WEIGHTS),
    "leave-one-out": (LSSVMRegressorCV(RBF(1.5)), y),
    "gcv of two outputs": (LSSVMRegressorCV(kernels=[RBF(1.5), RBF(3.0)], cv="gcv"), Y),
    "classes, leave-one-out": (LSSVMClassifierCV(RBF(1.5)), LABELS),
    "ecoc, leave-one-out": (LSSVMClassifierCV(RBF(1.5), coding="ecoc"), LABELS),
    "reduced": (LSSVMRegressor(RBF(1.5), 2.0, **SPARSE), y),
    "reduced, feature vectors": (LSSVMRegressor(RBF(1.5), 2.0, basis=Basis(12, random_state=0)), y),
    "reduced, rows": (LSSVMRegressor(RBF(1.5), 2.0, basis=np.arange(9)), y),
    "reduced, points": (LSSVMRegressor(RBF(1.5), 2.0, basis=NEW), y),
    "reduced, pruned": (LSSVMRegressor(RBF(1.5), 2.0, basis=Basis(12, rule="pruned", random_state=0)), y),
    "reduced, partially linear": (LSSVMRegressor(RBF(1.5), linear_columns=[1], **SPARSE), y),
    "reduced, partially linear classes": (
        LSSVMClassifier(RBF(1.5), linear_columns=[2], **SPARSE),
        LABELS,
    ),
    "reduced, classes": (LSSVMClassifier(RBF(1.5), **SPARSE), LABELS),
    "reduced, leave-one-out": (LSSVMRegressorCV(RBF(1.5), **SPARSE), y),
    "reduced, gcv": (LSSVMRegressorCV(kernels=[RBF(1.5), RBF(3.0)], cv="gcv", **SPARSE), y),
    "reduced, folds": (LSSVMRegressorCV(RBF(1.5), cv=3, **SPARSE), y),
    "reduced, all rows": (LSSVMRegressorCV(RBF(1.5), gamma_range=(0.01, 100.0), basis=np.arange(90)), y),
    "reduced, classes, folds": (LSSVMClassifierCV(RBF(1.5), cv=3, **SPARSE), LABELS),
    "reduced, classes, leave-one-out": (LSSVMClassifierCV(RBF(1.5), **SPARSE), LABELS),
}
#: Machines whose rows can be left out, with their targets and weights.
LEFT_OUT = ("dense", "weighted", "median width, two outputs", "classes", "two classes", "ecoc")
SPARSE_LEFT_OUT = ("reduced", "reduced, classes", "reduced, leave-one-out", "reduced, classes, leave-one-out")

everywhere = pytest.mark.parametrize("home", HOMES)


@everywhere
@pytest.mark.parametrize("name", FITS)
@pytest.mark.covering
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
        assert_close(model.support_values_, alpha, 1e-9)
        assert is_device_array(model.support_vectors_)
        np.testing.assert_allclose(to_numpy(model.bias_), bias, rtol=1e-8, atol=1e-10)
        assert_close(model.predict(send(NEW)), values, 1e-9)
        model.save(tmp_path / "model.npz")
        for moved in (load(tmp_path / "model.npz"), model.to_numpy()):
            np.testing.assert_allclose(moved.predict(NEW), values, rtol=0.0, atol=1e-9 * np.abs(values).max())
    finally:
        model._begin_fit()


def assert_left_out_alike(found, known, home):
    assert found.certificate.holds
    # which of several machines has the worst refit is a matter of rounding
    kinds = [[row.formula for row in left_out.certificate.rows] for left_out in (found, known)]
    assert kinds[0] == kinds[1]
    assert home in type(found.residuals).__module__
    for name in ("outputs", "residuals"):
        assert_close(getattr(found, name), getattr(known, name), 1e-8)
    for name in ("gcv", "degrees_of_freedom", "mean_square"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), rtol=1e-8)
    assert found.misclassification == known.misclassification
    if known.misclassification is not None:
        np.testing.assert_array_equal(to_numpy(found.predictions), known.predictions)


@everywhere
@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.covering
def test_every_row_is_left_out(name, home):
    send, (model, *rest) = sender(home), FITS[name]
    known = clone(model).fit(X, *rest).leave_one_out()
    assert_left_out_alike(clone(model).fit(send(X), *(send(part) for part in rest)).leave_one_out(), known, home)


@everywhere
@pytest.mark.parametrize("name", SPARSE_LEFT_OUT)
@pytest.mark.covering
def test_every_row_is_left_out_of_a_sparse_machine(name, home, monkeypatch):
    monkeypatch.setattr("substrate.arrays._BLOCK_ENTRIES", 12 * 35)
    send, (model, target) = sender(home), FITS[name]
    here, there = clone(model).fit(X, target), clone(model).fit(send(X), send(target))
    assert_left_out_alike(there.leave_one_out(send(X), send(target)), here.leave_one_out(X, target), home)
    assert there.certify(send(X), send(target)).holds
    there.support_values_ = 1.001 * there.support_values_
    assert not there.certify(send(X), send(target)).holds


@everywhere
def test_a_search_chooses_what_numpy_chooses(home):
    send = sender(home)
    for name in ("reduced, leave-one-out", "reduced, gcv", "reduced, folds", "reduced, classes, folds"):
        model, target = FITS[name]
        here, there = clone(model).fit(X, target), clone(model).fit(send(X), send(target))
        assert there.gamma_ == pytest.approx(here.gamma_, rel=1e-4)
        assert there.criterion_ == pytest.approx(here.criterion_, rel=1e-8)
        assert there.criterion_lower_bound_ == pytest.approx(here.criterion_lower_bound_, rel=1e-3)


def test_rows_are_not_moved_in_silence():
    send = sender("array_api_strict")
    here, there = LSSVMRegressor(RBF(1.5)).fit(X, y), LSSVMRegressor(RBF(1.5)).fit(send(X), send(y))
    with pytest.raises(DataError, match=r"fitted to arrays of numpy, X is array_api_strict"):
        here.predict(send(NEW))
    with pytest.raises(DataError, match=r"X is numpy; move X to them \(model\.to_numpy\(\)"):
        there.predict(NEW)
    with pytest.raises(ValueError, match="X has 2 features, but LSSVMRegressor is expecting 3"):
        there.predict(send(NEW[:, :2]))
    with pytest.raises(DataError, match="y is numpy"):
        LSSVMRegressor().fit(send(X), y)


def test_every_estimator_works_on_a_device_or_says_what_to_do():
    send, there = sender("array_api_strict"), set()
    for name in problems.ESTIMATORS:
        model = getattr(problems, name)()
        if model._on_devices:
            there.add(name)
            continue
        with pytest.raises(DataError, match=r"works on numpy arrays; .*X\.cpu\(\)\.numpy\(\)"):
            model.fit(send(X), send(LABELS))
    assert there == {type(model).__name__ for model, *_ in FITS.values()}


def test_what_a_device_does_not_do_is_named():
    send = sender("array_api_strict")
    for choice in ({"cv": 5}, {"cv": "blocks", "reach": 1}):
        with pytest.raises(DeclarationError, match="cv='loo' or cv='gcv'"):
            LSSVMRegressorCV(**choice).fit(send(X), send(y))
    with pytest.raises(DataError, match="precomputed"):
        LSSVMRegressor("precomputed", basis="feature_vectors").fit(send(X @ X.T), send(y))
    with pytest.raises(DataError, match="must not be negative"):
        LSSVMRegressor().fit(send(X), send(y), send(-WEIGHTS))
    with pytest.raises(ValueError, match="a minimum of 2 is required"):
        LSSVMRegressor().fit(send(X[:1]), send(y[:1]))


def test_passes_and_devices_do_not_mix(tmp_path):
    send = sender("array_api_strict")
    with pytest.raises(DataError, match=r"the row blocks, rows from 0: the rows are array_api_strict.*each block"):
        LSSVMRegressor(RBF(1.5), **SPARSE).fit([(send(X), send(y))])
    with pytest.raises(DataError, match="the targets are array_api_strict"):
        LSSVMRegressor(RBF(1.5), **SPARSE).fit([(X, send(y))])
    with pytest.raises(DataError, match=r"basis is array_api_strict on .*, the rows are numpy; move one of them"):
        LSSVMRegressor(RBF(1.5), basis=send(NEW)).fit(X, y)
    numbered = LSSVMRegressor(RBF(1.5), basis=send(np.arange(9))).fit(X, y)
    assert_array_equal(numbered.basis_indices_, np.arange(9))
    with pytest.raises(ValueError, match="requires y to be passed"):
        LSSVMRegressor(RBF(1.5), basis="feature_vectors").fit(send(X))
    model = LSSVMRegressor(RBF(1.5), **SPARSE).fit(send(X), send(y))
    for refused in (
        lambda: model.predict([NEW]),
        lambda: model.certify([(X, y)]),
        lambda: model.leave_one_out([(X, y)]),
    ):
        with pytest.raises(DataError, match=r"read in passes are numpy's; model\.to_numpy\(\)"):
            refused()
    with pytest.raises(DataError, match="X is numpy"):
        model.certify(X, y)
