"""What the pages of componentwise machines share: one kernel matrix a component."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.gram import Gram

__all__ = ["component_grams", "component_matrices"]


def component_grams(K: Any) -> tuple[Gram, ...]:
    """One Gram a component from a list of matrices (one matrix: one component), refused where one is indefinite."""
    grams = _grams(K)
    for gram in grams:
        gram.coordinates()
    return grams


def component_matrices(K: Any) -> list[Array]:
    """The matrices themselves, for a closed form: it warns of one that is not positive semi-definite."""
    grams = tuple(Gram.from_matrix(gram.matrix) for gram in _grams(K))
    for gram in grams:
        gram.check_definite()
    return [np.array(gram.matrix) for gram in grams]


def _grams(K: Any) -> tuple[Gram, ...]:
    if isinstance(K, Gram):
        return (K,)
    if isinstance(K, (list, tuple)) and len(K) and (isinstance(K[0], Gram) or np.ndim(K[0]) == 2):
        grams = tuple(part if isinstance(part, Gram) else Gram.from_matrix(part) for part in K)
        sizes = sorted({gram.n for gram in grams})
        if len(sizes) > 1:
            raise DataError(f"K must hold matrices of one size, received sizes {sizes}")
        return grams
    if np.ndim(K) == 3:
        raise DataError("K must be a 2-D matrix, or a list of 2-D matrices with one for each component: list(K)")
    return (Gram.from_matrix(K),)
