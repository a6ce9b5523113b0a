"""Weights of a stack by the log-loss: the optimum over the simplex, and a gap that no weights undercut."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.least_squares.log_loss_weights import bound_log_loss, left_out_probabilities, weigh_by_log_loss

RNG = np.random.default_rng(4)


def machines(n, M, seed=0):
    """Codes, weights of rows, and probabilities of the right code by machines of different quality."""
    generator = np.random.default_rng(seed)
    codes = generator.choice([-1.0, 1.0], size=n)
    outputs = codes[:, None] * generator.uniform(0.0, 1.0, size=M) + 0.6 * generator.normal(size=(n, M))
    errors = (codes[:, None] - outputs)[:, None, :]
    return left_out_probabilities(errors, codes[:, None])[:, 0], generator.uniform(0.1, 3.0, size=n)


def loss(P, v, u):
    return -float(v / v.sum() @ np.log(P @ u))


@pytest.mark.parametrize(("n", "M"), [(3, 2), (30, 4), (200, 12)])
def test_no_weights_are_better_than_the_gap_allows(n, M):
    P, v = machines(n, M)
    u = weigh_by_log_loss(P, v)
    bound = bound_log_loss(P, v, u)
    assert bound.row.passes
    assert (u >= 0.0).all()
    assert_allclose(u.sum(), 1.0, rtol=1e-14)
    assert_allclose(bound.loss, loss(P, v, u), rtol=1e-14)
    others = np.vstack([RNG.dirichlet(np.full(M, 0.3), size=300), np.eye(M)])
    assert min(loss(P, v, w) for w in others) >= bound.loss - bound.gap
    assert_allclose(weigh_by_log_loss(P, 1e-9 * v, start=u), u, atol=1e-7)


def test_the_gap_of_other_weights_is_not_hidden():
    P, v = machines(60, 5, seed=1)
    best, equal = weigh_by_log_loss(P, v), np.full(5, 0.2)
    bound = bound_log_loss(P, v, equal)
    assert not bound.row.passes
    assert bound.gap >= loss(P, v, equal) - loss(P, v, best) > 1e-4


def test_one_machine_and_equal_machines():
    P, v = machines(20, 1)
    assert_allclose(weigh_by_log_loss(P, v), 1.0)
    twice = np.hstack([P, P])
    assert bound_log_loss(twice, v, weigh_by_log_loss(twice, v)).row.passes


def test_probabilities_are_those_of_decision_values_and_never_zero():
    codes = np.array([[1.0], [-1.0], [1.0]])
    outputs = np.array([[[0.5, -7.0]], [[0.5, -1.0]], [[1.5, 0.0]]])
    found = left_out_probabilities(codes[..., None] - outputs, codes)[:, 0]
    assert_allclose(found, [[0.75, 0.2], [0.25, 0.8], [0.8, 0.5]])  # from 1/5 to 4/5 on three rows
