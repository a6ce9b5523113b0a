"""Prediction from rows that are read in a pass to a file that is written on the way."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from problems.estimators.coded import scores_of, winners
from problems.estimators.row_stream import RowStream
from substrate.arrays import Array
from substrate.closed_form.kernel_rows import KernelValues
from substrate.closed_form.reduced_outputs import OutputsOfBlock
from substrate.errors import DataError
from substrate.namespaces import is_device_array, on_device_of, where_it_lives
from substrate.streaming.array_source import ArraySource
from substrate.streaming.column_file import SUFFIXES, column_file
from substrate.streaming.parquet_source import ParquetSource
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.sources import files_behind, streams
from substrate.whole_file import refuse_taken, writable_file

__all__ = ["StreamedPrediction"]


class StreamedPrediction(RowStream):
    """``predict_to``."""

    def predict_to(self, X: Any, out: str | os.PathLike[str]) -> None:
        """Predict rows, wherever they are, into a ``.npy``, Parquet or CSV file that is whole or absent.

        A table has a column ``prediction`` and, for classes, the outputs of the machine beside it; a ``.npy`` file
        has the predictions. Columns of a Parquet file are found by name where the fit knew names. In a CSV file, a
        label that a spreadsheet would take for a formula (it begins with =, +, -, @, a tab or a line break) has an
        apostrophe before it, to be taken away by a program that reads it; other files hold labels as they are.
        """
        check_is_fitted(self)
        self._refuse_passes()
        if is_device_array(X):
            raise DataError("predict_to reads numpy arrays, files and blocks; for rows on a device use predict")
        _check_out(out, X)
        with self._passes() as passes:
            rows = self._rows_to_predict(X, passes)
            function = self._outputs_of_rows()
            with column_file(out, rows.n_rows) as write, closing(passes.each(rows, function, "predicting")) as parts:
                for outputs in parts:
                    write(self._said_of(outputs))

    def _refuse_passes(self) -> None:
        """Say that a model on a device reads no files, and what to do about it."""
        if is_device_array(self.support_values_):
            raise DataError(
                f"this {type(self).__name__} is fitted to arrays of {where_it_lives(self.support_values_)}, and rows "
                "that are read in passes are numpy's; model.to_numpy() takes the model to numpy"
            )

    def _rows_to_predict(self, X: Any, passes: Passes) -> Source:
        if self.kernel_.pairwise:
            raise DataError("rows of a precomputed kernel matrix are predicted in memory, by predict")
        names = getattr(self, "feature_names_in_", None)
        parquet = isinstance(X, (str, os.PathLike)) and Path(X).suffix != ".npy"
        rows = ParquetSource.of(X, columns=names) if parquet and names is not None else self._streamed(X, None)
        if rows is None:
            return ArraySource(
                validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False), None
            )
        if rows.n_features != self.n_features_in_:
            raise DataError(f"{rows.name} has {rows.n_features} columns, the model has {self.n_features_in_}")
        return rows

    def _expansion(self, X: Any) -> Array:
        if streams(X):
            raise DataError("predictions of rows that are read in passes go to a file: predict_to(rows, 'out.parquet')")
        return super()._expansion(X)

    def _outputs_of_rows(self) -> OutputsOfBlock:
        """The machine as a function of blocks of rows."""
        return OutputsOfBlock(KernelValues(self.kernel_, self.support_vectors_), *self._columns())

    def _columns(self) -> tuple[Array, Array]:
        alpha, bias = self.support_values_, self.bias_
        return (alpha[:, None] if alpha.ndim == 1 else alpha), (
            on_device_of(alpha, [bias]) if isinstance(bias, float) else bias
        )

    def _said_of(self, outputs: Array) -> dict[str, Any]:
        """A column ``prediction``; for classes the outputs beside it, ``decision``, or ``decision_CLASS`` for each."""
        first = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        if not hasattr(self, "classes_"):
            return {"prediction": first}
        classes = self.classes_ if self.classes_.dtype.kind != "O" else np.array(self.classes_.tolist())
        scores = scores_of(first, self.coding, self.code_book_)
        columns = {"prediction": classes[winners(scores)]}
        if scores.ndim == 1:
            return columns | {"decision": scores}
        return columns | {f"decision_{label}": scores[:, k] for k, label in enumerate(classes)}


def _check_out(out: str | os.PathLike[str], rows: Any) -> None:
    """Refuse, before any work, a file that cannot be written, or that holds the rows."""
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path} must end in {', '.join(SUFFIXES)}")
    writable_file(path)
    refuse_taken(path, rows, *files_behind(rows))
