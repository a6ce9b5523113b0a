"""Probabilities of every classifier: from rows that a machine has not seen, and in agreement with its decisions."""

import pickle

import numpy as np
import pytest
from every_model import is_additive
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import cross_val_predict

import problems
from problems import LSSVMClassifier, load
from substrate.codings import CODINGS
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear

CLASSIFIERS = [getattr(problems, name) for name in sorted(problems.ESTIMATORS) if "Classifier" in name]
CLOSED = ("LSSVMClassifier",)


def blobs(n_classes=2, n=30, seed=0):
    X, y = make_blobs(n, centers=n_classes, cluster_std=4.0, random_state=seed)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def made(estimator, **parameters):
    return estimator(Linear() if is_additive(estimator) else RBF(1.0), **parameters)


def outputs_without(model, X, y, row, weights=None):
    """The decision value of a row in the machine refitted without it and without its equals."""
    rest = ~((X[row] == X).all(axis=1) & (y == y[row]))
    weighed = {} if weights is None else {"sample_weight": weights[rest]}
    return clone(model).fit(X[rest], y[rest], **weighed).decision_function(X[[row]])[0]


# ---- left-out decision values ---------------------------------------------------------------------


@pytest.mark.parametrize("coding", CODINGS)
def test_scores_are_those_of_machines_refitted_without_a_row(coding):
    X, y = blobs(4, 16)
    model = LSSVMClassifier(RBF(1.0), 3.0, coding=coding).fit(X, y)
    known = model.calibration_scores_
    assert known.source == "left out"
    assert_array_equal(known.classes, y)
    assert_allclose(known.scores, [outputs_without(model, X, y, i) for i in range(16)], atol=1e-10)


def test_equal_rows_are_left_out_together_with_their_weights():
    X, y = blobs(2, 9)
    X, y = np.concatenate([X, X[:5], X[:2]]), np.concatenate([y, y[:5], 1 - y[:2]])
    weights = np.linspace(0.5, 2.0, y.size)
    model = LSSVMClassifier(RBF(1.0), 3.0).fit(X, y, weights)
    expected = [outputs_without(model, X, y, i, weights) for i in range(y.size)]
    assert_allclose(model.calibration_scores_.scores, expected, atol=1e-10)
    assert_allclose(model.calibration_scores_.weights, weights, rtol=1e-12)
    sparse = LSSVMClassifier(RBF(1.0), 3.0).fit(csr_matrix(X), y, weights)
    assert_allclose(sparse.calibration_scores_.scores, expected, atol=1e-10)


def test_scores_of_a_reduced_machine_are_those_of_refits_on_its_basis():
    X, y = blobs(3, 30)
    X, y = np.concatenate([X, X[:3]]), np.concatenate([y, y[:3]])
    model = LSSVMClassifier(RBF(1.0), 3.0, basis=8).fit(X, y)
    again = LSSVMClassifier(RBF(1.0), 3.0, basis=model.support_vectors_)
    expected = [outputs_without(again, X, y, i) for i in range(0, 33, 8)]
    assert_allclose(model.calibration_scores_.scores[::8], expected, atol=1e-8)


def test_folds_are_those_of_machines_fitted_to_the_other_rows():
    X, y = blobs(3, 30)
    model = problems.IPLSSVMClassifier(RBF(1.0)).fit(X, y)
    known, folds = model.calibration_scores_, np.zeros(30)
    for label in range(3):  # the rows of each class in turn, in the order of their bytes
        rows = sorted(np.flatnonzero(y == label), key=lambda i: X[i].tobytes())
        folds[rows] = np.arange(len(rows)) % 5
    assert known.source == "folds"
    splits = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(5)]
    expected = cross_val_predict(clone(model), X, y, cv=splits, method="decision_function")
    assert_allclose(known.scores, expected, atol=1e-12)


