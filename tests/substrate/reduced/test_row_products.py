"""Sums of products of rows, in parts and in groups of parts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.reduced.moments import probe
from substrate.reduced.row_products import CHUNK, GROUP, ProductSums, terms_in_parts

EPS = np.finfo(float).eps
#: One row, a part and a bit, one group of parts, and one row more than that.
SIZES = [1, CHUNK + 3, CHUNK * GROUP, CHUNK * GROUP + 1]


def rows_of(n, size=5, outputs=2):
    rng = np.random.default_rng(n)
    return rng.random((n, size)), rng.normal(size=(n, outputs)), rng.uniform(0.5, 2.0, size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_sums_in_parts_are_the_sums_within_the_rounding_of_their_terms(n, weighted):
    Z, targets, v = rows_of(n)
    v, origin, w = v if weighted else np.ones(n), np.full(5, 0.25), probe(5)
    sums = ProductSums(5, 2, origin, w)
    for rows in (slice(0, n // 3), slice(n // 3, n)):  # parts may end anywhere
        sums.add(Z[rows].copy(), targets[rows], v[rows] if weighted else None)
    first, second, totals, cross, squares, mass, probed = sums.finish()
    Z = Z - origin
    exact, sizes = (Z.T * v) @ Z, (np.abs(Z).T * v) @ np.abs(Z)
    within = (terms_in_parts(n, CHUNK) + 12) * EPS
    assert np.all(np.abs(np.triu(second) - np.triu(exact)) <= within * sizes)
    assert sums.count == n
    assert np.all(np.abs(first - Z.T @ v) <= within * (np.abs(Z).T @ v))
    assert np.all(np.abs(cross - (Z.T * v) @ targets) <= within * (np.abs(Z).T * v) @ np.abs(targets))
    wide = n * EPS * np.sqrt(n) * 40.0
    for found, plain in ((totals, v @ targets), (mass, v.sum())):
        assert_allclose(found, plain, rtol=0.0, atol=wide)
    assert_allclose(squares, v @ targets**2, rtol=n * EPS * 4.0)
    beside = np.column_stack([Z, np.ones(n), targets])
    assert_allclose(probed, (beside.T * v) @ (Z @ w), rtol=0.0, atol=wide)


def test_a_part_that_is_left_out_of_the_products_is_noticed_by_the_probe(monkeypatch):
    """The sums with the probe are added by other operations than the products."""
    from scipy.linalg import blas

    Z, targets, _ = rows_of(3 * CHUNK)
    calls, update = [0], blas.dsyrk

    def failing(*given, **named):
        calls[0] += 1
        return named["c"] if calls[0] == 2 else update(*given, **named)

    monkeypatch.setattr(blas, "dsyrk", failing)
    sums = ProductSums(5, 2, None, probe(5))
    sums.add(Z, targets)
    _, second, *_, probed = sums.finish()
    upper = np.triu(second)
    assert calls[0] == 3
    assert np.abs((upper + np.triu(upper, k=1).T) @ probe(5) - probed[:5]).max() > 1.0


def test_terms_are_counted_by_rows_parts_and_groups():
    assert terms_in_parts(1, CHUNK) == 1 + 1 + 1
    assert terms_in_parts(CHUNK * GROUP, CHUNK) == CHUNK + GROUP + 1
    assert terms_in_parts(CHUNK * GROUP + 1, CHUNK) == CHUNK + GROUP + 2
    assert terms_in_parts(4 * CHUNK * GROUP, CHUNK) == CHUNK + GROUP + 4


def test_no_features_leave_the_sums_of_targets():
    sums = ProductSums(0, 1, None, probe(0))
    sums.add(np.empty((3, 0)), np.array([[1.0], [2.0], [4.0]]))
    first, second, totals, cross, squares, mass, _ = sums.finish()
    assert (first.shape, second.shape, cross.shape) == ((0,), (0, 0), (0, 1))
    assert (totals[0], squares[0], mass) == (7.0, 21.0, 3.0)


def test_a_group_is_ended_after_its_parts():
    # what is added to a large number is lost, but by its own group only
    parts = 3 * GROUP
    features = np.zeros((parts * CHUNK, 1))
    features[::CHUNK] = 1.0
    features[0] = 2.0**53
    sums = ProductSums(1, 1)
    sums.add(features, np.zeros((len(features), 1)))
    assert sums.finish().first[0] == 2.0**53 + (parts - GROUP)
