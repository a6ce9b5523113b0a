"""Predictions of a table as a table, with their intervals, sets and probabilities, and what these guarantee.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break for a formula, and a
formula may start programs or send data; OWASP calls this CSV injection. Labels come from outside, so such a label is
written with an apostrophe before it, which marks text in spreadsheets. Numbers are unchanged. So that different labels
stay different, one that has apostrophes before such a character gets another; a program that reads the labels back
removes one.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from problems.estimators.shared.guarantees import Guarantee
from problems.tables.table import Table
from substrate.arrays import Array
from substrate.errors import DataError, SubstrateError
from substrate.intervals.conformal import exact_level, gaussian_ends

__all__ = [
    "csv_text",
    "guarantee_in_words",
    "interval_ends",
    "interval_guarantee",
    "make_intervals",
    "predictions_csv",
    "safe_cells",
]

#: The last four are the full-width forms, which some spreadsheets read like the first.
_FORMULA = re.compile("'*[=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)
_STANDARDISED = "the inputs were standardised by these rows"
#: A machine that was fitted again does not know where its kernel and gamma come from.
_REFITTED = "the kernel or gamma was chosen by some of these rows"
#: More decimals come from a program, and say nothing about the precision of a target.
_MOST_DECIMALS = 12
#: Why error bars of a Gaussian process are right, where they are.
_PROCESS = "the targets are a Gaussian process with this kernel, gamma and normal noise"


def _method(machine: Any, method: str) -> str:
    """Return the given method; "auto" is "split" if rows were held out, else the machine's own "auto", or "gaussian"
    for a machine that does not keep its rows.
    """
    if method != "auto":
        return method
    if hasattr(machine, "calibration_scores_"):
        return "split"
    default: str = machine.interval_guarantee(0.9, "auto").method
    if default != "split" and not hasattr(machine, "basis_indices_"):
        return default
    if hasattr(machine, "basis_indices_"):
        return "gaussian"
    raise DataError(
        f"this {type(machine).__name__} has no errors of rows that it was not fitted to; fit with refit=False, which "
        "keeps the errors of the held-out rows"
    )


def interval_ends(machine: Any, X: Array, coverage: float, method: str = "auto") -> Array:
    """Return the ends of intervals at prepared rows."""
    chosen = _method(machine, method)
    if chosen == "gaussian":
        fitted, deviations = machine.predict(X, return_std=True)
        return gaussian_ends(np.asarray(fitted), np.asarray(deviations), coverage)
    return np.asarray(machine.predict_interval(X, coverage, chosen))


def interval_guarantee(model: Any, coverage: float, method: str = "auto") -> Guarantee:
    """Return what intervals of a tabular model guarantee, and how the preparation of the table weakens it.

    Nothing was chosen on the held-out rows; folds that repeat the search account for the choice of kernel and gamma.
    """
    chosen = _method(model.estimator_, method)
    if chosen == "gaussian":
        return Guarantee(chosen, float(exact_level(coverage)), None, (_PROCESS,))
    guarantee: Guarantee = model.estimator_.interval_guarantee(coverage, chosen)
    broken = [*guarantee.broken]
    if model.preparation_.refitted and chosen not in ("split", "nested", "adaptive"):
        broken.append(_REFITTED)
    if model.standardize and chosen != "split":
        broken.append(_STANDARDISED)
    return replace(guarantee, broken=(*broken, *_depend_by(model)))


def _depend_by(model: Any) -> tuple[str, ...]:
    """Return the reasons why rows depend on each other and are not exchangeable, whichever are left out."""
    by_group = (f"rows of one {model.group} depend on each other",) if model.group else ()
    return (*by_group, "rows depend on earlier rows") if model.is_in_time else by_group


def guarantee_in_words(model: Any, coverage: float, *, adaptive: bool = False) -> str:
    """Return in one sentence which share of new rows the intervals, or the sets of labels, hold."""
    if hasattr(model, "classes_"):
        name, guarantee = "sets of labels", model.estimator_.set_guarantee(coverage)
    else:
        guarantee = interval_guarantee(model, coverage, "adaptive" if adaptive else "auto")
        name = f"intervals by method {guarantee.method}"
    share = f"at least {guarantee.level:.4g}" if guarantee.holds else f"about {guarantee.coverage:.4g}"
    wanted = "these are like the rows of the fit" if guarantee.level is not None else " and ".join(guarantee.conditions)
    broken = f"; approximate, since {'; '.join(guarantee.broken)}" if guarantee.broken else ""
    can_be_exact = broken and model.preparation_.refitted and not (hasattr(model, "classes_") or _depend_by(model))
    exact = "; a fit with refit=False keeps intervals from the held-out rows, which are exact" if can_be_exact else ""
    return f"{name} cover {share} of new rows, if {wanted}{broken}{exact}"


def predictions_csv(
    model: Any,
    table: Table,
    coverage: float | None = None,
    proba: bool = False,
    id: Sequence[str] | None = None,
    adaptive: bool = False,
) -> str:
    """Return the text of a CSV: a column ``prediction``, and for classes also the outputs of the machine.

    Before them come the columns ``id`` of the table, by default the ``id`` of the model, which name its rows. With a
    ``coverage``, numbers are followed by the ends of their intervals, ``lower`` and ``upper``, which are wide where
    errors are large if ``adaptive``, and classes a column ``set_CLASS`` each; with ``proba`` classes have a column
    ``probability_CLASS`` each. Two classes have one output, ``decision``, positive for the second class; more have one
    each, ``decision_CLASS``.
    """
    names = model.id if id is None else id
    if lacking := [name for name in names if name not in table.columns]:
        raise DataError(
            f"{table.source} has no column {lacking[0]!r}, which names the rows of this model's tables; give id=... "
            "for another, or id=[] for none"
        )
    named: dict[str, Any] = {name: np.array(table.column(name)) for name in names}
    columns = {
        name: _rounded(values, model.preparation_.decimals)
        for name, values in _prediction_columns(
            model.estimator_, model.matrix(table), coverage, proba, adaptive
        ).items()
    }
    if twice := [name for name in named if name in columns]:
        raise DataError(f"the id column {twice[0]!r} has the name of a column of predictions; rename it in the table")
    return csv_text({**named, **columns})


def _prediction_columns(
    machine: Any, X: Array, coverage: float | None, proba: bool, adaptive: bool
) -> dict[str, Array]:
    predicted = np.asarray(machine.predict(X))
    columns = _numbered("prediction", predicted)
    if not hasattr(machine, "classes_"):
        if proba:
            raise DataError(
                "proba=True gives probabilities of classes, and this model predicts numbers; use coverage=..."
            )
        if coverage is not None:
            exact_level(coverage, "coverage")
            ends = interval_ends(machine, X, coverage, "adaptive" if adaptive else "auto")
            columns |= _numbered("lower", ends[..., 0]) | _numbered("upper", ends[..., 1])
        return columns
    decision = np.asarray(machine.decision_function(X))
    of_classes = {"decision": decision} if decision.ndim > 1 else {}
    columns |= {} if of_classes else {"decision": decision}
    if proba:
        of_classes["probability"] = np.asarray(machine.predict_proba(X))
    if coverage is not None:
        if adaptive:
            raise DataError("adaptive=True is for intervals of numbers, and this model predicts classes; leave it out")
        of_classes["set"] = np.asarray(machine.predict_set(X, exact_level(coverage, "coverage"))).astype(np.intp)
    return columns | {
        f"{name}_{label}": values[:, k]
        for name, values in of_classes.items()
        for k, label in enumerate(machine.classes_)
    }


def _rounded(values: Array, decimals: int | None) -> Array:
    """Return numbers with one decimal more than the targets have, where these have few; leave labels unchanged."""
    if values.dtype.kind != "f" or decimals is None or decimals > _MOST_DECIMALS:
        return values
    return np.round(values, decimals + 1) + 0.0  # no minus zero


def _numbered(name: str, values: Array) -> dict[str, Array]:
    """Return a column, or of several outputs one column each."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{number}": values[:, number] for number in range(values.shape[1])}


def csv_text(columns: Mapping[str, Any]) -> str:
    """Return columns of values as CSV, with text made safe for a spreadsheet."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(safe_cells(columns))
    writer.writerows(zip(*(safe_cells(np.asarray(column).tolist()) for column in columns.values()), strict=True))
    return stream.getvalue()


def safe_cells(values: Iterable[Any]) -> list[Any]:
    """Return values of any kind, with text made safe for a spreadsheet."""
    is_formula = _FORMULA.match
    return [
        f"'{value}" if isinstance(value, str) and is_formula(value) and not _NUMBER.match(value) else value
        for value in values
    ]


def make_intervals(machine: Any, X: Array) -> None:
    """Make the machines of nested intervals, where these are the default, or the calibration of a classifier, so that a
    file holds what intervals and probabilities need.
    """
    try:
        if hasattr(machine, "classes_"):
            _ = machine.calibration_scores_
        elif _method(machine, "auto") == "nested":
            machine.predict_interval(X, 0.9)
    except SubstrateError:  # too few rows, for instance: a file without them predicts
        return
