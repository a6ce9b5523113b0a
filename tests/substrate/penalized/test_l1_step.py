"""The step of the L1 substrate's dual point bounds the distance from the optimum: not less, and hardly more."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.kernels import RBF
from substrate.least_squares.kernel_products import PlainProducts
from substrate.penalized.l1.accuracy import Correlations, stepped_gap
from substrate.penalized.l1.active_set import solve_l1

KERNEL, ZETA = RBF(1.0), 0.3


@pytest.fixture
def solved():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=25)
    return X, y, solve_l1(KERNEL(X), y, ZETA).coefficients


def gap_of(X, y, a):
    """The bound on the squared distance, halved, at coefficients that sum to zero and errors that are known exactly."""
    K = KERNEL(X)
    e = y - K @ a
    e -= e.mean()
    known = Correlations(K @ e, np.zeros(len(y)), float(np.linalg.norm(e)), 0.0)
    return stepped_gap(PlainProducts(K, 0.0, True, X), a, ZETA, known)


def values(X, a):
    f = KERNEL(X) @ a
    return f - f.mean()


def test_coefficients_that_were_moved_are_as_far_as_they_were_moved(solved):
    X, y, a = solved
    moved = a.copy()
    (used,) = np.nonzero(a)
    moved[used[:2]] += [1e-4, -1e-4]
    distance = np.linalg.norm(values(X, moved) - values(X, a))
    assert_allclose(np.sqrt(2.0 * gap_of(X, y, moved)), distance, rtol=1e-4)
    assert gap_of(X, y, a) < 1e-20


def test_a_column_that_should_be_in_use_is_counted(solved):
    X, y, a = solved
    (used,) = np.nonzero(a)
    weakest = used[np.abs(a[used]).argmin()]
    others = np.delete(np.arange(len(y)), weakest)
    K = KERNEL(X)
    without = np.zeros_like(a)
    # all errors, and all columns but one
    without[others] = _restricted(K[:, others], y)
    distance = np.linalg.norm(values(X, without) - values(X, a))
    assert distance > 1e-4
    assert np.sqrt(2.0 * gap_of(X, y, without)) >= distance


def _restricted(columns, y):
    return solve_l1(columns, y, ZETA).coefficients


def test_equal_points_share_their_coefficient_at_no_cost(solved):
    X, y, _ = solved
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    a = solve_l1(KERNEL(X), y, ZETA).coefficients
    halved = 0.5 * (a + np.roll(a, len(y) // 2))
    assert np.count_nonzero(halved) > np.unique(X[halved != 0.0], axis=0).shape[0]
    assert gap_of(X, y, halved) < 1e-20


def test_equal_points_with_coefficients_of_both_signs_have_no_step(solved):
    X, y, a = solved
    X, y, twice = np.concatenate([X, X]), np.concatenate([y, y]), np.concatenate([2.0 * a, -a])
    assert gap_of(X, y, twice) == np.inf
