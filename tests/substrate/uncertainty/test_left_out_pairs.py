"""Left-out pairs of rows, and the weights of a stack, against explicit refits and a convex solver."""

import cvxpy as cp
import numpy as np
import pytest

from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import RBF, Laplacian, Linear
from substrate.least_squares.simplex_weights import bound_stack, weigh_by_products, weigh_machines
from substrate.uncertainty.influence import LeftOutMachines, kernel_influence
from substrate.uncertainty.left_out_pairs import nested_stack_weights, pair_residuals

RNG = np.random.default_rng(2)
N = 11
X = RNG.normal(size=(N, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=N)
V = RNG.uniform(0.3, 3.0, N)
KERNELS = ((RBF(1.0), 5.0), (Laplacian(2.0), 20.0), (Linear(), 1.0), (RBF(0.3), 1.0))


def solve(kernel, ridge, points, targets, at):
    n = targets.size
    M = np.zeros((n + 1, n + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    M[1:, 1:] = kernel(points) + np.diag(ridge)
    s = np.linalg.solve(M, np.append(0.0, targets))
    return kernel(at, points) @ s[1:] + s[0], s[1:]


def left_out(kernel, gamma, rest):
    """The left-out errors of some rows, each by a refit without it."""
    errors = np.empty(rest.size)
    for place, j in enumerate(rest):
        others = rest[rest != j]
        errors[place] = Y[j] - solve(kernel, 1.0 / (gamma * V[others]), X[others], Y[others], X[[j]])[0][0]
    return errors


def machines(kernel, gamma):
    ridge = 1.0 / (gamma * V)
    influence = kernel_influence(Gram(kernel(X)), ridge, lambda Z: kernel(Z, X))
    alpha = solve(kernel, ridge, X, Y, X)[1]
    home = influence.diagonal
    return LeftOutMachines(influence, alpha, alpha / home, home, gamma, ridge=ridge)


def nested_errors(errors, pairs, rows, pooled=False):
    """The errors of rows in the stack whose machines and weights have not seen them."""
    return np.einsum("ikm,ikm->ik", nested_stack_weights(errors, pairs, V, pooled), errors[rows])


def by_solver(errors, weights):
    u = cp.Variable(errors.shape[1], nonneg=True)
    scaled = np.sqrt(weights / weights.sum())[:, None] * errors
    problem = cp.Problem(cp.Minimize(cp.sum_squares(scaled @ u)), [cp.sum(u) == 1])
    problem.solve(solver=cp.CLARABEL)
    return np.asarray(u.value), float(np.sqrt(problem.value))


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_pairs_are_those_of_explicit_refits(number):
    kernel, gamma = KERNELS[number]
    found = pair_residuals([machines(kernel, gamma)], X, kernel.diag(X), np.arange(N))[:, :, 0]
    for i in range(N):
        rest = np.flatnonzero(np.arange(N) != i)
        np.testing.assert_allclose(found[i, rest], left_out(kernel, gamma, rest), atol=1e-9)
        assert np.isnan(found[i, i])


@pytest.mark.parametrize("entries", [False, True])
def test_lines_of_the_inverse_are_those_of_the_bordered_matrix(entries):
    kernel, ridge, rows = RBF(1.0), 1.0 / (5.0 * V), np.array([0, 3, 10])
    M = np.zeros((N + 1, N + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    M[1:, 1:] = kernel(X) + np.diag(ridge)
    influence = kernel_influence(Gram(kernel(X)), ridge, lambda Z: kernel(Z, X), entries=entries)
    np.testing.assert_allclose(influence.lines(rows), np.linalg.inv(M)[1:, 1:][rows], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(influence.lines(rows)[:, rows].diagonal(), influence.diagonal[rows], rtol=1e-9)


def test_the_error_of_a_stack_is_that_of_whole_refits():
    """For every row: machines without it, their left-out errors, the weights of those by a solver, the row's error."""
    members, every = [[machines(*pair)] for pair in KERNELS], np.arange(N)
    errors = np.stack([outputs[0].residuals for outputs in members], axis=1)[:, None, :]
    found_pairs = [
        pair_residuals(outputs, X, kernel.diag(X), every) for outputs, (kernel, _) in zip(members, KERNELS, strict=True)
    ]
    pairs = np.stack(found_pairs, axis=3)
    found = nested_errors(errors, pairs, every)[:, 0]
    for i in (0, 4, 10):
        rest = np.flatnonzero(np.arange(N) != i)
        u, _ = by_solver(np.column_stack([left_out(*pair, rest) for pair in KERNELS]), V[rest])
        at = [solve(kernel, 1.0 / (gamma * V[rest]), X[rest], Y[rest], X[[i]])[0][0] for kernel, gamma in KERNELS]
        np.testing.assert_allclose(found[i], Y[i] - np.dot(u, at), atol=2e-5)
    few = nested_errors(errors, pairs[[4, 10]], np.array([4, 10]))
    np.testing.assert_allclose(few[:, 0], found[[4, 10]], atol=1e-9)
    twice = np.repeat(errors, 2, axis=1), np.repeat(pairs, 2, axis=2)
    pooled = nested_errors(*twice, every, pooled=True)
    np.testing.assert_allclose(pooled, np.column_stack([found, found]), atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9, 1e-160])
def test_weights_are_those_of_a_convex_solver_and_bounded(scale):
    """Breiman's stack of left-out errors.

    :place [Breiman1996]_ stacked regressions: non-negative weights from left-out predictions
    """
    errors = np.column_stack([machines(*pair).residuals for pair in KERNELS])
    u = weigh_machines(scale * errors, V)
    theirs, value = by_solver(errors, V)
    np.testing.assert_allclose(u, theirs, atol=1e-5)
    assert (u >= 0.0).all()
    assert abs(u.sum() - 1.0) < 1e-15
    gap = bound_stack(scale * errors, V, u, scale * float(np.abs(Y).max()))
    np.testing.assert_allclose(np.array([gap.error, gap.lower_bound]) / scale, value, rtol=1e-6)
    assert gap.lower_bound <= gap.error
    assert gap.row.passes
    wrong = bound_stack(scale * errors, V, np.array([0.1, 0.2, 0.3, 0.4]), scale * float(np.abs(Y).max()))
    assert wrong.lower_bound / scale <= value * (1.0 + 1e-6), "below the optimum, whatever the weights are"
    assert not wrong.row.passes
    scaled = np.sqrt(V)[:, None] * errors
    np.testing.assert_allclose(weigh_by_products((scaled.T @ scaled)[None])[0], u, atol=1e-9)


def test_errors_that_vanish_tie_or_repeat():
    np.testing.assert_array_equal(weigh_machines(np.zeros((5, 4)), np.ones(5)), np.full(4, 0.25))
    assert bound_stack(np.zeros((5, 4)), np.ones(5), np.full(4, 0.25), 7.0).row.passes
    errors = RNG.normal(size=(9, 1))
    for twice in (np.hstack([errors, errors]), np.hstack([errors, 2.0 * errors])):
        u = weigh_machines(twice, np.ones(9))
        gap = bound_stack(twice, np.ones(9), u, 1.0)
        np.testing.assert_allclose([gap.error, gap.lower_bound], np.sqrt(np.mean(errors**2)), rtol=1e-12)
    opposite = np.hstack([errors, -errors])
    assert bound_stack(opposite, np.ones(9), weigh_machines(opposite, np.ones(9)), 1.0).row.passes, "zero is reached"
    weights = np.append(1e8, np.full(8, 1e-30))
    u = weigh_machines(RNG.normal(size=(9, 3)), weights)
    assert np.isfinite(u).all()
    with pytest.raises(DataError, match="needs three rows"):
        nested_stack_weights(np.ones((2, 1, 1)), np.ones((2, 2, 1, 1)), np.ones(2))
