"""Passes over all rows of a source: a sum over them in a fixed order, or a function of each block.

Rows in memory and blocks are read in this process; sums of large matrices are distributed among its threads. A Dask
collection is computed by Dask, with the scheduler that is configured there: threads, or the workers of a cluster where
a client is open. A worker that is lost is replaced by Dask, which computes its part again. Where a computation is
interrupted, Dask drops its tasks; what its client and its workers print then is theirs.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Self

from substrate.arrays import available_memory
from substrate.namespaces import HOST
from substrate.streaming.source import LEAF, MICRO, Block, Source, micro_blocks
from substrate.streaming.summation import LeafSum, Span, SummationTree, highest, spans, sum_over
from substrate.threads import one_blas_thread, threads_for

__all__ = ["OpenPasses"]

#: Bytes of rows that a process reads at a time, and copies of them: as read, as numbers, and in a kernel.
_BUDGET, _COPIES = 64 * 2**20, 4
#: Logarithm of the leaves that are read at a time at most.
_LEVEL = 2
#: Spans of a thread, where there are enough leaves, so that all of them end at about the same time.
_SPANS_A_THREAD = 2
#: For Dask: logarithms of the most leaves of a task, of the tasks there are at least, and of those sent together.
_TASK, _TASKS, _TOGETHER = 4, 5, 8

#: A function and blocks of rows: their sum, or the list of what the function makes of each.
Work = Callable[[Any, Iterator[Block]], Any]


def each_of(function: Callable[[Block], Any], blocks: Iterator[Block]) -> list[Any]:
    """Return a function of every micro-block, in order."""
    return [function(block) for block in blocks]


def _step(source: Source) -> int:
    """Return rows to read at a time: a multiple of :data:`~substrate.streaming.source.MICRO` within the budget."""
    rows = int(_BUDGET / (8.0 * _COPIES * (source.n_features + 1)))
    return min(max(rows // MICRO, 1) * MICRO, LEAF << _LEVEL)


def work_on(work: Work, function: Any, source: Source, span: Span, step: int) -> Any:
    """Return the work on one span, on one BLAS thread."""
    with one_blas_thread():
        return work(function, micro_blocks(source.blocks(span.start, span.stop, step)))


@dataclass(frozen=True, slots=True)
class OpenPasses:
    """Passes over rows, whose spans are shared among ``threads``."""

    threads: int = 1

    def share(self, source: Source, order: int) -> Self:
        """Return the same for sums of matrices of an order: where threads pay off, spans are shared among them.

        Products are then computed in parallel, each on one thread, so that their bits do not depend on their number.
        """
        if not source.seekable:
            return self
        n_bytes = 8.0 * order * order * (highest(source.n_rows) + 2)  # the tree of a span, and the sums being computed
        return replace(self, threads=min(threads_for(order), max(int(available_memory() / (2.0 * n_bytes)), 1)))

    def sums(self, source: Source, function: LeafSum) -> Any:
        """Return the sum of a function of leaves over all rows.

        In this thread the function is called here, so that rows in memory are no further away than a loop.
        """
        n_rows = source.n_rows
        if source.home != HOST:
            return sum_over(function, source.blocks(0, n_rows, n_rows))
        if not source.is_dask and self.threads == 1:
            with one_blas_thread():
                return sum_over(function, micro_blocks(source.blocks(0, n_rows, _step(source))))
        tree = SummationTree()
        for span, value in self._results(sum_over, function, source):
            tree.push(span.height, value)
        return tree.total()

    def each(self, source: Source, function: Callable[[Block], Any]) -> Generator[Any, None, None]:
        """Yield the function of every micro-block, in order; of rows on a device, of all of them at once."""
        n_rows = source.n_rows
        if source.home != HOST:
            yield from each_of(function, source.blocks(0, n_rows, n_rows))
        elif source.is_dask or self.threads > 1:
            for _, values in self._results(each_of, function, source):
                yield from values
        else:
            for block in micro_blocks(source.blocks(0, n_rows, _step(source))):
                with one_blas_thread():
                    value = function(block)
                yield value

    def _results(self, work: Work, function: Any, source: Source) -> Iterator[tuple[Span, Any]]:
        """Return spans in the order of their rows, each with the work on it."""
        of_all = _dask_results if source.is_dask else self._thread_results
        return of_all(work, function, source, _step(source))

    def _thread_results(self, work: Work, function: Any, source: Source, step: int) -> Iterator[tuple[Span, Any]]:
        from joblib import Parallel, delayed

        n_leaves = -(-source.n_rows // LEAF)
        level = min(_LEVEL, max(n_leaves // (_SPANS_A_THREAD * self.threads), 1).bit_length() - 1)
        every = list(spans(source.n_rows, level))
        parallel = Parallel(n_jobs=self.threads, backend="threading", return_as="generator")
        with one_blas_thread():
            results = parallel(delayed(work_on)(work, function, source, span, step) for span in every)
            yield from zip(every, results, strict=True)


def _dask_results(work: Work, function: Any, source: Source, step: int) -> Iterator[tuple[Span, Any]]:
    """Yield aligned groups of spans, each with the work on it by Dask: sums are added where they were computed."""
    import dask

    level = min(_TASK, max(highest(source.n_rows) - _TASKS, 0))
    is_sum = work is sum_over
    for group in spans(source.n_rows, level + _TOGETHER):
        # one task for the function, which may hold large matrices and is needed by all others
        shared = dask.delayed(function, traverse=False, pure=False)
        tasks = [
            dask.delayed(work_on, pure=False)(work, shared, source.delay(span.start, span.stop), span, step)
            for span in spans(group.stop, level, group.start)
        ]
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            if is_sum:
                tree = SummationTree()
                for task in tasks:
                    tree.push(level, task)
                yield group, tree.total().compute()
            else:
                yield group, list(chain.from_iterable(dask.compute(*tasks)))
