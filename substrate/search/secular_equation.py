r"""The gamma at which a machine has a stated noise or a stated norm: one secular equation on the spectrum.

The regularised least squares of Tikhonov, of Morozov and of Ivanov have the same solutions,

.. math::

    \min \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i e_i^2, \qquad
    \min \tfrac12 w^T w \ \text{ s.t. } \ \frac{\sum_i v_i e_i^2}{\sum_i v_i} \le \varsigma^2, \qquad
    \min \tfrac12 \sum_i v_i e_i^2 \ \text{ s.t. } \ w^T w \le \pi^2 ,

and gamma is the multiplier of the second problem's constraint, one over that of the third ([Morozov1984]_,
[Ivanov1976]_, [Tikhonov1977]_). With eigenvalues s of the centred kernel matrix, coordinates z of the targets
(:mod:`~substrate.least_squares.spectrum`) and :math:`\lambda = 1/\gamma`,

.. math::

    \varsigma^2(\lambda) = \frac{1}{\sum_i v_i} \sum_k \Big( \frac{\lambda z_k}{s_k + \lambda} \Big)^2, \qquad
    \pi^2(\lambda) = \sum_k \frac{s_k z_k^2}{(s_k + \lambda)^2} .

The noise rises with lambda, from what no gamma can fit to the standard deviation of y; the norm falls, to zero. So
either equation has one root or none, and a bracket of it needs no more than the two signs at its ends
(:func:`bracket_root`). Within a bracket the machines are near each other: every coordinate of the errors satisfies
:math:`0 \le d \log |e_k| / d \log \lambda = s_k / (s_k + \lambda) \le 1`, hence

.. math:: \|e(\lambda_2) - e(\lambda_1)\|_v \le \Big( \frac{\lambda_2}{\lambda_1} - 1 \Big) \|e(\lambda_1)\|_v,
          \qquad \lambda_1 \le \lambda_2 ,

where the fitted values differ by as much.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from substrate.arrays import Array, positive, to_numpy
from substrate.errors import DataError
from substrate.least_squares.spectrum import Spectrum, Targets
from substrate.numbers import at_most, relative_rounding
from substrate.search.gamma_search import lambda_range

__all__ = ["Quantity", "SecularEquation", "bracket_root", "enclose_noise", "enclose_norm", "quantity_given"]

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

    ``values`` and ``squares`` are the eigenvalues and the squared coordinates, in units of ``unit`` squared; ``mass``
    is the weight of all rows, ``lift`` what lambda is counted from, and ``lambdas`` the range in which machines differ
    and rounding leaves them known.
    """

    values: Array
    squares: Array
    mass: float
    lift: float
    unit: float
    lambdas: tuple[float, float]

    @classmethod
    def of(cls, spectrum: Spectrum, targets: Targets, output: int = 0) -> "SecularEquation":
        """Return the equation of one output."""
        values, squares = to_numpy(spectrum.values), np.square(to_numpy(targets.coordinates)[:, output])
        ends = lambda_range([spectrum])
        return cls(
            values=values, squares=squares, mass=spectrum.mass, lift=spectrum.lift, unit=targets.unit, lambdas=ends
        )

    def noise(self, lam: float) -> float:
        """Return the root mean square of the errors."""
        shares = lam / (self.values + (lam - self.lift))
        return float(self.unit * np.sqrt(np.sum(self.squares * shares**2) / self.mass))

    def norm(self, lam: float) -> float:
        """Return the norm of w."""
        shifted = self.values + (lam - self.lift)
        return float(self.unit * np.sqrt(np.sum(np.maximum(self.values - self.lift, 0.0) * self.squares / shifted**2)))

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the targets, by the weights: the noise of a constant machine."""
        return float(self.unit * np.sqrt(self.squares.sum() / self.mass))

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


def bracket_root(
    enclose: Callable[[float], tuple[float, float]], lam: float, value: float, quantity: Quantity
) -> tuple[float, float] | None:
    """Return lambdas between which the root is, proved by the enclosures of the quantity at both; None without one.

    ``enclose`` returns the ends between which the quantity of the exact machine at a lambda is.
    """
    for half_width in _HALF_WIDTHS:
        low, high = lam / (1.0 + half_width), lam * (1.0 + half_width)
        first, last = enclose(low), enclose(high)
        small, large = (first, last) if quantity == "noise" else (last, first)
        if small[1] < value < large[0]:
            return low, high
    return None


def enclose_noise(errors: Array, weights: Array, accuracy: float) -> tuple[float, float]:
    r"""Return the ends between which the noise of the exact machine is, from errors of fitted values within accuracy.

    By the triangle inequality in the norm that ``accuracy`` is measured in, root mean square by the weights.
    """
    noise = float(np.sqrt(np.sum(weights * errors**2) / weights.sum()))
    radius = at_most(accuracy + relative_rounding(errors.size + 8.0) * noise)
    return noise - radius, noise + radius


def enclose_norm(errors: Array, fitted: Array, weights: Array, gamma: float, accuracy: float) -> tuple[float, float]:
    r"""Return the ends between which the norm of the exact machine is.

    With :math:`\alpha_i = \gamma v_i e_i` and :math:`1^T \alpha = 0` the norm is :math:`w^T w = \gamma \sum_i v_i e_i
    (f_i - c)` at the optimum, for every c. Fitted values that are off by d change it by
    :math:`\gamma (\sum_i v_i d_i (e_i - f_i + c) - \sum_i v_i d_i^2)`.
    """
    mass = float(weights.sum())
    about = fitted - float(weights @ fitted) / mass
    products = weights * errors * about
    distance = np.sqrt(mass) * accuracy
    length = float(np.sqrt(np.sum(weights * (errors - about) ** 2)))
    rounding = relative_rounding(errors.size + 16.0)
    radius = at_most(gamma * (distance * (length + distance) + rounding * float(np.abs(products).sum())))
    square = gamma * float(products.sum())
    low, high = (float(np.sqrt(max(end, 0.0))) for end in (square - radius, square + radius))
    return low * (1.0 - relative_rounding(2.0)), high * (1.0 + relative_rounding(2.0))
