"""Machines solved by their structure, against a conic solver and against dense linear algebra."""

import dataclasses
import warnings
from fractions import Fraction
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from substrate import Machine, Substrate, solvers
from substrate.composition import cone_program, determined, structure_search, structured_method
from substrate.composition import structured_solution as structured_solution_module
from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import StandardForm
from substrate.composition.determined import NormTies
from substrate.composition.newton_factor import NewtonFactor
from substrate.composition.scaled_program import ScaledProgram
from substrate.composition.structure_blocks import dense_rows
from substrate.composition.structure_search import find_structure, renew
from substrate.composition.structured_solution import structured_solution
from substrate.errors import SolverError
from substrate.kernels import RBF, Componentwise

N = 24


@pytest.fixture(autouse=True)
def _not_by_rows(monkeypatch):
    """Machines whose losses are sums over rows are solved by another method first."""
    monkeypatch.setattr(Machine, "_solve_by_rows", lambda *_: None)


def data(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


X, Y = data()
LABELS = np.where(np.median(Y) < Y, 1.0, -1.0)
FURTHER = data(9, seed=5)[0]


KERNEL = RBF(1.5)


def substrate(y=Y, kernel=KERNEL, **options):
    return Substrate(kernel, X, y, **options)


def insensitive(s=None):
    s = s or substrate()
    return Machine(s, minimize=0.5 * s.squared_norm + 10.0 * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))


def pinball():
    s = substrate()
    return Machine(s, minimize=0.5 * s.squared_norm + 10.0 * cp.sum(cp.maximum(0.9 * s.e, -0.1 * s.e)))


def huber():
    s = substrate()
    return Machine(s, minimize=0.5 * s.squared_norm + 10.0 * cp.sum(cp.huber(s.e, 0.2)))


def sparse_support_values():
    s = substrate()
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.5 * cp.norm1(s.alpha))


def maximal_variation():
    s = substrate(kernel=Componentwise(RBF(1.5)))
    return Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 3.0 * cp.sum(s.maximal_variation))


def hinge():
    s = substrate(LABELS, task="classification")
    return Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum(cp.pos(s.e)))


def equalities():
    s = substrate()
    return Machine(
        s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=[s.f(FURTHER) == s.f(-FURTHER)]
    )


def monotone():
    s = substrate()
    return Machine(
        s,
        minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e),
        subject_to=[cp.diff(s.f()[np.argsort(X[:, 0])]) >= 0.0],
    )


def own_variables():
    s, v = substrate(bias=False), cp.Variable(N)
    return Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e - v) + cp.norm1(v))


def chained_variables():
    s, v = substrate(bias=False), cp.Variable(N)
    return Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e - v) + cp.norm1(cp.diff(v)))


def fixed_bias():
    s = substrate(ridge=0.1)
    return Machine(s, minimize=cp.sum_squares(s.e) + cp.sum(cp.pos(-s.f(FURTHER))), subject_to=[s.b == 0.3])


def values_squared():
    s = substrate()
    return Machine(s, minimize=s.squared_norm + cp.sum_squares(s.f()) + cp.norm1(s.e))


def largest_error():
    s = substrate()
    return Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.norm_inf(s.e), subject_to=[s.f(FURTHER) <= 1.0])


MACHINES = [
    insensitive,
    pinball,
    huber,
    sparse_support_values,
    maximal_variation,
    hinge,
    equalities,
    monotone,
    own_variables,
    chained_variables,
    fixed_bias,
    values_squared,
    largest_error,
]
every = pytest.mark.parametrize("build", MACHINES, ids=lambda build: build.__name__)


