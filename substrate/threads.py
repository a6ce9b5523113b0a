"""The number of BLAS threads for a matrix of a given order.

On small matrices a second thread costs more in waiting than it gains, 10 to 90 times more under load, so
below a measured size linear algebra runs on one thread and above it on as many as the user allows.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl

__all__ = ["SERIAL_BELOW", "blas_threads", "one_blas_thread", "threads_for"]

#: Order of a matrix below which one thread is used.
SERIAL_BELOW = 1000


@cache
def _controller() -> Any:
    # Finding the loaded libraries costs milliseconds, limiting them microseconds: find them once, after scipy
    # has brought its own BLAS into the process.
    import scipy.linalg  # noqa: F401

    return threadpoolctl.ThreadpoolController()


@cache
def _libraries() -> tuple[Any, ...]:
    return tuple(_controller().select(user_api="blas").lib_controllers)


#: How many blocks require one thread now, and the limit that the first of them set, None where there is one thread
#: anyway: to ask takes a tenth of the time to set and restore. The limit belongs to the process:
#: if every fit set and restored its own, one that starts inside another's limit would take one thread for the original
#: number and restore that; and if the first restored it, the others would continue with many.
_guard = threading.Lock()
_holders = 0
_limit: Any = None


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.8 accepts limits only from the first thread that sets one.

    A worker's thread would then compute with many BLAS threads, and round as many do; and a limit that one thread set
    could not be lifted by another. Ours are set and lifted under a lock, by any thread.
    """
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside the block, for the whole process."""
    global _holders, _limit
    with _guard:
        if _holders == 0 and any(library.num_threads != 1 for library in _libraries()):
            _take_control()
            _limit = _controller().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _guard:
            _holders -= 1
            if _holders == 0 and _limit is not None:
                _take_control()
                _limit.restore_original_limits()
                _take_control()  # so that the next thread may set limits
                _limit = None


def threads_for(order: int) -> int:
    """Return the number of threads for matrices of this order: one, or as many as BLAS may use at present."""
    if order < SERIAL_BELOW:
        return 1
    counts = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
    return int(max(counts, default=1))


@contextmanager
def blas_threads(order: int) -> Iterator[None]:
    """Use one BLAS thread inside the block when matrices of this order do not repay a second."""
    if order >= SERIAL_BELOW:
        yield
        return
    with one_blas_thread():
        yield
