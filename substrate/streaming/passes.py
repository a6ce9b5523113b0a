"""A pass over all rows of a source: a sum over them in the one order there is, or a function of each."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import available_memory, positive
from substrate.errors import DataError
from substrate.streaming.array_source import ArraySource
from substrate.streaming.checkpoint import Checkpoint, digest
from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.executors.joblib_threads import Joblib
from substrate.streaming.executors.serial import Serial
from substrate.streaming.progress import RowProgress
from substrate.streaming.source import LEAF, MICRO, Block, Source
from substrate.streaming.span import LeafSum, each_of, highest, sum_over
from substrate.streaming.tree import SummationTree
from substrate.threads import threads_for

__all__ = ["BUDGET", "Passes"]

#: Bytes of rows that a process holds at a time unless somebody says.
BUDGET = 64 * 2**20
#: Copies of a block of rows alive at a time: as read, as numbers, and in the hands of a kernel.
_COPIES = 4


@dataclass(frozen=True, slots=True)
class TakenOfBlock:
    """The rows of a block whose numbers are wanted."""

    wanted: Any

    def __call__(self, block: Block) -> Any:
        """Those that there are, or none."""
        first, last = np.searchsorted(self.wanted, [block.rows.start, block.rows.stop])
        return block.X[self.wanted[first:last] - block.start]


@dataclass(frozen=True, slots=True)
class Passes:
    """By whom, in which memory, from which checkpoint on, and whether a line says how far they are."""

    executor: Executor = field(default_factory=Serial)
    memory_budget: float = BUDGET
    checkpoint: Checkpoint | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        positive(self.memory_budget, "memory_budget")

    def step(self, source: Source) -> int:
        """Rows to read at a time: a multiple of :data:`~substrate.streaming.source.MICRO` within the budget."""
        rows = int(self.memory_budget / (8.0 * _COPIES * (source.n_features + 1)))
        return min(max(rows // MICRO, 1) * MICRO, LEAF << self.executor.level)

    def shared(self, source: Source, order: int) -> Self:
        """The same for sums of matrices of an order: where they deserve threads, the spans are shared out among them.

        Products are then made side by side, each on one thread, so that their bits do not depend on how many there are.
        """
        if not (isinstance(self.executor, Serial) and source.seekable) or self.executor.alone:
            return self
        held = 8.0 * order * order * (highest(source.n_rows) + 2)  # the tree of a span, and the sums in the making
        threads = min(threads_for(order), max(int(available_memory() / (2.0 * held)), 1))
        return self if threads == 1 else replace(self, executor=Joblib(threads))

    def sums(self, source: Source, function: LeafSum, what: str) -> Any:
        """The sum of a function of leaves over all rows, gone on with where a checkpoint has a part of it."""
        if self.checkpoint is None:
            start, tree, name = 0, SummationTree(), ""
        else:
            name = digest(function)
            start, tree = self.checkpoint.begun(name, function)
        row = start
        results = self._results(Pass(sum_over, function, source, self.step(source)), start, what)
        try:
            with closing(results):  # whatever happens, the line is cleared and the workers are told before we go on
                for stop, height, value in results:
                    tree.push(height, value)
                    row = stop
                    if self.checkpoint is not None:
                        self.checkpoint.at(name, row, tree)
        except BaseException:
            if self.checkpoint is not None and row > start:
                self.checkpoint.write()
            raise
        return tree.total()

    def each(self, source: Source, function: Callable[[Block], Any], what: str) -> Generator[Any, None, None]:
        """The function of every micro-block, in order."""
        with closing(self._results(Pass(each_of, function, source, self.step(source)), 0, what)) as parts:
            for _, _, results in parts:
                yield from results

    def taken(self, source: Source, rows: Any) -> Any:
        """The rows with the given numbers, in ascending order; several workers look for them together."""
        if isinstance(self.executor, Serial) or isinstance(source, ArraySource):
            return source.taken(rows)
        return np.concatenate(list(self.each(source, TakenOfBlock(np.asarray(rows, dtype=np.intp)), "some rows")))

    def without_checkpoint(self) -> Self:
        """The same for a pass that is not worth keeping."""
        return replace(self, checkpoint=None)

    def _results(self, job: Pass, start: int, what: str) -> Generator[tuple[int, int, Any], None, None]:
        """The row after each result, its height in the tree, and the result."""
        source = job.source
        if not (source.seekable or isinstance(self.executor, Serial)):
            raise DataError(
                f"{source.name} can be read by this process only, from the first row on; leave executor at None, or "
                "write the rows to Parquet or .npy files, which all workers can open"
            )
        level = self.executor.span_level(source.n_rows)
        progress = RowProgress(what, source.n_rows, self.verbose, start)
        try:
            progress.at(start)
            if start < source.n_rows:
                for span, result in self.executor.results(job, start, source.n_rows, level):
                    yield span.stop, span.height, result
                    progress.at(span.stop)
        finally:
            progress.close()
