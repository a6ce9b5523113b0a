"""The embedded data sets as tables: ``substrate datasets`` lists them, or writes one of them as CSV."""

import csv
import io
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from substrate import datasets
from substrate.errors import DataError

__all__ = ["as_csv", "dataset_columns", "listing", "target_of"]

#: Seed of the sets that are drawn, so that a name means one table.
_SEED = 0


def _bunch(name: str) -> Any:
    if name not in datasets.__all__:
        raise DataError(f"there is no data set {name!r}; the data sets are {', '.join(datasets.__all__)}")
    function: Callable[..., Any] = getattr(datasets, name)
    drawn = {"random_state": _SEED} if "random_state" in signature(function).parameters else {}
    return function(**drawn)


def dataset_columns(name: str) -> dict[str, list[Any]]:
    """Return the columns of a data set by name, the target last; drawn sets with a fixed seed."""
    bunch = _bunch(name)
    columns = [*np.asarray(bunch.data, dtype=np.float64).T.tolist(), bunch.target.tolist()]
    return dict(zip([*bunch.feature_names, bunch.target_name], columns, strict=True))


def target_of(name: str) -> tuple[str, str]:
    """Return the target column of a data set, and the task: regression or classification."""
    bunch = _bunch(name)
    return str(bunch.target_name), "classification" if len(bunch.target_names) > 1 else "regression"


def as_csv(name: str) -> str:
    """Return a data set as the text of a CSV file."""
    columns, stream = dataset_columns(name), io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
    return stream.getvalue()


def listing() -> str:
    """Return one line per data set: name, size, task, target, and what it is."""
    head = ("name", "rows", "inputs", "task", "target", "what it is")
    cells = [head]
    for name in datasets.__all__:
        bunch = _bunch(name)
        classes = len(bunch.target_names)
        task = "regression" if classes == 1 else f"{classes} classes"
        what = bunch.DESCR.partition("\n")[0]
        cells.append((name, *map(str, bunch.data.shape), task, bunch.target_name, what))
    widths = [max(len(row[j]) for row in cells) for j in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "-" * max(map(len, lines)))
    lines += ["", "Fit one:       substrate fit @motorcycle --out model.npz --report report.html"]
    lines += ["Write one out: substrate datasets motorcycle --out motorcycle.csv"]
    return "\n".join(lines)
