"""A machine says what its objective is strongly convex in, and why its answer is not bounded all the same."""

import cvxpy as cp
import numpy as np
import pytest

from substrate import Machine, Substrate
from substrate.kernels import RBF

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(12, 1)), RNG.normal(size=12)


@pytest.mark.parametrize(
    ("objective", "reason"),
    [
        (lambda s: cp.sum_squares(s.e) + 0.1 * s.squared_norm, "a squared loss in f"),
        (lambda s: cp.norm1(s.e) + 0.1 * s.squared_norm, "(w'w)/2"),
        (lambda s: cp.norm1(s.e) + 0.1 * cp.norm1(s.alpha), "neither a squared loss"),
        (lambda s: cp.norm1(s.e) + cp.sum_squares(s.alpha), "neither a squared loss"),
    ],
)
def test_the_first_line_says_why_there_is_no_bound(objective, reason):
    s = Substrate(RBF(1.0), X, Y)
    certificate = Machine(s, minimize=objective(s)).solve().certificate
    assert certificate.accuracy == np.inf
    first = str(certificate).splitlines()[0]
    assert "no bound on the answer" in first
    assert reason in first
