"""``python docs/errata.py [number ...]``: run the demonstrations of the errata; ``--write`` writes the page.

An erratum is a function of :mod:`demonstrations` whose docstring states where it is (fields ``:equation`` and
``:place``, with what is printed there) and what holds (``:holds:``), and which computes both. Misprints, and figures
that only a benchmark can show, are listed in the docstring of the file.
"""

import ast
import importlib
import sys
from dataclasses import dataclass

from docstring_fields import ROOT, Field, fields_of, walk_docstrings

__all__ = [
    "DEMONSTRATIONS_PAGE",
    "FILES",
    "PAGE",
    "Erratum",
    "demonstrations_page",
    "entries",
    "main",
    "page",
    "remarks",
]

PAGE = ROOT / "docs" / "errata.md"
DEMONSTRATIONS_PAGE = ROOT / "docs" / "demonstrations.md"
#: In the order of the papers on the ledger.
FILES = ("cawley2002", "carvalho2006", "pelckmans2005", "pelckmans2005_structure", "cawley2004", "suykens2002")

_HEAD = """# Errata of the source papers

Errors found by implementing every equation, each with a demonstration that computes the printed and the correct
statement: `python docs/errata.py` runs all of them and shows both numbers, `python docs/errata.py 18` runs erratum 18.
A test runs them too. This page is made by `python docs/errata.py --write` from `docs/demonstrations/`.
Our objective is $\\tfrac12 w^\\top w + \\tfrac{\\gamma}{2}\\sum_i e_i^2$; [conventions](conventions.md)
lists the objectives of the papers.
"""


_DEMONSTRATIONS = """# Demonstrations of the errata

The functions that show the [errata](errata.md), from `docs/demonstrations/`: each returns one measure of the
printed and of the correct statement. Made by `python docs/errata.py --write`.
"""


@dataclass(frozen=True, slots=True)
class Erratum:
    """One entry: its number, its line, where it is with what is printed there, what holds, and the function."""

    number: int
    title: str
    places: tuple[Field, ...]
    holds: str
    module: str
    function: str

    def run(self):
        """Run the demonstration."""
        return getattr(importlib.import_module(f"demonstrations.{self.module}"), self.function)()


def _docstrings(name: str) -> list[tuple[str, str]]:
    path = ROOT / "docs" / "demonstrations" / f"{name}.py"
    return list(walk_docstrings(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def entries() -> list[Erratum]:
    """Return all errata that can be computed, in the order of papers and files."""
    errata: list[Erratum] = []
    for module in FILES:
        for function, text in _docstrings(module):
            fields = fields_of(text, f"docs/demonstrations/{module}.py", function)
            places = tuple(field for field in fields if field.kind in ("equation", "place"))
            if function and places:
                holds = "; ".join(field.text for field in fields if field.kind == "holds")
                errata.append(Erratum(len(errata) + 1, text.splitlines()[0], places, holds, module, function))
    return errata


def remarks(kind: str) -> list[Field]:
    """Return the fields of one kind in the docstrings of the files: ``typography`` or ``benchmark``."""
    return [field for module in FILES for field in fields_of(_docstrings(module)[0][1], module) if field.kind == kind]


def page() -> str:
    """Return the page as Markdown: a heading per paper, and under it what is printed and what holds."""
    lines, paper = [_HEAD], ""
    for entry in entries():
        if entry.places[0].key != paper:
            paper = entry.places[0].key
            lines += [f"## [{paper}]", ""]
        where = "; ".join(place.where for place in entry.places)
        printed = "; ".join(place.text for place in entry.places)
        lines += [
            f'<a id="erratum-{entry.number}"></a>',
            "",
            f"### {entry.number}. {where[0].upper()}{where[1:]}. {entry.title.removesuffix('.')}",
            "",
            f"- **Printed:** {printed}",
            f"- **What holds:** {entry.holds}",
            f"- **Shown by** [`{entry.function}`](demonstrations.md#demonstration-{entry.number})",
            "",
        ]
    for kind, title in (("typography", "Misprints"), ("benchmark", "Figures that do not reproduce")):
        lines += [f"## {title}", "", "| paper | where | what |", "|---|---|---|"]
        lines += [*(f"| [{field.key}] | {field.where} | {field.text} |" for field in remarks(kind)), ""]
    return "\n".join(lines)


def demonstrations_page() -> str:
    """Return the page of the programs that show the errata."""
    lines = [_DEMONSTRATIONS]
    for entry in entries():
        lines += [
            f'<a id="demonstration-{entry.number}"></a>',
            "",
            f"## {entry.number}. {entry.title.removesuffix('.')}",
            "",
            f"`docs/demonstrations/{entry.module}.py`, [erratum {entry.number}](errata.md#erratum-{entry.number}).",
            "",
            f"```{{literalinclude}} demonstrations/{entry.module}.py",
            f":pyobject: {entry.function}",
            "```",
            "",
        ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write the page, or run the demonstrations asked for; the status is 1 if one of them shows nothing."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        DEMONSTRATIONS_PAGE.write_text(demonstrations_page(), encoding="utf-8")
        return 0
    errata = entries()
    if not all(argument.isdecimal() and 1 <= int(argument) <= len(errata) for argument in arguments):
        print(f"usage: python docs/errata.py [--write | numbers from 1 to {len(errata)}]", file=sys.stderr)
        return 2
    numbers = {int(argument) for argument in arguments} or {entry.number for entry in errata}
    faults = 0
    for entry in errata:
        if entry.number in numbers:
            shown = entry.run()
            where = ", ".join(f"[{place.key}] {place.where}" for place in entry.places)
            print(f"{entry.number:2d}. {where}. {entry.title}\n    {shown.measure}:")
            remark = "" if shown.is_demonstrated else "  NOT DEMONSTRATED"
            print(f"    printed {shown.printed:.3g}, corrected {shown.holds:.3g}, limit {shown.limit:.3g}{remark}")
            faults += not shown.is_demonstrated
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
