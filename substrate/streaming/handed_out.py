"""Values handed to the workers of a Dask client, also while one of them is dying."""

import time
from typing import Any

from substrate.errors import SolverError

__all__ = ["handed_out"]

_TRIES = 5
#: Seconds to wait before another try; a lost worker is known to be lost by then.
_PAUSE = 0.5


def handed_out(client: Any, value: Any, *, everywhere: bool = False) -> Any:
    """The future of a value that one worker holds, or all of them.

    The connection to a worker that dies at this moment breaks; the next try finds the others.
    """
    for _ in range(_TRIES):
        try:
            return client.scatter(value, broadcast=everywhere, hash=False)
        except OSError:
            time.sleep(_PAUSE)
    raise SolverError(f"the connection to a worker broke {_TRIES} times in a row; look at the logs of the workers")
