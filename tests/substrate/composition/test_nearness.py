"""The parts of the check: points made feasible, values tied by squares, and a distance that is never too small."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import StandardForm
from substrate.composition.determined import CoordinateBounds, NormTies, by_conditions, by_loss
from substrate.composition.feasible_point import Feasibility, least_step
from substrate.composition.nearness import in_dual_cone, nearness
from tests.oracles.exact_quadratic_program import exact_optimum, exact_values
from tests.oracles.small_machines import KINDS, interior_point, small_machine


def program_of(problem):
    form = StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
    return ConeProgram.of(form.numbers(), form.cones)


def random_step(program, rng):
    """A direction that leaves the equalities alone."""
    d = rng.normal(size=program.q.size)
    rows = program.A[program.equal].toarray()
    return d - np.linalg.pinv(rows) @ (rows @ d) if rows.size else d


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.some_cases(5)
def test_the_distance_of_any_point_is_not_above_its_bound(kind):
    """Points and multipliers far from optimal, against the optimum in rational arithmetic."""
    pytest.importorskip("flint", reason="the exact optimum is found in rational arithmetic")
    optimum = None
    for seed in range(5, 15):  # until rational arithmetic finds the optimum
        rng = np.random.default_rng(seed)
        program = program_of(small_machine(rng, kind, wild=False).problem)
        near = interior_point(program.P, program.q, program.A, program.b, program.equal, program.linear)
        optimum = exact_optimum(program.P, program.q, program.A, program.b, program.equal, near)
        if optimum is not None:
            break
    best = exact_values(np.eye(program.q.size), optimum)
    x, z = near
    ties, tight = CoordinateBounds.of(program, 1000), []
    for size in (0.0, 1e-6, 1e-3, 1e-1):
        for rough in (0.0, 1e-3, 1.0):
            moved = x + size * random_step(program, rng)
            dual = z + rough * size * rng.normal(size=z.size)
            radius = 2.0 * (np.abs(moved - best) + 1.0)
            found = nearness(program, moved, dual, radius, ties)
            d = found.x - best
            true = np.sqrt(max(d @ (program.P @ d), 0.0))
            assert true <= found.distance * (1.0 + 1e-9) + 1e-15, (size, true, found.distance)
            tight.append(true / found.distance)
    assert max(tight) > 1e-3


def test_a_feasible_point_is_feasible_exactly():
    rng = np.random.default_rng(0)
    for seed in range(20):
        n, m = 4, 9
        A, inside = rng.normal(size=(m, n)), rng.normal(size=n)
        b = -A @ inside
        b[3:] += rng.uniform(0.1, 1.0, size=m - 3)  # three rows are active at ``inside``, up to rounding
        program = ConeProgram(sp.csr_array((n, n)), np.zeros(n), sp.csr_array(A), b, np.zeros(0, int), np.arange(m), ())
        found = Feasibility(program).near(inside + 1e-9 * rng.normal(size=n))
        assert not found.radius.any()
        assert np.abs(found.x - inside).max() <= 1e-7
        point = [Fraction(float(v)) for v in found.x]
        for row, constant in zip(A, b, strict=True):
            slack = sum(Fraction(float(a)) * v for a, v in zip(row, point, strict=True)) + Fraction(float(constant))
            assert slack >= 0, seed


def test_the_correction_of_equalities_is_not_above_its_bound():
    """Rows with a column of their own and one without: an exact solution is within what is said, by rationals."""
    pytest.importorskip("flint", reason="equalities are solved in rational arithmetic")
    rng = np.random.default_rng(1)
    A = np.zeros((4, 7))
    A[:3, :3], A[:3, 3:] = np.diag([1.0, -1.0, 2.0]), rng.normal(size=(3, 4))
    A[3, 3:] = 1.0
    b = rng.normal(size=4)
    program = ConeProgram(sp.csr_array(np.eye(7)), np.zeros(7), sp.csr_array(A), b, np.arange(4), np.zeros(0, int), ())
    found = Feasibility(program).near(1e3 * rng.normal(size=7))
    # the nearest exact solution: min ||x - found||
    nearest = exact_optimum(np.eye(7), -found.x, A, b, np.arange(4), (found.x, np.zeros(4)))
    step = exact_values(np.eye(7), [v - w for v, w in zip(nearest, _exact(found.x), strict=True)])
    assert 0.0 < np.linalg.norm(found.radius) <= 1e-10
    assert np.linalg.norm(step) <= np.linalg.norm(found.radius)


def _exact(values):
    from flint import fmpq

    return [fmpq(*float(v).as_integer_ratio()) for v in values]


def test_what_cannot_be_made_feasible_says_why():
    x = cp.Variable(2)
    twice = cp.Problem(cp.Minimize(cp.sum_squares(x)), [cp.sum(x) == 1.0, 2.0 * cp.sum(x) == 2.0])
    assert "depend on each other" in Feasibility(program_of(twice)).near(np.full(2, 0.5))
    pinned = cp.Problem(cp.Minimize(cp.sum_squares(x)), [x[0] <= 0.1, x[0] >= 0.1])
    assert "leave no inside" in Feasibility(program_of(pinned)).near(np.array([0.1 + 1e-12, 0.0]))


def test_a_step_serves_rows_that_depend_on_each_other():
    rows = sp.csr_array(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]))
    step = least_step(sp.csr_array((0, 2)), rows, np.array([1.0, 1.0, 0.0, 9.0]))
    assert (rows @ step >= 0.9 * np.array([1.0, 1.0, 0.0, 9.0])).all()
    opposite = sp.csr_array(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert least_step(sp.csr_array((0, 2)), opposite, np.ones(2)) is None


def losses(weights):
    rng = np.random.default_rng(2)
    F, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    x = cp.Variable(3, name="x")
    loss = 0.5 * cp.sum_squares(cp.multiply(np.sqrt(weights), y - F @ x))
    return F, x, cp.Problem(cp.Minimize(loss + cp.norm1(x)), [cp.sum(x) == 0.2])


def test_a_loss_ties_its_values_with_its_weights():
    weights = np.array([1.0, 4.0, 1.0, 0.25, 9.0, 1.0])
    F, x, problem = losses(weights)
    program = program_of(problem)
    form = StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
    columns = form.columns[x.id] + np.arange(3)
    radius = np.full(program.q.size, 10.0)
    for order in (np.arange(6), np.array([3, 1, 0, 5, 4, 2])):  # in the order of cvxpy, and in another
        tie = by_loss(program, columns, F[order], radius)
        assert_allclose(tie.weights, weights[order], rtol=1e-12)
        assert tie.remainder <= 1e-12
    assert by_loss(program, columns, F + 1e-9, radius) is None
    assert NormTies().by_norm(program, columns, F) is None
    general = by_conditions(program, columns, F, radius)
    rng = np.random.default_rng(0)
    for _ in range(20):
        d = random_step(program, rng)
        size = np.sqrt(d @ (program.P @ d))
        assert np.sqrt(weights @ (F @ d[columns]) ** 2) <= (1.0 + 1e-9) * size + 1e-12
        assert np.linalg.norm(F @ d[columns]) <= general.factor * size + general.remainder


def test_a_norm_ties_values_by_the_largest_singular_value():
    rng = np.random.default_rng(3)
    F, x = rng.normal(size=(5, 3)), cp.Variable(3)
    problem = cp.Problem(cp.Minimize(2.0 * cp.sum_squares(x) + cp.norm1(F @ x - 1.0)))
    program = program_of(problem)
    columns = StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL").columns[x.id] + np.arange(
        3
    )
    assert_allclose(NormTies().by_norm(program, columns, F).factor, np.linalg.norm(F, 2) / 2.0, rtol=1e-8)
    assert by_loss(program, columns, F, np.ones(program.q.size)) is None


def test_a_residual_costs_no_less_than_its_product():
    rng = np.random.default_rng(4)
    _, _, problem = losses(np.ones(6))
    program = program_of(problem)
    ties, radius = CoordinateBounds.of(program, 100), np.full(program.q.size, 3.0)
    assert ties.columns.size
    assert not CoordinateBounds.of(program, 0).columns.size
    for _ in range(50):
        d = random_step(program, rng)
        d *= 3.0 * rng.random() / np.abs(d).max()
        r = np.abs(rng.normal(size=d.size))
        for known in (ties, CoordinateBounds.of(program, 0)):
            a, g = known.split(r, radius)
            assert r @ np.abs(d) <= a * np.sqrt(d @ (program.P @ d)) + g @ radius + 1e-12


def test_multipliers_are_raised_into_the_dual_cones():
    x = cp.Variable(3)
    soc = program_of(cp.Problem(cp.Minimize(cp.sum_squares(x) + cp.norm2(x - 1.0)), [cp.norm2(x) <= 3.0]))
    exp = program_of(cp.Problem(cp.Minimize(cp.sum_squares(x) + cp.sum(cp.exp(x)))))
    rng = np.random.default_rng(0)
    for program in (soc, exp):
        for _ in range(20):
            z = in_dual_cone(program, rng.normal(size=program.b.size))
            for part in program.cone_blocks:
                u = z[part.rows]
                if part.kind == "SOC":
                    assert u[0] >= np.linalg.norm(u[1:])
                elif u[0] == 0.0:
                    assert min(u[1:]) >= 0.0
                else:
                    assert u[0] < 0.0
                    assert u[2] >= -u[0] * np.exp(u[1] / u[0] - 1.0)


def test_a_program_with_uncertain_rows_counts_their_radius_and_keeps_what_was_computed():
    program = program_of(small_machine(np.random.default_rng(3), KINDS[0], wild=False).problem)
    x = np.random.default_rng(4).normal(size=program.q.size)
    slack, rounding = program.slack(x)
    uncertain = np.arange(1.0, slack.size + 1.0)
    for radius in (uncertain, 3.0 * uncertain):  # the second program is made of one that has a radius
        program = program.with_space("what is known", radius)
        assert program.whole == "what is known"
        assert_allclose(program.slack(x)[0], slack, rtol=0.0, atol=0.0)
        assert_allclose(program.slack(x)[1], rounding + radius, rtol=1e-15)
        assert "sizes" in vars(program)
