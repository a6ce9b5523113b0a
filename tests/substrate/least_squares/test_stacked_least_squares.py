"""Least squares on stacked rows: a plain lstsq after eliminating 1'a = 0, projections, and the cut-off."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DeclarationError
from substrate.kernels import RBF
from substrate.least_squares.stacked_least_squares import CUTOFF, StackedBasis, solve_stacked, stacked_rows


def eliminated(Phi, t):
    """a_N = -(a_1 + ... + a_{N-1}) put into (22), and numpy's lstsq on what is left."""
    differences = Phi[:, :-1] - Phi[:, -1:]
    solution = np.linalg.lstsq(np.column_stack([differences, np.ones(t.size)]), t, rcond=1e-12)[0]
    a = np.append(solution[:-1], -solution[:-1].sum())
    return a, solution[-1], t - Phi @ a - solution[-1]


def case(n=20, p=9, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)), rng.normal(size=n)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "p"), [(20, 9), (10, 9), (30, 2), (3, 2)])
def test_full_rank_is_the_eliminated_system(n, p):
    """:equation [Pelckmans2005]_ (22): against numpy on the eliminated system."""
    Phi, t = case(n, p)
    solved = solve_stacked(Phi, t)
    a, b, e = eliminated(Phi, t)
    assert_allclose(solved.coefficients, a, atol=1e-9 * np.abs(a).max())
    assert_allclose(solved.bias, b, atol=1e-9)
    assert_allclose(solved.errors, e, atol=1e-10)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 15), st.integers(2, 12), st.sampled_from(["full", "low rank", "tied"]))
def test_the_errors_are_unique_whatever_the_rank(seed, n, p, kind):
    rng = np.random.default_rng(seed)
    Phi, t = rng.normal(size=(n, p)), rng.normal(size=n)
    if kind == "low rank":
        Phi = Phi[:, :1] * rng.normal(size=p)
    elif kind == "tied":
        Phi = Phi[:, rng.integers(0, p, size=p)]
    solved = solve_stacked(Phi, t)
    assert_allclose(solved.errors, eliminated(Phi, t)[2], atol=1e-8)
    assert_allclose(t - Phi @ solved.coefficients - solved.bias, solved.errors, atol=1e-8)
    assert_allclose(solved.coefficients.sum(), 0.0, atol=1e-9 * (1.0 + np.abs(solved.coefficients).sum()))


def test_the_coefficients_are_the_shortest():
    rng = np.random.default_rng(1)
    Phi, t = rng.normal(size=(6, 14)), rng.normal(size=6)  # more unknowns than rows
    solved = solve_stacked(Phi, t)
    assert_allclose(solved.errors, 0.0, atol=1e-12)
    # every null vector of centred rows that sums to nought makes it longer
    null = np.linalg.svd(np.vstack([Phi - Phi.mean(axis=0), np.ones(14)]))[2][6:]
    assert_allclose(null @ solved.coefficients, 0.0, atol=1e-12)


# ---- laws ----------------------------------------------------------------------------------------


def test_the_errors_are_orthogonal_to_all_that_can_be_fitted():
    Phi, t = case()
    e = solve_stacked(Phi, t).errors
    assert_allclose(e.sum(), 0.0, atol=1e-12)
    differences = Phi[:, :-1] - Phi[:, -1:]  # a basis of the values with 1'a = 0
    assert_allclose(differences.T @ e, 0.0, atol=1e-11)


def test_the_basis_is_orthonormal_and_leads_back():
    Phi, _ = case()
    basis = StackedBasis.of(Phi, CUTOFF)
    assert basis.rank == 8  # one of the nine directions is not a sum of zero
    assert_allclose(basis.values.T @ basis.values, np.eye(8), atol=1e-12)
    assert_allclose(basis.values.sum(axis=0), 0.0, atol=1e-12)
    assert_allclose(basis.coefficients.sum(axis=0), 0.0, atol=1e-12)
    assert_allclose((Phi - Phi.mean(axis=0)) @ basis.coefficients, basis.values, atol=1e-11)


def test_a_larger_cutoff_keeps_fewer_directions_and_fits_no_better():
    rng = np.random.default_rng(3)
    X, t = rng.uniform(-2.0, 2.0, size=(40, 1)), rng.normal(size=40)
    Phi = RBF(1.5)(X, X[:20])
    cutoffs = [1e-14, 1e-10, 1e-6, 1e-3, 0.1, 0.99]
    ranks = [StackedBasis.of(Phi, cutoff).rank for cutoff in cutoffs]
    costs = [np.sum(solve_stacked(Phi, t, cutoff).errors ** 2) for cutoff in cutoffs]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] > ranks[-1] == 1
    assert (np.diff(costs) >= -1e-12).all()
    sizes = [np.abs(solve_stacked(Phi, t, cutoff).coefficients).max() for cutoff in cutoffs]
    assert sizes[-1] < sizes[0]


@pytest.mark.parametrize("made", [np.zeros, np.ones], ids=["zeros", "ones"])
def test_values_that_say_nothing_leave_the_mean(made):
    t = np.arange(6.0)
    solved = solve_stacked(made((6, 4)), t)
    assert_array_equal(solved.coefficients, 0.0)
    assert solved.bias == 2.5
    assert_array_equal(solved.errors, t - 2.5)
    assert StackedBasis.of(made((6, 4)), CUTOFF).rank == 1


@pytest.mark.parametrize("factor", [1e12, 1e-12, -1.0])
def test_units_of_the_target(factor):
    Phi, t = case()
    one, other = solve_stacked(Phi, t), solve_stacked(Phi, factor * t)
    assert_allclose(other.errors / factor, one.errors, atol=1e-12)
    assert_allclose(other.coefficients / factor, one.coefficients, rtol=1e-9)
    rows = stacked_rows(StackedBasis.of(Phi, CUTOFF), factor * t, other.errors, 1e-10)
    assert all(row.passes for row in rows)


# ---- the certificate -----------------------------------------------------------------------------


def test_errors_that_were_changed_are_seen():
    Phi, t = case()
    basis, e = StackedBasis.of(Phi, CUTOFF), solve_stacked(Phi, t).errors

    def broken(errors):
        return {row.name for row in stacked_rows(basis, t, errors, 1e-9) if not row.passes}

    assert not broken(e)
    for i in range(t.size):
        assert "1'e = 0" in broken(e + 1e-6 * (np.arange(t.size) == i))
    for column in basis.values.T:
        assert broken(e + 1e-6 * column) == {"errors orthogonal to f"}
    assert broken(t)


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cutoff", [0.0, -1.0, np.nan, np.inf, None, "1e-9", True])
def test_a_cutoff_is_a_positive_number(cutoff):
    Phi, t = case()
    with pytest.raises(DeclarationError, match="cutoff must be"):
        solve_stacked(Phi, t, cutoff)
