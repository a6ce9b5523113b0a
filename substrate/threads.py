"""How many BLAS threads a matrix deserves.

On small matrices a second thread costs more in waiting than it brings, 10 to 90 times more under load, so
below a measured size linear algebra runs on one thread and above it on as many as the user allows.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["SERIAL_BELOW", "blas_threads"]

#: Order of a matrix below which one thread is used.
SERIAL_BELOW = 1000


@cache
def _controller() -> Any:
    # Finding the loaded libraries costs milliseconds, limiting them microseconds: find them once, after scipy
    # has brought its own BLAS into the process.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()


#: Held by whoever set the limit. The limit belongs to the process: if every fit set and restored its own, one that
#: starts inside another's limit would remember one thread as the original number and leave the process there for good.
_owner = threading.Lock()


@contextmanager
def blas_threads(order: int) -> Iterator[None]:
    """One BLAS thread inside the block when matrices of this order do not repay a second."""
    if order >= SERIAL_BELOW or not _owner.acquire(blocking=False):
        yield  # large enough, or inside somebody's limit already
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _owner.release()
