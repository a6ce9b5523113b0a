"""The workers of a Dask cluster: each opens its own slice of the source; only sums travel.

A worker that is lost takes nothing with it that could not be computed again. Dask does so by itself for spans and their
sums; the function, which was handed out once, and rows of this process' memory may be lost with their last holder, and
are then handed out again.
"""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import nullcontext
from operator import add
from typing import Any

from substrate.errors import SolverError
from substrate.streaming.executors.base import Executor, Pass
from substrate.streaming.executors.local_cluster import killed_workers, started_workers, without_workers
from substrate.streaming.handed_out import handed_out
from substrate.streaming.span import Span, spans, sum_over, work_on
from substrate.streaming.tree import SummationTree

__all__ = ["DaskClient", "DaskCluster"]

#: Logarithm of the spans that are summed on the workers before a sum comes here, and are asked for at a time.
_GROUP = 2
#: Spans under way for each worker while a group is waited for, at least: the workers do not run dry.
_AHEAD = 4
#: How often a group is handed out again when its data were lost.
_TRIES = 5


class DaskClient(Executor):
    """A client of ``dask.distributed`` that somebody else opened and will close.

    Spans are longer than elsewhere: asking costs more, and a row group of Parquet is read from its beginning however
    little of it is wanted.
    """

    level = 4

    def __init__(self, client: Any, passing: bool = False) -> None:
        self.client = client
        self._passing = (
            passing  # the workers go when the work ends, whichever way, and take with them what is under way
        )

    @property
    def workers(self) -> int:
        """All threads of the cluster, as it is now."""
        return max(int(sum(self.client.ncores().values())), 1)

    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """Groups of neighbouring spans, the next ones under way."""
        height = level + (_GROUP if job.work is sum_over else 0)
        ahead = max(-(-_AHEAD * self.workers // (1 << (height - level))), 2)
        waiting: list[tuple[Span, Any]] = []
        payload = handed_out(self.client, job.function, everywhere=True)
        try:
            for group in spans(stop, height, start):
                waiting.append((group, self._asked(job, payload, group, level)))
                if len(waiting) > ahead:
                    yield self._answered(job, *waiting.pop(0), level)
            while waiting:
                yield self._answered(job, *waiting.pop(0), level)
        finally:
            if not self._passing:
                self.client.cancel([future for _, future in waiting])
            payload.release()

    def _asked(self, job: Pass, payload: Any, group: Span, level: int) -> Any:
        submit, tree = self.client.submit, SummationTree()
        results = []
        for span in spans(group.stop, level, group.start):
            source = job.source.sent(self.client, span.start, span.stop)
            results.append(submit(work_on, job.work, payload, source, span, job.step, pure=False))
        if job.work is not sum_over:
            return results[0]
        for result in results:
            tree.push(level, _Sum(result, submit))
        return tree.total().future

    def _answered(self, job: Pass, group: Span, future: Any, level: int) -> tuple[Span, Any]:
        for _ in range(_TRIES):
            try:
                return group, future.result()
            except CancelledError:  # what was scattered went with its last holder
                payload = handed_out(self.client, job.function, everywhere=True)
                future = self._asked(job, payload, group, level)
        raise SolverError(
            f"the workers lost rows {group.start} to {group.stop - 1} of {job.source.name} {_TRIES} times; look at "
            "their logs, most often they run out of memory: take smaller spans, or a smaller n_basis"
        )


class _Sum:
    """A sum that workers will make of two sums."""

    def __init__(self, future: Any, submit: Any) -> None:
        self.future, self.submit = future, submit

    def __add__(self, other: "_Sum") -> "_Sum":
        return _Sum(self.submit(add, self.future, other.future, pure=False), self.submit)


class DaskCluster(Executor):
    """A scheduler by its address, or, without one, workers of this machine; open for the time of a ``with`` block."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._open: list[Any] = []

    def __enter__(self) -> DaskClient:
        distributed = _distributed()
        try:
            if self.address is None:
                without_workers(distributed, self._open)
                started_workers(*self._open)
            else:
                self._open.append(distributed.Client(self.address, timeout="20s", set_as_default=False))
        except BaseException as error:
            self.__exit__(error)
            raise
        return DaskClient(self._open[-1], passing=self.address is None)

    def __exit__(self, *failure: object) -> None:
        given_up = self.address is None and self._open and any(failure)
        with killed_workers(self._open[0]) if given_up else nullcontext():
            while self._open:
                self._open.pop().close()

    def results(self, job: Pass, start: int, stop: int, level: int) -> Iterator[tuple[Span, Any]]:
        """Opened for one pass."""
        with self as client:
            yield from client.results(job, start, stop, level)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError('executor "dask" needs dask.distributed: pip install "lssvm-substrate[dask]"') from error
    return distributed
