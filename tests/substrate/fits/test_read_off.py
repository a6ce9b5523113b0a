"""The optimum read off paths: that of a dense grid, folds added up, and nothing claimed where nothing is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.l1 import solve_l1
from substrate.fits.path_bounds import Fold, Track, l1_fold, read_off, variation_fold
from substrate.fits.paths import Path
from substrate.fits.variation import solve_maximal_variation
from substrate.kernels import RBF, Linear, Polynomial


def line(values, errors, *, above=True, gaps=0.0):
    """A fold of which only the knots matter."""
    values, errors = np.asarray(values, dtype=float), np.atleast_2d(np.asarray(errors, dtype=float).T).T
    n = values.size
    none = np.zeros((n, 1))
    path = Path("rho", values, none, none, np.zeros(n), True, False, above, "made up")
    return Fold(path, Track(values, errors, np.full(n, gaps), np.zeros(n - 1), 1.0))


def data(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d))
    return X, np.sin(3.0 * X[:, 0]) + X[:, -1] ** 2 + 0.3 * rng.standard_normal(n)


class Folds:
    """k folds of one data set, their paths, and the error of independent solves of all of them."""

    def __init__(self, over, kernel, n, d, k, seed):
        X, y = data(n, d, seed)
        order = np.random.default_rng(seed).permutation(n)
        self.over, self.folds, self.parts, self.n = over, [], [], n
        for test in np.array_split(order, k):
            train = np.setdiff1d(order, test)
            if over == "zeta":
                K, below = kernel(X[train]), kernel(X[test], X[train])
                self.folds.append(l1_fold(K, y[train], below, y[test]))
                self.parts.append((K, y[train], below, y[test]))
            else:
                O = [kernel(X[train][:, [part]]) for part in range(d)]  # noqa: E741
                coordinates = shared_coordinates(O)
                rows = [kernel(X[test][:, [part]], X[train][:, [part]]) for part in range(d)]
                below = coordinates.rows_at(rows)
                self.folds.append(variation_fold(coordinates, y[train], below, y[test]))
                self.parts.append((coordinates, y[train], below, y[test]))

    def read(self):
        return read_off(self.folds)

    def solved(self, value):
        """The mean squared error over all folds, by a solver that knows nothing of paths."""
        total = 0.0
        for problem, y, below, y_val in self.parts:
            if self.over == "zeta":
                found = solve_l1(problem, y, value)
                e = y_val - below @ found.coefficients - found.bias
            else:
                v = solve_maximal_variation(problem, y, value).v
                e = y_val - below @ v - problem.bias_of(y, v)
            total += e @ e
        return total / self.n

    def followed(self, value):
        """The same along the paths."""
        total = 0.0
        for (problem, y, below, y_val), fold in zip(self.parts, self.folds, strict=True):
            point = fold.path.at(value)
            if self.over == "zeta":
                e = y_val - below @ point.primal - point.bias
            else:
                v = np.linalg.solve(problem.metric, point.primal)
                e = y_val - below @ v - problem.bias_of(y, v)
            total += e @ e
        return total / self.n


CASES = {
    "zeta, rbf": ("zeta", RBF(0.5), 30, 2, 3, 0),
    "zeta, quadratic": ("zeta", Polynomial(2), 25, 2, 5, 1),
    "zeta, one": ("zeta", RBF(0.2), 24, 2, 2, 2),
    "rho, rbf": ("rho", RBF(0.5), 24, 3, 3, 3),
    "rho, linear": ("rho", Linear(), 20, 4, 4, 4),
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def folds(request):
    return Folds(*CASES[request.param])


@pytest.mark.some_cases(3)
def test_folds_add_up_to_the_brute_force_sum_over_a_dense_grid(folds):
    read = folds.read()
    low, high = read.values[0], 1.1 * read.values[-1]
    grid = np.unique(np.concatenate([np.geomspace(max(low, 1e-4 * high), high, 400), read.values, [read.value]]))
    along = np.array([folds.followed(float(value)) for value in grid])
    assert read.error <= along.min() * (1.0 + 1e-8), "no point of the grid is better"
    assert folds.followed(read.value) == pytest.approx(read.error, rel=1e-7), "and the best value is as good as said"
    assert read.lower_bound <= along.min() * (1.0 + 1e-12)
    assert_allclose(read.errors, [folds.followed(float(value)) for value in read.values], rtol=1e-6)


@pytest.mark.some_cases(3)
def test_the_bound_is_below_independent_solves_of_all_folds(folds):
    read = folds.read()
    low, high = max(read.coverage[0], 1e-3 * read.values[-1]), 1.1 * read.values[-1]
    solves = [folds.solved(float(value)) for value in np.geomspace(low, high, 20)]
    assert read.error <= min(solves) * (1.0 + 1e-6)
    assert read.lower_bound <= min(solves)
    assert read.error - read.lower_bound <= 1e-3 * read.error
    if read.value > 0.0:
        assert folds.solved(read.value) == pytest.approx(read.error, rel=1e-6)


def test_merged_knots_are_all_knots_between_the_ends(folds):
    read = folds.read()
    low = max(fold.path.values[0] for fold in folds.folds)
    every = np.unique(np.concatenate([fold.path.values for fold in folds.folds]))
    assert np.isin(every[every >= low], read.values).all()
    assert read.coverage == (low, np.inf)
    assert read.values[0] == low


def test_order_of_the_folds_does_not_matter(folds):
    read = folds.read()
    other = read_off(folds.folds[::-1])
    assert other.error == pytest.approx(read.error, rel=1e-12)
    assert other.lower_bound == pytest.approx(read.lower_bound, rel=1e-9)


def test_a_minimum_inside_a_segment():
    read = read_off([line([0.0, 1.0, 2.0], [3.0, -1.0, 5.0])])
    assert read.value == pytest.approx(0.75)
    assert read.error == pytest.approx(0.0, abs=1e-15)
    assert read.minima == 2
    assert read.errors.tolist() == [9.0, 1.0, 25.0]


def test_a_minimum_beyond_the_last_knot_of_one_fold():
    """The first path is constant from 1 on; the second falls until 4."""
    first, second = line([0.0, 1.0], [2.0, 1.0]), line([0.0, 4.0], [4.0, 0.0])
    read = read_off([first, second])
    assert read.value == 4.0
    assert read.error == pytest.approx(0.5)
    assert read.lower_bound == pytest.approx(0.5)
    assert read.coverage == (0.0, np.inf)


def test_a_path_that_is_not_known_above_its_end_ends_the_search():
    first, second = line([0.0, 1.0], [2.0, 1.0], above=False), line([0.0, 4.0], [4.0, 0.0])
    read = read_off([first, second])
    assert read.coverage == (0.0, 1.0)
    assert read.value == 1.0
    assert read.error == pytest.approx((1.0 + 9.0) / 2.0)


def test_paths_without_a_common_value_are_refused():
    first, second = line([0.0, 1.0], [2.0, 1.0], above=False), line([3.0, 4.0], [4.0, 0.0])
    with pytest.raises(DataError, match="no value in common: 3 is above 1"):
        read_off([first, second])


def test_one_knot_paths():
    fold = line([2.0], [[3.0, 4.0]])
    read = read_off([fold])
    assert (read.value, read.error, read.lower_bound) == (2.0, 12.5, 12.5)
    assert read.coverage == (2.0, np.inf)
    other = line([0.0, 4.0], [1.0, 0.0])
    read = read_off([fold, other])
    assert read.error == pytest.approx(25.0 / 3.0)
    assert read.value == 4.0
    assert read.coverage == (2.0, np.inf)


def test_a_fold_whose_target_is_constant_joins_the_others():
    """Its path has one knot; the others' have many."""
    X, y = data(20, 2, 0)
    K = RBF(0.5)(X)
    still = l1_fold(K[:10, :10], np.zeros(10), K[10:, :10], y[10:])
    moving = l1_fold(K[10:, 10:], y[10:], K[:10, 10:], y[:10])
    assert len(still.path) == 1
    alone = read_off([moving])
    read = read_off([still, moving])
    assert read.value == pytest.approx(alone.value)
    assert 2.0 * read.error == pytest.approx(alone.error + np.mean(y[10:] ** 2))
    assert read.error - read.lower_bound <= 1e-3 * read.error


def test_a_larger_gap_lowers_the_bound_and_leaves_the_error():
    bounds = []
    for gap in (0.0, 1e-4, 1e-2, 0.25, 1e4):
        read = read_off([line([0.0, 1.0, 2.0], [3.0, 1.0, 5.0], gaps=gap)])
        bounds.append(read.lower_bound)
        assert read.error == pytest.approx(1.0)
    assert bounds[0] == pytest.approx(1.0)
    assert (np.diff(bounds) < 0.0).all()
    assert bounds[-1] == 0.0


def test_a_beginning_above_the_path_is_where_the_claim_begins():
    fold = line([1.0, 2.0, 4.0], [1.0, 3.0, 5.0])
    whole, shorter = read_off([fold]), read_off([fold], begin=2.0)
    assert (whole.value, whole.error, whole.coverage[0], whole.ended) == (1.0, 1.0, 1.0, False)
    assert (shorter.value, shorter.error, shorter.coverage[0], shorter.ended) == (2.0, 9.0, 2.0, True)
    assert shorter.lower_bound > whole.lower_bound
