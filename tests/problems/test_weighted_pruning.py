"""Pruned machines with weights of rows: weighted LS-SVMs on the way down, and rows of weight zero were never there."""

import naive_pruning as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from variants import robust_machine

from problems import (
    LSSVMClassifier,
    LSSVMRegressor,
    PrunedLSSVMClassifier,
    PrunedLSSVMRegressor,
)
from substrate.datasets import sinc_outliers
from substrate.errors import DataError
from substrate.kernels import RBF

KERNEL, GAMMA = RBF(1.0), 10.0
X, Y = sinc_outliers(40, random_state=0)
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, [0.0, 0.3])]
V = np.random.default_rng(0).uniform(0.2, 4.0, size=Y.size)
V[[3, 17, 20]] = 0.0
KEPT = np.flatnonzero(V)


def pruned(**parameters):
    return PrunedLSSVMRegressor(KERNEL, GAMMA, **parameters)


def test_every_machine_on_the_way_is_the_weighted_one_refitted():
    model = pruned(step=3, n_support=2).fit(X, Y, sample_weight=V)
    expected = naive.prune(KERNEL(X[KEPT]), Y[KEPT], GAMMA, V[KEPT], count=3)
    for step, (rows, alpha, _) in zip(model.pruning_path_, expected, strict=True):
        assert_array_equal(step.rows, KEPT[rows])
        assert_allclose(step.support_values, alpha, atol=1e-9)
    assert model.certificate_.holds
    assert_allclose(model.ridge_, 1.0 / (GAMMA * V[model.support_]))


@pytest.mark.parametrize("weighting", ["hampel", "huber"])
def test_robust_weights_are_those_of_the_weighted_rows_and_multiply_them(weighting):
    model = pruned(n_support=25, robust=weighting).fit(X, Y, sample_weight=V)
    whole = robust_machine(KERNEL, gamma=GAMMA, weighting=weighting).fit(X, Y, sample_weight=V)
    assert_allclose(model.pruning_path_[0].support_values, whole.support_values_, atol=1e-9)
    rows = model.support_
    last = LSSVMRegressor(KERNEL, GAMMA).fit(X[rows], Y[rows], sample_weight=V[rows] * model.weights_)
    assert_allclose(model.predict(X), last.predict(X), atol=1e-9)
    assert model.certify(X, Y, V).holds


def test_the_index_is_a_weighted_mean_over_the_training_rows_and_a_plain_one_over_others():
    v, whole = V[KEPT], LSSVMRegressor(KERNEL, GAMMA).fit(X, Y, sample_weight=V)
    by = {
        cv: pruned(cv=cv, n_support=30).fit(X, Y, sample_weight=V).pruning_path_[0].score for cv in ("training", "loo")
    }
    assert_allclose(by["training"], np.average((Y[KEPT] - whole.predict(X[KEPT])) ** 2, weights=v), rtol=1e-9)
    assert_allclose(by["loo"], np.average(whole.leave_one_out().residuals ** 2, weights=v), rtol=1e-9)
    apart = pruned(cv=None, n_support=30).fit(X, Y, X[:9], Y[:9], V).pruning_path_[0].score
    assert_allclose(apart, np.mean((Y[:9] - whole.predict(X[:9])) ** 2), rtol=1e-9)


@pytest.mark.parametrize(("kind", "y"), [(PrunedLSSVMRegressor, Y), (PrunedLSSVMClassifier, LABELS)])
@pytest.mark.parametrize("pairwise", [False, True])
def test_rows_of_weight_zero_were_never_there(kind, y, pairwise):
    K = KERNEL(X)
    given, left = (K, K[np.ix_(KEPT, KEPT)]) if pairwise else (X, X[KEPT])
    kernel = "precomputed" if pairwise else KERNEL
    model = kind(kernel, GAMMA, n_support=12, cv="loo").fit(given, y, sample_weight=V)
    alone = kind(kernel, GAMMA, n_support=12, cv="loo").fit(left, y[KEPT], sample_weight=V[KEPT])
    assert_array_equal(model.support_, KEPT[alone.support_])
    assert_array_equal(model.support_values_, alone.support_values_)
    for step, same in zip(model.pruning_path_, alone.pruning_path_, strict=True):
        assert_array_equal(step.rows, KEPT[same.rows])
        assert step.score == same.score
    assert model.certificate_ == alone.certificate_
    assert model.certify(given, y, V).holds


@pytest.mark.parametrize(("kind", "y"), [(PrunedLSSVMRegressor, Y), (PrunedLSSVMClassifier, LABELS)])
def test_checks_take_the_weights_of_the_fit(kind, y):
    model = kind(KERNEL, GAMMA, n_support=12).fit(X, y, sample_weight=V)
    assert model.certify(X, y, V).holds
    row = model.support_[0]
    assert not model.certify(X, y, np.where(np.arange(Y.size) == row, 1.1, 1.0) * V).holds
    with pytest.raises(DataError, match=f"the path began with {KEPT.size} rows, these are {Y.size}"):
        model.certify(X, y)
    with pytest.raises(DataError, match="row 2 was fitted and has weight zero here; pass the sample_weight of the fit"):
        model.certify(X, y, np.roll(V, -1))
    plain = LSSVMRegressor if kind is PrunedLSSVMRegressor else LSSVMClassifier
    left = model.leave_one_out()
    light = V * np.isin(np.arange(Y.size), model.support_[1:])
    refit = plain(KERNEL, gamma=GAMMA).fit(X, y, sample_weight=light)
    assert_allclose(left.outputs[0], refit._expansion(X[[row]])[0], atol=1e-9)


def test_the_weighted_machine_is_proved():
    pytest.importorskip("flint", reason="a proof needs python-flint")
    model = pruned(n_support=6).fit(X, Y, sample_weight=V)
    assert model.prove(X, Y, V).proved
    assert not model.prove(X, Y, 1.01 * V).proved


def test_a_class_must_have_rows_of_positive_weight():
    with pytest.raises(ValueError, match="class"):
        PrunedLSSVMClassifier(KERNEL).fit(X, LABELS, sample_weight=(LABELS == "a").astype(float))
