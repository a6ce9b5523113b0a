r"""The solution paths of the L1 substrate in zeta and of maximal variation in rho.

The L1 substrate is

.. math:: \min_{a, b} \; \tfrac12 \|y - \Phi a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :math:`\Phi = K`, or any columns). Its path runs from
:math:`\zeta_{max} = (\max c - \min c)/2` with :math:`c = \Phi^T (y - \bar y 1)`, where a = 0 and where two atoms enter
together, one of each sign, down to a smallest zeta; a, b and the multiplier :math:`\nu` are affine in zeta between
knots.

It is followed in :math:`\rho = \|a\|_1`, upward: the residual is the u of
:mod:`substrate.penalized.homotopy.block_homotopy`, its rows are the columns of :math:`\Phi` without their means, the
positive atoms are one block and the negative ones another, because by :math:`1^T a = 0` each has half of the 1-norm.
Without the equality, both signs are one block and the path is that of the lasso ([Efron2004]_). No column is removed:
one that depends on those in use has no slope and does not enter.

Maximal variation is

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \rho \sum_{l=1}^d \|B^l u\|_\infty
   \qquad \Longleftrightarrow \qquad
   \min_\xi \; \tfrac12 \|\tilde y - \sum_l B^{lT} \xi^l\|^2 \;\; \text{s.t.} \;\; \|\xi^l\|_1 \le \rho ,

[Pelckmans2005]_ eq. (25) in coordinates u of the fitted values, :math:`B^l u` the values of component l. It is followed
upward from :math:`\rho = 0`, where :math:`u = \tilde y` and :math:`\xi = 0`, to the smallest rho from which on all
components vanish. In :mod:`substrate.penalized.homotopy.block_homotopy` each component is a block with both signs of
its rows.

Any strictly convex quadratic takes this form, one expansion for all components or one for each, with a ridge or
without: :mod:`substrate.penalized.variation.component_coordinates` has the coordinates.

Near the end u is a rounding error and every row is near its level. The path is followed until :math:`\|u\|` is a
millionth of :math:`\|\tilde y\|`; the rest is assigned to the multipliers by least squares, and the last knot is at the
rho that they then need: there u = 0 is optimal exactly, and so it is for every larger rho. A rho less than 1e-8 of it
below is read as that knot, as in :mod:`substrate.penalized.variation.active_rows`, which states the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, positive, real_array
from substrate.certificates.rounding import rank_cutoff, relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.stacked_least_squares import reflect
from substrate.penalized.homotopy.following import Resolve, Trace, follow
from substrate.penalized.homotopy.knots import Path, SparseRows
from substrate.penalized.homotopy.signed_rows import SignedRows
from substrate.penalized.l1.active_set import VIOLATION, correlation_noise
from substrate.penalized.variation.polish import BALL
from substrate.threads import blas_threads

__all__ = ["SMALLEST_ZETA", "CentredColumns", "l1_path", "path_of_columns", "variation_path"]

#: Largest duality gap of a knot, as a share of that of a = 0.
_GAP = 1e-9
#: Default end of the path, as a share of zeta_max.
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
    """Return coefficients, bias and nu for every zeta from ``zeta_min`` up.

    :equation [Pelckmans2005]_ (16): its path in zeta

    Parameters
    ----------
    Phi, y
        Columns to combine, of any number, and one target per row.
    zeta_min
        Where to stop, at or above zero; None for ``SMALLEST_ZETA`` times zeta_max.
    zero_sum
        Whether 1'a = 0 is required; the bias is free in any case.
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
        if n - 1 > p:  # the part of the residual orthogonal to all columns never changes
            Q, R = np.linalg.qr(B.T)
            B, target = np.ascontiguousarray(R.T), Q.T @ target
    columns = CentredColumns(B=B, target=target, means=Phi.mean(axis=0), target_mean=float(y.mean()), noise=noise)
    return path_of_columns(columns, zeta_min, zero_sum=zero_sum, max_knots=limit, random_state=random_state)


