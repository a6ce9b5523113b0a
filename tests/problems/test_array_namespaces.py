"""Estimators fitted to arrays that are not numpy's: the same machines, where the arrays are."""

import warnings

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from numpy.testing import assert_array_equal
from sklearn.base import clone
from variants import symmetric_machine

import problems
from problems import LSSVMClassifier, LSSVMClassifierCV, LSSVMRegressor, LSSVMRegressorCV, load
from substrate.arrays import is_device_array, to_numpy
from substrate.errors import (
    DataError,
    DeclarationError,
    DegenerateKernelWarning,
    IndefiniteKernelWarning,
    SolverError,
)
from substrate.kernels import RBF, Componentwise
from substrate.reduced import Basis

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
@pytest.mark.some_cases(8)
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


def test_a_reduced_fit_takes_no_matrix_of_its_rows_to_the_host(monkeypatch):
    """Rows of the sample, vectors, and the matrix of its basis."""
    torch, sizes = pytest.importorskip("torch"), []
    ordinary = torch.Tensor.cpu

    def counted(self):
        sizes.append(self.numel())
        return ordinary(self)

    monkeypatch.setattr(torch.Tensor, "cpu", counted)
    model = LSSVMRegressor(RBF(0.7), 2.0, basis=Basis(30, "random", random_state=0))
    model.fit(torch.from_numpy(X), torch.from_numpy(y))
    assert model.certificate_.holds
    assert 30 <= max(sizes) <= 30 * 30 < 30 * X.shape[0]


@everywhere
def test_a_certificate_is_checked_again(home):
    send = sender(home)
    for model, target in ((LSSVMRegressor(RBF(1.5)), Y), (LSSVMClassifier(RBF(1.5), coding="ecoc"), LABELS)):
        model.fit(send(X), send(target))
        assert model.certify(send(X), send(target)).holds
        model.support_values_ = 1.001 * model.support_values_
        assert not model.certify(send(X), send(target)).holds


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
@pytest.mark.some_cases(6)
def test_every_row_is_left_out(name, home):
    send, (model, *rest) = sender(home), FITS[name]
    known = clone(model).fit(X, *rest).leave_one_out()
    assert_left_out_alike(clone(model).fit(send(X), *(send(part) for part in rest)).leave_one_out(), known, home)


@everywhere
@pytest.mark.parametrize("name", SPARSE_LEFT_OUT)
@pytest.mark.some_cases(4)
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


@everywhere
def test_a_machine_is_scored_where_it_is(home):
    send = sender(home)
    for name in ("dense", "median width, two outputs", "classes", "reduced", "reduced, classes"):
        model, target = FITS[name]
        known = clone(model).fit(X, target).score(X, target, WEIGHTS)
        there = clone(model).fit(send(X), send(target))
        assert there.score(send(X), send(target), send(WEIGHTS)) == pytest.approx(known, rel=1e-9)
        with pytest.raises(DataError, match="y is numpy"):
            there.score(send(X), target)


@everywhere
def test_a_precomputed_matrix(home):
    send, K = sender(home), RBF(1.5)(X)
    model = LSSVMRegressor("precomputed", 2.0)
    values = model.fit(K, y, WEIGHTS).predict(K[:5])
    known = model.leave_one_out(K)
    assert_close(model.fit(send(K), send(y), send(WEIGHTS)).predict(send(K[:5])), values)
    assert_close(model.leave_one_out(send(K)).residuals, known.residuals, 1e-8)
    with pytest.raises(DataError, match="X is numpy"):
        model.leave_one_out(K)
    with pytest.raises(DataError, match=r"shape \(90, 90\), received \(90, 4\)"):
        model.leave_one_out(send(K[:, :4]))


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


@pytest.mark.parametrize(
    ("target", "message"),
    [(y, "whole numbers"), (LABELS[:5], "one label for each"), (LABELS > 0, "dtype"), (0 * LABELS, "two classes")],
)
def test_labels_on_a_device_are_checked(target, message):
    send = sender("array_api_strict")
    with pytest.raises(DataError, match=message):
        LSSVMClassifier().fit(send(X), send(target))


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
    with pytest.raises(DataError, match="at least two rows"):
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
    with pytest.raises(DataError, match="y is missing"):
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


@everywhere
@pytest.mark.parametrize(("sigma", "word"), [(1e-4, "the identity"), (1e7, "constant")])
def test_a_width_that_tells_no_rows_apart_is_warned_of(home, sigma, word):
    send = sender(home)
    for model in (LSSVMRegressor(RBF(sigma)), LSSVMRegressor(RBF(sigma), basis=Basis(5, random_state=0))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(send(X), send(y))
        (told,) = [one for one in caught if one.category is DegenerateKernelWarning]
        assert word in str(told.message)
        assert told.filename == __file__
        # on a constant kernel rounding tells the rows apart, and a reduced machine rests on it
        assert [row.name for row in model.certificate_.failures] in ([], ["accuracy"])


@everywhere
def test_a_matrix_without_a_factor_is_refused(home):
    """The matrix warns; the solution is not a number, and is not used."""
    send, K = sender(home), -np.eye(90)
    with pytest.warns(IndefiniteKernelWarning), pytest.raises(SolverError, match="not positive definite"):
        LSSVMRegressor("precomputed", 2.0).fit(send(K), send(y))
