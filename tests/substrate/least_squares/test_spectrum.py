"""One decomposition gives what the saddle system gives, for every lambda."""

import bordered_system as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.spectrum import centred_spectrum

RNG = np.random.default_rng(2)
X = RNG.normal(size=(24, 3))
Y = RNG.normal(size=(24, 2)) + 5.0
LAMBDAS = np.array([1e-3, 0.1, 7.0, 1e4])
cases = pytest.mark.parametrize("kernel", [RBF(1.5), Laplacian(2.0), Linear(), Polynomial(3, 1.0)], ids=repr)


@cases
def test_everything_equals_the_bordered_system(kernel):
    K = kernel(X)
    spectrum = centred_spectrum(Gram.of(kernel, X))
    targets = spectrum.targets(Y)
    alpha = spectrum.support_values(targets, LAMBDAS)
    bias = spectrum.bias(targets, alpha)
    left_out = spectrum.leave_one_out(targets, LAMBDAS)
    for j, lam in enumerate(LAMBDAS):
        ridge = np.full(24, lam)
        a, b = oracle.solve(K, Y, ridge)
        assert_allclose(alpha[:, j], a, rtol=1e-6, atol=1e-8 * np.abs(a).max())
        assert_allclose(bias[j], b, rtol=1e-7)
        explicit = oracle.leave_one_out(K, Y, ridge)
        assert_allclose(left_out[:, j], explicit, rtol=1e-6, atol=1e-8 * np.abs(explicit).max())
        H = oracle.hat_matrix(K, ridge)
        assert_allclose(1.0 - lam * spectrum.leverages(LAMBDAS)[:, j], H.diagonal(), atol=1e-8)


@cases
def test_the_basis_is_orthonormal_off_the_constant_and_the_gram_matrix_is_left_alone(kernel):
    gram = Gram.of(kernel, X)
    before = gram.matrix.copy()
    spectrum = centred_spectrum(gram)
    assert_allclose(spectrum.basis.T @ spectrum.basis, np.eye(23), atol=1e-12)
    assert_allclose(spectrum.basis.sum(axis=0), 0.0, atol=1e-13)
    assert (gram.matrix == before).all()
    P = np.eye(24) - 1.0 / 24.0
    assert_allclose((spectrum.basis * spectrum.values) @ spectrum.basis.T, P @ before @ P, atol=1e-11 * before.max())
    assert_allclose(spectrum.trace, np.trace(P @ before @ P), rtol=1e-10)


def test_two_rows():
    spectrum = centred_spectrum(Gram.of(RBF(1.0), X[:2]))
    y = np.array([3.0, -1.0])
    assert_allclose(spectrum.leave_one_out(spectrum.targets(y), np.array([0.7]))[:, 0, 0], [4.0, -4.0], rtol=1e-13)
    with pytest.raises(DataError, match="at least two rows"):
        centred_spectrum(Gram.from_matrix(np.ones((1, 1))))


def test_an_indefinite_matrix_is_lifted():
    Q = np.linalg.qr(RNG.normal(size=(10, 10)))[0]
    K = (Q * np.array([-2.0, -0.5, *np.linspace(1.0, 3.0, 8)])) @ Q.T
    K = (K + K.T) / 2.0
    spectrum = centred_spectrum(Gram.from_matrix(K))
    assert 0.5 < spectrum.lift <= 2.0
    assert (spectrum.values >= 0.0).all()
    y = RNG.normal(size=10)
    lam = np.array([4.0])
    a, b = oracle.solve(K, y, np.full(10, 4.0))
    alpha = spectrum.support_values(spectrum.targets(y), lam)
    assert_allclose(alpha[:, 0, 0], a, rtol=1e-10)
    assert_allclose(spectrum.bias(spectrum.targets(y), alpha)[0, 0], b, rtol=1e-10)
    with pytest.raises(SolverError, match="positive definite"):
        spectrum.inverses(np.array([spectrum.lift]))


def test_a_constant_target_is_exactly_nothing_and_units_do_not_matter():
    spectrum = centred_spectrum(Gram.of(RBF(1.0), X))
    constant = spectrum.targets(np.full(24, 0.1))
    assert not constant.coordinates.any()
    assert (spectrum.leave_one_out(constant, LAMBDAS) == 0.0).all()
    plain = spectrum.leave_one_out(spectrum.targets(Y), LAMBDAS)
    for factor in (1e200, 1e-200):
        scaled = spectrum.leave_one_out(spectrum.targets(factor * Y), LAMBDAS)
        assert_allclose(scaled / factor, plain, rtol=1e-11)
    with pytest.raises(DataError, match="24 rows, received 3"):
        spectrum.targets(np.ones(3))


def test_the_decomposition_error_covers_what_is_seen():
    y = np.sin(X[:, 0])
    gram = Gram.of(RBF(40.0), X)  # nearly constant: the worst case for centring
    spectrum = centred_spectrum(gram)
    for lam in (1e-8, 1e-5, 1e-2):
        alpha = spectrum.support_values(spectrum.targets(y), np.array([lam]))[:, 0, 0]
        expected, _ = oracle.solve(np.array(gram.matrix), y, np.full(24, lam))
        seen = np.linalg.norm(alpha - expected) / np.linalg.norm(expected)
        assert seen <= 3.0 * spectrum.decomposition_error(lam) + 1e-13


@pytest.mark.parametrize("rounding", [0.0, 1e-13])
@pytest.mark.parametrize("width", [0.3, 2.0, 20.0])
def test_the_error_of_a_decomposition_is_bounded(width, rounding):
    K = RBF(width)(np.random.default_rng(5).normal(size=(60, 3)))
    spectrum = centred_spectrum(Gram(K.copy()), rounding)
    centring = np.eye(60) - 1.0 / 60.0
    U = spectrum.basis
    V = U @ np.linalg.inv(U.T @ U)
    exact = np.linalg.norm(centring @ K @ centring - (V * spectrum.values) @ V.T, 2) + 60.0 * rounding
    assert exact <= spectrum.error <= 10.0 * exact
    assert spectrum.skew >= 2.0 * np.linalg.norm(U.T @ U - np.eye(59), 2)


@cases
def test_weighted_rows_have_the_diagonal_of_the_weighted_system(kernel):
    K, weights = kernel(X), np.exp(np.linspace(-3.0, 3.0, 24))
    spectrum = centred_spectrum(Gram.of(kernel, X), weights=weights)
    targets = spectrum.targets(Y)
    alpha, left_out = spectrum.support_values(targets, LAMBDAS), spectrum.leave_one_out(targets, LAMBDAS)
    for j, lam in enumerate(LAMBDAS):
        ridge = lam / weights
        a, b = oracle.solve(K, Y, ridge)
        assert_allclose(alpha[:, j], a, rtol=1e-6, atol=1e-8 * np.abs(a).max())
        assert_allclose(spectrum.bias(targets, alpha)[j], b, rtol=1e-7)
        explicit = oracle.leave_one_out(K, Y, ridge)
        assert_allclose(left_out[:, j], explicit, rtol=1e-6, atol=1e-8 * np.abs(explicit).max())
