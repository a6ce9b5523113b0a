"""Solvers: asked by name, judged by our residuals, recorded, silent."""

import importlib.util
import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.scs_conif import SCS
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP
from cvxpy.reductions.solvers.solving_chain import SolvingChain
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from substrate import solvers
from substrate.errors import DeclarationError, SolverError
from substrate.solvers import (
    ORDER,
    Units,
    capable_solvers,
    further_solvers,
    installed_solvers,
    solve_problem,
    tolerance_of,
    valid_options,
)

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


def test_another_solver_of_cvxpy_is_called_by_name_where_it_is_installed(monkeypatch):
    problem, x = _projection()
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL"])
    with pytest.raises(SolverError, match="MOSEK is not installed; run `pip install mosek`"):
        solve_problem(problem, _worst_of(x), "mosek")
    monkeypatch.setattr(cp, "installed_solvers", lambda: ["CLARABEL", "MOSEK", "DAQP"])
    assert further_solvers() == ("MOSEK", "DAQP")
    assert "MOSEK" not in installed_solvers(), "it is tried only where it is named"
    seen = []

    def compiled(self, solver, **kwargs):
        seen.append((solver, kwargs["solver_opts"]))
        return compile_for(self, "CLARABEL", solver_opts={})

    def solved(self, problem, data, warm, verbose, options):
        return solve_via(self, problem, data, warm, verbose, {})

    compile_for, solve_via = cp.Problem.get_problem_data, SolvingChain.solve_via_data
    with monkeypatch.context() as patched:
        patched.setattr(cp.Problem, "get_problem_data", compiled)
        patched.setattr(SolvingChain, "solve_via_data", solved)
        record = solve_problem(problem, _worst_of(x), "mosek", mosek_params={"MSK_IPAR_NUM_THREADS": 1})
    assert record.accepted
    assert record.attempts[-1].solver == "MOSEK"
    assert seen == [("MOSEK", {"mosek_params": {"MSK_IPAR_NUM_THREADS": 1}})]
    np.testing.assert_allclose(x.value, TARGET - 3.0, atol=1e-6)
    cone = cp.Problem(cp.Minimize(cp.norm(x - TARGET)), [cp.sum(x) == 0])
    with pytest.raises(SolverError, match="DAQP cannot solve this problem"):
        solve_problem(cone, _worst_of(x), "daqp")


@every_solver
def test_an_absent_solver_is_refused_with_the_command_that_installs_it(solver, monkeypatch):
    known = solvers._SOLVERS[solver]
    _find_spec_without(monkeypatch, known.module)
    problem, x = _projection()
    with pytest.raises(SolverError, match=f"{solver} is not installed; run `pip install {known.package}`"):
        solve_problem(problem, _worst_of(x), solver)
    with pytest.raises(SolverError, match="pip install"):
        valid_options(solver.lower())
    assert solver not in installed_solvers()


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


def test_the_stated_order_starts_with_the_first_installed():
    problem, x = _projection()
    record = solve_problem(problem, _worst_of(x))
    assert [attempt.solver for attempt in record.attempts] == [installed_solvers()[0]]


# ---- options -------------------------------------------------------------------------------------


@every_solver
def test_every_installed_solver_lists_its_options_and_knows_our_defaults(solver, need):
    need(solver)
    options = valid_options(solver)
    assert len(options) > 3
    assert len(set(options)) == len(options)
    assert not any(option.startswith("_") for option in options)
    assert set(solvers._SOLVERS[solver].options) <= set(options)


@every_solver
def test_an_unknown_option_is_refused_with_the_valid_ones(solver, need):
    need(solver)
    problem, x = _projection()
    with pytest.raises(DeclarationError) as caught:
        solve_problem(problem, _worst_of(x), solver, no_such_option=1, eps_nowhere=2)
    assert f"{solver} has no option ['eps_nowhere', 'no_such_option']; it understands " in str(caught.value)
    for option in valid_options(solver):
        assert option in str(caught.value)
    assert x.value is None


def test_options_without_a_solver_are_refused():
    problem, x = _projection()
    with pytest.raises(DeclarationError, match=r"options \['eps_abs', 'max_iter'\] belong to one solver; name it"):
        solve_problem(problem, _worst_of(x), max_iter=10, eps_abs=1e-3)


def test_an_option_reaches_the_solver(need):
    need("OSQP")
    problem, x = _projection()
    solve_problem(problem, lambda tolerance: 0.0, "OSQP", max_iter=4000, eps_abs=1e-2, eps_rel=1e-2, polishing=False)
    rough = float(np.abs(x.value - (TARGET - 3.0)).max())
    solve_problem(problem, lambda tolerance: 0.0, "OSQP", max_iter=4000, eps_abs=1e-9, eps_rel=1e-9, polishing=False)
    fine = float(np.abs(x.value - (TARGET - 3.0)).max())
    assert fine < 1e-7
    assert rough > 10.0 * fine


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


def test_the_residual_is_asked_for_at_the_tolerance_of_the_solver(need):
    need("OSQP", "HIGHS")
    asked = []
    for name in ("OSQP", "HIGHS"):
        problem, _ = _projection()
        solve_problem(problem, lambda tolerance: asked.append(tolerance) or 0.0, name)
    assert asked == [tolerance_of("OSQP"), tolerance_of("HIGHS")] == [1e-6, 1e-5]


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


