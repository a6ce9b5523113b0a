"""Down-dating gives what refitting gives: solution, bias, and the inverse with its diagonal, whoever leaves."""

import bordered_system
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.least_squares.leave_one_out import projected_inverse
from substrate.least_squares.pruning import DownDating, bordered_inverse
from substrate.least_squares.saddle_system import solve_saddle_system


def problem(n=40, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    K = RBF(1.2)(rng.normal(size=(n, 2)))
    return K, rng.normal(size=(n, outputs)), rng.uniform(0.05, 2.0, size=n), rng


def started(K, Y, ridge):
    gram = Gram.from_matrix(K)
    solved = solve_saddle_system(gram, Y, ridge)
    return DownDating(gram, solved.support_values, solved.bias)


def bordered(K, ridge):
    n = len(ridge)
    M = np.ones((n + 1, n + 1))
    M[:n, :n], M[n, n] = K + np.diag(ridge), 0.0
    return M


def assert_is_the_machine_on(engine, rows, K, Y, ridge):
    alpha, b = bordered_system.solve(K[np.ix_(rows, rows)], Y[rows], ridge[rows])
    assert_array_equal(engine.rows, rows)
    assert_allclose(engine.support_values[rows], alpha, atol=1e-10)
    assert_allclose(engine.bias, b, atol=1e-10)
    gone = np.setdiff1d(np.arange(len(ridge)), rows)
    assert_array_equal(engine.support_values[gone], 0.0)


def test_the_bordered_inverse():
    K, _, ridge, _ = problem()
    gram = Gram.from_matrix(K)
    gram.factorize(ridge)
    assert_allclose(bordered_inverse(gram), np.linalg.inv(bordered(K, ridge)), atol=1e-10)


def test_every_machine_on_the_way_is_the_one_refitted():
    K, Y, ridge, rng = problem()
    engine, order = started(K, Y, ridge), rng.permutation(40)
    for k in range(39):
        assert_is_the_machine_on(engine, np.sort(order[k:]), K, Y, ridge)
        engine.remove([order[k]])
    assert_allclose(engine.bias, Y[order[-1]], atol=1e-9)  # one row left: the bias takes it all


def test_the_inverse_and_its_diagonal_follow():
    """:equation [Cawley2004]_ (A.1): the Schur complement is the inverse of what is left of the bordered matrix."""
    K, Y, ridge, rng = problem(seed=1)
    engine, order = started(K, Y, ridge), rng.permutation(40)
    for k in range(0, 36, 3):
        rows = np.sort(order[k:])
        expected = projected_inverse(Gram.from_matrix(K[np.ix_(rows, rows)]), ridge[rows])
        assert_allclose(engine.diagonal, expected.diagonal(), atol=1e-10)
        if k % 2:
            assert_allclose(engine.inverse(), expected, atol=1e-10)
        engine.remove(order[k : k + 3])


def test_the_order_of_leaving_does_not_matter():
    K, Y, ridge, rng = problem(seed=2)
    gone = rng.permutation(40)[:25]
    one, other = started(K, Y, ridge), started(K, Y, ridge)
    one.remove(gone)
    other.remove(gone[::-1])
    assert_allclose(one.support_values, other.support_values, atol=1e-11)
    assert_allclose(one.bias, other.bias, atol=1e-11)


def test_a_row_leaves_once_and_a_singular_machine_is_refused():
    K, Y, ridge, _ = problem()
    engine = started(K, Y, ridge)
    engine.remove([3])
    with pytest.raises(SolverError, match="row 3 was removed before"):
        engine.remove([3])
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    indefinite = (Q * [-1.0, 1.0, 1.0, 2.0, 3.0, -4.0]) @ Q.T
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        engine = started((indefinite + indefinite.T) / 2.0, Y[:6], np.full(6, 0.1))
    with pytest.raises(SolverError, match="the machine is not determined"):
        engine.remove(range(5))
