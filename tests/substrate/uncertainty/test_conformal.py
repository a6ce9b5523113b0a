"""Full conformal sets against the inverse of the enlarged bordered matrix."""

import numpy as np
import pytest

from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.uncertainty import intervals
from substrate.uncertainty.influence import LeftOutMachines, kernel_influence
from substrate.uncertainty.intervals import conformal_ends, rank, split_ends


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
        given = self.ridge if ridge is None else ridge
        return LeftOutMachines(influence, self.alpha, self.alpha / influence.diagonal, given)

    def given(self):
        return self.fitted, self.Z, self.kernel.diag(self.Z)

    def scores(self, j, grid):
        points = np.append(self.X, self.Z[[j]], axis=0)
        B = invert(self.kernel(points), np.append(self.ridge, 1.0 / self.gamma))
        targets = np.append(np.repeat(self.y[:, None], grid.size, axis=1), grid[None, :], axis=0)
        return B @ targets / np.sqrt(B.diagonal())[:, None]


@pytest.mark.parametrize(("seed", "gamma"), [(0, 3.0), (1, 1e4), (2, 0.1)])
def test_the_set_is_that_of_explicit_scores(seed, gamma):
    """Hundreds of targets z, all scores by one inverse of the enlarged matrix.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    """
    case = Case(seed=seed, gamma=gamma)
    ends = conformal_ends(case.machines(), *case.given(), 0.7)
    for j in range(4):
        grid = np.linspace(case.fitted[j] - 6.0, case.fitted[j] + 6.0, 301)
        scores = case.scores(j, grid)
        mine, its = np.abs(scores[:-1]), np.abs(scores[-1])
        clear = np.abs(mine - its).min(axis=0) > 1e-9
        assert clear.sum() > 280
        inside = (mine < its).sum(axis=0) < rank(0.7, 12)
        np.testing.assert_array_equal(inside[clear], ((ends[j, 0] <= grid) & (grid <= ends[j, 1]))[clear])


def test_slopes_keep_their_digits_where_a_row_determines_the_point():
    """c = 1 and B S = 1e-14: the difference of roots has lost all digits, the quotient none."""
    c, BS = np.array([[1.0, -1.0, 0.0, 0.0]]), np.array([[1e-14, 1e-14, 4.0, 0.0]])
    plus, minus = intervals._slopes(c, BS)
    np.testing.assert_allclose(plus, [[2.0, 5e-15, 2.0, 0.0]], rtol=1e-13)
    np.testing.assert_allclose(minus, [[5e-15, 2.0, 2.0, 0.0]], rtol=1e-13)
    np.testing.assert_array_equal(
        intervals._quotient(np.array([1.0, 2.0, 0.0]), np.zeros((1, 3))), [[np.inf, np.inf, 0.0]]
    )


def test_unequal_weights_are_refused():
    case = Case()
    with pytest.raises(DataError, match="needs rows of equal weight"):
        conformal_ends(case.machines(np.linspace(0.1, 0.2, 12)), *case.given(), 0.9)


def test_ranks_that_run_out_are_infinite_and_rows_without_error_have_no_width():
    three = Case(n=3, m=2, gamma=1.0)
    np.testing.assert_array_equal(conformal_ends(three.machines(), *three.given(), 0.9), [[-np.inf, np.inf]] * 2)
    scores = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(split_ends(scores, np.zeros(1), 0.75), [[-3.0, 3.0]])
    np.testing.assert_array_equal(split_ends(scores, np.zeros(1), 0.76), [[-np.inf, np.inf]])
    flat = Case(n=6)
    flat.alpha, flat.fitted = np.zeros(6), np.full(4, 2.5)
    np.testing.assert_array_equal(conformal_ends(flat.machines(), *flat.given(), 0.5), np.full((4, 2), 2.5))
