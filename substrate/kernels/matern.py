r"""The Matérn kernel of smoothness nu.

.. math:: k(x, z) = \frac{2^{1-\nu}}{\Gamma(\nu)} \, s^{\nu} K_\nu(s), \qquad
          s = \frac{\sqrt{2\nu}\,\|x - z\|_2}{\sigma}

with :math:`K_\nu` the modified Bessel function [Rasmussen2006]_ eq. (4.14); nu = 1/2, 3/2 and 5/2 have elementary
forms. The limit of large nu is exp(-||x-z||^2/(2 sigma^2)), which is ``RBF(sigma * sqrt(2))``. With one width per
column, :math:`s^2 = 2 \nu \sum_c (x_c - z_c)^2 / \sigma_c^2`, and since
:math:`\frac{d}{ds} s^\nu K_\nu(s) = -s^\nu K_{\nu-1}(s)`,

.. math:: \frac{\partial k(x, z)}{\partial \log \sigma_c} = \frac{2^{1-\nu}}{\Gamma(\nu)} \, s^{\nu-1} K_{\nu-1}(s)
          \, \frac{2 \nu (x_c - z_c)^2}{\sigma_c^2} .
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, positive
from substrate.certificates.rounding import bessel_rounding, relative_rounding
from substrate.errors import DeclarationError
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders
from substrate.kernels.distances import Units, exact_squared_distance, metric_distances
from substrate.kernels.exponentials import exponential
from substrate.kernels.integrals import Profile, integrate_interval, integrate_intervals
from substrate.kernels.on_device import euclidean_distances
from substrate.kernels.scales import squares_by_column
from substrate.kernels.widths import KernelOfDistance, one_of
from substrate.namespaces import namespace_of

__all__ = ["Matern"]

#: Between these nu values of the general form are right to a few units of 1e-12.
_SMALLEST_KNOWN, _LARGEST_KNOWN = 0.1, 40.0


@dataclass(frozen=True, repr=False)
class Matern(KernelOfDistance):
    """Matérn kernel of width ``sigma`` and smoothness ``nu`` (a positive number; for infinity write RBF).

    The width is a number, one per column, or taken from the data by ``"median"`` or ``"each"``, as for the RBF kernel.
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nu", positive(self.nu, "nu"))

    def _unit(self, n_features: int) -> Units:
        """Return the widths, for s to be the distance in units of them."""
        return self._widths(n_features) / math.sqrt(2.0 * self.nu)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        metric_distances(X, Z, self.metric, self._unit(X.shape[1]), out)
        np.minimum(out, 1e6, out=out)  # exp(-1e6) is zero; infinity times zero would be NaN
        if self.nu == 0.5:
            factor: Any = 1.0
        elif self.nu == 1.5:
            factor = 1.0 + out
        elif self.nu == 2.5:
            factor = 1.0 + out + out * out / 3.0
        else:
            out[...] = _bessel_form(out, self.nu)
            return
        np.negative(out, out=out)
        np.exp(out, out=out)
        out *= factor

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points; nu is 1/2, 3/2 or 5/2."""
        if self.nu not in (0.5, 1.5, 2.5):
            raise DeclarationError(
                f"{self!r} needs a Bessel function that only the numpy backend has; take nu = 0.5, 1.5 or 2.5, or pass "
                "numpy arrays (X.cpu().numpy(), X.get())"
            )
        xp = namespace_of(X)
        s = xp.clip(euclidean_distances(X, Z, self._unit(X.shape[1]), dtype), max=1e6)
        values = exponential(-s)
        if self.nu == 1.5:
            values *= 1.0 + s
        elif self.nu == 2.5:
            values *= 1.0 + s + s * s / 3.0
        return values

    @property
    def not_smooth(self) -> str:
        """Empty for nu > 1, as far as the Bessel function does not overflow."""
        if self.nu > _LARGEST_KNOWN:
            return "its Bessel function overflows for such a large nu; take RBF(sigma * sqrt(2)), which is its limit"
        if self.nu > 1.0:
            return ""
        return f"functions of a Matern kernel have some for nu > 1 only, not for nu = {self.nu:g}; take nu=1.5 or more"

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the largest integer below nu."""
        return 0.0 if self.not_smooth else math.ceil(self.nu) - 1.0

    def _profile(self, r: Array, order: int, power: int) -> Array:
        """Return (-1/2)^order 2^(1-nu)/Gamma(nu) r^(nu-order+power) K_(nu-order)(r), since q = r^2/2 has d/dq = 1/r
        d/dr.
        """
        from scipy.special import gammaln, kve

        index, tiny = self.nu - order, np.finfo(np.float64).tiny
        front = math.log(2.0) * (1.0 - self.nu - order) - float(gammaln(self.nu))
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            lengths = np.log(np.maximum(r, tiny))
            bessel = kve(abs(index), r)
            values = np.exp(front + (index + power) * lengths - r + np.log(np.where(np.isfinite(bessel), bessel, 1.0)))
            if index == 0.0:
                near: Any = 0.0  # a logarithm times a power
            else:  # the first term of the series, where the Bessel function overflows
                first = front + (abs(index) - 1.0) * math.log(2.0) + float(gammaln(abs(index)))
                exponent = power + min(2.0 * index, 0.0)
                near = np.exp(first + exponent * lengths) if exponent else math.exp(first)
                near = np.where(r > 0.0, near, 0.0 if exponent else near)
        return np.asarray((-1.0) ** order * np.where(np.isfinite(bessel) & (r > 0.0), values, near))

    @property
    def no_integral(self) -> str:
        """Empty for nu = 1/2, 3/2 and 5/2, on one column."""
        if self.nu in (0.5, 1.5, 2.5):
            return ""
        return f"there is no closed form for nu = {self.nu:g}; take nu = 0.5, 1.5 or 2.5"

    def _integral(self, X: Array, boxes: Array, orders: Orders) -> Array:
        """Integrate by the tails of a polynomial times an exponential."""
        unit = self._only_unit(X.shape[1])
        return integrate_interval(self._tails(unit), unit, X[:, 0], boxes[:, 0], orders.get(0, 0))

    def _double_integral(self, boxes: Array, others: Array) -> Array:
        """Integrate by the tails of a polynomial times an exponential."""
        unit = self._only_unit(boxes.shape[1])
        return integrate_intervals(self._tails(unit), unit, boxes[:, 0], others[:, 0])

    def _only_unit(self, n_features: int) -> float:
        if n_features > 1:
            raise DeclarationError(
                f"{self!r} has integrals over intervals of one column, not over boxes of {n_features}; take RBF, or "
                "Componentwise with this kernel"
            )
        return one_of(self._unit(1), 0)

    def _tails(self, unit: float) -> Profile:
        """Return the tails: p(s) exp(-s) has the tail q(s) exp(-s) with q = p + p' + p'' + ..."""
        value = np.polynomial.Polynomial({0.5: [1.0], 1.5: [1.0, 1.0], 2.5: [1.0, 1.0, 1.0 / 3.0]}[self.nu])
        first = value + value.deriv(1) + value.deriv(2)
        second = first + first.deriv(1) + first.deriv(2)

        def times_exponential(polynomial: Any, u: Array) -> Array:
            s = np.minimum(np.abs(u) / unit, 1e3)
            return np.asarray(polynomial(s) * np.exp(-s))

        def derivative(u: Array, order: int) -> Array:
            if not order:
                return times_exponential(value, u)
            points = np.reshape(u, (-1, 1))
            return self._derivative(points, np.zeros((1, 1)), {0: order}, {}).reshape(u.shape)

        return Profile(
            derivative,
            lambda u: unit * times_exponential(first, u),
            lambda u: unit**2 * times_exponential(second, u),
        )

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives above, weighted and added up; of one width, the sum over the columns."""
        if self.nu > _LARGEST_KNOWN:
            raise DeclarationError(f"{self!r} has no derivatives in its widths: {self.not_smooth}")
        s = self._scaled_distances(X, Z)
        slopes = weights * self._slope(s)
        unit = self._unit(X.shape[1])
        if isinstance(unit, float):
            return np.array([np.vdot(slopes, s * s)])
        return squares_by_column(X, Z, unit, slopes)

    def _slope(self, s: Array) -> Array:
        """Return 2^(1-nu)/Gamma(nu) s^(nu-1) K_(nu-1)(s), which is -1/s times the derivative in s; zero for s = 0."""
        distance = np.where(s > 0.0, s, 1.0)
        if self.nu == 0.5:
            slope = np.exp(-s) / distance
        elif self.nu == 1.5:
            slope = np.exp(-s)
        elif self.nu == 2.5:
            slope = (1.0 + s) * np.exp(-s) / 3.0
        else:
            slope = _bessel_bend(s, self.nu + 1.0) / distance / distance
        return np.asarray(np.where(s > 0.0, slope, 0.0))

    def _scaled_distances(self, X: Array, Z: Array) -> Array:
        s = np.empty((X.shape[0], Z.shape[0]))
        metric_distances(X, Z, self.metric, self._unit(X.shape[1]), s)
        return np.minimum(s, 1e6, out=s)

    def rounding(self, X: Any) -> float:
        """Bound the rounding as for the Laplacian kernel; the general form uses logarithms and a Bessel function.

        That function overflows near zero for a large nu; for a tiny one the smallest distances matter, and underflow.
        No bound is known there.
        """
        if self.nu in (0.5, 1.5, 2.5):
            return relative_rounding(X.shape[1] + 12.0)
        is_known = _SMALLEST_KNOWN <= self.nu <= _LARGEST_KNOWN
        return bessel_rounding(self.nu) + relative_rounding(X.shape[1]) if is_known else math.inf

    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula above, with the elementary forms where there are some."""
        nu = number(self.nu)
        root = (2 * nu).sqrt() / number(sigma)

        def value(x: Any, z: Any) -> Any:
            s = exact_squared_distance(x, z).sqrt() * root
            if self.nu in (0.5, 1.5, 2.5):
                factor = 1 + (self.nu > 1.0) * s + (self.nu > 2.0) * s * s / 3
                return factor * (-s).exp()
            return number(1.0) if s == 0 else 2 ** (1 - nu) / nu.gamma() * s**nu * s.bessel_k(nu)

        return value


