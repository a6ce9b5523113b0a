"""Studentised conformal sets and predictive distributions against the inverse of the enlarged bordered matrix."""

import numpy as np
import pytest

from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.uncertainty import studentised
from substrate.uncertainty.influence import LeftOutMachines, kernel_influence
from substrate.uncertainty.levels import rank
from substrate.uncertainty.studentised import (
    PredictiveDistribution,
    pair_groups,
    predictive_distribution,
    studentised_ends,
)


def invert(K, ridge):
    n = K.shape[0]
    M = np.zeros((n + 1, n + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    M[1:, 1:] = K + np.diag(ridge)
    return np.linalg.inv(M)[1:, 1:]


class Case:
    """Rows, new points, and signed scores of all rows of the enlarged set, by its inverse."""

    def __init__(self, n=12, m=4, gamma=3.0, seed=0):
        rng = np.random.default_rng(seed)
        self.kernel, self.gamma = RBF(1.0), gamma
        self.X, self.Z = rng.normal(size=(n, 2)), 1.5 * rng.normal(size=(m, 2))
        self.y = self.X[:, 0] + 0.5 * rng.normal(size=n)
        K = self.kernel(self.X)
        self.ridge = np.full(n, 1.0 / gamma)
        B = invert(K, self.ridge)
        self.alpha = B @ self.y
        b = np.mean(self.y - K @ self.alpha - self.ridge * self.alpha)
        self.fitted = self.kernel(self.Z, self.X) @ self.alpha + b

    def machines(self, ridge=None):
        influence = kernel_influence(Gram(self.kernel(self.X)), self.ridge, lambda Z: self.kernel(Z, self.X))
        home = influence.diagonal
        return LeftOutMachines(influence, self.alpha, self.alpha / home, home, self.gamma, ridge=ridge)

    def given(self):
        return self.fitted, self.Z, self.kernel.diag(self.Z)

    def scores(self, j, grid):
        points = np.append(self.X, self.Z[[j]], axis=0)
        B = invert(self.kernel(points), np.append(self.ridge, 1.0 / self.gamma))
        targets = np.append(np.repeat(self.y[:, None], grid.size, axis=1), grid[None, :], axis=0)
        return B @ targets / np.sqrt(B.diagonal())[:, None]


GROUPS = np.array(list("aabbbababbab"))


@pytest.mark.parametrize(("seed", "gamma"), [(0, 3.0), (1, 1e4), (2, 0.1)])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.some_cases(3)
def test_the_set_and_the_distribution_are_those_of_explicit_scores(seed, gamma, grouped):
    """Hundreds of targets z, all scores by one inverse of the enlarged matrix.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    :place [Vovk2018]_ studentised machine: the thresholds of the distribution
    """
    case = Case(seed=seed, gamma=gamma)
    new = np.array(list("abab"))
    groups = pair_groups(GROUPS, new, 12, 4) if grouped else None
    ends = studentised_ends(case.machines(), *case.given(), 0.7, groups)
    distribution = predictive_distribution(case.machines(), *case.given(), groups)
    for j in range(4):
        rows = new[j] == GROUPS if grouped else np.ones(12, dtype=bool)
        n = int(rows.sum())
        grid = np.linspace(case.fitted[j] - 6.0, case.fitted[j] + 6.0, 301)
        scores = case.scores(j, grid)
        mine, its = scores[:-1][rows], scores[-1]
        clear = np.minimum(np.abs(mine - its), np.abs(np.abs(mine) - np.abs(its))).min(axis=0) > 1e-9
        assert clear.sum() > 280
        inside = (np.abs(mine) < np.abs(its)).sum(axis=0) < rank(0.7, n)
        np.testing.assert_array_equal(inside[clear], ((ends[j, 0] <= grid) & (grid <= ends[j, 1]))[clear])
        at = [distribution.bounds(np.full(4, z))[j] for z in grid[clear]]
        below = (mine < its).sum(axis=0)[clear]
        np.testing.assert_allclose(at, np.column_stack([below, below + 1]) / (n + 1), rtol=1e-14)
        assert distribution.sizes[j] == n


def test_quantiles_intervals_and_scores_of_a_distribution():
    """Order statistics by hand, and the integral of the squared difference over a fine grid."""
    rng = np.random.default_rng(0)
    thresholds = np.sort(rng.normal(size=(2, 9)), axis=1)
    thresholds[1, 5:] = np.inf  # a group of five rows
    distribution = PredictiveDistribution(thresholds, np.array([9, 5]))
    np.testing.assert_array_equal(distribution.quantile(0.5), [thresholds[0, 4], thresholds[1, 2]])
    np.testing.assert_array_equal(distribution.quantile(0.9), [thresholds[0, 8], np.inf])
    np.testing.assert_array_equal(distribution.quantile(0.91), [np.inf, np.inf])
    np.testing.assert_array_equal(distribution.interval(0.8), [[thresholds[0, 0], thresholds[0, 8]], [-np.inf, np.inf]])
    y, grid = np.array([0.3, -0.7]), np.linspace(-6.0, 6.0, 60001)
    for j, n in enumerate((9, 5)):
        F = np.searchsorted(thresholds[j, :n], grid, side="right") / n
        integral = np.sum((F - (grid >= y[j])) ** 2) * (grid[1] - grid[0])
        np.testing.assert_allclose(distribution.crps(y)[j], integral, atol=1e-3)
        np.testing.assert_allclose(distribution.cdf(y)[j], np.mean(thresholds[j, :n] <= y[j]))
    lower, upper = distribution.bounds(0.1).T
    assert ((lower <= distribution.cdf(0.1)) & (distribution.cdf(0.1) <= upper)).all()
    with pytest.raises(DataError, match=r"expected shape \(2,\), received \(3,\)"):
        distribution.cdf(np.zeros(3))
    with pytest.raises(DataError, match="NaN or infinity"):
        distribution.crps(np.array([0.0, np.nan]))
    nothing = PredictiveDistribution(np.full((1, 0), np.inf), np.array([0]))
    assert np.isnan(nothing.cdf(0.0)).all()
    np.testing.assert_array_equal(nothing.crps(0.0), [np.inf])
    np.testing.assert_array_equal(nothing.bounds(0.0), [[0.0, 1.0]])
    np.testing.assert_array_equal(nothing.interval(0.5), [[-np.inf, np.inf]])


@pytest.mark.parametrize("gamma", [0.3, 1e4])
@pytest.mark.parametrize("coverage", [0.6, 0.9, 0.97])
def test_rows_that_have_left_only_count(monkeypatch, gamma, coverage):
    case = Case(n=90, m=40, gamma=gamma)
    some = studentised_ends(case.machines(), *case.given(), coverage)
    monkeypatch.setattr(studentised, "TRIED", 1000)
    np.testing.assert_array_equal(some, studentised_ends(case.machines(), *case.given(), coverage))


def test_few_rows_decide_where_the_bound_allows_it(monkeypatch):
    case, seen = Case(n=200, gamma=0.3), []
    both_sides = studentised._both_sides
    monkeypatch.setattr(
        studentised, "_both_sides", lambda rows, *given: seen.append(len(rows.alpha)) or both_sides(rows, *given)
    )
    studentised_ends(case.machines(), *case.given(), 0.9)
    assert seen == [3 * (201 - rank(0.9, 200))]


def test_slopes_keep_their_digits_where_a_row_determines_the_point():
    """c = 1 and B S = 1e-14: the difference of roots has lost all digits, the quotient none."""
    c, BS = np.array([[1.0, -1.0, 0.0, 0.0]]), np.array([[1e-14, 1e-14, 4.0, 0.0]])
    plus, minus = studentised._slopes(c, BS)
    np.testing.assert_allclose(plus, [[2.0, 5e-15, 2.0, 0.0]], rtol=1e-13)
    np.testing.assert_allclose(minus, [[5e-15, 2.0, 2.0, 0.0]], rtol=1e-13)
    np.testing.assert_array_equal(
        studentised._quotient(np.array([1.0, -2.0, 0.0]), np.zeros((1, 3))), [[np.inf, -np.inf, 0.0]]
    )


def test_unequal_weights_and_wrong_groups_are_refused():
    case = Case()
    unequal = case.machines(np.where(GROUPS == "a", 0.1, 0.2))
    for compute in (lambda *given: studentised_ends(*given[:4], 0.9, *given[4:]), predictive_distribution):
        with pytest.raises(DataError, match="need rows of equal weight, in groups within each group"):
            compute(unequal, *case.given())
        compute(unequal, *case.given(), pair_groups(GROUPS, GROUPS[:4], 12, 4))
        with pytest.raises(DataError, match="need rows of equal weight"):
            compute(unequal, *case.given(), pair_groups(GROUPS[::-1].copy(), GROUPS[:4], 12, 4))
    with pytest.raises(DataError, match=r"expected 12 labels of the training rows, received shape \(11,\)"):
        pair_groups(GROUPS[1:], GROUPS[:4], 12, 4)
    with pytest.raises(DataError, match=r"expected 4 labels of the new rows, received shape \(3,\)"):
        pair_groups(GROUPS, GROUPS[:3], 12, 4)
    with pytest.raises(DataError, match="must be of one kind"):
        pair_groups(GROUPS, np.arange(4), 12, 4)
    with pytest.raises(DataError, match="strings or finite numbers; those of the new rows are not"):
        pair_groups(np.arange(12.0), np.array([0.0, np.nan, 1.0, 2.0]), 12, 4)
    unknown = studentised_ends(case.machines(), *case.given(), 0.5, pair_groups(GROUPS, np.array(list("cabc")), 12, 4))
    assert np.isinf(unknown[[0, 3]]).all()
    assert np.isfinite(unknown[[1, 2]]).all()


def test_no_row_leaves_later_than_it_is_said_to():
    """At every point, on either side; at a single point that is exactly where the row leaves."""
    rng = np.random.default_rng(5)
    alpha, diagonal = rng.normal(size=9), rng.uniform(0.1, 2.0, 9)
    c, S = rng.normal(size=(4, 9)), rng.uniform(0.5, 3.0, 4)
    for points in (slice(0, 4), slice(1, 2)):
        compared = studentised._Compared(alpha, diagonal)
        plus, minus = studentised._slopes(c[points], diagonal * S[points][:, None])
        leaves = (S[points][:, None] * np.abs(alpha) / np.minimum(plus, minus)).max(axis=0)
        latest = studentised._latest(compared, c[points], S[points])
        assert (leaves <= latest * (1.0 + 1e-12)).all()
    np.testing.assert_allclose(leaves, latest, rtol=1e-12)
