r"""A quadratic program without the variables that equalities define, solved by PIQP.

cvxpy writes :math:`\|y - F x\|^2` with variables :math:`e = y - F x` of their own. An equality with a column that is in
no other row and no inequality defines the variable of that column, and :math:`x = T z + c` with fewer z. The multiplier
of such a row follows from stationarity in that column (*balanced*), so that its residual there is of rounding size.

With targets far from zero c is large, and the slope at z = 0 has lost the digits that matter. A program is therefore
solved for the step from a point near its optimum, where it has not: with x at that point the slope
:math:`T^T (P x + q)` is a sum of terms of their final size.

Nothing here is trusted: the point is judged in the program as it was given.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.cone_program import IntegerArray

__all__ = ["EliminatedProgram"]

Point = tuple[Array, Array]

#: Rounds in which rows may be added and removed, and steps of refinement at most: a weak direction needs many.
_ROUNDS, _REFINEMENTS = 6, 24
#: Entries of a program up to which it is solved by dense matrices.
_DENSE = 4_000_000
#: Diagonal that makes the system of the optimality conditions regular.
_REGULAR = 1e-10


@dataclass(frozen=True, slots=True)
class EliminatedProgram:
    """x = T z + c; the reduced P0, P1, equalities and inequalities; the rows and columns that were eliminated."""

    T: Any
    c: Array
    P0: Array
    P1: Array
    A: Array
    b: Array
    G: Array
    h: Array
    rows: IntegerArray
    columns: IntegerArray
    pivots: Array
    kept: IntegerArray
    whole: tuple[Any, Any, Any, Any]

    @classmethod
    def of(cls, P0: Any, P1: Any, A: Any, b: Array, G: Any, h: Array) -> "EliminatedProgram":
        """Return the reduced form of a program."""
        n, by_column = P0.shape[0], sp.csc_array(A)
        by_column.eliminate_zeros()
        free = (np.diff(by_column.indptr) == 1) & (np.diff(sp.csc_array(G).indptr) == 0)
        chosen: dict[int, tuple[int, float]] = {}
        for column in np.flatnonzero(free):
            at = by_column.indptr[column]
            row, value = int(by_column.indices[at]), float(by_column.data[at])
            if row not in chosen or abs(value) > abs(chosen[row][1]):
                chosen[row] = (int(column), value)
        rows = np.array(sorted(chosen), dtype=np.intp)
        columns = np.array([chosen[int(row)][0] for row in rows], dtype=np.intp)
        pivots = np.array([chosen[int(row)][1] for row in rows])
        kept_columns = np.setdiff1d(np.arange(n), columns)
        T = sp.lil_array((n, kept_columns.size))
        T[kept_columns, np.arange(kept_columns.size)] = 1.0
        c = np.zeros(n)
        if rows.size:
            T[columns] = -(sp.diags_array(1.0 / pivots) @ sp.csr_array(A)[rows][:, kept_columns])
            c[columns] = b[rows] / pivots
        T = sp.csr_array(T)
        kept = np.setdiff1d(np.arange(b.size), rows)
        P0_reduced, P1_reduced = ((T.T @ P @ T).toarray() for P in (P0, P1))
        equal, unequal = sp.csr_array(A)[kept], sp.csr_array(G)
        return cls(
            T=T,
            c=c,
            P0=P0_reduced,
            P1=P1_reduced,
            A=(equal @ T).toarray(),
            b=b[kept] - equal @ c,
            G=(unequal @ T).toarray(),
            h=h - unequal @ c,
            rows=rows,
            columns=columns,
            pivots=pivots,
            kept=kept,
            whole=(sp.csr_array(P0), sp.csr_array(P1), sp.csr_array(A), unequal),
        )

    @property
    def width(self) -> int:
        """Return how many variables are left."""
        return int(self.P0.shape[0])

    def _slope(self, q: Array, tau: float, z: Array) -> Array:
        """Return the slope of the objective at z."""
        (P0, P1), x = self.whole[:2], self.T @ z + self.c
        return np.asarray(self.T.T @ (q + P0 @ x + tau * (P1 @ x)))

    def solve(self, q: Array, tau: float, accuracy: float, near: Array | None = None) -> Point | None:
        """x and the multipliers of all rows by PIQP; None where it failed, one that only stalled is judged later.

        ``near`` is a point from which the step is solved for.
        """
        import piqp

        dense = self.G.size + self.P0.size < _DENSE
        solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = accuracy, accuracy, 100, False
        ready = np.asarray if dense else sp.csc_matrix
        P, start = self.P0 + tau * self.P1, np.zeros(self.P0.shape[0]) if near is None else self._free(near)
        equal, limits = self.b - self.A @ start, self.h - self.G @ start
        solver.setup(
            ready(P), self._slope(q, tau, start), ready(self.A), equal, ready(self.G), None, limits, None, None
        )
        status, result = solver.solve(), solver.result
        z, lam, mu = start + np.array(result.x), np.array(result.y), np.maximum(result.z_u, 0.0)
        if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) or not np.isfinite(z).all():
            return None
        return self._whole(q, tau, z, lam, mu)

    def _free(self, x: Array) -> Array:
        """Return z of a point in all variables."""
        return x[np.setdiff1d(np.arange(x.size), self.columns)]

    def _whole(self, q: Array, tau: float, z: Array, lam: Array, mu: Array) -> Point:
        """Return the point in all variables."""
        x = self.T @ z + self.c
        dual = np.zeros(self.rows.size + self.kept.size + mu.size)
        dual[self.kept], dual[self.rows.size + self.kept.size :] = lam, mu
        return x, self.balance(q, tau, x, dual)

    def balance(self, q: Array, tau: float, x: Array, dual: Array) -> Array:
        """Return the multipliers with those of eliminated rows by stationarity."""
        if not self.rows.size:
            return dual
        P0, P1, _, _ = self.whole
        slope = (P0[self.columns] @ x) + tau * (P1[self.columns] @ x) + q[self.columns]
        dual = dual.copy()
        dual[self.rows] = -slope / self.pivots
        return dual

    def guess_rows(self, x: Array, dual: Array) -> list[IntegerArray]:
        """Return guesses of the active rows: those whose multiplier exceeds their slack, in several units of both.

        As they are; with multipliers relative to the largest, as they are as small as the weights that they belong to
        and slacks are not; and with slacks relative to the largest as well. Where the guesses are the same, it is one.
        """
        multipliers = dual[self.rows.size + self.kept.size :]
        slack = np.maximum(self.h - self.G @ self._free(x), 0.0)
        largest, widest = float(multipliers.max(initial=0.0)), float(slack.max(initial=0.0))
        units = ((1.0, 1.0), (largest, max(widest, 1.0)), (largest, widest))
        guesses = [
            np.flatnonzero(multipliers * of_slack > slack * of_multipliers) for of_multipliers, of_slack in units
        ]
        return list({guess.tobytes(): guess for guess in guesses}.values())

    def polish(self, q: Array, tau: float, x: Array, dual: Array) -> Iterator[Point]:
        """Yield points with some rows as equalities, by each guess of the active ones."""
        visited: set[bytes] = set()
        for active in self.guess_rows(x, dual):
            yield from self._exchange_rows(q, tau, x, dual, active, visited)

    def _exchange_rows(
        self, q: Array, tau: float, x: Array, dual: Array, active: IntegerArray, visited: set[bytes]
    ) -> Iterator[Point]:
        """Yield points with some rows as equalities, rows exchanged a few times, until these were visited before."""
        m, P, z = self.rows.size + self.kept.size, self.P0 + tau * self.P1, self._free(x)
        for _ in range(_ROUNDS):
            if active.tobytes() in visited or active.size + self.kept.size > z.size:
                return
            visited.add(active.tobytes())
            C, d = np.vstack([self.A, self.G[active]]), np.append(self.b, self.h[active])
            full = np.block([[P, C.T], [C, np.zeros((d.size, d.size))]])
            shift = np.append(np.full(z.size, _REGULAR), np.full(d.size, -_REGULAR))
            try:
                factor = scipy.linalg.lu_factor(full + np.diag(shift), check_finite=False)
            except (scipy.linalg.LinAlgError, ValueError):
                return
            solution = np.append(z, np.append(dual[self.kept], dual[m + active]))
            before = np.inf
            for _ in range(_REFINEMENTS):
                point, multipliers = solution[: z.size], solution[z.size :]
                missing = np.append(-self._slope(q, tau, point) - C.T @ multipliers, d - C @ point)
                solution = solution + scipy.linalg.lu_solve(factor, missing, check_finite=False)
                size = float(np.abs(missing).max(initial=0.0))
                if not size <= 0.9 * before:  # of rounding size, or no solution
                    break
                before = size
            if not np.isfinite(solution).all():
                return
            point, lam, mu = np.split(solution, [z.size, z.size + self.kept.size])
            multipliers = np.zeros(self.h.size)
            multipliers[active] = np.maximum(mu, 0.0)
            yield self._whole(q, tau, point, lam, multipliers)
            rounding = 1e-13 * max(float(np.abs(point).max(initial=0.0)), 1.0)
            joining = np.flatnonzero(self.h - self.G @ point < -rounding)
            leaving = active[mu < -1e-13 * max(float(np.abs(mu).max(initial=0.0)), 1e-300)]
            active = np.union1d(np.setdiff1d(active, leaving), joining)
