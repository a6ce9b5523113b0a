"""The bound on rounding holds: against balls, at random rows, at rows of the points, next to them, and in corners."""

import numpy as np
import pytest
from kernel_formulas import WITH_FORMULA, evaluate, expansion

from substrate.balls import ball, precision
from substrate.kernels import RBF, Categorical, Polynomial
from substrate.kernels.nodes import NodeProgram, Output, inputs
from substrate.kernels.rounding_bound import DOUBLE, SINGLE, bound_rounding


def rows_that_try(Z, rng):
    """Rows of a box: anywhere, in corners, at the points, and one number next to them."""
    low, high = Z.min(axis=0), Z.max(axis=0)
    corners = np.where(rng.random((4, Z.shape[1])) < 0.5, low, high)
    neighbours = np.clip(np.nextafter(Z, np.inf), low, high)
    return np.vstack([rng.uniform(low, high, size=(6, Z.shape[1])), corners, Z[:4], neighbours[:4]])


def exact_values(kernel, Z, alpha, X):
    """The exact sum of every row, as a ball."""
    formula = kernel.exact_formula(ball, Z.shape[1])
    balls = [[ball(v) for v in z] for z in Z.tolist()]
    return [
        sum(ball(a) * formula([ball(v) for v in x], z) for a, z in zip(alpha.tolist(), balls, strict=True))
        for x in X.tolist()
    ]


@pytest.mark.parametrize("arithmetic", [SINGLE, DOUBLE], ids=lambda a: a.name)
@pytest.mark.parametrize("example", WITH_FORMULA, ids=str)
@pytest.mark.some_cases(16)
def test_computed_values_are_within_the_bound(example, arithmetic):
    rng = np.random.default_rng(3)
    Z, alpha = example.points(6), np.random.default_rng(2).normal(size=6) * 10.0 ** rng.integers(-3, 4, size=6)
    program = expansion(example.kernel, Z, alpha)
    X = rows_that_try(Z, rng)
    bound = bound_rounding(program, np.column_stack([Z.min(axis=0), Z.max(axis=0)]), arithmetic)
    assert np.isfinite(bound.loss) or (arithmetic is SINGLE and isinstance(example.kernel, Categorical))
    computed = evaluate(program, X, arithmetic)["f"]
    with precision(200):
        for value, exact in zip(computed, exact_values(example.kernel, Z, alpha, X), strict=True):
            error = abs(ball(float(value)) - exact)
            assert error <= bound.loss
            assert bound.lows[0] <= exact <= bound.highs[0]


def test_the_bound_is_no_idle_one():
    """It is within a hundred of what happens in single precision, for a kernel of three columns."""
    rng = np.random.default_rng(0)
    Z, alpha = rng.normal(size=(40, 3)), rng.normal(size=40)
    program = expansion(RBF(1.5), Z, alpha)
    X = rows_that_try(Z, rng)
    bound = bound_rounding(program, np.column_stack([Z.min(axis=0), Z.max(axis=0)]), SINGLE)
    errors = np.abs(evaluate(program, X, SINGLE)["f"] - evaluate(program, X)["f"])
    assert 0.0 < errors.max() <= bound.loss <= 1000.0 * errors.max()


def test_an_offset_is_lost_by_single_precision_and_the_bound_says_so():
    rng = np.random.default_rng(0)
    Z, alpha = rng.normal(size=(10, 2)) + 1e8, rng.normal(size=10)
    program = expansion(RBF(1.5), Z, alpha)
    box = np.column_stack([Z.min(axis=0), Z.max(axis=0)])
    single = evaluate(program, Z, SINGLE)["f"]
    lost = np.abs(single - evaluate(program, Z)["f"]).max()
    assert lost > 0.1
    assert bound_rounding(program, box, SINGLE).loss >= lost
    assert bound_rounding(program, box, DOUBLE).loss < 1e-12


@pytest.mark.parametrize("unit", [1e-9, 1e9, 1e30])
def test_units_of_the_inputs_change_nothing(unit):
    rng = np.random.default_rng(1)
    Z, alpha = rng.normal(size=(10, 2)), rng.normal(size=10)
    losses = [
        bound_rounding(
            expansion(RBF(1.5 * u), Z * u, alpha), np.column_stack([Z.min(axis=0) * u, Z.max(axis=0) * u]), DOUBLE
        ).loss
        for u in (1.0, unit)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_a_number_that_may_overflow_has_no_bound():
    Z = np.array([[1e200], [2e200]])
    box = np.array([[1e200, 2e200]])
    assert bound_rounding(expansion(Polynomial(3, 1.0), Z, np.ones(2)), box, DOUBLE).loss == np.inf
    Z, box = Z / 1e170, box / 1e170  # 1e30, whose cube is beyond single precision only
    assert bound_rounding(expansion(Polynomial(3, 1.0), Z, np.ones(2)), box, SINGLE).loss == np.inf
    assert np.isfinite(bound_rounding(expansion(Polynomial(3, 1.0), Z, np.ones(2)), box, DOUBLE).loss)


def test_codes_of_categories_are_told_apart_in_double_precision_only():
    Z = np.array([[16777216.0], [16777217.0]])
    program, box = expansion(Categorical(1.0), Z, np.array([1.0, -1.0])), np.array([[16777216.0, 16777217.0]])
    assert bound_rounding(program, box, SINGLE).loss == np.inf
    assert bound_rounding(program, box, DOUBLE).loss < 1e-14


def test_division_by_what_may_be_zero_has_no_bound():
    x = inputs(2)
    program = NodeProgram(2, [Output("f", (x[0] / x[1],), ())])
    assert bound_rounding(program, np.array([[0.0, 1.0], [-1.0, 1.0]]), DOUBLE).loss == np.inf
    assert bound_rounding(program, np.array([[0.0, 1.0], [0.5, 1.0]]), DOUBLE).loss < 1e-15
