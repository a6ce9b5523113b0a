"""``substrate verify``: every problem, declared on its data set, solved several ways, and compared.

All modules of the package are searched: a new problem file with a ``DEMONSTRATION``, a ``declare`` and (where one
exists) a ``closed_form`` appears here without being registered anywhere.

A solver *holds* where our own residuals accept its point, otherwise it *misses*; a solver that does not support the
cones of a problem is not run. A problem passes where at least two solvers hold, or the only one that is made for it,
and all that hold agree with the closed form, or with each other where no closed form exists. A solver that misses is
shown and counted; that alone is no failure, since versions of solvers and processors differ. A solver that holds and
disagrees is a failure always: either the problem or the closed form is wrong.

A page with an ``EIGENPROBLEM`` is not convex. Its closed form is checked by its ``conditions``: residual, and a
count of the eigenvalues that are larger; and against the convex relaxation that the page declares, which one solver
with a cone of semidefinite matrices has to solve.
"""

import inspect
import math
import pkgutil
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations
from types import ModuleType
from typing import Any

import problems
from problems.demonstration import Case
from substrate.arrays import Array, positive
from substrate.certificate import Row
from substrate.declare.declared import AGREEMENT, Declared, agreement_rows
from substrate.declare.solvers import (
    FURTHER,
    ORDER,
    SEMIDEFINITE,
    canonical_name,
    further_solvers,
    installed_solvers,
    is_made_for,
    tolerance_of,
)
from substrate.errors import DeclarationError, SolverError, SubstrateError
from substrate.progress import Progress

__all__ = ["EIGENPAIRS", "TIME_LIMIT", "Line", "announce", "eigen_modules", "problem_modules", "table", "verify"]

#: What the relaxation of an eigenproblem is compared with.
EIGENPAIRS = "eigenpairs"

#: Seconds for each solver, many times what the slowest of them needs for these problems.
TIME_LIMIT = 60.0

#: How many times farther apart points may be where a problem has other cones than a quadratic program: along a
#: curved border a solution is known to the root of the gap at which its solver ends, on one processor and another.
_CONES = 10.0


@dataclass(slots=True)
class Line:
    """One line of the table: one form of one problem, by all its solvers."""

    problem: str
    case: str
    equations: str = ""
    size: int = 0
    #: The points of the solvers that hold, and what the others missed: ``missed 5.7e-04``, ``time limit 60 s``.
    points: dict[str, Mapping[str, Array]] = field(default_factory=dict)
    misses: dict[str, str] = field(default_factory=dict)
    compared_with: str = ""
    distances: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0
    #: Whether some solver of this run is made for such a problem; otherwise it is skipped.
    applies: bool = True

    @property
    def passes(self) -> bool:
        """Return whether there is no complaint: enough solvers hold, and agree."""
        return not self.complaints

    @property
    def agreement(self) -> float:
        """Return the largest distance of two points that were compared, relative to their size."""
        return max(self.distances, default=math.inf)

    @property
    def name(self) -> str:
        """Return the problem and its case."""
        return f"{self.problem} ({self.case})"

    def compare(self, who: str, rows: Sequence[Row]) -> None:
        """Keep the distances of two points, with a complaint where one is too large or none can be stated."""
        if not rows:
            self.complaints.append(f"{who} have no quantity in common, so nothing can be compared")
        self.distances += [row.relative for row in rows]
        self.complaints += [f"{who} disagree: {_describe_miss(row)}" for row in rows if not row.passes]


def problem_modules() -> dict[str, ModuleType]:
    """Return the problem files: every module of the package that carries a demonstration."""
    return _modules_with("DEMONSTRATION")


def eigen_modules() -> dict[str, ModuleType]:
    """Return the files of eigenproblems."""
    return _modules_with("EIGENPROBLEM")