def program_of(machine):
    """The program as cvxpy compiles it, without lifting, and its dense columns."""
    form = StandardForm(machine.problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
    starts = [(form.columns[one.z.id], one.z.size) for one in machine._compiled]
    return ConeProgram.of(form.numbers(), form.cones), [j for a, size in starts for j in range(a, a + size)]


@every
@pytest.mark.some_cases(7)
def test_it_is_the_optimum_of_the_conic_solver(build):
    ours, theirs = build().solve(solver="structured"), build().solve(solver="CLARABEL")
    assert [attempt.solver for attempt in ours.solver_record.attempts] == ["STRUCTURED"]
    assert ours.certificate.holds
    assert_allclose(ours.objective, theirs.objective, rtol=1e-7, atol=1e-9)
    assert_allclose(ours.predict(FURTHER), theirs.predict(FURTHER), rtol=0.0, atol=2e-4)


@every
@pytest.mark.some_cases(7)
def test_the_optimality_conditions_hold_in_the_program_as_compiled(build):
    program, dense = program_of(build())
    structure = find_structure(program, dense)
    point = structured_solution(structure)
    slack = program.A @ point.x + program.b
    size = float(np.abs(point.z).max()) + 1.0
    assert np.abs(slack[program.equal]).max(initial=0.0) <= 1e-12 * (1.0 + np.abs(point.x).max())
    assert slack[program.linear].min(initial=0.0) >= -1e-12
    assert point.z[program.linear].min(initial=0.0) >= 0.0
    assert_allclose(program.P @ point.x + program.q, program.A.T @ point.z, rtol=0.0, atol=1e-9 * size)
    assert abs(float(point.z[program.linear] @ slack[program.linear])) <= 1e-9 * size


def newton_matrix(structure, weights):
    F = np.zeros((structure.F.shape[0], structure.P.shape[0])) + structure.F
    rows = np.hstack([structure.C.toarray(), structure.T.toarray() @ F])
    M = rows.T @ (np.append(weights, structure.squares)[:, None] * rows)
    k = structure.sparse_columns.size
    M[k:, k:] += np.diag(structure.P) if structure.P.ndim == 1 else structure.P
    return M


@every
@pytest.mark.some_cases(7)
def test_the_newton_system_is_solved_whatever_the_weights(build):
    program, dense = program_of(build())
    structure = find_structure(program, dense)
    rng = np.random.default_rng(3)
    weights = 10.0 ** rng.uniform(-4.0, 4.0, structure.n_rows)
    M = newton_matrix(structure, weights)
    right = rng.standard_normal(M.shape[0])
    factor = NewtonFactor(structure, np.append(weights, structure.squares))
    assert factor.regular
    found, moved = factor.solve(right)
    atol = 1e-8 * np.abs(M).max() * max(np.abs(found).max(), 1e-3)
    assert_allclose(M @ found, right, rtol=0.0, atol=atol)
    assert_allclose(moved, structure.rows(found), rtol=0.0, atol=1e-12 * np.abs(M).max() * np.abs(found).max())
    pulls = rng.standard_normal(moved.size)
    assert_allclose(M @ factor.solve(right, pulls)[0], right + structure.pull(pulls), rtol=0.0, atol=10.0 * atol)


@pytest.mark.parametrize("build", [insensitive, pinball, hinge, values_squared], ids=lambda build: build.__name__)
@pytest.mark.parametrize("share", [1e-1, 1e-3, 1e-6])
@pytest.mark.some_cases(6)
def test_a_factor_without_small_columns_and_rows_is_near_the_newton_matrix(build, share, monkeypatch):
    """An error left after refinement is at most sqrt(share), for columns and rows each, of the one before."""
    monkeypatch.setattr(structure_search, "_MANY", 2)
    structure = find_structure(*program_of(build()))
    assert structure.significance is not None
    rng = np.random.default_rng(3)
    weights = 10.0 ** rng.uniform(-6.0, 2.0, structure.n_rows)
    M = newton_matrix(structure, weights)
    factor = NewtonFactor(structure, np.append(weights, structure.squares), 0.0, share)
    exact = rng.standard_normal(M.shape[0])
    found, _ = factor.solve(M @ exact)
    sizes = [float(error @ M @ error) ** 0.5 for error in (exact, exact - found)]
    found = found + factor.solve(M @ (exact - found))[0]
    sizes.append(float((exact - found) @ M @ (exact - found)) ** 0.5)
    rate = 3.0 * (2.0 * share**0.5 + share)
    assert sizes[1] <= rate * sizes[0] + 1e-12 * sizes[0]
    assert sizes[2] <= rate * sizes[1] + 1e-12 * sizes[0]
    if share == 1e-1:
        assert factor._kept < structure.P.size, "nothing was left out"


def test_columns_are_told_apart_whatever_the_weight_of_w(monkeypatch):
    """A parameter in P changes the shares of the columns."""
    monkeypatch.setattr(structure_search, "_MANY", 2)
    s, ridge = substrate(), cp.Parameter(nonneg=True, name="ridge")
    machine = Machine(s, minimize=ridge * s.squared_norm + cp.norm1(s.e))
    first, again = machine.solve(ridge=0.05), machine.solve(ridge=50.0)
    for result, value in ((first, 0.05), (again, 50.0)):
        assert result.certificate.holds
        other = substrate()
        theirs = Machine(other, minimize=value * other.squared_norm + cp.norm1(other.e)).solve(solver="CLARABEL")
        assert_allclose(result.objective, theirs.objective, rtol=1e-7)


def test_a_doubtful_residual_ends_the_leaving_out(monkeypatch):
    """With far too large a share the method still arrives, by exact factors."""
    monkeypatch.setattr(structure_search, "_MANY", 2)
    monkeypatch.setattr(structured_solution_module, "_LEAST_SHARE", 50.0)
    monkeypatch.setattr(structured_solution_module, "_MOST_SHARE", 50.0)
    structure = find_structure(*program_of(insensitive()))
    point = structured_solution(structure)
    assert not isinstance(point, str)
    assert max(point.gap, point.residual) <= 1e-8


def test_rows_of_kernel_values_are_kept_once_and_recovered():
    rng = np.random.default_rng(1)
    base = rng.standard_normal((5, 7))
    over = sp.csr_array(base)
    via = sp.csr_array(np.array([[1.0, 0, 0, 0, 0], [-3.0, 0, 0, 0, 0], [0, 2.0, 1.0, 0, 0], [0, 0, 0, 0, 0.1]]))
    direct = sp.csr_array(np.vstack([np.zeros((3, 7)), base[4] * -0.7]))
    F, T = dense_rows(direct, via, over, 6)
    expected = np.vstack([direct.toarray() + via @ base, np.zeros((2, 7))])
    assert_allclose(T @ F, expected, rtol=1e-13, atol=1e-14)
    # rows 1 and 2 are multiples of one, and so is the last
    assert F.shape[0] == 3


def test_a_parameter_changes_numbers_and_not_the_structure():
    weight, other = cp.Parameter(nonneg=True, name="weight"), cp.Parameter(nonneg=True, name="other")
    s = substrate()
    machine = Machine(s, minimize=other * s.squared_norm + weight * cp.sum(cp.pos(cp.abs(s.e) - 0.1)))
    machine.solve(weight=1.0, other=1.0)
    first = machine._method._structure
    again = machine.solve(weight=20.0, other=0.25)
    assert machine._method._structure.F is first.F
    t = substrate()
    fresh = Machine(t, minimize=0.25 * t.squared_norm + 20.0 * cp.sum(cp.pos(cp.abs(t.e) - 0.1))).solve()
    assert_allclose(again.objective, fresh.objective, rtol=1e-8)
    assert again.certificate.holds


def test_another_matrix_is_another_structure():
    program, dense = program_of(insensitive())
    structure = find_structure(program, dense)
    assert renew(structure, dataclasses.replace(program, q=2.0 * program.q)) is not None
    assert renew(structure, dataclasses.replace(program, A=2.0 * program.A)) is None
    assert renew(structure, dataclasses.replace(program, b=program.b + 1.0)) is None


def test_machines_with_cones_do_not_mention_it():
    s = substrate()
    result = Machine(s, minimize=s.squared_norm + cp.norm2(s.e)).solve()
    assert result.certificate.holds
    assert all(attempt.solver != "STRUCTURED" for attempt in result.solver_record.attempts)


@pytest.mark.parametrize(("most", "behind"), [(2000, "PIQP"), (0, "CLARABEL")])
def test_a_wrong_point_is_rejected_and_a_solver_takes_over(most, behind, monkeypatch):
    """PIQP with dense matrices where these are not too large, the order of all problems otherwise."""
    objective = insensitive().solve().objective
    right = structured_method.structured_solution

    def wrong(structure, deadline=None, verbose=False, warm=None):
        point = right(structure, deadline, verbose)
        return dataclasses.replace(point, x=point.x + 1e-2)

    monkeypatch.setattr(structured_method, "structured_solution", wrong)
    monkeypatch.setattr(solvers, "_DENSE_VARIABLES", most)
    result = insensitive().solve()
    first, second = result.solver_record.attempts
    assert (first.solver, first.accepted) == ("STRUCTURED", False)
    assert (second.solver, second.accepted) == (behind, True)
    assert result.certificate.holds
    assert_allclose(result.objective, objective, rtol=1e-7)


def test_contradictions_are_refused_in_words():
    s = substrate()
    machine = Machine(s, minimize=s.squared_norm + cp.norm1(s.e), subject_to=[s.f() >= 1.0, s.f() <= 0.0])
    with pytest.raises(SolverError, match="infeasible"):
        machine.solve()
    t = substrate()
    with pytest.raises(SolverError, match="unbounded"):
        Machine(t, minimize=t.squared_norm + cp.sum(t.e)).solve()


def test_zero_is_not_certified_as_the_optimum_of_an_unbounded_machine(monkeypatch):
    def nothing(structure, deadline=None, verbose=False, warm=None):
        program = structure.program
        x, z = np.zeros(program.q.size), np.zeros(program.b.size)
        return structured_method.StructuredPoint(structure, x, z, None, 0.0, 0.0, 1)

    monkeypatch.setattr(structured_method, "structured_solution", nothing)
    s = substrate()
    machine = Machine(s, minimize=s.squared_norm + cp.sum(s.e))
    with pytest.warns(match="does not hold"):
        result = machine.solve(solver="structured")
    assert not result.certificate["cones: stationarity"].passes


def test_a_time_limit_ends_it(monkeypatch):
    machine = insensitive()
    clock = iter([0.0])
    monkeypatch.setattr(structured_method, "time", SimpleNamespace(monotonic=lambda: next(clock) - 1e9))
    result = machine.solve(time_limit=60.0)
    first, second = result.solver_record.attempts
    assert (first.solver, first.status) == ("STRUCTURED", "time limit 60 s")
    assert first.out_of_time
    assert second.accepted


def test_an_interrupt_leaves_the_machine_usable(monkeypatch):
    machine, right = insensitive(), structured_method.structured_solution

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(structured_method, "structured_solution", interrupted)
    with pytest.raises(KeyboardInterrupt):
        machine.solve()
    monkeypatch.setattr(structured_method, "structured_solution", right)
    assert machine.solve().certificate.holds


def test_progress_is_one_line_on_standard_error(capfd):
    insensitive().solve(verbose=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "step 1: gap" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_targets_in_any_unit(unit):
    s = substrate(unit * Y)
    machine = Machine(s, minimize=0.5 * s.squared_norm + 10.0 * unit * cp.sum(cp.pos(cp.abs(s.e) - 0.1 * unit)))
    result = machine.solve(solver="structured")
    assert result.certificate.holds
    assert_allclose(result.predict(FURTHER) / unit, insensitive().solve().predict(FURTHER), rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("case", ["duplicates", "constant target", "two rows"])
def test_degenerate_rows(case):
    rows, targets = np.vstack([X, X]), np.append(Y, Y)
    if case == "constant target":
        rows, targets = X, np.full(N, 3.0)
    elif case == "two rows":
        rows, targets = X[:2], Y[:2]
    s = Substrate(RBF(1.5), rows, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = Machine(s, minimize=0.5 * s.squared_norm + 10.0 * cp.sum(cp.pos(cp.abs(s.e) - 0.01))).solve()
    assert result.certificate.holds
    if case == "duplicates":
        half = Substrate(RBF(1.5), X, Y)
        other = Machine(half, minimize=0.5 * half.squared_norm + 20.0 * cp.sum(cp.pos(cp.abs(half.e) - 0.01))).solve()
        assert_allclose(result.predict(FURTHER), other.predict(FURTHER), rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("build", [insensitive, pinball, huber, hinge], ids=lambda build: build.__name__)
def test_multipliers_are_balanced_in_the_slacks(build):
    """Squares do not determine the slacks: a residual there enters the bound on the answer whole."""
    structure = find_structure(*program_of(build()))
    p = ScaledProgram(structure)
    u, _, z = p.into(structured_solution(structure).warm[2])
    k = structure.sparse_columns.size
    moved = z * (1.0 + 1e-5 * np.random.default_rng(0).uniform(-1.0, 1.0, z.size))
    balanced = structured_solution_module._balance(p, u, moved)
    before, after = (np.abs(p.hessian(u) + p.c - p.pull(one))[:k].max() for one in (moved, balanced))
    assert before > 1e-7 * np.abs(p.c).max()
    assert after <= 1e-12 * np.abs(p.c).max()
    assert_allclose(balanced, z, rtol=1e-3)


def test_a_program_that_differs_much_begins_farther_back_or_anew():
    program, dense = program_of(insensitive())
    structure = find_structure(program, dense)
    warm = structured_solution(structure).warm
    begins = []
    for factor in (1.0, 1.1, 30.0):
        p = ScaledProgram(renew(structure, dataclasses.replace(program, q=factor * program.q)))
        u = structured_solution_module._start(p, warm)[-1][0]
        begins.append(max((k for k, one in enumerate(warm) if np.array_equal(u, p.into(one)[0])), default=-1))
    assert begins[0] == len(warm) - 1
    assert begins[0] >= begins[1] > begins[2]
    assert begins[2] == -1


def test_earlier_iterates_are_handed_on_and_the_definitions_are_factored_once():
    program, dense = program_of(huber())
    structure = find_structure(program, dense)
    warm = structured_solution(structure).warm
    near = renew(structure, dataclasses.replace(program, q=1.001 * program.q))
    again = structured_solution(near, warm=warm)
    assert_allclose(again.warm[0][0], warm[0][0], rtol=1e-12)
    assert near.definitions is structure.definitions
    x, z = np.linspace(-1.0, 1.0, program.q.size), np.linspace(0.0, 1.0, structure.n_rows)
    every = near.multipliers(x, z)
    residual = near.program.P @ x + near.program.q - near.program.A.T @ every
    assert_allclose(residual[near.eliminated.columns], 0.0, atol=1e-12 * np.abs(every).max())


def test_what_was_computed_from_the_rows_is_kept_for_the_same_rows_only():
    program, _ = program_of(insensitive())
    program.slack(np.ones(program.q.size))
    again = dataclasses.replace(program, q=2.0 * program.q)
    again.take_over(program)
    assert again._long is program._long
    assert again.sizes[1] is program.sizes[1]
    moved = dataclasses.replace(program, A=2.0 * program.A)
    moved.take_over(program)
    assert moved._long is not program._long
    assert_allclose(moved.sizes[1].toarray(), 2.0 * program.sizes[1].toarray())


@pytest.mark.parametrize("shape", ["pairs", "full", "ragged", "repeated"])
def test_products_of_long_rows_are_right_to_the_last_place(shape):
    """Rows that are large and cancel: the exact product is known from fractions."""
    rng = np.random.default_rng(4)
    F = np.round(rng.standard_normal((12, 40)), 3)
    F[:, 20:] = -F[:, :20] * (1.0 + 2.0**-40)
    if shape == "ragged":
        F[rng.random(F.shape) < 0.4] = 0.0
    rows = np.vstack([F, -F, np.eye(3, 40)]) if shape == "pairs" else np.vstack([F, np.eye(3, 40)])
    matrix = sp.csr_array(rows)
    if shape == "repeated":
        matrix.data /= 2.0
        matrix = sp.hstack([matrix, matrix], format="csr")
        matrix = sp.csr_array((matrix.data, matrix.indices % 40, matrix.indptr), rows.shape)
    x, b = np.tile(rng.standard_normal(20), 2), rng.standard_normal(rows.shape[0])
    size = np.abs(rows) @ np.abs(x) + np.abs(b)
    exact = [
        float(sum(Fraction(float(a)) * Fraction(float(v)) for a, v in zip(row, x, strict=True)) + Fraction(float(c)))
        for row, c in zip(rows, b, strict=True)
    ]
    for entries in (0, 10_000):
        value, error = cone_program._LongRows(matrix, entries).times(x, b, size)
        assert (np.abs(value - exact) <= error).all()
        assert (error <= 1e-15 * np.abs(value) + 1e-29 * size).all()


@pytest.mark.parametrize("where", ["weight", "width"])
def test_another_value_is_checked_like_a_machine_of_its_own(where):
    """What is kept from the check of the first value does not change that of the second."""
    found = []
    for values in ((0.3, 3.0), (3.0,)):
        s, parameter = substrate(), cp.Parameter(nonneg=True, name="value")
        weight, width = (parameter, 0.1) if where == "weight" else (10.0, 0.1 * parameter)
        machine = Machine(s, minimize=0.5 * s.squared_norm + weight * cp.sum(cp.pos(cp.abs(s.e) - width)))
        found.append([machine.solve(value=value) for value in values][-1])
    for result in found:
        assert result.solver_record.attempts[-1].solver == "STRUCTURED"
        assert result.certificate.holds
        assert result.certificate.accuracy is not None
    assert_allclose(found[0].predict(X), found[1].predict(X), atol=1e-7)


def test_shares_of_columns_and_rows_follow_the_weight_of_w(monkeypatch):
    monkeypatch.setattr(structure_search, "_MANY", 2)
    program, dense = program_of(insensitive())
    heavier = ConeProgram(4.0 * program.P, program.q, program.A, program.b, program.equal, program.linear, ())
    structure = find_structure(program, dense)
    other = renew(structure, heavier)
    assert structure.significance is not None
    assert_allclose(other.significance.rows, structure.significance.rows / 4.0, rtol=1e-12)
    kept = [NewtonFactor(one, np.full(one.n_rows, 1e-3), 0.0, 1e-3) for one in (structure, other)]
    shares = [kept[0]._structure.significance.squares.sum(axis=0) * weight for weight in (1e-3, 0.25e-3)]
    for factor, one, columns in zip(kept, (structure, other), shares, strict=True):
        left_out = columns[factor._kept :] / structure.P[factor._kept :]
        assert left_out.sum() <= 3.0 * 1e-3, one


def test_norms_are_kept_only_for_equal_matrices():
    ties, F, (program, _) = NormTies(), np.random.default_rng(0).standard_normal((30, 5)), program_of(insensitive())
    columns = np.flatnonzero(program.alone > 0.0)[:5]
    factors = [ties.by_norm(program, columns, scale * F).factor for scale in (1.0, 2.0, 1.0)]
    assert factors[1] == pytest.approx(2.0 * factors[0])
    assert factors[2] == factors[0]


def test_the_largest_singular_value_is_bounded_in_single_precision():
    rng = np.random.default_rng(5)
    for size in (1e-30, 1.0, 1e150):
        M = size * (rng.standard_normal((300, 200)) + 5.0)
        bound, exact = determined._largest_singular_value(M), float(np.linalg.norm(M, 2))
        assert exact <= bound <= 2.1 * exact


def test_a_machine_that_is_solved_again_has_the_values_and_multipliers_of_a_new_one():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-3.0, 3.0, (40, 1)), axis=0)
    y = np.arctan(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(40)

    def declare():
        weight = cp.Parameter(nonneg=True, name="weight")
        s = Substrate(RBF(1.5), X, y)
        monotone = cp.diff(s.f()) >= 0.0
        objective = 0.5 * s.squared_norm + weight * cp.sum_squares(s.e)
        return Machine(s, minimize=objective, subject_to=[monotone]), monotone

    again, constraint = declare()
    for weight in (10.0, 11.0, 0.3):
        fresh, other = declare()
        result, wanted = again.solve(weight=weight), fresh.solve(weight=weight)
        assert result.certificate.holds
        assert_allclose(result.objective, wanted.objective, rtol=1e-8)
        sizes = float(np.abs(other.dual_value).max())
        assert_allclose(constraint.dual_value, other.dual_value, atol=1e-4 * sizes)
