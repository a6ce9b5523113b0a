"""``substrate verify``: what it walks, what it says, and with which exit status it ends."""

import inspect
import sys
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import problems
import problems.command_line.verify
from problems import fused_l1_substrate, ls_svm_regression
from problems.command_line.main import main
from problems.command_line.verify import eigen_modules, problem_modules, verify
from problems.demonstration import MOST_ROWS, MOST_VALUES
from substrate.declare import optimality_conditions, solvers
from substrate.declare import optimality_conditions as fused_conditions
from substrate.declare.solvers import ORDER, installed_solvers

WRONG_CLOSED_FORM = """
from problems.ls_svm_regression import DEMONSTRATION, declare
from problems.ls_svm_regression import closed_form as right

def closed_form(K, y, gamma):
    return right(K, y, 1.001 * gamma)
"""
CANNOT_BE_READ = """
from problems.ls_svm_regression import DEMONSTRATION, closed_form

def declare(K, y, gamma, form="primal"):
    return {}["missing"]
"""
CANNOT_BE_DECLARED = """
from problems.ls_svm_regression import DEMONSTRATION, closed_form
from substrate.errors import DeclarationError

def declare(K, y, gamma, form="primal"):
    raise DeclarationError("this one is not convex today")
"""
CANNOT_BE_SOLVED = """
import cvxpy as cp
from problems.ls_svm_regression import DEMONSTRATION, closed_form
from substrate.declare.declared import Declared

def declare(K, y, gamma, form="primal"):
    x = cp.Variable(name="x")
    problem = cp.Problem(cp.Minimize(cp.square(x)), [x >= 1, x <= 0])
    return Declared("Impossible", problem, {}, {"support_values": lambda: x.value}, lambda tolerance: (), lambda: ())
"""


@pytest.fixture
def drop(tmp_path, monkeypatch):
    """Put a file into the package for the length of a test."""

    def dropped(name: str, source: str) -> str:
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        monkeypatch.setattr(problems, "__path__", [*problems.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, f"problems.{name}", raising=False)
        return name

    before = set(sys.modules)
    yield dropped
    for name in set(sys.modules) - before:
        if name.startswith("problems.dropped"):
            del sys.modules[name]
            vars(problems).pop(name.removeprefix("problems."), None)


def test_the_walk_finds_the_problem_files():
    modules = problem_modules()
    assert "ls_svm_regression" in modules
    assert "demonstration" not in modules
    assert set(modules) <= set(problems.__all__)


@pytest.mark.parametrize("name", problem_modules())
def test_the_rows_of_a_demonstration_are_few(name):
    for case in problem_modules()[name].DEMONSTRATION.cases:
        arguments = case.arguments_on_data()
        rows = len(arguments["y"]) + len(arguments.get("y_val", ()))
        assert rows <= MOST_ROWS, f"{case.label}: {rows} rows; thin them by every={-(-rows * case.every // MOST_ROWS)}"
        matrices = [given for key, given in arguments.items() if key.startswith("K")]
        assert sum(np.size(matrix) for matrix in matrices) <= MOST_VALUES, case.label


# two solvers are what a problem needs to pass
def test_every_problem_passes(monkeypatch):
    used = [solver for solver in installed_solvers() if solver not in ("OSQP", "HIGHS", "ECOS")]
    monkeypatch.setattr(problems.command_line.verify, "installed_solvers", lambda: tuple(used))
    lines = list(verify())
    expected = {
        f"{name} ({case.label})" for name, module in problem_modules().items() for case in module.DEMONSTRATION.cases
    }
    eigen = {f"{name} ({case.label})" for name, module in eigen_modules().items() for case in module.EIGENPROBLEM.cases}
    assert {line.name for line in lines} == expected | eigen
    assert all(line.passes for line in lines)
    for line in (line for line in lines if line.name in expected):
        # which solver misses what depends on its version and on the processor
        asked = {*line.points, *line.misses}
        cones = line.problem == "constrained_ls_svm"  # for which not every solver is made
        assert asked < set(used) if cones else asked == set(used)
        assert len(line.points) >= min(2, len(asked))
        has_closed_form = hasattr(problem_modules()[line.problem], "closed_form")
        assert line.compared_with == ("closed form" if has_closed_form else "each other")
        assert 0.0 <= line.agreement < 1e-3
        assert line.equations


def test_the_table(capsys):
    assert main(["verify", "ls_svm_regression", "--solver", "clarabel"]) == 0
    printed = capsys.readouterr()
    assert [line.partition(":")[0] for line in printed.err.splitlines()] == ["1", "2"], "one line each, in a pipe"
    used, head, _, title, *body, verdict = printed.out.splitlines()
    assert used == "solvers: CLARABEL"
    assert head.split() == ["problem", "N", "hold", "agreement", "result", "seconds"]
    assert title == f"ls_svm_regression: {ls_svm_regression.DEMONSTRATION.equations}"
    assert [line.split()[:3] for line in body] == [["primal", "67", "1/1"], ["dual", "67", "1/1"]]
    assert all(line.split()[4] == "passes" for line in body)
    assert verdict.startswith("2 declared problems in ")
    assert verdict.endswith("all agree")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (WRONG_CLOSED_FORM, "agreement: support values"),
        (CANNOT_BE_DECLARED, "this one is not convex today"),
        (CANNOT_BE_READ, "KeyError: 'missing'"),
        (CANNOT_BE_SOLVED, "infeasible"),
    ],
    ids=["disagrees", "cannot be declared", "cannot be read", "cannot be solved"],
)
def test_a_failing_problem_is_shown_and_ends_with_status_one(drop, capsys, source, complaint):
    name = drop("dropped_failure", source)
    assert main(["verify", name, "--solver", "CLARABEL"]) == 1
    printed = capsys.readouterr()
    assert complaint in printed.out
    assert "2 of 2 FAILED" in printed.out
    lines = list(verify(name, "CLARABEL"))
    assert [line.passes for line in lines] == [False, False]
    assert all(complaint in " ".join(line.complaints) for line in lines)


