"""Least squares with inequalities at points by their multipliers, and Hessians in cells, against other ways."""

import cvxpy as cp
import numpy as np
import pytest

from substrate import Everywhere, Machine, Substrate
from substrate.composition.cut_least_squares import CutLeastSquares, DualPoint, _minimise
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
