"""Matrices of finite rank by their range: the decomposition is that of all eigenvectors, and its error is measured."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Polynomial
from substrate.least_squares.finite_rank import decompose_of_rank
from substrate.least_squares.spectrum import centred_spectrum

RNG = np.random.default_rng(4)
N = 180
X = RNG.normal(size=(N, 3)) @ np.diag([1.0, 1e-2, 1e-4])
V = RNG.uniform(0.2, 3.0, size=N)
Y = RNG.normal(size=N)
LAMBDAS = np.array([1e-6, 1e-2, 10.0])


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_eigenvalues_and_vectors_are_those_of_all_directions(size):
    half = RNG.normal(size=(N, 4))
    M = np.asfortranarray(size * (half @ half.T))
    values, vectors = decompose_of_rank(np.asfortranarray(np.triu(M)), 4)
    assert (np.diff(values) >= 0.0).all()
    assert_allclose(vectors.T @ vectors, np.eye(N), atol=1e-12)
    assert_allclose((vectors * values) @ vectors.T, M, atol=1e-12 * size * N)
    assert_allclose(values[-4:], np.linalg.eigvalsh(M)[-4:], rtol=1e-11)


def test_what_has_no_small_rank_is_left_to_all_eigenvectors():
    M = np.asfortranarray(np.eye(N))
    assert decompose_of_rank(M, None) is None
    assert decompose_of_rank(M, N // 8) is None
    assert decompose_of_rank(np.zeros((N, N), order="F"), 2) is None
    column = RNG.normal(size=N)
    assert decompose_of_rank(np.asfortranarray(-np.outer(column, column)), 1) is None, "a negative eigenvalue"


@pytest.mark.parametrize("weights", [None, V], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2, 1.0)], ids=repr)
def test_left_out_errors_are_those_of_all_eigenvectors(kernel, weights):
    points = X + 3.0
    gram, other = Gram.of(kernel, points), Gram.of(kernel, points)
    assert gram.rank == kernel.rank(3)
    other.rank = None
    short, long = (centred_spectrum(each, kernel.rounding(points), weights) for each in (gram, other))
    assert (short.values != long.values).any(), "the two are computed in different ways"
    assert short.error <= 2.0 * long.error
    assert_allclose(short.values, long.values, atol=short.error + long.error)
    found, expected = (each.leave_one_out(each.targets(Y), LAMBDAS)[:, :, 0] for each in (short, long))
    for lam, left_out, reference in zip(LAMBDAS, found.T, expected.T, strict=True):
        assert_allclose(left_out, reference, atol=10.0 * (short.error + long.error) / lam + 1e-11)


def test_a_rank_that_is_wrong_is_seen_in_the_measured_error():
    gram = Gram.of(RBF(1.0), RNG.normal(size=(N, 2)))
    gram.rank = 2
    spectrum = centred_spectrum(gram)
    P = np.eye(N) - 1.0 / N
    distance = np.linalg.norm(P @ gram.matrix @ P - (spectrum.basis * spectrum.values) @ spectrum.basis.T, 2)
    assert distance > 1e-2
    assert spectrum.error >= distance


def test_some_of_the_points_keep_the_rank():
    assert Gram.of(Linear(), X).restrict(np.arange(100)).rank == 3
    assert Gram.of(RBF(1.0), X).rank is None
