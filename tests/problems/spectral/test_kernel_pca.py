"""Kernel PCA: scores, weights, bases, streams, pre-images, certificates, files, and scikit-learn's conventions."""

import numpy as np
import pytest
from array_homes import sender
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import problems
from problems import LSSVMKernelPCA, LSSVMRegressorCV, kernel_pca, load
from problems.command_line.verify import verify
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Polynomial


def rows(n=50, columns=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


@pytest.mark.parametrize(
    ("kernel", "theirs"),
    [
        (RBF(2.0), {"kernel": "rbf", "gamma": 0.25}),
        (Linear(), {"kernel": "linear"}),
        (Polynomial(degree=2, offset=1.0), {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 1.0}),
    ],
)
def test_scores_are_those_of_scikit_learn_up_to_their_signs(kernel, theirs):
    X = rows()
    ours, peer = LSSVMKernelPCA(kernel, 3).fit(X), KernelPCA(3, **theirs).fit(X)
    new = rows(7, seed=1)
    assert_allclose(ours.eigenvalues_, peer.eigenvalues_, rtol=1e-10)
    assert_allclose(np.abs(ours.transform(new)), np.abs(peer.transform(new)), rtol=1e-7, atol=1e-10)
    assert ours.certificate_.holds
    assert_allclose(ours.fit_transform(X), ours.transform(X), atol=1e-10)


def test_scores_satisfy_the_primal_problem():
    """Scores have mean zero, variance lambda, and no correlation with each other; w has length one.

    :place [Suykens2003]_ dual problem: the eigenproblem of the centred kernel matrix
    :place [Suykens2003]_ conditions of optimality: alpha = gamma v e, the equalities, and the sum of alpha
    """
    X = rows()
    model = LSSVMKernelPCA(RBF(2.0), 4).fit(X)
    scores, alpha = model.transform(X), model.support_values_
    assert_allclose(scores.T @ scores, np.diag(model.eigenvalues_), atol=1e-10)
    assert_allclose(scores.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(np.diagonal(alpha.T @ RBF(2.0)(X) @ alpha), 1.0, rtol=1e-10)
    assert_allclose(scores, model.eigenvalues_ * alpha, atol=1e-10)
    assert 0.0 < model.explained_variance_ratio_.sum() < 1.0


def test_a_row_of_weight_two_is_two_rows():
    X, weights = rows(), np.random.default_rng(1).integers(0, 4, 50)
    weighted = LSSVMKernelPCA(RBF(2.0), 3).fit(X, sample_weight=weights)
    repeated = LSSVMKernelPCA(RBF(2.0), 3).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-10)
    assert_allclose(np.abs(weighted.transform(X)), np.abs(repeated.transform(X)), atol=1e-9)
    assert weighted.certify(X, sample_weight=weights).holds
    light = LSSVMKernelPCA(RBF(2.0), 3).fit(X, sample_weight=1e-30 * weights)
    assert_allclose(light.transform(X), weighted.transform(X), atol=1e-9)


def test_the_certificate_fails_where_the_model_is_changed():
    X = rows()
    model = LSSVMKernelPCA(RBF(2.0), 2).fit(X)
    assert model.certify(X).holds
    assert "leading" in model.certify(X).promise
    for name, change in (("support_values_", 1e-3), ("bias_", 1e-3), ("eigenvalues_", 1e-3)):
        changed = LSSVMKernelPCA(RBF(2.0), 2).fit(X)
        setattr(changed, name, getattr(changed, name) + change)
        assert not changed.certify(X).holds, name
    assert not model.certify(X + 1e-3).holds


@pytest.mark.parametrize("X", [np.ones((6, 2)), np.zeros((2, 1)), np.repeat(rows(3), 5, axis=0)])
def test_equal_rows_have_few_components(X):
    model = LSSVMKernelPCA(RBF(1.0), 1 if X.shape[0] == 2 else 4).fit(X)
    distinct = len(np.unique(X, axis=0))
    assert np.sum(model.eigenvalues_ > 0.0) == min(distinct - 1, model.eigenvalues_.size)
    assert model.certificate_.holds
    assert model.certify(X).holds
    assert_array_equal(model.transform(X)[:, distinct - 1 :], 0.0)


def test_what_rounding_hides_is_not_certified():
    """A linear kernel far from the origin: its values have no digit left of what differs between rows."""
    with pytest.warns(ConvergenceWarning, match="subtract the means"):
        model = LSSVMKernelPCA(Linear(), 2).fit(rows() + 1e8)
    assert not model.certificate_.holds
    assert not model.certify(rows() + 1e8).holds
    assert LSSVMKernelPCA(Linear(), 2).fit(rows() + 1e3).certificate_.holds


@pytest.mark.parametrize(("unit", "offset"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_units_and_offsets(unit, offset):
    X = rows()
    plain = LSSVMKernelPCA(RBF(2.0), 2).fit(X)
    moved = LSSVMKernelPCA(RBF(2.0 * unit), 2).fit(unit * X + offset)
    assert moved.certificate_.holds
    assert_allclose(moved.eigenvalues_, plain.eigenvalues_, rtol=1e-6)


def test_a_basis_of_all_rows_gives_all_components_and_streams_give_the_same():
    X = rows()
    full, reduced = LSSVMKernelPCA(RBF(2.0), 2).fit(X), LSSVMKernelPCA(RBF(2.0), 2, basis=30).fit(X)
    assert_allclose(reduced.eigenvalues_, full.eigenvalues_, rtol=1e-3)
    assert np.all(reduced.eigenvalues_ <= full.eigenvalues_ * (1.0 + 1e-9))  # Poincare
    assert_allclose(np.abs(reduced.transform(X)), np.abs(full.transform(X)), atol=0.02)
    assert reduced.certificate_.holds
    assert reduced.certify(X).holds
    blocks = [X[:20], X[20:]]
    streamed = LSSVMKernelPCA(RBF(2.0), 2, basis=30).fit(lambda: iter(blocks))
    assert_allclose(streamed.transform(X), reduced.transform(X), atol=1e-10)
    assert streamed.certify(lambda: iter(blocks)).holds
    reduced.support_values_ = 1.01 * reduced.support_values_
    assert not reduced.certify(X).holds


def exact_eigenvalues_on_a_basis(kernel, X, S):
    """Return the eigenvalues of the centred projections on the span of S in 60 digits, largest first."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):

        def value(a, b):
            if isinstance(kernel, RBF):
                square = mpmath.fsum((mpmath.mpf(u) - mpmath.mpf(v)) ** 2 for u, v in zip(a, b, strict=True))
                return mpmath.exp(-square / mpmath.mpf(kernel.sigma) ** 2)
            return mpmath.fsum(mpmath.mpf(u) * mpmath.mpf(v) for u, v in zip(a, b, strict=True))

        rows, vectors = X.tolist(), S.tolist()
        L = mpmath.cholesky(mpmath.matrix([[value(a, b) for b in vectors] for a in vectors]))
        Z = [list(mpmath.lu_solve(L, mpmath.matrix([value(a, b) for b in vectors]))) for a in rows]
        means = [mpmath.fsum(column) / len(Z) for column in zip(*Z, strict=True)]
        Z = mpmath.matrix([[z - m for z, m in zip(row, means, strict=True)] for row in Z])
        return sorted(map(float, mpmath.eigsy(Z.T * Z, eigvals_only=True)), reverse=True)


@pytest.mark.parametrize(
    ("kernel", "offset", "vectors"),
    [
        (Linear(), 30.0, 3),
        (Linear(), 0.0, 2),
        (RBF(2.0), 0.0, 12),
        (RBF(20.0), 0.0, 12),
        (RBF(200.0), 0.0, 12),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_eigenvalues_on_a_basis_are_as_near_as_they_say(kernel, offset, vectors):
    X = offset + np.random.default_rng(0).normal(size=(60, 3))
    exact = exact_eigenvalues_on_a_basis(kernel, X, X[:vectors])
    model = LSSVMKernelPCA(kernel, 1, basis=X[:vectors]).fit(X)
    for certificate in (model.certificate_, model.certify(X)):
        assert abs(model.eigenvalues_[0] - exact[0]) <= certificate["eigenvalues"].value
    assert model.certificate_.holds == (kernel != RBF(200.0))


@pytest.mark.parametrize("as_points", [False, True])
def test_columns_far_from_zero_do_not_lose_the_largest_eigenvalue_on_a_basis(as_points):
    X = np.random.default_rng(0).normal(30.0, 1.0, size=(60, 3))
    model = LSSVMKernelPCA(Linear(), 1, basis=X[:10] if as_points else 10).fit(X)
    largest = np.linalg.svd(X - X.mean(axis=0))[1][0] ** 2
    assert abs(model.eigenvalues_[0] - largest) <= model.certificate_["eigenvalues"].value < 1e-3


def test_the_rounding_of_scores_is_counted_on_a_basis():
    """Far from the origin the values of a linear kernel lose their digits, and the certificate says so."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert LSSVMKernelPCA(Linear(), 1, basis=10).fit(X + 10.0).certificate_["scores"].passes
    with pytest.warns(ConvergenceWarning, match="subtract the means of the columns"):
        LSSVMKernelPCA(Linear(), 1, basis=10).fit(X + 1e5)


def test_weights_on_a_basis():
    X, weights = rows(), np.random.default_rng(1).integers(1, 4, 50)
    points = X[:20]
    weighted = LSSVMKernelPCA(RBF(2.0), 2, basis=points).fit(X, sample_weight=weights)
    repeated = LSSVMKernelPCA(RBF(2.0), 2, basis=points).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, rtol=1e-9)
    assert weighted.certify(X, sample_weight=weights).holds


def test_pre_images_beat_those_of_scikit_learn_on_digits():
    X = load_digits().data / 16.0
    train, test = X[:250], X[250:350]
    model = LSSVMKernelPCA(RBF(4.0), 20).fit(train)
    ours = LSSVMRegressorCV(RBF(), gamma_range=(1e-3, 1e5)).fit(model.transform(train), train)
    peer = KernelPCA(20, kernel="rbf", gamma=1.0 / 16.0, fit_inverse_transform=True).fit(train)
    error = np.mean((ours.predict(model.transform(test)) - test) ** 2)
    theirs = np.mean((peer.inverse_transform(peer.transform(test)) - test) ** 2)
    assert error < 0.8 * theirs


@pytest.mark.parametrize("choice", [{}, {"basis": 12}])
def test_a_file_holds_the_model(tmp_path, choice):
    X = rows()
    model = LSSVMKernelPCA(RBF(2.0), 2, **choice).fit(X)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.transform(X), model.transform(X))
    assert again.certify(X).holds
    assert again.get_params() == model.get_params()


def test_pipelines_and_data_frames():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(), columns=["a", "b", "c"])
    model = LSSVMKernelPCA(RBF(2.0), 2).set_output(transform="pandas")
    assert list(model.fit_transform(X).columns) == ["lssvmkernelpca0", "lssvmkernelpca1"]
    y = X["a"] ** 2
    assert make_pipeline(LSSVMKernelPCA(RBF(2.0), 8), LinearRegression()).fit(X, y).score(X, y) > 0.5
    assert model.set_params(kernel__sigma=3.0).kernel == RBF(3.0)


