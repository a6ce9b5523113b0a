"""A model with the preparation of its table: what ``substrate fit`` writes and ``substrate predict`` reads.

Predictions of a table are a table too. With ``--executor``, tables are read in passes and never held in memory.
"""

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import problems
from problems.estimators.shared.files import save
from problems.estimators.shared.input_scales import InputScales
from problems.tables.class_columns import calibrate_classifier, probability_columns
from problems.tables.inputs import Input, describe_imputation, describe_unknown, raw_matrix
from problems.tables.intervals import interval_columns
from problems.tables.models import WIDTHS, kernel_of
from problems.tables.preparation import Preparation, Split
from problems.tables.table import Table, named_columns, read_table
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.reduced import Basis
from substrate.streaming import Passes
from substrate.streaming.array_source import ScaledSource, width_rows
from substrate.streaming.dask_client import executor_of
from substrate.streaming.parquet_source import ParquetSource, csv_cells, csv_row
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, Source
from substrate.streaming.survey import Survey, SurveyOfLeaf

__all__ = [
    "StreamChoices",
    "TabularModel",
    "fit_stream",
    "predict_stream",
    "predictions_csv",
    "predicts_in_a_pass",
    "refuse_absent_model",
]


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
        """Write model and preparation to one file, which :func:`problems.load` reads too, without the latter."""
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
        # a missing cell stays missing where the estimator has a rule of its own
        fill = None if self.estimator._fill is None else math.nan
        return raw_matrix([Input(name, fill=fill) for name in names], table)

    def remarks(self, table: Table) -> tuple[str, ...]:
        """Return what was done to a table beyond what is asked of it: how it was read, and cells that were filled
        in.
        """
        if self.preparation is None:
            return (*table.remarks, *self._describe_fill(table))
        inputs = self.preparation.inputs
        return (*table.remarks, *describe_imputation(inputs, table), *describe_unknown(inputs, table))

    def _plain_names(self, table: Table) -> list[str]:
        """Return the names of the columns of X, of a model without a preparation."""
        return [str(name) for name in getattr(self.estimator, "feature_names_in_", table.names)]

    def _describe_fill(self, table: Table) -> list[str]:
        """Return one line for every column in which the estimator itself fills cells in."""
        fill = self.estimator._fill
        named = [] if fill is None else zip(self._plain_names(table), fill.values.tolist(), strict=False)
        return [
            f"imputed: {name}, {len(rows)} of {table.n_rows} cells, by {value:.6g}, as the model does"
            for name, value in named
            if name in table.columns and (rows := table.missing(name))
        ]

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
    A label that a spreadsheet would evaluate has an apostrophe before it: :mod:`substrate.streaming.parquet_source`.
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


@dataclass(frozen=True, slots=True)
class StreamChoices:
    """The choices of the command line."""

    target: str
    basis: Basis
    passes: Passes
    task: str = "auto"
    kernel: str = "rbf"
    sigma: float | None = None
    gamma: float | None = None
    drop: tuple[str, ...] = ()
    standardise: bool = True
    seed: int = 0


