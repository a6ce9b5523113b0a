"""The targets of a substrate: one number or label per point, or a column of them per output."""

import warnings
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array
from substrate.errors import DataError
from substrate.ingredients import signed_labels

__all__ = ["checked_targets", "without_single_column"]


def without_single_column(targets: Array, name: str = "y") -> Array:
    """Return targets of shape (n, 1) as a vector, with scikit-learn's warning; others as they are.

    A column beside a vector of values is broadcast: ``y - s.f()`` would be an n x n matrix.
    """
    if targets.ndim != 2 or targets.shape[1] != 1:
        return targets
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        f"{name} of shape {targets.shape} is one column, where one number per row was expected; it is used as "
        f"{name}.ravel(). Give it so, also in terms of your own such as y - s.f()",
        DataConversionWarning,
        stacklevel=4,
    )
    return targets[:, 0]


def checked_targets(y: Any, n: int, task: str) -> Array:
    """Return one target per point, or a column of them per output."""
    targets = without_single_column(real_array(y, "y", ndim=(1, 2)))
    if targets.shape[0] != n:
        raise DataError(f"y must have one entry per point: expected {n}, received {targets.shape[0]}")
    if task == "classification" and targets.ndim == 2:
        return np.column_stack([signed_labels(column, n, f"y[:, {j}]") for j, column in enumerate(targets.T)])
    return signed_labels(targets, n) if task == "classification" else targets
