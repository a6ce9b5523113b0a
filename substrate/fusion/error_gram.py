r"""The size of linear functions of an optimum in the norm of the quadratic term, for all directions at once.

For d with :math:`A d = 0` and rows F, a representation :math:`F^T = P X + A^T Y + E` gives for every u

.. math:: u^T F d \le \sigma_u \|d\|_P + (|E|\,|u|)^T |d|, \qquad
          \sigma_u^2 = \|F^T u\|^2_{P^{-1}} = u^T S u, \quad S = X^T P X

(:mod:`substrate.composition.determined`), from one linear system.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram
from substrate.composition.determined import represent
from substrate.composition.feasible_point import Conditions

__all__ = ["ErrorGram"]

_ROOM = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class ErrorGram:
    """S, a bound on its error in the Frobenius norm, and the sizes of E, one column per row of F."""

    gram: Array
    radius: float
    remainder: Array

    @classmethod
    def of(cls, program: ConeProgram, F: Array, conditions: Conditions | None = None) -> "ErrorGram | None":
        """Return S for the rows F; None where P does not determine them."""
        representation = represent(program, np.arange(program.q.size), F, conditions)
        if representation is None:
            return None
        X, remainder = representation
        gram = X.T @ (program.P @ X)
        radius = relative_rounding(X.shape[0]) * float(np.linalg.norm(np.abs(X).T @ (program.sizes[0] @ np.abs(X))))
        gram = (gram + gram.T) / 2.0
        radius = 2.0 * (radius + relative_rounding(F.shape[0]) * float(np.linalg.norm(gram)))
        return cls(gram, radius, remainder) if np.isfinite(gram).all() and np.isfinite(radius) else None

    def along(self, u: Array) -> tuple[float, Array]:
        """sigma_u, and the sizes of what the quadratic term leaves open."""
        square = float(u @ self.gram @ u) + self.radius * float(u @ u)
        return _ROOM * float(np.sqrt(max(square, 0.0))), self.remainder @ np.abs(u)
