"""Rows that are given as files, Dask collections or blocks, read into memory by the machines that compare all of them.

The machines on a reduced basis read such rows in passes instead, and hold none of them
(:mod:`problems.estimators.reduced.machine`).
"""

import os
from pathlib import Path
from typing import Any

from substrate.errors import DataError
from substrate.streaming.gathered import GatheredRows, gather_rows
from substrate.streaming.parquet_source import ParquetSource
from substrate.streaming.source import Source
from substrate.streaming.sources import source_of
from substrate.streaming.weighed_source import weights_of_source

__all__ = ["check_columns", "open_new_rows", "read_new_rows", "read_rows"]

_ADVICE = (
    "SparseLSSVMRegressor and SparseLSSVMClassifier read the same rows in passes, and hold as many as their basis has."
)


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[GatheredRows, Any]:
    """Return the rows of a fit in memory, and their weights; refuse them where a machine takes arrays only."""
    name = type(estimator).__name__
    if not estimator._gathers_rows:
        kind = "Classifier" if estimator._labels else "Regressor"
        raise DataError(
            f"{name} takes arrays and data frames, received {_describe(X)}; read the rows first, or fit "
            f"LSSVM{kind}, which reads all of them into memory, or SparseLSSVM{kind}, which reads them in passes"
        )
    if estimator.__sklearn_tags__().input_tags.pairwise:
        raise DataError(f"a precomputed kernel matrix must be in memory, received {_describe(X)}; numpy.load reads it")
    source = source_of(X, y)
    weights = None if sample_weight is None else weights_of_source(sample_weight, source)
    return gather_rows(source, _ADVICE, with_targets=True), weights


def open_new_rows(estimator: Any, X: Any) -> Source:
    """Return rows to predict as a source: of a Parquet file the columns that the fit had, whatever else it has."""
    names = getattr(estimator, "feature_names_in_", None)
    is_parquet = isinstance(X, (str, os.PathLike)) and Path(X).suffix != ".npy"
    rows: Source = ParquetSource.of(X, columns=names) if is_parquet and names is not None else source_of(X)
    return check_columns(estimator, rows)


def check_columns(estimator: Any, rows: Source) -> Source:
    """Return rows to predict; refuse them where they are not as wide as those of the fit."""
    if rows.n_features != estimator.n_features_in_:
        raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {estimator.n_features_in_}")
    return rows


def read_new_rows(estimator: Any, X: Any) -> Any:
    """Return rows to predict in memory."""
    return gather_rows(open_new_rows(estimator, X), "Predict them in parts.", with_targets=False).X


def _describe(X: Any) -> str:
    return f"the file {os.fspath(X)!r}" if isinstance(X, (str, os.PathLike)) else f"a {type(X).__name__}"
