"""``substrate verify``: what it walks, what it says, and with which exit status it ends."""

import io
import json
import subprocess
import sys

import pytest

import problems
from problems.command_line.main import main
from problems.command_line.verify import problem_modules, verify
from problems.progress import Progress
from substrate.errors import DeclarationError
from substrate.solvers import ORDER, installed_solvers

GOOD = """
from problems.ls_svm_regression import DEMONSTRATION, closed_form, declare
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
CANNOT_BE_DECLARED = """
from problems.ls_svm_regression import DEMONSTRATION, closed_form
from substrate.errors import DeclarationError

def declare(K, y, gamma, form="primal"):
    raise DeclarationError("this one is not convex today")
"""
CANNOT_BE_SOLVED = """
import cvxpy as cp
from problems.ls_svm_regression import DEMONSTRATION, closed_form
from substrate.declaration import Declared

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


def test_every_problem_passes(capsys):
    assert main(["verify", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = json.loads(printed.out)
    expected = {
        f"{name} ({case.label})" for name, module in problem_modules().items() for case in module.DEMONSTRATION.cases
    }
    assert {line["problem"] for line in lines} == expected
    for line in lines:
        assert line["passes"]
        assert line["certificate"]
        assert line["complaints"] == []
        assert line["solvers"] == list(installed_solvers())
        assert 0.0 <= line["agreement"] < 1e-3
        assert line["equations"]


def test_the_table(capsys):
    assert main(["verify", "--problem", "ls_svm_regression", "--solver", "clarabel"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    head, _, *body, verdict = printed.out.splitlines()
    assert head.split() == ["problem", "equations", "size", "solvers", "agreement", "certificate", "seconds"]
    assert [line.split("  ")[0] for line in body] == ["ls_svm_regression (primal)", "ls_svm_regression (dual)"]
    assert all("CLARABEL" in line and "holds" in line and "N=133" in line and "OSQP" not in line for line in body)
    assert verdict.startswith("2 declared problems in ")
    assert verdict.endswith("all agree")


def test_a_new_problem_file_needs_no_registration(drop, capsys):
    name = drop("dropped_problem", GOOD)
    assert name in problem_modules()
    assert main(["verify", "--problem", name, "--solver", "CLARABEL", "--json"]) == 0
    assert [line["problem"] for line in json.loads(capsys.readouterr().out)] == [f"{name} (primal)", f"{name} (dual)"]


def test_a_file_without_demonstration_is_no_problem_file(drop):
    assert drop("dropped_helper", "x = 1\n") not in problem_modules()


def test_without_closed_form_the_solvers_are_compared_with_each_other(drop, capsys):
    name = drop("dropped_alone", NO_CLOSED_FORM)
    lines = list(verify(name))
    assert all(line.passes and line.agreement < 1e-3 for line in lines)
    assert main(["verify", "--problem", name, "--solver", "CLARABEL"]) == 1
    assert "neither a closed form nor a second solver" in capsys.readouterr().out


def strict(text):
    """JSON as everyone else reads it: no Infinity, no NaN."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (WRONG_CLOSED_FORM, "agreement: support values"),
        (CANNOT_BE_DECLARED, "this one is not convex today"),
        (CANNOT_BE_SOLVED, "infeasible"),
    ],
    ids=["disagrees", "cannot be declared", "cannot be solved"],
)
def test_a_failing_problem_is_shown_and_ends_with_status_one(drop, capsys, source, complaint):
    name = drop("dropped_failure", source)
    assert main(["verify", "--problem", name, "--solver", "CLARABEL"]) == 1
    printed = capsys.readouterr()
    assert complaint in printed.out
    assert "2 of 2 FAILED" in printed.out
    assert main(["verify", "--problem", name, "--solver", "CLARABEL", "--json"]) == 1
    lines = strict(capsys.readouterr().out)
    assert len(lines) == 2
    assert not any(line["passes"] for line in lines)
    assert all(complaint in " ".join(line["complaints"]) for line in lines)


def test_a_failing_problem_does_not_hide_the_others(drop, capsys):
    drop("dropped_failure", CANNOT_BE_DECLARED)
    assert main(["verify", "--solver", "CLARABEL"]) == 1
    printed = capsys.readouterr()
    assert "ls_svm_regression (primal)" in printed.out
    assert "dropped_failure" in printed.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--problem", "no_such_problem"], ["no problem named 'no_such_problem'", "ls_svm_regression"]),
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


def test_the_command_in_a_pipe_is_silent_on_standard_error():
    command = [sys.executable, "-m", "problems.command_line.main", "verify", "--problem", "ls_svm_regression", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line["passes"] for line in strict(done.stdout)] == [True, True]


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
    assert "ls_svm_regression primal CLARABEL" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")


def test_names_are_checked_before_any_work():
    with pytest.raises(DeclarationError, match="no problem named"):
        next(verify("no_such_problem"))
    with pytest.raises(DeclarationError, match="unknown solver"):
        next(verify("ls_svm_regression", "no_such_solver"))
