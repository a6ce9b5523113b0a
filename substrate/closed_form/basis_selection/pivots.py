r"""The pivots of a pivoted Cholesky factorisation: at each step the point farthest from the span of the chosen ones.

The largest remaining diagonal entry is the largest squared reconstruction error, so this is the greedy rule for the
worst point where :mod:`~substrate.closed_form.basis_selection.feature_vectors` is the one for the mean
([Harbrecht2012]_).
"""

import numpy as np

from substrate.certificates.rows import EPS
from substrate.closed_form.basis_selection.candidates import Candidates, Chosen

__all__ = ["select_pivots"]


def select_pivots(candidates: Candidates, count: int, tolerance: float = 0.0) -> Chosen:
    """Choose up to ``count``; stop where the mean relative diagonal left is at ``tolerance``, or nothing is left."""
    rows = candidates.rows
    own = candidates.diagonal(rows)
    whole = np.where(own > 0.0, own, 1.0)
    floor = max(rows.size, 1) * EPS * float(own.max(initial=0.0))
    L = np.zeros((count, rows.size))
    chosen: list[int] = []
    remaining = own.copy()
    while len(chosen) < count:
        k, pivot = len(chosen), int(remaining.argmax())
        if remaining[pivot] <= floor:
            return Chosen(rows[chosen], "a complete basis")
        error = float(np.mean(remaining / whole))
        if error <= tolerance and tolerance > 0.0:  # at nought only a complete basis ends it
            return Chosen(rows[chosen], f"a mean reconstruction error of {error:.2e}")
        column = candidates.block(rows, rows[[pivot]])[:, 0] - L[:k].T @ L[:k, pivot]
        L[k] = column / np.sqrt(remaining[pivot])
        remaining = np.maximum(remaining - L[k] ** 2, 0.0)
        remaining[pivot] = 0.0
        chosen.append(pivot)
    return Chosen(rows[chosen], f"{count} vectors")
