r"""The permitted error of an answer, as an absolute number in the units of the user's y.

``tol`` of an estimator is a share of the spread of y, which only its user knows: below, a machine may be given y less
constants, some of the rows, other weights, or the products by which a standard error is computed, and each of these
has a spread of its own. So the share is turned into an absolute error once, where the user's y is,

.. math:: r = \max(\text{share} \cdot \text{spread of } y,\ n\,\epsilon \max|y|) ,

and whoever bounds, refines or iterates receives r, the ``largest_radius``. Share and spread stay beside it for the row
that states them.
"""

import math
from typing import NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding, target_rounding
from substrate.certificates.rows import ACCURATE, Accuracy, accuracy_row, scale_of, spread_of

__all__ = ["Tolerance", "tolerances_of"]

#: How the squared loss bounds the fitted values of a declared problem.
_GAP = "sqrt(2 (primal - dual)) + rounding"
#: Share of its target to which an iteration fits a constant.
_CONSTANT = 1e-6


class Tolerance(NamedTuple):
    """The permitted error of one output, root mean square by the weights of its rows, in the units of y.

    Parameters
    ----------
    share
        What the user asked for, relative to the spread.
    spread
        The standard deviation of the user's y, by the weights of the rows.
    rounding
        What rounding y itself to double precision may change.
    """

    share: float
    spread: float
    rounding: float

    @classmethod
    def of(cls, y: Array, weights: Array, share: float = ACCURATE) -> "Tolerance":
        """Return what is permitted for the targets of a user and the weights of their rows."""
        return cls(share, *spread_of(y, weights))

    @classmethod
    def of_page(cls, y: Array, weights: Array, share: float) -> "Tolerance":
        """Return the same for an iteration, which fits a constant target to a millionth of its size only."""
        spread, rounding = spread_of(y, weights)
        if spread <= rounding:
            rounding = max(rounding, _CONSTANT * float(np.abs(y).max(initial=0.0)))
        return cls(share, spread, rounding)

    @classmethod
    def of_sums(
        cls, count: int, mass: float, shift: float, squares: float, largest: float, unit: float, share: float
    ) -> "Tolerance":
        r"""Return what is permitted where the rows of y are not kept, from sums about any centre of them.

        With the sum s of :math:`v_i z_i` and q of :math:`v_i z_i^2`, :math:`z = (y - c) / \text{unit}`, the spread is
        the root of :math:`q/m - (s/m)^2`, m the sum of all weights. Where the weighted mean is far from c the
        difference cancels, and may be rounding alone; so it is lowered by what rounding may have added,

        .. math:: \text{spread} \ge \text{unit} \sqrt{q/m - (s/m)^2 - 3 n\,\epsilon\, q/m} .

        Parameters
        ----------
        count, mass
            The number of rows, and the sum of their weights.
        shift, squares
            s and q.
        largest
            The largest size of y, in its own units.
        """
        middle, mean_square = shift / mass, squares / mass
        # each sum of n terms, of products of three numbers, and (s/m)^2 is at most q/m
        spare = relative_rounding(3.0 * count) * mean_square
        spread = unit * math.sqrt(max(mean_square - middle**2 - spare, 0.0))
        return cls(share, spread, target_rounding(count, largest))

    @property
    def scale(self) -> float:
        """The spread, or what makes the share of it as large as the rounding of y where that is more."""
        return scale_of(self.spread, self.rounding, self.share)

    @property
    def largest_radius(self) -> float:
        """The largest permitted distance of the fitted values from those of the exact optimum."""
        return self.share * self.scale

    def row(self, radius: float, formula: str, about: str = "fitted values") -> Accuracy:
        """Return the certificate row of an answer that is within ``radius`` of the exact one."""
        return accuracy_row(radius, self.spread, formula, tolerance=self.share, rounding=self.rounding, about=about)

    def row_of_norm(self, norm: float, count: int, formula: str = _GAP, about: str = "fitted values") -> Accuracy:
        """Return the row of a declared problem, from a bound on the norm ||f - f*|| over so many rows.

        The norm was computed in double precision; a hundredth more is larger than what its own rounding takes off.
        """
        return self.row(1.01 * norm / math.sqrt(count), formula, about)


def tolerances_of(Y: Array, weights: Array, share: float = ACCURATE) -> tuple[Tolerance, ...]:
    """Return what is permitted for every output, one column of the user's targets each, on the host."""
    return tuple(Tolerance.of(np.ascontiguousarray(column), weights, share) for column in Y.T)
