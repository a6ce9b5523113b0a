"""The format of the numbers of a column: decimal mark, thousands separators, and a percent or currency sign.

``1,777`` is 1777 where the comma separates thousands, and 1.777 where it is decimal. What a column means is decided by
all of its cells: a format belongs to it if every cell is a number in that format. Where two formats give different
numbers the column is ambiguous, and nothing is chosen unless another column of the table, or the user, decides it; a
single cell such as ``1,777.5``, ``2.095,13``, ``1,234,567`` or ``0,5`` is enough to leave one format only.

A percent or currency sign is a unit, and so are letters behind a number, as in ``9 kg``: it belongs to all cells of a
column (a zero may lack it), and to the cells of that column in every table that the model predicts. The number is the
one that is written: ``5%`` is 5.

Integers with leading zeros, such as ``007``, are codes: ``01`` and ``1`` are two of them, and no arithmetic is meant.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from substrate.errors import DataError
from substrate.files import stored

__all__ = [
    "PLAIN",
    "NumberFormat",
    "column_format",
    "decides",
    "is_code",
    "is_mixed",
    "is_number_like",
    "number",
    "numbers_of",
    "readings",
    "two_readings",
]

#: Spaces between groups of digits: plain, no-break, figure, thin and narrow no-break; and apostrophes.
_SPACES, _APOSTROPHES = " \u00a0\u2007\u2009\u202f", "'\u2019"
_GROUPS = {",": ",", ".": r"\.", " ": f"[{_SPACES}]", "'": f"[{_APOSTROPHES}]"}
_CURRENCY = "$\u00a2-\u00a5\u058f\u060b\u0e3f\u17db\u20a0-\u20cf\ufdfc\ufe69\uff04\uffe0\uffe1\uffe5\uffe6"
#: Codes of currencies that are written before a number; other letters there are part of a name or a code.
_CURRENCY_CODES = "AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|SGD|TRY|USD|ZAR"
_LETTERS = r"°?[^\W\d_][\w/²³]{0,9}"
#: A number with a sign before or behind it; the digits and their marks are looked at afterwards.
_CELL = re.compile(
    rf"(?P<minus>[-+\u2212]?)\s*(?P<before>[A-Z]{{0,3}}[{_CURRENCY}]|{_CURRENCY_CODES})?\s*(?P<inner>[-+\u2212]?)"
    rf"(?P<digits>[\d.,{_SPACES}{_APOSTROPHES}]*(?:[eE][-+]?\d+)?)\s*(?P<after>%|[{_CURRENCY}]|{_LETTERS})?"
)


def number(cell: str) -> float | None:
    """Return the finite number in a cell that is written with a decimal point and nothing else, or None."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") and "_" not in cell else None


def numbers_of(cells: Sequence[str]) -> list[float] | None:
    """Return the finite numbers in all cells, or None where one is not written in plain."""
    try:
        values = list(map(float, cells))
    except ValueError:
        return None
    return values if all(map(math.isfinite, values)) and not any("_" in cell for cell in cells) else None


def is_code(cells: Sequence[str]) -> bool:
    """Return whether the cells are codes and not numbers: all are digits, and some begin with a zero, as 007 does."""
    texts = [cell.strip() for cell in cells]
    digits = all(text.isascii() and text.isdecimal() for text in texts)
    return digits and any(len(text) > 1 and text.startswith("0") for text in texts)


