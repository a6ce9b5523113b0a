r"""The path of the L1 substrate in zeta.

.. math:: \min_{a, b} \; \tfrac12 \|y - \Phi a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :math:`\Phi = K`, or any columns). From :math:`\zeta_{max} = (\max c - \min c)/2` with
:math:`c = \Phi^T (y - \bar y 1)`, where a = 0 and where two atoms enter together, one of each sign, down to a smallest
zeta; a, b and the multiplier :math:`\nu` are affine in zeta between knots.

It is walked in :math:`\rho = \|a\|_1`, upward: the residual is the u of :mod:`substrate.paths.block_homotopy`, its rows
are the columns of :math:`\Phi` without their means, the positive atoms are one block and the negative ones another,
because :math:`1^T a = 0` says that each has half of the 1-norm. Without the equality, both signs are one block and the
path is that of the lasso ([Efron2004]_). No column is cut: one that depends on those in use has no slope and waits.
"""

from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array, positive, real_array
from substrate.closed_form.l1_active_set import VIOLATION, correlation_noise
from substrate.closed_form.reflection import reflect
from substrate.errors import DataError, DeclarationError
from substrate.paths.following import Trace, follow
from substrate.paths.knots import Path, SparseRows
from substrate.paths.signed_rows import SignedRows
from substrate.threads import blas_threads

__all__ = ["SMALLEST_ZETA", "CentredColumns", "l1_path", "path_of_columns"]

#: Largest duality gap of a knot, as a share of that of a = 0.
_GAP = 1e-9
#: Where the path ends if nobody says, as a share of zeta_max.
SMALLEST_ZETA = 1e-4


def l1_path(
    Phi: Array,
    y: Array,
    zeta_min: float | None = None,
    *,
    zero_sum: bool = True,
    max_knots: int | None = None,
    random_state: int = 0,
) -> Path:
    """Coefficients, bias and nu for every zeta from ``zeta_min`` up.

    :equation [Pelckmans2005]_ (16): its path in zeta

    Parameters
    ----------
    Phi, y
        Columns to combine, of any number, and one target per row.
    zeta_min
        Where to stop, at or above zero; None for ``SMALLEST_ZETA`` times zeta_max.
    zero_sum
        Whether 1'a = 0 is demanded; the bias is free in any case.
    max_knots
        Most exchanges of atoms; None for 50 per column and 1000 more.
    random_state
        Seed of the choices between exact ties.
    """
    Phi, y = real_array(Phi, "Phi", ndim=2), real_array(y, "y", ndim=1)
    n, p = Phi.shape
    if y.size != n or n < 2:
        raise DataError(f"y must have one entry per row of Phi, at least two: Phi has {n} rows, y has {y.size}")
    if zeta_min is not None and not (np.isfinite(zeta_min) and zeta_min >= 0.0):
        raise DeclarationError(f"zeta_min must be zero or a positive number, received {zeta_min!r}")
    limit = _default_limit(p) if max_knots is None else int(positive(max_knots, "max_knots"))
    with blas_threads(max(n, p)):
        B, target = np.ascontiguousarray(reflect(Phi)[1:].T), reflect(y[:, None])[1:, 0]
        # columns that are constant but for rounding (a kernel far too wide) correlate with nothing
        noise = correlation_noise(Phi, target)
        if n - 1 > p:  # what no column sees of the residual never changes
            Q, R = np.linalg.qr(B.T)
            B, target = np.ascontiguousarray(R.T), Q.T @ target
    columns = CentredColumns(B, target, Phi.mean(axis=0), float(y.mean()), noise)
    return path_of_columns(columns, zeta_min, zero_sum=zero_sum, max_knots=limit, random_state=random_state)


@dataclass(frozen=True, slots=True)
class CentredColumns:
    """Columns and target off the direction 1, in coordinates of any number: a row of ``B`` is a column.

    ``means`` and ``target_mean`` are what was taken off; a correlation below ``noise`` is rounding.
    """

    B: Array
    target: Array
    means: Array
    target_mean: float
    noise: float


def path_of_columns(
    columns: CentredColumns,
    zeta_min: float | None,
    *,
    zero_sum: bool,
    max_knots: int | None = None,
    restarts: int = 0,
    random_state: int = 0,
) -> Path:
    """The path of columns that are centred already; on a stall it is taken up again up to ``restarts`` times."""
    B, target, p = columns.B, columns.target, columns.B.shape[0]
    limit = _default_limit(p) if max_knots is None else max_knots
    with blas_threads(max(B.shape)):
        c = B @ target
        top = float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())
        lowest = SMALLEST_ZETA * top if zeta_min is None else float(zeta_min)
        slack = max(columns.noise, VIOLATION * top)  # from top less this on, zero is what rounding can tell
        if not top > lowest + slack:
            asked = lowest if zeta_min is not None and lowest > 0.0 else top
            return _nothing(p, asked, columns.target_mean, float(c.max() + c.min()) / 2.0)
        block = np.repeat(np.array([0, 1 if zero_sum else 0], dtype=np.int64), p)
        share = 2.0 if zero_sum else 1.0
        problem = SignedRows(B, block, target)
        trace = follow(problem, share * lowest, 0.0, _GAP, limit, restarts, None, random_state)
    return replace(_in_zeta(trace, p, lowest, share, columns.means, columns.target_mean), rounding=slack)


def _default_limit(p: int) -> int:
    return 50 * p + 1000


def _nothing(p: int, zeta: float, mean: float, nu: float) -> Path:
    """The path of which zeta_min leaves only a = 0."""
    none = SparseRows(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), p)
    stop = "a = 0 for every zeta asked for"
    return Path("zeta", np.array([zeta]), none, np.array([[nu]]), np.array([mean]), True, False, True, stop, 0)


def _in_zeta(trace: Trace, p: int, lowest: float, share: float, column_means: Array, mean: float) -> Path:
    """From knots in the 1-norm, upward, to knots in zeta, upward."""
    t = np.array(trace.knots.t)
    zeta = t.sum(axis=1) / share
    keep = np.concatenate([[True], np.diff(np.minimum.accumulate(zeta)) < 0.0])  # zeta falls; rounding may hide it
    (kept,) = np.nonzero(keep)
    lengths = np.array([trace.knots.rows[k].size for k in kept])
    rows = np.concatenate([trace.knots.rows[k] for k in kept])
    eta = np.concatenate([trace.knots.eta[k] for k in kept])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    a = SparseRows(starts, rows % p, np.where(rows < p, eta, -eta), p).reversed()
    nu = (t[kept, 0] - t[kept, -1])[::-1, None] / 2.0
    bias = mean - np.array([column_means @ a[k] for k in range(len(a))])
    at = {float(rho): float(z) for rho, z in zip(trace.knots.rho, zeta, strict=True)}
    holes = tuple((at[high], at[low]) for low, high in trace.holes)
    stop = f"zeta = {lowest:g} was reached" if trace.finished else trace.stop
    done = trace.finished
    below = done and lowest == 0.0
    return Path("zeta", zeta[kept][::-1], a, nu, bias, done, below, True, stop, trace.steps, trace.restarts, holes)
