"""The classifier: labels of any kind, codings against machines fitted one by one, weights, certificates, peers."""

import os

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.codings import CODINGS, code_book
from substrate.datasets import ripley
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear

KERNEL = RBF(1.2)
over_codings = pytest.mark.parametrize("coding", CODINGS)


def blobs(n_classes, n=None, seed=0):
    """Classes around a circle, overlapping, of unequal sizes."""
    rng = np.random.default_rng(seed)
    n = 9 * n_classes if n is None else n
    classes = np.r_[
        np.arange(3 * n_classes) % n_classes, rng.integers(n_classes, size=n - 3 * n_classes) ** 2 % n_classes
    ]
    rng.shuffle(classes)
    angles = 2.0 * np.pi * classes / n_classes
    return np.column_stack([np.cos(angles), np.sin(angles)]) * 1.5 + 0.6 * rng.normal(size=(n, 2)), classes


@pytest.fixture
def two():
    X, k = blobs(2, n=26)
    return X, k


@pytest.fixture
def four():
    return blobs(4)


X_NEW = np.random.default_rng(77).normal(size=(40, 2))


# ---- labels --------------------------------------------------------------------------------------

PAIRS = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "booleans": np.array([False, True]),
    "integers": np.array([5, 9]),
    "negative": np.array([-1, 1]),
    "unsigned": np.array([200, 201], dtype=np.uint8),
    "floats": np.array([0.0, 2.0]),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_classes_of_any_kind(two, kind):
    X, k = two
    classes = PAIRS[kind]
    model = LSSVMClassifier(KERNEL, gamma=2.0).fit(X, classes[k])
    assert_array_equal(model.classes_, classes)
    assert model.classes_.dtype == classes.dtype
    reference = LSSVMRegressor(KERNEL, gamma=2.0).fit(X, np.where(k == 1, 1.0, -1.0))
    assert_allclose(model.decision_function(X_NEW), reference.predict(X_NEW), atol=1e-12)
    assert_array_equal(model.predict(X_NEW), classes[(reference.predict(X_NEW) > 0.0).astype(int)])
    assert model.predict(X_NEW).dtype == classes.dtype
    assert model.certificate_.holds
    assert 0.7 < model.score(X, classes[k]) <= 1.0


def test_labels_in_lists_and_frames(two):
    X, k = two
    expected = LSSVMClassifier(KERNEL).fit(X, k).decision_function(X_NEW)
    names = np.array(["no", "yes"])[k]
    for labels in (
        names.tolist(),
        pd.Series(names),
        pd.Series(names, dtype="category"),
        pd.Series(names, dtype="string"),
    ):
        model = LSSVMClassifier(KERNEL).fit(X, labels)
        assert list(model.classes_) == ["no", "yes"]
        assert_array_equal(model.decision_function(X_NEW), expected)


@over_codings
def test_classes_are_not_numbered_by_the_data(four, coding):
    X, k = four
    names = np.array(["delta", "alpha", "charlie", "bravo"])
    model = LSSVMClassifier(KERNEL, coding=coding).fit(X, names[k])
    assert list(model.classes_) == ["alpha", "bravo", "charlie", "delta"]
    assert model.score(X, names[k]) > 0.6
    gaps = LSSVMClassifier(KERNEL, coding=coding).fit(X, np.array([-7, 0, 3, 1000])[k])
    plain = LSSVMClassifier(KERNEL, coding=coding).fit(X, k)
    assert_array_equal(gaps.predict(X_NEW), np.array([-7, 0, 3, 1000])[plain.predict(X_NEW)])


# ---- codings against machines fitted one by one --------------------------------------------------


def naive_outputs(X, k, book, gamma, weights, X_new):
    """One regressor a machine, on the rows that have a side in it."""
    outputs = np.empty((len(X_new), book.shape[1]))
    for column in range(book.shape[1]):
        rows = np.array([i for i in range(len(k)) if book[k[i], column] != 0.0])
        machine = LSSVMRegressor(KERNEL, gamma=gamma)
        machine.fit(X[rows], book[k[rows], column], sample_weight=weights[rows])
        outputs[:, column] = machine.predict(X_new)
    return outputs


def naive_scores(outputs, book, coding):
    if coding == "one_vs_rest":
        return outputs
    return np.array([[np.mean(f * code) for code in book] for f in outputs])


