"""One call of a solver through cvxpy: in this process, or in a child that ends at a time limit or an interrupt.

SCS, OSQP and ECOS handle an interrupt themselves: they stop and report a failure, and Python is not notified. Others do
not react until they have finished. Here an interrupt always raises ``KeyboardInterrupt``; within a time limit, at once.

The record of a solve lists every attempt, with the solver's status and our verdict.
"""

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from substrate.child_process import call_within

__all__ = ["METHOD", "OUT_OF_TIME", "Attempt", "SolverRecord", "heard_interrupts", "solve_through_cvxpy"]

#: The name under which cvxpy knows :func:`solve_through_cvxpy`: ``problem.solve(method=METHOD, ...)``.
METHOD = "substrate"
#: Solvers that have been seen to corrupt memory on quadratic programs with weights of 1e-30 (HiGHS 1.15).
_MAY_CRASH = frozenset({"HIGHS"})
#: A limit in seconds that is none.
_NEVER = 1e8
#: Share of entries from which PIQP's dense factorisation is the faster one, and for which numbers of variables.
_FILLED, _FEW, _MANY = 0.2, 200, 5000


def solve_through_cvxpy(
    problem: Any, *, solver: str, verbose: bool, options: Mapping[str, Any], limit: float | None
) -> float:
    """Compile the problem, call the solver, and assign the values of variables and multipliers; return its seconds.

    With a limit in seconds the solver runs in a child process, and :class:`TimeoutError` is raised when it has not
    answered by then; compiling does not count. Its output goes to standard error. A solver that may end its whole
    process (``_MAY_CRASH``) always runs there, and its crash is a failure like any other.
    """
    import cvxpy as cp

    missing = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
    if missing:
        raise cp.error.ParameterError(f"parameters {missing} have no value; assign it before solving")
    chosen = dict(options)
    data, chain, inverse = problem.get_problem_data(solver, verbose=verbose, solver_opts=chosen)
    if solver == "PIQP" and "backend" not in chosen and _dense(data):
        chosen["backend"] = "dense"
    start = time.perf_counter()
    crashes = solver in _MAY_CRASH and getattr(data.get("P"), "nnz", 0) > 0
    if limit is None and not crashes:
        answer = chain.solve_via_data(problem, data, True, verbose, chosen)
    else:
        sent = {key: value for key, value in data.items() if key != "param_prob"}  # expressions are not sent
        try:
            seconds = _NEVER if limit is None else limit
            answer = call_within(seconds, solve_data, type(chain.solver), sent, verbose, chosen)
        except TimeoutError:
            raise
        except Exception as error:
            raise cp.error.SolverError(str(error) or type(error).__name__) from error
    seconds = time.perf_counter() - start
    if _was_interrupted(answer):
        raise KeyboardInterrupt
    problem.unpack_results(answer, chain, inverse)
    return seconds


def solve_data(interface: type, data: dict[str, Any], verbose: bool, options: dict[str, Any]) -> Any:
    """Return the solver's answer to the numbers, as cvxpy's interface reads them; run in the child process."""
    return plain(interface().solve_via_data(data, False, verbose, options))


class Plain:
    """The attributes of a compiled solver's record, and its name as text, in a form that can be pickled."""

    def __init__(self, text: str, attributes: dict[str, Any]) -> None:
        self._text = text
        self.__dict__.update(attributes)

    def __str__(self) -> str:
        return self._text


def plain(value: Any, depth: int = 3) -> Any:
    """Return a copy of numbers, text and arrays as they are, and of anything compiled as a :class:`Plain`."""
    import numpy as np

    if value is None or isinstance(value, (bool, int, float, str, np.ndarray, np.generic)):
        return value
    if isinstance(value, dict):
        return {key: plain(entry, depth) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry, depth) for entry in value]
    if hasattr(type(value), "__members__"):
        return Plain(str(value), {"name": value.name})  # a member of an enumeration
    attributes = {}
    if depth > 0:
        for name in dir(value):
            entry = getattr(value, name, None)
            sibling = isinstance(entry, type(value)) and hasattr(type(value), name)  # of an enumeration
            if not name.startswith("_") and not callable(entry) and not sibling:
                attributes[name] = plain(entry, depth - 1)
    return Plain(str(value), attributes)


def _was_interrupted(answer: Any) -> bool:
    """Return whether the solver reports that an interrupt ended it, which cvxpy counts as a failure."""
    if isinstance(answer, dict):
        info = answer.get("info")
        if isinstance(info, dict):
            return info.get("status_val") == -5 or info.get("exitFlag") == -4  # SCS_SIGINT, ECOS_SIGINT
        return False
    return "interrupted" in str(getattr(getattr(answer, "info", None), "status", "")).lower()  # OSQP


@contextmanager
def heard_interrupts() -> Iterator[None]:
    """Raise, at the end of the block, an interrupt that was suppressed inside it.

    Only where Python's own handler is installed; another handler decides what an interrupt means.
    """
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    heard: list[int] = []

    def hear(number: int, frame: Any) -> None:
        heard.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    except Exception as error:
        if heard:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if heard:
        raise KeyboardInterrupt


#: How the status of an attempt begins that the time limit ended.
OUT_OF_TIME = "time limit"


def _dense(data: Mapping[str, Any]) -> bool:
    """Return whether the constraints of a quadratic program are matrices of kernel values."""
    rows = [data[key] for key in ("A", "F") if getattr(data.get(key), "nnz", 0)]
    entries = sum(matrix.shape[0] * matrix.shape[1] for matrix in rows)
    return bool(rows) and _FEW <= rows[0].shape[1] <= _MANY and sum(matrix.nnz for matrix in rows) >= _FILLED * entries


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a solver: its status, the largest ``relative/tolerance`` of our rows, and our verdict.

    The status is cvxpy's, ``failed (...)`` or ``time limit 60 s``.
    """

    solver: str
    status: str
    unit: float
    worst: float
    accepted: bool
    seconds: float

    def __str__(self) -> str:
        outcome = "accepted" if self.accepted else "rejected"
        units = "" if self.unit == 1.0 else f" in units of {self.unit:.3g}"
        word = f": {self.status}" if self.out_of_time else f" reports {self.status}"
        description = (
            f"{outcome} at {self.worst:.1e} of its tolerance" if self.worst < float("inf") else "without a point"
        )
        return f"{self.solver}{units}{word}, {description}"

    @property
    def out_of_time(self) -> bool:
        """Return whether the time limit ended it."""
        return self.status.startswith(OUT_OF_TIME)


@dataclass(frozen=True, slots=True)
class SolverRecord:
    """All attempts at one problem, in order."""

    attempts: tuple[Attempt, ...]

    @property
    def accepted(self) -> bool:
        """Return whether an attempt was accepted."""
        return any(attempt.accepted for attempt in self.attempts)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the attempts as lines of a certificate."""
        return tuple(("solver", str(attempt)) for attempt in self.attempts)
