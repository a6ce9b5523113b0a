"""Derivatives of kernels against differences of their formulas in exact arithmetic, and refusals with the reason."""

import math

import numpy as np
import pytest
from kernel_examples import ALL, N_FEATURES, columns_for
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DeclarationError
from substrate.kernels import (
    RBF,
    Componentwise,
    Foreign,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    Symmetric,
)

flint = pytest.importorskip("flint")

SMOOTH = [example for example in ALL if not example.kernel.not_smooth]
ROUGH = [example for example in ALL if example.kernel.not_smooth]
MORE = (Matern(0.8, nu=3.5), Matern(2.0, nu=10.5), Matern(1.5, 1.5).on(0, 2))


@pytest.fixture(autouse=True)
def many_digits():
    kept, flint.ctx.prec = flint.ctx.prec, 400
    yield
    flint.ctx.prec = kept


STEP = 2.0**-60


def moved(x, column, sign):
    point = [flint.arb(value) for value in x]
    point[column] = point[column] + sign * flint.arb(STEP)
    return point


def differences(kernel, x, z, column, other=None):
    """Central differences of the exact formula; of both arguments where ``other`` is given."""
    k = kernel.exact_formula(flint.arb, len(x))
    if other is None:
        z = [flint.arb(value) for value in z]
        return float((k(moved(x, column, 1), z) - k(moved(x, column, -1), z)) / (2 * STEP))
    corners = [(s, t, k(moved(x, column, s), moved(z, other, t))) for s in (1, -1) for t in (1, -1)]
    return float(sum(s * t * value for s, t, value in corners) / flint.arb(4 * STEP * STEP))


@pytest.mark.parametrize("kernel", [*(example.kernel for example in SMOOTH), *MORE], ids=repr)
def test_derivatives_are_limits_of_differences(kernel):
    """Also near x = z, where the formulas of a Matérn kernel cancel."""
    rng = np.random.default_rng(0)
    width = columns_for(kernel)
    X, Z = rng.normal(size=(3, width)), rng.normal(size=(4, width))
    Z[0] = X[0] + 1e-3 * rng.normal(size=width)
    for column, other in ((0, 0), (2, 0), (1, 1)):
        slope = [[differences(kernel, x, z, column) for z in Z] for x in X]
        bend = [[differences(kernel, x, z, column, other) for z in Z] for x in X]
        assert_allclose(kernel.derivative(X, Z, {column: 1}), slope, rtol=1e-8, atol=1e-10)
        assert_allclose(kernel.derivative(X, Z, {column: 1}, {other: 1}), bend, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("example", ROUGH, ids=str)
def test_what_has_no_derivatives_says_why(example):
    X = example.points(4)
    with pytest.raises(DeclarationError, match=r"has no derivatives: .*; "):
        example.kernel.derivative(X, X, {0: 1})
    with pytest.raises(DeclarationError, match=r"has no derivatives: .*; "):
        example.kernel.derivative(X, X, {0: 1}, {0: 1})


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (Laplacian(1.0), "a kink where x = z; take RBF"),
        (RBF(1.0) * Matern(1.0, 0.5), "nu > 1 only; take nu=1.5"),
        (Componentwise([RBF(1.0), Matern(1.0, 0.5), RBF(1.0)]), "nu > 1 only"),
        (Symmetric(Laplacian(1.0)), "kink"),
        (2.0 * Precomputed(), "no inputs"),
        (Foreign(np.dot), "only its values are known"),
    ],
    ids=repr,
)
def test_the_reason_is_that_of_the_part(kernel, why):
    with pytest.raises(DeclarationError, match=why):
        kernel.derivative(np.ones((2, 3)), np.ones((2, 3)), {0: 1})


def test_a_kernel_without_formulas_is_refused_not_guessed():
    class Constant(Kernel):
        def evaluate(self, X, Z, dtype):
            return np.ones((X.shape[0], Z.shape[0]), dtype=dtype)

        def diag(self, X):
            return np.ones(X.shape[0])

    with pytest.raises(DeclarationError, match="their formula is not known"):
        Constant().derivative(np.ones((2, 3)), np.ones((2, 3)), {0: 1})


