r"""A piecewise affine solution path as a record, the interval that it covers, and the conditions at its points.

The conditions are certificate rows, recomputed from data, parameter and point. For maximal variation,
:math:`\min_u \tfrac12 \|u - \tilde y\|^2 + \rho \sum_l \|B^l u\|_\infty`, at :math:`(u, \xi)`:

.. math:: u = \tilde y - \sum_l B^{lT} \xi^l, \qquad \|\xi^l\|_1 \le \rho, \qquad
   \xi^{lT} B^l u = \|\xi^l\|_1 \|B^l u\|_\infty, \qquad \|\xi^l\|_1 = \rho \;\text{ or }\; B^l u = 0 ,

the corrected conditions of [Pelckmans2005]_ (27). The gap is that of the feasible dual point
:math:`\xi^l \min(1, \rho / \|\xi^l\|_1)`.

For the L1 substrate at a, with :math:`e = P (y - \Phi a)` and :math:`c = \Phi^T e`, the multiple of e with
:math:`(\max c - \min c)/2 \le \zeta` is dual feasible.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import gap_row
from substrate.errors import DeclarationError
from substrate.penalized.l1.active_set import l1_rows

__all__ = [
    "Path",
    "Point",
    "SparseRows",
    "describe_coverage",
    "knots_and_midpoints",
    "l1_point_rows",
    "variation_point_rows",
]


@dataclass(frozen=True, slots=True)
class SparseRows:
    """One sparse vector of ``width`` entries per knot: ``index`` and ``value`` from ``starts[k]`` to ``starts[k + 1]``.

    An index may occur twice; its values add up.
    """

    starts: NDArray[np.int64]
    index: NDArray[np.int64]
    value: Array
    width: int

    def __len__(self) -> int:
        return self.starts.size - 1

    def __getitem__(self, k: int) -> Array:
        """Return the vector of knot k, in full."""
        k = range(len(self))[k]
        entries = slice(self.starts[k], self.starts[k + 1])
        return np.asarray(np.bincount(self.index[entries], self.value[entries], self.width), dtype=np.float64)

    def reverse(self) -> "SparseRows":
        """Return the same vectors, last knot first."""
        lengths = np.diff(self.starts)[::-1]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        order = np.repeat(self.starts[:-1][::-1] - starts[:-1], lengths) + np.arange(self.index.size)
        return SparseRows(starts, self.index[order], self.value[order], self.width)


class Point(NamedTuple):
    """The path at one value of its parameter."""

    value: float
    primal: Array
    dual: Array
    bias: float


@dataclass(frozen=True, slots=True)
class Path:
    """Knots of a solution that is affine in its parameter between them.

    Parameters
    ----------
    parameter
        Its name: ``"rho"`` or ``"zeta"``.
    values
        The parameter at the knots, ascending.
    primal, dual
        One vector per knot, dense rows or :class:`SparseRows`. Maximal variation: u and xi. L1: the coefficients a, and
        the multiplier nu of 1'a = 0.
    bias
        One number per knot; zero where the model has no bias.
    finished
        Whether the path reached its required end.
    constant_below, constant_above
        Whether the solution is known to be constant below the first and above the last knot.
    holes
        Open intervals between knots on which nothing is claimed.
    stop
        Why the path ends where it does, in words.
    steps, restarts
        Exchanges of active rows, and how often the path was resumed after a stall.
    rounding
        How far rounding may have moved the last knot. A value that is less than this below it is read as that knot, so
        that what has vanished there is zero on every processor.
    """

    parameter: str
    values: Array
    primal: Array | SparseRows
    dual: Array | SparseRows
    bias: Array
    finished: bool
    constant_below: bool
    constant_above: bool
    stop: str
    steps: int
    restarts: int = 0
    holes: tuple[tuple[float, float], ...] = field(default=())
    rounding: float = 0.0

    def __len__(self) -> int:
        return self.values.size

    @property
    def lowest(self) -> float:
        """The smallest value that is covered."""
        return 0.0 if self.constant_below else float(self.values[0])

    @property
    def highest(self) -> float:
        """The largest value that is covered."""
        return np.inf if self.constant_above else float(self.values[-1])

    @property
    def complete(self) -> bool:
        """Whether the whole required range is covered: the far end reached, without holes."""
        return self.finished and not self.holes

    def covers(self, value: float) -> bool:
        """Return whether the path covers this value."""
        inside = self.lowest <= value <= self.highest
        return inside and not any(low < value < high for low, high in self.holes)

    def at(self, value: float) -> Point:
        """Return the solution at this value: linear between knots, constant beyond an end that is known to be final."""
        if not self.covers(value):
            holes = f" except {list(self.holes)}" if self.holes else ""
            raise DeclarationError(
                f"{self.parameter} = {value!r} is not covered: the path reaches from {self.lowest:g} to "
                f"{self.highest:g}{holes} ({self.stop})"
            )
        x = float(np.clip(value, self.values[0], self.values[-1]))
        if self.constant_above and x >= float(self.values[-1]) - self.rounding:
            x = float(self.values[-1])
        k = int(np.clip(np.searchsorted(self.values, x, side="right") - 1, 0, max(len(self) - 2, 0)))
        after = min(k + 1, len(self) - 1)
        width = float(self.values[after] - self.values[k])
        share = (x - float(self.values[k])) / width if width > 0.0 else 0.0

        def between(rows: Array | SparseRows) -> Array:
            return (1.0 - share) * rows[k] + share * rows[after]

        return Point(value, between(self.primal), between(self.dual), float(between(self.bias)))


def describe_coverage(
    parameter: str, coverage: tuple[float, float], holes: tuple[tuple[float, float], ...] = ()
) -> str:
    """Return the interval that a lower bound covers, in words."""
    low, high = coverage
    interval = f"{parameter} >= {low:.4g}" if math.isinf(high) else f"{parameter} from {low:.4g} to {high:.4g}"
    return f"lower bound, {interval}" + "".join(f", not {start:.4g} to {stop:.4g}" for start, stop in holes)


def knots_and_midpoints(path: Path) -> Array:
    """Return the values at which a path is usually checked: its knots and the middles of its segments, without the
    holes.
    """
    middles = (path.values[1:] + path.values[:-1]) / 2.0
    values = np.sort(np.concatenate([path.values, middles]))
    return values[[path.covers(float(value)) for value in values]]


def variation_point_rows(
    components: Sequence[Array], target: Array, rho: float, u: Array, xi: Array, tolerance: float = 1e-9
) -> tuple[Row, ...]:
    """Check stationarity, dual feasibility, complementarity and duality gap of maximal variation at (u, xi).

    :equation [Pelckmans2005]_ (27a)-(27f): at any point of the path in rho
    """
    multipliers = np.split(xi, np.cumsum([component.shape[0] for component in components])[:-1])
    values = [component @ u for component in components]
    levels = np.array([np.abs(value).max(initial=0.0) for value in values])
    sizes = np.array([np.abs(multiplier).sum() for multiplier in multipliers])
    pulled = np.sum(
        [component.T @ multiplier for component, multiplier in zip(components, multipliers, strict=True)], axis=0
    )
    aligned = np.array([value @ multiplier for value, multiplier in zip(values, multipliers, strict=True)])
    cost = 0.5 * float(target @ target)
    shares = np.minimum(1.0, rho / np.where(sizes > 0.0, sizes, 1.0))
    dual = target - np.sum(
        [
            s * component.T @ multiplier
            for s, component, multiplier in zip(shares, components, multipliers, strict=True)
        ],
        axis=0,
    )
    length = float(np.abs(target).max())
    return (
        Row(
            name="u = y - B'xi",
            value=float(np.abs(target - pulled - u).max()),
            scale=length,
            tolerance=tolerance,
            formula="max |y - sum B^l'xi^l - u|",
        ),
        Row(
            name="|xi^l|_1 <= rho",
            value=float(np.max(sizes - rho, initial=0.0)),
            scale=rho,
            tolerance=tolerance,
            formula="max (|xi^l|_1 - rho)",
        ),
        Row(
            name="complementarity",
            value=float((rho * levels - aligned).sum()),
            scale=cost,
            tolerance=tolerance,
            formula="sum rho |B^l u| - xi^l'B^l u",
        ),
        gap_row(
            (0.5 * float((u - target) @ (u - target)), rho * float(levels.sum())),
            (cost, -0.5 * float(dual @ dual)),
            tolerance,
        ),
    )


def l1_point_rows(
    Phi: Array, y: Array, zeta: float, a: Array, b: float, zero_sum: bool = True, tolerance: float = 1e-9
) -> tuple[Row, ...]:
    """Return the subgradient conditions and the duality gap of the L1 substrate; the gap alone without 1'a = 0."""
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
