"""The Adaline: descent along conjugate directions, to the solution of the system."""

import column_reduction as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.datasets import tic_tac_toe
from substrate.kernels import RBF
from substrate.least_squares.adaline import solve_by_adaline
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target


def system(n=12):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    A = bordered_matrix(RBF(1.0)(X), np.ones(n))
    B = bordered_target(np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0))
    return A, B


@pytest.mark.parametrize("accelerated", [True, False])
def test_it_reaches_the_closed_form(accelerated):
    A, B = system()
    found = solve_by_adaline(A, B, tolerance=1e-10, max_epochs=200_000, accelerated=accelerated)
    assert found.ended == "tolerance"
    assert found.residual <= 1e-10
    assert_allclose(found.weights, np.linalg.solve(A, B), rtol=1e-7, atol=1e-8)


def test_the_plain_rule_is_that_of_the_textbook():
    """:place [Carvalho2006]_ section 3.1, steps 1-2: epoch by epoch."""
    A, B = system()
    found = solve_by_adaline(A, B, tolerance=1e-12, max_epochs=7, accelerated=False)
    assert (found.epochs, found.ended) == (7, "epochs")
    assert_allclose(found.weights, oracle.adaline(A, B, np.linalg.norm(A, 2) ** -2.0, 7), rtol=1e-3)


def test_conjugate_directions_settle_tic_tac_toe():
    X, labels = tic_tac_toe()
    A = bordered_matrix(RBF(2.0)(X), np.full(len(X), 1e-2))
    B = bordered_target(np.where(labels == "positive", 1.0, -1.0))
    residuals = [solve_by_adaline(A, B, tolerance=1e-3, max_epochs=most).residual for most in (10, 100, 1500)]
    assert residuals == sorted(residuals, reverse=True)
    assert residuals[-1] <= 1e-3
