"""A solver that is absent, unknown or stopped too early is named, and a bad point is never reported as a good one."""

import importlib.util
import warnings

import pytest
from every_model import MODULES, WITH_SOLVER, arguments_of, assert_unfitted, make_data, make_estimator, over_modules
from sklearn.exceptions import ConvergenceWarning

from substrate.declare.solvers import ORDER, capable_solvers, installed_solvers, is_made_for
from substrate.errors import DeclarationError, SolverError


def hide(monkeypatch, *modules):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name in modules else find(name, *rest))


MODULE_OF = {"CLARABEL": "clarabel", "PIQP": "piqp", "OSQP": "osqp", "ECOS": "ecos", "SCS": "scs", "HIGHS": "highspy"}


@pytest.mark.parametrize("solver", ORDER)
def test_an_absent_solver_is_named_with_the_command_that_brings_it(monkeypatch, solver):
    hide(monkeypatch, MODULE_OF[solver])
    for module in MODULES.values():
        K, y, parameters = arguments_of(module)
        with pytest.raises(SolverError, match=f"{solver} is not installed.*pip install {MODULE_OF[solver]}"):
            module.declare(K, y, **parameters).solve(solver)


@over_modules
def test_the_next_solver_steps_in_for_an_absent_one(monkeypatch, module):
    K, y, parameters = arguments_of(module)
    there = capable_solvers(module.declare(K, y, **parameters).problem)
    first = module.declare(K, y, **parameters).solve().solver_record
    assert [attempt.solver for attempt in first.attempts] == [there[0]]
    hide(monkeypatch, MODULE_OF[there[0]])
    second = module.declare(K, y, **parameters).solve()
    assert [attempt.solver for attempt in second.solver_record.attempts] == [there[1]]
    assert second.certificate().holds


@over_modules
def test_no_solver_at_all_is_an_error_with_the_command(monkeypatch, module):
    hide(monkeypatch, *MODULE_OF.values())
    K, y, parameters = arguments_of(module)
    with pytest.raises(SolverError, match="pip install"):
        module.declare(K, y, **parameters).solve()


@pytest.mark.parametrize("solver", ["GUROBY", "", None, 3, ["OSQP"]], ids=repr)
def test_an_unknown_solver_is_refused_with_the_choices(solver):
    for estimator in WITH_SOLVER:
        X, y = make_data(estimator)
        model = make_estimator(estimator, solver=solver)
        with pytest.raises(ValueError, match=r"solver must be 'auto', 'cholesky' or 'cg', received"):
            model.fit(X, y)
        assert_unfitted(model)
    if solver is not None:  # None means: the first whose residuals are accepted
        for module in MODULES.values():
            K, y, parameters = arguments_of(module)
            with pytest.raises(ValueError, match=r"solver.*CLARABEL"):
                module.declare(K, y, **parameters).solve(solver)


LIMITS = {
    "CLARABEL": {"max_iter": 1},
    "PIQP": {"max_iter": 1},
    "OSQP": {"max_iter": 1},
    "ECOS": {"max_iters": 1},
    "SCS": {"max_iters": 1},
    "HIGHS": {"qp_iteration_limit": 0},
}


@over_modules
@pytest.mark.parametrize("solver", ORDER)
def test_solvers_options_limits_and_silence(module, solver, capfd):
    if solver not in installed_solvers():
        pytest.skip(f"{solver} is not installed")
    K, y, parameters = arguments_of(module)
    declared = module.declare(K, y, **parameters)
    if not is_made_for(solver, declared.problem):
        with pytest.raises(SolverError, match=f"{solver} cannot solve this problem.*has other cones; use one of"):
            declared.solve(solver)
        return
    with pytest.raises((DeclarationError, SolverError), match="nonsense"):
        declared.solve(solver, nonsense=1)
    with pytest.raises(DeclarationError, match="name it"):
        declared.solve(**LIMITS[solver])
    # A limit that ends the work too early: a point that is said to be bad, or no point at all, never a good report.
    # An interior-point method may need no second step for a quadratic: then the report is good and nobody warns.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            declared.solve(solver, **LIMITS[solver])
        except SolverError as failure:
            error = str(failure)
        else:
            error = None
    if error is not None:
        assert solver in error
        with pytest.raises(DeclarationError, match="call solve"):
            declared.certificate()
    else:
        warned = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
        assert declared.certificate().holds == declared.solver_record.accepted == (not warned)
        assert solver in ("CLARABEL", "PIQP", "ECOS") or warned
    try:
        declared.solve(solver)
    except SolverError as failure:
        # its active-set method for quadratics may lose feasibility to a small right-hand side, and says so
        if solver != "HIGHS":
            raise
        pytest.skip(str(failure))
    assert declared.certificate().holds
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")
