"""The targets of a substrate: one number or label per point, or a column of them per output."""

from typing import Any

import numpy as np

from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.ingredients import signed_labels

__all__ = ["checked_targets"]


def checked_targets(y: Any, n: int, task: str) -> Array:
    """One target per point, or a column of them per output."""
    known = real_array(y, "y", ndim=(1, 2))
    if known.shape[0] != n:
        raise DataError(f"y must have one entry per point: expected {n}, received {known.shape[0]}")
    if task == "classification" and known.ndim == 2:
        return np.column_stack([signed_labels(column, n, f"y[:, {j}]") for j, column in enumerate(known.T)])
    return signed_labels(y, n) if task == "classification" else known
