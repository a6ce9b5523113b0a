"""The active set of the 2-norm SVM: the optimum of a generic minimiser, finite ends, and bounds that are true."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from substrate.certificates.tolerance import Tolerance
from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts
from substrate.least_squares.saddle_system import solve_saddle_system
from substrate.penalized.squared_hinge.accuracy import HingeMachine, hinge_accuracy, primal_hinge_accuracy
from substrate.penalized.squared_hinge.active_set import hinge_rows, solve_squared_hinge
from substrate.proof import tolerance_in_balls
from substrate.proof.duality import prove_squared_hinge


def drawn(seed=0, n=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    y[:2] = (1.0, -1.0)
    return X, y, rng.uniform(0.5, 2.0, n)


def naive_minimum(K, y, ridge):
    """The primal in the coefficients, by a quasi-Newton method."""
    root = np.linalg.cholesky(K + 1e-12 * np.eye(y.size))

    def cost(z):
        w, b = z[:-1], z[-1]
        slack = np.maximum(0.0, 1.0 - y * (root @ w + b))
        pull = slack / ridge
        slope = np.append(w - root.T @ (y * pull), -(y * pull).sum())
        return 0.5 * w @ w + 0.5 * slack @ pull, slope

    found = minimize(cost, np.zeros(y.size + 1), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    return root @ found.x[:-1] + found.x[-1]


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 50.0])
def test_the_optimum_is_that_of_a_generic_minimiser(gamma):
    """:place [Cawley2004]_ section 4: the 2-norm SVM as an LS-SVM on its support rows"""
    X, y, v = drawn()
    K, ridge = RBF(1.5)(X), 1.0 / (gamma * v)
    solved = solve_squared_hinge(Gram(K.copy()), y, ridge)
    assert solved.settled
    assert_allclose(solved.products + solved.bias, naive_minimum(K, y, ridge), atol=2e-5)
    rows = solved.active
    assert ((y * solved.coefficients > 0.0) == rows).all()
    assert (solved.coefficients[~rows] == 0.0).all()
    on_support = solve_saddle_system(Gram(K[np.ix_(rows, rows)]), y[rows], ridge[rows])
    assert_allclose(solved.coefficients[rows], on_support.support_values, rtol=1e-8)
    assert all(
        row.passes for row in hinge_rows(solved.products, K.diagonal(), y, ridge, solved.coefficients, solved.bias)
    )


@pytest.mark.parametrize("seed", range(4))
def test_any_start_leads_to_the_same_support(seed):
    X, y, v = drawn(seed)
    gram, ridge = Gram.of(RBF(1.0), X), 1.0 / (20.0 * v)
    expected = solve_squared_hinge(gram, y, ridge)
    for start in (np.zeros(40, dtype=bool), y > 0.0, np.arange(40) < 3):
        solved = solve_squared_hinge(gram, y, ridge, start)
        assert solved.settled
        np.testing.assert_array_equal(solved.active, expected.active)
        assert_allclose(solved.coefficients, expected.coefficients, atol=1e-9)


def test_separable_rows_equal_rows_and_two_rows():
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    solved = solve_squared_hinge(Gram.of(Linear(), X), y, np.full(4, 1e-6))
    np.testing.assert_array_equal(solved.active, [False, True, True, False])
    assert_allclose(solved.products + solved.bias, X[:, 0], atol=1e-5)
    twice = solve_squared_hinge(Gram.of(Linear(), X[[0, 1, 2, 3, 1, 2]]), y[[0, 1, 2, 3, 1, 2]], np.full(6, 1e-3))
    weighted = solve_squared_hinge(Gram.of(Linear(), X), y, 1e-3 / np.array([1.0, 2.0, 2.0, 1.0]))
    assert_allclose(twice.bias, weighted.bias, atol=1e-10)
    pair = solve_squared_hinge(Gram.of(RBF(1.0), X[[0, 3]]), y[[0, 3]], np.ones(2))
    assert pair.settled
    assert pair.active.all()
    equal = solve_squared_hinge(Gram.of(RBF(1.0), np.zeros((3, 1))), np.array([1.0, 1.0, -1.0]), np.ones(3))
    assert_allclose(equal.bias, 1.0 / 3.0, atol=1e-12)


def machine_of(kernel, X, y, gamma, v, a, b):
    gram = Gram.of(kernel, X)
    fitted = gram.product(a) + b
    machine = HingeMachine(y=y, gamma=gamma, weights=v, a=a, b=b, fitted=fitted, diagonal=gram.diagonal)
    plain = PlainProducts(np.asarray(gram.matrix), kernel.rounding(X), True)
    return machine, CarefulProducts(kernel, X, plain)


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-4])
@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_the_bound_is_above_the_distance_of_a_moved_machine(size, gamma):
    X, y, v = drawn(1)
    kernel, rng = RBF(1.0), np.random.default_rng(2)
    exact = solve_squared_hinge(Gram.of(kernel, X), y, 1.0 / (gamma * v))
    best = exact.products + exact.bias
    a = exact.coefficients * (1.0 + size * rng.standard_normal(40))
    machine, careful = machine_of(kernel, X, y, gamma, v, a, exact.bias + size * rng.standard_normal())
    row, _ = hinge_accuracy(machine, careful, Tolerance.of(y, v, 1e-6))
    moved = np.sqrt(np.average((machine.fitted - best) ** 2, weights=v))
    assert moved <= row.value + 1e-12
    assert row.value <= max(1e3 * size * (1.0 + gamma), 1e-9)
    proof = prove_squared_hinge(kernel, X, machine, tolerance_in_balls(y, v, 1e-6))
    assert moved <= proof.accuracy + 1e-12
    assert proof.accuracy <= row.value


@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_the_residual_of_every_row_counts(gamma):
    """Support values that sum to zero: moved within the support, and those of the machine without one row."""
    X, y, v = drawn(6)
    kernel, rng = RBF(1.0), np.random.default_rng(7)
    K, ridge = kernel(X), 1.0 / (gamma * v)
    exact = solve_squared_hinge(Gram(K.copy()), y, ridge)
    best = exact.products + exact.bias
    share = np.abs(exact.coefficients)
    change = share * rng.standard_normal(40)
    change = 1e-3 * (change - share * change.sum() / share.sum())
    left_out = int(share.argmax())
    others = np.arange(40) != left_out
    fewer = solve_squared_hinge(Gram(K[np.ix_(others, others)]), y[others], ridge[others])
    without = np.zeros(40)
    without[others] = fewer.coefficients
    for a, b in ((exact.coefficients + change, exact.bias), (without, fewer.bias)):
        machine, careful = machine_of(kernel, X, y, gamma, v, a, b)
        distance = np.sqrt(np.average((machine.fitted - best) ** 2, weights=v))
        row, _ = hinge_accuracy(machine, careful, Tolerance.of(y, v, 1e-6))
        proof = prove_squared_hinge(kernel, X, machine, tolerance_in_balls(y, v, 1e-6))
        assert 1e-6 < distance <= proof.accuracy <= row.value < np.inf


def test_a_support_value_of_the_wrong_sign_or_a_wrong_support_has_no_small_bound():
    X, y, v = drawn(3)
    kernel = RBF(1.0)
    exact = solve_squared_hinge(Gram.of(kernel, X), y, 1.0 / (5.0 * v))
    flipped = np.where(np.arange(40) == int(np.flatnonzero(exact.active)[0]), -exact.coefficients, exact.coefficients)
    dropped = np.where(np.arange(40) == int(np.abs(exact.coefficients).argmax()), 0.0, exact.coefficients)
    for a, least in ((flipped, np.inf), (dropped, 1e-3)):
        machine, careful = machine_of(kernel, X, y, 5.0, v, a, exact.bias)
        row, _ = hinge_accuracy(machine, careful, Tolerance.of(y, v, 1e-6))
        assert row.value >= least
        assert not row.passes


@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-2])
def test_the_bound_of_a_declared_point_is_true(size):
    X, y, v = drawn(4)
    K, gamma_v = RBF(1.0)(X), 3.0 * v
    values, vectors = np.linalg.eigh(K)
    R = vectors * np.sqrt(np.maximum(values, 0.0))
    exact = solve_squared_hinge(Gram(K.copy()), y, 1.0 / gamma_v)
    w = R.T @ exact.coefficients
    moved = w + size * np.random.default_rng(5).standard_normal(w.size)
    row = primal_hinge_accuracy(R, y, gamma_v, moved, R @ moved, Tolerance.of_page(y, np.ones(40), 1e-3))
    distance = R @ (moved - w)
    assert np.sqrt(np.mean((distance - distance.mean()) ** 2)) <= row.value + 1e-9
    assert row.value <= 1e-6 + 1e3 * size
