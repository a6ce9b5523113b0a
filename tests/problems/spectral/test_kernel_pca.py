"""Kernel PCA: scores, weights, bases, streams, pre-images, certificates, files, and scikit-learn's conventions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning

import problems
from problems import LSSVMKernelPCA, load
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


@pytest.mark.parametrize("choice", [{}, {"basis": 12}])
def test_a_file_holds_the_model(tmp_path, choice):
    X = rows()
    model = LSSVMKernelPCA(RBF(2.0), 2, **choice).fit(X)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert_array_equal(again.transform(X), model.transform(X))
    assert again.certify(X).holds
    assert again.get_params() == model.get_params()


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
