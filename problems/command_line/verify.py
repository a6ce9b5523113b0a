"""``substrate verify``: every problem, declared on its data set, solved several ways, and compared.

All modules of the package are searched: a new problem file with a ``DEMONSTRATION``, a ``declare`` and (where one
exists) a ``closed_form`` appears here without being registered anywhere.

A solver *holds* where our own residuals accept its point, otherwise it *misses*; one that is not made for the cones of
a problem is not asked. A problem passes where at least two solvers hold, or the only one that is made for it, and all
that hold agree with the closed form, or with each other where there is none. A solver that misses is shown and counted;
that alone is no failure, since versions of solvers and processors differ. A solver that holds and disagrees is a
failure always: either the problem or the closed form is wrong.

A page with an ``EIGENPROBLEM`` is not convex. Its closed form is checked by its own ``conditions``: residual, and a
count of the eigenvalues that are larger; and against the convex relaxation that the page declares, which one solver
with a cone of semidefinite matrices has to solve.

With ``prove``, the closed form of a page that has a ``prove`` of its own is proved in ball arithmetic too, relative to
the kernel matrix; one that is not proved is a failure.
"""

import inspect
import json
import math
import pkgutil
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import combinations
from types import ModuleType
from typing import Any

import problems
from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive
from substrate.certificates import Row
from substrate.declarations import AGREEMENT, Declared, agreement_rows
from substrate.errors import DeclarationError, SolverError, SubstrateError
from substrate.progress import Progress
from substrate.proof import flint
from substrate.solvers import (
    FURTHER,
    ORDER,
    SEMIDEFINITE,
    canonical_name,
    further_solvers,
    installed_solvers,
    is_made_for,
    tolerance_of,
)

__all__ = [
    "EIGENPAIRS",
    "TIME_LIMIT",
    "Line",
    "Miss",
    "announce",
    "as_json",
    "eigen_modules",
    "problem_modules",
    "table",
    "verify",
]

#: What the relaxation of an eigenproblem is compared with.
EIGENPAIRS = "eigenpairs"

#: Seconds for each solver, many times what the slowest of them needs for these problems.
TIME_LIMIT = 60.0

#: How many times farther apart points may be where a problem has cones beside those of a quadratic program: along a
#: curved border a solution is known to the root of the gap at which its solver ends, on one processor and another.
_CONES = 10.0