@pytest.mark.parametrize(
    ("choice", "fault", "message"),
    [
        ({"n_components": 0}, DeclarationError, "n_components must be an integer >= 1"),
        ({"n_components": True}, DeclarationError, "n_components must be an integer >= 1"),
        ({"n_components": 60}, DataError, "use at most 49"),
        ({"basis": 3, "n_components": 9}, DataError, "use at most 3"),
        ({"kernel": "precomputed", "basis": 3}, DeclarationError, "precomputed"),
        ({"tol": 0.0}, DeclarationError, "tol"),
    ],
)
def test_what_cannot_be_fitted_is_refused(choice, fault, message):
    X = rows()
    X = X @ X.T if choice.get("kernel") == "precomputed" else X
    with pytest.raises(fault, match=message):
        LSSVMKernelPCA(**choice).fit(X)


def test_refusals_that_name_the_next_step():
    X = rows()
    model = LSSVMKernelPCA(RBF(2.0), 2).fit(X)
    with pytest.raises(DeclarationError, match="give basis="):
        LSSVMKernelPCA(RBF(2.0), 2).fit(lambda: iter([X]))
    with pytest.raises(DataError, match="fitted to 50 rows"):
        model.certify(X[:40])
    with pytest.raises(DataError, match="negative"):
        model.fit(X, sample_weight=-np.ones(50))
    assert not hasattr(model, "prove")
    assert "LSSVMKernelPCA" in dir(problems)


def test_verify_notices_a_component_that_is_not_leading(monkeypatch):
    """Take the second and third eigenvector for the first two."""
    right = kernel_pca.closed_form

    def wrong(K, n_components, weights=None):
        found = right(K, n_components + 1, weights)
        keep = {name: found[name][..., 1:] for name in ("eigenvalues", "support_values", "bias", "errors")}
        return {**right(K, n_components, weights), **keep}

    monkeypatch.setattr(kernel_pca, "closed_form", wrong)
    lines = list(verify("kernel_pca", "CLARABEL"))
    assert not any(line.passes for line in lines)
    assert any("leading eigenvalues" in complaint for line in lines for complaint in line.complaints)


def test_arrays_of_a_device_are_refused():
    with pytest.raises(DataError, match="take X and y to numpy first"):
        LSSVMKernelPCA(RBF(2.0), 3).fit(sender("array_api_strict")(rows(40)))