# ---- laws of all classifiers ------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_probabilities_agree_with_the_decisions_and_survive_a_file(estimator, n_classes, tmp_path):
    X, y = blobs(n_classes)
    names = np.array(["b", "a", "c"])[y]
    model = made(estimator).fit(X, names)
    for calibration in ("sigmoid", "isotonic"):
        model.set_params(calibration=calibration)
        p = model.predict_proba(X)
        assert p.shape == (y.size, n_classes)
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    assert model.predict_set(X).shape == p.shape
    closed = estimator.__name__.removesuffix("CV") in CLOSED
    assert model.calibration_scores_.source == ("left out" if closed else "folds")
    model.save(tmp_path / "m.npz")
    for same in (load(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(same.predict_proba(X), p)
        assert same.calibration_scores_ == model.calibration_scores_


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_two_classes_have_a_monotone_map_that_crosses_one_half_at_zero(calibration):
    X, y = blobs(2, 60)
    model = LSSVMClassifier(RBF(1.0), calibration=calibration).fit(X, y)
    new = np.random.default_rng(0).standard_normal((200, 2))
    f, p = model.decision_function(new), model.predict_proba(new)[:, 1]
    assert (np.diff(p[np.argsort(f)]) >= -1e-12).all()
    assert (p[f > 0.0] > 0.5).all()
    assert (p[f <= 0.0] <= 0.5).all()


# ---- without rows, other rows, no probabilities ------------------------------------------------------


def test_a_loaded_model_says_which_rows_it_needs_and_takes_them(tmp_path):
    X, y = blobs(3)
    model = LSSVMClassifier(RBF(1.0), basis=6).fit(X, y)
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    with pytest.raises(DataError, match=r"does not hold its training rows.*rows=\(X, y\)"):
        loaded.predict_proba(X)
    with pytest.raises(DataError, match="these are not the rows of the fit"):
        loaded.predict_proba(X, rows=(2.0 * X, y))
    with pytest.raises(DataError, match="rows must be a pair"):
        loaded.predict_proba(X, rows=X)
    assert_allclose(loaded.predict_proba(X, rows=(X, y)), model.predict_proba(X), rtol=1e-9)
    assert_allclose(loaded.predict_proba(X), model.predict_proba(X), rtol=1e-9, err_msg="rows are given once")
    dense = LSSVMClassifier(RBF(1.0)).fit(X, y)
    dense.save(tmp_path / "d.npz")
    assert_allclose(load(tmp_path / "d.npz").predict_proba(X), dense.predict_proba(X), rtol=1e-12)


def test_a_model_in_passes_is_calibrated_in_a_pass():
    X, y = blobs(2, 60)
    streamed = LSSVMClassifier(RBF(1.0), basis=X[:8]).fit([(X[:25], y[:25]), (X[25:], y[25:])])
    held = LSSVMClassifier(RBF(1.0), basis=X[:8]).fit(X, y)
    assert_allclose(streamed.predict_proba(X), held.predict_proba(X), atol=1e-9)


def test_rows_that_the_model_has_not_seen_calibrate_it():
    X, y = blobs(3, 90)
    model = LSSVMClassifier(RBF(1.0)).fit(X[:40], y[:40])
    left_out = model.predict_proba(X)
    assert model.calibrate(X[40:], y[40:]) is model
    assert model.calibration_scores_.source == "split"
    assert_allclose(model.calibration_scores_.scores, model.decision_function(X[40:]))
    assert not np.allclose(model.predict_proba(X), left_out)
    assert model.set_guarantee(0.8).holds
    model.fit(X[:40], y[:40])
    assert model.calibration_scores_.source == "left out", "a fit forgets the calibration of the one before"
    with pytest.raises(DataError, match="y has classes"):
        model.calibrate(X[:2], [0, 9])
    with pytest.raises(DataError, match="y must have one label per row of X"):
        model.calibrate(X[:3], [0, 1])


def test_no_calibration_means_no_probabilities():
    X, y = blobs(2)
    model = LSSVMClassifier(RBF(1.0), calibration=None).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(DeclarationError, match="calibration must be one of sigmoid, isotonic, received None"):
        model.predict_set(X)
    with pytest.raises(DeclarationError, match="calibration must be one of"):
        LSSVMClassifier(calibration="platt").fit(X, y)