def _bessel_form(s: Array, nu: float) -> Array:
    from scipy.special import gammaln, kve

    # In logarithms: s^nu underflows and K_nu(s) overflows near zero where their product tends to one.
    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore", over="ignore"):
        log_value = math.log(2.0) * (1.0 - nu) - gammaln(nu) + nu * np.log(np.maximum(s, tiny)) - s
        bessel = kve(nu, s)
        value = np.exp(log_value + np.log(np.where(np.isfinite(bessel), bessel, 1.0)))
    result: Array = np.where(np.isfinite(bessel) & (s > 0.0), np.minimum(value, 1.0), 1.0)
    return result


def _bessel_bend(s: Array, nu: float) -> Array:
    """Return 2^(2-nu)/Gamma(nu-1) s^nu K_(nu-2)(s), which is -s times the derivative of the kernel of smoothness nu -
    1.
    """
    from scipy.special import gammaln, kve

    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_value = math.log(2.0) * (2.0 - nu) - gammaln(nu - 1.0) + nu * np.log(np.maximum(s, tiny)) - s
        bessel = kve(nu - 2.0, s)
        value = np.exp(log_value + np.log(np.where(np.isfinite(bessel), bessel, 1.0)))
        near = s * s / max(2.0 * nu - 4.0, 1.0)  # the first term of the series, where the Bessel function overflows
    result: Array = np.where(np.isfinite(bessel) & (s > 0.0), value, near)
    return result
