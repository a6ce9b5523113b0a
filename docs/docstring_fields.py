"""Fields of docstrings, read from the sources without running them.

A field is on a separate line at the end of a docstring and may continue on indented lines, as in reStructuredText:
``:equation [Pelckmans2005]_ (16): the sparse substrate``, or ``:place [Suykens2002]_ Algorithm 1: weights from errors``
for what has no number. In the package such a field states what implements an equation, in a test what checks it, in a
demonstration of :mod:`errata` what is wrong with it.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Field", "fields_of", "fields_under", "walk_docstrings"]

ROOT = Path(__file__).resolve().parents[1]

_FIELD = re.compile(r"^:(\w+)(?: \[(\w+)\]_ ([^:]+))?:(?: (.*))?$")
_Owner = ast.Module | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its kind, the paper and the place there (empty where none is named), its text, and its symbol."""

    kind: str
    key: str
    where: str
    text: str
    path: str
    symbol: str

    @property
    def dotted_name(self) -> str:
        """Return the symbol with its module, as it is imported."""
        names = self.path.removesuffix(".py").removesuffix("/__init__").split("/")
        return ".".join([*names, *([self.symbol] if self.symbol else [])])


def fields_of(docstring: str, path: str = "", symbol: str = "") -> list[Field]:
    """Return the fields of one docstring, continuation lines joined."""
    fields: list[Field] = []
    inside = False
    for line in inspect.cleandoc(docstring).splitlines():
        if match := _FIELD.match(line):
            kind, key, where, text = (group or "" for group in match.groups())
            fields.append(Field(kind, key, where, text, path, symbol))
            inside = True
        elif inside and line.startswith(" "):
            last = fields[-1]
            fields[-1] = Field(last.kind, last.key, last.where, f"{last.text} {line.strip()}", path, symbol)
        else:
            inside = False
    return fields


def walk_docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield every docstring of a file with the name of what it documents; the module's own has the empty name."""

    def walk(node: _Owner, name: str) -> Iterator[tuple[str, str]]:
        if text := ast.get_docstring(node, clean=False):
            yield name, text
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                yield from walk(child, f"{name}.{child.name}" if name else child.name)

    return walk(tree, "")


def fields_under(*folders: str, root: Path = ROOT) -> list[Field]:
    """Return the fields of every Python file below these folders, in the order of files and lines."""
    fields = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
            name = path.relative_to(root).as_posix()
            fields += [field for symbol, text in walk_docstrings(tree) for field in fields_of(text, name, symbol)]
    return fields
