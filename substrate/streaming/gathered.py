"""All rows of a source in memory, for machines that compare every row with every other one.

Such a machine takes time in proportion to the square of the rows, so that rows which fit no memory are far more than it
could be fitted to: the kernel matrix must not be held, the rows may be.
"""

from typing import NamedTuple

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.errors import DataError
from substrate.streaming.source import LEAF, Source, refuse_short

__all__ = ["GatheredRows", "gather_rows"]

#: Copies of the rows that a fit makes: checked, scaled, and those that the model keeps.
_COPIES = 3


class GatheredRows(NamedTuple):
    """The rows of a source, their targets (None of rows to predict), and the names of the columns, if any."""

    X: Array
    y: Array | None
    names: tuple[str, ...] | None


def gather_rows(source: Source, advice: str, *, with_targets: bool) -> GatheredRows:
    """Read all rows of a source once, in their order; ``advice`` ends the error where they do not fit memory.

    Rows ``with_targets`` are refused at the first block that has none.
    """
    n, d = source.n_rows, source.n_features
    check_memory(8.0 * _COPIES * n * (d + 1), f"a fit to the {n} rows of {source.name}", advice)
    X, targets, stop = np.empty((n, d)), [], 0
    for block in source.blocks(0, n, LEAF):
        if with_targets and block.Y is None:
            raise DataError(
                f"{source.name} has no targets; name their column of a Parquet file, their .npy file beside that of "
                "the rows, or give blocks (X, y)"
            )
        X[block.rows] = block.X
        targets.append(block.Y)
        stop = block.rows.stop
    refuse_short(source.name, n, stop)
    return GatheredRows(X, np.concatenate(targets) if with_targets else None, source.feature_names)
