r"""The L1 substrate at one zeta: the end of its exact path, solved once more on the columns in use.

.. math:: \min_{a, b} \; \tfrac12 \|y - \Phi a - b 1\|^2 + \zeta \|a\|_1 \quad \text{s.t.} \quad 1^T a = 0

([Pelckmans2005]_ eq. (16); :math:`\Phi = K`, or K with rows for further points). With P the centring projection and
:math:`c = \Phi^T P (y - \Phi a)`, a is optimal when some :math:`\nu` satisfies

.. math:: c_i - \nu = \zeta \operatorname{sign}(a_i) \;\; (a_i \ne 0), \qquad |c_i - \nu| \le \zeta \;\; (a_i = 0).

With a ridge, :math:`\tfrac{\tau}{2} w^T w = \tfrac{\tau}{2} a^T E a` is added, E the kernel matrix of the points whose
kernel functions are the columns: :math:`c = \Phi^T P (y - \Phi a) - \tau E a`, and the rest is unchanged. At a = 0
nothing changes, so :math:`\zeta_{max}` does not depend on the ridge; at :math:`\zeta \to 0` the machine is the LS-SVM
of :math:`\gamma = 1/\tau`. Rows may have weights, of their squared errors.

On a reduced basis ([Cawley2004]_ eq. (2)) the columns are the kernel functions of its points, which are no multipliers
of a constraint with a bias: they need not sum to zero, :math:`\nu = 0`, and :math:`\zeta_{max} = \max |c|`.

The path (:mod:`substrate.fits.paths`) is followed down to zeta. On the columns in use, with given signs, the conditions
are linear: they are solved by a QR factorisation, which removes the rounding of the path. Zeros are exact because their
columns are not in use, not because a number was small.
:math:`\zeta_{max} = (\max c - \min c)/2` at a = 0 is the smallest zeta with the solution a = 0. A zeta below it by less
than the rounding of the correlations has that solution too, so that zero is zero on every machine.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array, target_unit
from substrate.certificate import Row
from substrate.fits.paths import Path, centered_columns, path_of_columns
from substrate.ingredients import sparsity_rows, zero_sum_row

__all__ = ["L1Solution", "l1_rows", "solve_l1", "zeta_max"]

#: Relative size of a pivot at which a column counts as dependent on those before it.
_DEPENDENT = 1e-13


@dataclass(frozen=True, slots=True)
class L1Solution:
    """Coefficients with exact zeros, bias, and the path down to zeta."""

    coefficients: Array
    bias: float
    path: Path


def zeta_max(Phi: Array, y: Array, *, weights: Array | None = None, zero_sum: bool = True) -> float:
    """Return the smallest zeta at which a = 0 is optimal."""
    v = np.ones(y.size) if weights is None else weights
    c = Phi.T @ (v * (y - np.average(y, weights=v)))
    return float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())


def solve_l1(
    Phi: Array,
    y: Array,
    zeta: float,
    *,
    ridge: float = 0.0,
    weights: Array | None = None,
    energy: Array | None = None,
    zero_sum: bool = True,
) -> L1Solution:
    """Solve for one zeta > 0; ``ridge`` weighs half of a'Ea, where E is the ``energy``, or Phi, a kernel matrix.

    Where rounding ends the path before zeta, its end is where columns enter and leave one at a time; a certificate
    tells how far the answer is from the optimum.

    :equation [Pelckmans2005]_ (16): the end of its path
    """
    B, target, means, noise = centered_columns(Phi, y, ridge, weights=weights, energy=energy)
    path = path_of_columns(B, target, means, noise, zeta, zero_sum=zero_sum)
    a = path.primal[[0]].toarray()[0]
    if a.any():
        a = _settle(B, target, zeta, a, zero_sum)
    return L1Solution(a, float(means[1] - means[0] @ a), path)


def _settle(B: Array, target: Array, zeta: float, a: Array, zero_sum: bool) -> Array:
    """Solve on the columns in use; where that would change a sign, the end of the path is kept."""
    (used,) = np.nonzero(a)
    solved = _solve_signed(B[used].T, target, zeta, np.sign(a[used]), a[used], zero_sum)
    settled = a.copy()
    if solved is not None:
        settled[used] += solved[0]
    return settled if (np.sign(settled) == np.sign(a)).all() else a


def _solve_signed(
    columns: Array, target: Array, zeta: float, signs: Array, a: Array, zero_sum: bool
) -> tuple[Array, float] | None:
    """Return what columns with given signs have to change, and nu; None if they depend on each other."""
    rows, ones = columns, np.ones(a.size)
    if zero_sum:  # a row of equal entries changes nothing where 1'a = 0, and makes the columns independent
        rows = np.vstack([columns, np.full((1, a.size), float(np.abs(columns).max()) or 1.0)])
    R = np.linalg.qr(rows, mode="r")
    pivots = np.abs(np.diagonal(R))
    if len(R) < a.size or pivots.min() <= _DEPENDENT * pivots.max():
        return None
    change, nu = np.zeros(a.size), 0.0
    for _ in range(2):  # once more from the first solution: refinement
        remainder = columns.T @ (target - columns @ (a + change)) - zeta * signs
        solved = solve_triangular(R, solve_triangular(R, np.column_stack([remainder, ones]), trans="T"))
        nu = float((solved[:, 0].sum() + (a + change).sum()) / solved[:, 1].sum()) if zero_sum else 0.0
        change = change + solved[:, 0] - nu * solved[:, 1]
    return change, nu


def l1_rows(
    Phi: Array,
    y: Array,
    zeta: float,
    a: Array,
    b: float,
    tolerance: float = 1e-8,
    *,
    ridge: float = 0.0,
    weights: Array | None = None,
    energy: Array | None = None,
    zero_sum: bool = True,
) -> tuple[Row, ...]:
    """Return the subgradient condition with the best nu, 1'a = 0 and 1'e = 0, recomputed from data and solution."""
    v, unit = np.ones(y.size) if weights is None else weights, target_unit(y)  # in which no square overflows
    y, a, b, zeta = y / unit, a / unit, b / unit, zeta / unit
    target = v * (y - np.average(y, weights=v))
    centred = y - np.average(y, weights=v) - Phi @ a  # without b, which may be large relative to the rest
    errors = v * (centred - np.average(centred, weights=v))
    pull = ridge * ((Phi if energy is None else energy).T @ a) if ridge > 0.0 else 0.0
    return (
        *sparsity_rows(Phi, target, errors, a, zeta, tolerance, zero_sum, pull),
        *((zero_sum_row(a, tolerance),) if zero_sum else ()),
        zero_sum_row(v * (y - Phi @ a - b), tolerance, v * y, of="e"),
    )
