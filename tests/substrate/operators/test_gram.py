"""The Gram matrix: one array, a factor inside it, and nothing forgotten or hidden."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.arrays import memory_limit
from substrate.errors import (
    DataError,
    DeclarationError,
    DegenerateKernelWarning,
    IndefiniteKernelWarning,
)
from substrate.kernels import RBF, Foreign, Laplacian, Linear, Matern, Polynomial, Precomputed
from substrate.operators import Gram

SIZES = [1, 2, 63, 64, 65, 257, 600]
sizes = pytest.mark.parametrize("n", SIZES)
KERNELS = [RBF(1.0), Linear(), Polynomial(2, 0.5), Laplacian(1.0), Matern(1.0), 0.5 * RBF(2.0) + Linear()]


def _points(n, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def _indefinite(n=30, smallest=-0.5):
    Q, _ = np.linalg.qr(_points(n, n))
    values = np.linspace(0.1, 2.0, n)
    values[0] = smallest
    K = (Q * values) @ Q.T
    return (K + K.T) / 2.0


# ---- products and factors ------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.covering
def test_solve_solves_with_each_ridge_in_turn(n, kernel):
    X = _points(n)
    K = kernel(X)
    gram = Gram.of(kernel, X)
    B = np.asfortranarray(np.random.default_rng(2).normal(size=(n, 3)))
    for ridge in (np.full(n, 2.0), np.linspace(0.01, 5.0, n), np.full(n, 1e-3)):
        gram.factorize(ridge)
        A = K + np.diag(ridge)
        solution = gram.solve(B)
        size = np.linalg.norm(A) * np.linalg.norm(solution, axis=0) + np.linalg.norm(B, axis=0)
        assert (np.linalg.norm(A @ solution - B, axis=0) <= 30 * n * np.finfo(float).eps * size).all()
        assert_allclose(gram.solve(B[:, 0].copy()), solution[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, lambda K: K.astype(np.float32)])
def test_a_given_matrix_is_copied_and_never_modified(make):
    K = make(np.round(RBF(1.0)(_points(20)) * 64) / 64)
    kept = K.copy()
    K.flags.writeable = False
    gram = Gram.from_matrix(K)
    gram.factorize(np.ones(20))
    gram.coordinates()
    assert_array_equal(K, kept)
    assert not np.shares_memory(gram._store, K)


def test_the_matrix_handed_out_cannot_harm_the_gram():
    gram = Gram.of(RBF(1.0), _points(5))
    with pytest.raises(ValueError, match="read-only"):
        gram.matrix[0, 0] = 7.0
    gram.factorize(np.ones(5))
    with pytest.raises(ValueError, match="read-only"):
        gram.matrix[0, 0] = 7.0


# ---- what is refused, what is recorded -----------------------------------------------------------


@pytest.mark.parametrize("make", [Gram.from_matrix, lambda K: Gram.of(Precomputed(), K)], ids=["matrix", "precomputed"])
@pytest.mark.parametrize("n", [4, 300])
def test_an_asymmetric_matrix_is_refused_with_its_asymmetry(make, n):
    K = np.eye(n)
    K[n - 1, 1] = 1e-3
    with pytest.raises(DataError, match=r"is not symmetric: entries differ from their mirror by up to 0\.001; .*K\.T"):
        make(K)


@pytest.mark.parametrize("make", [Gram.from_matrix, lambda K: Gram.of(Precomputed(), K)], ids=["matrix", "precomputed"])
def test_asymmetry_of_rounding_is_averaged_and_recorded(make):
    K = RBF(1.0)(_points(10))
    K[7, 2] += 1e-13
    gram = make(K)
    assert_array_equal(gram.matrix, (K + K.T) / 2.0)
    (alteration,) = gram.alterations
    assert ("alteration", alteration) in gram.record()
    assert alteration.startswith("symmetrised (1.00e-13)")


def test_an_indefinite_matrix_warns_is_recorded_and_solved_all_the_same():
    K = _indefinite()
    gram = Gram.from_matrix(K)
    ridge = np.full(30, 0.1)
    with pytest.warns(IndefiniteKernelWarning, match=r"not positive semi-definite \(smallest eigenvalue -0\.5\)"):
        gram.factorize(ridge)
    B = _points(30, 2)
    assert_allclose((K + np.diag(ridge)) @ gram.solve(np.asfortranarray(B)), B, rtol=1e-9, atol=1e-11)
    assert_array_equal(gram.matrix, K)
    assert_allclose(gram.product(B), K @ B, rtol=1e-12, atol=1e-13)
    (alteration,) = gram.alterations
    assert alteration.startswith("symmetric indefinite factorisation (-5.00e-01)")
    assert "has no Cholesky factor" in dict(gram.record())["alteration"]


# ---- coordinates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("factored", [False, True])
def test_coordinates_are_orthonormal_and_rebuild_k(kernel, factored):
    """:equation [Suykens2002]_ (6), (8): inner products of the features are the kernel matrix."""
    gram = Gram.of(kernel, _points(50))
    if factored:
        gram.factorize(np.ones(50))
    K = gram.matrix
    chart = gram.coordinates()
    assert_allclose(chart.basis.T @ chart.basis, np.eye(chart.rank), atol=1e-12)
    assert_allclose(chart.factor @ chart.factor.T, K, atol=1e-12 * np.abs(K).max() * 50)
    assert (np.diff(chart.values) <= 0.0).all()
    assert (chart.values > 0.0).all()


def test_a_cut_off_leaves_out_what_it_says():
    gram = Gram.from_matrix(np.diag([1.0, 1e-3, 1e-6, 1e-9]))
    assert [gram.coordinates(cutoff).rank for cutoff in (None, 1e-7, 1e-4, 0.5)] == [4, 3, 2, 1]


def test_an_indefinite_matrix_has_no_coordinates_and_the_smallest_eigenvalue_says_why():
    """:equation [Suykens2002]_ (7): a kernel that violates it is refused."""
    with pytest.raises(
        DeclarationError, match=r"its smallest eigenvalue is -0\.5 \(the largest is 2\), so .* not convex"
    ):
        Gram.from_matrix(_indefinite()).coordinates()
    with pytest.raises(DeclarationError, match=r"smallest eigenvalue is -1 \(the largest is 0\)"):
        Gram.from_matrix(-np.eye(3)).coordinates()


# ---- degenerate kernels --------------------------------------------------------------------------

UNIT = np.linspace(0.0, 0.5, 40)[:, None]


@pytest.mark.parametrize("factor", [1.0, 2.0, 0.25])
@pytest.mark.parametrize("sigma", [1e-6, 1e-12])
@pytest.mark.parametrize("kernel", [RBF, Laplacian, Matern], ids=lambda kernel: kernel.__name__)
def test_a_width_far_too_small_warns(kernel, sigma, factor):
    with pytest.warns(DegenerateKernelWarning, match="the identity: sigma is far smaller than every distance"):
        Gram.of(factor * kernel(sigma), UNIT)


# ---- memory --------------------------------------------------------------------------------------


def test_a_matrix_that_cannot_fit_is_refused_before_it_is_allocated():
    def must_not_run(A, B):
        raise AssertionError("the kernel was evaluated")

    needs = (
        r"the 1000 x 1000 kernel matrix and its factor needs 16000000 bytes .* and 15999999 bytes .* are available; "
    )
    with memory_limit(15_999_999), pytest.raises(DataError, match=needs):
        Gram.of(Foreign(must_not_run), np.zeros((1000, 1)))
