"""Records of how a model came about: one frozen value a step, compared by content, written into model files."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.kernels import Kernel

__all__ = ["RECORDS", "PruningStep", "Record", "ReducedReweighting", "Reweighting"]


class Record:
    """A frozen dataclass that may hold arrays; two are equal when all their fields are, entry by entry."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


@dataclass(frozen=True, slots=True, eq=False)
class Reweighting(Record):
    """One weighted fit: its weights, its solution, and the robust scale of its errors, which makes the next weights.

    ``change`` is the largest change of a support value since the fit before, relative to the largest of them.
    """

    weights: Array
    support_values: Array
    bias: float
    scale: float
    change: float


@dataclass(frozen=True, slots=True, eq=False)
class ReducedReweighting(Record):
    """One weighted fit on a reduced basis: beta, b, and what its weights were made with.

    ``scale`` is the robust scale of the errors of the fit before and ``mass`` the sum of all weights; the plain fit,
    whose weights are one, has no scale (0). ``change`` is the change of w since the fit before, relative to its norm.
    """

    support_values: Array
    bias: float
    scale: float
    mass: float
    change: float


@dataclass(frozen=True, slots=True, eq=False)
class PruningStep(Record):
    """One machine on the way down.

    ``rows`` are the training rows left, with their weights and support values (in the sign of regression, a column a
    machine where there are several); ``score`` is the performance index of this machine, the smaller the better;
    ``gamma`` and ``kernel`` are those it was fitted with; ``retuned`` says that they were chosen anew at this step.
    """

    rows: NDArray[np.intp]
    support_values: Array
    bias: Any
    weights: Array
    score: float
    gamma: float
    kernel: Kernel
    retuned: bool

    @property
    def size(self) -> int:
        """How many rows are left."""
        return int(self.rows.size)

    @property
    def spectrum(self) -> Array:
        """The sorted support value spectrum: sizes of the support values, largest first."""
        sizes = np.abs(self.support_values) if self.support_values.ndim == 1 else row_sizes(self.support_values)
        return np.asarray(np.sort(sizes)[::-1])


def row_sizes(support_values: Array) -> Array:
    """|alpha_i|, or the Euclidean norm over the machines where there are several."""
    return np.asarray(np.linalg.norm(support_values, axis=1))


#: What a model file may name.
RECORDS: dict[str, type[Record]] = {
    "PruningStep": PruningStep,
    "ReducedReweighting": ReducedReweighting,
    "Reweighting": Reweighting,
}
