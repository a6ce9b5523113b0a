"""One process, one span after another, read in one go."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.source import LEAF, micro_blocks
from substrate.streaming.span import Span
from substrate.threads import one_blas_thread

__all__ = ["Serial"]


@dataclass(frozen=True)
class Serial(Executor):
    """This process."""

    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """The source is opened once: rows that can only be read from the beginning are read once a pass."""
        size = LEAF << level
        blocks = micro_blocks(job.source.blocks(start, stop, job.step))
        for number, inside in groupby(blocks, key=lambda block: block.start // size):
            span = Span(number * size, min((number + 1) * size, stop), level)
            with one_blas_thread():
                result = job.work(job.function, inside)
            yield span, result
