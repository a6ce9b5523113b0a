"""What the pages of the substrate share: targets of either task, and quantities in the paper's sign."""

from collections.abc import Callable
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array, real_targets
from substrate.errors import DataError, DeclarationError
from substrate.ingredients import signed_labels

__all__ = ["checked_targets", "in_paper_signs", "validation_rows"]


def checked_targets(y: Any, n: int, task: str, name: str = "y") -> Array:
    """Targets of regression, or labels -1 and +1 of classification, for n rows."""
    if task not in ("regression", "classification"):
        raise DeclarationError(f"task must be 'regression' or 'classification', received {task!r}")
    return real_targets(y, n, name) if task == "regression" else signed_labels(y, n, name)


def validation_rows(K_val: Any, y_val: Any, n: int, task: str) -> tuple[Array, Array]:
    """Kernel values of validation points against the n training points, and their targets or labels."""
    below = real_array(K_val, "K_val", ndim=2)
    if below.shape[1] != n:
        raise DataError(
            f"K_val has a row per validation point and a column per training point: expected {n} columns, "
            f"received shape {below.shape}"
        )
    known = real_array(y_val, "y_val", ndim=1)
    if known.size != below.shape[0]:
        raise DataError(f"y_val must have one entry per row of K_val: expected {below.shape[0]}, received {known.size}")
    if task == "classification" and not np.isin(known, (-1.0, 1.0)).all():
        raise DataError(f"y_val must hold labels -1 and +1, received {np.unique(known)[:5]}")
    return below, known


def in_paper_signs(
    y: Array, task: str, a: Callable[[], Any], b: Callable[[], Any], e: Callable[[], Any]
) -> dict[str, Callable[[], Any]]:
    """Readings of alpha, b, e and c = e - alpha; in classification alpha = y∘a and e = 1 - y∘f = y∘(y - f)."""
    signs = y if task == "classification" else np.ones(y.size)
    return {
        "support_values": lambda: signs * np.asarray(a()),
        "bias": b,
        "errors": lambda: signs * np.asarray(e()),
        "constants": lambda: signs * (np.asarray(e()) - np.asarray(a())),
    }
