"""Rows of a Dask array or dataframe: Dask computes every span on the worker that needs it.

The graph of the collection is unchanged but for slices.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.errors import DataError
from substrate.streaming.array_source import ArraySource
from substrate.streaming.source import Block, Source, checked_block, is_dask

__all__ = ["DaskSource"]


@dataclass(frozen=True, slots=True, eq=False)
class DaskSource(Source):
    """An array of rows and one of targets or none, of known lengths."""

    X: Any
    y: Any
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, X: Any, y: Any = None) -> Self:
        """Compute unknown lengths. The target is the name of a column of a dataframe, or another collection."""
        columns = None
        if hasattr(X, "to_dask_array"):
            if isinstance(y, str):
                if y not in X.columns:
                    raise DataError(f"the dataframe has no column {y!r}; it has {', '.join(map(str, X.columns))}")
                X, y = X.drop(columns=y), X[y]
            columns = tuple(map(str, X.columns))
            X = X.to_dask_array(lengths=True)
        if y is not None and hasattr(y, "to_dask_array"):
            plain = getattr(y.dtype, "kind", "O") in "fiub"
            y = (y if plain else y.astype(object)).to_dask_array(lengths=True)  # text as Python's own
        if y is not None and not is_dask(y):
            raise DataError(
                f"rows in a Dask collection need targets in one, or the name of a column; received {type(y).__name__}"
            )
        X, y = _compute_sizes(X), None if y is None else _compute_sizes(y)
        if X.ndim != 2:
            raise DataError(f"X must be 2-D, received a Dask array of shape {X.shape}")
        if X.shape[0] == 0:
            raise DataError(f"the Dask collection holds no rows: its shape is {X.shape}")
        if y is not None and y.shape != X.shape[:1]:
            raise DataError(f"X has {X.shape[0]} rows and y has shape {y.shape}; one target per row is needed")
        return cls(X, y, columns)

    @property
    def name(self) -> str:
        """Return a name for it."""
        return "the Dask collection"

    @property
    def n_rows(self) -> int:
        """Return the computed number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Return the number of columns of the collection."""
        return int(self.X.shape[1])

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Return the column names of a dataframe."""
        return self.columns

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield blocks computed by Dask's present scheduler, in this process."""
        for begin in range(start, stop, step):
            rows = slice(begin, min(begin + step, stop))
            y = None if self.y is None else self.y[rows].compute()
            yield checked_block(self.X[rows].compute(), y, self.name, begin, self.n_features)

    def send(self, client: Any, start: int, stop: int) -> Any:
        """Return slices that the workers compute and keep."""
        X = client.compute(self.X[start:stop])
        y = None if self.y is None else client.compute(self.y[start:stop])
        return client.submit(_piece, X, y, self.name, start, self.n_features, pure=False)


def _piece(X: Any, y: Any, name: str, start: int, n_features: int) -> ArraySource:
    return ArraySource(*checked_block(X, y, name, start, n_features))


def _compute_sizes(collection: Any) -> Any:
    if np.isnan(np.array(collection.shape, dtype=float)).any():
        collection = copy(collection)  # the method modifies its object
        collection.compute_chunk_sizes()
    return collection
