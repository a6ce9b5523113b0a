r"""Rows that are active at all vertices of a simplex hold an optimum inside it to the second order.

With slacks :math:`s^\star \ge 0` of the optimum, the chord of :mod:`substrate.fusion.simplex_bound` has a term more:

.. math:: \|d\|_P^2 + \mu(t)^T s^\star \le g(t) = t^T Q t .

So a linear function c of the step d from x(t) to the optimum is bounded, for every :math:`\eta`, by

.. math::

    c^T d = (c - G^T \eta)^T d + \eta^T (s(t) - s^\star)
          \le \|c - G^T \eta\|_{P^{-1}} \sqrt{g(t)} + \kappa \, g(t) + \sum_i t_i \, \eta_+^T s_i , \qquad
    \kappa = \max_r \frac{(-\eta_r)_+}{\min_i \mu_{i,r}} ,

where :math:`\eta_r < 0` for rows with positive multipliers at all vertices only. With :math:`\eta` the multipliers of
the projection of c to the directions in which all these rows are constant, the first term has no part across them, and
what replaces it is of the second order in the size of the simplex. A row whose smallest multiplier is so small that
:math:`\kappa \sqrt{g}` weighs more than it saves is left out.

Whatever :math:`\eta` is, the bound holds, so that it is computed in double precision and nothing of it is trusted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import IntegerArray
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.knot import Knot

__all__ = ["CommonRows", "bend_of", "lift_of"]

#: Smallest multiplier, as a share of the largest, with which a row counts.
_POSITIVE = 1e-7
#: Share of the first-order term that the second-order term of a row may have.
_SHARE = 0.2
#: How often rows are left out, and the steps of refinement of a projection.
_ROUNDS, _REFINEMENTS = 4, 3
#: Order of the largest linear system for a projection.
_LARGEST = 600
#: Diagonal that makes a system regular, as a share of its largest entry.
_REGULAR = 1e-10


@dataclass(frozen=True, slots=True)
class CommonRows:
    """Rows with positive multipliers at all vertices, those multipliers, and the factors of their projection.

    Functions are those of the variables that are left where equalities have defined the others, one a column.
    """

    height: int
    rows: IntegerArray
    least: Array
    matrix: Array
    factor: Any

    @classmethod
    def of(
        cls, program: AffineProgram, knots: Sequence[Knot], tau: float, c: Array, first_order: float, root: float
    ) -> "CommonRows | None":
        """Return the rows that pay for a function c of size ``first_order``, at a radius ``root``; None without any.

        ``tau`` is the smallest ridge weight of the simplex.
        """
        duals = np.array([knot.dual[program.b.size :] for knot in knots])
        least = duals.min(axis=0, initial=np.inf)
        rows = np.flatnonzero(least > _POSITIVE * float(duals.max(initial=0.0)))
        for _ in range(_ROUNDS):
            if not rows.size or program.eliminated.width + rows.size > _LARGEST:
                return None
            common = cls._factored(program, rows, least[rows], tau)
            if common is None:
                return None
            bends = -common.multipliers(c) / common.least * root
            pays = bends <= _SHARE * first_order
            if pays.all():
                return common
            rows = rows[pays]
        return None

    @classmethod
    def _factored(cls, program: AffineProgram, rows: IntegerArray, least: Array, tau: float) -> "CommonRows | None":
        reduced = program.eliminated
        P, C = reduced.P0 + tau * reduced.P1, np.vstack([reduced.A, reduced.G[rows]])
        n, m = C.shape[1], C.shape[0]
        matrix = np.block([[P, C.T], [C, np.zeros((m, m))]])
        shift = _REGULAR * float(np.abs(matrix).max(initial=0.0))
        try:
            factor = scipy.linalg.lu_factor(
                matrix + np.diag(np.append(np.full(n, shift), np.full(m, -shift))), check_finite=False
            )
        except (scipy.linalg.LinAlgError, ValueError):
            return None
        return cls(height=program.h.size, rows=rows, least=least, matrix=matrix, factor=factor)

    def _solve(self, F: Array, refinements: int) -> Array:
        """Return the projections of functions, and then their multipliers, those of these rows last."""
        right = np.vstack([F, np.zeros((self.matrix.shape[0] - F.shape[0], F.shape[1]))])
        solved = np.asarray(scipy.linalg.lu_solve(self.factor, right, check_finite=False))
        for _ in range(refinements):
            solved = solved + scipy.linalg.lu_solve(self.factor, right - self.matrix @ solved, check_finite=False)
        return solved

    def multipliers(self, c: Array) -> Array:
        """Return eta of a function, at these rows."""
        return np.asarray(self._solve(c[:, None], _REFINEMENTS)[-self.rows.size :, 0])

    def pressed(self, c: Array) -> Array:
        """Return eta of a function, at all rows of the program."""
        eta = np.zeros(self.height)
        found = self.multipliers(c)
        eta[self.rows] = np.where(np.isfinite(found), found, 0.0)
        return eta

    def gram(self, F: Array) -> Array:
        """Return the products of functions where these rows are constant, in the norm of the quadratic term, nearly."""
        gram = F.T @ self._solve(F, 0)[: F.shape[0]]
        return np.asarray((gram + gram.T) / 2.0)


def bend_of(eta: Array, duals: Array) -> float:
    """Return kappa for multipliers of the vertices, one row each; infinite where a row that is pressed has none."""
    pressed = eta < 0.0
    if not pressed.any():
        return 0.0
    with np.errstate(divide="ignore"):
        return float((-eta[pressed] / duals[:, pressed].min(axis=0)).max()) * (1.0 + relative_rounding(2.0))


def lift_of(eta: Array, slacks: Array) -> Array:
    """Return what positive entries of eta add at each vertex, by slacks from above, one row each."""
    return np.asarray(slacks @ np.maximum(eta, 0.0)) * (1.0 + relative_rounding(eta.size + 2.0))