@pytest.mark.parametrize("n_classes", [3, 4, 5, 9])
@pytest.mark.parametrize("weighted", [False, True])
@over_codings
@pytest.mark.some_cases(16)
def test_several_classes_are_several_machines(coding, n_classes, weighted):
    X, k = blobs(n_classes)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(k)) if weighted else np.ones(len(k))
    model = LSSVMClassifier(KERNEL, gamma=5.0, coding=coding).fit(X, k, sample_weight=weights if weighted else None)
    book = code_book(coding, n_classes)
    assert_array_equal(model.code_book_, book)
    outputs = naive_outputs(X, k, book, 5.0, weights, X_NEW)
    scores = naive_scores(outputs, book, coding)
    found = model.decision_function(X_NEW)
    assert found.shape == (40, n_classes)
    assert_allclose(found, scores, atol=1e-9)
    assert_array_equal(model.predict(X_NEW), scores.argmax(axis=1))
    assert model.certificate_.holds
    assert model.certify(X, k, sample_weight=weights if weighted else None).holds
    # the machines themselves, from the attributes the documentation names
    expansion = KERNEL(X_NEW, X) @ (model.support_codes_ * model.support_values_) + model.bias_
    assert_allclose(expansion, outputs, atol=1e-9)


@pytest.fixture
def factored(monkeypatch):
    """The orders of the matrices factored."""
    orders, original = [], Gram.factorize

    def counted(self, ridge):
        orders.append(self.n)
        original(self, ridge)

    monkeypatch.setattr(Gram, "factorize", counted)
    return orders


@over_codings
def test_all_machines_share_one_factorisation(four, factored, coding):
    X, k = four
    LSSVMClassifier(KERNEL, coding=coding).fit(X, k)
    assert factored == [len(k)]


@over_codings
def test_two_classes_are_one_machine_whatever_the_coding(two, coding):
    X, k = two
    model = LSSVMClassifier(KERNEL, coding=coding).fit(X, k)
    assert_array_equal(model.decision_function(X_NEW), LSSVMClassifier(KERNEL).fit(X, k).decision_function(X_NEW))
    assert model.decision_function(X_NEW).shape == (40,)
    assert model.support_values_.shape == model.support_codes_.shape == (26,)
    assert isinstance(model.bias_, float)


# ---- signs ---------------------------------------------------------------------------------------


@over_codings
@pytest.mark.parametrize("n_classes", [2, 4])
def test_support_values_are_multipliers_of_the_margin(coding, n_classes):
    """alpha = gamma v e with e = 1 - y f on every machine's rows, and y'alpha = 0."""
    X, k = blobs(n_classes)
    weights = np.linspace(0.5, 2.0, len(k))
    model = LSSVMClassifier(KERNEL, gamma=3.0, coding=coding).fit(X, k, sample_weight=weights)
    codes = model.support_codes_.reshape(len(k), -1)
    alpha = model.support_values_.reshape(len(k), -1)
    assert_array_equal(codes, model.code_book_[k])
    f = KERNEL(X) @ (codes * alpha) + model.bias_
    e = np.where(codes != 0.0, 1.0 - codes * f, 0.0)
    assert_allclose(alpha, 3.0 * weights[:, None] * e, atol=1e-9)
    assert_allclose((codes * alpha).sum(axis=0), 0.0, atol=1e-10)
    wrong_side = (codes * f < 0.0) & (codes != 0.0)
    assert (alpha[wrong_side] > 3.0 * weights.min()).all()


def test_the_class_is_the_sign_of_the_expansion_on_the_labels():
    """:equation [Carvalho2006]_ (1), (5): decision value and class against the sum written out."""
    X, k = blobs(2)
    points = np.random.default_rng(8).normal(scale=2.0, size=(50, X.shape[1]))
    model = LSSVMClassifier(KERNEL, gamma=3.0).fit(X, k)
    y = np.where(k == model.classes_[1], 1.0, -1.0)
    f = [
        sum(a * s * KERNEL(x[None], z[None])[0, 0] for a, s, x in zip(model.support_values_, y, X, strict=True))
        + model.bias_
        for z in points
    ]
    assert_allclose(model.decision_function(points), f, atol=1e-10)
    assert set(np.sign(f)) == {-1.0, 1.0}
    assert_array_equal(model.predict(points), np.where(np.sign(f) > 0.0, model.classes_[1], model.classes_[0]))


