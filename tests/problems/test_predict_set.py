"""Sets of labels: exact against explicit refits, what they guarantee, and the coverage over simulated rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs

from problems import LSSVMClassifier, LSSVMClassifierCV
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Precomputed
from substrate.uncertainty import label_sets
from substrate.uncertainty.influence import kernel_influence
from substrate.uncertainty.label_sets import enlarged_outputs
from substrate.uncertainty.levels import rank


def rows_of(n, n_classes, seed):
    X, y = make_blobs(n, centers=n_classes, cluster_std=4.0, random_state=seed)
    return X / 4.0, y


def refitted_set(model, X, y, x, coverage):
    """By explicit refits: n + 1 rows, every one of them left out in turn, for each label of the new one."""
    found = []
    for label in model.classes_:
        rows, labels = np.vstack([X, x]), np.append(y, label)
        strange = []
        for i in range(labels.size):
            rest = np.arange(labels.size) != i
            scores = clone(model).fit(rows[rest], labels[rest]).decision_function(rows[[i]])[0]
            if np.ndim(scores) == 0:
                strange.append(-scores if labels[i] == model.classes_[1] else scores)
            else:
                own = int(np.searchsorted(model.classes_, labels[i]))
                strange.append(np.delete(scores, own).max() - scores[own])
        found.append(np.sum(np.array(strange[:-1]) < strange[-1] - 1e-9) < rank(coverage, y.size))
    return found


@pytest.mark.parametrize(("n_classes", "coding"), [(2, "one_vs_rest"), (4, "minimum_output")])
def test_left_out_outputs_of_enlarged_machines_are_those_of_refits(n_classes, coding):
    X, y = rows_of(11, n_classes, 1)
    x, X, y = X[[10]], X[:10], y[:10]
    model = LSSVMClassifier(RBF(1.0), 2.0, coding=coding).fit(X, y)
    alpha, ridge, codes = model._model.to_columns()
    influence = kernel_influence(Gram.of(model.kernel_, X), np.ascontiguousarray(ridge[:, 0]), model._model.kernel_rows)
    ((outputs, c, S),) = model._calibration.blocks(influence, x, model.kernel_.diag(x))
    for label, code in zip(model.classes_, model.code_book_, strict=True):
        found = enlarged_outputs(alpha, codes, influence.diagonal, c, S, code - outputs)[0]
        rows, labels = np.vstack([X, x]), np.append(y, label)
        for i in range(0, 10, 3):
            rest = np.arange(11) != i
            again = clone(model).fit(rows[rest], labels[rest])
            assert_allclose(found[i], np.ravel(again._expansion(rows[[i]])), atol=1e-10)


@pytest.mark.parametrize(
    ("n_classes", "coding"),
    [
        (2, "one_vs_rest"),
        pytest.param(3, "one_vs_rest", marks=pytest.mark.slow),
        pytest.param(4, "minimum_output", marks=pytest.mark.slow),
        pytest.param(3, "ecoc", marks=pytest.mark.slow),
    ],
)
def test_exact_sets_are_those_of_explicit_refits(n_classes, coding):
    """Every row left out of every enlarged machine.

    :place [Vovk2005]_ conformal predictor: the labels of a set, exactly and without a refit
    """
    X, y = rows_of(9, n_classes, 1)
    model = LSSVMClassifier(RBF(1.0), 2.0, coding=coding).fit(X, y)
    new = rows_of(30, n_classes, 1)[0][9:11]
    for coverage in (0.5, 0.8):
        found = model.predict_set(new, coverage)
        assert found.dtype == bool
        assert found.shape == (2, n_classes)
        if coverage == 0.8:
            assert_array_equal(found, [refitted_set(model, X, y, x, coverage) for x in new])


def test_sets_grow_with_the_coverage_and_hold_all_labels_where_rows_are_few():
    X, y = rows_of(40, 3, 0)
    model = LSSVMClassifier(RBF(1.0)).fit(X, y)
    sizes = [model.predict_set(X, coverage).sum() for coverage in (0.3, 0.6, 0.9, 0.97, 0.999)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[3]
    assert model.predict_set(X, 0.98).all(), "ceil(0.98 * 41) = 41 rows would be needed"


def test_blocks_of_new_rows_do_not_matter(monkeypatch):
    X, y = rows_of(30, 3, 0)
    model = LSSVMClassifier(RBF(1.0)).fit(X, y)
    whole = model.predict_set(X, 0.7)
    monkeypatch.setattr(label_sets, "_CELLS", 1)
    assert_array_equal(model.predict_set(X, 0.7), whole)


def test_a_precomputed_kernel_takes_its_diagonal():
    X, y = rows_of(40, 2, 0)
    new, kernel = X[30:], RBF(1.0)
    model = LSSVMClassifier(Precomputed()).fit(kernel(X[:30]), y[:30])
    plain = LSSVMClassifier(kernel).fit(X[:30], y[:30])
    K = kernel(new, X[:30])
    assert_array_equal(model.predict_set(K, 0.8, diagonal=np.ones(10)), plain.predict_set(new, 0.8))
    model.predict_proba(K)
    assert_array_equal(model.predict_set(K, 0.8, diagonal=np.ones(10)), plain.predict_set(new, 0.8))
    with pytest.raises(DataError, match="give diagonal="):
        model.predict_set(K)
    with pytest.raises(DataError, match="one entry per row of X: expected 10"):
        model.predict_set(K, diagonal=np.ones(3))
    with pytest.raises(DataError, match="leave it out"):
        plain.predict_set(new, diagonal=np.ones(10))


@pytest.mark.parametrize("coverage", [0, 1, 0.0, 1.0, 2.0])
def test_coverage_zero_and_one_are_refused(coverage):
    X, y = rows_of(20, 2, 0)
    with pytest.raises(DeclarationError, match="coverage must be above 0 and below 1"):
        LSSVMClassifier(RBF(1.0)).fit(X, y).predict_set(X, coverage)


def test_the_guarantee_follows_from_how_the_machine_was_made():
    X, y = rows_of(40, 3, 0)
    fixed = LSSVMClassifier(RBF(1.0)).fit(X, y).set_guarantee(0.9)
    assert fixed.holds
    assert fixed.level == 0.9
    assert "covers at least 0.9 of new rows in finite samples" in str(fixed)
    chosen = LSSVMClassifierCV().fit(X, y).set_guarantee(0.9)
    assert not chosen.holds
    assert chosen.broken == ("gamma was chosen on these rows", "the width of the kernel is computed from these rows")
    weighed = LSSVMClassifier(RBF(1.0)).fit(X, y, np.arange(40) + 1.0).set_guarantee()
    assert "rows of unequal weight" in str(weighed)
    pairs = LSSVMClassifier(RBF(1.0), coding="one_vs_one").fit(X, y)
    assert pairs.set_guarantee().level is None
    assert pairs.predict_set(X).shape == (40, 3)
    sparse = LSSVMClassifier(RBF(1.0), basis=8).fit(X[:20], y[:20])
    assert "approximate: the strangeness of left-out rows" in str(sparse.set_guarantee())
    assert sparse.calibrate(X[20:], y[20:]).set_guarantee(0.8).holds


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "coverage"), [(2, 0.8), (2, 0.9), (3, 0.75)])
def test_coverage_over_simulated_rows(n_classes, coverage):
    """2000 new rows, 20 for each of 100 training sets: within four standard errors of sets, from below."""
    shares = []
    for seed in range(100):
        X, y = rows_of(59, n_classes, 3)
        rows = np.random.default_rng(seed).permutation(59)
        rng = np.random.default_rng(1000 + seed)
        X, y = X[rows] + rng.standard_normal((59, 2)), y[rows]
        model = LSSVMClassifier(RBF(1.5)).fit(X[:39], y[:39])
        held = model.predict_set(X[39:], coverage)
        shares.append(held[np.arange(20), y[39:]].mean())
    error = 4.0 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) >= coverage - error
    assert np.mean(shares) <= coverage + 1.0 / 40.0 + error
