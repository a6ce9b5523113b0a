"""``substrate map``: a picture of the rows of a table in the plane of two kernel principal components."""

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np

from problems.tables.columns import prepare, treat
from problems.tables.options import kernel_of
from problems.tables.table import number, read_table
from substrate.certificate import Certificate
from substrate.errors import DataError

__all__ = ["make_map", "refuse_picture"]

#: The formats of pictures, by the end of the file name.
_PICTURES = (".png", ".svg", ".pdf")
#: Numbers of a column that are groups rather than a scale.
_FEW = 10


def refuse_picture(path: str) -> None:
    """Refuse, before any work, a picture of a kind that cannot be written."""
    if Path(path).suffix.lower() not in _PICTURES:
        raise DataError(f"--out must end with {', '.join(_PICTURES)}; received {path}")


def make_map(options: argparse.Namespace) -> tuple[bytes, Certificate, tuple[str, ...]]:
    """Return the picture for the arguments of the command, its certificate, and remarks."""
    from problems import LSSVMKernelPCA
    from problems.displays import ComponentMapDisplay
    from problems.displays.canvas import pyplot

    plt = pyplot()  # before any work, if matplotlib is missing
    table = read_table(options.data, options.delimiter, options.decimal, options.thousands, options.encoding)
    labels = [] if options.color is None else [cell or "(missing)" for cell in table.column(options.color)]
    treated = treat(table if options.color is None else table.drop_columns([options.color]), options, "")
    used = treated.table
    inputs, X, _ = prepare(treated, range(used.n_rows), options)
    entries = [entry for entry in inputs for _ in entry.features]
    X = (X - [entry.center for entry in entries]) / [entry.scale for entry in entries]
    if X.shape[0] < 3:
        raise DataError(f"a map needs at least three rows, {table.source} leaves {X.shape[0]}")
    model = LSSVMKernelPCA(kernel_of(options.kernel, options.sigma), 2).fit(X)
    groups = _groups([labels[used.row(row)] for row in range(used.n_rows)]) if labels else None
    drawn = ComponentMapDisplay.from_estimator(model, X, groups=groups, name=options.color or "")
    drawn.ax_.set_title(f"{Path(table.source).name}: {X.shape[0]} rows, {len(inputs)} columns")
    picture = io.BytesIO()
    drawn.figure_.savefig(picture, format=Path(options.out).suffix.lower()[1:], dpi=150)
    plt.close(drawn.figure_)
    return picture.getvalue(), model.certificate_, treated.remarks


def _groups(cells: list[str]) -> Any:
    """Return numbers if all cells are numbers of many values, and otherwise the cells as labels."""
    numbers = [number(cell) for cell in cells]
    if None in numbers or len(set(numbers)) <= _FEW:
        return np.array(cells)
    return np.array(numbers, dtype=np.float64)
