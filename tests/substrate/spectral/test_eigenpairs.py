"""Leading eigenpairs of centred and weighted kernel matrices, and what is proved of them."""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Precomputed
from substrate.least_squares.stored_kernel import KernelTriangle
from substrate.spectral.centred_operator import CentredOperator
from substrate.spectral.eigen_bound import bound_eigenpairs, eigen_certificate, prove_leading
from substrate.spectral.eigenpairs import leading_eigenpairs


def make_operator(n=60, weights=None, shift=0.0, unit=1.0):
    X, kernel = unit * np.random.default_rng(0).normal(size=(n, 3)) + shift, RBF(2.0 * unit)
    return CentredOperator.of(KernelTriangle.of(kernel, X), kernel, X, weights), X, kernel


def naive_matrix(kernel, X, weights):
    v = np.ones(X.shape[0]) if weights is None else weights
    K, q = kernel(X), np.sqrt(v / v.sum())
    P = np.eye(X.shape[0]) - np.outer(q, q)
    return P @ (np.sqrt(v)[:, None] * K * np.sqrt(v)) @ P


def proved(operator, count, dense=None):
    pairs = leading_eigenpairs(operator, count, dense)
    return pairs, prove_leading(bound_eigenpairs(operator, pairs), operator, pairs.following)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_the_matrix(dense, weighted):
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 60) if weighted else None
    operator, X, kernel = make_operator(weights=weights)
    A = naive_matrix(kernel, X, weights)
    expected = np.linalg.eigvalsh(A)[::-1]
    assert_allclose(operator.dense(), A, atol=1e-13)
    V = np.random.default_rng(2).normal(size=(60, 2))
    assert_allclose(operator.product(V), A @ V, atol=1e-12)
    pairs, bound = proved(operator, 4, dense)
    assert np.abs(pairs.values[:4] - expected[:4]).max() <= bound.radius < 1e-9
    assert bound.leading
    assert bound.following >= expected[4]
    assert 0.0 < bound.gap <= expected[3] - expected[4] + bound.radius
    assert (pairs.steps == 0) == dense


@pytest.mark.parametrize(("unit", "shift"), [(1e-9, 0.0), (1e9, 0.0), (1.0, 1e8)])
def test_units_and_offsets_of_the_rows(unit, shift):
    operator, X, kernel = make_operator(30, unit=unit, shift=shift)
    _, bound = proved(operator, 2)
    exact = exact_values(X, kernel.sigma)
    assert all(abs(mpmath.mpf(v) - e) <= bound.radius for v, e in zip(bound.values[:2], exact[:2], strict=True))
    assert bound.radius <= 1e-6 * bound.values[0]
    assert bound.leading


def exact_values(X, sigma):
    """Return the eigenvalues of the centred RBF matrix of these doubles in 40 digits, largest first."""
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(x)) for x in row] for row in X]
        n = len(rows)
        K = mpmath.matrix(n)
        for i in range(n):
            for j in range(n):
                square = sum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True))
                K[i, j] = mpmath.exp(-square / mpmath.mpf(sigma) ** 2)
        means = [sum(K[i, j] for j in range(n)) / n for i in range(n)]
        total = sum(means) / n
        centred = mpmath.matrix(n)
        for i in range(n):
            for j in range(n):
                centred[i, j] = K[i, j] - means[i] - means[j] + total
        return sorted(mpmath.eigsy(centred, eigvals_only=True), reverse=True)


def test_the_subspace_is_within_the_angle():
    """Against eigenvectors in 40 digits: the sine of the largest angle, for pairs that are off by a known amount."""
    operator, X, _ = make_operator(12)
    pairs = leading_eigenpairs(operator, 2)
    values, vectors = np.linalg.eigh(operator.dense())
    exact = vectors[:, ::-1][:, :2]
    for shift in (0.0, 1e-6, 1e-3):
        U = np.linalg.qr(exact + shift * np.random.default_rng(0).normal(size=exact.shape))[0]
        theta, Y = np.linalg.eigh(U.T @ operator.dense() @ U)
        U, theta = U @ Y[:, ::-1], theta[::-1]
        off = replace(pairs, values=theta, vectors=U, products=operator.product(U), following=float(values[-3]))
        bound = prove_leading(bound_eigenpairs(operator, off), operator, off.following)
        sine = np.linalg.norm(U - exact @ (exact.T @ U), 2)
        assert bound.leading
        assert sine <= bound.angle
        assert bound.angle <= 50.0 * (shift + 1e-10)
    assert float(abs(exact_values(X, 2.0)[0] - mpmath.mpf(theta[0]))) <= bound.radius


