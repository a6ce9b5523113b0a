r"""How far validation errors in one direction, and the change of a ridge weight, can move an optimum.

The validation errors are M x, and :math:`\sigma_u = \|M^T u\|_{P^{-1}}` bounds them in the direction u
(:mod:`substrate.fusion.error_gram`). With a ridge weight :math:`P(\tau)` changes, and it is computed at a few values.
Between two of them, for :math:`\tau = (1 - s) \tau_0 + s \tau_1`,

.. math:: \sigma_u(\tau)^2 \le (1 - s) \, \sigma_u(\tau_0)^2 + s \, \sigma_u(\tau_1)^2 ,

since :math:`c^T d = (1-s) c^T d + s\, c^T d \le (1-s) \sigma_0 \|d\|_0 + s\, \sigma_1 \|d\|_1` and
:math:`\|d\|^2_{P(\tau)} = (1-s) \|d\|_0^2 + s \|d\|_1^2` (Cauchy-Schwarz). The same holds for :math:`c = P_1 z`.
A search over one weight has so few intervals that one linear system for each direction, at the weight itself, costs
less than those of all directions at a few weights.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.feasible_point import Conditions
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.error_gram import ErrorGram

__all__ = ["DeterminedErrors"]

#: Ratio of neighbouring ridge weights at which S is computed.
_RATIO = 1.25
_ROOM = 1.0 + 1e-9
#: Ridge weights whose factors are kept.
_KEPT = 64
#: Further error of predictions, in units in which solutions are of the order of one.
_UNTIED = 1e-3


@dataclass(slots=True)
class DeterminedErrors:
    """A program, the rows M, the rows of P1 that are not zero, and what is known at the values of ``taus``."""

    program: AffineProgram
    M: Array
    taus: Array
    rows: IntegerArray
    grams: dict[int, ErrorGram | None] = field(default_factory=dict)
    #: Programs at a ridge weight with their conditions, where directions are looked at one by one.
    factored: dict[float, tuple[ConeProgram, Conditions]] = field(default_factory=dict)

    @classmethod
    def of(cls, program: AffineProgram, M: Array, highest: float) -> "DeterminedErrors":
        """Prepare ridge weights from the smallest of the program to ``highest``."""
        if program.ridge < 0:
            return cls(program, M, np.zeros(1), np.zeros(0, dtype=np.intp))
        count = int(np.ceil(np.log(highest / program.lowest) / np.log(_RATIO))) + 1
        taus = np.geomspace(program.lowest, highest, max(count, 2))
        taus[0], taus[-1] = program.lowest, highest
        return cls(program, M, taus, np.flatnonzero(np.diff(program.P1.indptr)))

    def is_determined(self, x: Array) -> bool:
        """Return whether the quadratic term determines the validation errors, at its weakest."""
        gram = self._at(0)
        if gram is None:
            return False
        remainder = gram.remainder[:, : self.M.shape[0]].T @ self.program.radius(x)
        return bool(np.isfinite(gram.gram).all() and float(np.linalg.norm(remainder)) <= _UNTIED)

    def along(self, u: Array, tau: float) -> tuple[float, Array]:
        """sigma_u at a ridge weight, and the sizes of E."""
        if self._is_single:
            rounding = relative_rounding(u.size + 4.0) * (np.abs(self.M).T @ np.abs(u))
            return self.function(self.M.T @ u, rounding, tau)
        return self._bound(np.append(u, np.zeros(self.rows.size)), tau)

    def covariance(self, z: Array, tau: float) -> tuple[float, Array]:
        """Return the bound and the remainder in the direction P1 z."""
        if self._is_single:
            P1 = sp.csr_array(self.program.P1)
            rounding = relative_rounding(np.diff(P1.indptr).max(initial=0) + 4.0) * (abs(P1) @ np.abs(z))
            return self.function(P1 @ z, rounding, tau)
        return self._bound(np.append(np.zeros(self.M.shape[0]), z[self.rows]), tau)

    def largest(self, tau: float) -> float:
        """Return the largest sigma_u of all directions, nearly."""
        k = max(int(np.searchsorted(self.taus, tau, side="right")) - 1, 0)
        gram, m = self._at(k), self.M.shape[0]
        return np.inf if gram is None else float(np.sqrt(np.linalg.norm(gram.gram[:m, :m], 2)))

    @property
    def _is_single(self) -> bool:
        """Return whether one weight of squares is all that is searched."""
        return self.program.ridge >= 0 and self.program.q.shape[0] == 1

    def function(self, c: Array, rounding: Array, tau: float) -> tuple[float, Array]:
        """Return the bound and the remainder of one linear function of the optimum, at a ridge weight.

        ``rounding`` are the errors of its coefficients.
        """
        if tau not in self.factored:
            cone_program = replace(self.program.program, P=self.program.quadratic(tau))
            try:
                self.factored[tau] = cone_program, Conditions(cone_program.P, cone_program.equalities)
            except RuntimeError:  # singular
                return np.inf, np.zeros(c.size)
            if len(self.factored) > _KEPT:
                self.factored.pop(next(iter(self.factored)))
        cone_program, conditions = self.factored[tau]
        gram = ErrorGram.of(cone_program, c[None, :], conditions)
        if gram is None:
            return np.inf, np.zeros(c.size)
        sigma, remainder = gram.along(np.ones(1))
        return sigma, remainder + rounding

    def _bound(self, c: Array, tau: float) -> tuple[float, Array]:
        k = min(int(np.searchsorted(self.taus, tau, side="right")) - 1, max(self.taus.size - 2, 0))
        k = max(k, 0)
        if self.taus.size == 1:
            return self._single(c, 0)
        share = float(np.clip((tau - self.taus[k]) / (self.taus[k + 1] - self.taus[k]), 0.0, 1.0))
        if share == 0.0:
            return self._single(c, k)
        (low, radius_low), (high, radius_high) = self._single(c, k), self._single(c, k + 1)
        return _ROOM * float(np.sqrt((1.0 - share) * low**2 + share * high**2)), np.maximum(radius_low, radius_high)

    def _single(self, c: Array, k: int) -> tuple[float, Array]:
        gram = self._at(k)
        return (np.inf, np.zeros(self.program.q0.size)) if gram is None else gram.along(c)

    def _at(self, k: int) -> ErrorGram | None:
        if k not in self.grams:
            given_program, tau = self.program, float(self.taus[k])
            program = (
                given_program.program
                if given_program.ridge < 0
                else replace(given_program.program, P=given_program.quadratic(tau))
            )
            F = self.M
            if not self._is_single:
                F = np.vstack([F, sp.csr_array(given_program.P1)[self.rows].toarray()])
            self.grams[k] = ErrorGram.of(program, F)
        return self.grams[k]
