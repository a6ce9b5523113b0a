"""``substrate verify``: every problem, declared on its data set, solved several ways, and compared.

The folder is walked: a new problem file with a ``DEMONSTRATION``, a ``declare`` and (where one exists) a
``closed_form`` appears here without being registered anywhere.
"""

import inspect
import json
import pkgutil
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

import problems
from problems.demonstration import Case, Demonstration
from problems.progress import Progress
from substrate import datasets
from substrate.arrays import Array
from substrate.errors import DeclarationError, SubstrateError
from substrate.solvers import canonical_name, installed_solvers

__all__ = ["Line", "problem_modules", "table", "verify"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: one form of one problem, all its solvers."""

    problem: str
    equations: str
    size: str
    solvers: tuple[str, ...]
    agreement: float
    certificate: bool
    seconds: float
    complaints: tuple[str, ...]

    @property
    def passes(self) -> bool:
        """Whether at least one solver ran and nothing was left to complain about."""
        return self.certificate and not self.complaints and bool(self.solvers)


def problem_modules() -> dict[str, ModuleType]:
    """The problem files: every module of the package that carries a demonstration."""
    names = [info.name for info in pkgutil.iter_modules(problems.__path__) if not info.ispkg]
    modules = {name: import_module(f"problems.{name}") for name in names}
    return {name: module for name, module in modules.items() if hasattr(module, "DEMONSTRATION")}


def verify(problem: str | None = None, solver: str | None = None) -> Iterator[Line]:
    """Run the demonstrations, one line a form, as they finish."""
    modules = problem_modules()
    if problem is not None and problem not in modules:
        raise DeclarationError(f"no problem named {problem!r}; there are {', '.join(modules)}")
    solvers = installed_solvers() if solver is None else (canonical_name(solver),)
    chosen = {problem: modules[problem]} if problem is not None else modules
    cases = [(name, module, case) for name, module in chosen.items() for case in module.DEMONSTRATION.cases]
    progress = Progress(len(cases) * len(solvers))
    try:
        for name, module, case in cases:
            yield _line(name, module, case, solvers, progress)
    finally:
        progress.close()


def _line(name: str, module: ModuleType, case: Case, solvers: tuple[str, ...], progress: Progress) -> Line:
    demonstration: Demonstration = module.DEMONSTRATION
    label = f"{name} ({case.label})"
    start = time.perf_counter()
    try:
        return _compared(name, module, case, solvers, progress)
    except SubstrateError as error:  # one problem that cannot be declared must not hide the others
        seconds = time.perf_counter() - start
        return Line(label, demonstration.equations, "", (), float("inf"), False, seconds, (str(error),))


def _compared(name: str, module: ModuleType, case: Case, solvers: tuple[str, ...], progress: Progress) -> Line:
    demonstration: Demonstration = module.DEMONSTRATION
    start = time.perf_counter()
    arguments = case.arguments(*getattr(datasets, case.dataset)())
    reference = None
    if hasattr(module, "closed_form"):
        reference = module.closed_form(**_understood(module.closed_form, {**arguments, **case.choice}))
    ran, complaints, distances, holds = [], [], [], True
    points: list[dict[str, Array]] = []
    declared = module.declare(**arguments, **case.choice)
    for solver in solvers:
        progress.step(f"{name} {case.label} {solver}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a rejected point shows in its certificate
                declared.solve(solver)
        except SubstrateError as error:
            complaints.append(f"{solver}: {error}")
            continue
        ran.append(solver)
        point = declared.solution()
        against = reference if reference is not None else (points[0] if points else None)
        certificate = declared.certificate(against=against)
        holds = holds and certificate.holds
        complaints += [f"{solver}: {row.name} {row.relative:.1e} > {row.tolerance:.1e}" for row in certificate.failures]
        distances += [row.relative for row in certificate.rows if row.name.startswith("agreement")]
        points.append(point)
    if reference is None and len(ran) < 2:
        complaints.append("neither a closed form nor a second solver to compare with")
    size = f"N={arguments['y'].size}"
    agreement = max(distances, default=float("inf"))
    seconds = time.perf_counter() - start
    return Line(
        f"{name} ({case.label})",
        demonstration.equations,
        size,
        tuple(ran),
        agreement,
        holds,
        seconds,
        tuple(complaints),
    )


def _understood(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a closed form takes: it need not know which form was declared."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in known}


def table(lines: list[Line]) -> str:
    """The lines as an aligned table, with what went wrong below it."""
    head = ("problem", "equations", "size", "solvers", "agreement", "certificate", "seconds")
    cells = [head] + [
        (
            line.problem,
            line.equations,
            line.size,
            " ".join(line.solvers),
            f"{line.agreement:.1e}",
            "holds" if line.certificate else "FAILS",
            f"{line.seconds:.2f}",
        )
        for line in lines
    ]
    widths = [max(len(row[j]) for row in cells) for j in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    text.insert(1, "-" * max(map(len, text)))
    text += [f"{line.problem}: {complaint}" for line in lines for complaint in line.complaints]
    failed = sum(not line.passes for line in lines)
    total = sum(line.seconds for line in lines)
    verdict = "all agree" if not failed else f"{failed} of {len(lines)} FAILED"
    text.append(f"{len(lines)} declared problems in {total:.1f} s: {verdict}")
    return "\n".join(text)


def as_json(lines: list[Line]) -> str:
    """The lines as JSON."""
    rows = [asdict(line) | {"passes": line.passes} for line in lines]
    for row in rows:
        row["agreement"] = row["agreement"] if np.isfinite(row["agreement"]) else None  # JSON has no infinity
    return json.dumps(rows, indent=2)