def test_a_solver_that_fails_leaves_no_stale_point_behind(monkeypatch):
    problem, x = _projection()
    solve_problem(problem, lambda tolerance: 0.0)
    assert x.value is not None

    def fails(self, *args, **kwargs):
        raise cp.error.SolverError("broke down\nat length")

    monkeypatch.setattr(SolvingChain, "solve_via_data", fails)
    with pytest.raises(SolverError, match=r"OSQP: failed \(broke down\)"):
        solve_problem(problem, lambda tolerance: 0.0, "OSQP")
    assert x.value is None


def test_an_interruption_is_not_swallowed(monkeypatch):
    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(SolvingChain, "solve_via_data", interrupted)
    problem, x = _projection()
    with pytest.raises(KeyboardInterrupt):
        solve_problem(problem, _worst_of(x))


def test_a_rejected_problem_is_tried_in_other_units_before_the_next_solver():
    problem, x = _projection()
    points = []

    def worst(tolerance):
        points.append(x.value.copy())
        return 2.0 if len(points) == 1 else 0.0

    record = solve_problem(problem, worst, units=(Units(), Units(8.0, 64.0)))
    assert [(attempt.solver, attempt.unit) for attempt in record.attempts] == [("CLARABEL", 1.0), ("CLARABEL", 8.0)]
    assert "in units of 8" in str(record.attempts[1])
    assert_allclose(x.value, TARGET - 3.0, atol=1e-8)
    assert_allclose(problem.constraints[0].dual_value, 6.0, rtol=1e-8)


def test_an_iteration_limit_warns_and_is_not_accepted(need):
    need("OSQP")
    problem, x = _projection()
    with pytest.warns(ConvergenceWarning, match="OSQP reports user_limit, rejected"):
        record = solve_problem(problem, _worst_of(x), "OSQP", max_iter=1)
    assert not record.accepted
    assert record.attempts[0].status == "user_limit"


# ---- time limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1.0, np.nan, np.inf, "soon", True])
def test_a_time_limit_is_a_positive_number(limit):
    problem, x = _projection()
    with pytest.raises(DeclarationError, match="time_limit must be"):
        solve_problem(problem, _worst_of(x), time_limit=limit)
    assert x.value is None


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


@every_solver
def test_the_clock_of_a_solver_is_one_of_its_options(solver, need):
    need(solver)
    clock = solvers._SOLVERS[solver].clock
    assert (clock is None) == (solver in ("PIQP", "ECOS"))
    assert clock is None or clock in valid_options(solver)


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


@pytest.mark.parametrize("limit", [None, 300.0])
def test_a_parameter_without_a_value_is_named(limit):
    x, weight = cp.Variable(), cp.Parameter(name="weight", nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.square(x) + weight * x))
    with pytest.raises(cp.error.ParameterError, match=r"parameters \['weight'\] have no value"):
        solve_problem(problem, lambda tolerance: 0.0, time_limit=limit)


# ---- silence and values --------------------------------------------------------------------------


@every_solver
def test_solvers_are_silent_unless_asked(solver, need, capfd):
    need(solver)
    problem, x = _projection()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_problem(problem, _worst_of(x), solver)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


def test_verbose_lets_the_solver_speak(capfd):
    problem, x = _projection()
    solve_problem(problem, _worst_of(x), "OSQP", verbose=True)
    assert "OSQP" in capfd.readouterr().out


def test_a_problem_with_cones_goes_to_the_solvers_that_have_them():
    """Minimise |x - (3, 4)| + exp(x_1): neither linear nor quadratic."""
    x = cp.Variable(2)
    quadratic = cp.Problem(cp.Minimize(cp.sum_squares(x - np.array([3.0, 4.0]))))
    problem = cp.Problem(cp.Minimize(cp.norm(x - np.array([3.0, 4.0])) + cp.exp(x[0])))
    assert capable_solvers(quadratic) == tuple(name for name in installed_solvers() if name != "HIGHS")
    assert "HIGHS" not in installed_solvers() or "HIGHS" in capable_solvers(cp.Problem(cp.Minimize(cp.norm1(x))))
    assert set(installed_solvers()) - set(capable_solvers(problem)) == {"PIQP", "OSQP", "HIGHS"}
    with pytest.raises(SolverError, match=r"OSQP cannot solve this problem.*quadratic.*CLARABEL, ECOS, SCS"):
        solve_problem(problem, lambda tolerance: 0.0, solver="OSQP")
    record = solve_problem(problem, lambda tolerance: 0.0)
    assert [attempt.solver for attempt in record.attempts] == [capable_solvers(problem)[0]]
    # the gradient of the norm has length one, so it is (-1, 0), and exp(x_1) is one
    assert_allclose(x.value, [0.0, 4.0], atol=1e-4)


def test_ecos_has_the_squares_in_a_cone_and_the_multipliers_of_the_program(need):
    """With equalities, inequalities, second-order and exponential cones, with a singular quadratic form."""
    need("ECOS")
    rng = np.random.default_rng(0)
    B, values = rng.normal(size=(6, 4)), {}
    for solver in ("CLARABEL", "ECOS"):
        x = cp.Variable(4)
        constraints = [cp.sum(x) == 1.0, x[0] >= 0.3, cp.norm(x[1:]) <= 0.6, cp.sum(cp.exp(x)) <= 5.2]
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(B[:2] @ x) + B[2] @ x), constraints)
        solve_problem(problem, lambda tolerance: 0.0, solver, units=(Units(3.0, 7.0),))
        values[solver] = [problem.value, x.value, *(np.ravel(one.dual_variables[0].value) for one in constraints)]
    for known, found in zip(*values.values(), strict=True):
        assert_allclose(found, known, atol=1e-5)
    assert np.abs(values["ECOS"][3]).max() + np.abs(values["ECOS"][5]).max() > 1e-3, "constraints that matter"