# ---- weights -------------------------------------------------------------------------------------


def test_class_weights_three_ways(four):
    X, k = four
    counts = np.bincount(k)
    mapping = {c: len(k) / (4.0 * counts[c]) for c in range(4)}
    assert counts.min() < counts.max()
    balanced = LSSVMClassifier(KERNEL, class_weight="balanced").fit(X, k)
    explicit = LSSVMClassifier(KERNEL, class_weight=mapping).fit(X, k)
    weighted = LSSVMClassifier(KERNEL).fit(X, k, sample_weight=[mapping[c] for c in k])
    plain = LSSVMClassifier(KERNEL).fit(X, k)
    for other in (explicit, weighted):
        assert_allclose(other.decision_function(X_NEW), balanced.decision_function(X_NEW), atol=1e-12)
    assert np.abs(plain.decision_function(X_NEW) - balanced.decision_function(X_NEW)).max() > 1e-3
    assert balanced.certify(X, k).holds
    assert not plain.certify(X, k, sample_weight=[mapping[c] for c in k]).holds
    assert_allclose([balanced.bias_.sum(), 0.0], [weighted.bias_.sum(), 0.0], atol=1e-12)


@over_codings
def test_class_weights_multiply_weights_of_rows_and_zero_rows_are_not_there(four, coding):
    X, k = four
    names = np.array(["a", "b", "c", "d"])[k]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(k))
    weights[::4] = 0.0
    kept = weights > 0.0
    mapping = {"a": 2.0, "b": 0.5, "c": 1.0, "d": 3.0}
    model = LSSVMClassifier(KERNEL, coding=coding, class_weight=mapping)
    model.fit(X, names, sample_weight=weights)
    product = weights * np.array([mapping[name] for name in names])
    expected = LSSVMClassifier(KERNEL, coding=coding).fit(X[kept], names[kept], sample_weight=product[kept])
    assert_allclose(model.decision_function(X_NEW), expected.decision_function(X_NEW), atol=1e-11)
    assert_array_equal(model.support_, np.flatnonzero(kept))
    assert model.certify(X, names, sample_weight=weights).holds
    # balanced counts weighted rows that are there
    balanced = LSSVMClassifier(KERNEL, coding=coding, class_weight="balanced").fit(X, names, sample_weight=weights)
    totals = {c: weights[names == c].sum() for c in "abcd"}
    factors = np.array([weights.sum() / (4.0 * totals[name]) for name in names])
    same = LSSVMClassifier(KERNEL, coding=coding).fit(X, names, sample_weight=weights * factors)
    assert_allclose(balanced.decision_function(X_NEW), same.decision_function(X_NEW), atol=1e-11)


@over_codings
def test_a_class_of_weight_zero_is_not_there(four, coding):
    X, k = four
    expected = LSSVMClassifier(KERNEL, coding=coding).fit(X[k != 2], k[k != 2])
    by_rows = LSSVMClassifier(KERNEL, coding=coding).fit(X, k, sample_weight=(k != 2).astype(float))
    by_class = LSSVMClassifier(KERNEL, coding=coding, class_weight={0: 1, 1: 1, 2: 0, 3: 1}).fit(X, k)
    for model in (by_rows, by_class):
        assert list(model.classes_) == [0, 1, 3]
        assert_allclose(model.decision_function(X_NEW), expected.decision_function(X_NEW), atol=1e-12)
        assert_array_equal(model.predict(X_NEW), expected.predict(X_NEW))
    assert by_class.certify(X, k).holds


def test_one_class_left_is_refused(two):
    X, k = two
    with pytest.raises(DataError, match=r"two classes among rows of positive weight, received one class: \[0\]"):
        LSSVMClassifier(KERNEL).fit(X, k, sample_weight=(k == 0).astype(float))
    with pytest.raises(DataError, match="at least two classes"):
        LSSVMClassifier(KERNEL, class_weight={0: 0.0, 1: 1.0}).fit(X, k)
    with pytest.raises(DataError, match="at least two classes"):
        LSSVMClassifier(KERNEL).fit(X, np.zeros(26, dtype=int))
    with pytest.raises(ValueError, match="weight"):
        LSSVMClassifier(KERNEL).fit(X, k, sample_weight=np.zeros(26))
    with pytest.raises(DataError, match="at least two rows of positive weight"):
        LSSVMClassifier(KERNEL).fit(X, k, sample_weight=np.eye(26)[3])


