"""What certificates of components say: against eigenvalues in more digits, missed, multiple and of many rows."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import LSSVMKernelPCA
from substrate.kernels import RBF, Linear, Polynomial


def exact_value(kernel, x, z):
    pairs = [(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x, z, strict=True)]
    if isinstance(kernel, RBF):
        return mpmath.exp(-mpmath.fsum((a - b) ** 2 for a, b in pairs) / mpmath.mpf(kernel.sigma) ** 2)
    inner = mpmath.fsum(a * b for a, b in pairs)
    return inner if isinstance(kernel, Linear) else (inner + mpmath.mpf(kernel.offset)) ** kernel.degree


def exact_components(kernel, X, weights=None, vectors=False):
    """Return the eigenvalues of the centred and weighted kernel matrix of these doubles in 40 digits, largest first."""
    n, rows = X.shape[0], X.tolist()
    with mpmath.workdps(40):
        K = mpmath.matrix([[exact_value(kernel, a, b) for b in rows] for a in rows])
        if isinstance(weights, str):
            v = [1 / mpmath.fsum(K[i, j] for j in range(n)) for i in range(n)]
        else:
            v = [mpmath.mpf(1.0 if weights is None else float(w)) for w in (weights if weights is not None else X)]
        total = mpmath.fsum(v)
        means = [mpmath.fsum(v[j] * K[i, j] for j in range(n)) / total for i in range(n)]
        middle = mpmath.fsum(v[i] * means[i] for i in range(n)) / total
        A = mpmath.matrix(n)
        for i in range(n):
            for j in range(n):
                A[i, j] = mpmath.sqrt(v[i] * v[j]) * (K[i, j] - means[i] - means[j] + middle)
        if not vectors:
            return sorted(mpmath.eigsy(A, eigvals_only=True), reverse=True)
        values, Q = mpmath.eigsy(A)
        order = sorted(range(n), key=lambda k: -values[k])
        return [values[k] for k in order], np.array([[float(Q[i, k]) for k in order] for i in range(n)])


def assert_within(model, certificate, exact):
    radius = mpmath.mpf(certificate["eigenvalues"].value)
    assert all(abs(mpmath.mpf(float(v)) - e) <= radius for v, e in zip(model.eigenvalues_, exact, strict=False))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("unit", "shift"), [(1.0, 0.0), (1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_eigenvalues_are_as_near_as_they_say(unit, shift, weighted):
    rng = np.random.default_rng(0)
    X = unit * rng.normal(size=(16, 3)) + shift
    weights = rng.uniform(1e-3, 3.0, 16) if weighted else None
    model = LSSVMKernelPCA(RBF(2.0 * unit), 2).fit(X, sample_weight=weights)
    exact = exact_components(model.kernel_, X, weights)
    for certificate in (model.certificate_, model.certify(X, sample_weight=weights)):
        assert_within(model, certificate, exact)
        assert certificate.holds
        assert "leading" in certificate.promise


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2, offset=1.0)])
@pytest.mark.parametrize("basis", [None, 12])
def test_kernels_of_finite_rank_hold_on_a_basis_that_spans_them(kernel, basis):
    """A basis that spans all features of a kernel has the eigenvalues of all rows."""
    X = np.random.default_rng(0).normal(3.0, 1.0, size=(20, 3))
    model = LSSVMKernelPCA(kernel, 1, basis=basis).fit(X)
    assert_within(model, model.certificate_, exact_components(kernel, X))
    assert_within(model, model.certify(X), exact_components(kernel, X))
    assert model.certificate_.holds
    assert model.certify(X).holds


def stated_angle(certificate):
    """Return the angle that the first line of a certificate states."""
    return float(certificate.promise.split("angle of ")[1].split()[0])


@pytest.mark.parametrize("off", [0.0, 1e-8, 1e-7])
def test_the_subspace_is_within_the_angle(off):
    X = np.random.default_rng(0).normal(size=(12, 3))
    model = LSSVMKernelPCA(RBF(2.0), 2, tol=1e-3).fit(X)
    _, vectors = exact_components(RBF(2.0), X, vectors=True)
    noise = np.random.default_rng(1).normal(size=(12, 2))
    model.support_values_ = model.support_values_ + off * (noise - noise.mean(axis=0))
    U = np.linalg.qr(model.support_values_)[0]
    sine = np.linalg.norm(U - vectors[:, :2] @ (vectors[:, :2].T @ U), 2)
    angle = stated_angle(model.certify(X))
    assert sine <= 1.1 * angle + 1e-13  # the stated angle has two digits
    assert angle <= 100.0 * (off + 1e-11)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_missed_eigenvalue_is_noticed():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = LSSVMKernelPCA(RBF(2.0), 4).fit(X)
    for name in ("eigenvalues_", "support_values_", "bias_"):
        setattr(model, name, np.delete(getattr(model, name), 1, axis=-1))
    assert not model.certify(X).holds


def grid(side):
    x = np.linspace(-1.0, 1.0, side)
    return np.array([(a, b) for a in x for b in x])


@pytest.mark.parametrize("side", [8, 28])
def test_both_directions_of_a_double_eigenvalue_are_found(side):
    """With all pairs, and with the leading ones by iteration, of which one start vector sees one direction."""
    X = grid(side)
    P = np.eye(side**2) - 1.0 / side**2
    expected = np.linalg.eigvalsh(P @ RBF(1.0)(X) @ P)[::-1]
    model = LSSVMKernelPCA(RBF(1.0), 2).fit(X)
    assert_allclose(model.eigenvalues_, expected[:2], rtol=1e-10)
    assert "angle" in model.certificate_.promise
    half = LSSVMKernelPCA(RBF(1.0), 1).fit(X)  # the value is proved, one direction of two is not a subspace
    assert half.certificate_.holds
    assert "not unique" in half.certificate_.promise


def test_a_matrix_that_is_not_positive_semi_definite():
    K = np.random.default_rng(0).normal(size=(30, 30))
    K = K + K.T
    P = np.eye(30) - 1.0 / 30
    model = LSSVMKernelPCA("precomputed", 3).fit(K)
    expected = np.linalg.eigvalsh(P @ K @ P)[::-1][:3]
    assert np.abs(model.eigenvalues_ - expected).max() <= model.certificate_["eigenvalues"].value
    assert "leading" in model.certificate_.promise


@pytest.mark.parametrize(("sigma", "proved"), [(2.0, True), (0.3, False)])
def test_many_rows_are_proved_where_the_remainder_is_small(sigma, proved):
    X = np.random.default_rng(0).normal(size=(800, 3))
    model = LSSVMKernelPCA(RBF(sigma), 3).fit(X)
    P = np.eye(800) - 1.0 / 800
    expected = np.linalg.eigvalsh(P @ RBF(sigma)(X) @ P)[::-1]
    assert np.abs(model.eigenvalues_ - expected[:3]).max() <= model.certificate_["eigenvalues"].value
    assert model.certificate_.holds
    assert ("proved to be the leading" in model.certificate_.promise) == proved
    again = model.certify(X)
    assert again.holds
    assert "proved to be the leading" in again.promise
