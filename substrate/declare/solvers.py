"""Solvers by name, in a stated order, accepted by recomputed residuals and never by their status.

A solver that reports "optimal" with a large residual is rejected and the next one tried; one that reports
"optimal_inaccurate" with a small residual is accepted and the status noted. One that reaches a time limit is judged by
the point it returns, if any. Every attempt is on the record.

SCS and OSQP handle an interrupt themselves: they stop and report a failure, and Python is not notified. Here an
interrupt always raises ``KeyboardInterrupt``.
"""

import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import positive
from substrate.declare.second_order_form import solve_by_ecos
from substrate.errors import DeclarationError, SolverError

__all__ = [
    "FURTHER",
    "ORDER",
    "OUT_OF_TIME",
    "SEMIDEFINITE",
    "Answer",
    "Attempt",
    "SolverRecord",
    "Units",
    "capable_solvers",
    "further_solvers",
    "installed_solvers",
    "solve_problem",
    "take_answer",
    "tolerance_of",
]


@dataclass(frozen=True, slots=True)
class _Solver:
    module: str
    package: str
    options: Mapping[str, Any]
    #: Relative residual at which its point is accepted.
    tolerance: float = 1e-6
    #: Its own option for a time limit in seconds, which may return a point; PIQP and ECOS end by their iterations.
    clock: str | None = None
    #: Whether it solves problems with second-order or exponential cones besides linear and quadratic programs.
    has_cones: bool = False


