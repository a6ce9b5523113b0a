"""The last lines of ``substrate fit``: how good the model is, then what was chosen, in at most fifteen lines.

A line is wrapped where standard output is a terminal; a file or a pipe has one line for each statement.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from problems.command_line.words import in_shell
from problems.tables.quality import Quality, importance_shares, important
from substrate.errors import SubstrateError

__all__ = ["describe_file", "said", "summary"]

#: Lines about the table, and inputs that are named as those that matter.
_MOST_REMARKS, _MOST_INPUTS = 5, 5
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def said(lines: Iterable[str]) -> str:
    """Return lines without control characters; on a terminal wrapped, with continuation lines indented."""
    lines = [_CONTROL.sub("?", line) for line in lines]  # names of columns can hold any
    if not sys.stdout.isatty():
        return "\n".join(lines)
    width = max(shutil.get_terminal_size().columns, 40)
    options: dict[str, Any] = {"subsequent_indent": "    ", "break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, width, **options) if len(line) > width else line for line in lines)


def summary(model: Any, why: str, importances: Any, *, verbose: bool = False, report: str | None = None) -> list[str]:
    """Return the lines; ``verbose`` adds all remarks and the rows of the certificates."""
    quality, remarks = model.quality_, [in_shell(remark) for remark in (why, *model.remarks_[1:])]
    lines = [f"NOT GOOD: this model is {quality.worse_than}; do not predict with it"] if quality.worse_than else []
    if len(remarks) > _MOST_REMARKS and not verbose:
        more = len(remarks) - _MOST_REMARKS + 1
        remarks = [*remarks[: _MOST_REMARKS - 1], f"and {more} more remarks on the table (--verbose, or the report)"]
    lines += [*remarks, *_quality(quality)]
    lines += [*_matter(model, importances), model.judged_.search.describe(model.judged_.machine)]
    if verbose:
        lines += ["", *str(model.judged_.machine.certificate_).splitlines()]
        if model.estimator_ is not model.judged_.machine:
            lines += ["", "fitted again to all rows:", *str(model.estimator_.certificate_).splitlines()]
    if report is not None:
        lines.append(f"report: {report}")
    return lines


def _quality(quality: Quality) -> list[str]:
    rows = quality.rows.replace("rows", "row") if quality.n_rows == 1 else quality.rows
    cells = [(f"on {quality.n_rows} {rows}", "this model", quality.baseline)]
    for measure in quality.measures:
        cells.append((f"  {measure.name}", measure.show(measure.value), measure.show(measure.baseline)))
    widths = [max(len(row[k]) for row in cells) for k in range(3)]
    lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in cells]
    return [*lines, f"  ({quality.caveat})"] if quality.caveat else lines


def _matter(model: Any, importances: Any) -> list[str]:
    """Return the inputs whose values matter most to errors of left-out rows, where the machine can tell."""
    if importances is None:
        return []
    order = important(importances)[:_MOST_INPUTS]
    if not order:
        return ["inputs that matter: none; shuffling the values of an input changes no error"]
    inputs, (shares, _) = model.preparation_.inputs, importance_shares(importances)
    listed = ", ".join(f"{inputs[k].name} ({shares[k]:.0%})" for k in order)
    return [f"inputs that matter: {listed} (share of the error that shuffling adds)"]


def describe_file(model: Any, out: str | None) -> str:
    """Return the line about the file of the model, once it is written."""
    judged, total = model.judged_, model.judged_.y.size + model.judged_.y_val.size
    if out is None:
        return "not saved: give --out model.npz to keep the model, --report report.html for a page about it"
    line = f"saved: {out}, fitted again to all {total} rows"
    if model.estimator_ is judged.machine:
        line = f"saved: {out}, the model of {'the' if judged.y_val.size else 'all'} {judged.y.size} rows that train"
        if model.refit and judged.y_val.size:
            line = f"{line}, since the certificate of the one fitted again to all rows does not hold"
    if not hasattr(model, "interval_guarantee"):
        return line
    try:
        guarantee = model.interval_guarantee(0.9)
    except SubstrateError:  # there are no left-out errors
        return line
    about = "at least 90" if guarantee.holds else "about 90"
    return f"{line}; its intervals for --coverage 0.9 cover {about} % of new rows, if they are like these"
