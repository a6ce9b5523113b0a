r"""What a point of a path must satisfy, as certificate rows recomputed from data, parameter and point.

Maximal variation, :math:`\min_u \tfrac12 \|u - \tilde y\|^2 + \rho \sum_l \|B^l u\|_\infty`, at :math:`(u, \xi)`:

.. math:: u = \tilde y - \sum_l B^{lT} \xi^l, \qquad \|\xi^l\|_1 \le \rho, \qquad
   \xi^{lT} B^l u = \|\xi^l\|_1 \|B^l u\|_\infty, \qquad \|\xi^l\|_1 = \rho \;\text{ or }\; B^l u = 0 ,

the corrected conditions of [Pelckmans2005]_ (27). The gap is that of the feasible dual point
:math:`\xi^l \min(1, \rho / \|\xi^l\|_1)`.

The L1 substrate at a, with :math:`e = P (y - \Phi a)` and :math:`c = \Phi^T e`: the multiple of e with
:math:`(\max c - \min c)/2 \le \zeta` is dual feasible.
"""

from collections.abc import Sequence

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.duality import gap_row
from substrate.closed_form.l1_active_set import l1_rows
from substrate.paths.knots import Path

__all__ = ["knots_and_midpoints", "l1_point_rows", "variation_point_rows"]


def knots_and_midpoints(path: Path) -> Array:
    """The values at which a path is usually checked: its knots and the middles of its segments, without the holes."""
    middles = (path.values[1:] + path.values[:-1]) / 2.0
    values = np.sort(np.concatenate([path.values, middles]))
    return values[[path.covers(float(value)) for value in values]]


def variation_point_rows(
    parts: Sequence[Array], target: Array, rho: float, u: Array, xi: Array, tolerance: float = 1e-9
) -> tuple[Row, ...]:
    """Stationarity, dual feasibility, complementarity and duality gap of maximal variation at (u, xi).

    :equation [Pelckmans2005]_ (27a)-(27f): at any point of the path in rho
    """
    multipliers = np.split(xi, np.cumsum([part.shape[0] for part in parts])[:-1])
    values = [part @ u for part in parts]
    levels = np.array([np.abs(value).max(initial=0.0) for value in values])
    sizes = np.array([np.abs(one).sum() for one in multipliers])
    pulled = np.sum([part.T @ one for part, one in zip(parts, multipliers, strict=True)], axis=0)
    aligned = np.array([value @ one for value, one in zip(values, multipliers, strict=True)])
    cost = 0.5 * float(target @ target)
    shares = np.minimum(1.0, rho / np.where(sizes > 0.0, sizes, 1.0))
    dual = target - np.sum([s * part.T @ one for s, part, one in zip(shares, parts, multipliers, strict=True)], axis=0)
    length = float(np.abs(target).max())
    return (
        Row("u = y - B'xi", float(np.abs(target - pulled - u).max()), length, tolerance, "max |y - sum B^l'xi^l - u|"),
        Row("|xi^l|_1 <= rho", float(np.max(sizes - rho, initial=0.0)), rho, tolerance, "max (|xi^l|_1 - rho)"),
        Row("complementarity", float((rho * levels - aligned).sum()), cost, tolerance, "sum rho |B^l u| - xi^l'B^l u"),
        gap_row(
            (0.5 * float((u - target) @ (u - target)), rho * float(levels.sum())),
            (cost, -0.5 * float(dual @ dual)),
            tolerance,
        ),
    )


def l1_point_rows(
    Phi: Array, y: Array, zeta: float, a: Array, b: float, zero_sum: bool = True, tolerance: float = 1e-9
) -> tuple[Row, ...]:
    """The subgradient conditions and the duality gap of the L1 substrate; the gap alone without 1'a = 0."""
    centred = y - y.mean()
    e = centred - Phi @ a
    e = e - e.mean()
    c = Phi.T @ e
    bound = float(c.max() - c.min()) / 2.0 if zero_sum else float(np.abs(c).max())
    share = 1.0 if bound <= zeta else zeta / bound
    gap = gap_row(
        (0.5 * float(e @ e), zeta * float(np.abs(a).sum())),
        (share * float(e @ centred), -0.5 * share**2 * float(e @ e)),
        tolerance,
        0.5 * float(centred @ centred),
    )
    return (*l1_rows(Phi, y, zeta, a, b, tolerance), gap) if zero_sum else (gap,)