# ---- misses --------------------------------------------------------------------------------------


@pytest.fixture
def lazy(monkeypatch):
    """Solvers that stop after one step, and say so."""

    def make(*names):
        for name in names:
            step = {"max_iters": 1} if name in ("ECOS", "SCS") else {"max_iter": 1}
            step = {"qp_iteration_limit": 0} if name == "HIGHS" else step
            monkeypatch.setitem(solvers._SOLVERS, name, replace(solvers._SOLVERS[name], options=step))

    return make


@pytest.fixture
def only_stated(monkeypatch):
    """No solvers but the ones in the stated order."""
    monkeypatch.setattr(problems.command_line.verify, "further_solvers", tuple)


def test_fewer_than_two_that_hold_are_a_failure_and_the_one_asked_for_must_hold(lazy, capsys):
    lazy(*(name for name in installed_solvers() if name != "CLARABEL"))
    (line, _) = verify("ls_svm_regression")
    assert list(line.points) == ["CLARABEL"]
    assert not line.passes
    assert line.complaints[0] == f"1 of {len(installed_solvers())} solvers hold, 2 must"
    assert main(["verify", "ls_svm_regression", "--solver", "CLARABEL"]) == 0
    assert main(["verify", "ls_svm_regression", "--solver", "OSQP"]) == 1
    assert "0 of 1 solvers hold, 1 must" in capsys.readouterr().out


@pytest.mark.usefixtures("only_stated")
def test_a_solver_that_fails_is_a_miss(monkeypatch):
    from cvxpy.reductions.solvers.qp_solvers.piqp_qpif import PIQP

    def fails(*_):
        raise cp.error.SolverError("broke down")

    monkeypatch.setattr(PIQP, "solve_via_data", fails)
    (line, _) = verify("ls_svm_regression", time_limit=7.0)
    assert line.passes
    assert line.misses == {"PIQP": "failed (broke down)"}
    (line, _) = verify("ls_svm_regression", "PIQP", time_limit=7.0)
    assert line.complaints == ["0 of 1 solvers hold, 1 must", "PIQP: failed (broke down)"]