_SOLVERS: dict[str, _Solver] = {
    "CLARABEL": _Solver(
        "clarabel",
        "clarabel",
        {
            "tol_gap_abs": 1e-11,
            "tol_gap_rel": 1e-11,
            # residuals below do not fall any more where cones are of second order
            "tol_feas": 1e-9,
            "max_iter": 200,
            "direct_solve_method": "faer",
            "max_threads": 1,
            # shorter steps than its own keep the iterates of second-order cones central
            "max_step_fraction": 0.9,
        },
        clock="time_limit",
        has_cones=True,
    ),
    "PIQP": _Solver("piqp", "piqp", {"eps_abs": 1e-10, "eps_rel": 1e-11, "max_iter": 500}),
    "OSQP": _Solver(
        "osqp", "osqp", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 100_000, "polishing": True}, clock="time_limit"
    ),
    "ECOS": _Solver(
        module="ecos",
        package="ecos",
        options={"abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12, "max_iters": 200},
        tolerance=1e-5,
        has_cones=True,
    ),
    "SCS": _Solver(
        module="scs",
        package="scs",
        options={"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 100_000},
        clock="time_limit_secs",
        has_cones=True,
    ),
    "HIGHS": _Solver(
        module="highspy",
        package="highspy",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        tolerance=1e-5,
        clock="time_limit",
    ),
}

#: Seconds of a solver that is tried behind others without a time limit, and how many times theirs are added: some
#: never end on what the others could not solve.
_BEHIND, _TIMES = 20.0, 10.0

#: The order in which solvers are tried when none is named: fastest at equal accuracy first.
ORDER: tuple[str, ...] = tuple(_SOLVERS)

#: Solvers of cvxpy that are called by name only, where they are installed: with their own settings, and judged by
#: residuals like all others; some need a licence. The value says whether they have second-order cones.
_FURTHER: dict[str, bool] = {
    "MOSEK": True,
    "GUROBI": True,
    "COPT": True,
    "CPLEX": True,
    "XPRESS": True,
    "KNITRO": True,
    "QOCO": True,
    "CVXOPT": True,
    "PROXQP": False,
    "DAQP": False,
    "QPALM": False,
}
FURTHER: tuple[str, ...] = tuple(_FURTHER)

#: Those that have the cone of semidefinite matrices.
SEMIDEFINITE: tuple[str, ...] = ("CLARABEL", "SCS")

#: How the status of an attempt begins that the time limit ended.
OUT_OF_TIME = "time limit"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a solver: its status, the largest ``relative/tolerance`` of our rows, and whether it was accepted.

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


#: The data of cvxpy's solvers that have the unit of the variables; G is of quadratic programs, a vector there.
_OF_VARIABLES = ("b", "h", "G", "lower_bounds", "upper_bounds")


@dataclass(frozen=True, slots=True)
class Units:
    r"""Units of the variables and of the objective in which a problem is solved.

    With x = u x' and an objective in units of v, the problem of :math:`\tfrac12 x^T P x + q^T x` under
    :math:`A x + b \in \mathcal{K}` becomes the problem of :math:`u^2 P / v`, :math:`u q / v`, A and :math:`b / u`: its
    point times u and its multipliers times v/u solve the first problem. Tolerances of solvers are absolute in part.
    """

    variables: float = 1.0
    objective: float = 1.0

    def divide(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data of a solver in these units."""
        u, v = self.variables, self.objective
        factors = {"P": u * u / v, "c": u / v, "q": u / v} | dict.fromkeys(_OF_VARIABLES, 1.0 / u)
        scaled = {
            name: data[name] * factor
            for name, factor in factors.items()
            if data.get(name) is not None and (name == "P" or np.ndim(data[name]) == 1)
        }
        return {**data, **scaled}

    def multiply(self, solution: Any) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return the values of the variables and of the multipliers of a solver's solution in these units."""
        worth = self.objective / self.variables
        primal = {key: self.variables * np.asarray(value) for key, value in (solution.primal_vars or {}).items()}
        return primal, {key: worth * np.asarray(value) for key, value in (solution.dual_vars or {}).items()}


class Answer(NamedTuple):
    """The answer of a solver: its status, and its point and multipliers for the program that cvxpy compiled."""

    solver: str
    status: str
    program: Any
    x: Any
    duals: dict[int, Any]


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


def installed_solvers() -> tuple[str, ...]:
    """Return the solvers of :data:`ORDER` that can be imported here."""
    return tuple(name for name, solver in _SOLVERS.items() if importlib.util.find_spec(solver.module) is not None)


def further_solvers() -> tuple[str, ...]:
    """Return the solvers of ``FURTHER`` that cvxpy finds here; it has to be imported for that."""
    import cvxpy as cp

    names = set(cp.installed_solvers())
    return tuple(name for name in FURTHER if name in names)


def _settings_of(name: str) -> _Solver:
    """Return the settings of a solver; a solver that is called by name only has no options of ours."""
    if name in _SOLVERS:
        return _SOLVERS[name]
    return _Solver(module="", package=name.lower(), options={}, tolerance=1e-5, has_cones=_FURTHER[name])


def is_made_for(name: str, problem: Any) -> bool:
    """Return whether a solver takes problems of this kind: quadratic programs, or those with other cones too."""
    return bool(_settings_of(name).has_cones or problem.is_qp())


def capable_solvers(problem: Any) -> tuple[str, ...]:
    """Return the installed solvers for a cvxpy problem: not all take cones beyond a quadratic program.

    HiGHS has corrupted memory on quadratic programs with tiny weights; for these it is called by name only.
    """
    names = [name for name in installed_solvers() if is_made_for(name, problem)]
    return tuple(name for name in names if name != "HIGHS" or problem.objective.expr.is_pwl())


def canonical_name(name: str) -> str:
    """Return the solver's canonical name, or an error that names the choices or the command that installs it."""
    upper = name.upper() if isinstance(name, str) else ""
    if upper in _FURTHER:
        if upper not in further_solvers():
            raise SolverError(f"the solver {upper} is not installed; run `pip install {upper.lower()}`")
        return upper
    if upper not in _SOLVERS:
        further = f"or, where installed, {', '.join(FURTHER)}"
        raise DeclarationError(f"unknown solver {name!r}; choose one of {', '.join(ORDER)}, in any case, {further}")
    if importlib.util.find_spec(_SOLVERS[upper].module) is None:
        raise SolverError(f"the solver {upper} is not installed; run `pip install {_SOLVERS[upper].package}`")
    return upper


def tolerance_of(name: str) -> float:
    """Return the relative residual at which a solver's point is accepted."""
    return _settings_of(name).tolerance


def solve_problem(
    problem: Any,
    worst: Callable[[float], float],
    solver: str | None = None,
    *,
    units: Sequence[Units] = (Units(),),
    report: Callable[[Answer], None] | None = None,
    verbose: bool = False,
    time_limit: float | None = None,
    warn: bool = True,
    **options: Any,
) -> SolverRecord:
    """Solve a cvxpy problem in place and return the record of all attempts.

    Parameters
    ----------
    problem
        The cvxpy problem; its variables hold the accepted point afterwards, or the best one found.
    worst
        Called after each solve with the solver's tolerance: the largest ``relative / tolerance`` of the certificate
        rows; at most 1 accepts.
    solver
        A name, tried alone; ``None`` tries all of :data:`ORDER` that can solve such a problem.
    units
        Units in which the problem is solved, the next ones where a solver's point in the first is not accepted.
    report
        Called with the answer of every solver.
    time_limit
        Seconds for all solvers together: each has the remaining time as its limit, and none is called after that. PIQP
        and ECOS have no time limit, and end by their number of iterations. A call that reaches the limit counts as a
        rejected attempt, unless the solver returns a point that our rows accept. ``None``: no limit; but a solver that
        is tried behind others, which could not solve the problem, has some times the seconds that these took.
    warn
        Whether to warn if no point is accepted; an estimator has its own certificate, and warns by that.
    options
        Passed to a named solver instead of our accurate defaults; it refuses unknown ones.
    """
    names = capable_solvers(problem) if solver is None else (canonical_name(solver),)
    if solver is not None and not is_made_for(names[0], problem):
        able = ", ".join(name for name, record in _SOLVERS.items() if record.has_cones)
        raise SolverError(
            f"{names[0]} cannot solve this problem: it is for linear and quadratic programs, and this one has other "
            f"cones; use one of {able}"
        )
    if not names:
        packages = " ".join(record.package for record in _SOLVERS.values())
        raise SolverError(f"no solver is installed; run `pip install clarabel`, or any of {packages}")
    if options and solver is None:
        raise DeclarationError(f"options {sorted(options)} belong to one solver; name it, for instance solver='OSQP'")
    limit = None if time_limit is None else positive(time_limit, "time_limit")
    start = time.monotonic()
    attempts: list[Attempt] = []
    best: tuple[float, list[Any]] | None = None

    def left() -> float | None:
        if limit is not None:
            return max(limit - (time.monotonic() - start), 1e-3)
        return _BEHIND + _TIMES * sum(attempt.seconds for attempt in attempts) if attempts else None

    def is_over() -> bool:
        return limit is not None and time.monotonic() - start >= limit

    tries = [(name, *each) for name in names for each in product(_changes_of(name, options), units)]
    for name, change, unit in tries:
        if is_over():
            break
        earlier = [attempt for attempt in attempts if attempt.solver == name]
        if any(attempt.out_of_time or (change and attempt.status == "optimal") for attempt in earlier):
            continue  # nothing would be faster, or end otherwise
        begun = time.perf_counter()
        status = _run(problem, name, unit, report, verbose, options, change, left())
        seconds = time.perf_counter() - begun
        distance = worst(tolerance_of(name)) if _has_point(problem) else float("inf")
        is_accepted = distance <= 1.0
        attempts.append(Attempt(name, status, unit.variables, distance, is_accepted, seconds))
        if is_accepted:
            return SolverRecord(tuple(attempts))
        if distance < float("inf") and (best is None or distance < best[0]):
            best = (distance, _values(problem))
    if best is None:
        tried = "; ".join(f"{attempt.solver}: {attempt.status}" for attempt in attempts)
        tried = tried or f"the time limit of {limit:g} s was over before a solver was called"
        late = is_over() or any(attempt.out_of_time for attempt in attempts)
        longer = ", or allow a longer time_limit" if late else ""
        error = SolverError(f"no solver returned a point ({tried}); rescale the data or try another solver{longer}")
        error.attempts = tuple(attempts)
        raise error
    _restore(problem, best[1])
    if not warn:
        return SolverRecord(tuple(attempts))
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        "no solver met the certificate's tolerances; the best point is kept and its certificate does not hold: "
        + "; ".join(map(str, attempts)),
        ConvergenceWarning,
        stacklevel=3,
    )
    return SolverRecord(tuple(attempts))


def _changes_of(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the changes of its options with which a solver is tried in turn.

    Where rounding ends Clarabel with one factor of its systems, it may reach the end with the other one.
    """
    return ({}, {"direct_solve_method": "qdldl"}) if name == "CLARABEL" and not options else ({},)


def _run(
    problem: Any,
    name: str,
    units: Units,
    report: Callable[[Answer], None] | None,
    verbose: bool,
    options: Mapping[str, Any],
    change: Mapping[str, Any],
    limit: float | None,
) -> str:
    """Compile the problem, call the solver, and assign the values of variables and multipliers; return its status.

    ``change`` is what differs from its default options.
    """
    import cvxpy as cp

    missing = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
    if missing:
        raise cp.error.ParameterError(f"parameters {missing} have no value; assign it before solving")
    settings = _settings_of(name)
    chosen = dict(options or {**settings.options, **change})
    if limit is not None and settings.clock is not None:
        chosen.setdefault(settings.clock, limit)
    with warnings.catch_warnings():
        # cvxpy warns of inaccurate solutions; our own rows judge them
        warnings.simplefilter("ignore")
        _restore(problem, [None for _ in _leaves(problem)])  # no old value may be taken for an answer
        try:
            compiler = "CLARABEL" if name == "ECOS" else name
            data, chain, inverse = problem.get_problem_data(compiler, verbose=verbose, solver_opts=chosen)
            # a solver that may be given squares as cones has no units for them
            units = Units() if name in _FURTHER else units
            data, start = units.divide(data), time.perf_counter()
            if name == "ECOS":
                raw = solve_by_ecos(data, verbose, chosen)
            else:
                raw = chain.solve_via_data(problem, data, False, verbose, chosen)
            seconds = time.perf_counter() - start
            if _was_interrupted(raw):
                raise KeyboardInterrupt
            answer = take_answer(problem, raw, data["param_prob"], chain, inverse, units)
        except cp.error.SolverError as error:
            return f"failed ({str(error).splitlines()[0]})"
        except (TypeError, ValueError) as error:
            if not options:
                raise
            raise DeclarationError(f"{name} does not take the options {sorted(options)}: {error}") from error
    if report is not None:
        report(answer)
    if limit is not None and seconds >= limit and problem.status != "optimal":
        return f"{OUT_OF_TIME} {limit:.3g} s"  # by its own clock, perhaps with a point
    return str(problem.status)


def take_answer(problem: Any, raw: Any, program: Any, chain: Any, inverse: Any, units: Units = Units()) -> Answer:
    """Assign a solver's answer for the data of a cvxpy chain to variables and multipliers, and return it."""
    import cvxpy as cp

    name, inner = chain.solver.name(), chain.solver.invert(raw, inverse[-1])
    if inner.status in cp.settings.ERROR:
        raise cp.error.SolverError(f"Solver {name!r} failed.")
    primal, duals = units.multiply(inner)
    solution = type(inner)(inner.status, inner.opt_val, primal, duals, inner.attr)
    for reduction, record in reversed(list(zip(chain.reductions[:-1], inverse[:-1], strict=True))):
        solution = reduction.invert(solution, record)
    problem.unpack(solution)
    return Answer(name, str(problem.status), program, next(iter(primal.values()), None), duals)


def _was_interrupted(answer: Any) -> bool:
    """Return whether the solver reports that an interrupt ended it, which cvxpy counts as a failure."""
    if isinstance(answer, dict):
        info = answer.get("info")
        if isinstance(info, dict):
            return info.get("status_val") == -5  # SCS_SIGINT
        return False
    return "interrupted" in str(getattr(getattr(answer, "info", None), "status", "")).lower()  # OSQP


def _has_point(problem: Any) -> bool:
    return all(variable.value is not None for variable in problem.variables()) and all(
        constraint.dual_value is not None for constraint in problem.constraints
    )


def _leaves(problem: Any) -> list[Any]:
    return [*problem.variables(), *(dual for constraint in problem.constraints for dual in constraint.dual_variables)]


def _values(problem: Any) -> list[Any]:
    return [leaf.value for leaf in _leaves(problem)]


def _restore(problem: Any, values: list[Any]) -> None:
    for leaf, value in zip(_leaves(problem), values, strict=True):
        leaf.save_value(value)
