"""Venn-Abers pairs are those of two isotonic regressions with the new row added."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import isotonic_regression

from substrate.uncertainty.calibration import pool_scores
from substrate.uncertainty.venn_abers import VennAbers, merge_pairs


def refitted(scores, positive, weights, new):
    """Isotonic regression fitted to the rows and the new one, as either label, at the new score."""
    pair = []
    for label in (0.0, 1.0):
        known = (np.append(scores, new), np.append(positive, label), np.append(weights, 1.0))
        distinct, total, own = pool_scores(*known)
        values = isotonic_regression(own / total, weights=total).x
        pair.append(values[np.searchsorted(distinct, new)])
    return pair


@pytest.mark.parametrize("digits", [0, 1, 8])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_those_of_refitted_regressions(seed, digits):
    """Also at scores that occur already, and beyond all others.

    :place [Vovk2015]_ Venn-Abers predictor: two isotonic regressions with the new row added
    """
    rng = np.random.default_rng(seed)
    scores = np.round(rng.standard_normal(40), digits)
    positive = rng.random(40) < 1.0 / (1.0 + np.exp(-scores))
    weights = np.ones(40) if seed else rng.uniform(0.2, 3.0, 40)
    new = np.concatenate([scores[:15], np.round(rng.standard_normal(25), digits), [-9.0, 9.0]])
    found = VennAbers.of(scores, positive, weights)(new)
    assert_allclose(found, [refitted(scores, positive, weights, s) for s in new], rtol=0.0, atol=1e-14)
    assert (found[:, 0] <= found[:, 1]).all()
    order = np.argsort(new)
    assert (np.diff(found[order], axis=0) >= -1e-15).all()


@pytest.mark.parametrize("label", [False, True])
def test_one_class_and_one_row(label):
    found = VennAbers.of(np.array([0.3]), np.array([label]), np.ones(1))(np.array([-1.0, 0.3, 2.0]))
    assert_allclose(found, [refitted([0.3], [label], [1.0], s) for s in (-1.0, 0.3, 2.0)])


def test_equal_scores_are_one_row_of_their_mean():
    found = VennAbers.of(np.zeros(8), np.arange(8) < 2, np.ones(8))(np.zeros(3))
    assert_allclose(found, [[2.0 / 9.0, 3.0 / 9.0]] * 3)


def test_no_new_score_gives_no_pair():
    assert VennAbers.of(np.arange(3.0), np.arange(3) > 1, np.ones(3))(np.empty(0)).shape == (0, 2)


def test_the_merged_probability_is_inside_the_pair():
    pairs = np.array([[0.0, 1.0], [0.2, 0.4], [0.0, 0.0], [1.0, 1.0]])
    one = merge_pairs(pairs)
    assert_allclose(one, [0.5, 1.0 / 3.0, 0.0, 1.0], rtol=1e-15)
    assert ((one >= pairs[:, 0]) & (one <= pairs[:, 1])).all()