@dataclass(frozen=True, slots=True)
class CentredColumns:
    """Columns and target off the direction 1, in coordinates of any number: a row of ``B`` is a column.

    ``means`` and ``target_mean`` are what was subtracted; a correlation below ``noise`` is rounding.
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
    """Return the path of columns that are centred already; on a stall it is resumed up to ``restarts`` times."""
    B, target, p = columns.B, columns.target, columns.B.shape[0]
    limit = _default_limit(p) if max_knots is None else max_knots
    with blas_threads(max(B.shape)):
        c = B @ target
        top = float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())
        lowest = SMALLEST_ZETA * top if zeta_min is None else float(zeta_min)
        slack = max(columns.noise, VIOLATION * top)  # within this of top, zero cannot be distinguished from rounding
        if not top > lowest + slack:
            lowest_asked = lowest if zeta_min is not None and lowest > 0.0 else top
            return _nothing(p, lowest_asked, columns.target_mean, float(c.max() + c.min()) / 2.0)
        block = np.repeat(np.array([0, 1 if zero_sum else 0], dtype=np.int64), p)
        share = 2.0 if zero_sum else 1.0
        problem = SignedRows(B, block, target)
        trace = follow(problem, share * lowest, 0.0, _GAP, limit, restarts, None, random_state)
    return replace(_in_zeta(trace, p, lowest, share, columns.means, columns.target_mean), rounding=slack)


def _default_limit(p: int) -> int:
    return 50 * p + 1000


def _nothing(p: int, zeta: float, mean: float, nu: float) -> Path:
    """Return the path of a zeta_min at which a = 0 already."""
    none = SparseRows(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), p)
    stop = "a = 0 for every requested zeta"
    return Path(
        parameter="zeta",
        values=np.array([zeta]),
        primal=none,
        dual=np.array([[nu]]),
        bias=np.array([mean]),
        finished=True,
        constant_below=False,
        constant_above=True,
        stop=stop,
        steps=0,
    )


def _in_zeta(trace: Trace, p: int, lowest: float, share: float, column_means: Array, mean: float) -> Path:
    """Convert knots in the 1-norm, upward, to knots in zeta, upward."""
    knots = trace.knots
    t, lengths = knots.t, np.diff(knots.starts)
    zeta = t.sum(axis=1) / share
    keep = np.concatenate([[True], np.diff(np.minimum.accumulate(zeta)) < 0.0])  # zeta falls; rounding may hide it
    (kept,) = np.nonzero(keep)
    inside = np.repeat(keep, lengths)
    rows, eta = knots.rows[inside], knots.eta[inside]
    starts = np.concatenate([[0], np.cumsum(lengths[kept])])
    a = SparseRows(starts, rows % p, np.where(rows < p, eta, -eta), p).reverse()
    nu = (t[kept, 0] - t[kept, -1])[::-1, None] / 2.0
    owner = np.repeat(np.arange(len(a)), np.diff(a.starts))
    bias: Array = mean - np.asarray(np.bincount(owner, column_means[a.index] * a.value, len(a)), dtype=np.float64)
    at = dict(zip(knots.rho.tolist(), zeta.tolist(), strict=True))
    holes = tuple((at[high], at[low]) for low, high in trace.holes)
    stop = f"zeta = {lowest:g} was reached" if trace.finished else trace.stop
    is_finished = trace.finished
    below = is_finished and lowest == 0.0
    return Path(
        parameter="zeta",
        values=zeta[kept][::-1],
        primal=a,
        dual=nu,
        bias=bias,
        finished=is_finished,
        constant_below=below,
        constant_above=True,
        stop=stop,
        steps=trace.steps,
        restarts=trace.restarts,
        holes=holes,
    )


#: Largest duality gap of a knot, as a share of that of u = 0; on ill-conditioned components rounding alone makes 1e-9.
_VARIATION_GAP = 1e-7
#: Times a path may be resumed after a stall.
_RESTARTS = 50
#: Length of u, as a share of the target's, that is taken for the end.
_FINISH = 1e-6


def variation_path(
    components: Sequence[Array],
    target: Array,
    *,
    max_steps: int | None = None,
    resolve: Resolve | None = None,
    random_state: int = 0,
) -> Path:
    """Return u and xi for every rho from zero up; xi has the parts' rows one after the other.

    :equation [Pelckmans2005]_ (25): its path in rho

    Parameters
    ----------
    parts
        The components :math:`B^l`, each with one column per entry of ``target``.
    target
        :math:`\\tilde y`, in the same coordinates.
    max_steps
        Most exchanges of active rows; None for 10 per row and 2000 more.
    resolve
        From rho to (u, xi), called when the path stalls; None for PIQP.
    random_state
        Seed of the choices between exact ties.
    """
    target = real_array(target, "target", ndim=1)
    matrices = [real_array(component, f"part {number}", ndim=2) for number, component in enumerate(components)]
    wrong = [component.shape for component in matrices if component.shape[1] != target.size]
    if wrong or not matrices:
        raise DataError(f"parts must have {target.size} columns each, as many as target has entries; received {wrong}")
    B = np.vstack(matrices)
    block = np.repeat(np.arange(len(matrices)), [component.shape[0] for component in matrices])
    limit = 10 * B.shape[0] + 2000 if max_steps is None else int(positive(max_steps, "max_steps"))
    with blas_threads(target.size):
        row_space = _row_space(B)
        inner = target if row_space is None else row_space.T @ target
        rows = np.flatnonzero(np.isin(block, np.unique(block[B.any(axis=1)])))  # a component of zeros pays nothing
        if not rows.size or not np.linalg.norm(inner) > relative_rounding(1.0) * np.linalg.norm(target):
            return _flat(B.shape[0], target)
        rows_in_space = B[rows] if row_space is None else B[rows] @ row_space
        labels = np.unique(block[rows], return_inverse=True)[1].astype(np.int64)
        problem = SignedRows(np.ascontiguousarray(rows_in_space), np.concatenate([labels, labels]), inner)
        solver = None if resolve is None else _inside(resolve, row_space, rows)
        trace = follow(problem, 0.0, _FINISH, _VARIATION_GAP, limit, _RESTARTS, solver, random_state)
        if trace.finished:
            _finish(trace, problem)
    return _record(trace, target, row_space, rows, B.shape[0])


def _row_space(B: Array) -> Array | None:
    """Return an orthonormal basis of the span of the rows, as columns; None where that is the whole space."""
    R = np.linalg.qr(B, mode="r") if B.shape[0] > B.shape[1] else B
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    keep = s > rank_cutoff(max(B.shape)) * s[0]
    return None if keep.sum() == B.shape[1] else np.ascontiguousarray(Vt[keep].T)


def _inside(resolve: Resolve, row_space: Array | None, rows: NDArray[np.int64]) -> Resolve:
    def solve_at(rho: float) -> tuple[Array, Array]:
        u, xi = resolve(rho)
        return u if row_space is None else row_space.T @ u, xi[rows]

    return solve_at


def _flat(p: int, target: Array) -> Path:
    """Return the path of a target that is orthogonal to all components: u is the target for every rho."""
    none = SparseRows(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), p)
    stop = "the target is orthogonal to all components"
    return Path(
        parameter="rho",
        values=np.zeros(1),
        primal=target[None],
        dual=none,
        bias=np.zeros(1),
        finished=True,
        constant_below=False,
        constant_above=True,
        stop=stop,
        steps=0,
    )


def _finish(trace: Trace, problem: SignedRows) -> None:
    """Make the last knot exact: multipliers that leave u = 0, and the rho that they need."""
    knots, p = trace.knots, problem.B.shape[0]
    eta = np.zeros(2 * p)
    eta[knots.rows[knots.starts[-2] :]] = knots.eta[knots.starts[-2] :]
    xi = eta[:p] - eta[p:]
    Q, R = np.linalg.qr(problem.B)
    small = min(R.shape)  # the rows span all of the space: none of the singular values is zero
    U, s, Vt = np.linalg.svd(R[:small], full_matrices=False)
    for _ in range(3):  # least squares, refined
        xi = xi + Q[:, :small] @ (U @ ((Vt @ (problem.target - problem.B.T @ xi)) / s))
    needed = float(np.bincount(problem.block[:p], np.abs(xi)).max())
    if needed <= knots.rho[-1]:
        needed = float(knots.rho[-1])
        knots.keep(-1)
    places = np.flatnonzero(xi)
    signed = np.where(xi[places] > 0.0, places, places + p)
    knots.append(needed, np.zeros_like(problem.target), np.zeros(problem.blocks), signed, np.abs(xi[places]))


def _record(trace: Trace, target: Array, row_space: Array | None, rows: NDArray[np.int64], p: int) -> Path:
    knots = trace.knots
    u = knots.u.copy()
    if row_space is not None:
        u = (target - row_space @ (row_space.T @ target)) + u @ row_space.T
    up, eta = knots.rows < rows.size, knots.eta
    places = rows[np.where(up, knots.rows, knots.rows - rows.size)]
    xi = SparseRows(knots.starts.copy(), places, np.where(up, eta, -eta), p)
    rho = knots.rho.copy()
    return Path(
        parameter="rho",
        values=rho,
        primal=u,
        dual=xi,
        bias=np.zeros(u.shape[0]),
        finished=trace.finished,
        constant_below=False,
        constant_above=trace.finished,
        stop="all components have vanished" if trace.finished else trace.stop,
        steps=trace.steps,
        restarts=trace.restarts,
        holes=trace.holes,
        rounding=BALL * float(rho[-1]),
    )
