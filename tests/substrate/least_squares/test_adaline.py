"""The Adaline: descent that never goes up, to the solution of the system, plainly or quickly."""

import column_reduction as oracle
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.datasets import tic_tac_toe
from substrate.errors import DeclarationError
from substrate.kernels import RBF
from substrate.least_squares.adaline import solve_by_adaline, spectral_norm
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target

both = pytest.mark.parametrize("accelerated", [True, False], ids=["conjugate", "plain"])


def system(n=12, gamma=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return bordered_matrix(RBF(1.0)(X), np.full(n, 1.0 / gamma)), bordered_target(y)


@pytest.mark.parametrize("shape", [(9, 9), (20, 5), (5, 20), (1, 1)])
def test_the_spectral_norm_is_approached_from_below(shape):
    A = np.random.default_rng(1).normal(size=shape)
    exact = np.linalg.norm(A, 2)
    assert 0.9 * exact < spectral_norm(A) <= exact * (1.0 + 1e-12)
    assert spectral_norm(0.0 * A) == 0.0


@both
def test_it_reaches_the_closed_form(accelerated):
    A, B = system()
    found = solve_by_adaline(A, B, tolerance=1e-10, max_epochs=200_000, accelerated=accelerated)
    assert found.is_converged
    assert found.residual <= 1e-10
    assert_allclose(found.weights, np.linalg.solve(A, B), rtol=1e-7, atol=1e-8)


@both
@pytest.mark.parametrize("gamma", [0.1, 1.0, 100.0])
def test_the_error_never_grows(accelerated, gamma):
    A, B = system(30, gamma)
    found = solve_by_adaline(A, B, tolerance=1e-6, max_epochs=500, accelerated=accelerated)
    assert found.history[0] == 1.0
    assert (np.diff(found.history) <= 1e-14).all()
    assert_allclose(found.residual, np.linalg.norm(B - A @ found.weights) / np.linalg.norm(B))
    assert_allclose(found.history[-1], found.residual)
    assert found.history.size == found.epochs + 1


def test_the_plain_rule_is_that_of_the_textbook():
    """:place [Carvalho2006]_ section 3.1, steps 1-2: epoch by epoch."""
    A, B = system()
    found = solve_by_adaline(A, B, tolerance=1e-12, max_epochs=7, accelerated=False)
    assert found.epochs == 7
    assert found.ended == "epochs"
    assert not found.is_converged
    assert_allclose(found.weights, oracle.adaline(A, B, 1.0 / spectral_norm(A) ** 2, 7), rtol=1e-10)


@both
def test_several_outputs_are_trained_each_alone(accelerated):
    A, B = system(20)
    others = np.column_stack([B, np.roll(B, 3), 1e6 * B])
    rule = {"tolerance": 1e-8, "max_epochs": 50_000, "accelerated": accelerated}
    together = solve_by_adaline(A, others, **rule)
    for k, target in enumerate(others.T):
        alone = solve_by_adaline(A, target, **rule)
        assert_allclose(together.weights[:, k], alone.weights, atol=1e-5 * np.abs(alone.weights).max())
        assert together.residual[k] <= 1e-8


def test_where_nothing_can_be_descended_it_says_so():
    A = np.diag([1.0, 1.0, 0.0])  # the last equation, 0 = 1, has no solution
    found = solve_by_adaline(A, np.ones(3))
    assert found.ended == "stationary"
    assert_allclose(found.weights, [1.0, 1.0, 0.0])
    assert_allclose(found.residual, 1.0 / np.sqrt(3.0))


@both
def test_zero_targets_need_no_training(accelerated):
    A, B = system()
    found = solve_by_adaline(A, 0.0 * B, accelerated=accelerated)
    assert (found.epochs, found.ended) == (0, "tolerance")
    assert_array_equal(found.weights, 0.0)


def test_another_number_of_rows_is_refused():
    A, B = system()
    with pytest.raises(DeclarationError, match="A has 13 rows and B has 12"):
        solve_by_adaline(A, B[1:])


def test_conjugate_directions_settle_tic_tac_toe():
    X, labels = tic_tac_toe()
    A = bordered_matrix(RBF(2.0)(X), np.full(len(X), 1e-2))
    B = bordered_target(np.where(labels == "positive", 1.0, -1.0))
    found = solve_by_adaline(A, B, tolerance=1e-3, max_epochs=1500)
    assert found.is_converged
    plain = solve_by_adaline(A, B, tolerance=1e-3, max_epochs=100, accelerated=False)
    assert plain.residual > 0.2
