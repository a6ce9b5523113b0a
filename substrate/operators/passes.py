r"""Passes over all rows of a source: a sum over them in a fixed order, or a function of each block.

Floating-point sums depend on their order. Here it is a property of the rows: the blocks of a span are added one after
another, then the spans,

.. math:: S = (S_1 + S_2) + S_3 + \dots, \qquad S_k = (B_{k1} + B_{k2}) + B_{k3} + \dots,

so that the bits are the same in one thread, in many, and on the workers of a cluster.

Rows in memory and blocks are read in this process; sums of large matrices are distributed among its threads. A Dask
collection is computed by Dask, with the scheduler that is configured there: threads, or the workers of a cluster where
a client is open. A worker that is lost is replaced by Dask, which computes its part again. Where a computation is
interrupted, Dask drops its tasks; what its client and its workers print then is theirs.

Before a fit the targets are surveyed in one pass over the rows, all of which are checked on the way. The summary of the
targets holds their number, means and extremes, one column per output. The mean of all is :math:`\bar t = \frac{l_1}{l}
\bar t_1 + \frac{l_2}{l} \bar t_2`, without a sum that could overflow.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from operator import add
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    HOST,
    Array,
    available_memory,
    namespace_of,
    on_device_of,
    one_blas_thread,
    threads_for,
    to_numpy,
)
from substrate.errors import DataError
from substrate.operators.sources import (
    BLOCK_ROWS,
    SPAN_ROWS,
    Block,
    RowBlocks,
    SlicedSource,
    Source,
    in_blocks,
    numbers,
)

__all__ = [
    "Labels",
    "Tally",
    "TargetSummary",
    "each_block",
    "sum_blocks",
    "summary_of_targets",
    "survey_targets",
]

#: Tasks that are sent to Dask together.
_TOGETHER = 64


class Tally:
    """The base of dataclasses that hold sums over some rows: adding two of them gives the sums over both.

    Fields are sums, but for those that ``combine`` names with a function of two values, the value of the earlier rows
    first.
    """

    __slots__ = ()

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {}

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        sums = [self.combine.get(name, add)(getattr(self, name), getattr(other, name)) for name in names]
        return type(self)(*sums)


def each_block(source: Source, function: Callable[[Block], Any], order: int = 0) -> Iterator[Any]:
    """Yield the function of every block, in order; of rows on a device, of all of them at once.

    ``order`` is the order of the matrices that are computed: where threads pay off, blocks are shared among them, each
    block on one thread.
    """
    if isinstance(source, SlicedSource) and source.is_dask:
        for values in _each_span(source, list, function):
            yield from values
        return
    if source.home != HOST:
        yield from map(function, source.blocks())
        return
    threads = _threads(source, order)
    if threads == 1:
        for block in source.blocks():
            with one_blas_thread():
                value = function(block)
            yield value
        return
    from joblib import Parallel, delayed

    with one_blas_thread():
        parallel = Parallel(n_jobs=threads, backend="threading", return_as="generator")
        yield from parallel(delayed(function)(block) for block in source.blocks())


def sum_blocks(source: Source, function: Callable[[Block], Any], order: int = 0) -> Any:
    """Return the sum over all rows of a function of blocks, whose values can be added."""
    if isinstance(source, SlicedSource) and source.is_dask:
        return _sum_of(_each_span(source, _sum_of, function))
    total: Any = None
    values = each_block(source, function, order)
    while (span := _sum_of(islice(values, SPAN_ROWS // BLOCK_ROWS))) is not None:
        total = span if total is None else total + span
    return total


def _threads(source: Source, order: int) -> int:
    """Return the number of threads for sums of matrices of an order, as many as the memory allows."""
    if isinstance(source, RowBlocks):  # read in one order
        return 1
    n_bytes = 16.0 * (order + 1) ** 2  # the sum and what is added to it
    return min(threads_for(order), max(int(available_memory() / (2.0 * n_bytes)), 1))


def _sum_of(values: Iterable[Any]) -> Any:
    """Return the sum of values, one after another; None if there are no values."""
    total: Any = None
    for value in values:
        total = value if total is None else total + value
    return total


def _of_blocks(join: Callable[[Iterable[Any]], Any], function: Callable[[Block], Any], rows: Block) -> Any:
    """Return the values of a function of the blocks of a span, joined."""
    with one_blas_thread():
        return join(map(function, in_blocks(rows)))


def _each_span(source: SlicedSource, join: Any, function: Any) -> Iterator[Any]:
    """Yield the joined values of the blocks of every span, which Dask computes; the function, which may hold large
    matrices, is one for all.
    """
    import dask

    shared = dask.delayed(function, traverse=False, pure=False)
    work = dask.delayed(partial(_of_blocks, join), traverse=False, pure=False)
    tasks = (work(shared, rows) for rows in source.delayed_spans())
    while group := list(islice(tasks, _TOGETHER)):
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            computed = dask.compute(*group)
        yield from computed


@dataclass(frozen=True, slots=True)
class TargetSummary(Tally):
    """The number of rows; means, lowest and highest targets."""

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"low": np.minimum, "high": np.maximum}

    count: int
    mean: Array
    low: Array
    high: Array

    def __add__(self, other: "TargetSummary") -> "TargetSummary":
        both = Tally.__add__(self, other)
        return replace(both, mean=self.mean * (self.count / both.count) + other.mean * (other.count / both.count))

    @property
    def extremes(self) -> Array:
        """Return the lowest and the highest targets, in two rows."""
        return np.stack([self.low, self.high])

    def means_in(self, unit: float) -> Array:
        """Return the means in a unit; of a constant target exactly the constant."""
        return np.asarray(np.clip(self.mean / unit, self.low / unit, self.high / unit))


def summary_of_targets(block: Block) -> TargetSummary:
    """Return the summary of the targets of a block, on the host; means are computed in units of a power of two."""
    xp, Y = namespace_of(block.Y), block.Y
    low, high = to_numpy(xp.min(Y, axis=0)), to_numpy(xp.max(Y, axis=0))
    # a power of two near the largest size, in which a sum cannot overflow
    unit = np.exp2(np.clip(np.frexp(np.maximum(np.abs(low), np.abs(high)))[1], -1000, 1000))
    return TargetSummary(block.n_rows, to_numpy(xp.mean(Y / on_device_of(Y, unit), axis=0)) * unit, low, high)


#: Number of different labels above which they are not taken for classes.
MOST_CLASSES = 10_000


@dataclass(frozen=True, slots=True)
class Labels:
    """The classes, sorted, and the number of rows of each."""

    classes: Any
    counts: Any

    def __add__(self, other: "Labels") -> "Labels":
        if (self.classes.dtype.kind == "U") != (other.classes.dtype.kind == "U"):
            raise DataError("some labels are text and some are numbers; make them one or the other")
        classes, places = np.unique(np.concatenate([self.classes, other.classes]), return_inverse=True)
        if classes.size > MOST_CLASSES:
            raise DataError(f"more than {MOST_CLASSES} different labels; are these targets of a regression?")
        counts = np.bincount(places, np.concatenate([self.counts, other.counts]), classes.size)
        return Labels(classes, counts.astype(np.int64))


def survey_targets(labels: bool, name: str, block: Block) -> TargetSummary | Labels:
    """Return the summary of the targets of a block of rows, which are ``labels`` or numbers."""
    if block.Y is None:
        raise DataError(f"{name} has no targets; a fit needs them")
    if labels:
        return Labels(*np.unique(block.Y, return_counts=True))
    return summary_of_targets(block._replace(Y=numbers(block.Y, name, range(block.rows.start, block.rows.stop))))
