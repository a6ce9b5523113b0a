"""What is done with a span of rows, wherever it is done: read it, and sum a function of it or apply one to it."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from substrate.streaming.source import LEAF, Block, Source, micro_blocks
from substrate.streaming.tree import SummationTree, height
from substrate.threads import one_blas_thread

__all__ = ["LeafSum", "Span", "Work", "each_of", "highest", "spans", "sum_over", "work_on"]

#: A pure function of the micro-blocks of a leaf; what it returns can be added and pickled.
LeafSum = Callable[[Iterable[Block]], Any]


class Span(NamedTuple):
    """Rows from ``start`` to ``stop``: an aligned power of two of leaves, unless it ends with the last row."""

    start: int
    stop: int
    height: int


def spans(n_rows: int, level: int, start: int = 0) -> Iterator[Span]:
    """All rows from the first of a leaf on in aligned spans, of ``2**level`` leaves as soon as one can begin."""
    while start < n_rows:
        leaf = start // LEAF
        aligned = (leaf & -leaf).bit_length() - 1 if leaf else level
        height = min(level, aligned)
        stop = min(start + (LEAF << height), n_rows)
        yield Span(start, stop, height)
        start = stop


def highest(n_rows: int) -> int:
    """The height of the tree over all rows."""
    return height(-(-n_rows // LEAF))


def sum_over(function: LeafSum, blocks: Iterator[Block]) -> Any:
    """The node of the summation tree over consecutive micro-blocks that begin a leaf."""
    tree = SummationTree()
    for _, leaf in groupby(blocks, key=lambda block: block.start // LEAF):
        tree.push(0, function(leaf))
    return tree.total()


def each_of(function: Callable[[Block], Any], blocks: Iterator[Block]) -> list[Any]:
    """A function of every micro-block, in order."""
    return [function(block) for block in blocks]


#: Either of the two above.
Work = Callable[[Any, Iterator[Block]], Any]


def work_on(work: Work, function: Any, source: Source, span: Span, step: int) -> Any:
    """Read one span and do the work: the whole of what a worker is asked for.

    One BLAS thread: with several, products may be summed in another order, and parts of a pass run side by side anyway.
    """
    with one_blas_thread():
        return work(function, micro_blocks(source.blocks(span.start, span.stop, step)))
