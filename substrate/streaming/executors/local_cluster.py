"""A Dask cluster of this machine whose workers leave Ctrl-C to the process that started them.

A terminal sends Ctrl-C to every process in the foreground. The workers must not act on it: each would print a
traceback of its own, in the middle of an import as likely as not, and be started again while its parent tries to end
it. So SIGINT is blocked in the thread that starts them; a process inherits what its starter blocks, and a thread
likewise. The parent hears the signal, and closes the cluster.

Where the work failed or was interrupted nothing of it is wanted: the workers are then killed in the middle of what they
do, and what they and the scheduler say of that is not printed.
"""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from substrate.errors import SolverError

__all__ = ["killed_workers", "started_workers", "without_workers"]

#: Seconds in which a worker, which imports numpy and scipy, must have started.
_PATIENCE = 120
#: Seconds that a worker is given to end by itself before it is killed.
_MERCY = 0.2


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """SIGINT waits until the end of the block, and for good in threads and processes that begin inside."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where workers have their own console group
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def without_workers(distributed: Any, opened: list[Any]) -> None:
    """Append a cluster, its scheduler in this process and no worker yet, and a client; no interrupt can lose them."""
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        # started inside the block it would end it: until Python 3.12 it unblocks what it has not blocked
        resource_tracker.ensure_running()
    with _interrupts_blocked():
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
    """One worker for each core; while they start, this can be interrupted, and closing the cluster then ends them."""
    from dask.system import CPU_COUNT

    cluster.scale(CPU_COUNT)
    try:
        client.wait_for_workers(CPU_COUNT, timeout=_PATIENCE)
    except TimeoutError as error:
        raise SolverError(
            f"{CPU_COUNT} Dask workers on this machine did not start within {_PATIENCE} s; look at what they printed, "
            "or take executor='joblib'"
        ) from error


@contextmanager
def killed_workers(cluster: Any) -> Iterator[None]:
    """End the workers now; inside the block the cluster is closed, and Dask is silent."""
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
