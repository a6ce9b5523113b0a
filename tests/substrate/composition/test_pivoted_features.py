"""Features from a Cholesky factor with pivots, against those from eigenvectors."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.composition import frames
from substrate.composition.frames import largest_eigenvalue, pivoted_factor
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(N)
EPS = float(np.finfo(np.float64).eps)
KERNELS = [RBF(0.5), RBF(1.5), RBF(6.0), Linear()]


@pytest.fixture
def pivots(monkeypatch):
    monkeypatch.setattr(frames, "_PIVOTED", 2)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_factor_gives_the_matrix_back(kernel):
    K = np.array(kernel(X))
    L = pivoted_factor(K, N * EPS)
    assert L.shape[1] <= np.linalg.matrix_rank(K) + 2
    assert np.abs(L @ L.T - K).max() <= 10.0 * N * EPS * np.linalg.norm(K, 2)


def test_the_largest_eigenvalue_is_bounded_from_below():
    for kernel in KERNELS:
        K = np.array(kernel(X))
        exact = float(np.linalg.eigvalsh(K)[-1])
        assert 0.9 * exact <= largest_eigenvalue(K) <= exact * (1.0 + 1e-12)
    assert largest_eigenvalue(np.zeros((4, 4))) == 0.0


@pytest.mark.parametrize("lowest", [-1e-9, -1e-3, -2.0])
def test_an_indefinite_matrix_has_no_factor_and_is_refused(lowest, pivots):
    Q, _ = np.linalg.qr(RNG.standard_normal((N, N)))
    values = np.linspace(0.0, 1.0, N)
    values[0] = lowest
    K = (Q * values) @ Q.T
    K = (K + K.T) / 2.0
    assert pivoted_factor(K, N * EPS) is None
    s = Substrate("precomputed", K, Y, bias=False)
    with pytest.raises(DeclarationError, match="not positive semi-definite"):
        Machine(s, minimize=s.squared_norm + cp.norm1(s.e))


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_machines_do_not_depend_on_the_factor(kernel, bias, monkeypatch):
    found = []
    for pivoted in (10**9, 2):
        monkeypatch.setattr(frames, "_PIVOTED", pivoted)
        s = Substrate(kernel, X, Y, bias=bias)
        machine = Machine(s, minimize=0.5 * s.squared_norm + 10.0 * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))
        result = machine.solve("CLARABEL")
        assert result.certificate.holds
        found.append((result, dict(machine.certificate().record)["coordinates"]))
    (eigen, first), (pivot, second) = found
    assert first.startswith("features")
    assert second.startswith("features")
    new = RNG.standard_normal((7, 3))
    assert_allclose(pivot.objective, eigen.objective, rtol=1e-8)
    assert_allclose(pivot.predict(new), eigen.predict(new), rtol=0.0, atol=1e-5)
    assert_allclose(pivot.squared_norm, eigen.squared_norm, rtol=1e-5)


def test_a_given_cut_off_is_that_of_eigenvalues(pivots):
    s = Substrate(RBF(1.5), X, Y, cutoff=1e-6)
    machine = Machine(s, minimize=s.squared_norm + cp.norm1(s.e))
    machine.solve()
    assert dict(machine.certificate().record)["coordinates"].startswith("features")
