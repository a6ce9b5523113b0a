"""One call of a solver: the same numbers in a child process as here, and interrupts that no solver swallows."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.ecos_conif import ECOS
from cvxpy.reductions.solvers.conic_solvers.scs_conif import SCS
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP
from numpy.testing import assert_allclose

from substrate.errors import SolverError
from substrate.solver_call import Plain, heard_interrupts, plain
from substrate.solvers import ORDER, installed_solvers, solve_problem

INTERRUPTED = {
    "SCS": (SCS, {"info": {"status_val": -5}}),
    "ECOS": (ECOS, {"info": {"exitFlag": -4}}),
    "OSQP": (OSQP, SimpleNamespace(info=SimpleNamespace(status="interrupted", status_val=10))),
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="a signal from another process is no Ctrl-C there")


def _regression():
    """Least absolute deviations with a bound: kinks, equalities, inequalities, and a square."""
    rng = np.random.default_rng(3)
    A, y = rng.normal(size=(12, 4)), rng.normal(size=12)
    x, e = cp.Variable(4, name="x"), cp.Variable(12, name="e")
    constraints = [y - A @ x - e == 0, x <= 0.2]
    return cp.Problem(cp.Minimize(cp.norm1(e) + 0.1 * cp.sum_squares(x)), constraints)


def _numbers(problem):
    return [leaf.value for leaf in problem.variables()] + [one.dual_value for one in problem.constraints]


@pytest.mark.parametrize("solver", ORDER)
def test_a_child_process_finds_the_numbers_of_this_one(solver):
    if solver not in installed_solvers():
        pytest.skip(f"the optional solver {solver} is not installed")
    here, there = _regression(), _regression()
    solve_problem(here, lambda tolerance: 0.0, solver)
    solve_problem(there, lambda tolerance: 0.0, solver, time_limit=300.0)
    assert here.status == there.status
    for ours, theirs in zip(_numbers(here), _numbers(there), strict=True):
        assert_allclose(theirs, ours, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("limit", [None, 300.0])
def test_a_parameter_without_a_value_is_named(limit):
    x, weight = cp.Variable(), cp.Parameter(name="weight", nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.square(x) + weight * x))
    with pytest.raises(cp.error.ParameterError, match=r"parameters \['weight'\] have no value"):
        solve_problem(problem, lambda tolerance: 0.0, time_limit=limit)


def test_compiled_records_travel_as_plain_ones():
    class Word:
        def __init__(self, name):
            self.name = name

        def __str__(self):
            return f"Word.{self.name}"

    Word.SOLVED = Word("SOLVED")  # an enumeration carries its members
    record = SimpleNamespace(info=SimpleNamespace(status=Word.SOLVED, iter=3), x=np.arange(3.0), z=[1.0, 2.0])
    copied = pickle.loads(pickle.dumps(plain({"record": record})))["record"]
    assert isinstance(copied, Plain)
    assert (copied.info.iter, copied.info.status.name, str(copied.info.status)) == (3, "SOLVED", "Word.SOLVED")
    assert_allclose(copied.x, [0.0, 1.0, 2.0])
    assert copied.z == [1.0, 2.0]


# ---- interrupts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", INTERRUPTED)
def test_a_solver_that_reports_an_interrupt_as_a_failure_raises_it(solver, monkeypatch):
    """What SCS, ECOS and OSQP return when their own handler took the signal; cvxpy says they failed."""
    if solver not in installed_solvers():
        pytest.skip(f"the optional solver {solver} is not installed")
    interface, answer = INTERRUPTED[solver]
    monkeypatch.setattr(interface, "solve_via_data", lambda *_, **__: answer)
    with pytest.raises(KeyboardInterrupt):
        solve_problem(_regression(), lambda tolerance: 0.0, solver)


@pytest.mark.parametrize("failing", [False, True])
def test_a_python_solver_that_swallows_the_signal_does_not_keep_it(monkeypatch, failing):
    def swallows(self, *args, **kwargs):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if failing:
                raise cp.error.SolverError("broke down") from None
        return 0.0

    monkeypatch.setattr(cp.Problem, "solve", swallows)
    with pytest.raises(KeyboardInterrupt):
        solve_problem(_regression(), lambda tolerance: 0.0)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_another_handler_stays_in_charge():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with heard_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_other_threads_leave_the_handler_alone():
    seen = []

    def inside():
        with heard_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


ENDLESS = """
import cvxpy as cp, numpy as np
from substrate.solvers import solve_problem
rng = np.random.default_rng(0)
A, y, x = rng.normal(size=(40, 20)), rng.normal(size=40), cp.Variable(20)
problem = cp.Problem(cp.Minimize(cp.norm1(A @ x - y) + cp.norm1(x)), [cp.sum(x) == 1])
options = {{
    "SCS": {{"eps_abs": 0.0, "eps_rel": 0.0, "max_iters": 2_000_000_000}},
    "OSQP": {{"eps_abs": 1e-300, "eps_rel": 1e-300, "max_iter": 2_000_000_000, "polishing": False}},
}}
print("go", flush=True)
solve_problem(problem, lambda tolerance: 0.0, "{solver}", **options["{solver}"])
"""
HANGS = """
import signal, sys, time

