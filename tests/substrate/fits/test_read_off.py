"""The optimum read off paths: as on a dense grid, folds added up, and nothing claimed where nothing is known."""

import numpy as np
import pytest

from substrate.fits.path_bounds import Fold, Track, read_off
from substrate.fits.paths import Path


def line(values, errors, *, above=True, gaps=0.0):
    """A fold of which only the knots matter."""
    values, errors = np.asarray(values, dtype=float), np.atleast_2d(np.asarray(errors, dtype=float).T).T
    n = values.size
    none = np.zeros((n, 1))
    path = Path("rho", values, none, none, np.zeros(n), True, False, above, "made up")
    return Fold(path, Track(values, errors, np.full(n, gaps), np.zeros(n - 1), 1.0))


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


def test_a_larger_gap_lowers_the_bound_and_leaves_the_error():
    bounds = []
    for gap in (0.0, 1e-4, 1e-2, 0.25, 1e4):
        read = read_off([line([0.0, 1.0, 2.0], [3.0, 1.0, 5.0], gaps=gap)])
        bounds.append(read.lower_bound)
        assert read.error == pytest.approx(1.0)
    assert bounds[0] == pytest.approx(1.0)
    assert (np.diff(bounds) < 0.0).all()
    assert bounds[-1] == 0.0
