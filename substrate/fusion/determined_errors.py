r"""How far validation errors in one direction, and the change of a ridge weight, can move an optimum.

For d with :math:`A d = 0`, a representation :math:`c = P X + A^T Y + E` of a linear function of the optimum gives

.. math:: c^T d \le \sigma_c \|d\|_P + |E|^T |d|, \qquad \sigma_c^2 = \|c\|^2_{P^{-1}} = X^T P X

(:mod:`substrate.composition.determined`), from one linear system. The validation errors are M x, so that
:math:`c = M^T u` for the direction u: where no weight is in P, the representations of the rows of M are combined. With
a ridge weight :math:`P(\tau)` is factored once for each of its values, and :math:`c = P_1 z` is needed too.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram
from substrate.composition.determined import represent
from substrate.composition.feasible_point import Conditions
from substrate.fusion.affine_program import AffineProgram

__all__ = ["DeterminedErrors"]

_ROOM = 1.0 + 1e-9
#: Ridge weights whose factors are kept.
_KEPT = 64
#: Further error of predictions, in units in which solutions are of the order of one.
_UNTIED = 1e-3


@dataclass(slots=True)
class DeterminedErrors:
    """A program, the rows M with their representation at the lowest ridge weight, and programs at a ridge weight."""

    program: AffineProgram
    M: Array
    lowest: tuple[Array, Array] | None = field(init=False)
    factored: dict[float, tuple[ConeProgram, Conditions]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lowest = self._represent(self.M, self.program.lowest)

    def is_determined(self, x: Array) -> bool:
        """Return whether the quadratic term determines the validation errors, at its weakest."""
        return self.lowest is not None and bool(
            float(np.linalg.norm(self.lowest[1].T @ self.program.radius(x))) <= _UNTIED
        )

    def along(self, u: Array, tau: float) -> tuple[float, Array]:
        """Return sigma_u at a ridge weight, and the sizes of E."""
        rounding = relative_rounding(u.size + 4.0) * (np.abs(self.M).T @ np.abs(u))
        if self.program.ridge >= 0 or self.lowest is None:
            return self._bound_function(self.M.T @ u, rounding, tau)
        X, E = self.lowest
        sigma = self._length(X @ u, np.abs(X) @ np.abs(u), self.program.lowest)
        return sigma, E @ np.abs(u) + rounding

    def covariance(self, z: Array, tau: float) -> tuple[float, Array]:
        """Return the bound and the sizes of E in the direction P1 z."""
        P1 = sp.csr_array(self.program.P1)
        rounding = relative_rounding(np.diff(P1.indptr).max(initial=0) + 4.0) * (abs(P1) @ np.abs(z))
        return self._bound_function(P1 @ z, rounding, tau)

    def largest(self, tau: float) -> float:
        """Return the largest sigma_u of all directions, nearly."""
        found = self._represent(self.M, tau)
        return np.inf if found is None else float(np.sqrt(np.linalg.norm(self.M @ found[0], 2)))

    def _bound_function(self, c: Array, rounding: Array, tau: float) -> tuple[float, Array]:
        """Return the bound and the sizes of E of one linear function, whose coefficients have these errors."""
        found = self._represent(c[None, :], tau)
        if found is None:
            return np.inf, np.zeros(c.size)
        X, E = found[0][:, 0], found[1][:, 0]
        return self._length(X, np.abs(X), tau), E + rounding

    def _length(self, X: Array, sizes: Array, tau: float) -> float:
        """Return the norm of X at a ridge weight, rounded up; ``sizes`` are those of the terms that X is a sum of."""
        P, size_of_P = self.factored[tau][0].P, self.factored[tau][0].sizes[0]
        rounding = relative_rounding(4.0 * (X.size + self.M.shape[0])) * float(sizes @ (size_of_P @ sizes))
        return _ROOM * float(np.sqrt(max(float(X @ (P @ X)), 0.0) + rounding))

    def _represent(self, F: Array, tau: float) -> tuple[Array, Array] | None:
        """Return X, and the sizes of E, for the rows F at a ridge weight; None where P does not determine them."""
        if tau not in self.factored:
            program = replace(self.program.program, P=self.program.quadratic(tau))
            try:
                self.factored[tau] = program, Conditions(program.P, program.equalities)
            except RuntimeError:  # singular
                return None
            if len(self.factored) > _KEPT:
                self.factored.pop(next(iter(self.factored)))
        program, conditions = self.factored[tau]
        found = represent(program, np.arange(program.q.size), F, conditions)
        return found if found is not None and all(np.isfinite(part).all() for part in found) else None
