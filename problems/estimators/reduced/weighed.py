"""The weights of the rows of a fit on a reduced basis: which rows there are, and in what unit their weights count.

A weight multiplies the squared error of its row. Rows of weight zero are absent, also for the choice of the basis; the
rules of a basis use the inputs of the other rows and ignore their weights.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, is_device_array, to_numpy
from substrate.errors import DataError
from substrate.reduced import Basis
from substrate.reduced.rows import KernelRows
from substrate.streaming.rows import ReadSource, Source

__all__ = ["ALIKE", "Weighed", "weight_facts"]


@dataclass(frozen=True, slots=True)
class Weighed:
    """The positive weights of the rows of a fit, None where all are one, and the unit by which they were divided.

    ``kept`` are the numbers of the rows of positive weight among the ``given`` ones, None where these are all of them.
    """

    weights: Any = None
    kept: Any = None
    n_given: int = 0
    unit: float = 1.0

    @classmethod
    def of(cls, weights: Any, kept: Any, n_given: int, *, mean_one: bool) -> "Weighed":
        """Build the record from positive weights and the numbers of their rows; divided by their mean where
        ``mean_one``.
        """
        host: Array = to_numpy(weights)
        with np.errstate(over="ignore"):
            if not np.isfinite([1.0 / host.min(), host.sum()]).all():
                raise DataError(
                    f"sample_weight leaves the range of floating point, received {host.min():g} to {host.max():g}; "
                    "rescale the weights"
                )
        unit = float(host.mean()) if mean_one else 1.0
        is_equal = bool((host == unit).all())
        return cls(None if is_equal else weights / unit, None if len(kept) == n_given else kept, n_given, unit)

    def source(self, rows: Source, code: Any) -> Source:
        """Return rows that are read in passes, with their targets coded and their weights."""
        if not isinstance(rows, ReadSource):
            raise TypeError(f"rows of a {type(rows).__name__} are in memory")
        return replace(rows, code=code, weights=self.weights, kept=self.kept)

    def given_numbers(self, rows: Any) -> Any:
        """Return numbers of rows of the fit as numbers of the rows given."""
        return rows if rows is None or self.kept is None else self.kept[rows]

    def own_numbers(self, rows: Any) -> Any:
        """Return numbers of the rows given as numbers of rows of the fit; rows of weight zero have none."""
        if self.kept is None or min(rows, default=0) < 0 or max(rows, default=0) >= self.n_given:
            return rows  # which the choice of a basis refuses by their number
        places = np.searchsorted(self.kept, rows).clip(max=self.kept.size - 1)
        strange = self.kept[places] != rows
        if strange.any():
            raise DataError(
                f"basis names row {int(np.asarray(rows)[strange][0])}, whose sample_weight is zero; name rows of "
                "positive weight, or give the basis as points"
            )
        return places

    def renumber(self, choice: Basis) -> Basis:
        """Return the choice of a basis with the rows that it names numbered as in the fit."""
        rule = to_numpy(choice.rule) if is_device_array(choice.rule) else choice.rule
        if self.kept is None or isinstance(rule, str) or hasattr(rule, "tocsr"):
            return choice
        values = np.asarray(rule)
        if values.ndim != 1 or values.dtype.kind not in "iu" or not values.size:
            return choice
        return choice.with_params(rule=self.own_numbers(values))


#: All rows, of weight one.
ALIKE = Weighed()


def weight_facts(rows: KernelRows) -> tuple[tuple[str, str], ...]:
    """Return the weights of the rows, for the record of a certificate; nothing where there are none."""
    weights = rows.weights
    if weights is None:
        return ()
    host = to_numpy(weights)
    return (("sample_weight", f"{host.min():.3g} to {host.max():.3g}; sums and residuals are those of weighted rows"),)