def test_a_missed_eigenvalue_is_noticed():
    operator, _, _ = make_operator()
    pairs = leading_eigenpairs(operator, 4)
    keep = [0, 2, 3]
    missing = replace(
        pairs,
        values=pairs.values[keep],
        vectors=pairs.vectors[:, keep],
        products=pairs.products[:, keep],
        wanted=3,
        following=float(pairs.values[4]),
    )
    bound = prove_leading(bound_eigenpairs(operator, missing), operator, missing.following)
    assert not bound.leading
    assert "not proved" in eigen_certificate("x", bound, 1e-6).promise


def test_pairs_that_are_not_orthonormal_are_bounded_or_refused():
    operator, _, _ = make_operator()
    pairs = leading_eigenpairs(operator, 2)
    twice = replace(
        pairs, vectors=pairs.vectors[:, [0, 0]], products=pairs.products[:, [0, 0]], values=pairs.values[[0, 0]]
    )
    assert bound_eigenpairs(operator, twice).radius == np.inf
    longer = replace(pairs, vectors=1.001 * pairs.vectors, products=1.001 * pairs.products)
    assert bound_eigenpairs(operator, longer).radius > 1e-3 * pairs.values[0]


def grid(side=8):
    x = np.linspace(-1.0, 1.0, side)
    return np.array([(a, b) for a in x for b in x])


@pytest.mark.parametrize("dense", [True, False])
def test_both_directions_of_a_double_eigenvalue_are_found(dense):
    X, kernel = grid(), RBF(1.0)
    operator = CentredOperator.of(KernelTriangle.of(kernel, X), kernel, X)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    pairs, bound = proved(operator, 2, dense)
    assert expected[0] - expected[1] < 1e-12
    assert_allclose(pairs.values[:2], expected[:2], rtol=1e-12)
    assert bound.leading
    assert bound.angle < 1e-9
    _, half = proved(operator, 1, dense)  # the value is proved, one direction of two is not a subspace
    assert half.leading
    assert half.angle == np.inf
    assert half.radius < 1e-6


def test_a_matrix_that_is_not_positive_semi_definite():
    rng = np.random.default_rng(0)
    K = rng.normal(size=(30, 30))
    K = K + K.T
    operator = CentredOperator.of(Gram.from_matrix(K), Precomputed(), K)
    _, bound = proved(operator, 3)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    assert not operator.definite
    assert np.abs(bound.values[:3] - expected[:3]).max() <= bound.radius
    assert bound.leading


def test_the_trace_proves_it_without_a_factorisation():
    X = np.random.default_rng(0).normal(size=(40, 2)) * [10.0, 1.0]
    operator = CentredOperator.of(KernelTriangle.of(Linear(), X), Linear(), X)
    pairs = leading_eigenpairs(operator, 1)
    bound = prove_leading(bound_eigenpairs(operator, pairs), operator, pairs.following, factorize=False)
    assert (bound.leading, bound.method) == (True, "trace")
    assert bound.following >= np.linalg.eigvalsh(operator.dense())[-2]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_the_sum_of_squares_is_that_of_all_eigenvalues(weighted, shift):
    weights = np.random.default_rng(1).uniform(1e-6, 3.0, 60) if weighted else None
    operator, _, _ = make_operator(weights=weights, shift=shift)
    values = np.linalg.eigvalsh(operator.dense())
    assert_allclose(operator.square_sum, np.square(values).sum(), rtol=0.02)
    assert operator.square_sum >= np.square(values).sum()


def test_the_sum_of_squares_proves_what_the_trace_does_not():
    rng = np.random.default_rng(0)
    X = np.repeat(3.0 * rng.normal(size=(5, 6)), 60, axis=0) + 0.3 * rng.normal(size=(300, 6))
    kernel = RBF(1.0)
    operator = CentredOperator.of(KernelTriangle.of(kernel, X), kernel, X)
    expected = np.linalg.eigvalsh(operator.dense())[::-1]
    assert expected[4:].sum() > expected[3]
    for dense in (True, False):
        pairs = leading_eigenpairs(operator, 3, dense)
        bound = prove_leading(bound_eigenpairs(operator, pairs), operator, pairs.following, factorize=False)
        assert (bound.leading, bound.method) == (True, "the sum of squares")
        assert int(np.sum(expected > bound.following)) == bound.counted
        assert 0.0 <= bound.gap <= expected[2] - expected[3] + 2.0 * bound.radius


def test_the_sum_of_squares_notices_a_missed_eigenvalue():
    X = np.random.default_rng(0).normal(size=(60, 2)) * [10.0, 9.0]
    operator = CentredOperator.of(KernelTriangle.of(Linear(), X), Linear(), X)
    pairs = leading_eigenpairs(operator, 2)
    second = replace(
        pairs, values=pairs.values[1:2], vectors=pairs.vectors[:, 1:2], products=pairs.products[:, 1:2], wanted=1
    )
    assert not prove_leading(bound_eigenpairs(operator, second), operator, 0.0, factorize=False).leading
