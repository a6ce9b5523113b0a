r"""Which coordinates the quadratic term ties, and what a residual costs there.

For a residual r and :math:`d = x^\star - x` the product :math:`r^T d` is bounded coordinate by coordinate: where P has
an entry alone on its diagonal, by :math:`p_j^{-1/2} \|d\|_P`; where P and the equalities tie :math:`d_j`,

.. math:: |d_j| \le c_j \|d\|_P + |E_j|^T |d| ,

by that (:mod:`substrate.composition.determined`, for one row of the identity); elsewhere by a radius R:

.. math:: |r^T d| \le a \|d\|_P + g^T R .
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import EPS, Array
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.determined import represented

__all__ = ["CoordinateTies"]

#: Factor up to which a coordinate counts as tied, and share of its radius that may be left over.
_STIFF, _LITTLE = 1e6, 1e-3
_ROOM = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class CoordinateTies:
    """The diagonal of P where it stands alone; further columns that are tied, c and the sizes of E of each."""

    alone: Array
    columns: IntegerArray
    factors: Array
    rest: Array

    @classmethod
    def of(cls, program: ConeProgram, largest: int) -> "CoordinateTies":
        """The ties of a program; of one with more variables than ``largest`` those on the diagonal only."""
        weak = np.flatnonzero(program.alone == 0.0)
        known = represented(program, weak, np.eye(weak.size)) if weak.size and program.q.size <= largest else None
        if known is None:
            return cls(program.alone, np.zeros(0, np.intp), np.zeros(0), np.zeros((program.q.size, 0)))
        X, left = known
        size = X.shape[0] * EPS * np.sum(np.abs(X) * (program.sizes[0] @ np.abs(X)), axis=0)
        factors = _ROOM * np.sqrt(np.maximum(np.sum(X * (program.P @ X), axis=0), 0.0) + size)
        use = np.isfinite(factors) & (factors <= _STIFF)
        return cls(program.alone, weak[use], factors[use], left[:, use])

    def split(self, r: Array, radius: Array) -> tuple[float, Array]:
        """a and g for the sizes r of a residual."""
        diagonal = self.alone > 0.0
        a = float(np.linalg.norm(r[diagonal] / np.sqrt(self.alone[diagonal])))
        use = self.rest.T @ radius <= _LITTLE * radius[self.columns]
        tied = self.columns[use]
        g = np.where(diagonal, 0.0, r)
        g[tied] = 0.0
        return a + float(r[tied] @ self.factors[use]), g + self.rest[:, use] @ r[tied]
