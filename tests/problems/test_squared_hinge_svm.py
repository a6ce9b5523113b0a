"""The squared-hinge machine: page and estimator agree, rows are left out exactly; Fisher's discriminant beside it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs

from problems import LSSVMClassifier, SquaredHingeClassifier, load, squared_hinge_svm
from problems.estimators.full import squared_hinge
from substrate.datasets import ripley
from substrate.errors import DataError
from substrate.kernels import RBF, Linear
from substrate.penalized.squared_hinge import row_exchange

KERNEL, GAMMA = RBF(0.5), 30.0
X, LABELS = ripley()
X, LABELS = X[::4], LABELS[::4]
Y = np.where(LABELS.max() == LABELS, 1.0, -1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_page_and_estimator_agree(weighted):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, Y.size) if weighted else None
    declared = squared_hinge_svm.declare(KERNEL(X), Y, GAMMA, weights).solve()
    closed = squared_hinge_svm.closed_form(KERNEL(X), Y, GAMMA, weights)
    assert_allclose(declared.support_values, closed["support_values"], atol=1e-4 * GAMMA)
    assert_allclose(declared.bias, closed["bias"], atol=1e-4)
    pulls = GAMMA * (np.ones(Y.size) if weights is None else weights)
    assert_allclose(closed["support_values"], pulls * np.maximum(closed["errors"], 0.0), atol=1e-8)
    model = SquaredHingeClassifier(KERNEL, GAMMA).fit(X, LABELS, weights)
    (support,) = np.nonzero(closed["support_values"])
    assert_array_equal(model.support_, support)
    assert_allclose(model.support_values_, closed["support_values"][support], rtol=1e-9)
    assert_allclose(model.decision_function(X), Y * (1.0 - closed["errors"]), atol=1e-9)
    assert model.certificate_.holds
    assert model.certify(X, LABELS, weights).holds
    assert model.n_support_ == support.size < Y.size


def test_a_matrix_that_is_not_definite_has_a_certificate_that_fails():
    K = KERNEL(X) - 0.5 * np.eye(Y.size)
    with pytest.warns(UserWarning, match=r"semi-definite|does not hold") as told:
        model = SquaredHingeClassifier("precomputed", 1e3).fit(K, LABELS)
    assert any("semi-definite" in str(one.message) for one in told)
    assert np.isfinite(model.support_values_).all()
    assert not model.certificate_.holds


def outputs_without(model, X, y, weights=None):
    rows, outputs = np.arange(len(y)), []
    for i in rows:
        kept = {} if weights is None else {"sample_weight": weights[rows != i]}
        outputs.append(clone(model).fit(X[rows != i], y[rows != i], **kept).decision_function(X[i : i + 1])[0])
    return np.array(outputs)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 30.0])
def test_left_out_decision_values_are_those_of_refits(gamma, weighted):
    """:place [Cawley2004]_ section 4: leave-one-out of the 2-norm SVM, while its support holds"""
    weights = np.random.default_rng(1).uniform(0.5, 2.0, Y.size) if weighted else None
    model = SquaredHingeClassifier(KERNEL, gamma).fit(X, LABELS, weights)
    left_out = model.leave_one_out(X, LABELS, weights)
    expected = outputs_without(model, X, LABELS, weights)
    assert_allclose(left_out.outputs, expected, atol=1e-8)
    assert_allclose(left_out.residuals, Y - expected, atol=1e-8)
    assert left_out.misclassification == np.mean((expected > 0.0) != (Y > 0.0))
    assert left_out.certificate.holds
    others = np.setdiff1d(np.arange(Y.size), model.support_)
    assert_allclose(left_out.outputs[others], model.decision_function(X[others]), atol=1e-12)
    record = dict(left_out.certificate.record)
    refitted = int(record["exchanged rows"].split(",")[0].split()[1])
    assert record["closed form"].startswith(f"for {Y.size - refitted} of {Y.size}")
    if gamma == 30.0:
        assert 0 < refitted < Y.size // 2


@pytest.mark.parametrize("gamma", [1e-3, 300.0, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_exchanged_to_the_machines_that_refits_find(gamma, weighted, monkeypatch):
    """With rows that occur twice, with both labels, and weights of six decades; no more than the checks are fitted."""
    some = np.random.default_rng(2).permutation(Y.size)[:40]
    A, labels = np.concatenate([X[some], X[some[:8]]]), np.concatenate([LABELS[some], LABELS[some[:4]]])
    labels = np.concatenate([labels, 1 - LABELS[some[4:8]]])
    weights = 10.0 ** np.random.default_rng(3).uniform(-3.0, 3.0, labels.size) if weighted else None
    model = SquaredHingeClassifier(KERNEL, gamma, calibration=None).fit(A, labels, weights)
    fits = []

    def output_without(*arguments):
        fits.append(arguments[-1])
        return fit_without(*arguments)

    fit_without = squared_hinge._output_without
    monkeypatch.setattr(squared_hinge, "_output_without", output_without)
    left_out = model.leave_one_out(A, labels, weights)
    assert left_out.certificate.holds
    assert len(fits) <= 2
    monkeypatch.setattr(row_exchange, "MOST_EXCHANGES", 0)  # none settles: every row is fitted again
    fitted_again = model.leave_one_out(A, labels, weights)
    refitted = int(dict(fitted_again.certificate.record)["exchanged rows"].split(",")[0].split()[1])
    assert len(fits) >= refitted
    assert (refitted > 0) == (gamma > 1.0)
    (check,) = (row for row in left_out.certificate.rows if row.name.startswith("refit"))
    assert_allclose(left_out.outputs, fitted_again.outputs, atol=check.tolerance * check.scale)


def test_a_wrong_exchange_fails_the_certificate(monkeypatch):
    model = SquaredHingeClassifier(KERNEL, GAMMA, calibration=None).fit(X, LABELS)
    exchange = row_exchange.RowExchange.output_without
    monkeypatch.setattr(row_exchange.RowExchange, "output_without", lambda self, row: exchange(self, row) + 1e-3)
    assert not model.leave_one_out(X, LABELS).certificate.holds


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
def test_many_classes(coding, tmp_path):
    A, k = make_blobs(45, centers=3, cluster_std=2.5, random_state=0)
    model = SquaredHingeClassifier(RBF(3.0), 5.0, coding=coding).fit(A, k)
    assert model.certificate_.holds
    left_out = model.leave_one_out(A, k)
    expected = outputs_without(model, A, k)
    from problems.estimators.shared.coded import scores_of

    assert_allclose(scores_of(left_out.outputs, coding, model.code_book_), expected, atol=1e-7)
    assert_array_equal(left_out.predictions, model.classes_[expected.argmax(axis=1)])
    model.save(tmp_path / "m.npz")
    loaded = load(tmp_path / "m.npz")
    assert_array_equal(loaded.decision_function(A), model.decision_function(A))
    assert loaded.certify(A, k).holds


def test_weights_of_classes_are_weights_of_rows_and_zeros_are_absent():
    by_class = SquaredHingeClassifier(KERNEL, 3.0, class_weight={LABELS.max(): 4.0, LABELS.min(): 1.0}).fit(X, LABELS)
    by_row = SquaredHingeClassifier(KERNEL, 3.0).fit(X, LABELS, np.where(Y > 0.0, 4.0, 1.0))
    assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    assert by_class.certify(X, LABELS).holds
    some = (np.arange(Y.size) % 3 > 0).astype(float)
    absent = SquaredHingeClassifier(KERNEL, 3.0).fit(X, LABELS, some)
    kept = SquaredHingeClassifier(KERNEL, 3.0).fit(X[some > 0.0], LABELS[some > 0.0])
    assert_allclose(absent.decision_function(X), kept.decision_function(X), atol=1e-12)
    left_out = kept.leave_one_out(X[some > 0.0], LABELS[some > 0.0])
    assert_allclose(absent.leave_one_out(X, LABELS, some).outputs, left_out.outputs)
    with pytest.raises(DataError, match="weight zero here"):
        by_row.certify(X, LABELS, some)


def test_leaving_out_needs_the_rows():
    model = SquaredHingeClassifier(KERNEL).fit(X, LABELS)
    with pytest.raises(DataError, match="keeps the rows of its support alone"):
        model.leave_one_out()


@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_the_ls_svm_is_the_kernel_fisher_discriminant(gamma):
    """:place [Cawley2004]_ section 4: the kernel Fisher discriminant, whose direction is that of the LS-SVM"""
    model = LSSVMClassifier(Linear(), gamma).fit(X, LABELS)
    w = X.T @ (Y - model.decision_function(X))  # in proportion to sum alpha y x
    means = [X[side == Y].mean(axis=0) for side in (1.0, -1.0)]
    within = sum((X[side == Y] - mean).T @ (X[side == Y] - mean) for side, mean in zip((1.0, -1.0), means, strict=True))
    fisher = np.linalg.solve(within + np.eye(2) / gamma, means[0] - means[1])
    assert_allclose(w / np.linalg.norm(w), fisher / np.linalg.norm(fisher), atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_machine_without_support_is_checked_and_fails(n_classes):
    points, labels = X[:30], np.arange(30) % n_classes
    model = SquaredHingeClassifier(KERNEL, GAMMA).fit(points, labels)
    model.support_, model.support_vectors_ = model.support_[:0], model.support_vectors_[:0]
    model.support_values_, model.support_codes_ = model.support_values_[:0], model.support_codes_[:0]
    assert not model.certify(points, labels).holds
