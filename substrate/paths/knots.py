"""A piecewise affine solution path as a record: knots, what lies between them, and where it does not reach."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["Path", "Point", "SparseRows"]


@dataclass(frozen=True, slots=True)
class SparseRows:
    """One sparse vector of ``width`` entries per knot: ``index`` and ``value`` from ``starts[k]`` to ``starts[k + 1]``.

    A place may be named twice; its values add up.
    """

    starts: NDArray[np.int64]
    index: NDArray[np.int64]
    value: Array
    width: int

    def __len__(self) -> int:
        return self.starts.size - 1

    def __getitem__(self, k: int) -> Array:
        """The vector of knot k, in full."""
        k = range(len(self))[k]
        part = slice(self.starts[k], self.starts[k + 1])
        return np.asarray(np.bincount(self.index[part], self.value[part], self.width), dtype=np.float64)

    def reversed(self) -> "SparseRows":
        """The same vectors, last knot first."""
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
        A vector per knot, dense rows or :class:`SparseRows`. Maximal variation: u and xi. L1: the coefficients a, and
        the multiplier nu of 1'a = 0.
    bias
        A number per knot; zero where the model has none.
    finished
        Whether the path came to the end it was sent to.
    constant_below, constant_above
        Whether the solution is known to stay what it is below the first and above the last knot.
    holes
        Open intervals between knots on which nothing is claimed.
    stop
        Why the path ends where it does, in words.
    steps, restarts
        Exchanges of active rows, and how often the path was taken up again after a stall.
    rounding
        How far rounding may have moved the last knot. A value that is less below it is read as that knot, so that
        what has vanished there is zero on every machine.
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
        """Whether all that was asked for is covered: the far end reached, without holes."""
        return self.finished and not self.holes

    def covers(self, value: float) -> bool:
        """Whether the path says anything at this value."""
        inside = self.lowest <= value <= self.highest
        return inside and not any(low < value < high for low, high in self.holes)

    def at(self, value: float) -> Point:
        """The solution at this value: linear between knots, constant beyond an end that is known to be one."""
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
