"""``substrate verify``: what it walks, what it says, and with which exit status it ends."""

import inspect
import io
import re
import subprocess
import sys
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from every_model import small_arguments
from sampled_cases import first

import problems
import problems.command_line.verify
from problems import fused_l1_substrate, ls_svm_regression
from problems.command_line.main import main
from problems.command_line.verify import Line, eigen_modules, problem_modules, table, verify
from problems.demonstration import MOST_ROWS, MOST_VALUES
from substrate import solvers
from substrate.declarations import optimality_conditions
from substrate.declarations import optimality_conditions as fused_conditions
from substrate.declarations.regression_page import prove_saddle
from substrate.errors import DeclarationError
from substrate.progress import Progress
from substrate.solvers import ORDER, installed_solvers

GOOD = """
from problems.ls_svm_regression import DEMONSTRATION, closed_form, declare
"""
TWO_MATRICES = """
from problems import ls_svm_regression
from problems.demonstration import Case, Demonstration, training
from substrate.kernels import RBF

def with_mirror(kernel, X, y):
    return {**training(kernel, X, y), "K_mirror": kernel(X, -X)}

CASE = Case("even", "motorcycle", RBF(sigma=10.0), {"gamma": 2.0}, build=with_mirror)
DEMONSTRATION = Demonstration("even functions", (CASE,))

def declare(K, y, gamma, K_mirror):
    return ls_svm_regression.declare(0.5 * (K + K_mirror), y, gamma)

def closed_form(K, y, gamma, K_mirror):
    return ls_svm_regression.closed_form(0.5 * (K + K_mirror), y, gamma)
"""
WRONG_CLOSED_FORM = """
from problems.ls_svm_regression import DEMONSTRATION, declare
from problems.ls_svm_regression import closed_form as right

def closed_form(K, y, gamma):
    return right(K, y, 1.001 * gamma)
"""
NO_CLOSED_FORM = """
from problems.ls_svm_regression import DEMONSTRATION, declare
"""
NOTHING_IN_COMMON = """
from problems.ls_svm_regression import DEMONSTRATION, declare

def closed_form(K, y, gamma):
    return {"something_else": y}
"""
AMBIGUOUS = """
import cvxpy as cp
from problems.ls_svm_regression import DEMONSTRATION
from substrate.certificates import Row
from substrate.declarations import Declared

def declare(K, y, gamma, form="primal"):
    x = cp.Variable(2, name="x")
    problem = cp.Problem(cp.Minimize(cp.sum(x)), [cp.sum(x) == 1, x >= 0])
    rows = lambda tolerance: (Row("feasible", abs(float(x.value.sum()) - 1.0), 1.0, tolerance, "|1'x - 1|"),)
    return Declared("Any point will do", problem, {}, {"support_values": lambda: x.value}, rows, lambda: ())
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
from substrate.declarations import Declared

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


# SCS, a first-order method, takes as long as all others together; two solvers are what a problem needs to pass
@pytest.mark.parametrize("left_out", first(1, ["OSQP HIGHS ECOS", "SCS", ""]))
def test_every_problem_passes(monkeypatch, left_out):
    used = [solver for solver in installed_solvers() if solver not in left_out.split()]
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
        asked = {*line.solvers, *line.misses}
        cones = line.problem == "constrained_ls_svm"  # for which not every solver is made
        assert asked < set(used) if cones else asked == set(used)
        assert len(line.solvers) >= min(2, len(asked))
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
    assert head.split() == ["problem", "N", "hold", "agreement", "verdict", "seconds"]
    assert title == f"ls_svm_regression: {ls_svm_regression.DEMONSTRATION.equations}"
    assert [line.split()[:3] for line in body] == [["primal", "67", "1/1"], ["dual", "67", "1/1"]]
    assert all(line.split()[4] == "passes" for line in body)
    assert verdict.startswith("2 declared problems in ")
    assert verdict.endswith("all agree")


def test_the_table_of_everything_fits_a_terminal():
    lines = [
        Line(
            name,
            case.label,
            module.DEMONSTRATION.equations,
            123,
            dict.fromkeys(ORDER),
            distances=[1e-9],
            seconds=123.456,
        )
        for name, module in problem_modules().items()
        for case in module.DEMONSTRATION.cases
    ]
    assert max(map(len, table(lines).splitlines())) <= 80
    slow = [replace(line, misses={"HIGHS": "time limit 60 s"}) for line in lines]
    assert max(map(len, table(slow).splitlines())) <= 100
    assert table(lines[:1]).splitlines()[-1] == "1 declared problem in 123.5 s: all agree"


def test_a_new_problem_file_needs_no_registration(drop):
    name = drop("dropped_problem", GOOD)
    assert name in problem_modules()
    assert [(line.name, line.passes) for line in verify(name, "CLARABEL")] == [
        (f"{name} (primal)", True),
        (f"{name} (dual)", True),
    ]


def test_a_page_says_itself_which_matrices_it_needs(drop):
    name = drop("dropped_mirror", TWO_MATRICES)
    (line,) = verify(name, "CLARABEL")
    assert line.passes, line.complaints
    assert line.compared_with == "closed form"
    given = small_arguments(problem_modules()[name].DEMONSTRATION.cases[0], 7, seed=0)
    assert {key: np.shape(value) for key, value in given.items()} == {
        "K": (7, 7),
        "y": (7,),
        "K_mirror": (7, 7),
        "gamma": (),
    }


def test_a_file_without_demonstration_is_no_problem_file(drop):
    assert drop("dropped_helper", "x = 1\n") not in problem_modules()


def test_without_closed_form_the_solvers_are_compared_with_each_other(drop):
    lines = list(verify(drop("dropped_alone", NO_CLOSED_FORM)))
    assert [line.compared_with for line in lines] == ["each other", "each other"]
    assert all(line.passes and line.agreement < 1e-3 for line in lines)


def test_one_solver_without_closed_form_is_compared_with_the_next_that_holds(drop, capsys, monkeypatch):
    name = drop("dropped_alone", NO_CLOSED_FORM)
    (line, _) = verify(name, "OSQP")
    assert (line.passes, line.solvers, line.compared_with) == (True, ("OSQP",), "each other")
    assert 0.0 < line.agreement < 1e-3
    monkeypatch.setattr(problems.command_line.verify, "installed_solvers", lambda: ("OSQP",))
    assert main(["verify", name, "--solver", "OSQP"]) == 1
    assert "neither a closed form nor a second solver to compare with" in capsys.readouterr().out


def test_solvers_that_hold_and_disagree_are_a_failure(drop):
    """Every point is feasible and optimal; interior points and vertices are all accepted, and apart."""
    (line, _) = verify(drop("dropped_ambiguous", AMBIGUOUS))
    assert len(line.solvers) >= 2
    assert not line.misses
    assert not line.passes
    assert any(" disagree: agreement: support values" in complaint for complaint in line.complaints)


def test_a_closed_form_that_shares_nothing_with_the_declaration_is_a_failure(drop):
    (line, _) = verify(drop("dropped_stranger", NOTHING_IN_COMMON), "CLARABEL")
    assert not line.passes
    assert line.complaints == ["CLARABEL and the closed form have no quantity in common, so nothing can be compared"]


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


def test_a_failing_problem_does_not_hide_the_others(drop, capsys):
    drop("dropped_failure", CANNOT_BE_DECLARED)
    assert main(["verify", "--solver", "CLARABEL"]) == 1
    printed = capsys.readouterr()
    assert "ls_svm_regression:" in printed.out
    assert "dropped_failure (primal): this one is not convex today" in printed.out


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


@pytest.mark.usefixtures("only_stated")
def test_a_solver_that_misses_is_shown_and_counted_and_no_failure(lazy, capsys):
    lazy("OSQP")
    assert main(["verify", "ls_svm_regression"]) == 0
    out = capsys.readouterr().out
    body, verdict = out.splitlines()[4:6], out.splitlines()[-1]
    assert out.splitlines()[1].split()[-1] == "missed"
    count = len(installed_solvers())
    assert all(f" {count - 1}/{count} " in line and " passes " in line for line in body)
    assert all(re.search(r"  OSQP: missed \d\.\de[+-]\d\d in \w", line) for line in body)
    assert verdict.endswith("all agree; missed by OSQP: 2")


def test_fewer_than_two_that_hold_are_a_failure_and_the_one_asked_for_must_hold(lazy, capsys):
    lazy(*(name for name in installed_solvers() if name != "CLARABEL"))
    (line, _) = verify("ls_svm_regression")
    assert line.solvers == ("CLARABEL",)
    assert not line.passes
    assert line.complaints[0] == f"1 of {len(installed_solvers())} solvers hold, 2 must"
    assert main(["verify", "ls_svm_regression", "--solver", "CLARABEL"]) == 0
    assert main(["verify", "ls_svm_regression", "--solver", "OSQP"]) == 1
    assert "0 of 1 solvers hold, 1 must" in capsys.readouterr().out


def test_a_solver_is_not_asked_for_cones_that_it_does_not_have(capsys):
    assert main(["verify", "constrained_ls_svm", "ls_svm_regression", "--solver", "OSQP"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"norm +50 +0/0 +- +not asked", out)
    assert "4 declared problems" in out
    assert "all agree; 2 have other cones than the solver" in out


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


@pytest.mark.parametrize("solver", first(1, ["CLARABEL", None]))
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
def test_a_broken_page_with_a_closed_form_fails(broken, solver, old, new):
    broken(ls_svm_regression, old, new)
    assert assert_fails("ls_svm_regression", solver)


@pytest.mark.parametrize("solver", first(1, ["CLARABEL", None]))
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
def test_a_broken_page_without_closed_form_fails(broken, solver, module, old, new):
    assert not hasattr(fused_l1_substrate, "closed_form")
    broken(module, old, new, fused_conditions, fused_l1_substrate)
    assert assert_fails("fused_l1_substrate", solver)


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


@pytest.mark.parametrize("limit", ["0", "-1", "nan", "inf"])
def test_a_time_limit_is_a_positive_number(capsys, limit):
    assert main(["verify", "ls_svm_regression", f"--time-limit={limit}"]) == 2
    assert "time_limit must be positive and finite" in capsys.readouterr().err


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


@pytest.mark.parametrize("arguments", [[], ["no_such_command"], ["verify", "--no-such-option"], ["verify", "--solver"]])
def test_what_is_not_understood_ends_with_status_two(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: substrate" in capsys.readouterr().err


def test_version_and_help(capsys):
    import substrate

    for argument, words in (("--version", f"substrate {substrate.__version__}"), ("--help", "verify")):
        with pytest.raises(SystemExit) as caught:
            main([argument])
        assert caught.value.code == 0
        assert words in capsys.readouterr().out


def test_the_command_in_a_pipe_says_only_which_cases_are_done():
    line = ["verify", "ls_svm_regression", "--solver", "CLARABEL"]
    command = [sys.executable, "-m", "problems.command_line.main", *line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert [line.partition(" passes, ")[0] for line in done.stderr.splitlines()] == [
        "1: ls_svm_regression (primal)",
        "2: ls_svm_regression (dual)",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_drawn_on_a_terminal_only(monkeypatch):
    screen, pipe = Terminal(), io.StringIO()
    for stream in (screen, pipe):
        progress = Progress(3, stream)
        for label in ("first", "second", "third"):
            progress.step(label)
        progress.close()
    assert pipe.getvalue() == ""
    assert "0/3 first" in screen.getvalue()
    assert "2/3 third" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K"), "the line is cleared at the end"

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    list(verify("ls_svm_regression", "CLARABEL"))
    assert "ls_svm_regression primal" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")


def test_names_are_checked_before_any_work():
    with pytest.raises(DeclarationError, match="no problem is named"):
        next(verify("no_such_problem"))
    with pytest.raises(DeclarationError, match="unknown solver"):
        next(verify("ls_svm_regression", "no_such_solver"))


def test_closed_forms_of_least_squares_are_proved_on_request(capsys):
    pytest.importorskip("flint", reason="a proof needs python-flint")
    assert main(["verify", "ls_svm_regression", "--solver", "CLARABEL", "--prove"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()[1:]
    assert head.split()[4] == "proved"
    for line in lines[2:4]:
        assert 0.0 < float(line.split()[4]) < 1e-9
    assert all(line.proved < 1e-9 for line in verify("ls_svm_regression", "CLARABEL", prove=True))


def test_a_closed_form_that_is_not_proved_is_a_failure(monkeypatch):
    pytest.importorskip("flint", reason="a proof needs python-flint")
    monkeypatch.setattr(
        ls_svm_regression, "prove", lambda solution, K, y, gamma: prove_saddle(K, y, 1.001 * gamma, None, solution)
    )
    lines = list(verify("ls_svm_regression", "CLARABEL", prove=True))
    assert not any(line.passes for line in lines)
    assert all("the closed form is not proved" in line.complaints[0] for line in lines)


def test_a_proof_without_its_library_names_the_command(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "flint", None)
    assert main(["verify", "ls_svm_regression", "--prove"]) == 2
    assert 'pip install "lssvm-substrate[proof]"' in capsys.readouterr().err


@pytest.mark.parametrize("page", [name for name, module in problem_modules().items() if hasattr(module, "prove")])
def test_a_page_notices_a_changed_solution(page):
    pytest.importorskip("flint", reason="a proof needs python-flint")
    module = problem_modules()[page]
    case = replace(module.DEMONSTRATION.cases[0], every=8)
    arguments = case.arguments_on_data()
    solution = module.closed_form(**arguments)
    assert module.prove(solution, **arguments).proved
    assert not module.prove(solution | {"bias": solution["bias"] + 1e-3 * arguments["y"].std()}, **arguments).proved
