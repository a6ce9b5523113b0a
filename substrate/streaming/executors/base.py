"""What every executor is: a value that does the work on spans and hands the results back in their order."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from substrate.streaming.source import LEAF, Source
from substrate.streaming.span import Span, Work, highest

__all__ = ["Executor", "Pass"]


#: Spans that a worker gets, at least, so that none waits long for the last one.
_SPANS_A_WORKER = 2


class Pass(NamedTuple):
    """What to do with the rows of a source: the work, its function, and how many rows to read at a time."""

    work: Work
    function: Any
    source: Source
    step: int


class Executor(ABC):
    """An executor is its own copy: it may hold a connection, which cannot be copied."""

    #: Logarithm of the leaves of a span: long enough to repay the asking, short enough to share out and to report.
    level: int = 2

    @property
    def workers(self) -> int:
        """How many spans are worked on at a time."""
        return 1

    def span_level(self, n_rows: int) -> int:
        """The height of the spans of so many rows: two or more a worker, where there are enough leaves for that."""
        leaves = -(-n_rows // LEAF)
        shared = max(leaves // (_SPANS_A_WORKER * self.workers), 1).bit_length() - 1
        return min(self.level, shared if self.workers > 1 else highest(n_rows))

    @abstractmethod
    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """The result of every span of the rows, from the first of a leaf on, in their order.

        Of sums, several neighbours may come as one: a higher span, with the sum of theirs.
        """

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *failure: object) -> None:
        return

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self
