"""Executors on a Dask cluster: each worker opens its own slice of the source; only sums are transferred.

Work that is lost with a worker is computed again. Dask does so by itself for spans and their sums; the function, which
is sent once, and rows from the memory of this process may be lost with their last holder, and are then sent again.

The workers of a cluster on this machine leave Ctrl-C to the process that started them. A terminal sends it to every
process in the foreground; each worker would print a traceback of its own, possibly in the middle of an import, and be
restarted while its parent tries to end it. So SIGINT is blocked in the thread that starts them, since processes and
threads inherit the mask of their starter. The parent receives the signal, and closes the cluster.

Where the work failed or was interrupted its results are not needed: the workers are then killed at once, and their
messages and those of the scheduler are not printed.

A user gives an executor as a word, the address of a scheduler, a Dask client, or an executor.
"""

import asyncio
import logging
import signal
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from operator import add
from typing import Any

from substrate.errors import DeclarationError, SolverError
from substrate.streaming.array_source import scatter
from substrate.streaming.executors import (
    Executor,
    Joblib,
    Pass,
    Results,
    Serial,
    Span,
    SummationTree,
    spans,
    sum_over,
    work_on,
)

__all__ = ["DaskClient", "DaskCluster", "executor_of"]

#: Seconds in which a worker, which imports numpy and scipy, must have started.
_PATIENCE = 120
#: Seconds that a worker has to end by itself before it is killed.
_MERCY = 0.2


@contextmanager
def _block_interrupts() -> Iterator[None]:
    """Delay SIGINT until the end of the block, and permanently in threads and processes that start inside."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where workers have their own console group
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def without_workers(distributed: Any, opened: list[Any]) -> None:
    """Append a cluster without workers, its scheduler in this process, and a client; interrupts cannot lose them."""
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        # started inside the block it would end it: until Python 3.12 it unblocks what it has not blocked
        resource_tracker.ensure_running()
    with _block_interrupts():
        opened.append(
            distributed.LocalCluster(
                n_workers=0,
                host="127.0.0.1",
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": False},
            )
        )
        opened.append(distributed.Client(opened[-1], timeout="20s", set_as_default=False))


def started_workers(cluster: Any, client: Any) -> None:
    """Start one worker per core; an interrupt is possible meanwhile, and closing the cluster then ends them."""
    from dask.system import CPU_COUNT

    cluster.scale(CPU_COUNT)
    try:
        client.wait_for_workers(CPU_COUNT, timeout=_PATIENCE)
    except TimeoutError as error:
        raise SolverError(
            f"{CPU_COUNT} Dask workers on this machine did not start within {_PATIENCE} s; read their output, "
            "or use executor='joblib'"
        ) from error


@contextmanager
def killed_workers(cluster: Any) -> Iterator[None]:
    """End the workers at once; inside the block the cluster is closed, and Dask prints nothing."""
    handlers = [(handler, handler.level) for handler in logging.getLogger("distributed").handlers]
    for handler, _ in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        cluster.sync(_killed, list(cluster.workers.values()))
        yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


async def _killed(nannies: list[Any]) -> None:
    await asyncio.gather(*(nanny.close(timeout=_MERCY, reason="the work was given up") for nanny in nannies))


#: Logarithm of the number of spans that are submitted together and summed on the workers.
_GROUP = 2
#: Smallest number of submitted spans per worker while a group is awaited, so that no worker is idle.
_AHEAD = 4
#: How often a group is submitted again when its data were lost.
_TRIES = 5


class DaskClient(Executor):
    """A client of ``dask.distributed`` that the user opens and closes.

    Spans are longer than elsewhere: a task costs more, and a row group of Parquet is read from its beginning even for a
    small part of it.
    """

    level = 4

    def __init__(self, client: Any, passing: bool = False) -> None:
        self.client = client
        self._passing = passing  # the workers end with the block, and unfinished tasks with them

    @property
    def workers(self) -> int:
        """Return all threads of the present cluster."""
        return max(int(sum(self.client.ncores().values())), 1)

    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Yield results of groups of neighbouring spans, the next ones submitted already."""
        height = level + (_GROUP if job.work is sum_over else 0)
        ahead = max(-(-_AHEAD * self.workers // (1 << (height - level))), 2)
        waiting: list[tuple[Span, Any]] = []
        payload = scatter(self.client, job.function, everywhere=True)
        try:
            for group in spans(stop, height, start):
                waiting.append((group, self._submit(job, payload, group, level)))
                if len(waiting) > ahead:
                    yield self._await_answer(job, *waiting.pop(0), level)
            while waiting:
                yield self._await_answer(job, *waiting.pop(0), level)
        finally:
            if not self._passing:
                self.client.cancel([future for _, future in waiting])
            payload.release()

    def _submit(self, job: Pass, payload: Any, group: Span, level: int) -> Any:
        submit, tree = self.client.submit, SummationTree()
        results = []
        for span in spans(group.stop, level, group.start):
            source = job.source.send(self.client, span.start, span.stop)
            results.append(submit(work_on, job.work, payload, source, span, job.step, pure=False))
        if job.work is not sum_over:
            return results[0]
        for result in results:
            tree.push(level, _SumOfSpans(result, submit))
        return tree.total().future

    def _await_answer(self, job: Pass, group: Span, future: Any, level: int) -> tuple[Span, Any]:
        for _ in range(_TRIES):
            try:
                return group, future.result()
            except CancelledError:  # scattered data were lost with their last holder
                payload = scatter(self.client, job.function, everywhere=True)
                future = self._submit(job, payload, group, level)
        raise SolverError(
            f"the workers lost rows {group.start} to {group.stop - 1} of {job.source.name} {_TRIES} times; read "
            "their logs, most often they run out of memory: use smaller spans, or a smaller n_basis"
        )


class _SumOfSpans:
    """A future sum of two sums, computed on the workers."""

    def __init__(self, future: Any, submit: Any) -> None:
        self.future, self.submit = future, submit

    def __add__(self, other: "_SumOfSpans") -> "_SumOfSpans":
        return _SumOfSpans(self.submit(add, self.future, other.future, pure=False), self.submit)


class DaskCluster(Executor):
    """A scheduler by its address, or, without one, workers of this machine; open within a ``with`` block."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._open: list[Any] = []

    def __enter__(self) -> DaskClient:
        distributed = _import_distributed()
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

    def results(self, job: Pass, start: int, stop: int, level: int) -> Results:
        """Open the cluster for one pass."""
        with self as client:
            yield from client.results(job, start, stop, level)


def _import_distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError('executor "dask" needs dask.distributed: pip install "lssvm-substrate[dask]"') from error
    return distributed


def is_client(value: Any) -> bool:
    """Return whether a value is a client of ``dask.distributed``, without importing it."""
    return any(cls.__module__.startswith("distributed.") and cls.__name__ == "Client" for cls in type(value).__mro__)


def executor_of(value: Any) -> Executor:
    """Return the executor of None, ``"serial"``, ``"joblib"``, ``"dask"``, ``"tcp://host:port"``, a client, or
    itself.
    """
    if isinstance(value, Executor):
        return value
    if is_client(value):
        return DaskClient(value)
    if value is None:
        return Serial()
    if isinstance(value, str):
        if value == "serial":
            return Serial(alone=True)
        if value == "joblib":
            return Joblib()
        if value == "dask":
            return DaskCluster()
        if "://" in value:
            return DaskCluster(value)
    raise DeclarationError(
        "passes.executor must be None, 'serial', 'joblib', 'dask', the address of a Dask scheduler (tcp://host:8786), "
        f"a dask.distributed Client, or an Executor; received {value!r}"
    )
