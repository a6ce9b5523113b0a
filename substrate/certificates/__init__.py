"""Certificates: reports of recomputed residuals, attached to every fit and every declared solve.

A report does not depend on models: ingredients provide the rows, it prints them.
"""

import math
import warnings
from dataclasses import dataclass, field
from html import escape

from substrate.certificates.rows import Accuracy, Row

__all__ = ["NO_BOUND", "WIDER", "Accuracy", "Certificate", "Row", "warn_unless_holds"]

#: The fact on the record where the answer cannot be bounded, with the reason.
NO_BOUND = "no bound on the answer"

#: The fact on the record where a search should be given a wider range or a wider gap, and which.
WIDER = "to widen"

_HEADINGS = ("check", "residual", "scale", "relative", "tolerance", "pass")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A frozen report: rows that pass or fail, and a record of how the solution was obtained.

    ``print(certificate)`` shows the table, ``certificate.holds`` is the verdict, ``certificate["name"]`` is a
    row. ``record`` lists plain facts (kernel, Gram alterations, solver attempts, refinements) as pairs.
    """

    title: str
    rows: tuple[Row, ...]
    record: tuple[tuple[str, str], ...] = field(default=())

    @property
    def holds(self) -> bool:
        """True when there is at least one row and every row passes, that of the accuracy among them."""
        return bool(self.rows) and all(row.passes for row in self.rows)

    @property
    def answer(self) -> Accuracy | None:
        """The row that bounds the answer; None where there is none."""
        return next((row for row in self.rows if isinstance(row, Accuracy)), None)

    @property
    def accuracy(self) -> float:
        """How far the fitted values can be from those of the exact optimum, root mean square, in units of y."""
        return math.inf if self.answer is None else self.answer.value

    @property
    def spread(self) -> float:
        """The standard deviation of y about its mean, with the weights of the fit; NaN where no answer is bounded."""
        return math.nan if self.answer is None else self.answer.spread

    @property
    def promise(self) -> str:
        """What the certificate states about the answer, in words."""
        if self.answer is not None:
            return str(self.answer)
        reason = next((fact for name, fact in self.record if name == NO_BOUND), None)
        return NO_BOUND if reason is None else f"{NO_BOUND}: {reason}"

    @property
    def failures(self) -> tuple[Row, ...]:
        """The rows that do not pass."""
        return tuple(row for row in self.rows if not row.passes)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row named {name!r}; this certificate has {[row.name for row in self.rows]}")

    def extended(self, *rows: Row, record: tuple[tuple[str, str], ...] = ()) -> "Certificate":
        """The same certificate with further rows and facts at its end."""
        return Certificate(self.title, (*self.rows, *rows), (*self.record, *record))

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                row.name,
                f"{row.value:.2e}",
                f"{row.scale:.2e}",
                f"{row.relative:.1e}",
                f"{row.tolerance:.1e}",
                "yes" if row.passes else "NO",
            )
            for row in self.rows
        ]

    def __str__(self) -> str:
        table = [_HEADINGS, *self._cells()]
        widths = [max(len(line[j]) for line in table) for j in range(len(_HEADINGS))]
        formulas = ["formula", *(row.formula for row in self.rows)]
        lines = [f"{self.title}: {'holds' if self.holds else 'DOES NOT HOLD'}; {self.promise}"]
        for cells, formula in zip(table, formulas, strict=True):
            aligned = [cells[0].ljust(widths[0])]
            aligned += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            lines.append("  ".join([*aligned, formula]).rstrip())
        lines.insert(2, "-" * max(len(line) for line in lines))
        lines += [f"{name}: {fact}" for name, fact in self.record]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(h)}</th>" for h in (*_HEADINGS, "formula"))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (*cells, row.formula)) + "</tr>"
            for cells, row in zip(self._cells(), self.rows, strict=True)
        )
        facts = "".join(f"<li>{escape(name)}: {escape(fact)}</li>" for name, fact in self.record)
        verdict = "holds" if self.holds else "does not hold"
        return (
            f"<table><caption>{escape(self.title)}: {verdict}; {escape(self.promise)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{facts}</ul>"
        )


def warn_unless_holds(certificate: Certificate) -> None:
    """Warn of a fit whose certificate fails, whatever the reason."""
    if certificate.holds:
        return
    from sklearn.exceptions import ConvergenceWarning

    failed = ", ".join(row.name for row in certificate.failures)
    cures = "; ".join(fact for name, fact in certificate.record if name in ("rounding", WIDER))
    warnings.warn(
        f"{certificate.title}: the certificate does not hold ({failed}); {cures or 'print certificate_ to see why'}",
        ConvergenceWarning,
        stacklevel=4,
    )
