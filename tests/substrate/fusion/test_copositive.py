"""Copositive matrices, against dense samples of the simplex and matrices that are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.fusion.copositive import copositive, least_difference, pairwise_difference


def samples(n, rng, count=4000):
    return np.vstack([np.eye(n), rng.dirichlet(np.full(n, 0.6), count)])


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_passes_is_copositive(n):
    """By samples of the simplex; and a matrix that no sample contradicts by a margin does pass."""
    rng = np.random.default_rng(n)
    t = samples(n, rng)
    H = rng.uniform(-0.6, 1.0, size=(400, n, n))
    H = (H + np.swapaxes(H, 1, 2)) / 2.0
    H[:, range(n), range(n)] = rng.uniform(0.2, 1.0, size=(400, n))
    least = np.einsum("ti,kij,tj->kt", t, H, t).min(axis=1)
    passed = copositive(H)
    assert (least[passed] >= -1e-12).all()
    assert passed[least > 0.02].all()
    assert 50 < passed.sum() < 395


@pytest.mark.parametrize(("sum_of_others", "known"), [(-1.0, True), (-1.0 - 1e-6, False)])
def test_the_border_of_order_two_and_three(sum_of_others, known):
    """Of order two c = -1 is the border; of order three with equal entries it is c = -1/2."""
    two = np.array([[[1.0, sum_of_others], [sum_of_others, 1.0]]]) + (1e-12 if known else 0.0)
    three = np.full((1, 3, 3), sum_of_others / 2.0) + (1e-12 if known else 0.0)
    three[:, range(3), range(3)] = 1.0
    assert copositive(two)[0] == copositive(three)[0] == known


def test_order_four_is_more_than_its_parts():
    """With equal entries the border is c = -1/3; every part of order three is copositive from c = -1/2 on."""
    for c, known in ((-0.333, True), (-0.334, False)):
        H = np.full((1, 4, 4), c)
        H[:, range(4), range(4)] = 1.0
        assert copositive(H)[0] == known
        assert copositive(H[:, :3, :3])[0]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_least_difference_is_below_every_sample_and_near_the_least(n):
    rng = np.random.default_rng(10 + n)
    t = samples(n, rng)
    for _ in range(25):
        a, Q = 1.0 + rng.random(n), rng.random((n, n)) ** 3 * 0.5
        Q = (Q + Q.T) / 2.0
        least = (t @ a - np.sqrt(np.einsum("ti,ij,tj->t", t, Q, t))).min()
        found = least_difference(a, Q)
        assert pairwise_difference(a, Q) <= found <= least
        assert found >= least - 0.05
        assert least_difference(a, Q, enough=found - 0.1) >= found - 0.1


def test_it_is_exact_on_an_edge():
    """a = 1 and Q_12 = q: 1 - sqrt(2 t (1 - t) q) is least in the middle."""
    for q in (0.0, 1e-12, 0.3, 1.5):
        found = least_difference(np.ones(2), np.array([[0.0, q], [q, 0.0]]))
        assert_allclose(found, 1.0 - np.sqrt(q / 2.0), rtol=2e-4)
        assert found <= 1.0 - np.sqrt(q / 2.0)
