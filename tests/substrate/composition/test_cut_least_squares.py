"""Least squares with inequalities at points by their multipliers, and Hessians in cells, against other ways."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from substrate import Everywhere, Machine, Substrate
from substrate.composition.cut_least_squares import (
    CutLeastSquares,
    DualPoint,
    LeastSquaresValue,
    SquaredWeights,
    _minimise,
)
from substrate.composition.expanded_function import ExpandedFunction, ExpansionTerm
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import pull_of_bias, representers
from substrate.errors import SolverError
from substrate.kernels import RBF

EVERYWHERE = Everywhere()


def rows(n=20, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    return X, np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.4 * rng.standard_normal(n)


def machine_of(n=12, bias=True):
    X, y = rows(n)
    s = Substrate(RBF(1.0), X, y, bias=bias)
    shapes = [s.gradient(EVERYWHERE, 0) >= 0.0, s.f(EVERYWHERE) >= -0.8]
    return Machine(s, minimize=5.0 * cp.sum_squares(s.e) + 0.5 * s.squared_norm, subject_to=shapes)


@pytest.mark.parametrize("bias", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_multipliers_are_those_of_the_compiled_machine(bias):
    """The same bracket as by a solver of cvxpy, whose compiled problem knows nothing of this method."""
    machine = machine_of(bias=bias)
    direct, compiled = machine.solve(), machine.solve("clarabel")
    assert "MULTIPLIERS" in str(direct.certificate)
    assert direct.certificate.holds, direct.certificate
    assert direct.lower_bound <= compiled.objective * (1.0 + 1e-9)
    assert compiled.lower_bound <= direct.objective * (1.0 + 1e-9)
    assert abs(direct.objective - compiled.objective) <= 1e-4 * compiled.objective


def test_a_lower_value_is_below_every_feasible_one_and_notices_other_multipliers():
    """The gap is a sum of parts that are not negative; multipliers of no machine make it larger."""
    machine = machine_of()
    result = machine.solve()
    method = CutLeastSquares.of(machine)
    pairs = [(plan.constraint, m) for plan, m in zip(machine.shapes.plans, result.multipliers, strict=True)]
    pulling = [term for pair in pairs for term in representers(*pair)]
    pulls = [number for pair in pairs for number in pull_of_bias(*pair)]
    e = result.expansions[0]
    terms = [ExpansionTerm(t.points, t.coefficients, t.part, t.operator) for t in e.further]
    function = ExpandedFunction(machine.substrates[0], (ExpansionTerm(method.X, e.coefficients), *terms), e.b)
    point = DualPoint.of(method.weights, function, pulling, pulls)
    low, high = point.values()
    assert low <= result.objective <= high * (1.0 + 1e-12)
    assert point.lower_value(0.0) <= high
    assert point.residual <= 1e-4
    doubled = [ExpansionTerm(t.points, 2.0 * t.coefficients, t.part, t.operator) for t in pulling]
    assert DualPoint.of(method.weights, function, doubled, pulls).lower_value(0.0) < point.lower_value(0.0)


def test_the_quadratic_program_meets_its_conditions():
    """Random programs, singular ones among them; multipliers without a bound are told."""
    rng = np.random.default_rng(0)
    for m, rank in ((1, 1), (6, 6), (12, 5), (40, 20)):
        F = rng.standard_normal((rank, m))
        Q = F.T @ F
        pull = Q @ rng.uniform(0.0, 1.0, m) - rng.uniform(0.0, 1.0, m) * rng.integers(0, 2, m)
        mu, _ = _minimise(Q, pull)
        slack = Q @ mu - pull
        size = np.abs(Q).max() * max(mu.max(), 1.0)
        assert mu.min() >= 0.0
        assert slack.min() >= -1e-7 * size
        assert abs(mu @ slack) <= 1e-6 * size
    with pytest.raises(SolverError):
        _minimise(np.zeros((2, 2)), np.array([1.0, -1.0]))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kind", ["hessian", "slope"])
def test_no_point_of_a_cell_is_below_its_bound(d, kind):
    """At random points of cells of several sizes; the bound of a small cell is near the smallest value there."""
    X, _ = rows(12, d)
    rng = np.random.default_rng(1)
    s = Substrate(RBF(1.5), X, np.zeros(12))
    shape = (s.hessian(EVERYWHERE) if kind == "hessian" else s.gradient(EVERYWHERE, 0)) >= 0.0
    function = ExpandedFunction(s, (ExpansionTerm(X, rng.standard_normal(12)),), 0.3)
    target = ShapePlan.of(shape).bind([function]).target(0)
    for width in (0.5, 0.05):
        lower = rng.uniform(X.min(axis=0), X.max(axis=0) - width, (6, d))
        bounds, centres = target.bounds(lower, lower + width)
        for cell, bound, centre in zip(lower, bounds, centres, strict=True):
            values = target.values(cell + width * rng.uniform(0.0, 1.0, (300, d)))
            assert values.min() >= bound
            assert centre >= values.min() - 10.0 * width
            if width == 0.05:
                assert values.min() - bound <= 0.05


def optimum(c, g, sigma=0.3, n=6, seed=2):
    """A machine without cuts, solved: its substrate, weights, coefficients of w, bias, errors and smallest J."""
    X, y = rows(n, seed=seed)
    s = Substrate(RBF(sigma), X, y)
    K = RBF(sigma)(X)
    bordered = np.block([[K + np.diag(c / g), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.append(y, 0.0))
    a, b = solved[:n], float(solved[n])
    e = y - K @ a - b
    return s, SquaredWeights(c, g), a, b, 0.5 * c * float(a @ K @ a) + 0.5 * float(g @ e**2)


@pytest.mark.parametrize("c", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("shift", [1e-3, 0.3])
def test_the_gap_of_a_shifted_bias_is_what_it_costs(c, shift):
    """J of f + d is larger by d^2 sum g / 2, and the bound says so."""
    s, weights, a, b, least = optimum(c, np.linspace(0.5, 2.0, 6))
    function = ExpandedFunction(s, (ExpansionTerm(s.X, a),), b + shift)
    point = DualPoint.of(weights, function, [], [])
    cost = 0.5 * shift**2 * float(weights.g.sum())
    low, high = point.values()
    np.testing.assert_allclose([low, high], least + cost, rtol=1e-10)
    assert least - 0.03 * cost - 1e-6 * least <= point.lower_value(0.0) <= least * (1.0 + 1e-13)
    np.testing.assert_allclose(point.lower_value(0.25), point.lower_value(0.0) - 0.25, atol=1e-12)
    # functions of nearly the smallest value are near: here by the shift itself
    row = LeastSquaresValue(least, s.y, weights).accuracy(cost, 1e-6)
    assert shift * (1.0 - 1e-12) <= row.value <= 1.02 * shift


@pytest.mark.parametrize("shift", [1e-2, 0.3])
def test_multipliers_that_do_not_sum_to_zero_take_from_the_bound_what_the_bias_can_do(shift):
    """With alpha = g e of a shifted bias the conditions of w and e hold nearly, and the sum is what is wrong."""
    c, g = 100.0, np.ones(6)
    s, weights, a, b, least = optimum(c, g, sigma=0.05)
    function = ExpandedFunction(s, (ExpansionTerm(s.X, a),), b + shift)
    balanced = DualPoint.of(weights, function, [], [])
    alpha = g * balanced.e
    u = alpha - c * a
    point = replace(
        balanced,
        alpha=alpha,
        residual=float(np.sqrt(u @ RBF(0.05)(s.X) @ u)) * (1.0 + 1e-12),
        unbalanced=abs(float(alpha.sum())),
    )
    without = point.values()[0] - point.root_left(c, g) ** 2
    assert without > least, "without the sum the bound would be false"
    assert point.lower_value(0.0) <= least
    reach = 3.5 * point.unbalanced * np.sqrt(point.values()[1])
    assert without - point.lower_value(0.0) >= reach * (1.0 / np.sqrt(g[0]) + 1.0 / np.sqrt(c)) * (1.0 - 1e-12)


def test_values_hold_the_exact_one_where_errors_are_rounding():
    """J of a function through targets with an offset of 1e6, against 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    X, _ = rows(6)
    a, b, sigma = np.random.default_rng(3).normal(size=6), 1e6, 1.0
    g, c = np.full(6, 3.0), 1e-14
    y = RBF(sigma)(X) @ a + b
    s = Substrate(RBF(sigma), X, y)
    function = ExpandedFunction(s, (ExpansionTerm(X, a),), b)
    low, high = DualPoint.of(SquaredWeights(c, g), function, [], []).values()
    with mpmath.workdps(60):
        points, coefficients = [mpmath.mpf(float(x)) for x in X[:, 0]], [mpmath.mpf(float(value)) for value in a]
        K = [[mpmath.exp(-(((x - z) / sigma) ** 2)) for z in points] for x in points]
        w = sum(p * q * K[i][j] for i, p in enumerate(coefficients) for j, q in enumerate(coefficients))
        fitted = [sum(k * p for k, p in zip(row, coefficients, strict=True)) + b for row in K]
        squares = sum(mpmath.mpf(v) * (mpmath.mpf(float(t)) - f) ** 2 for v, t, f in zip(g, y, fitted, strict=True))
        exact = mpmath.mpf(c) * w / 2 + squares / 2
        assert mpmath.mpf(c) * w / 2 < exact, "the errors count"
        assert low <= exact <= high
    assert high < 1e-10
