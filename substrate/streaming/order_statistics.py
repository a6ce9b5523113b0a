r"""Exact order statistics of a number a row, of any number of rows, by counting passes.

A double is a key of 64 bits that sorts as the number does. Sixteen bits of the keys are counted in a pass,

.. math:: h_j = \#\{i : \text{bits of } \kappa(v_i) = j\}, \qquad
          j^* = \min \Big\{ j : \sum_{k \le j} h_k > r \Big\},

and the bin :math:`j^*` that holds rank r is all that the next pass looks at. As soon as what is left is few enough it
is gathered and sorted. So the r-th smallest number is found exactly, in five passes at most and, up to :data:`GATHERED`
rows, in one; memory does not depend on the number of rows. Nothing is rounded, hence nothing depends on who counts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.streaming.source import Block
from substrate.streaming.span import LeafSum

__all__ = ["GATHERED", "Counted", "CountsOfLeaf", "order_statistics"]

#: Numbers that are gathered and sorted rather than counted: 8 MB of them.
GATHERED = 1 << 20
_BITS, _ALL = 16, 64
_SIGN = np.uint64(1 << 63)


def keys_of(values: Array) -> NDArray[np.uint64]:
    """Integers in the order of the numbers: the sign bit turned, and of negative numbers all others too."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.asarray(np.where(bits & _SIGN, ~bits, bits | _SIGN))


def value_of(key: int) -> float:
    """The number of a key."""
    bits = np.uint64(key)
    return float(np.asarray(bits & ~_SIGN if bits & _SIGN else ~bits).view(np.float64))


class Bracket(NamedTuple):
    """Keys that begin with the given bits, to be gathered or to be counted by their next ones."""

    prefix: int
    bits: int
    gathered: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """Of each bracket the counts of its bins, or what was gathered; and the largest absolute value of all."""

    parts: tuple[Any, ...]
    gathered: tuple[bool, ...]
    largest: float

    def __add__(self, other: "Counted") -> "Counted":
        parts = tuple(
            np.concatenate([one, another]) if together else one + another
            for one, another, together in zip(self.parts, other.parts, self.gathered, strict=True)
        )
        return Counted(parts, self.gathered, max(self.largest, other.largest))


@dataclass(frozen=True, slots=True)
class CountsOfLeaf:
    """``values`` is a pure function from a micro-block to a number a row."""

    values: Callable[[Block], Array]
    brackets: tuple[Bracket, ...]

    def __call__(self, blocks: Iterable[Block]) -> Counted:
        """Over the micro-blocks of a leaf."""
        values = np.concatenate([np.zeros(0), *(self.values(block) for block in blocks)])
        keys = keys_of(values)
        parts: list[Any] = []
        for bracket in self.brackets:
            inside = keys >> np.uint64(_ALL - bracket.bits) == bracket.prefix if bracket.bits else slice(None)
            if bracket.gathered:
                parts.append(values[inside])
                continue
            bins = keys[inside] >> np.uint64(_ALL - bracket.bits - _BITS) & np.uint64((1 << _BITS) - 1)
            parts.append(np.bincount(bins.astype(np.int64), minlength=1 << _BITS))
        gathered = tuple(bracket.gathered for bracket in self.brackets)
        return Counted(tuple(parts), gathered, float(np.abs(values).max(initial=0.0)))


@dataclass(frozen=True, slots=True)
class _Search:
    """Where a rank is: a prefix of its key, how many keys are below the prefix, and how many have it."""

    rank: int
    prefix: int
    bits: int
    below: int
    inside: int

    def bracket(self, most: int) -> Bracket:
        return Bracket(self.prefix, self.bits, self.inside <= most)

    def narrowed(self, counts: Any) -> "_Search":
        cumulated = np.cumsum(counts)
        place = int(np.searchsorted(cumulated, self.rank - self.below, side="right"))
        below = self.below + (int(cumulated[place - 1]) if place else 0)
        return _Search(self.rank, self.prefix << _BITS | place, self.bits + _BITS, below, int(counts[place]))


def order_statistics(
    sums: Callable[[LeafSum], Any],
    values: Callable[[Block], Array],
    n: int,
    ranks: Iterable[int],
    most: int = GATHERED,
) -> tuple[dict[int, float], float]:
    """The numbers of the given ranks (from 0) among those of n rows, and the largest absolute value.

    ``sums`` makes a pass: it sums a function of leaves over all rows.
    """
    open_ = [_Search(rank, 0, 0, 0, n) for rank in sorted(set(ranks))]
    found: dict[int, float] = {}
    largest = 0.0
    while open_:
        brackets = tuple(dict.fromkeys(search.bracket(most // len(open_)) for search in open_))
        counted: Counted = sums(CountsOfLeaf(values, brackets))
        largest = counted.largest
        still: list[_Search] = []
        parts = {
            bracket: np.sort(part) if bracket.gathered else part
            for bracket, part in zip(brackets, counted.parts, strict=True)
        }
        for search in open_:
            bracket = search.bracket(most // len(open_))
            if bracket.gathered:
                found[search.rank] = float(parts[bracket][search.rank - search.below])
                continue
            narrower = search.narrowed(parts[bracket])
            if narrower.bits == _ALL:
                found[search.rank] = value_of(narrower.prefix)
            else:
                still.append(narrower)
        open_ = still
    return found, largest
