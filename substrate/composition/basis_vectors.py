"""The vectors on which a substrate is expanded, where these are not its training points."""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.kernels import Kernel
from substrate.reduced import Basis
from substrate.reduced.choice import chosen_basis
from substrate.streaming.rows import ArraySource

__all__ = ["basis_vectors"]


def basis_vectors(basis: Any, kernel: Kernel, X: Any, y: Array) -> tuple[Any, str]:
    """Return the points that a basis stands for, and how they came about; the rules are those of the estimators."""
    if kernel.pairwise:
        raise DeclarationError("a precomputed matrix has no points that could be a basis; pass X and the kernel itself")
    choice = Basis.of(np.asarray(basis) if isinstance(basis, (list, tuple)) else basis)
    if choice.rule is None:
        choice = choice.with_params(rule="feature_vectors")
    if isinstance(choice.rule, str) and choice.rule == "pruned":
        raise DeclarationError(
            "basis.rule='pruned' ranks rows by a least-squares fit at one gamma, which a machine need not have; take "
            "another rule, or pass the points of a fitted LSSVMRegressor(basis=...)"
        )
    # the ridge is that of the rule above alone
    chosen = chosen_basis(choice, kernel, ArraySource(X, y.reshape(y.shape[0], -1)), 1.0)
    return chosen.points, chosen.description