# ---- a check that can fail -----------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch):
    """Change a text in a file of the package, and put what it defines in the place of what it defined."""

    def change(module, old, new, *users):
        source = inspect.getsource(module)
        assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
        space = {"__name__": module.__name__}
        exec(compile(source.replace(old, new), module.__file__, "exec"), space)
        for user in (module, *users):
            for name in module.__all__:
                if hasattr(user, name):
                    monkeypatch.setattr(user, name, space[name])

    return change


def assert_fails(name, *arguments):
    lines = list(verify(name, *arguments))
    assert any(not line.passes for line in lines)
    return " ".join(complaint for line in lines for complaint in line.complaints)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fit = regression_fit(y, R @ w + b, e)", "fit = regression_fit(y, R @ w - b, e)"),
        ("errors.term), [fit.constraint]", "errors.term), [b == 0, fit.constraint]"),
        ("ridge.term), [balance.constraint]", "ridge.term), [alpha >= -1e9]"),
        ("cp.Maximize(y @ alpha -", "cp.Maximize(-y @ alpha -"),
        ('"errors": ridge * solved.support_values', '"errors": -ridge * solved.support_values'),
        ("real_targets(y, gram.n), ridge)", "real_targets(y, gram.n), 1.001 * ridge)"),
    ],
    ids=["flipped sign", "another constraint", "missing constraint", "flipped target", "sign of closed form", "ridge"],
)
def test_a_broken_page_with_a_closed_form_fails(broken, old, new):
    broken(ls_svm_regression, old, new)
    assert assert_fails("ls_svm_regression", "CLARABEL")


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (fused_conditions, "@ level.v - level.b - errors == 0", "@ level.v + level.b - errors == 0"),
        (fused_conditions, "cp.sum_squares(errors) + parameter", "cp.sum_squares(errors) + 2.0 * parameter"),
        (optimality_conditions, "- stacked.T @ (minus - plus) == 0", "+ stacked.T @ (minus - plus) == 0"),
        (optimality_conditions, '        "(27c) lower multipliers": minus >= 0,\n', ""),
        (optimality_conditions, "- (P_y @ P_F) @ self.v +", "- 0.9 * (P_y @ P_F) @ self.v +"),
        (optimality_conditions, "        listed.append(zero_sum(v).constraint)\n", "        pass\n"),
    ],
    ids=["flipped sign", "weight", "flipped multipliers", "missing sign", "products", "missing sum"],
)
def test_a_broken_page_without_closed_form_fails(broken, module, old, new):
    assert not hasattr(fused_l1_substrate, "closed_form")
    broken(module, old, new, fused_conditions, fused_l1_substrate)
    assert assert_fails("fused_l1_substrate", "CLARABEL")


# ---- what can be typed ---------------------------------------------------------------------------


def test_problems_are_named_one_by_one_or_several(capsys):
    both = ["verify", "ls_svm_regression", "--solver", "CLARABEL"]
    assert main(both) == 0
    printed = capsys.readouterr()
    assert "2 declared problems" in printed.out
    assert printed.err.splitlines()[0].startswith("1: ls_svm_regression (primal) passes, "), "no bar is seen in a pipe"
    several = {"ls_svm_regression", "ls_svm_classification"}
    assert {line.problem for line in verify(sorted(several), "CLARABEL")} == several
    assert main(["verify", "ls_svm_regression", "no_such_problem"]) == 2
    assert "no problem is named 'no_such_problem'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_problem"], ["no problem is named 'no_such_problem'", "ls_svm_regression"]),
        (["--solver", "no_such_solver"], ["unknown solver 'no_such_solver'", *ORDER]),
    ],
)
def test_unknown_names_end_with_status_two(capsys, arguments, words):
    assert main(["verify", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("substrate: ")
    assert all(word in printed.err for word in words)


def test_version_and_help(capsys):
    import substrate

    for argument, words in (("--version", f"substrate {substrate.__version__}"), ("--help", "verify")):
        with pytest.raises(SystemExit) as caught:
            main([argument])
        assert caught.value.code == 0
        assert words in capsys.readouterr().out
