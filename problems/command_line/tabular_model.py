"""A model with the preparation of its table: what ``substrate fit`` writes and ``substrate predict`` reads."""

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from problems.command_line.preparation import Input, Preparation, raw_matrix
from problems.command_line.table import Table, named_columns, read_table
from problems.estimators.files import load_with_notes, save
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["TabularModel"]


@dataclass(frozen=True, slots=True)
class TabularModel:
    """An estimator, and how the columns of a table become its inputs (None: as they are, in their order)."""

    estimator: Any
    preparation: Preparation | None

    @classmethod
    def load(cls, path: str | os.PathLike[str], max_bytes: float | None = None) -> Self:
        """Read any model file of this package; those of ``substrate fit`` bring their preparation."""
        return cls._of(*load_with_notes(path, max_bytes), path)

    @classmethod
    def _of(cls, estimator: Any, notes: dict[str, Any] | None, path: str | os.PathLike[str]) -> Self:
        """What a file was found to hold, if it belongs together."""
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
        save(self.estimator, path, notes, lambda estimator, told: self._of(estimator, told, path))

    def matrix(self, table: Table) -> Array:
        """X for the rows of a table, found by the names of the columns where they are known."""
        if self.preparation is not None:
            return self.preparation.matrix(table)
        names = [str(name) for name in getattr(self.estimator, "feature_names_in_", table.names)]
        if len(names) != self.estimator.n_features_in_:
            raise DataError(
                f"the model takes {self.estimator.n_features_in_} inputs and does not know their names, "
                f"{table.source} has the columns {named_columns(names)}; leave the others out by --drop"
            )
        return raw_matrix([Input(name) for name in names], table)

    def predict(self, table: Table | str | os.PathLike[str]) -> NDArray[Any]:
        """Predictions for the rows of a table, or of a file named like one."""
        rows = table if isinstance(table, Table) else read_table(table)
        return np.asarray(self.estimator.predict(self.matrix(rows)))