def hang(*arguments):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("hanging", file=sys.stderr, flush=True)
    while True:
        time.sleep(1.0)
"""
HUNG = """
import sys
sys.path.insert(0, {folder!r})
import solver_stub
from substrate import solver_call
solver_call.solve_data = solver_stub.hang
from problems.command_line.verify import verify
list(verify("ls_svm_regression", time_limit=600.0))
"""


def _interrupted_once(script, word, stream):
    """Run it in a process group of its own, interrupt the group once when it says the word, and see it end."""
    running = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ,
    )
    try:
        heard = ""
        for line in getattr(running, stream):
            heard += line
            if word in line:
                break
        try:
            running.wait(timeout=0.5)  # until it is in the solver; one that comes earlier is raised all the same
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGINT)
        output, errors = running.communicate(timeout=100.0)
    finally:
        running.kill()
        running.wait()
    return running.returncode, heard + output + errors


@posix
@pytest.mark.parametrize("solver", ["SCS", pytest.param("OSQP", marks=pytest.mark.slow)])
def test_one_interrupt_ends_a_compiled_solver_that_takes_it_for_its_own(solver):
    code, said = _interrupted_once(ENDLESS.format(solver=solver), "go", "stdout")
    assert code == -signal.SIGINT, said
    assert said.rstrip().endswith("KeyboardInterrupt"), said


@pytest.mark.slow
@posix
def test_one_interrupt_ends_verify_while_a_solver_hangs(tmp_path):
    (tmp_path / "solver_stub.py").write_text(HANGS, encoding="utf-8")
    code, said = _interrupted_once(HUNG.format(folder=str(tmp_path)), "hanging", "stderr")
    assert code == -signal.SIGINT, said
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert said.count("hanging") == 1, said


def test_a_solver_that_ends_its_process_is_a_failed_attempt(monkeypatch):
    """HiGHS has corrupted memory on quadratic programs with tiny weights; it must not take the user's process along."""
    calls = []

    def dies(limit, function, *arguments):
        calls.append(limit)
        raise ChildProcessError("its process ended with status -6")

    monkeypatch.setattr("substrate.solver_call.call_within", dies)
    x = cp.Variable(2)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - 1.0)), [x >= 0.0])
    with pytest.raises(SolverError, match="ended with status -6"):
        solve_problem(problem, lambda tolerance: 0.0, "HIGHS")
    assert len(calls) == 1
    linear = cp.Problem(cp.Minimize(cp.sum(x)), [x >= 0.0])  # its other method has never crashed
    assert solve_problem(linear, lambda tolerance: 0.0, "HIGHS").accepted
    assert len(calls) == 1


@pytest.mark.parametrize(("filled", "backend"), [(True, "DenseSolver"), (False, "SparseSolver")])
def test_piqp_factors_as_the_constraints_are_filled(filled, backend, monkeypatch):
    import piqp

    made = []
    for name in ("DenseSolver", "SparseSolver"):
        kind = getattr(piqp, name)
        monkeypatch.setattr(piqp, name, type(name, (kind,), {"setup": _noting(kind.setup, made, name)}))
    rng = np.random.default_rng(0)
    A = rng.standard_normal((210, 210)) if filled else np.eye(210)
    x = cp.Variable(210)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - 1.0)), [A @ x <= 0.0])
    assert solve_problem(problem, lambda tolerance: 0.0, "PIQP").accepted
    assert made == [backend]


def _noting(setup, made, name):
    def noted(self, *args, **kwargs):
        made.append(name)
        return setup(self, *args, **kwargs)

    return noted
