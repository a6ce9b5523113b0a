r"""Executors: values that compute a function of spans of rows and return the results in the order of the spans.

A worker reads a span, and sums a function of it or applies one to it. The order of summation is the same for all
executors, an aligned binary tree over leaves of a fixed number of rows,

.. math:: S_{k, j} = S_{k-1, 2j} + S_{k-1, 2j+1}, \qquad S_{0, j} = \text{the sum over leaf } j,

where a right child that does not exist adds nothing. Floating-point sums depend on their order; here the order is a
property of the rows, so any aligned part has the same bits on one process or many. It is also
pairwise summation, whose rounding grows with the logarithm of the number of leaves ([Higham2002]_ section 4.2).

Partial sums are held like the digits of a binary counter: for m leaves, at most :math:`\log_2 m + 1` of them.

The executors of this module are one process, one span after another; joblib, threads of this process unless another
backend is configured; and the device that holds the rows: one span and one block of all of them, with large tiles.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, Self

from substrate.streaming.source import LEAF, Block, Source, micro_blocks
from substrate.threads import one_blas_thread

__all__ = [
    "Device",
    "Executor",
    "Joblib",
    "LeafSum",
    "Pass",
    "Results",
    "Serial",
    "Span",
    "SummationTree",
    "Work",
    "each_of",
    "height",
    "highest",
    "leaves",
    "spans",
    "sum_over",
    "work_on",
]


def height(leaves: int) -> int:
    """Return the smallest k with 2^k at least the number of leaves."""
    return max(leaves - 1, 0).bit_length()


class SummationTree:
    """Nodes from left to right, each with its height, added as soon as a pair is complete."""

    def __init__(self, nodes: list[tuple[int, Any]] | None = None) -> None:
        self.nodes: list[tuple[int, Any]] = [] if nodes is None else list(nodes)

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


def spans(n_rows: int, level: int, start: int = 0) -> Iterator[Span]:
    """Yield all rows from the first of a leaf on in aligned spans, of ``2**level`` leaves where the alignment allows
    it.
    """
    while start < n_rows:
        leaf = start // LEAF
        aligned = (leaf & -leaf).bit_length() - 1 if leaf else level
        height = min(level, aligned)
        stop = min(start + (LEAF << height), n_rows)
        yield Span(start, stop, height)
        start = stop


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


def each_of(function: Callable[[Block], Any], blocks: Iterator[Block]) -> list[Any]:
    """Return a function of every micro-block, in order."""
    return [function(block) for block in blocks]


#: Either of the two above.
Work = Callable[[Any, Iterator[Block]], Any]


def work_on(work: Work, function: Any, source: Source, span: Span, step: int) -> Any:
    """Read one span and do the work: the complete task of a worker.

    One BLAS thread: with several, products may be summed in another order, and parts of a pass run in parallel anyway.
    """
    with one_blas_thread():
        return work(function, micro_blocks(source.blocks(span.start, span.stop, step)))


#: Smallest number of spans per worker, so that none waits long for the last one.
_SPANS_A_WORKER = 2


class Pass(NamedTuple):
    """A task on the rows of a source: the work, its function, and the number of rows to read at a time."""

    work: Work
    function: Any
    source: Source
    step: int


#: Spans in the order of their rows, each with its result.
Results = Generator[tuple[Span, Any], None, None]


class Executor(ABC):
    """Copies of an executor are the executor itself: it may hold a connection, which cannot be copied."""

    #: Logarithm of the leaves of a span: long enough to outweigh its overhead, short enough to distribute and report.
    level: int = 2

    @property
    def workers(self) -> int:
        """Return the number of spans computed at a time."""
        return 1

    def span_level(self, n_rows: int) -> int:
        """Return the height of the spans: two or more per worker, where there are enough leaves for that."""
        leaves = -(-n_rows // LEAF)
        shared = max(leaves // (_SPANS_A_WORKER * self.workers), 1).bit_length() - 1
        return min(self.level, shared if self.workers > 1 else highest(n_rows))

    @abstractmethod
    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Return the result of every span of the rows, from the first of a leaf on, in their order.

        Sums of neighbouring spans may be combined: a higher span, with their sum.
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


@dataclass(frozen=True)
class Serial(Executor):
    """This process; with ``alone``, even where threads would be faster.

    A sum over rows needs no spans here: the pass itself calls its function, leaf by leaf
    (:meth:`~substrate.streaming.passes.OpenPasses.sums`).
    """

    alone: bool = False

    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Open the source once: rows that can only be read from the beginning are read once per pass."""
        following = spans(stop, level, start)
        span = next(following)

        def span_of(block: Block) -> Span:
            nonlocal span
            span = span if block.start < span.stop else next(following)
            return span

        blocks = micro_blocks(job.source.blocks(start, stop, job.step))
        for key_of_span, inside in groupby(blocks, key=span_of):
            with one_blas_thread():
                result = job.work(job.function, inside)
            yield key_of_span, result


@dataclass(frozen=True)
class Joblib(Executor):
    """Spans in parallel; ``joblib.parallel_config`` selects another backend, or their number."""

    n_jobs: int | None = None

    @property
    def workers(self) -> int:
        """Return the number given here or by ``parallel_config``; otherwise the number of cores."""
        from joblib import effective_n_jobs

        count = int(effective_n_jobs(self.n_jobs))
        return count if self.n_jobs is not None or count > 1 else int(effective_n_jobs(-1))

    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Yield results by threads, unless joblib is configured otherwise: BLAS and numpy release the interpreter."""
        from joblib import Parallel, delayed

        every = list(spans(stop, level, start))
        work = Parallel(n_jobs=self.workers, prefer="threads", return_as="generator")
        tasks = (delayed(work_on)(job.work, job.function, job.source, span, job.step) for span in every)
        with one_blas_thread():  # for threads; another process sets its own
            yield from zip(every, work(tasks), strict=True)


@dataclass(frozen=True)
class Device(Executor):
    """Rows that are on a device stay there: nothing is read, and sums are computed in place."""

    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Yield one result, of all rows."""
        yield Span(start, stop, level), job.work(job.function, job.source.blocks(start, stop, stop - start))
