r"""A fitted machine as an exact function of its weight: the numbers that a page needs to move it.

Everything that a page draws is affine in a *state* that a formula gives for every value of the weight,

.. math:: q(p) = q_0 + M \, s(p) .

For :math:`\gamma` the state is :math:`s_k = 1/(\sigma_k + 1/\gamma)` with the eigenvalues :math:`\sigma_k` of the
centred kernel matrix (:mod:`substrate.least_squares.spectrum`); equal eigenvalues are one entry. For :math:`\zeta` and
:math:`\rho` it is linear between the knots of a path (:mod:`substrate.penalized.homotopy.homotopies`), [Pelckmans2005]_
(16), (25).

A machine at gamma has one multiplier per row, :math:`\alpha_i = \gamma e_i`. The others also have inequalities,

.. math:: |\Phi_i^T e - \nu| \le \zeta \;\perp\; a_i, \qquad |f^l(x_i)| \le t_l \;\perp\; \xi^l_i ,

and a multiplier times the slack of its inequality is zero at every value of the weight.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.penalized.homotopy.homotopies import SMALLEST_ZETA
from substrate.penalized.homotopy.knots import Path

__all__ = ["Affine", "KnotPath", "ModelPath", "space_geometrically"]

#: Values of the weight at which a page can stop, besides the knots where there are no more than these.
_STOPS = 240


@dataclass(frozen=True, slots=True)
class Affine:
    """Numbers that are affine in the state, one row of ``matrix`` each."""

    offset: Array
    matrix: Array

    def at(self, states: Array) -> Array:
        """Return their values, one column per state."""
        return np.asarray(self.offset[:, None] + self.matrix @ states.T)

    def some(self, rows: Any) -> "Affine":
        """Return some of them."""
        return Affine(self.offset[rows], self.matrix[rows])


class ModelPath(ABC):
    """One machine, its rows X and targets y (codes -1 and +1 for classes), and its state at any value of its weight."""

    parameter: ClassVar[str]
    X: Array
    y: Array
    #: The weight of the fitted model.
    chosen: float
    #: One number per training row: alpha at gamma, a at zeta; empty where they belong to components.
    multipliers: Affine

    @abstractmethod
    def states(self, values: Array) -> Array:
        """Return the state at each value, one row each."""

    @abstractmethod
    def stops(self) -> Array:
        """Return values of the weight, ascending, from where it hardly acts to where nothing else does; ``chosen`` is
        one.
        """

    @abstractmethod
    def predictions(self, points: Array) -> Affine:
        """Return f at the points."""


def space_geometrically(low: float, high: float, *values: float) -> Array:
    """Return values at equal distances of their logarithms, and those given, ascending."""
    return np.unique(np.concatenate([np.geomspace(low, high, _STOPS), np.array(values)]))


@dataclass(frozen=True, slots=True)
class KnotPath(ModelPath):
    """A machine whose state is linear between knots: its ``rows`` there; ``used`` are the coefficients in it."""

    X: Array
    y: Array
    chosen: float
    kernel: Any
    path: Path
    rows: Array
    used: NDArray[np.intp]
    multipliers: Affine

    def states(self, values: Array) -> Array:
        """Interpolate linearly between the knots, constant beyond the last one."""
        knots = self.path.values
        at = np.clip(values, knots[0], knots[-1])
        k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, max(knots.size - 2, 0))
        after = np.minimum(k + 1, knots.size - 1)
        width = knots[after] - knots[k]
        share = np.divide(at - knots[k], width, out=np.zeros_like(at), where=width > 0.0)[:, None]
        return np.asarray((1.0 - share) * self.rows[k] + share * self.rows[after])

    def stops(self) -> Array:
        """Return the knots where they are few, and values between them."""
        knots, top = self.path.values, float(self.path.values[-1])
        positive = knots[knots > 0.0]
        if not positive.size:
            return np.unique([0.0, self.chosen])
        low = max(float(positive[0]), SMALLEST_ZETA * top)
        values = space_geometrically(min(low, 0.5 * top), top, *(knots if knots.size <= _STOPS else ()), self.chosen)
        return values[[self.path.covers(float(value)) for value in values]]
