"""The points beside the training rows that a machine mentions, each once, by what is read there."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import is_sparse, row_blocks
from substrate.composition.level import Substrate
from substrate.composition.place_holders import PlaceHolder
from substrate.composition.reading import Reading, read

__all__ = ["READ", "FurtherPoints", "Numbers", "keys_of"]

Numbers = NDArray[np.intp]
#: Place-holders that read w at points.
READ = ("f", "component", "operator")


class FurtherPoints:
    """The points of some mentions that are not training rows, each once, by what is read there.

    ``separate`` says whether one of several components that is read at a training row has a representer of its own
    there, or the coefficient that all components share.
    """

    def __init__(self, substrate: Substrate, holders: list[PlaceHolder], separate: bool) -> None:
        self._first = substrate.n
        self._separate = separate and len(substrate.components) > 1
        self._known: dict[tuple[str, Any], dict[bytes, int]] = {}
        self._points: dict[tuple[str, Any], list[Any]] = {}
        self._at: dict[int, tuple[tuple[str, Any], Numbers]] = {}
        elsewhere = [
            holder
            for holder in holders
            if holder.points is not None or holder.role == "operator" or self._has_own(holder)
        ]
        training_numbers: dict[bytes, int] = {}
        for row, key in enumerate(keys_of(substrate.X) if elsewhere else ()):
            training_numbers.setdefault(
                key, row - self._first
            )  # training rows have negative numbers, to be told from the others
        for holder in elsewhere:
            self._add(holder, substrate.X if holder.points is None else holder.points, training_numbers)

    def _has_own(self, holder: PlaceHolder) -> bool:
        """Return whether a mention has representers of its own at training rows too."""
        return holder.role == "operator" or (holder.role == "component" and self._separate)

    def _add(self, holder: PlaceHolder, points: Any, training_numbers: dict[bytes, int]) -> None:
        kind = (holder.role, holder.part)
        numbers = self._known.setdefault(kind, {})
        at, fresh = [], []
        for row, key in enumerate(keys_of(points)):
            if key in training_numbers and not self._has_own(holder):
                at.append(training_numbers[key])
                continue
            if key not in numbers:
                numbers[key] = len(numbers)
                fresh.append(row)
            at.append(numbers[key])
        if fresh:
            self._points.setdefault(kind, []).append(points[fresh])
        places = np.array(at, dtype=np.intp)
        if holder.role != "component" or (places >= 0).all():  # otherwise it has none of its own at a training row
            self._at[id(holder.leaf)] = (kind, places)

    @property
    def size(self) -> int:
        """How many representers."""
        return sum(len(numbers) for numbers in self._known.values())

    def _kinds(self) -> list[tuple[str, Any]]:
        """Return the kinds, those of further values of f first, then those of components; operators as they were
        mentioned.
        """
        return sorted(self._points, key=lambda kind: (READ.index(kind[0]), kind[1] if kind[0] == "component" else 0))

    def readings(self) -> tuple[list[Reading], int]:
        """Return the readings, and how many representers of values of f there are, with the training rows."""
        readings = []
        for role, component in self._kinds():
            readings.append(read(role, _stack(self._points[role, component]), component))
        return readings, self._first + len(self._known.get(("f", 0), {}))

    def places(self) -> dict[int, Numbers]:
        """Return the representers of every mention that has one for each of its points."""
        starts, start = {}, self._first
        for kind in self._kinds():
            starts[kind] = start
            start += len(self._known[kind])
        return {
            leaf: np.where(at < 0, at + self._first, at + starts.get(kind, 0)) for leaf, (kind, at) in self._at.items()
        }

    def count_in_words(self) -> str:
        """Return the number of representers, in words."""
        count = {role: sum(len(self._known[kind]) for kind in self._kinds() if kind[0] == role) for role in READ}
        words = {"f": "further points", "component": "points of components", "operator": "functionals"}
        return ", ".join(f"{count[role]} {words[role]}" for role in READ if count[role])


def keys_of(points: Any) -> Iterable[bytes]:
    """Yield one key per row, equal for equal rows."""
    for rows in row_blocks(points.shape[0], points.shape[1]):
        block = points[rows].toarray() if is_sparse(points) else points[rows]
        yield from (row.tobytes() for row in np.ascontiguousarray(block, dtype=np.float64) + 0.0)  # one zero, not two


def _stack(blocks: list[Any]) -> Any:
    if not any(is_sparse(block) for block in blocks):
        return np.vstack(blocks)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))
