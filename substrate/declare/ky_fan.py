r"""The sum of the k largest eigenvalues of a symmetric matrix as a convex problem: the relaxation of Ky Fan.

.. math::

    \sum_{i=1}^k \lambda_i(C) = \max_{U^T U = I} \operatorname{tr} U^T C U
    = \max_X \; \langle C, X \rangle \quad \text{s.t.} \quad 0 \preceq X \preceq I, \; \operatorname{tr} X = k
    = \min_t \; k t + \sum_i (\lambda_i(C) - t)_+

([Fan1949]_; [Overton1993]_). Projections :math:`U U^T` are the extreme points of the convex set, so the
relaxation is tight, and its solution is the projection on the leading subspace where that is unique. An eigenproblem
itself is not convex: it is checked by its residual and by a count of eigenvalues, and this problem states a second
time, to a conic solver, which stationary points are the leading ones.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificate import Row, gap_row
from substrate.declare.declared import Declared

__all__ = ["declare_ky_fan"]

#: Why a certificate of the relaxation has no bound on fitted values.
_NO_FITTED = "the problem is one of a subspace; the certificate of the eigenpairs bounds those"


def declare_ky_fan(title: str, C: Array, count: int, record: tuple[tuple[str, str], ...] = ()) -> Declared:
    """Declare the relaxation; its quantities are ``variance``, the value, and ``projector``, X itself."""
    import cvxpy as cp

    n = C.shape[0]
    unit = float(np.abs(C).max(initial=0.0)) or 1.0
    scaled = (C + C.T) / (2.0 * unit)
    X = cp.Variable((n, n), PSD=True, name="X")
    trace: Any = (cp.trace(X) == count).set_label("trace")
    below: Any = (np.eye(n) - X >> 0).set_label("X <= I")
    problem = cp.Problem(cp.Maximize(cp.trace(scaled @ X)), [trace, below])
    values = {"variance": lambda: unit * float(np.sum(scaled * X.value)), "projector": lambda: X.value}

    def rows(tolerance: float) -> tuple[Row, ...]:
        spectrum, levels = np.linalg.eigvalsh((X.value + X.value.T) / 2.0), np.linalg.eigvalsh(scaled)[::-1]
        # of the dual function every t is a bound; the k-th eigenvalue is its minimiser
        t = float(levels[count - 1])
        dual = (count * t, float(np.maximum(levels - t, 0.0).sum()))
        size = float(np.abs(levels).sum())
        outside = max(float(-spectrum.min()), float(spectrum.max()) - 1.0, 0.0)
        return (
            Row(
                name="trace",
                value=float(np.trace(X.value)) - count,
                scale=float(n),
                tolerance=tolerance,
                formula="tr X - k",
            ),
            Row(
                name="0 <= X <= I", value=outside, scale=1.0, tolerance=tolerance, formula="eigenvalues outside [0, 1]"
            ),
            gap_row(dual, (float(np.sum(scaled * X.value)),), tolerance, size),
        )

    def units() -> dict[str, float]:
        return {"variance": unit * float(np.abs(np.linalg.eigvalsh(scaled)).sum()), "projector": 1.0}

    return Declared(title, problem, {}, values, rows, lambda: record, units=units, accuracy=_NO_FITTED)
