r"""Quadratic programs as ECOS takes them: the squares in a cone.

ECOS has no quadratic objective. With :math:`P = F^T F`

.. math:: \tfrac12 x^T P x \le t \quad \Longleftrightarrow \quad
          \Big\| \big( F x,\; t - \tfrac12 \big) \Big\| \le t + \tfrac12 ,

so :math:`\min q^T x + t` under this cone and the constraints :math:`A x + s = b` of the program has its minimum, its
multipliers, and its units: what cvxpy compiles for ECOS itself has squares of other units than their variables.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array

__all__ = ["solve_by_ecos"]

#: What ECOS's exit flags are called by Clarabel, whose data and answers these are; -4 is an interrupt.
_STATUS = {0: "Solved", 1: "PrimalInfeasible", 2: "DualInfeasible", 10: "AlmostSolved", 11: "AlmostPrimalInfeasible"}
_STATUS |= {12: "AlmostDualInfeasible", -1: "MaxIterations"}


def solve_by_ecos(data: Mapping[str, Any], verbose: bool, options: Mapping[str, Any]) -> Any:
    """Return ECOS's answer to a program as cvxpy compiles it for Clarabel, in the form of Clarabel's answers."""
    import cvxpy as cp
    import ecos

    dims, q, b = data["dims"], np.asarray(data["c"], dtype=np.float64), np.asarray(data["b"], dtype=np.float64)
    if dims.psd or dims.p3d or dims.pnd:
        raise cp.error.SolverError("ECOS has no cones of matrices or of powers")
    n, equal = q.size, int(dims.zero)
    A, F = sp.csr_matrix(data["A"]), _root(data.get("P"), n)
    place = np.arange(equal, b.size - 3 * dims.exp)
    # ECOS has the entries of an exponential cone in another order
    turned = (b.size - 3 * dims.exp + np.arange(3 * dims.exp).reshape(-1, 3))[:, [0, 2, 1]].ravel()
    r, half = F.shape[0], np.array([0.5])
    top = sp.csr_matrix(([-1.0], ([0], [n])), shape=(1, n + 1))
    wide = sp.hstack([A, sp.csr_matrix((b.size, 1))], format="csr")
    squares = sp.vstack([top, sp.hstack([-F, sp.csr_matrix((r, 1))]), top]) if r else sp.csr_matrix((0, n + 1))
    G = sp.vstack([wide[place], squares, wide[turned]], format="csc")
    h = np.concatenate([b[place], *((half, np.zeros(r), -half) if r else ()), b[turned]])
    c = np.append(q, float(r > 0))
    if not r:
        G, wide, c = G[:, :n], wide[:, :n], c[:n]
    cones = {"l": int(dims.nonneg), "q": [*map(int, dims.soc), *([r + 2] if r else [])], "e": int(dims.exp)}
    equalities = (sp.csc_matrix(wide[:equal]), b[:equal]) if equal and wide[:equal].nnz else (None, None)
    answer = ecos.solve(c, G if h.size else None, h if h.size else None, cones, *equalities, verbose=verbose, **options)
    if answer["info"]["exitFlag"] == -4:
        raise KeyboardInterrupt
    x, z = np.asarray(answer["x"])[:n], np.zeros(b.size)
    if equalities[0] is not None:
        z[:equal] = answer["y"]
    below = np.asarray(answer["z"])
    z[place], z[turned] = below[: place.size], below[below.size - turned.size :]
    return SimpleNamespace(
        status=_STATUS.get(answer["info"]["exitFlag"], "NumericalError"),
        x=x,
        z=z,
        obj_val=float(q @ x + 0.5 * np.square(F @ x).sum()),
        solve_time=answer["info"]["timing"]["runtime"],
        iterations=answer["info"]["iter"],
    )


def _root(P: Any, n: int) -> Array:
    """Return F with F'F = P, one row for every positive eigenvalue."""
    if P is None or not P.nnz:
        return np.zeros((0, n))
    P = sp.csc_matrix(P)
    (columns,) = np.nonzero(np.diff(P.indptr))
    values, vectors = np.linalg.eigh(P[columns][:, columns].toarray())
    kept = values > 0.0
    F = np.zeros((int(kept.sum()), n))
    F[:, columns] = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    return F
