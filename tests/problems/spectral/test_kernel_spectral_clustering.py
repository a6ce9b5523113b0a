"""Kernel spectral clustering: the eigenproblem of the paper, codes of new rows, the balanced line fit, refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from problems import KernelSpectralClustering, load
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear
from substrate.spectral import CodeBook, balanced_line_fit


def four_blobs(n=80):
    X, y = make_blobs(n, centers=[[0, 0], [6, 0], [0, 6], [6, 6]], cluster_std=0.6, random_state=1)
    return X, y


def test_components_solve_the_eigenproblem_of_the_paper():
    """D^-1 M_D K alpha = lambda alpha, in loops that form every matrix.

    :place [Alzate2010]_ dual problem: the eigenproblem with inverse degrees as weights
    """
    X, _ = four_blobs(40)
    model = KernelSpectralClustering(RBF(2.0), 4).fit(X)
    K = RBF(2.0)(X)
    inverse = np.diag(1.0 / K.sum(axis=1))
    ones = np.ones((40, 1))
    M = np.eye(40) - ones @ ones.T @ inverse / (ones.T @ inverse @ ones)
    alpha = model.support_values_
    assert_allclose(inverse @ M @ K @ alpha, alpha * model.eigenvalues_, atol=1e-12)
    expected = np.sort(np.linalg.eigvals(inverse @ M @ K).real)[::-1][:3]
    assert_allclose(model.eigenvalues_, expected, rtol=1e-9)
    assert_allclose(model.bias_, -(ones.T @ inverse @ K @ alpha / (ones.T @ inverse @ ones))[0], atol=1e-12)


def test_separate_clusters_are_found_and_new_rows_assigned():
    """:place [Alzate2010]_ code book: the most frequent sign patterns of the training scores
    :place [Alzate2010]_ out-of-sample extension: the code at the smallest Hamming distance
    """
    X, y = four_blobs()
    model = KernelSpectralClustering(RBF(2.0), 4).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    assert_array_equal(model.predict(X), model.labels_)
    assert len(set(model.predict([[0, 0], [6, 0], [0, 6], [6, 6]]))) == 4
    assert model.certificate_.holds
    assert model.certify(X).holds
    moons, halves = make_moons(120, noise=0.05, random_state=0)
    assert adjusted_rand_score(halves, KernelSpectralClustering(RBF(0.3), 2).fit_predict(moons)) > 0.9


def test_the_criterion_finds_the_number_of_clusters_and_a_kernel():
    """:place [Alzate2010]_ balanced line fit: collinearity of the scores of clusters, and their balance"""
    X, y = make_blobs(120, centers=[[0, 0], [7, 1], [2, 8]], cluster_std=0.6, random_state=1)
    grid = {"n_clusters": [2, 3, 4, 5], "kernel": [RBF(1.8), RBF(2.0), RBF(20.0)]}
    search = GridSearchCV(KernelSpectralClustering(), grid, cv=ShuffleSplit(1, test_size=0.3, random_state=0)).fit(X)
    assert search.best_estimator_.n_clusters_ == 3
    assert adjusted_rand_score(y, search.best_estimator_.labels_) == 1.0
    assert search.best_score_ > 0.9


def test_signs_of_eigenvalues_that_agree_to_rounding_are_not_certified():
    X, _ = make_blobs(120, centers=[[0, 0], [7, 1], [2, 8]], cluster_std=0.6, random_state=1)
    with pytest.warns(ConvergenceWarning, match="signs"):
        model = KernelSpectralClustering(RBF(0.2), 3).fit(X)
    assert not model.certificate_.holds


def test_lines_of_equal_clusters_have_the_criterion_one():
    rng = np.random.default_rng(0)
    lengths = rng.uniform(1.0, 2.0, 30)
    directions = np.repeat([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.2]], 10, axis=0)
    labels = np.repeat([0, 1, 2], 10)
    assert balanced_line_fit(lengths[:, None] * directions, lengths, labels, 3, 0.75) == pytest.approx(1.0)
    round_ones = rng.normal(size=(30, 2))
    assert balanced_line_fit(round_ones, lengths, labels, 3, 1.0) < 0.8
    assert balanced_line_fit(lengths[:, None] * directions, lengths, np.repeat([0, 1, 2], [20, 9, 1]), 3, 0.0) == 0.05


def test_codes_are_those_of_most_rows():
    scores = np.array([[1.0, 1.0]] * 3 + [[-1.0, 1.0]] * 5 + [[-1.0, -1.0]])
    book = CodeBook.of(scores, 2)
    assert_array_equal(book.codes, [[-1.0, 1.0], [1.0, 1.0]])
    assert_array_equal(book.assign(np.array([[2.0, 3.0], [-1.0, -1.0], [0.0, -1.0]])), [1, 0, 1])


def test_a_changed_model_fails_and_a_file_holds_it(tmp_path):
    X, _ = four_blobs()
    model = KernelSpectralClustering(RBF(2.0), 4).fit(X)
    model.save(tmp_path / "clusters.npz")
    again = load(tmp_path / "clusters.npz")
    assert_array_equal(again.predict(X), model.labels_)
    assert again.certify(X).holds
    again.labels_ = np.roll(again.labels_, 1)
    assert not again.certify(X).holds
    model.bias_ = model.bias_ + 0.01
    assert not model.certify(X).holds


@pytest.mark.parametrize(
    ("choice", "fault", "message"),
    [
        ({"n_clusters": 0}, DeclarationError, "n_clusters must be an integer"),
        ({"n_clusters": [1, 2]}, DeclarationError, "n_clusters must be an integer"),
        ({"n_clusters": 99}, DataError, "use at most 80"),
        ({"kernel": Linear()}, DataError, "use a kernel without negative values"),
    ],
)
def test_what_cannot_be_fitted_is_refused(choice, fault, message):
    X, _ = four_blobs()
    with pytest.raises(fault, match=message):
        KernelSpectralClustering(**choice).fit(X - X.mean(axis=0))
