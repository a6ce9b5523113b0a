"""Certificates: reports of recomputed residuals, attached to every fit and every declared solve.

A report does not depend on models: ingredients provide the rows, it prints them.
"""

import math
import warnings
from dataclasses import dataclass, field, replace
from html import escape

from substrate.certificates.rows import Accuracy, Distance, Row
from substrate.errors import user_level

__all__ = ["NO_BOUND", "PROVED", "WIDER", "Accuracy", "Certificate", "Row", "warn_unless_holds"]

#: The fact on the record where the answer cannot be bounded, with the reason.
NO_BOUND = "no bound on the answer"

#: The fact on the record of a search without a machine of ours: what is proved of its result.
PROVED = "proved"

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
        """How far the fitted values can be from those of the exact optimum, root mean square, in units of y.

        Of several outputs the largest number; :attr:`accuracies` has all of them.
        """
        return math.inf if self.answer is None else self.answer.value

    @property
    def spread(self) -> float:
        """The standard deviation of y about its mean, with the weights of the fit.

        Of several outputs that of :attr:`accuracy`; :attr:`spreads` has all of them. NaN where no row is in units of y.
        """
        if self.answer is not None:
            return self.answer.spread
        return next((row.spread for row in self.rows if isinstance(row, Distance)), math.nan)

    @property
    def accuracies(self) -> tuple[float, ...]:
        """The accuracy of every output."""
        return (math.inf,) if self.answer is None else tuple(accuracy.value for accuracy in self.answer.each)

    @property
    def spreads(self) -> tuple[float, ...]:
        """The spread of every output."""
        return (self.spread,) if self.answer is None else tuple(accuracy.spread for accuracy in self.answer.each)

    @property
    def promise(self) -> str:
        """What the certificate states about the answer, in words."""
        if self.answer is not None:
            return str(self.answer)
        proved = next((fact for name, fact in self.record if name == PROVED), None)
        if proved is not None:
            return proved
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
        """Return the same certificate with further rows and facts at its end."""
        return Certificate(self.title, (*self.rows, *rows), (*self.record, *record))

    def _lines(self) -> list[Row]:
        """Return the rows as they are printed, those of every output one by one."""
        return [line for row in self.rows for line in _each_output(row)]

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
            for row in self._lines()
        ]

    def __str__(self) -> str:
        table = [_HEADINGS, *self._cells()]
        widths = [max(len(line[j]) for line in table) for j in range(len(_HEADINGS))]
        formulas = ["formula", *(row.formula for row in self._lines())]
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
            for cells, row in zip(self._cells(), self._lines(), strict=True)
        )
        facts = "".join(f"<li>{escape(name)}: {escape(fact)}</li>" for name, fact in self.record)
        conclusion = "holds" if self.holds else "does not hold"
        return (
            f"<table><caption>{escape(self.title)}: {conclusion}; {escape(self.promise)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><ul>{facts}</ul>"
        )


def _each_output(row: Row) -> list[Row]:
    """Return the rows of the outputs of one that has several, with their numbers; any other row itself."""
    if not isinstance(row, Accuracy) or not row.outputs:
        return [row]
    return [
        replace(output_row, name=f"{output_row.name}, output {k}") for k, output_row in enumerate(row.outputs, start=1)
    ]


def warn_unless_holds(certificate: Certificate, reason: str = "") -> None:
    """Warn of a fit whose certificate fails; ``reason`` is what its solver reported, with what to do.

    No other part of a fit speaks of its certificate: what a solver did not reach may still hold.
    """
    if certificate.holds:
        return
    from sklearn.exceptions import ConvergenceWarning

    failed = ", ".join(row.name for row in certificate.failures)
    cures = "; ".join(fact for name, fact in certificate.record if name in ("rounding", WIDER))
    told = reason or _describe_rejections(certificate) or cures or "print certificate_ to see why"
    warnings.warn(
        f"{certificate.title}: the certificate does not hold ({failed}); {told}",
        ConvergenceWarning,
        stacklevel=user_level(),
    )


def _describe_rejections(certificate: Certificate) -> str:
    """Return what is known of solvers none of whose points was accepted; empty where one was, or where none was
    called.
    """
    attempts = [fact for name, fact in certificate.record if name == "solver" and "rejected" in fact]
    if not attempts or any("accepted" in fact for fact in attempts):
        return ""
    return "no solver met the certificate's tolerances, and the best point is kept: " + "; ".join(attempts)
