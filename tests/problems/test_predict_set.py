"""Sets of labels: against explicit refits, what they guarantee, and the coverage over simulated rows."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs

from problems import LSSVMClassifier
from substrate.intervals.conformal import rank
from substrate.kernels import RBF


def rows_of(n, n_classes, seed):
    X, y = make_blobs(n, centers=n_classes, cluster_std=4.0, random_state=seed)
    return X / 4.0, y


def test_sets_are_those_of_explicit_refits():
    """Margins of rows in machines without them, against the margins of a new row with each label.

    :place [Vovk2005]_ conformal predictor: the labels of a set
    """
    X, y = rows_of(24, 3, 1)
    X, new, y = X[:20], X[20:], y[:20]
    model = LSSVMClassifier(RBF(1.0), 2.0).fit(X, y)

    def behind(scores, label):
        return np.delete(scores, label).max() - scores[label]

    rows = [np.delete(np.arange(20), i) for i in range(20)]
    own = [behind(clone(model).fit(X[some], y[some]).decision_function(X[[i]])[0], y[i]) for i, some in enumerate(rows)]
    scores = model.decision_function(new)
    wanted = [[np.sum(np.array(own) < behind(line, k)) < rank(0.8, 20) for k in range(3)] for line in scores]
    assert_array_equal(model.predict_set(new, 0.8), wanted)


def test_sets_grow_with_the_coverage_and_hold_all_labels_where_rows_are_few():
    X, y = rows_of(40, 3, 0)
    model = LSSVMClassifier(RBF(1.0)).fit(X, y)
    sizes = [model.predict_set(X, coverage).sum() for coverage in (0.3, 0.6, 0.9, 0.97, 0.999)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[3]
    assert model.predict_set(X, 0.98).all(), "ceil(0.98 * 41) = 41 rows would be needed"


def test_the_guarantee_follows_from_how_the_machine_was_made():
    X, y = rows_of(40, 3, 0)
    guarantee = LSSVMClassifier(RBF(1.0)).fit(X, y).set_guarantee(0.9)
    assert guarantee.level is None
    assert "approximate: conformity to left-out rows covers 0.9 of new rows" in str(guarantee)
    sparse = LSSVMClassifier(RBF(1.0), basis=8).fit(X[:20], y[:20])
    assert "approximate: conformity to left-out rows" in str(sparse.set_guarantee())
    exact = sparse.calibrate(X[20:], y[20:]).set_guarantee(0.8)
    assert exact.holds
    assert "covers at least 0.8 of new rows in finite samples" in str(exact)


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
