"""Linear systems of optimality conditions, made regular and refined; and the shortest step that serves given rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from substrate.arrays import Array

__all__ = ["Conditions", "least_step"]

#: Diagonal that makes the system regular; refinement takes its effect out again.
_REGULAR = 1e-9
_REFINEMENTS = 8
#: Entries of a matrix up to which singular values are quicker than a sparse factor.
_SMALL = 20_000


class Conditions:
    """The matrix [P, C'; C, 0], factored; None of its solutions is believed, residuals are for the caller."""

    def __init__(self, P: Any, C: Any) -> None:
        n, m = P.shape[0], C.shape[0]
        size = float(abs(P).max()) if P.nnz else 1.0
        self._full = sp.csc_array(sp.block_array([[P, C.T], [C, sp.csr_array((m, m))]]))
        shift = np.append(np.full(n, _REGULAR * size), np.full(m, -_REGULAR))
        self._factor = splu(sp.csc_matrix(self._full + sp.diags_array(shift)))

    def solve(self, right: Array, start: Array | None = None, refinements: int = _REFINEMENTS) -> Array:
        """A solution of the system as it stands, by refinement."""
        found = np.zeros_like(right) if start is None else start
        for _ in range(refinements):
            found = found + self._factor.solve(right - self._full @ found)
        return found


def least_step(equal: Any, rows: Any, gains: Array) -> Array | None:
    """The shortest h with ``equal @ h = 0`` and ``rows @ h >= gains``, nearly; None where there is none."""
    unit = float(gains.max(initial=0.0))
    if unit <= 0.0:
        return None
    n = rows.shape[1]
    right = np.concatenate([np.zeros(equal.shape[0]), gains / unit])
    if right.size * n <= _SMALL:
        step = np.linalg.lstsq(np.vstack([equal.toarray(), rows.toarray()]), right, rcond=None)[0]
    else:
        step = _by_conditions(sp.vstack([equal, rows], format="csr"), right)
    if not _serves(equal, rows, gains / unit, step):
        other = _by_program(equal, rows, gains / unit)
        if other is None or not _serves(equal, rows, gains / unit, other):
            return None
        step = other
    return np.asarray(unit * step)


def _by_conditions(rows: Any, right: Array) -> Array:
    n = rows.shape[1]
    try:
        return Conditions(sp.eye_array(n, format="csr"), rows).solve(np.append(np.zeros(n), right))[:n]
    except RuntimeError:  # singular all the same
        return np.full(n, np.nan)


def _serves(equal: Any, rows: Any, gains: Array, step: Array) -> bool:
    if not np.isfinite(step).all():
        return False
    size = 1.0 + float(np.abs(step).max(initial=0.0))
    missed = float(np.abs(equal @ step).max(initial=0.0)) if equal.shape[0] else 0.0
    return bool((rows @ step >= 0.9 * gains - 1e-6).all()) and missed <= 1e-6 * size


def _by_program(equal: Any, rows: Any, gains: Array) -> Array | None:
    """By a quadratic program: rows that depend on each other need not gain what is asked, but more."""
    import piqp

    n = rows.shape[1]
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = 1e-9, 1e-9, 100, False
    solver.setup(
        sp.csc_matrix(sp.eye_array(n)), np.zeros(n), sp.csc_matrix(equal), np.zeros(equal.shape[0]),
        sp.csc_matrix(rows), gains, np.full(gains.size, 1e30), None, None,
    )  # fmt: skip
    if solver.solve() != piqp.PIQP_SOLVED:
        return None
    return np.array(solver.result.x)
