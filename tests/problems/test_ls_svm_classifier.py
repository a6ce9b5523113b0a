"""The classifier: labels of any kind, codings against machines fitted one by one, weights, certificates, peers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import LSSVMClassifier, LSSVMRegressor
from substrate.codings import CODINGS, code_book
from substrate.datasets import ripley
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
@pytest.mark.covering
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
    expansion = KERNEL(X_NEW, X) @ model.support_values_ + model.bias_
    assert_allclose(expansion, outputs, atol=1e-9)


@over_codings
def test_two_classes_are_one_machine_whatever_the_coding(two, coding):
    X, k = two
    model = LSSVMClassifier(KERNEL, coding=coding).fit(X, k)
    assert_array_equal(model.decision_function(X_NEW), LSSVMClassifier(KERNEL).fit(X, k).decision_function(X_NEW))
    assert model.decision_function(X_NEW).shape == (40,)
    assert model.support_values_.shape == (26,)
    assert isinstance(model.bias_, float)


# ---- signs ---------------------------------------------------------------------------------------


@over_codings
@pytest.mark.parametrize("n_classes", [2, 4])
def test_support_values_are_multipliers_of_the_margin_times_the_codes(coding, n_classes):
    """alpha = gamma v e with e = 1 - y f on every machine's rows, and y'alpha = 0."""
    X, k = blobs(n_classes)
    weights = np.linspace(0.5, 2.0, len(k))
    model = LSSVMClassifier(KERNEL, gamma=3.0, coding=coding).fit(X, k, sample_weight=weights)
    codes = model.code_book_[k]
    alpha = codes * model.support_values_.reshape(len(k), -1)
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
        sum(a * s * KERNEL(x[None], z[None])[0, 0] for a, s, x in zip(y * model.support_values_, y, X, strict=True))
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


@pytest.mark.parametrize(
    "wrong", [{0: -1.0, 1: 1.0}, {0: np.nan, 1: 1.0}, {0: np.inf, 1: 1.0}, "fair", {7: 1.0}, [1.0, 2.0]]
)
def test_class_weights_that_are_none(two, wrong):
    X, k = two
    with pytest.raises(ValueError, match="weight"):
        LSSVMClassifier(KERNEL, class_weight=wrong).fit(X, k)


# ---- invariances ---------------------------------------------------------------------------------


def test_the_script_of_a_practitioner_on_ripley():
    X, y = ripley()
    X_test, y_test = ripley(subset="test")
    model = LSSVMClassifier(kernel=RBF(sigma=0.5), gamma=1.0).fit(X, y)
    assert model.score(X_test, y_test) > 0.89
    assert model.certificate_.holds
    assert "LS-SVM classification" in str(model.certificate_)
    linear = LSSVMClassifier(Linear()).fit(X, y)
    assert linear.score(X_test, y_test) < model.score(X_test, y_test)
