"""Proofs of machines on a reduced basis: what the model stores, handed to ball arithmetic."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.kernels import Kernel
from substrate.proof import Proof
from substrate.proof.reduced import BasisRows, prove_reduced

__all__ = ["basis_rows", "proof_of_outputs"]


def basis_rows(kernel: Kernel, X: Any, points: Any, support: Any) -> BasisRows:
    """Rows and basis; of a precomputed kernel the columns and the square that belong to the basis."""
    if not kernel.pairwise:
        return BasisRows(kernel, X, points)
    matrix = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return BasisRows(None, matrix[:, support], matrix[support][:, support])


def proof_of_outputs(
    rows: BasisRows, Y: Array, gamma: float, weights: Array, fitted: Array, rank: int, tolerance: float
) -> Proof:
    """The proof of every output, of which the worst speaks."""
    found: list[Proof] = [
        prove_reduced(rows, Y[:, k], gamma, weights, fitted[:, k], rank, tolerance=tolerance) for k in range(Y.shape[1])
    ]
    return min(found, key=lambda one: one.digits)
