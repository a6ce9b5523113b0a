"""``substrate fit --executor`` and ``substrate predict``: tables that are read in passes and never held."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import problems
from problems.command_line.models import WIDTHS, kernel_of
from problems.command_line.preparation import Input, Preparation, Split
from problems.command_line.table import named_columns
from problems.command_line.tabular_model import TabularModel
from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.streaming.derived_source import ScaledSource
from substrate.streaming.executors.choice import executor_of
from substrate.streaming.parquet_source import ParquetSource
from substrate.streaming.passes import Passes
from substrate.streaming.row_numbers import width_rows
from substrate.streaming.source import LEAF, Source
from substrate.streaming.survey import Survey, SurveyOfLeaf

__all__ = ["StreamChoices", "fit_stream", "predict_stream", "predicts_in_a_pass"]


@dataclass(frozen=True, slots=True)
class StreamChoices:
    """What the command line decided."""

    target: str
    task: str = "auto"
    kernel: str = "rbf"
    sigma: float | None = None
    gamma: float | None = None
    n_basis: int = 100
    drop: tuple[str, ...] = ()
    standardise: bool = True
    seed: int = 0
    executor: str | None = None
    checkpoint: str | None = None


def fit_stream(path: str, choices: StreamChoices) -> tuple[TabularModel, tuple[str, ...]]:
    """Survey the columns, scale them as they are read, fit in passes; the model predicts tables of any size."""
    kernel = kernel_of(choices.kernel, choices.sigma)
    rows = ParquetSource.of(path, choices.target, drop=choices.drop)
    task = _task(rows, choices)
    with executor_of(choices.executor) as executor:
        passes, inputs = Passes(executor, verbose=True), tuple(Input(name) for name in rows.columns)
        if choices.standardise:
            inputs = _standardised(rows, passes)
        scaled = _scaled(rows, inputs)
        options: dict[str, Any] = {
            "n_basis": choices.n_basis, "random_state": choices.seed, "executor": executor,
            "checkpoint": choices.checkpoint, "verbose": True,
        }  # fmt: skip
        name = "Regressor" if task == "regression" else "Classifier"
        if choices.gamma is not None:
            estimator = getattr(problems, f"SparseLSSVM{name}")(kernel, choices.gamma, **options)
        else:
            tried = _widths(kernel, scaled, passes)
            estimator = getattr(problems, f"SparseLSSVM{name}CV")(kernel, tried, "gcv", **options)
        estimator.fit(scaled)
    estimator.set_params(executor=None, checkpoint=None, verbose=False)
    split = Split(0.0, choices.seed, rows.n_rows, ())
    preparation = Preparation(path, choices.target, task, choices.standardise, inputs, split)
    units = "standardised by all rows" if choices.standardise else "in their own units"
    judged = "given" if choices.gamma is not None else "by generalised cross-validation"
    said = (
        f"task: {task}",
        f"rows: all {rows.n_rows} train, read in passes; gamma {judged}",
        f"inputs: {len(inputs)}, {units}",
    )
    return TabularModel(estimator, preparation), said


def _task(rows: ParquetSource, choices: StreamChoices) -> str:
    """As asked for; otherwise classification where the first targets are text."""
    if choices.task != "auto":
        return choices.task
    first = next(rows.blocks(0, min(rows.n_rows, LEAF), LEAF))
    return "classification" if first.Y.dtype.kind not in "fiub" else "regression"


def _standardised(rows: ParquetSource, passes: Passes) -> tuple[Input, ...]:
    survey: Survey = passes.sums(rows, SurveyOfLeaf(None, rows.name), "reading all rows")
    spread, largest = survey.standard_deviation, np.maximum(np.abs(survey.low), np.abs(survey.high))
    if not np.isfinite(spread).all():
        column = int(np.flatnonzero(~np.isfinite(spread))[0])
        raise DataError(
            f"column {rows.columns[column]!r} holds a number of size {largest[column]:g}, whose square is infinite; "
            "mend that cell, or give the column another unit"
        )
    moving = spread > 1e-12 * largest  # a constant column may have a deviation of rounding size
    scales = np.where(moving, spread, 1.0)
    return tuple(
        Input(name, None, float(center), float(scale))
        for name, center, scale in zip(rows.columns, survey.mean, scales, strict=True)
    )


def _scaled(rows: Source, inputs: Sequence[Input]) -> ScaledSource:
    return ScaledSource(rows, np.array([one.center for one in inputs]), np.array([one.scale for one in inputs]))


def _widths(kernel: Kernel, rows: Source, passes: Passes) -> list[Kernel] | None:
    """Kernels of several widths around the one that a fit would find, where the width was not given."""
    if getattr(kernel, "sigma", None) != "median":
        return None
    middle: Any = kernel.resolved(passes.taken(rows, width_rows(rows.n_rows)))
    return [replace(middle, sigma=share * middle.sigma) for share in WIDTHS]


def predicts_in_a_pass(model: TabularModel, data: str) -> bool:
    """Whether rows can go through the model without being held: a sparse machine, numbers only, and Parquet."""
    numeric = model.preparation is None or all(one.categories is None for one in model.preparation.inputs)
    columns = Path(data).is_dir() or Path(data).suffix.lower() in (".parquet", ".pq")
    return numeric and columns and hasattr(model.estimator, "predict_to") and not model.estimator.kernel_.pairwise


def predict_stream(model: TabularModel, data: str, out: str, drop: Sequence[str] = ()) -> None:
    """Columns are found by the names of the training, where they are known."""
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
    rows = ParquetSource.of(data, columns=[one.name for one in inputs])
    model.estimator.predict_to(_scaled(rows, inputs), out)
