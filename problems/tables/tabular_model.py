"""A model with the preparation of its table: what ``substrate fit`` writes and ``substrate predict`` reads.

Predictions of a table are a table too.
"""

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import problems
from problems.estimators.shared.files import save
from problems.tables.class_columns import probability_columns
from problems.tables.csv_cells import csv_cells, csv_row
from problems.tables.inputs import Input, describe_imputation, describe_unknown, raw_matrix
from problems.tables.intervals import interval_columns, keep_intervals
from problems.tables.preparation import Preparation
from problems.tables.table import Table, named_columns, read_table
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["TabularModel", "predictions_csv", "refuse_absent_model"]


def refuse_absent_model(path: str | os.PathLike[str]) -> None:
    """Refuse the name of a model file that does not exist, with the command that writes one."""
    if not Path(path).exists():
        raise DataError(f"there is no model file {path}; substrate fit TABLE --target COLUMN --out {path} writes one")


@dataclass(frozen=True, slots=True)
class TabularModel:
    """An estimator, and how the columns of a table become its inputs (None: as they are, in their order)."""

    estimator: Any
    preparation: Preparation | None

    @classmethod
    def load(cls, path: str | os.PathLike[str], max_bytes: float | None = None) -> Self:
        """Read any model file of this package; those of ``substrate fit`` bring their preparation."""
        refuse_absent_model(path)
        return cls.of(*problems.load_with_notes(path, max_bytes), path)

    @classmethod
    def of(cls, estimator: Any, notes: dict[str, Any] | None, path: str | os.PathLike[str]) -> Self:
        """Return the contents of a file, if model and preparation agree."""
        if not estimator.__sklearn_is_fitted__():
            raise DataError(f"{path} holds a {type(estimator).__name__} that was never fitted")
        preparation = None if notes is None else Preparation.from_notes(notes)
        if preparation is not None and len(preparation.features) != estimator.n_features_in_:
            raise DataError(
                f"{path} prepares {len(preparation.features)} inputs for a model of {estimator.n_features_in_}"
            )
        return cls(estimator, preparation)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model and preparation to one file, which :func:`problems.load` reads too, without the latter.

        Where the search is to be repeated for intervals, that is done first: the file does not hold how it searched.
        """
        keep_intervals(self.estimator)
        notes = None if self.preparation is None else self.preparation.as_notes()
        save(self.estimator, path, notes, lambda estimator, notes: self.of(estimator, notes, path))

    def matrix(self, table: Table, unknown: str = "refuse") -> Array:
        """Return X for the rows of a table, found by the names of the columns where they are known.

        ``unknown`` says what is done about categories that training did not see: ``"refuse"`` or ``"ignore"``.
        """
        if self.preparation is not None:
            return self.preparation.matrix(table, unknown)
        names = self._plain_names(table)
        if len(names) != self.estimator.n_features_in_:
            raise DataError(
                f"the model takes {self.estimator.n_features_in_} inputs and does not know their names, "
                f"{table.source} has the columns {named_columns(names)}; leave the others out by --drop"
            )
        return raw_matrix([Input(name) for name in names], table)

    def remarks(self, table: Table) -> tuple[str, ...]:
        """Return what was done to a table beyond what is asked of it: how it was read, and cells that were filled
        in.
        """
        if self.preparation is None:
            return table.remarks
        inputs = self.preparation.inputs
        return (*table.remarks, *describe_imputation(inputs, table), *describe_unknown(inputs, table))

    def _plain_names(self, table: Table) -> list[str]:
        """Return the names of the columns of X, of a model without a preparation."""
        return [str(name) for name in getattr(self.estimator, "feature_names_in_", table.names)]

    def predict(self, table: Table | str | os.PathLike[str]) -> NDArray[Any]:
        """Return predictions for the rows of a table, or of a file named like one."""
        rows = table if isinstance(table, Table) else read_table(table, decided=True)
        return np.asarray(self.estimator.predict(self.matrix(rows)))


def predictions_csv(
    model: TabularModel,
    table: Table,
    coverage: float | None = None,
    probabilities: bool = False,
    ids: Sequence[str] | None = None,
    unknown: str = "refuse",
    adaptive: bool = False,
) -> str:
    """Return the text of a CSV: a column ``prediction``, and for classes the outputs of the machine beside it.

    Before them come the columns ``ids`` of the table, by default those of the model, which name its rows.

    With a ``coverage``, numbers have the ends of their intervals beside them, ``lower`` and ``upper``, which are wide
    where errors are large if ``adaptive``, and classes a column ``set_CLASS`` each; with ``probabilities`` classes have
    a column ``probability_CLASS`` each.
    Two classes have one output, ``decision``, positive for the second class; more have one each, ``decision_CLASS``.
    A label that a spreadsheet would evaluate has an apostrophe before it: :mod:`problems.tables.csv_cells`.
    """
    named = _id_columns(model, table, ids)
    X = model.matrix(table, unknown)
    predicted = np.asarray(model.estimator.predict(X))
    columns: dict[str, Any] = {"prediction": predicted} if predicted.ndim == 1 else {}
    if predicted.ndim == 2:  # a plain model file may hold several outputs
        columns = {f"prediction_{number}": predicted[:, number] for number in range(predicted.shape[1])}
    if model.estimator._labels:
        decision = np.asarray(model.estimator.decision_function(X))
        if decision.ndim == 1:
            columns["decision"] = decision
        else:
            classes = model.estimator.classes_
            columns |= {f"decision_{label}": decision[:, k] for k, label in enumerate(classes)}
    if probabilities:
        columns |= probability_columns(model.estimator, X)
    if coverage is not None:
        columns |= interval_columns(model.estimator, X, coverage, adaptive=adaptive)
    if twice := [name for name in named if name in columns]:
        raise DataError(f"the id column {twice[0]!r} has the name of a column of predictions; rename it in the table")
    columns = {**named, **columns}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(csv_row(columns))
    writer.writerows(zip(*map(csv_cells, columns.values()), strict=True))
    return stream.getvalue()


def _id_columns(model: TabularModel, table: Table, ids: Sequence[str] | None) -> dict[str, Any]:
    """Return the columns that name the rows; those of the model must be there, unless others or none are asked for."""
    if ids is None:
        ids = () if model.preparation is None else model.preparation.ids
        if lacking := [name for name in ids if name not in table.columns]:
            raise DataError(
                f"{table.source} has no column {lacking[0]!r}, which names the rows of this model's tables; give "
                "--id COLUMN for another, or --id alone for none"
            )
    return {name: np.array(table.column(name)) for name in ids}
