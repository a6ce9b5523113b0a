"""``python docs/ledger.py [--write]``: the equation ledger, collected from docstrings.

Fields in the package state what implements an equation, fields in tests what checks it, and fields
in the demonstrations of the errata what is wrong with it in print; see :mod:`docstring_fields` for their form. Nothing
is written by hand, so a function that is moved keeps its row.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from docstring_fields import ROOT, Field, fields_under
from equations import EQUATIONS, expand, label
from errata import entries
from generated_page import page_command, table

__all__ = ["PAGE", "TESTS_PAGE", "Ledger", "main"]

PAGE = ROOT / "docs" / "ledger.md"
TESTS_PAGE = ROOT / "docs" / "ledger_tests.md"

_HEAD = """# Equation ledger

Every numbered equation of the five papers: what implements it, which test checks it, and what is wrong with it in print
([errata](errata.md)). Made by `python docs/ledger.py --write` from the fields `:equation` and `:place` at the ends of
docstrings; a test compares this page with the docstrings. The sparse system of [Cawley2002] has no number and is
called (beta).
"""


_TESTS = """# Tests of equations

The source of the tests that the [equation ledger](ledger.md) names. Made by
`python docs/ledger.py --write`.
"""


class Ledger:
    """The fields by equation and by place: implementations, tests and errata; and what is wrong with them."""

    def __init__(self, owners: Iterable[Field], checks: Iterable[Field], errata: Iterable[Field]) -> None:
        self.owners: dict[tuple[str, str], list[Field]] = defaultdict(list)
        self.checks: dict[tuple[str, str], list[Field]] = defaultdict(list)
        self.errata: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.faults: list[str] = []
        self._sort(owners, self.owners)
        checks = list(checks)
        self._sort(checks, self.checks)
        self._check_numbers(errata)
        for field in checks:
            function, file = field.symbol.rpartition(".")[2], Path(field.path).name
            if field.kind in ("equation", "place") and not (function.startswith("test_") and file.startswith("test_")):
                self.faults.append(f"{field.path} {field.symbol or 'itself'} is no test that pytest collects")
        for key, where in self._list_required():
            for fields, word in ((self.owners, "owner"), (self.checks, "test")):
                if not fields[key, where]:
                    self.faults.append(f"[{key}] {where} has no {word}")

    @classmethod
    def of_the_sources(cls) -> "Ledger":
        """Return the ledger of this repository."""
        owners = fields_under("substrate", "problems", "examples")
        errata = [place for entry in entries() for place in entry.places]
        return cls(owners, fields_under("tests"), errata)

    def _sort(self, fields: Iterable[Field], table: dict[tuple[str, str], list[Field]]) -> None:
        for field in fields:
            for where in self._places(field):
                table[field.key, where].append(field)

    def _check_numbers(self, errata: Iterable[Field]) -> None:
        numbers: dict[tuple[str, str], int] = {}
        for field in errata:
            if field.kind in ("equation", "place"):
                number = numbers.setdefault((field.path, field.symbol), len(numbers) + 1)
                for where in self._places(field):
                    self.errata[field.key, where].append(number)

    def _places(self, field: Field) -> tuple[str, ...]:
        if field.kind == "place":
            if field.key not in EQUATIONS:
                self.faults.append(f"{field.path} {field.symbol}: [{field.key}] is not in docs/equations.py")
            return (field.where,)
        if field.kind != "equation":
            return ()
        try:
            return tuple(label(number) for number in expand(field.key, field.where))
        except ValueError as error:
            self.faults.append(f"{field.path} {field.symbol}: {error}")
            return ()

    def _list_required(self) -> list[tuple[str, str]]:
        """Return every equation, and every place that a symbol or a test names."""
        numbered = [(key, label(number)) for key, numbers in EQUATIONS.items() for number in numbers]
        return [*numbered, *self._list_unnumbered()]

    def _list_unnumbered(self) -> list[tuple[str, str]]:
        named = {place for table in (self.owners, self.checks) for place, fields in table.items() if fields}
        order = list(EQUATIONS)
        return sorted((p for p in named if not p[1].startswith("(")), key=lambda place: (order.index(place[0]), place))

    def page(self) -> str:
        """Return the page as Markdown."""
        lines = [_HEAD]
        for key, numbers in ((key, numbers) for key, numbers in EQUATIONS.items() if numbers):
            rows = [self._row(key, label(number)) for number in numbers]
            lines.append(table(f"## [{key}]", ("equation", "states", "implemented by", "checked by", "erratum"), rows))
        rows = [(f"[{key}]", *self._row(key, where)) for key, where in self._list_unnumbered()]
        headings = ("paper", "place", "what", "implemented by", "checked by", "erratum")
        lines.append(table("## Algorithms, sections and tables", headings, rows))
        return "\n".join(lines)

    def tests_page(self) -> str:
        """Return the page of the tests that check equations, each as it stands."""
        fields = {_anchor(field): field for checks in self.checks.values() for field in checks}
        lines, file = [_TESTS], ""
        for anchor, field in sorted(fields.items()):
            if field.path != file:
                file = field.path
                lines += [f"## `{file}`", ""]
            lines += [f'<a id="{anchor}"></a>', "", f"```{{literalinclude}} ../{file}"]
            lines += [f":pyobject: {field.symbol}", "```", ""]
        return "\n".join(lines)

    def _row(self, key: str, where: str) -> tuple[str, ...]:
        owners, checks = self.owners[key, where], self.checks[key, where]
        errata = ", ".join(f"[{number}](errata.md#erratum-{number})" for number in self.errata[key, where])
        return (where, "; ".join(_distinct(field.text for field in owners)), _cell(owners), _cell(checks), errata)


def _distinct(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _cell(fields: list[Field]) -> str:
    names = (_test_link(f) if f.path.startswith("tests/") else f"`{f.dotted_name}`" for f in fields)
    return "<br>".join(_distinct(names))


def _test_link(field: Field) -> str:
    """Return the name of a test, which leads to its text."""
    return f"[`{field.path}::{field.symbol}`](ledger_tests.md#{_anchor(field)})"


def _anchor(field: Field) -> str:
    return re.sub(r"\W+", "-", f"{field.path.removeprefix('tests/').removesuffix('.py')}-{field.symbol}")


def main(arguments: list[str]) -> int:
    """Print the page, or write it, and the page of the tests that it leads to."""
    ledger = Ledger.of_the_sources()
    status = page_command(ledger, PAGE, arguments)
    if status == 0 and arguments == ["--write"]:
        TESTS_PAGE.write_text(ledger.tests_page(), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
