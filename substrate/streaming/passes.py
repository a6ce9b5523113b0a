"""A pass over all rows of a source: a sum over them in the one order there is, or a function of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from substrate.arrays import positive
from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.executors.serial import Serial
from substrate.streaming.source import LEAF, MICRO, Block, Source
from substrate.streaming.span import LeafSum, each_of, highest, sum_over
from substrate.streaming.tree import SummationTree

__all__ = ["BUDGET", "Passes"]

#: Bytes of rows that a process holds at a time unless somebody says.
BUDGET = 64 * 2**20
#: Copies of a block of rows alive at a time: as read, as numbers, and in the hands of a kernel.
_COPIES = 4


@dataclass(frozen=True, slots=True)
class Passes:
    """By whom, and in which memory."""

    executor: Executor = field(default_factory=Serial)
    memory_budget: float = BUDGET

    def __post_init__(self) -> None:
        positive(self.memory_budget, "memory_budget")

    def step(self, source: Source) -> int:
        """Rows to read at a time: a multiple of :data:`~substrate.streaming.source.MICRO` within the budget."""
        rows = int(self.memory_budget / (8.0 * _COPIES * (source.n_features + 1)))
        return min(max(rows // MICRO, 1) * MICRO, LEAF << self.executor.level)

    def sums(self, source: Source, function: LeafSum, what: str) -> Any:
        """The sum of a function of leaves over all rows."""
        level = min(self.executor.level, highest(source.n_rows))
        tree = SummationTree()
        job = Pass(sum_over, function, source, self.step(source))
        for span, result in self.executor.results(job, 0, source.n_rows, level):
            tree.push(span.height, result)
        return tree.total()

    def each(self, source: Source, function: Callable[[Block], Any], what: str) -> Iterator[Any]:
        """The function of every micro-block, in order."""
        level = min(self.executor.level, highest(source.n_rows))
        job = Pass(each_of, function, source, self.step(source))
        for _, results in self.executor.results(job, 0, source.n_rows, level):
            yield from results
