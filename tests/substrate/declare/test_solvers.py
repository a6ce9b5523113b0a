"""Solvers: asked by name, judged by our residuals, recorded, silent."""

import importlib.util
import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.scs_conif import SCS
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate.declare.solvers import (
    ORDER,
    capable_solvers,
    installed_solvers,
    solve_problem,
    tolerance_of,
)
from substrate.errors import DeclarationError, SolverError

every_solver = pytest.mark.parametrize("solver", ORDER)
TARGET = np.array([1.0, 2.0, 6.0])


@pytest.fixture
def need():
    def need(*names):
        for name in names:
            if name not in installed_solvers():
                pytest.skip(f"the optional solver {name} is not installed")

    return need


def _projection():
    """The point of the plane 1'x = 0 nearest to the target: x = target - 3, multiplier 6."""
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - TARGET)), [cp.sum(x) == 0])
    return problem, x


def _worst_of(x):
    return lambda tolerance: float(np.abs(x.value - (TARGET - 3.0)).max()) / (10.0 * tolerance)


def _find_spec_without(monkeypatch, *modules):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in modules else real(name, *rest))


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["NO_SUCH", "", "qp", 3, None.__class__], ids=str)
def test_an_unknown_solver_is_refused_with_the_choices(name):
    problem, x = _projection()
    with pytest.raises(DeclarationError, match=r"unknown solver .*; choose one of CLARABEL, PIQP, OSQP, ECOS"):
        solve_problem(problem, _worst_of(x), name)


def test_an_absent_solver_is_passed_over_for_the_next(monkeypatch):
    _find_spec_without(monkeypatch, "clarabel")
    problem, x = _projection()
    record = solve_problem(problem, _worst_of(x))
    assert [attempt.solver for attempt in record.attempts] == ["PIQP"]


@every_solver
def test_every_installed_solver_solves_under_any_spelling_of_its_name(solver, need):
    need(solver)
    problem, x = _projection()
    record = solve_problem(problem, _worst_of(x), solver.lower())
    (attempt,) = record.attempts
    assert attempt.solver == solver
    assert attempt.accepted
    assert record.accepted
    assert attempt.unit == 1.0
    assert_allclose(x.value, TARGET - 3.0, atol=10 * tolerance_of(solver))


# ---- options -------------------------------------------------------------------------------------


@every_solver
def test_an_unknown_option_is_refused_by_name(solver, need):
    need(solver)
    problem, x = _projection()
    with pytest.raises((DeclarationError, SolverError), match="no_such_option"):
        solve_problem(problem, _worst_of(x), solver, no_such_option=1)
    assert x.value is None


# ---- acceptance ----------------------------------------------------------------------------------


def test_optimal_with_a_bad_residual_is_rejected_and_the_next_solver_asked():
    problem, _ = _projection()
    verdicts = iter([50.0, 0.5])
    record = solve_problem(problem, lambda tolerance: next(verdicts))
    first, second = record.attempts
    assert (first.solver, second.solver) == installed_solvers()[:2]
    assert first.status == second.status == "optimal"
    assert (first.worst, first.accepted) == (50.0, False)
    assert (second.worst, second.accepted) == (0.5, True)
    assert record.accepted
    assert [name for name, _ in record.facts()] == ["solver", "solver"]
    assert "reports optimal, rejected at 5.0e+01 of its tolerance" in record.facts()[0][1]
    assert "reports optimal, accepted at 5.0e-01 of its tolerance" in record.facts()[1][1]


def test_when_none_is_accepted_the_best_point_and_its_multiplier_come_back_with_a_warning():
    problem, x = _projection()
    seen = []

    def worst(tolerance):
        # each point is made recognisable; the second is called the best
        x.save_value(np.full(3, float(len(seen))))
        problem.constraints[0].dual_variables[0].save_value(np.array(10.0 * len(seen)))
        seen.append([7.0, 3.0, 9.0, 8.0, 5.0, 4.0][len(seen)])
        return seen[-1]

    with pytest.warns(
        ConvergenceWarning, match="no solver met the certificate's tolerances; the best point is kept"
    ) as w:
        record = solve_problem(problem, worst)
    assert w[0].filename == __file__ or "substrate" not in w[0].filename
    assert [attempt.worst for attempt in record.attempts] == seen
    assert len(seen) == len(capable_solvers(problem))
    assert not record.accepted
    assert_allclose(x.value, 1.0)
    assert_allclose(problem.constraints[0].dual_value, 10.0)