@cache
def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Match digits without a sign: in groups of three, and of two for the Indian use of commas, or without groups."""
    point = re.escape(decimal)
    if not thousands:
        return re.compile(rf"(?:\d+(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?", re.ASCII)
    mark = _GROUPS[thousands]
    groups = rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|\d+"
    if thousands == ",":
        groups = rf"[1-9]\d?(?:,\d{{2}})+,\d{{3}}|{groups}"
    return re.compile(rf"(?:{groups})(?:{point}\d*)?|{point}\d+", re.ASCII)


@stored
@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A decimal mark, the mark between thousands (none, a comma, a point, a space or an apostrophe), and a unit."""

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        conditions = (self.decimal in (".", ","), self.thousands in ("", *_GROUPS), self.thousands != self.decimal)
        if not all(conditions) or len(self.unit) > 12 or not self.unit.isprintable():
            raise ValueError(f"numbers are not written with {self.decimal!r}, {self.thousands!r} and {self.unit!r}")

    def plain(self, cell: str) -> str | None:
        """Return the cell with a decimal point and nothing else, or None where it is no number in this format."""
        if self == PLAIN:
            return cell if number(cell) is not None else None
        match = _CELL.fullmatch(cell.strip())
        if match is None or (match["minus"] and match["inner"]) or (match["before"] and match["after"]):
            return None
        digits = match["digits"].strip()
        if not _pattern(self.decimal, self.thousands).fullmatch(digits):
            return None
        for mark in _SPACES if self.thousands == " " else _APOSTROPHES if self.thousands == "'" else self.thousands:
            digits = digits.replace(mark, "")
        digits = digits.replace(self.decimal, ".")
        value = number(digits)
        unit = match["before"] or match["after"] or ""
        if value is None or (unit != self.unit and (unit or value != 0.0)):
            return None
        sign = "-" if (match["minus"] or match["inner"]) in ("-", "\u2212") else ""
        return f"{sign}{digits}"

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, or None."""
        text = self.plain(cell)
        return None if text is None else number(text)

    def in_words(self) -> str:
        """Return what is unusual about the format, for a remark."""
        words = [
            "decimal comma" if self.decimal == "," else "",
            f"thousands by {_MARK_WORDS[self.thousands]}" if self.thousands else "",
            "percent" if self.unit == "%" else f"in {self.unit}" if self.unit else "",
        ]
        return ", ".join(word for word in words if word)


PLAIN = NumberFormat()
_MARK_WORDS = {",": "commas", ".": "points", " ": "spaces", "'": "apostrophes"}
#: All formats without their units, the simplest first.
_FORMATS = tuple(
    NumberFormat(decimal, thousands)
    for decimal in (".", ",")
    for thousands in ("", ",", ".", " ", "'")
    if thousands != decimal
)


def readings(
    cells: Sequence[str], decimal: str | None = None, thousands: str | None = None
) -> list[tuple[NumberFormat, list[str]]]:
    """Return the formats in which all cells are numbers, and these numbers as plain cells.

    One format stands for all that give the same numbers. Where ``decimal`` or ``thousands`` is stated, formats with
    another mark are left out.
    """
    is_plain = numbers_of(cells) is not None
    units = set() if is_plain else {unit for cell in dict.fromkeys(cells) if (unit := _unit(cell))}
    if len(units) > 1 or not cells:
        return []
    if is_plain and decimal in (None, ".") and thousands != ".":
        grouped = None
        if decimal is None and thousands is None and any("." in cell for cell in cells):
            grouped = _plain_cells(NumberFormat(",", "."), cells)
        plain_reading = [(PLAIN, list(cells))]
        if grouped is not None:
            plain_reading.append((NumberFormat(",", "."), grouped))
        return plain_reading
    formats: list[tuple[NumberFormat, list[str], list[float]]] = []
    for form in _FORMATS:
        if decimal not in (None, form.decimal) or (thousands is not None and form.thousands not in ("", thousands)):
            continue
        if thousands == form.decimal:
            continue
        texts = _plain_cells(replace(form, unit=next(iter(units), "")), cells)
        if texts is None:
            continue
        values = [float(cell) for cell in texts]
        if not any(values == numbers for _, _, numbers in formats):
            formats.append((replace(form, unit=next(iter(units), "")), texts, values))
    return [(form, texts) for form, texts, _ in formats]


def _plain_cells(form: NumberFormat, cells: Sequence[str]) -> list[str] | None:
    """Return all cells in plain, or None as soon as one is no number."""
    texts = []
    for cell in cells:
        if (text := form.plain(cell)) is None:
            return None
        texts.append(text)
    return texts


def _unit(cell: str) -> str:
    match = _CELL.fullmatch(cell.strip())
    return "" if match is None or not match["digits"] else match["before"] or match["after"] or ""


def is_number_like(cell: str) -> bool:
    """Return whether a cell is a number in some format, and not a code such as 12B."""
    match = _CELL.fullmatch(cell.strip())
    is_code_like = match is not None and match["digits"][-1:].isdigit() and (match["after"] or "")[:1].isalpha()
    return not is_code_like and bool(readings([cell]))


def column_format(
    where: str,
    name: str,
    cells: Sequence[str],
    decimal: str | None = None,
    thousands: str | None = None,
    evident: Callable[[], Sequence[NumberFormat]] = tuple,
) -> NumberFormat | None:
    """Return how the values of a column are written; None where they are not numbers.

    Parameters
    ----------
    where : str
        The column in words, for messages.
    name : str
        Its name.
    cells : sequence of str
        Its values, none of them missing.
    decimal, thousands : str, optional
        The marks that the user states.
    evident : callable
        Returns the formats of the unambiguous columns of the table; called only if this column is ambiguous.

    Raises
    ------
    DataError
        If the numbers can be read in two ways, or only in a way that the user excluded, or are written in several ways.
    """
    every = readings(cells)
    candidates = every if decimal is None and thousands is None else readings(cells, decimal, thousands)
    if len(candidates) == 1:
        form, values = candidates[0][0], list(map(float, candidates[0][1]))
        # whole numbers without a mark are the same in every format
        alternatives = [alternative for alternative in every if list(map(float, alternative[1])) != values]
        if form.decimal == "," and thousands is None and alternatives and _is_trap(form, cells):
            raise DataError(f"{where} {two_readings(cells, [candidates[0], alternatives[0]])}")
        return form
    if len(candidates) > 1:
        chosen = _choose_format([form for form, _ in candidates], cells, evident())
        if chosen is None:
            raise DataError(f"{where} {two_readings(cells, candidates)}")
        return chosen
    if every:
        cell = next((cell for cell in cells if number(cell) is None), cells[0])
        point = next((cell for cell in cells if "." in cell), None)
        if decimal == "," and point is not None and every[0][0] == PLAIN:
            row = list(cells).index(point) + 1
            raise DataError(
                f"{where} has {point!r} in row {row}, and the decimal mark is the comma; give decimal='.' if it is the "
                "point here"
            )
        raise DataError(
            f"{where} has {cell!r}, which is not a number with the given decimal and thousands marks; leave these "
            f"marks out, write the column differently, or leave it out by drop={[name]}"
        )
    like = [is_number_like(cell) for cell in cells]
    if cells and all(like):
        first = cells[0]
        alternative = next((cell for cell in cells if not readings([first, cell])), cells[-1])
        raise DataError(
            f"{where} has {first!r} and {alternative!r}, numbers that are written in different ways; write all of them "
            f"in the same way, or leave the column out by drop={[name]}"
        )
    return None


def _is_trap(form: NumberFormat, cells: Sequence[str]) -> bool:
    """Return whether a comma that was stated to be decimal may separate thousands.

    Either points would separate thousands in a column that is a column of plain numbers too; or some numbers have
    exactly three decimals and the others none, as numbers with separated thousands do, and as no program writes
    decimals.
    """
    return form.thousands == "." or _find_unmarked(",", cells) is not None


def _find_unmarked(mark: str, cells: Sequence[str]) -> str | None:
    """Return the first number that has no such mark; zero decides nothing."""
    return next((cell for cell in cells if mark not in cell and cell.strip() != "0"), None)


def _choose_format(
    formats: Sequence[NumberFormat], cells: Sequence[str], evident: Sequence[NumberFormat]
) -> NumberFormat | None:
    """Return the format that the other columns imply; plain numbers stay numbers unless something contradicts."""
    decimal_commas = any(form.decimal == "," for form in evident)
    grouped = {form.thousands for form in evident}
    pointed = next((form for form in formats if form.decimal == "." and not form.thousands), None)
    if pointed is not None:
        if "." in grouped or decimal_commas:
            return next((form for form in formats if form.thousands == "."), None)
        return None if _find_unmarked(".", cells) is not None else pointed
    if decimal_commas != ("," in grouped):
        wanted = "," if decimal_commas else "."
        return next((form for form in formats if form.decimal == wanted), None)
    return None


def is_mixed(cells: Sequence[str], candidates: Sequence[tuple[NumberFormat, list[str]]]) -> bool:
    """Return whether some numbers of a column with two readings have the mark in question, and others do not."""
    return _find_unmarked(next(form.thousands for form, _ in candidates if form.thousands), cells) is not None


def decides(form: NumberFormat, cells: Sequence[str]) -> bool:
    """Return whether a column with a single format decides what the comma or the point means in its table."""
    return form.thousands in (",", ".") or (form.decimal == "," and any("," in cell for cell in cells))


def two_readings(cells: Sequence[str], candidates: Sequence[tuple[NumberFormat, list[str]]]) -> str:
    """Return the half sentence that shows both readings of a column, and what decides between them.

    Numbers with a mark among others without one are numbers with separated thousands, unless somebody wrote exactly
    three decimals or none: the advice never leads to such a reading.
    """
    (first_form, texts), (_, other_texts) = candidates[:2]
    grouped, decimals = (texts, other_texts) if first_form.thousands else (other_texts, texts)
    mark = next(form.thousands for form, _ in candidates[:2] if form.thousands)
    place = next(k for k in range(len(cells)) if float(texts[k]) != float(other_texts[k]))
    cell, large, small = cells[place], grouped[place], decimals[place]
    unmarked = _find_unmarked(mark, cells)
    neighbour = "" if unmarked is None else f" next to {unmarked!r}"
    word = "comma" if mark == "," else "point"
    said = f"has {cell!r}{neighbour}, where the {word} can be decimal or separate thousands"
    if mark == "," and unmarked is None:
        return f"{said}; give decimal=',' if it is {small}, or thousands=',' if it is {large}"
    # four decimals and a point are read in one way
    return f"{said}; give thousands={mark!r} if it is {large}; if it is {small}, write {float(small):.4f} in the file"
