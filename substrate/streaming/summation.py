r"""Sums over rows in a fixed order, whoever adds them.

The order of summation is an aligned binary tree over leaves of a fixed number of rows,

.. math:: S_{k, j} = S_{k-1, 2j} + S_{k-1, 2j+1}, \qquad S_{0, j} = \text{the sum over leaf } j,

where a right child that does not exist adds nothing. Floating-point sums depend on their order; here the order is a
property of the rows, so any aligned part has the same bits in one thread or on many workers. It is also
pairwise summation, whose rounding grows with the logarithm of the number of leaves ([Higham2002]_ section 4.2).

Partial sums are held like the digits of a binary counter: for m leaves, at most :math:`\log_2 m + 1` of them.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from substrate.streaming.source import LEAF, Block

__all__ = ["LeafSum", "Span", "SummationTree", "height", "highest", "leaves", "spans", "sum_over"]


def height(leaves: int) -> int:
    """Return the smallest k with 2^k at least the number of leaves."""
    return max(leaves - 1, 0).bit_length()


class SummationTree:
    """Nodes from left to right, each with its height, added as soon as a pair is complete."""

    def __init__(self) -> None:
        self.nodes: list[tuple[int, Any]] = []

    def push(self, level: int, value: Any) -> None:
        """Append the next node to the right; only the last may have fewer leaves than its height implies."""
        if self.nodes and self.nodes[-1][0] < level:
            raise ValueError(f"a node of height {level} cannot follow one of height {self.nodes[-1][0]}")
        while self.nodes and self.nodes[-1][0] == level:
            value = self.nodes.pop()[1] + value
            level += 1
        self.nodes.append((level, value))

    def total(self) -> Any:
        """Return the root: the remaining nodes are added from the right."""
        if not self.nodes:
            raise ValueError("a tree without leaves has no sum")
        value = self.nodes[-1][1]
        for _, node in reversed(self.nodes[:-1]):
            value = node + value
        return value


#: A pure function of the micro-blocks of a leaf; its results can be added and pickled.
LeafSum = Callable[[Iterable[Block]], Any]


class Span(NamedTuple):
    """Rows from ``start`` to ``stop``: an aligned power of two of leaves, unless it ends with the last row."""

    start: int
    stop: int
    height: int


def spans(stop: int, level: int, start: int = 0) -> Iterator[Span]:
    """Yield the rows from the first of an aligned span up to ``stop`` in spans of ``2**level`` leaves."""
    for first in range(start, stop, LEAF << level):
        yield Span(first, min(first + (LEAF << level), stop), level)


def highest(n_rows: int) -> int:
    """Return the height of the tree over all rows."""
    return height(-(-n_rows // LEAF))


def leaves(blocks: Iterator[Block]) -> Iterator[tuple[int, Iterator[Block]]]:
    """Yield the leaves of consecutive micro-blocks that begin one: the row after a complete leaf, and its blocks."""
    for number, leaf in groupby(blocks, key=lambda block: block.start // LEAF):
        yield (number + 1) * LEAF, leaf


def sum_over(function: LeafSum, blocks: Iterator[Block]) -> Any:
    """Return the node of the summation tree over consecutive micro-blocks that begin a leaf."""
    tree = SummationTree()
    for _, leaf in leaves(blocks):
        tree.push(0, function(leaf))
    return tree.total()
