"""The formula of every kernel: its values agree with the kernel, or it is refused with what to take instead."""

import numpy as np
import pytest
from kernel_formulas import EVERY, WITH_FORMULA, WITHOUT, evaluate, expansion, has_formula

from substrate.errors import DeclarationError
from substrate.kernels import RBF, Linear, Matern, Polynomial
from substrate.kernels.nodes import Node, NodeProgram, Output, Points, constant, inputs, kernel_formula, total


@pytest.mark.parametrize("example", WITH_FORMULA, ids=str)
def test_the_formula_of_a_kernel_has_its_values(example):
    Z, X = example.points(7), example.points(5, seed=1)
    X[0] = Z[0]
    alpha = np.random.default_rng(2).normal(size=7)
    values = evaluate(expansion(example.kernel, Z, alpha), X)["f"]
    K = example.naive(X, Z)
    assert np.abs(values - K @ alpha).max() <= 1e-12 * (np.abs(K) @ np.abs(alpha)).max() + 1e-300


@pytest.mark.parametrize("example", [e for e in EVERY if not has_formula(e.kernel)], ids=str)
def test_a_kernel_without_one_is_refused(example):
    with pytest.raises(DeclarationError, match=r"has no formula of exponentials.*fit with RBF, Laplacian"):
        kernel_formula(example.kernel, inputs(3), Points(np.zeros((2, 3))).coordinates())


def test_every_class_of_kernels_is_on_one_side():
    exported = {type(example.kernel) for example in EVERY if has_formula(example.kernel)}
    assert {type(example.kernel) for example in EVERY} - exported == set(WITHOUT)


def test_what_is_exact_in_any_arithmetic_is_simplified():
    (x,) = inputs(1)
    assert (x + 0.0) is x
    assert (x * 1.0) is x
    assert (x - x).is_number(0.0)
    assert (0.0 * x).is_number(0.0)
    assert (x - x).exp().is_number(1.0)


def test_a_formula_has_no_branches():
    (x,) = inputs(1)
    with pytest.raises(DeclarationError, match="no branches"):
        bool(x == 0.0)


def test_many_columns_need_no_recursion():
    d = 1500
    Z = np.random.default_rng(0).normal(size=(2, d))
    values = evaluate(expansion(RBF(100.0), Z, np.ones(2)), Z)["f"]
    np.testing.assert_allclose(values, RBF(100.0)(Z).sum(axis=1), rtol=1e-12)


def test_a_kernel_that_is_the_same_everywhere_is_a_number():
    alpha = np.array([0.1, 0.2, -0.7])
    program = expansion(0.0 * Linear(), np.ones((3, 2)), alpha)
    assert program.outputs[0].nodes[0].is_number(0.0)
    np.testing.assert_array_equal(evaluate(program, np.ones((4, 2)))["f"], np.zeros(4))


@pytest.mark.parametrize("kernel", [RBF(0.8), RBF((0.8, 1.3)), Polynomial(3, 1.0), Linear(), RBF(1.0) * Linear()])
@pytest.mark.parametrize("orders", [{0: 1}, {1: 2}, {0: 1, 1: 1}], ids=str)
def test_derivatives_are_those_of_the_kernel(kernel, orders):
    rng = np.random.default_rng(0)
    Z, X, alpha = rng.normal(size=(4, 2)), rng.normal(size=(6, 2)), rng.normal(size=4)
    points = Points(Z)
    body = kernel_formula(kernel, inputs(2), points.coordinates(), orders)
    values = evaluate(NodeProgram(2, [Output("f", (total(body, alpha),), ())]), X)["f"]
    np.testing.assert_allclose(values, kernel.derivative(X, Z, {}, orders) @ alpha, rtol=1e-10, atol=1e-12)


def test_a_kernel_with_a_kink_has_no_derivative():
    points = Points(np.zeros((2, 1)))
    with pytest.raises(DeclarationError, match="has no formula"):
        kernel_formula(Matern(1.0, 2.5), inputs(1), points.coordinates(), {0: 1})


def test_powers_are_of_whole_numbers_from_one_on():
    (x,) = inputs(1)
    assert isinstance(x**7, Node)
    with pytest.raises(DeclarationError, match="powers from 1 on"):
        x**0
    program = NodeProgram(1, [Output("f", (x**7 + constant(1.0),), ())])
    np.testing.assert_allclose(evaluate(program, np.array([[-1.5]]))["f"], (-1.5) ** 7 + 1.0, rtol=1e-15)
