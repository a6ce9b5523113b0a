"""``substrate map``: a picture or a page of the rows of a table in the plane of two kernel principal components."""

import argparse
import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from problems.tables.inputs import fill_inputs, raw_matrix
from problems.tables.models import kernel_of
from problems.tables.number_format import number
from problems.tables.preparation import refuse_overflow, standardise
from problems.tables.table import read_table
from problems.tables.treatment import ColumnOptions, treat_inputs
from substrate.arrays import Array
from substrate.certificates import Certificate
from substrate.errors import DataError

if TYPE_CHECKING:
    from problems.command_line.report.components_page import DrawnComponents

__all__ = ["Map", "make_map", "refuse_picture"]

#: What can be written, by the end of its name: pictures, and a page with the picture and the certificate.
_PICTURES, _PAGE = (".png", ".svg", ".pdf"), ".html"
#: Numbers of a column that are groups rather than a scale.
_FEW = 10


@dataclass(frozen=True, slots=True)
class Map:
    """The picture or the page, its certificate, the scores with the rows that they belong to, and remarks."""

    picture: bytes
    certificate: Certificate
    scores: Array
    rows: tuple[int, ...]
    labels: Any
    remarks: tuple[str, ...]

    def csv(self) -> str:
        """Return the scores as a table: the number of a row, from one, its scores, and its cluster if there are any."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [f"component_{k + 1}" for k in range(self.scores.shape[1])]
        writer.writerow(["row", *names, *([] if self.labels is None else ["cluster"])])
        for place, row in enumerate(self.rows):
            cells = [repr(float(score)) for score in self.scores[place]]
            writer.writerow([row + 1, *cells, *([] if self.labels is None else [int(self.labels[place])])])
        return out.getvalue()


def refuse_picture(path: str) -> None:
    """Refuse, before any work, a picture of a kind that cannot be written."""
    if Path(path).suffix.lower() not in (*_PICTURES, _PAGE):
        raise DataError(f"--out must end with {', '.join(_PICTURES)} or {_PAGE}; received {path}")


def make_map(options: argparse.Namespace) -> Map:
    """Return the map of the arguments of the command."""
    from problems import KernelSpectralClustering, LSSVMKernelPCA
    from problems.command_line.report.components_page import DrawnComponents, components_page
    from problems.displays.canvas import pyplot

    pyplot()  # before any work, where there is none to draw with
    table = read_table(options.data, options.delimiter, options.decimal, options.thousands).drop_columns(options.drop)
    columns = ColumnOptions(
        target=options.color or "", one_hot=options.one_hot, dates=options.date, ids=options.id, impute=options.impute
    )
    treated = treat_inputs(table, columns)
    inputs = treated.inputs
    if options.impute == "median":
        inputs = fill_inputs(inputs, treated.table, range(treated.table.n_rows))
    X = raw_matrix(inputs, treated.table)
    for name, values in zip((name for input_ in inputs for name in input_.features), X.T, strict=True):
        refuse_overflow(name, values, treated.rows)
    if not options.no_standardise:
        scaled = [input_ for input_ in standardise(inputs, X) for _ in input_.features]
        X = (X - [input_.center for input_ in scaled]) / [input_.scale for input_ in scaled]
    if X.shape[0] < 3:
        raise DataError(f"a map needs at least three rows, {table.source} leaves {X.shape[0]}")
    kernel = kernel_of(options.kernel, options.sigma)
    model = LSSVMKernelPCA(kernel, 2).fit(X)
    labels, name, certificate = None, options.color or "", model.certificate_
    groups = None if options.color is None else _groups(treated.table.column(options.color))
    if options.clusters is not None:
        clustering = KernelSpectralClustering(model.kernel_, options.clusters).fit(X)
        labels, certificate = clustering.labels_, certificate.extended(*clustering.certificate_.rows)
        groups, name = (np.array([f"{label + 1}" for label in labels]), "cluster") if groups is None else (groups, name)
    shown = DrawnComponents(
        title=f"{Path(table.source).name}: {X.shape[0]} rows, {len(inputs)} columns",
        model=model,
        X=X,
        groups=groups,
        name=name,
        labels=labels,
        certificate=certificate,
        inputs=[name for input_ in inputs for name in input_.features],
        remarks=treated.remarks,
    )
    suffix = Path(options.out).suffix.lower()
    return Map(
        picture=components_page(shown).encode() if suffix == _PAGE else _picture(shown, suffix[1:]),
        certificate=certificate,
        scores=np.asarray(model.transform(X)),
        rows=treated.rows,
        labels=labels,
        remarks=treated.remarks,
    )


def _picture(shown: "DrawnComponents", kind: str) -> bytes:
    """Return the map as an image."""
    from problems.displays import ComponentMapDisplay
    from problems.displays.canvas import pyplot

    drawn = ComponentMapDisplay.from_estimator(shown.model, shown.X, groups=shown.groups, name=shown.name)
    drawn.ax_.set_title(shown.title)
    picture = io.BytesIO()
    drawn.figure_.savefig(picture, format=kind, dpi=150)
    pyplot().close(drawn.figure_)
    return picture.getvalue()


def _groups(cells: Any) -> Any:
    """Return numbers where all cells are and there are many, and otherwise the cells as labels."""
    numbers = [number(cell) for cell in cells]
    if None in numbers or len(set(numbers)) <= _FEW:
        return np.array([cell or "(missing)" for cell in cells])
    return np.array(numbers, dtype=np.float64)
