"""The sparsity term and its two certificate rows: they hold at the optimum and nowhere near it."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.fits.l1 import solve_l1, zeta_max
from substrate.ingredients import sparsity, sparsity_rows
from substrate.kernels import RBF


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(18, 1))
    Phi, y = RBF(1.0)(X), np.sin(X[:, 0]) + 0.2 * rng.normal(size=18)
    return Phi, y, 0.1 * zeta_max(Phi, y)


def errors(Phi, y, a):
    e = y - Phi @ a
    return e - e.mean()


def broken(Phi, y, a, zeta, tolerance=1e-8):
    return {row.name for row in sparsity_rows(Phi, y, errors(Phi, y, a), a, zeta, tolerance) if not row.passes}


def test_the_term_is_the_weighted_1_norm_and_dpp():
    a, weight = cp.Variable(3), cp.Parameter(nonneg=True, value=2.0)
    term = sparsity(a, weight)
    a.value = np.array([1.0, -2.0, 0.0])
    assert_allclose(term.value, 6.0)
    assert term.is_convex()
    assert term.is_dpp()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_rows_hold_at_the_optimum(case, sign):
    Phi, y, zeta = case
    a = solve_l1(Phi, sign * y, zeta).coefficients
    assert not broken(Phi, sign * y, a, zeta)


def test_each_row_sees_what_it_is_for(case):
    Phi, y, zeta = case
    a = solve_l1(Phi, y, zeta).coefficients
    assert "subgradient bound" in broken(Phi, y, 0.0 * a, zeta), "zeros where an atom should be in use"
    assert broken(Phi, y, a, 1.01 * zeta)
    assert broken(Phi, y, a, 0.99 * zeta)
    assert "subgradient slackness" in broken(Phi, y, -a, zeta)
    size = np.abs(a).max()
    for i in range(a.size):
        changed = a.copy()
        changed[i] += 1e-3 * size
        changed[(i + 1) % a.size] -= 1e-3 * size
        assert broken(Phi, y, changed, zeta), f"coefficient {i}"
