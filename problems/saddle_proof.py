"""The proof of a least-squares machine that is given by its kernel matrix, for pages with such a closed form."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from substrate.arrays import Array, positive, real_targets, row_weights
from substrate.gram import Gram
from substrate.kernels import Precomputed
from substrate.proof import Proof
from substrate.proof.least_squares import prove_expansion

__all__ = ["prove_saddle"]


def prove_saddle(
    K: Any, y: Any, gamma: float, weights: Any, solution: Mapping[str, Array], signs: Array | None = None
) -> Proof:
    """Prove how near K alpha + b is to the exact optimum, relative to the entries of the matrix.

    ``signs`` are the labels by which a classifier's support values are multiplied.
    """
    matrix = np.asarray(K.matrix if isinstance(K, Gram) else K, dtype=np.float64)
    target = real_targets(y, matrix.shape[0])
    alpha = np.asarray(solution["support_values"]) if signs is None else signs * solution["support_values"]
    bias = float(solution["bias"])
    v = row_weights(weights, target.size)
    return prove_expansion(
        Precomputed(), matrix, target, positive(gamma, "gamma"), v, alpha, bias, matrix @ alpha + bias
    )