def fit_stream(path: str, choices: StreamChoices) -> tuple[TabularModel, tuple[str, ...]]:
    """Survey the columns, scale them as they are read, fit in passes; the model predicts tables of any size."""
    kernel = kernel_of(choices.kernel, choices.sigma)
    rows = ParquetSource.of(path, choices.target, drop=choices.drop)
    task = _task(rows, choices)
    with executor_of(choices.passes.executor) as executor:
        passes, inputs = OpenPasses(executor, verbose=True), tuple(Input(name) for name in rows.columns)
        if choices.standardise:
            inputs = _standardise(rows, passes)
        scaled = _scale(rows, inputs)
        options: dict[str, Any] = {
            "basis": choices.basis,
            "passes": choices.passes.with_params(executor=executor),
        }
        name = "Regressor" if task == "regression" else "Classifier"
        if choices.gamma is not None:
            estimator = getattr(problems, f"SparseLSSVM{name}")(kernel, choices.gamma, **options)
        else:
            tried = _widths(kernel, scaled, passes)
            estimator = getattr(problems, f"SparseLSSVM{name}CV")(kernel, kernels=tried, cv="gcv", **options)
        estimator.fit(scaled)
        if task == "classification":
            calibrate_classifier(estimator)
    estimator.set_params(passes=None)
    split = Split(0.0, choices.seed, rows.n_rows, ())
    preparation = Preparation(
        source=path, target=choices.target, task=task, standardised=choices.standardise, inputs=inputs, split=split
    )
    units = "standardised by all rows" if choices.standardise else "in their own units"
    judged = "given" if choices.gamma is not None else "by generalised cross-validation"
    description = (
        f"task: {task}",
        f"rows: all {rows.n_rows} train, read in passes; gamma {judged}",
        f"inputs: {len(inputs)}, {units}",
    )
    return TabularModel(estimator, preparation), description


def _task(rows: ParquetSource, choices: StreamChoices) -> str:
    """Return the requested task; otherwise classification where the first targets are text."""
    if choices.task != "auto":
        return choices.task
    first = next(rows.blocks(0, min(rows.n_rows, LEAF), LEAF))
    return "classification" if first.Y.dtype.kind not in "fiub" else "regression"


def _standardise(rows: ParquetSource, passes: OpenPasses) -> tuple[Input, ...]:
    survey: Survey = passes.sums(rows, SurveyOfLeaf(None, rows.name), "reading all rows")
    scales = InputScales.of_survey(survey, rows.name, rows.columns)
    return tuple(
        Input(name, None, float(center), float(scale))
        for name, center, scale in zip(rows.columns, scales.center, scales.scale, strict=True)
    )


def _scale(rows: Source, inputs: Sequence[Input]) -> ScaledSource:
    return ScaledSource(
        rows, np.array([input_.center for input_ in inputs]), np.array([input_.scale for input_ in inputs])
    )


def _widths(kernel: Kernel, rows: Source, passes: OpenPasses) -> list[Kernel] | None:
    """Return kernels of several widths around that of a fit, where the width was not given."""
    if getattr(kernel, "sigma", None) != "median":
        return None
    middle: Any = kernel.resolved(passes.take_rows(rows, width_rows(rows.n_rows)))
    return [replace(middle, sigma=share * middle.sigma) for share in WIDTHS]


def predicts_in_a_pass(model: TabularModel, data: str) -> bool:
    """Return whether rows can be predicted without being held in memory: a sparse machine, numbers only, and
    Parquet.
    """
    preparation = model.preparation
    numeric = preparation is None or (
        not preparation.ids
        and all(
            all(value is None for value in (input_.categories, input_.ranks, input_.fill, input_.origin))
            for input_ in preparation.inputs
        )
    )
    columns = Path(data).is_dir() or Path(data).suffix.lower() in (".parquet", ".pq")
    return numeric and columns and hasattr(model.estimator, "predict_to") and not model.estimator.kernel_.pairwise


def predict_stream(model: TabularModel, data: str, out: str, drop: Sequence[str] = ()) -> None:
    """Predict and write block by block, with progress; columns are found by the names of the training, if known."""
    model.estimator.set_params(passes=Passes(verbose=True))  # a file does not say how to show progress
    if model.preparation is None:
        names = getattr(model.estimator, "feature_names_in_", None)
        rows = ParquetSource.of(data, columns=names, drop=drop)
        if rows.n_features != model.estimator.n_features_in_:
            raise DataError(
                f"the model takes {model.estimator.n_features_in_} inputs and does not know their names, {data} has "
                f"the columns {named_columns(rows.columns)}; leave the others out by --drop"
            )
        model.estimator.predict_to(rows, out)
        return
    inputs = model.preparation.inputs
    rows = ParquetSource.of(data, columns=[input_.name for input_ in inputs])
    model.estimator.predict_to(_scale(rows, inputs), out)