def _modules_with(attribute: str) -> dict[str, ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(problems.__path__) if not info.ispkg]
    modules = {name: import_module(f"problems.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, attribute)}


def verify(
    problem: str | Sequence[str] | None = None,
    solver: str | None = None,
    *,
    time_limit: float | None = TIME_LIMIT,
) -> Iterator[Line]:
    """Run the demonstrations, one line per case, as they finish.

    Parameters
    ----------
    problem
        The name of one problem file, or several; all unless given.
    solver
        The name of one solver, which must hold and agree with the closed form; without one, with the first other
        solver that holds. Problems that it is not made for are shown as such. Otherwise all that are installed.
    time_limit
        Seconds for each solver, ``None`` for no limit.
    """
    modules = problem_modules() | eigen_modules()
    wanted = set(modules) if problem is None else {problem} if isinstance(problem, str) else set(problem)
    if strange := sorted(wanted - set(modules)):
        raise DeclarationError(f"no problem is named {strange[0]!r}; the problems are {', '.join(modules)}")
    solvers = (*installed_solvers(), *further_solvers()) if solver is None else (canonical_name(solver),)
    limit = None if time_limit is None else positive(time_limit, "time_limit")
    cases = [
        (name, case) for name, module in modules.items() if name in wanted for case in _demonstration(module).cases
    ]
    progress = Progress(len(cases))
    try:
        for name, case in cases:
            progress.step(f"{name} {case.label}")
            yield _line(name, modules[name], case, solvers, solver is not None, limit)
    finally:
        progress.close()


def _demonstration(module: ModuleType) -> Any:
    return module.EIGENPROBLEM if hasattr(module, "EIGENPROBLEM") else module.DEMONSTRATION


def _line(
    name: str, module: ModuleType, case: Case, solvers: tuple[str, ...], alone: bool, limit: float | None
) -> Line:
    start, line = time.perf_counter(), Line(name, case.label, _demonstration(module).equations)
    try:
        if hasattr(module, "EIGENPROBLEM"):
            _check_eigenpairs(line, module, case, solvers, limit)
        else:
            _check_page(line, module, case, solvers, alone, limit)
    except Exception as error:  # a problem that cannot be declared or read must not hide the others
        line.complaints = [str(error) if isinstance(error, SubstrateError) else f"{type(error).__name__}: {error}"]
    line.seconds = time.perf_counter() - start
    return line


def _check_page(
    line: Line, module: ModuleType, case: Case, solvers: tuple[str, ...], alone: bool, limit: float | None
) -> None:
    """Solve a convex page by all solvers, and compare their points with the closed form or each other."""
    arguments = case.arguments_on_data()
    line.size = int(arguments["y"].size)
    declared = module.declare(**arguments, **case.choice)
    for solver in solvers:
        if is_made_for(solver, declared.problem):
            _solve(line, declared, solver, limit)
    line.applies = bool(line.points or line.misses)
    units, tolerance = declared.units(), AGREEMENT if declared.problem.is_qp() else _CONES * AGREEMENT
    if hasattr(module, "closed_form"):
        line.compared_with = "closed form"
        taken = inspect.signature(module.closed_form).parameters  # some take no form
        given = {name: value for name, value in {**arguments, **case.choice}.items() if name in taken}
        reference = module.closed_form(**given)
        for name, point in line.points.items():
            rows = agreement_rows(point, reference, tolerance * tolerance_of(name), units)
            line.compare(f"{name} and the closed form", rows)
    else:
        line.compared_with = "each other"
        points = line.points | _solve_by_another(line, declared, limit) if alone and line.points else line.points
        if alone and len(points) == 1:
            line.complaints.append("neither a closed form nor a second solver to compare with")
        for first, second in combinations(points, 2):
            loosest = tolerance * max(tolerance_of(first), tolerance_of(second))
            line.compare(f"{first} and {second}", agreement_rows(points[first], points[second], loosest, units))
    asked = len(line.points) + len(line.misses)
    if len(line.points) < min(1 if alone else 2, asked):
        needed = min(1 if alone else 2, asked)
        missed = [f"{solver}: {what}" for solver, what in line.misses.items()]
        line.complaints += [f"{len(line.points)} of {asked} solvers hold, {needed} must", *missed]


def _check_eigenpairs(
    line: Line, module: ModuleType, case: Case, solvers: tuple[str, ...], limit: float | None
) -> None:
    """Check the closed form by its conditions, and its value and projector against the relaxation.

    Without a semidefinite solver the conditions alone are checked.
    """
    arguments, line.compared_with = case.arguments_on_data(), EIGENPAIRS
    line.size = int(arguments["K"].shape[0])
    reference = module.closed_form(**arguments)
    rows = module.conditions(reference, **arguments)
    line.complaints = [f"the eigenpairs miss a condition: {_describe_miss(row)}" for row in rows if not row.passes]
    declared = module.declare(**arguments)
    for solver in [solver for solver in solvers if solver in SEMIDEFINITE][:1]:
        _solve(line, declared, solver, limit)
        line.complaints += [f"the relaxation is not solved: {solver}: {what}" for solver, what in line.misses.items()]
    for solver, point in line.points.items():
        rows = agreement_rows(point, reference, AGREEMENT * tolerance_of(solver), declared.units())
        line.compare(f"{solver} and the eigenpairs", rows)


def _solve(line: Line, declared: Declared, solver: str, limit: float | None) -> None:
    """Solve by one solver, and keep its point, or the residual that failed."""
    missed = _miss(declared, solver, limit)
    if missed:
        line.misses[solver] = missed
    else:
        line.points[solver] = declared.solution()


def _miss(declared: Declared, solver: str, limit: float | None) -> str:
    """Solve, and return the residual that failed and its row; nothing if the point is accepted."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rejected point is shown as a miss
            record = declared.solve(solver, time_limit=limit).solver_record
    except SolverError as error:
        status = [attempt.status for attempt in error.attempts] or [str(error)]
        return re.sub(r"failed \(Solver '\w+' failed\..*\)", "failed", status[-1])  # without cvxpy's advice
    if record is not None and record.accepted:
        return ""
    tolerance = tolerance_of(solver)
    worst = max(declared.rows(tolerance), key=lambda row: row.relative / row.tolerance)
    late = [attempt.status for attempt in record.attempts if attempt.out_of_time] if record is not None else []
    return f"{f'{late[-1]}, ' if late else ''}missed {worst.relative:.1e} in {worst.name}"


def _solve_by_another(line: Line, declared: Declared, limit: float | None) -> dict[str, Mapping[str, Array]]:
    """Return the point of the first other solver that holds."""
    for solver in installed_solvers():
        if solver not in line.points and not _miss(declared, solver, limit):
            return {solver: declared.solution()}
    return {}


def _describe_miss(row: Row) -> str:
    return f"{row.name} {row.relative:.1e} > {row.tolerance:.1e}"


def announce(line: Line, number: int) -> str:
    """Return one line on a problem that is done, for a reader who sees no bar."""
    return f"{number}: {line.name} {'passes' if line.passes else 'FAILS'}, {line.seconds:.1f} s"


def table(lines: list[Line]) -> str:
    """Return one heading per problem with its equations, one line per case with its failures below, and the count."""
    solvers = {name for line in lines for name in (*line.points, *line.misses)}
    width = max(len(line.case) for line in lines) + 2
    head = f"{'problem':<{width}}    N  hold  agreement  result     seconds" + ("  missed" if _missed(lines) else "")
    text = [f"solvers: {' '.join(name for name in (*ORDER, *FURTHER) if name in solvers)}", head, "-" * len(head)]
    shown = ""
    for line in lines:
        if line.problem != shown:
            text.append(f"{line.problem}: {line.equations}")
            shown = line.problem
        result = ("passes" if line.applies else "skipped") if line.passes else "FAILS"
        holding = f"{len(line.points)}/{len(line.points) + len(line.misses)}"
        agreement = f"{line.agreement:.1e}" if math.isfinite(line.agreement) else "-"
        missed = "; ".join(f"{solver}: {what}" for solver, what in line.misses.items())
        case = f"  {line.case:<{width - 2}}  {line.size:>3}  {holding:>4}  {agreement:>9}"
        text.append(f"{case}  {result:<9}  {line.seconds:>7.2f}  {missed}".rstrip())
    text += [f"{line.name}: {complaint}" for line in lines for complaint in line.complaints]
    failed, asked = sum(not line.passes for line in lines), sum(line.applies for line in lines)
    conclusion = f"{failed} of {asked} FAILED" if failed else "all agree"
    if asked < len(lines):
        conclusion += f"; {len(lines) - asked} skipped, with cones that the solver does not support"
    if by := _missed(lines):
        conclusion += f"; missed by {', '.join(f'{solver}: {count}' for solver, count in by.items())}"
    counted = "1 declared problem" if len(lines) == 1 else f"{len(lines)} declared problems"
    return "\n".join([*text, f"{counted} in {sum(line.seconds for line in lines):.1f} s: {conclusion}"])


def _missed(lines: list[Line]) -> Counter[str]:
    """Return how many problems each solver misses."""
    return Counter(solver for line in lines for solver in line.misses)
