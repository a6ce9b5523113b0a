"""What the pages of machines on a reduced basis share: which points are the basis."""

from typing import Any

import numpy as np

from substrate.closed_form.basis_selection.candidates import Candidates
from substrate.closed_form.basis_selection.feature_vectors import select_feature_vectors
from substrate.closed_form.column_selection import support_count
from substrate.errors import DataError
from substrate.gram import Gram

__all__ = ["basis_points"]


def basis_points(gram: Gram, n_basis: Any, basis: Any) -> Any:
    """The points named by ``basis``; with None as many feature vectors as ``n_basis`` says, a number or a share."""
    count = support_count(n_basis, gram.n, "n_basis")
    if basis is not None:
        return _given(basis, gram.n)
    every = np.arange(gram.n)
    chosen = select_feature_vectors(Candidates(None, gram.matrix, every, every), count).rows
    return chosen if chosen.size else every[:1]  # a matrix of zeros spans nothing


def _given(basis: Any, n: int) -> Any:
    """Points among n, in the order given; one named twice counts once in the span, and is kept once."""
    kept = np.asarray(basis)
    if kept.ndim != 1 or kept.size == 0 or kept.dtype.kind not in "iu" or not 0 <= kept.min() <= kept.max() < n:
        raise DataError(f"basis must be a list of points, integers from 0 to {n - 1}, received {basis!r}")
    _, first = np.unique(kept, return_index=True)
    return kept[np.sort(first)].astype(np.intp)
