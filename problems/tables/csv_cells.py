"""Text in the cells of a CSV file, written so that a spreadsheet shows it instead of evaluating it.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a formula, and a
formula may start programs or send data; OWASP calls this CSV injection. Labels come from outside, so such a label is
written with an apostrophe before it, which marks text in spreadsheets. Numbers are unchanged. So that different labels
stay different, one that has apostrophes before such a character gets another; a program that reads the labels back
removes one.
"""

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["csv_cells", "csv_row"]

#: The last four are the full-width forms, which some spreadsheets read like the first.
_FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


def csv_row(values: Iterable[Any]) -> list[Any]:
    """Return values of any kind, with text made safe for a spreadsheet; the header of a file is one such row."""
    return [_shorten(value) if isinstance(value, str) else value for value in values]


def csv_cells(column: Any) -> list[Any]:
    """Return the same for the values of an array."""
    values: list[Any] = column.tolist()
    return values if column.dtype.kind in "biuf" else csv_row(values)


def _shorten(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text
