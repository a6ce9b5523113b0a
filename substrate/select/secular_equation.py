r"""The gamma at which a machine has a stated noise or a stated norm: one secular equation on the spectrum.

The regularised least squares of Tikhonov, of Morozov and of Ivanov have the same solutions,

.. math::

    \min \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2, \qquad
    \min \tfrac12 w^T w \ \text{ s.t. } \ \frac{\sum_i v_i e_i^2}{\sum_i v_i} \le \varsigma^2, \qquad
    \min \tfrac12 \sum_i v_i e_i^2 \ \text{ s.t. } \ w^T w \le \pi^2 ,

and gamma is the multiplier of the second problem's constraint, and one over the multiplier of the third's
([Morozov1984]_, [Ivanov1976]_, [Tikhonov1977]_). With eigenvalues s of the centred kernel matrix, coordinates z of the
targets (:mod:`~substrate.operators.spectrum`) and :math:`\lambda = 1/\gamma`,

.. math::

    \varsigma^2(\lambda) = \frac{1}{\sum_i v_i} \sum_k \Big( \frac{\lambda z_k}{s_k + \lambda} \Big)^2, \qquad
    \pi^2(\lambda) = \sum_k \frac{s_k z_k^2}{(s_k + \lambda)^2} .

The noise rises with lambda, from what no gamma can fit to the standard deviation of y; the norm falls, to zero. So
either equation has one root or none, and a bracket of it needs no more than the two signs at its ends. Within a
bracket the machines are near each other: every coordinate of the errors satisfies
:math:`0 \le d \log |e_k| / d \log \lambda = s_k / (s_k + \lambda) \le 1`, hence

.. math:: \|e(\lambda_2) - e(\lambda_1)\|_v \le \Big( \frac{\lambda_2}{\lambda_1} - 1 \Big) \|e(\lambda_1)\|_v,
          \qquad \lambda_1 \le \lambda_2 ,

where the fitted values differ by as much. The signs follow from the error of the decomposition, with :math:`q` the
relative error of the inverse B (:mod:`~substrate.left_out.criteria`): :math:`\|\alpha\|` is known to a share of q,
and :math:`\pi^2 = y^T B y - \lambda \|\alpha\|^2` to one of :math:`y^T B y + 2 \lambda \|\alpha\|^2`.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from substrate.arrays import Array, positive, to_numpy
from substrate.errors import DataError
from substrate.numbers import at_most, relative_rounding
from substrate.operators.spectrum import Spectrum, Targets, lambda_range

__all__ = ["Quantity", "SecularEquation", "quantity_given"]

Quantity = Literal["noise", "norm"]

#: Relative half-widths that are tried for a bracket, the smallest first: rounding may hide the sign on smaller ones.
_HALF_WIDTHS = (1e-11, 1e-9, 1e-7, 1e-5, 1e-3)
#: How far beyond the usual range of lambda a root may lie: a norm near zero, or a noise near the deviation of y.
_BEYOND = 1e12


def quantity_given(noise: float | None, norm: float | None) -> tuple[Quantity, float]:
    """Return which quantity is given, and its value; exactly one must be."""
    if (noise is None) == (norm is None):
        raise DataError(f"give either noise or norm, one of them; received noise={noise!r} and norm={norm!r}")
    if noise is not None:
        return "noise", positive(noise, "noise")
    return "norm", positive(norm, "norm")


@dataclass(frozen=True, slots=True)
class SecularEquation:
    """Noise and norm of the machine of one output, as functions of lambda.

    ``squares`` are the squared coordinates, and ``length`` the length of the centred targets, in units of ``unit``;
    ``lambdas`` is the range in which machines differ and rounding leaves them known.
    """

    spectrum: Spectrum
    squares: Array
    length: float
    unit: float
    lambdas: tuple[float, float]

    @classmethod
    def of(cls, spectrum: Spectrum, targets: Targets, output: int = 0) -> "SecularEquation":
        """Return the equation of one output."""
        squares = np.square(to_numpy(targets.coordinates)[:, output])
        slopes = to_numpy(targets.fit)[1:, output]
        length = float(np.sqrt(squares.sum() + spectrum.mass * np.square(slopes).sum()))
        return cls(spectrum, squares, length, targets.unit, lambda_range([spectrum]))

    def _shifted(self, lam: float) -> tuple[Array, Array]:
        """Return the eigenvalues, and these plus lambda."""
        values = to_numpy(self.spectrum.values) - self.spectrum.lift
        return values, values + lam

    def noise(self, lam: float) -> float:
        """Return the root mean square of the errors."""
        _, shifted = self._shifted(lam)
        return float(self.unit * np.sqrt(np.sum(self.squares * (lam / shifted) ** 2) / self.spectrum.mass))

    def norm(self, lam: float) -> float:
        """Return the norm of w."""
        values, shifted = self._shifted(lam)
        return float(self.unit * np.sqrt(max(np.sum(values * self.squares / shifted**2), 0.0)))

    def between(self, quantity: Quantity, lam: float) -> tuple[float, float]:
        """Return the ends between which noise or norm of the exact machine at lambda is."""
        values, shifted = self._shifted(lam)
        q, lost = float(self.spectrum.decomposition_error(lam)), relative_rounding(4.0 * values.size + 32.0)
        if not q < 0.1:
            return 0.0, np.inf
        share, rounded = at_most(3.0) * q + lost, at_most(1.0) * lost * self.unit * self.length
        if quantity == "noise":
            noise = self.noise(lam)
            radius = share * noise + rounded / float(np.sqrt(self.spectrum.mass))
            return noise - radius, noise + radius
        square = float(np.sum(values * self.squares / shifted**2))
        sizes = float(np.sum(self.squares / shifted) + 2.0 * lam * np.sum(self.squares / shifted**2))
        low, high = (self.unit * float(np.sqrt(max(square + sign * share * sizes, 0.0))) for sign in (-1.0, 1.0))
        radius = rounded / float(np.sqrt(lam))  # coordinates are multiplied by at most half of that
        return low * (1.0 - lost) - radius, high * (1.0 + lost) + radius

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the targets, by the weights: the noise of a constant machine."""
        return float(self.unit * np.sqrt(self.squares.sum() / self.spectrum.mass))

    def reachable(self, quantity: Quantity) -> tuple[float, float]:
        """Return the values between which a root exists, in double precision."""
        low, _ = self.lambdas
        return (self.noise(low), self.deviation) if quantity == "noise" else (0.0, self.norm(low))

    def root(self, quantity: Quantity, value: float) -> float:
        """Return the lambda at which a quantity has this value; refused, with the range, where none has."""
        least, most = self.reachable(quantity)
        low, high = self.lambdas[0], _BEYOND * self.lambdas[1]
        function = self.noise if quantity == "noise" else self.norm
        ends = function(low), function(high)
        if not (least < value < most) or not (min(ends) < value < max(ends)):
            what = "root mean square of the errors" if quantity == "noise" else "norm of w"
            raise DataError(
                f"no gamma gives a {what} of {value:.6g}: with this kernel it lies between {least:.6g} and {most:.6g}; "
                f"give {quantity} a value between them, or change the kernel"
            )

        def difference(t: float) -> float:
            return float(np.log(function(float(np.exp(t))) / value))

        # at both ends the signs differ, whatever the logarithms round to
        return float(np.exp(brentq(difference, np.log(low), np.log(high), xtol=1e-15, rtol=8.9e-16, maxiter=500)))

    def bracket(self, quantity: Quantity, value: float, lam: float) -> tuple[float, float] | None:
        """Return lambdas on both sides of a root, proved by the signs there; None if rounding hides them."""
        for half_width in _HALF_WIDTHS:
            low, high = lam / (1.0 + half_width), lam * (1.0 + half_width)
            first, last = self.between(quantity, low), self.between(quantity, high)
            small, large = (first, last) if quantity == "noise" else (last, first)
            if small[1] < value < large[0]:
                return low, high
        return None