_Points = dict[str, Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class Miss:
    """A solver whose point is not accepted, or that has none: ``missed 5.7e-04``, ``time limit 60 s``, ``failed``."""

    solver: str
    what: str
    row: str = ""

    def __str__(self) -> str:
        return f"{self.solver}: {self.what}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: one form of one problem, all its solvers."""

    problem: str
    case: str
    equations: str
    size: int
    #: The solvers that hold.
    solvers: tuple[str, ...]
    misses: tuple[Miss, ...]
    compared_with: str
    agreement: float
    seconds: float
    complaints: tuple[str, ...]
    #: How near the closed form is proved to be, as a share of the spread of y; None where no proof was requested.
    proved: float | None = None
    #: Whether some solver of this run is made for such a problem; otherwise none was asked.
    applies: bool = True

    @property
    def passes(self) -> bool:
        """Return whether a solver holds and there is no complaint, or none is made for the problem."""
        return (bool(self.solvers) or not self.applies) and not self.complaints

    @property
    def name(self) -> str:
        """Return the problem and its case."""
        return f"{self.problem} ({self.case})"


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
    prove: bool = False,
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
    prove
        Whether closed forms are proved in ball arithmetic, where their page can; needs python-flint.
    """
    if prove:
        flint()  # an error now rather than on every line
    modules, eigen = problem_modules(), eigen_modules()
    wanted = {*modules, *eigen} if problem is None else {problem} if isinstance(problem, str) else set(problem)
    if strange := sorted(wanted - {*modules, *eigen}):
        raise DeclarationError(f"no problem named {strange[0]!r}; there are {', '.join([*modules, *eigen])}")
    solvers = (*installed_solvers(), *further_solvers()) if solver is None else (canonical_name(solver),)
    limit = None if time_limit is None else positive(time_limit, "time_limit")
    runs = [
        _Run(name, module, case, solvers, solver is not None, limit, prove, is_eigenproblem)
        for pages, attribute, is_eigenproblem in ((modules, "DEMONSTRATION", False), (eigen, "EIGENPROBLEM", True))
        for name, module in pages.items()
        if name in wanted
        for case in getattr(module, attribute).cases
    ]
    progress = Progress(sum(1 if run.is_eigenproblem else len(solvers) for run in runs))
    try:
        for run in runs:
            yield _line(run, progress)
    finally:
        progress.close()


@dataclass(frozen=True, slots=True)
class _Run:
    """One case and how it is to be run."""

    name: str
    module: ModuleType
    case: Case
    solvers: tuple[str, ...]
    alone: bool
    limit: float | None
    prove: bool
    is_eigenproblem: bool

    @property
    def demonstration(self) -> Demonstration:
        """Return the demonstration that the case is of."""
        found: Demonstration = self.module.EIGENPROBLEM if self.is_eigenproblem else self.module.DEMONSTRATION
        return found


@dataclass(slots=True)
class _Found:
    """What is known of a case, also where an error ends it."""

    size: int = 0
    points: _Points = field(default_factory=dict)
    misses: list[Miss] = field(default_factory=list)
    against: str = ""
    distances: list[float] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    proved: float | None = None
    applies: bool = True


def _line(run: _Run, progress: Progress) -> Line:
    start, found = time.perf_counter(), _Found()
    try:
        if run.is_eigenproblem:
            progress.step(f"{run.name} {run.case.label}")
            _check_eigenpairs(run, found)
        else:
            _check_page(run, found, progress)
    except Exception as error:  # a problem that cannot be declared or read must not hide the others
        found.complaints = [str(error) if isinstance(error, SubstrateError) else f"{type(error).__name__}: {error}"]
    # without a semidefinite solver the conditions of eigenpairs alone are checked
    solvers = tuple(found.points) or ((EIGENPAIRS,) if run.is_eigenproblem else ())
    return Line(
        problem=run.name,
        case=run.case.label,
        equations=run.demonstration.equations,
        size=found.size,
        solvers=solvers,
        misses=tuple(found.misses),
        compared_with=found.against,
        agreement=max(found.distances, default=float("inf")),
        seconds=time.perf_counter() - start,
        complaints=tuple(found.complaints),
        proved=found.proved,
        applies=found.applies,
    )


def _check_page(run: _Run, found: _Found, progress: Progress) -> None:
    """Solve a convex page by all solvers, and compare their points with the closed form or each other."""
    arguments = run.case.arguments_on_data()
    found.size = int(arguments["y"].size)
    reference = None
    if hasattr(run.module, "closed_form"):
        reference = run.module.closed_form(**_understood(run.module.closed_form, {**arguments, **run.case.choice}))
    declared = run.module.declare(**arguments, **run.case.choice)
    for solver in run.solvers:
        progress.step(f"{run.name} {run.case.label} {solver}")
        if is_made_for(solver, declared.problem):
            _solve(declared, solver, run.limit, found)
    found.applies = bool(found.points or found.misses)
    found.against, found.distances, found.complaints = _compare_points(run, declared, found.points, reference)
    found.complaints += _shortage(run, found.points, found.misses)
    if run.prove and reference is not None and hasattr(run.module, "prove"):
        proof = run.module.prove(reference, **_understood(run.module.prove, arguments))
        found.proved = proof.accuracy / proof.spread if proof.spread > 0.0 else float("inf")
        found.complaints += [] if proof.proved else [f"the closed form is not proved: {proof}"]


def _check_eigenpairs(run: _Run, found: _Found) -> None:
    """Check the closed form by its conditions, and its value and projector against the relaxation."""
    arguments, found.against = run.case.arguments_on_data(), EIGENPAIRS
    found.size = int(arguments["K"].shape[0])
    reference = run.module.closed_form(**arguments)
    rows = run.module.conditions(reference, **arguments)
    found.complaints = [f"the eigenpairs miss a condition: {_describe_miss(row)}" for row in rows if not row.passes]
    declared = run.module.declare(**arguments)
    for solver in [solver for solver in run.solvers if solver in SEMIDEFINITE][:1]:
        _solve(declared, solver, run.limit, found)
        found.complaints += [f"the relaxation is not solved: {miss}" for miss in found.misses]
    for solver, point in found.points.items():
        agreement = agreement_rows(point, reference, AGREEMENT * tolerance_of(solver), declared.units())
        found.distances += [row.relative for row in agreement]
        missed = [_describe_miss(row) for row in agreement if not row.passes]
        found.complaints += [f"{solver} and the eigenpairs disagree: {words}" for words in missed]


def _solve(declared: Declared, solver: str, limit: float | None, found: _Found) -> None:
    """Solve by one solver, and keep its point, or what it missed."""
    miss = _miss(declared, solver, limit)
    if miss is None:
        found.points[solver] = declared.solution()
    else:
        found.misses.append(miss)


def _miss(declared: Declared, solver: str, limit: float | None) -> Miss | None:
    """Solve, and return what went wrong, if anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a rejected point is shown as a miss
            record = declared.solve(solver, time_limit=limit).solver_record
    except SolverError as error:
        words = [attempt.status for attempt in error.attempts] or [str(error)]
        return Miss(solver, _brief(words[-1]))
    if record is not None and record.accepted:
        return None
    tolerance = tolerance_of(solver)
    worst = max(declared.rows(tolerance), key=lambda row: row.relative / row.tolerance)
    late = [attempt.status for attempt in record.attempts if attempt.out_of_time] if record is not None else []
    what = f"{late[-1]}, " if late else ""
    return Miss(solver, f"{what}missed {worst.relative:.1e}", worst.name)


def _brief(status: str) -> str:
    """Return a solver's status without cvxpy's advice to try another one."""
    return re.sub(r"failed \(Solver '\w+' failed\..*\)", "failed", status)


def _compare_points(
    run: _Run, declared: Declared, points: _Points, reference: Mapping[str, Array] | None
) -> tuple[str, list[float], list[str]]:
    """Return the reference of the comparison, the distances of the points from it, and those that are too large."""
    pairs: list[tuple[str, float, Mapping[str, Array], Mapping[str, Array]]]
    if reference is not None:
        against = "closed form"
        pairs = [
            (f"{name} and the closed form", tolerance_of(name), point, reference) for name, point in points.items()
        ]
    else:
        if run.alone and points:
            points = points | _witness(run, declared)
        against = "each other"
        pairs = [
            (f"{first} and {second}", max(tolerance_of(first), tolerance_of(second)), points[first], points[second])
            for first, second in combinations(points, 2)
        ]
        if run.alone and points and not pairs:
            return against, [], ["neither a closed form nor a second solver to compare with"]
    distances, complaints = [], []
    agreement = AGREEMENT if declared.problem.is_qp() else _CONES * AGREEMENT
    for who, tolerance, values, reference_point in pairs:
        rows = agreement_rows(values, reference_point, agreement * tolerance, declared.units())
        if not rows:
            complaints.append(f"{who} have no quantity in common, so nothing can be compared")
        distances += [row.relative for row in rows]
        complaints += [f"{who} disagree: {_describe_miss(row)}" for row in rows if not row.passes]
    return against, distances, complaints


def _witness(run: _Run, declared: Declared) -> _Points:
    """Return the point of the first other solver that holds."""
    for solver in installed_solvers():
        if solver not in run.solvers and _miss(declared, solver, run.limit) is None:
            return {solver: declared.solution()}
    return {}


def _shortage(run: _Run, points: _Points, misses: list[Miss]) -> list[str]:
    """Say why too few solvers hold, and name each that does not."""
    asked = len(points) + len(misses)
    needed = min(1 if run.alone else 2, asked)
    if len(points) >= needed:
        return []
    named = [f"{miss}{f' in {miss.row}' if miss.row else ''}" for miss in misses]
    return [f"{len(points)} of {asked} solvers hold, {needed} must", *named]


def _describe_miss(row: Row) -> str:
    return f"{row.name} {row.relative:.1e} > {row.tolerance:.1e}"


def _understood(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a closed form takes: it may not take the form that was declared."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in parameters}


_HEAD = ("problem", "N", "hold", "agreement", "proved", "verdict", "seconds", "missed")


def announce(line: Line, number: int) -> str:
    """Return one line on a problem that is done, for a reader who sees no bar."""
    return f"{number}: {line.name} {'passes' if line.passes else 'FAILS'}, {line.seconds:.1f} s"


def table(lines: list[Line]) -> str:
    """Return one heading per problem with its equations, one line per case with its failures below, and the count."""
    cells = [_cells(line) for line in lines]
    widths = [max(len(row[j]) for row in (_HEAD, *cells)) for j in range(len(_HEAD))]
    if not any(line.misses for line in lines):
        widths[-1] = 0  # nothing was missed: no column
    if all(line.proved is None for line in lines):
        widths[4] = 0  # nothing was proved: no column
    head = _align(_HEAD, widths)
    solvers = {name for line in lines for name in (*line.solvers, *(miss.solver for miss in line.misses))}
    text = [f"solvers: {' '.join(name for name in (*ORDER, *FURTHER) if name in solvers)}", head, "-" * len(head)]
    shown = ""
    for line, row in zip(lines, cells, strict=True):
        if line.problem != shown:
            text.append(f"{line.problem}: {line.equations}")
            shown = line.problem
        text.append(_align(row, widths))
    text += [f"{line.name}: {complaint}" for line in lines for complaint in line.complaints]
    return "\n".join([*text, _count(lines)])


def _cells(line: Line) -> tuple[str, ...]:
    return (
        f"  {line.case}",
        str(line.size),
        f"{len(line.solvers)}/{len(line.solvers) + len(line.misses)}",
        f"{line.agreement:.1e}" if math.isfinite(line.agreement) else "-",
        "-" if line.proved is None else f"{line.proved:.1e}",
        _verdict(line),
        f"{line.seconds:.2f}",
        "; ".join(map(str, line.misses)),
    )


def _verdict(line: Line) -> str:
    if line.passes:
        return "passes" if line.applies else "not asked"
    return "FAILS"


def _align(row: tuple[str, ...], widths: list[int]) -> str:
    """Return text aligned left, numbers right."""
    is_left = (True, False, False, False, False, True, False, True)
    cells = zip(row, widths, is_left, strict=True)
    kept = [cell.ljust(width) if words else cell.rjust(width) for cell, width, words in cells if width]
    return "  ".join(kept).rstrip()


def _count(lines: list[Line]) -> str:
    failed = sum(not line.passes for line in lines)
    asked = sum(line.applies for line in lines)
    conclusion = "all agree" if not failed else f"{failed} of {asked} FAILED"
    if asked < len(lines):
        conclusion += f"; {len(lines) - asked} have other cones than the solver"
    by = Counter(miss.solver for line in lines for miss in line.misses)
    missed = f"; missed by {', '.join(f'{solver}: {count}' for solver, count in by.items())}" if by else ""
    counted = "1 declared problem" if len(lines) == 1 else f"{len(lines)} declared problems"
    return f"{counted} in {sum(line.seconds for line in lines):.1f} s: {conclusion}{missed}"


def as_json(lines: list[Line]) -> str:
    """Return the lines as JSON, in which an unknown agreement is null."""
    rows = [asdict(line) | {"passes": line.passes, "name": line.name} for line in lines]
    for row in rows:
        for name in ("agreement", "proved"):
            row[name] = row[name] if row[name] is not None and math.isfinite(row[name]) else None
    return json.dumps(rows, indent=2)
