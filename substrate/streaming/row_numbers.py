"""Which rows are looked at where all of them would be too many: by their numbers, before anything is read.

The numbers follow from how many rows there are, how many are wanted, and a seed. Where the rows are kept, how they are
read and who reads them is not asked, so that an array and a file of the same rows give the same model.
"""

from typing import Any

import numpy as np

__all__ = ["WIDTH_ROWS", "drawn", "width_rows"]

#: Rows by which a kernel finds its width: all of them up to this many. The heuristic itself sorts these and looks at a
#: thousand, so more of them would not make a width better.
WIDTH_ROWS = 8192
#: A width is part of the kernel and not of what ``random_state`` decides: the same rows whoever asks.
_WIDTH_SEED = 0


def drawn(n: int, count: int | None, generator: np.random.Generator) -> Any:
    """All of n rows, or ``count`` drawn at random, in ascending order; nothing is drawn where all are wanted."""
    if count is None or count >= n:
        return np.arange(n)
    return np.sort(generator.choice(n, size=int(count), replace=False))


def width_rows(n: int) -> Any:
    """The rows of n by which a kernel on a reduced basis finds its width."""
    return drawn(n, WIDTH_ROWS, np.random.default_rng(_WIDTH_SEED))