def exact_derivative(kernel, x, z, left, right):
    """Central differences of any order of the exact formula, in 3,000 bits: their error is 2^-200 of the value."""
    step = flint.arb(2) ** -100
    k = kernel.exact_formula(flint.arb, len(x))
    terms = [(flint.arb(1), [flint.arb(value) for value in x], [flint.arb(value) for value in z])]
    for side, orders in ((1, left), (2, right)):
        for column, order in orders.items():
            moved_terms = []
            for term in terms:
                for j in range(order + 1):
                    points = [term[0] * (-1) ** j * math.comb(order, j) / step**order, list(term[1]), list(term[2])]
                    points[side][column] = points[side][column] + (flint.arb(order) / 2 - j) * step
                    moved_terms.append(tuple(points))
            terms = moved_terms
    return float(sum((weight * k(one, other) for weight, one, other in terms), flint.arb(0)))


HIGHER = (
    RBF(0.7),
    RBF((0.5, 1.0, 2.0)),
    Matern(0.8, nu=2.5),
    Matern(1.3, nu=3.5),
    Linear(),
    Polynomial(4, 0.5),
    Polynomial(2, 0.0),
    2.0 * RBF(1.0) + Linear(),
    RBF(1.0) * Polynomial(2, 1.0),
    Componentwise(RBF(0.8)),
    Componentwise(Matern(1.0, nu=3.5)),
    Symmetric(RBF(1.2), "odd"),
    RBF(0.9).on(0, 2),
)
ORDERS = (({0: 2}, {}), ({0: 1, 2: 1}, {}), ({0: 2}, {0: 2}), ({0: 1, 2: 1}, {2: 2}), ({}, {1: 2}), ({0: 2}, {2: 1}))


@pytest.mark.parametrize("kernel", HIGHER, ids=repr)
def test_derivatives_of_higher_order_are_those_of_the_exact_formula(kernel):
    flint.ctx.prec = 3000
    rng = np.random.default_rng(2)
    X, Z = rng.normal(size=(2, N_FEATURES)), rng.normal(size=(3, N_FEATURES))
    Z[0] = X[0] + 1e-3 * rng.normal(size=N_FEATURES)
    for left, right in ORDERS:
        exact = [[exact_derivative(kernel, x, z, left, right) for z in Z] for x in X]
        # what a derivative of this order is at most, by its functional's norm
        size = (
            1.0
            + np.abs(kernel.derivative(X, X, left, left)).max()
            + np.abs(kernel.derivative(Z, Z, right, right)).max()
        )
        assert_allclose(kernel.derivative(X, Z, left, right), exact, rtol=1e-10, atol=1e-12 * size)


@pytest.mark.parametrize(
    ("kernel", "orders", "largest"),
    [
        (Matern(1.0, nu=1.5), {0: 2}, 1),
        (Matern(1.0, nu=1.5), {0: 1, 1: 1}, 1),
        (Matern(1.0, nu=2.5), {0: 3}, 2),
        (RBF(1.0) + Matern(1.0, nu=2.5), {0: 3}, 2),
        (RBF(1.0) * Matern(1.0, nu=2.5), {0: 2, 2: 1}, 2),
        (Componentwise({0: RBF(1.0), 1: Matern(1.0, nu=1.5)}), {1: 2}, 1),
    ],
    ids=repr,
)
def test_orders_that_functions_of_the_kernel_do_not_have_are_refused(kernel, orders, largest):
    X = np.zeros((2, N_FEATURES))
    with pytest.raises(DeclarationError, match=rf"have derivatives up to order {largest} there, received order"):
        kernel.derivative(X, X, orders)


def test_points_at_any_distance_and_in_any_unit():
    """Nothing overflows where the kernel is zero, and units divide the derivatives."""
    X = np.array([[0.0], [1e-200], [1e200], [3.0]])
    for kernel in (RBF(1e-150), Matern(1e-150, nu=2.5)):
        values = kernel.derivative(X, X, {0: 1})
        assert np.isfinite(values).all()
        assert_array_equal(np.diag(values), 0.0)
    near, far = (RBF(unit).derivative(unit * X[[0, 3]], unit * X[[0, 3]], {0: 2}) * unit**2 for unit in (1.0, 1e-60))
    assert_allclose(far, near, rtol=1e-13)
