r"""The numbers that stand for missing cells: what ``missing="median"`` fills in, one per column.

.. math:: x_{ij} \leftarrow m_j \;\text{ where } x_{ij} \text{ is missing}, \qquad
          \sum_{i: x_{ij} < m_j} v_i \le \tfrac12 V_j, \quad \sum_{i: x_{ij} > m_j} v_i \le \tfrac12 V_j, \quad
          V_j = \sum_i v_i

over the training rows i that have the cell, with their sample weights :math:`v_i`, so that a row of weight 2 counts as
two; the mean of both ends where these are several numbers. Of codes, which a kernel of categories compares, a number in
the middle is no name: the missing ones are a category of their own where training rows have some,
:math:`-1 - 2 \max_i |x_{ij}|`, which no row has; otherwise the most frequent one stands for those of new rows.

Cells are filled in before columns are scaled. A machine is one of the rows as they are then: its certificate, its
left-out rows and its proof are about them, and what is filled in is held while a row is left out.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.least_squares.robust_weights import quantile_ranks, weighted_quantile
from substrate.namespaces import namespace_of, on_device_of, to_numpy

if TYPE_CHECKING:
    from substrate.streaming.array_source import FilledSource
    from substrate.streaming.executors import LeafSum
    from substrate.streaming.source import Block, Source
    from substrate.streaming.survey import CellSurvey

__all__ = ["MISSING_RULES", "InputFill", "find_missing", "median_cell", "most_frequent_cell"]

#: What ``missing`` may be, beside None, which refuses missing cells.
MISSING_RULES = ("median",)

_Cell = TypeVar("_Cell", float, str)


def median_cell(cells: Array, weights: Array | None = None) -> float:
    """Return the weighted median of the cells of a column that are not missing."""
    return weighted_quantile(cells, 0.5, weights)


def most_frequent_cell(cells: Sequence[_Cell], weights: Sequence[float] | None = None) -> _Cell:
    """Return the cell of the largest weight, the first in order of several; the order of the rows does not matter."""
    by_cell: dict[_Cell, list[float]] = {}
    for cell, weight in zip(cells, [1.0] * len(cells) if weights is None else weights, strict=True):
        by_cell.setdefault(cell, []).append(weight)
    return min(by_cell, key=lambda cell: (-math.fsum(by_cell[cell]), cell))


def _code_cell(cells: Array, weights: Array | None, has_missing: bool) -> float:
    """Return the code that stands for missing ones."""
    if not has_missing:
        codes: list[float] = cells.tolist()
        return most_frequent_cell(codes, None if weights is None else weights.tolist())
    return -1.0 - 2.0 * float(np.abs(cells).max())


def find_missing(X: Any) -> NDArray[np.intp]:
    """Return the row and the column of every missing cell, one line each, in the order of the rows."""
    if not is_sparse(X):
        return np.argwhere(np.isnan(to_numpy(X)))
    entries = X.tocoo()
    places = np.isnan(entries.data)
    cells = np.column_stack([entries.row[places], entries.col[places]]).astype(np.intp)
    return cells[np.lexsort((cells[:, 1], cells[:, 0]))]


@dataclass(frozen=True, slots=True)
class InputFill:
    """One number per column, which stands for its missing cells."""

    values: Array

    @classmethod
    def of(cls, X: Any, weights: Any, codes: Collection[int], name: Callable[[int], str]) -> Self:
        """Return what fills the columns of X: dense, sparse or on a device; rows of weight zero are absent.

        ``codes`` are the columns of categories; ``name`` returns what a column is called in a refusal.
        """
        v = np.asarray(to_numpy(weights), dtype=np.float64)
        (rows,) = np.nonzero(v)
        v = v[rows]
        equal = not v.size or bool((v == v[0]).all())
        columns = _sparse_columns(X.tocsr()[rows], v) if is_sparse(X) else _dense_columns(to_numpy(X)[rows], v)
        values = np.empty(int(X.shape[1]))
        for column, (cells, shares) in enumerate(columns):
            present = ~np.isnan(cells)
            if not present.any():
                raise _no_value(name(column))
            known, of_known = cells[present], None if equal and cells.size == v.size else shares[present]
            if column in codes:
                values[column] = _code_cell(known, of_known, not present.all())
            else:
                values[column] = median_cell(known, of_known)
        return cls._finite(values, name)

    @classmethod
    def of_passes(
        cls, sums: "Callable[[LeafSum], Any]", n_features: int, codes: Collection[int], name: Callable[[int], str]
    ) -> Self:
        """Return what fills the columns of rows that are read in passes, each row counted once.

        ``sums`` makes a pass: one counts cells, up to five find the medians of all columns together.
        """
        from substrate.streaming.survey import CellsOfLeaf, column_order_statistics

        coded = tuple(sorted(codes))
        survey: CellSurvey = sums(CellsOfLeaf(coded))
        if not survey.present.all():
            raise _no_value(name(int(survey.present.argmin())))
        ranks = [() if c in codes else quantile_ranks(0.5, int(survey.present[c])) for c in range(n_features)]
        statistics, _ = column_order_statistics(sums, _inputs_of, survey.present.tolist(), ranks)
        values = np.zeros(n_features)
        for column, (of_column, found) in enumerate(zip(ranks, statistics, strict=True)):
            if of_column:
                low, high = of_column
                values[column] = 0.5 * found[low] + 0.5 * found[high]
        for column, categories in zip(coded, survey.categories, strict=True):
            is_missing = bool(survey.present[column] < survey.count)
            values[column] = _code_cell(categories.classes, categories.counts, is_missing)
        return cls._finite(values, name)

    @classmethod
    def _finite(cls, values: Array, name: Callable[[int], str]) -> Self:
        if not np.isfinite(values).all():
            column = name(int(np.isfinite(values).argmin()))
            raise DataError(
                f"{column} holds codes so large that a missing one has no number beside them; give categories the "
                "codes 0, 1, 2 and so on"
            )
        return cls(values)

    def apply(self, X: Any) -> Any:
        """Return rows with their missing cells filled in, where they are; those without any as they are."""
        if is_sparse(X):
            places = np.isnan(X.data)
            if not places.any():
                return X
            filled = X.tocsr(copy=True)
            filled.data[places] = self.values[filled.indices[places]]
            return filled
        xp = namespace_of(X)
        is_missing = xp.isnan(X)
        return xp.where(is_missing, on_device_of(X, self.values), X) if bool(xp.any(is_missing)) else X

    def fill_source(self, rows: "Source") -> "FilledSource":
        """Return rows that are read in passes, with their missing cells filled in."""
        from substrate.streaming.array_source import FilledSource

        return FilledSource(rows, self.values)

    def check(self, n_features: int) -> None:
        """Refuse numbers from a file that do not belong to the columns of a model."""
        values = self.values
        if values.shape != (n_features,) or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise DataError(f"input_fill_ must hold one finite number for each of the {n_features} columns")


def _inputs_of(block: "Block") -> Array:
    return np.asarray(block.X)


def _no_value(column: str) -> DataError:
    return DataError(
        f"{column} has no value in the rows of the fit, and there is nothing to fill in; leave the column out"
    )


def _dense_columns(X: Array, v: Array) -> Any:
    """Yield the cells of every column, with their weights."""
    return ((column, v) for column in X.T)


def _sparse_columns(X: Any, v: Array) -> Any:
    """Yield the stored cells of every column and, once, zero with the weight of all that are not stored."""
    entries = X.tocsc()
    total = math.fsum(v)
    for column in range(entries.shape[1]):
        inside = slice(entries.indptr[column], entries.indptr[column + 1])
        cells, shares = entries.data[inside], v[entries.indices[inside]]
        if cells.size == v.size:
            yield cells, shares
        else:
            yield np.append(cells, 0.0), np.append(shares, max(total - math.fsum(shares), 0.0))