def test_an_unknown_residual_is_never_accepted():
    problem, _ = _projection()
    for unknown in (np.nan, np.inf):
        with pytest.raises(SolverError, match="no solver returned a point"):
            solve_problem(problem, lambda tolerance, unknown=unknown: unknown, installed_solvers()[0])


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "ECOS", "SCS", "HIGHS"])
def test_an_infeasible_problem_has_no_point_and_the_error_says_so(solver, need):
    need(solver)
    x = cp.Variable()
    problem = cp.Problem(cp.Minimize(x), [x >= 1, x <= 0])
    with pytest.raises(SolverError, match=rf"no solver returned a point \({solver}: infeasible") as caught:
        solve_problem(problem, lambda tolerance: 0.0, solver)
    assert caught.value.retry_helps


def test_without_any_point_the_error_says_what_each_solver_said(monkeypatch):
    def fails(self, solver, **kwargs):
        raise cp.error.SolverError(f"{solver.lower()} broke")

    monkeypatch.setattr(cp.Problem, "get_problem_data", fails)
    with pytest.raises(SolverError, match="no solver returned a point") as caught:
        solve_problem(_projection()[0], lambda tolerance: 0.0)
    for name in capable_solvers(_projection()[0]):
        compiler = "clarabel" if name == "ECOS" else name.lower()
        assert f"{name}: failed ({compiler} broke)" in str(caught.value)


def test_an_iteration_limit_warns_and_is_not_accepted(need):
    need("OSQP")
    problem, x = _projection()
    with pytest.warns(ConvergenceWarning, match="OSQP reports user_limit, rejected"):
        record = solve_problem(problem, _worst_of(x), "OSQP", max_iter=1)
    assert not record.accepted
    assert record.attempts[0].status == "user_limit"


# ---- time limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [True, False])
def test_a_solver_with_a_clock_of_its_own_hands_over_a_point_which_our_rows_judge(accepted):
    options = {"eps_abs": 1e-300, "eps_rel": 1e-300, "max_iter": 2_000_000_000, "polishing": False}
    rng = np.random.default_rng(0)
    A, y, x = rng.normal(size=(40, 20)), rng.normal(size=40), cp.Variable(20)
    problem = cp.Problem(cp.Minimize(cp.norm1(A @ x - y) + cp.norm1(x)), [cp.sum(x) == 1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = solve_problem(problem, lambda _: 0.5 if accepted else 50.0, "OSQP", time_limit=0.2, **options)
    (attempt,) = record.attempts
    assert (attempt.status, attempt.accepted) == ("time limit 0.2 s", accepted)
    assert x.value is not None
    assert ("OSQP: time limit 0.2 s, rejected at 5.0e+01" in str([str(one.message) for one in caught])) is not accepted


# ---- interrupts ----------------------------------------------------------------------------------

INTERRUPTED = {
    "SCS": (SCS, {"info": {"status_val": -5}}),
    "OSQP": (OSQP, SimpleNamespace(info=SimpleNamespace(status="interrupted", status_val=10))),
}


@pytest.mark.parametrize("solver", INTERRUPTED)
def test_a_solver_that_reports_an_interrupt_as_a_failure_raises_it(solver, monkeypatch, need):
    """What SCS and OSQP return when their handler took the signal; cvxpy says they failed."""
    need(solver)
    interface, answer = INTERRUPTED[solver]
    monkeypatch.setattr(interface, "solve_via_data", lambda *_, **__: answer)
    with pytest.raises(KeyboardInterrupt):
        solve_problem(_projection()[0], lambda tolerance: 0.0, solver)


def test_where_one_factor_of_clarabel_breaks_down_the_other_one_is_tried(monkeypatch):
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL

    plain, methods = CLARABEL.solve_via_data, []

    def break_down(self, data, warm_start, verbose, solver_opts, *others, **named):
        methods.append(solver_opts["direct_solve_method"])
        if methods[-1] == "faer":
            raise cp.error.SolverError("a pivot vanished")
        return plain(self, data, warm_start, verbose, solver_opts, *others, **named)

    monkeypatch.setattr(CLARABEL, "solve_via_data", break_down)
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.norm(x - np.arange(3.0)) + cp.sum(x)), [x >= -1.0])
    record = solve_problem(problem, lambda tolerance: 0.0, "CLARABEL")
    assert record.attempts[-1].accepted
    assert methods == ["faer", "qdldl"]
