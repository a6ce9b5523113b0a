"""One process, one span after another, read in one go."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.source import Block, micro_blocks
from substrate.streaming.span import Span, spans
from substrate.threads import one_blas_thread

__all__ = ["Serial"]


@dataclass(frozen=True)
class Serial(Executor):
    """This process; ``alone`` also where its products would deserve threads."""

    alone: bool = False

    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """The source is opened once: rows that can only be read from the beginning are read once a pass."""
        following = spans(stop, level, start)
        span = next(following)

        def span_of(block: Block) -> Span:
            nonlocal span
            span = span if block.start < span.stop else next(following)
            return span

        blocks = micro_blocks(job.source.blocks(start, stop, job.step))
        for here, inside in groupby(blocks, key=span_of):
            with one_blas_thread():
                result = job.work(job.function, inside)
            yield here, result
