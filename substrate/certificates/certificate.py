"""The report that gathers rows. It knows nothing of models: ingredients bring rows, it lines them up."""

from dataclasses import dataclass, field
from html import escape

from substrate.certificates.rows import Row

__all__ = ["Certificate"]

_HEADINGS = ("check", "residual", "scale", "relative", "tolerance", "pass")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A frozen report: rows that pass or fail, and a record of how the solution came about.

    ``print(certificate)`` shows the table, ``certificate.holds`` is the verdict, ``certificate["name"]`` is a
    row. ``record`` lists plain facts (kernel, Gram alterations, solver attempts, refinements) as pairs.
    """

    title: str
    rows: tuple[Row, ...]
    record: tuple[tuple[str, str], ...] = field(default=())

    @property
    def holds(self) -> bool:
        """True when there is at least one row and every row passes."""
        return bool(self.rows) and all(row.passes for row in self.rows)

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
        lines = [f"{self.title}: {'holds' if self.holds else 'DOES NOT HOLD'}"]
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
            f"<table><caption>{escape(self.title)}: {verdict}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table><ul>{facts}</ul>"
        )
