"""The L1 substrate at one zeta: an independent solver's optimum, exact zeros, an end to every case."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from substrate.datasets import motorcycle
from substrate.fits.l1 import l1_rows, solve_l1, zeta_max
from substrate.fits.paths import correlation_noise, l1_path
from substrate.kernels import RBF


def objective(Phi, y, zeta, a, b):
    return 0.5 * np.sum((y - Phi @ a - b) ** 2) + zeta * np.abs(a).sum()


def reference(Phi, y, zeta):
    """The same problem, written down and handed to Clarabel."""
    a, b = cp.Variable(Phi.shape[1]), cp.Variable()
    cost = 0.5 * cp.sum_squares(y - Phi @ a - b) + zeta * cp.norm1(a)
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(a) == 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may fall short of 1e-11 and say so; 1e-7 is what is compared
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value, a.value, float(b.value)


def assert_solved(Phi, y, zeta, *, compare=True):
    """The rows hold, the coefficients sum to nought, and nobody finds a lower objective."""
    solved = solve_l1(Phi, y, zeta)
    rows = l1_rows(Phi, y, zeta, solved.coefficients, solved.bias)
    assert all(row.passes for row in rows), [(row.name, row.relative) for row in rows]
    if compare:
        best = reference(Phi, y, zeta)[0]
        found = objective(Phi, y, zeta, solved.coefficients, solved.bias)
        assert found - best <= 1e-7 * 0.5 * np.sum((y - y.mean()) ** 2) + 1e-12
    return solved


def gaussian_case(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 1))
    return RBF(1.0)(X), np.sin(X[:, 0]) + 0.2 * rng.normal(size=n)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.3, 0.03, 1e-3])
def test_the_unique_solution_is_that_of_a_conic_solver(share):
    Phi, y = gaussian_case()
    Phi = Phi + 0.3 * np.eye(30)  # well conditioned, so that the coefficients can be compared one by one
    zeta = share * zeta_max(Phi, y)
    solved = assert_solved(Phi, y, zeta)
    _, a, b = reference(Phi, y, zeta)
    assert_allclose(solved.coefficients, a, atol=1e-6 * np.abs(a).max())
    assert_allclose(solved.bias, b, atol=1e-6)
    zeros = solved.coefficients == 0.0
    assert zeros.any() or share == 1e-3
    assert (np.abs(a[zeros]) < 1e-6 * np.abs(a).max()).all()


def matrices(kind, rng, n, p):
    if kind == "gaussian":
        return rng.normal(size=(n, p))
    if kind == "integers":
        return rng.integers(-2, 3, size=(n, p)).astype(float)
    if kind == "low rank":
        factor = rng.normal(size=(n, 2))
        return factor @ factor.T
    X = rng.integers(0, 5, size=(n, 1)).astype(float)  # with ties
    return RBF(float(rng.choice([0.5, 2.0, 20.0, 300.0])))(X)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.sampled_from(["gaussian", "integers", "low rank", "kernel"]),
    st.integers(0, 10**6),
    st.integers(2, 14),
    st.integers(2, 14),
    st.floats(-7.0, 0.1),
)
def test_any_instance(kind, seed, n, p, exponent):
    rng = np.random.default_rng(seed)
    Phi = matrices(kind, rng, n, p)
    y = rng.integers(-2, 3, size=n).astype(float) if kind == "integers" else rng.normal(size=n)
    assert_solved(Phi, y, zeta_max(Phi, y) * 10.0**exponent or 1.0)


# ---- zeros and zeta_max --------------------------------------------------------------------------


@pytest.mark.parametrize("made", [gaussian_case, lambda: (RBF(10.0)(motorcycle()[0]), motorcycle()[1])])
def test_zeta_max_is_where_the_first_atoms_enter(made):
    Phi, y = made()
    largest = zeta_max(Phi, y)
    correlations = Phi.T @ (y - y.mean())
    assert_allclose(largest, (correlations.max() - correlations.min()) / 2.0, rtol=1e-14)
    for factor in (1.0, 1.0 + 1e-9, 2.0, 1e6):
        solved = solve_l1(Phi, y, factor * largest)
        assert_array_equal(solved.coefficients, 0.0)
        assert solved.bias == y.mean()
        assert all(row.passes for row in l1_rows(Phi, y, factor * largest, solved.coefficients, solved.bias))
    for factor in (1.0 - 1e-6, 0.99):
        solved = assert_solved(Phi, y, factor * largest, compare=False)
        assert np.count_nonzero(solved.coefficients) >= 2
    nought = np.zeros(Phi.shape[1])
    rows = l1_rows(Phi, y, (1.0 - 1e-6) * largest, nought, float(y.mean()))
    assert [row.name for row in rows if not row.passes] == ["subgradient bound"]


@pytest.mark.parametrize("sigma", [1.0, 10.0, 1e3, 1e5])
def test_at_zeta_max_no_rounding_turns_a_zero_into_a_small_number(sigma):
    """Another BLAS, another unit: kernel values that differ in the last place, and zeta_max of the ones for the others.

    The wider the kernel, the nearer its columns are to constants, the smaller correlations relative to their rounding.
    """
    rng = np.random.default_rng(0)
    X, y = motorcycle()
    Phi = RBF(sigma)(X)
    for unit in (1.0, 3e7, 1e-7 / 3.0):
        moved = Phi * (1.0 + np.finfo(float).eps * rng.integers(-1, 2, size=Phi.shape))
        largest = zeta_max(Phi, y) * unit
        assert correlation_noise(Phi, unit * (y - y.mean())) >= abs(zeta_max(moved, unit * y) - largest)
        solved = solve_l1(moved, unit * y, largest)
        assert_array_equal(solved.coefficients, 0.0)
        assert_allclose(solved.bias, unit * y.mean(), rtol=1e-12)
        path = l1_path(moved, unit * y, 0.5 * largest)
        assert_array_equal(path.at(largest).primal, 0.0)
        assert_array_equal(l1_path(moved, unit * y, largest).primal.toarray(), 0.0)


# ---- the certificate -----------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.3, 1e-2])
def test_every_tampering_is_seen(share):
    Phi, y = gaussian_case(16)
    zeta = share * zeta_max(Phi, y)
    solved = solve_l1(Phi, y, zeta)
    size = np.abs(solved.coefficients).max()
    assert (solved.coefficients == 0.0).any()

    def broken(a, b):
        return {row.name for row in l1_rows(Phi, y, zeta, a, b) if not row.passes}

    assert not broken(solved.coefficients, solved.bias)
    for i in range(16):
        for change in (1e-4 * size, -1e-4 * size):
            a = solved.coefficients.copy()
            a[i] += change
            assert "1'alpha = 0" in broken(a, solved.bias)
            a[(i + 1) % 16] -= change  # so that the sum is right again
            names = broken(a, solved.bias)
            assert "1'alpha = 0" not in names
            assert names, f"coefficient {i} changed by {change}"
        if solved.coefficients[i] != 0.0:
            a = np.where(np.arange(16) == i, 0.0, solved.coefficients)
            assert broken(a, solved.bias)
    assert broken(-solved.coefficients, solved.bias)
    for change in (1e-4, -1e-4):
        assert "1'e = 0" in broken(solved.coefficients, solved.bias + change)
