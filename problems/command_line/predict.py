"""``substrate predict``: a model file and a table in, a table of predictions out."""

import csv
import io
from typing import Any

import numpy as np

from problems.command_line.table import Table
from problems.command_line.tabular_model import TabularModel
from substrate.streaming.csv_cells import csv_cells, csv_row

__all__ = ["predictions_csv"]


def predictions_csv(model: TabularModel, table: Table) -> str:
    """The text of a CSV: a column ``prediction``, and for classes the outputs of the machine beside it.

    Two classes have one output, ``decision``, positive for the second class; more have one each, ``decision_CLASS``.
    A label that a spreadsheet would evaluate has an apostrophe before it: :mod:`substrate.streaming.csv_cells`.
    """
    X = model.matrix(table)
    predicted = np.asarray(model.estimator.predict(X))
    columns: dict[str, Any] = {"prediction": predicted} if predicted.ndim == 1 else {}
    if predicted.ndim == 2:  # a plain model file may hold several outputs
        columns = {f"prediction_{number}": predicted[:, number] for number in range(predicted.shape[1])}
    if hasattr(model.estimator, "classes_"):
        decision = np.asarray(model.estimator.decision_function(X))
        if decision.ndim == 1:
            columns["decision"] = decision
        else:
            classes = model.estimator.classes_
            columns |= {f"decision_{label}": decision[:, k] for k, label in enumerate(classes)}
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(csv_row(columns))
    writer.writerows(zip(*map(csv_cells, columns.values()), strict=True))
    return stream.getvalue()
