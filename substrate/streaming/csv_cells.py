"""Text in the cells of a CSV file that a spreadsheet shows instead of evaluating.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a formula, and a
formula may start programs or send cells away; OWASP calls it CSV injection. A label is data from outside, so such a one
is written with an apostrophe before it, by which spreadsheets mean text. Numbers stay numbers. So that different labels
stay different, one that has apostrophes before such a character gets another; a program that reads the labels back
takes one away again.
"""

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["csv_cells", "csv_row"]

#: The last four are the full-width forms, which some spreadsheets read like the first.
_FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def csv_row(values: Iterable[Any]) -> list[Any]:
    """Values of any kind, text among them as a spreadsheet may see it; the header of a file is one such row."""
    return [_shown(value) if isinstance(value, str) else value for value in values]


def csv_cells(column: Any) -> list[Any]:
    """The values of an array, likewise."""
    values: list[Any] = column.tolist()
    return values if column.dtype.kind in "biuf" else csv_row(values)


def _shown(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text
