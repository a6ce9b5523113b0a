r"""The dual of the Huber LS-SVM by an interior-point method: a bounded number of systems, whatever delta is.

.. math::

    \min_\alpha \; \tfrac12 \alpha^T (K + D) \alpha - t^T \alpha
    \quad \text{s.t.} \quad 1^T \alpha = 0, \quad -u \le \alpha \le u, \qquad u_i = \gamma v_i \delta = \delta / D_{ii}

With multipliers z and w of the two bounds, :math:`z - w = t - (K + D) \alpha - b 1`, the products
:math:`z_i (u_i - \alpha_i)` and :math:`w_i (u_i + \alpha_i)` are driven to zero together, for a decreasing common
target :math:`\mu`, by Newton's method:

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + D + \Sigma \end{bmatrix}
    \begin{bmatrix} \Delta b \\ \Delta \alpha \end{bmatrix} =
    \begin{bmatrix} -1^T \alpha \\ t - (K + D) \alpha - b 1 - \mu (p^{-1} - q^{-1}) \end{bmatrix}, \qquad
    \Sigma = \operatorname{diag}\!\left(\frac{z_i}{p_i} + \frac{w_i}{q_i}\right), \quad p = u - \alpha, \quad
    q = u + \alpha ,

the saddle system of the LS-SVM with a larger diagonal. The initial point is feasible for both problems and has
products within a factor 2 of each other. Path-following methods need at most of the order :math:`N \log(1/\epsilon)`
steps to a share :math:`\epsilon` of the first gap, however the data are scaled ([Wright1997]_ chapter 5). The steps
here are longer than those of the theorem, so their number is bounded by :data:`MOST_INNER_STEPS`; a point that is not
accurate enough by then fails its certificate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.closed_form.saddle_system import solve_saddle_system
from substrate.errors import SolverError
from substrate.gram import Gram

__all__ = ["MOST_INNER_STEPS", "InnerPoint", "inner_point"]

#: Largest number of systems solved.
MOST_INNER_STEPS = 60
#: Share of the products that the next step aims at: after a long step, and after a short one.
_BOLD, _SHY = 0.1, 0.5
#: Length of a step as a share of the distance to the nearest bound.
_SHORT_OF_IT = 0.995
#: Share of the initial products at which the iteration stops, and length of a step below which it stops.
_NOTHING, _NOWHERE = 1e-18, 1e-6


@dataclass(frozen=True, slots=True)
class InnerPoint:
    """Support values and bias, the sign of every row at a bound (zero for the others), and the systems solved."""

    support_values: Array
    bias: float
    signs: NDArray[np.int8]
    steps: int


def inner_point(gram: Gram, t: Array, ridge: Array, d: float) -> InnerPoint:
    """Solve for targets t whose bias is near zero; ``ridge`` is the diagonal D, ``d`` in the units of t."""
    u = d / ridge
    a, b, p, q = np.zeros(t.size), 0.0, u.copy(), u.copy()
    even = float((u * np.abs(t)).max()) or float(u.max())
    z, w = np.maximum(t, 0.0) + even / u, np.maximum(-t, 0.0) + even / u
    share, first, steps = _BOLD, _mean_product(p, z, q, w), 0
    while steps < MOST_INNER_STEPS and _mean_product(p, z, q, w) > _NOTHING * first:
        target = share * _mean_product(p, z, q, w)
        residual = t - gram.product(a) - ridge * a - b - target / p + target / q
        steps += 1
        try:
            solved = solve_saddle_system(gram, residual, ridge + z / p + w / q, -float(a.sum()))
        except SolverError:  # numerically singular: the present point is as good as rounding allows
            break
        finally:
            gram.release()
        move = solved.support_values
        move_z, move_w = target / p - z + z / p * move, target / q - w - w / q * move
        values, moves = np.concatenate([p, q, z, w]), np.concatenate([-move, move, move_z, move_w])
        length = _longest(values, moves)
        if not np.isfinite(moves).all() or length < _NOWHERE:
            break
        a, b = a + length * move, b + length * float(solved.bias)
        p, q, z, w = np.split(values + length * moves, 4)
        share = _BOLD if length > 0.9 else _SHY
    # at a bound the slack goes to zero and its multiplier does not; in between it is the reverse
    size = float(np.abs(t).max()) + d
    signs = np.where(p / u < z / size, 1, np.where(q / u < w / size, -1, 0)).astype(np.int8)
    return InnerPoint(np.clip(a, -u, u), b, signs, steps)


def _mean_product(p: Array, z: Array, q: Array, w: Array) -> float:
    return float(p @ z + q @ w) / (2 * p.size)


def _longest(values: Array, moves: Array) -> float:
    """A step, at most 1, that leaves all values positive."""
    falling = moves < 0.0
    return min(1.0, _SHORT_OF_IT * float((values[falling] / -moves[falling]).min(initial=np.inf)))
