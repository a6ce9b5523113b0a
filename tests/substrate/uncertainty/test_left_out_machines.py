"""All machines without one row, and the enlarged machine, against the inverse of the bordered matrix."""

import numpy as np
import pytest
from scipy.special import ndtri

from substrate.errors import IndefiniteKernelWarning
from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.uncertainty.influence import FeatureInfluence, LeftOutMachines, kernel_influence
from substrate.uncertainty.intervals import (
    gaussian_ends,
    jackknife_plus,
    kth_smallest,
    noise_of_targets,
    rank,
)


def bordered(K, ridge):
    n = K.shape[0]
    M = np.zeros((n + 1, n + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    M[1:, 1:] = K + np.diag(ridge)
    return M


def solved(K, ridge, y):
    return np.linalg.solve(bordered(K, ridge), np.concatenate([np.zeros((1, *y.shape[1:])), y]))


class Case:
    """Rows, targets, weights, new points, and everything by explicit solves."""

    def __init__(self, n=12, m=7, gamma=3.0, seed=0, noise=0.5, kernel=None):
        rng = np.random.default_rng(seed)
        self.kernel = RBF(1.0) if kernel is None else kernel
        self.X, self.Z, self.gamma = rng.normal(size=(n, 2)), 1.5 * rng.normal(size=(m, 2)), gamma
        self.y = self.X[:, 0] + noise * rng.normal(size=n)
        self.v = rng.uniform(0.3, 3.0, n)
        self.ridge = 1.0 / (gamma * self.v)
        self.K, self.Q = self.kernel(self.X), self.kernel(self.Z, self.X)
        s = solved(self.K, self.ridge, self.y)
        self.b, self.alpha = s[0], s[1:]
        self.fitted = self.Q @ self.alpha + self.b

    def machines(self):
        influence = kernel_influence(Gram(self.K.copy()), self.ridge, lambda Z: self.kernel(Z, self.X))
        return LeftOutMachines(influence, self.alpha, self.alpha / influence.diagonal, self.ridge)

    def without(self, i):
        """The machine without row i: its predictions at the new points, and its error at the row."""
        rest = np.arange(self.y.size) != i
        s = solved(self.K[np.ix_(rest, rest)], self.ridge[rest], self.y[rest])
        at = np.append(self.Q[:, rest], self.K[i, rest][None, :], axis=0) @ s[1:] + s[0]
        return at[:-1], self.y[i] - at[-1]

    def given(self):
        return self.fitted, self.Z, self.kernel.diag(self.Z)


def at(influence, case):
    return influence.at(influence.represent(case.Z), case.kernel.diag(case.Z))


@pytest.mark.parametrize("seed", range(3))
def test_one_product_gives_all_machines_at_all_points(seed):
    case = Case(seed=seed)
    machines = case.machines()
    ((some, c, p),) = machines.blocks(case.Z, case.kernel.diag(case.Z))
    assert some == slice(0, 7)
    for i in range(case.y.size):
        outputs, residual = case.without(i)
        np.testing.assert_allclose(case.fitted - c[:, i] * machines.residuals[i], outputs, atol=1e-12)
        np.testing.assert_allclose(machines.residuals[i], residual, atol=1e-12)
    q = np.concatenate([np.ones((7, 1)), case.Q], axis=1)
    inside = np.einsum("ij,ij->i", q, np.linalg.solve(bordered(case.K, case.ridge), q.T).T)
    np.testing.assert_allclose(p, case.kernel.diag(case.Z) - inside, atol=1e-12)


def test_a_matrix_without_a_cholesky_factor_is_inverted():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    K, ridge, rows = A + A.T, np.full(6, 0.1), rng.normal(size=(4, 6))
    with pytest.warns(IndefiniteKernelWarning):
        influence = kernel_influence(Gram(K.copy()), ridge, lambda Z: Z.copy())
    assert not influence.triangular
    C = np.linalg.inv(bordered(K, ridge))
    q = np.concatenate([np.ones((4, 1)), rows], axis=1)
    c, p = influence.at(rows.copy(), np.full(4, 50.0))
    np.testing.assert_allclose(c, (q @ C)[:, 1:], atol=1e-10)
    np.testing.assert_allclose(p, 50.0 - np.einsum("ij,ij->i", q @ C, q), atol=1e-9)
    np.testing.assert_allclose(influence.diagonal, C.diagonal()[1:], atol=1e-10)


@pytest.mark.parametrize("coverage", [0.2, 0.5, 0.75, 0.9])
def test_jackknife_intervals_are_those_of_explicit_refits(coverage):
    """One refit per row, and order statistics of what they predict.

    :place [Barber2021]_ jackknife+: the interval from left-out machines and residuals
    """
    case = Case()
    n, k = case.y.size, rank(coverage, case.y.size)
    outputs, residuals = zip(*(case.without(i) for i in range(n)), strict=True)
    outputs, sizes = np.array(outputs), np.abs(residuals)
    low, high = np.sort(outputs - sizes[:, None], axis=0)[n - k], np.sort(outputs + sizes[:, None], axis=0)[k - 1]
    plus = jackknife_plus(case.machines(), *case.given(), coverage)
    np.testing.assert_allclose(plus, np.column_stack([low, high]), atol=1e-11)


def test_features_give_what_the_kernel_gives():
    case = Case(kernel=Linear(), gamma=0.7)
    pulls = 1.0 / case.ridge
    center = pulls @ case.X / pulls.sum()
    centred = case.X - center
    root = np.linalg.cholesky(np.eye(2) + (centred.T * pulls) @ centred)

    def represent(Z):
        return np.linalg.solve(root, (Z - center).T).T

    influence = FeatureInfluence(represent, represent(case.X), pulls)
    other = case.machines().influence
    np.testing.assert_allclose(influence.diagonal, other.diagonal, atol=1e-10)
    for mine, its in zip(at(influence, case), at(other, case), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-10)


def test_error_bars_are_those_of_the_gaussian_process():
    """With a wide prior on b the process of covariance gamma s^2 k has this mean and this variance."""
    case = Case()
    noise = float(noise_of_targets(case.y[:, None], case.alpha[:, None], (case.gamma,))[0])
    wide = 1e6
    prior = case.gamma * noise * case.K + wide + np.diag(noise / case.v)
    across = case.gamma * noise * case.Q + wide
    mean = across @ np.linalg.solve(prior, case.y)
    variance = case.gamma * noise * case.kernel.diag(case.Z) + wide + noise
    variance = variance - np.einsum("ij,ij->i", across, np.linalg.solve(prior, across.T).T)
    np.testing.assert_allclose(case.fitted, mean, atol=1e-5)
    deviations = np.sqrt(noise * (case.gamma * case.machines().spread(case.Z, case.kernel.diag(case.Z)) + 1.0))
    np.testing.assert_allclose(deviations**2, variance, rtol=1e-4)
    ends = gaussian_ends(case.fitted, deviations, 0.9)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / (2.0 * deviations), ndtri(0.95), rtol=1e-12)


def test_the_noise_variance_is_where_the_evidence_is_largest():
    case = Case()
    noise = float(noise_of_targets(case.y[:, None] + 7.0, case.alpha[:, None], (case.gamma,))[0])
    # the likelihood of y without its mean: contrasts by any orthonormal basis off the direction 1
    Q = np.linalg.qr(np.column_stack([np.ones(12), np.eye(12)[:, 1:]]))[0][:, 1:]

    def evidence(s2):
        S = Q.T @ (s2 * case.gamma * (case.K + np.diag(case.ridge))) @ Q
        z = Q.T @ case.y
        return -0.5 * (z @ np.linalg.solve(S, z) + np.linalg.slogdet(S)[1])

    assert evidence(noise) > max(evidence(0.99 * noise), evidence(1.01 * noise))
    assert evidence(noise) - evidence(1.0001 * noise) < 1e-6


def test_ranks_that_run_out_are_infinite():
    values = np.array([[3.0, 1.0, 2.0]])
    assert [float(kth_smallest(values, k)[0]) for k in range(5)] == [-np.inf, 1.0, 2.0, 3.0, np.inf]
    case = Case(n=3, gamma=1.0)
    np.testing.assert_array_equal(jackknife_plus(case.machines(), *case.given(), 0.9), [[-np.inf, np.inf]] * 7)
