"""The result of a topic: a table, a sentence for every target that was missed, and its headline rows."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Measured

__all__ = ["Headline", "Table", "measure_rows", "yes_no"]


def yes_no(met: bool) -> str:
    return "yes" if met else "no"


@dataclass(frozen=True, slots=True)
class Headline:
    """One line of the summary of the record: a piece of work, whom it is compared with, and what is wanted.

    With ``least`` the ratio says how many times faster (or smaller) than the peer ours is, with ``most`` how many times
    the peer's cost ours takes. ``limit`` is our cost over that of the least work which the answer needs, where that was
    measured. ``held`` is False where the figure does not count, such as that of a certificate which fails. ``spread``
    are the quartiles of the ratio over the rounds in which it was measured, where there were several.
    """

    work: str
    peer: str
    ratio: float
    least: float | None = None
    most: float | None = None
    limit: float | None = None
    held: bool = True
    spread: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.least is None) == (self.most is None):
            raise ValueError(f"the headline {self.work!r} needs either least or most, got {self.least} and {self.most}")
        # figures come from numpy as well, and the record is JSON
        object.__setattr__(self, "held", bool(self.held))
        if self.spread is None and isinstance(self.ratio, Measured) and len(self.ratio.rounds) > 1:
            object.__setattr__(self, "spread", self.ratio.spread)
        if self.spread is not None:
            object.__setattr__(self, "spread", tuple(float(end) for end in self.spread))
        for name in ("ratio", "least", "most", "limit"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else float(value))

    @property
    def target(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    @property
    def is_met(self) -> bool:
        inside = self.ratio >= self.least if self.least is not None else self.ratio <= (self.most or 0.0)
        return bool(inside and self.held)

    def row(self) -> tuple[str, ...]:
        """Work, peer, ratio, limit, target, met."""
        limit = "" if self.limit is None else f"{self.limit:.2f}"
        ratio = f"{self.ratio:.3g}"
        if self.spread is not None:
            low, high = (f"{end:.3g}" for end in self.spread)
            ratio += f" ({low} to {high})" if low != high else ""
        return self.work, self.peer, ratio, limit, self.target, yes_no(self.is_met)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. Cells under a heading that starts with "met" state whether a target was reached."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shortfalls: tuple[str, ...] = ()
    summary: tuple[Headline, ...] = ()
    #: How often the times were measured, and how far the rounds differ.
    rounds: str = ""

    @property
    def verdicts(self) -> tuple[int, int]:
        """Return how many targets of all rows were met, and how many there are."""
        columns = [k for k, heading in enumerate(self.headings) if heading.startswith("met")]
        judged = [row[k] for row in self.rows for k in columns if row[k] in ("yes", "no")]
        return judged.count("yes"), len(judged)

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.note, ""]
        lines.append("| " + " | ".join(self.headings) + " |")
        lines.append("|" + "---|" * len(self.headings))
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        if self.rounds:
            lines += ["", self.rounds]
        if self.shortfalls:
            lines += ["", "Where a target was missed:", "", *(f"- {sentence}" for sentence in self.shortfalls)]
        return "\n".join(lines) + "\n"


def measure_rows(
    cases: Iterable[Any], measure: Callable[[Any, list[str], list[Headline]], tuple[str, ...]]
) -> tuple[list[tuple[str, ...]], list[str], list[Headline]]:
    """Measure one row per case, shown as it is done; return the rows, the shortfalls and the headlines."""
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for case in cases:
        rows.append(measure(case, shortfalls, summary))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return rows, shortfalls, summary
