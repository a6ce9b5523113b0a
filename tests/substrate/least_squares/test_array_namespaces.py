"""The closed forms under every array namespace there is, against numpy's."""

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender

from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning, SolverError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Precomputed
from substrate.least_squares.criteria import LeaveOneOut
from substrate.least_squares.evidence import GeneralizedCrossValidation
from substrate.least_squares.leave_one_out import projected_diagonal
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system
from substrate.least_squares.spectrum import centred_spectrum
from substrate.search.gamma_search import lambda_range, search_range

everywhere = pytest.mark.parametrize("home", HOMES)


def data(n=60, d=3, outputs=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, :1]) + 0.3 * rng.normal(size=(n, outputs)), rng.uniform(0.5, 2.0, size=n)


@everywhere
@pytest.mark.parametrize("gamma", [1.0, 1e8])
@pytest.mark.parametrize("unit", [1.0, 1e80])
@pytest.mark.some_cases(4)
def test_the_saddle_system(home, gamma, unit):
    send, (X, Y, v) = sender(home), data()
    ridge = ridge_of(gamma, v)
    wanted = solve_saddle_system(Gram.of(RBF(1.0), X), unit * Y, ridge)
    found = solve_saddle_system(Gram.of(RBF(1.0), send(X)), send(unit * Y), ridge_of(gamma, send(v)))
    tolerance = 1e-10 if gamma == 1.0 else 1e-6
    for name in ("support_values", "bias", "products"):
        assert_close(getattr(found, name), getattr(wanted, name), tolerance)
    one = solve_saddle_system(Gram.of(RBF(1.0), send(X)), send(unit * Y[:, 0]), ridge_of(gamma, send(v)))
    assert_close(one.support_values, wanted.support_values[:, 0], tolerance)


@everywhere
def test_leave_one_out_by_factor_and_by_spectrum(home):
    send, (X, Y, _) = sender(home), data()
    gram, there = Gram.of(RBF(1.0), X), Gram.of(RBF(1.0), send(X))
    ridge = np.full(60, 0.5)
    assert_close(projected_diagonal(there, send(ridge)), projected_diagonal(gram, ridge))
    lambdas = np.array([1e-3, 0.5, 20.0])
    spectrum, found = centred_spectrum(gram), centred_spectrum(there)
    assert_close(found.leverages(lambdas), spectrum.leverages(lambdas))
    assert_close(found.values, spectrum.values)
    a, b = spectrum.targets(Y), found.targets(send(Y))
    assert_close(found.leave_one_out(b, lambdas), spectrum.leave_one_out(a, lambdas))
    alpha, known = found.support_values(b, lambdas), spectrum.support_values(a, lambdas)
    assert_close(alpha, known)
    assert_close(found.bias(b, alpha), spectrum.bias(a, known))


@everywhere
@pytest.mark.parametrize("kind", [LeaveOneOut, GeneralizedCrossValidation])
@pytest.mark.parametrize("pooled", [False, True])
def test_the_best_gamma(home, kind, pooled, monkeypatch):
    monkeypatch.setattr("substrate.arrays._BLOCK_ENTRIES", 60 * 25)
    send, (X, Y, _) = sender(home), data()
    here = kind.of(centred_spectrum(Gram.of(RBF(1.0), X)), Y, pooled=pooled)
    there = kind.of(centred_spectrum(Gram.of(RBF(1.0), send(X))), send(Y), pooled=pooled)
    wanted, found = (search_range(c, lambda_range([c.spectrum]), 1e-4) for c in (here, there))
    np.testing.assert_allclose(found.criterion, wanted.criterion, rtol=1e-9)
    np.testing.assert_allclose(found.gamma, wanted.gamma, rtol=1e-5)
    assert found.is_closed


@everywhere
def test_what_a_device_cannot_factor_is_refused(home):
    send, X = sender(home), data()[0]
    gram = Gram.of(Linear(), send(X))
    with pytest.raises(DeclarationError, match="factorize"):
        gram.solve(send(np.ones((60, 1))))

    def solved():
        gram.factorize(send(np.full(60, -1.0)))
        return gram.solve(send(np.ones((60, 1))))  # where a factor is checked at the latest

    with pytest.raises(SolverError, match="not positive definite"):
        solved()
    assert_close(gram.matrix, X @ X.T)  # as it was
    with pytest.raises((DeclarationError, SolverError), match=r"factorize|not positive definite"):
        gram.inverse_factor()


@everywhere
def test_a_given_matrix_is_checked(home):
    send, X = sender(home), data()[0]
    K = X @ X.T
    with pytest.raises(DataError, match="not symmetric"):
        Gram.of(Precomputed(), send(np.tril(K)))
    with pytest.raises(DataError, match="must be square"):
        Gram.of(Precomputed(), send(K[:5]))
    with pytest.warns(IndefiniteKernelWarning, match="smallest eigenvalue -"):
        Gram.of(Precomputed(), send(K - np.eye(60))).check_definite()
    part = Gram(send(K)).restrict([4, 2])
    assert_close(part.matrix, K[np.ix_([4, 2], [4, 2])])