@pytest.mark.parametrize(
    "wrong", [{0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}, {0: np.inf, 1: 1.0}, "fair", {7: 1.0}, [1.0, 2.0]]
)
def test_class_weights_that_are_none(two, wrong):
    X, k = two
    with pytest.raises(ValueError, match="weight"):
        LSSVMClassifier(KERNEL, class_weight=wrong).fit(X, k)


# ---- solvers -------------------------------------------------------------------------------------


# ---- the certificate -----------------------------------------------------------------------------


def test_the_certificate_notices_other_data(four):
    X, k = four
    model = LSSVMClassifier(KERNEL, gamma=5.0).fit(X, k)
    assert not model.certify(X + 1e-4 * np.arange(len(k))[:, None], k).holds
    other = k.copy()
    other[0] = (k[0] + 1) % 4
    assert not model.certify(X, other).holds
    with pytest.raises(DataError, match="the model knows classes"):
        model.certify(X, k + 1)
    with pytest.raises(DataError, match=r"of shape .* need"):
        model.certify(X[: len(k) - 1], k[: len(k) - 1])


@over_codings
def test_certify_leaves_the_model_alone(four, coding):
    X, k = four
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = LSSVMClassifier(KERNEL, coding=coding).fit(frame, k)
    before = dict(vars(model))
    assert model.certify(X, k).holds
    assert set(vars(model)) == set(before)
    assert all(vars(model)[name] is value for name, value in before.items())


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [np.linspace(0.0, 1.0, 26), np.random.default_rng(0).normal(size=26)])
def test_continuous_targets_are_refused(two, y):
    X, _ = two
    model = LSSVMClassifier(KERNEL)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("wrong", ["ovr", None, 3])
def test_unknown_codings_are_refused_before_any_work(two, wrong):
    X, k = two
    with pytest.raises(DeclarationError, match="coding must be one of"):
        LSSVMClassifier(kernel=lambda *_: os.abort(), coding=wrong).fit(X, k)


# ---- invariances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("coding", ["one_vs_rest", "ecoc"])
def test_the_names_of_classes_do_not_matter(four, coding):
    """These codings treat all classes alike; the minimum-output code does not, and does not claim to."""
    X, k = four
    renamed = np.array([2, 0, 3, 1])
    one = LSSVMClassifier(KERNEL, coding=coding).fit(X, k)
    other = LSSVMClassifier(KERNEL, coding=coding).fit(X, renamed[k])
    assert_allclose(other.decision_function(X_NEW)[:, renamed], one.decision_function(X_NEW), atol=1e-9)
    assert_array_equal(other.predict(X_NEW), renamed[one.predict(X_NEW)])


def test_two_classes_swapped_turn_the_sign(two):
    X, k = two
    one, other = LSSVMClassifier(KERNEL).fit(X, k), LSSVMClassifier(KERNEL).fit(X, 1 - k)
    assert_allclose(other.decision_function(X_NEW), -one.decision_function(X_NEW), atol=1e-12)
    assert_allclose(other.support_values_, one.support_values_, atol=1e-12)


def test_one_vs_rest_scores_sum_to_a_constant(four):
    """The labels of a row sum to 2 - K, and the fit is linear in them."""
    X, k = four
    scores = LSSVMClassifier(KERNEL, gamma=7.0).fit(X, k).decision_function(X_NEW)
    assert_allclose(scores.sum(axis=1), 2.0 - 4.0, atol=1e-10)


def test_the_script_of_a_practitioner_on_ripley():
    X, y = ripley()
    X_test, y_test = ripley(subset="test")
    model = LSSVMClassifier(kernel=RBF(sigma=0.5), gamma=1.0).fit(X, y)
    assert model.score(X_test, y_test) > 0.89
    assert model.certificate_.holds
    assert "LS-SVM classification" in str(model.certificate_)
    linear = LSSVMClassifier(Linear()).fit(X, y)
    assert linear.score(X_test, y_test) < model.score(X_test, y_test)


# ---- peers and habits ----------------------------------------------------------------------------
