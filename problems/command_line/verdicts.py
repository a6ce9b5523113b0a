"""The lines of ``substrate verify`` as a table of at most eighty columns, misses aside, and as JSON."""

import json
import math
from collections import Counter
from dataclasses import asdict

from problems.command_line.verify import Line
from substrate.solvers import FURTHER, ORDER

__all__ = ["announce", "as_json", "table"]

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
        row["agreement"], row["proved"] = _finite(row["agreement"]), _finite(row["proved"])
        for miss in row["misses"]:
            miss["residual"] = _finite(miss["residual"])
    return json.dumps(rows, indent=2)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
