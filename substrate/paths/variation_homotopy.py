r"""The path of maximal variation in rho.

.. math:: \min_u \; \tfrac12 \|u - \tilde y\|^2 + \rho \sum_{l=1}^d \|B^l u\|_\infty
   \qquad \Longleftrightarrow \qquad
   \min_\xi \; \tfrac12 \|\tilde y - \sum_l B^{lT} \xi^l\|^2 \;\; \text{s.t.} \;\; \|\xi^l\|_1 \le \rho ,

[Pelckmans2005]_ eq. (25) in coordinates u of the fitted values, :math:`B^l u` the values of component l. It is followed
upward from :math:`\rho = 0`, where :math:`u = \tilde y` and :math:`\xi = 0`, to the smallest rho from which on all
components vanish. In :mod:`substrate.paths.block_homotopy` each component is a block with both signs of its rows.

Any strictly convex quadratic comes to this form, one expansion for all components or one for each, with a ridge or
without: :mod:`substrate.closed_form.component_coordinates` has the coordinates.

Near the end u is a rounding error and every row is near its level. The walk stops where :math:`\|u\|` is a millionth of
:math:`\|\tilde y\|`; the rest is given to the multipliers by least squares, and the last knot is at the rho that they
then need: there u = 0 is optimal exactly, and so it is for every larger rho. A rho less than 1e-8 of it below is read
as that knot, as in :mod:`substrate.closed_form.maximal_variation`, where the reason is.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, positive, real_array
from substrate.closed_form.variation_polish import BALL
from substrate.errors import DataError
from substrate.paths.following import Resolve, Trace, follow
from substrate.paths.knots import Path, SparseRows
from substrate.paths.signed_rows import SignedRows
from substrate.threads import blas_threads

__all__ = ["variation_path"]

_EPS = float(np.finfo(np.float64).eps)
#: Largest duality gap of a knot, as a share of that of u = 0; on ill-conditioned components rounding alone makes 1e-9.
_GAP = 1e-7
#: Times a path may be taken up again after a stall.
_RESTARTS = 50
#: Length of u, as a share of the target's, that is taken for the end.
_FINISH = 1e-6


def variation_path(
    parts: Sequence[Array],
    target: Array,
    *,
    max_steps: int | None = None,
    resolve: Resolve | None = None,
    random_state: int = 0,
) -> Path:
    """u and xi for every rho from zero up; xi has the parts' rows one after the other.

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
        From rho to (u, xi), asked when the path stalls; None for PIQP.
    random_state
        Seed of the choices between exact ties.
    """
    target = real_array(target, "target", ndim=1)
    matrices = [real_array(part, f"part {number}", ndim=2) for number, part in enumerate(parts)]
    wrong = [part.shape for part in matrices if part.shape[1] != target.size]
    if wrong or not matrices:
        raise DataError(f"parts must have {target.size} columns each, as many as target has entries; received {wrong}")
    B = np.vstack(matrices)
    block = np.repeat(np.arange(len(matrices)), [part.shape[0] for part in matrices])
    limit = 10 * B.shape[0] + 2000 if max_steps is None else int(positive(max_steps, "max_steps"))
    with blas_threads(target.size):
        seen = _row_space(B)
        inner = target if seen is None else seen.T @ target
        rows = np.flatnonzero(np.isin(block, np.unique(block[B.any(axis=1)])))  # a component of zeros pays nothing
        if not rows.size or not np.linalg.norm(inner) > _EPS * np.linalg.norm(target):
            return _nothing(B.shape[0], target)
        own = B[rows] if seen is None else B[rows] @ seen
        labels = np.unique(block[rows], return_inverse=True)[1].astype(np.int64)
        problem = SignedRows(np.ascontiguousarray(own), np.concatenate([labels, labels]), inner)
        asked = None if resolve is None else _inside(resolve, seen, rows)
        trace = follow(problem, 0.0, _FINISH, _GAP, limit, _RESTARTS, asked, random_state)
        if trace.finished:
            _finish(trace, problem)
    return _record(trace, target, seen, rows, B.shape[0])


def _row_space(B: Array) -> Array | None:
    """An orthonormal basis of what the rows see, as columns; None where that is everything."""
    R = np.linalg.qr(B, mode="r") if B.shape[0] > B.shape[1] else B
    _, s, Vt = np.linalg.svd(R, full_matrices=False)
    keep = s > max(B.shape) * _EPS * s[0]
    return None if keep.sum() == B.shape[1] else np.ascontiguousarray(Vt[keep].T)


def _inside(resolve: Resolve, seen: Array | None, rows: NDArray[np.int64]) -> Resolve:
    def asked(rho: float) -> tuple[Array, Array]:
        u, xi = resolve(rho)
        return u if seen is None else seen.T @ u, xi[rows]

    return asked


def _nothing(p: int, target: Array) -> Path:
    """No component sees anything of the target: u is the target for every rho."""
    none = SparseRows(np.zeros(2, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0), p)
    stop = "no component sees the target"
    return Path("rho", np.zeros(1), target[None], none, np.zeros(1), True, False, True, stop, 0)


def _finish(trace: Trace, problem: SignedRows) -> None:
    """Make the last knot exact: multipliers that leave u = 0, and the rho that they need."""
    knots, p = trace.knots, problem.B.shape[0]
    eta = np.zeros(2 * p)
    eta[knots.rows[-1]] = knots.eta[-1]
    xi = eta[:p] - eta[p:]
    for _ in range(3):
        xi = xi + np.linalg.lstsq(problem.B.T, problem.target - problem.B.T @ xi)[0]
    needed = float(np.bincount(problem.block[:p], np.abs(xi)).max())
    if needed <= knots.rho[-1]:
        needed = knots.rho[-1]
        knots.keep(-1)
    places = np.flatnonzero(xi)
    signed = np.where(xi[places] > 0.0, places, places + p)
    knots.append(needed, np.zeros_like(problem.target), np.zeros(problem.blocks), signed, np.abs(xi[places]))


def _record(trace: Trace, target: Array, seen: Array | None, rows: NDArray[np.int64], p: int) -> Path:
    knots = trace.knots
    u = np.array(knots.u)
    if seen is not None:
        u = (target - seen @ (seen.T @ target)) + u @ seen.T
    signed, eta = np.concatenate(knots.rows), np.concatenate(knots.eta)
    starts = np.concatenate([[0], np.cumsum([one.size for one in knots.rows])])
    xi = SparseRows(starts, rows[signed % rows.size], np.where(signed < rows.size, eta, -eta), p)
    stop = "all components have vanished" if trace.finished else trace.stop
    rho, ends, none = np.array(knots.rho), trace.finished, np.zeros(u.shape[0])
    taken = (trace.steps, trace.restarts, trace.holes)
    return Path("rho", rho, u, xi, none, ends, False, ends, stop, *taken, rounding=BALL * float(rho[-1]))
