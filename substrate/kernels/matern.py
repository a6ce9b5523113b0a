r"""The Matérn kernel of smoothness nu.

.. math:: k(x, z) = \frac{2^{1-\nu}}{\Gamma(\nu)} \, s^{\nu} K_\nu(s), \qquad
          s = \frac{\sqrt{2\nu}\,\|x - z\|_2}{\sigma}

with :math:`K_\nu` the modified Bessel function [Rasmussen2006]_ eq. (4.14); nu = 1/2, 3/2 and 5/2 have elementary
forms. The limit of large nu is exp(-||x-z||^2/(2 sigma^2)), which is ``RBF(sigma * sqrt(2))``.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import EPS, Array, positive
from substrate.errors import DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number, ones, width
from substrate.kernels.distances import (
    differences,
    exact_squared_distance,
    median_distance,
    metric_distances,
    needs_number,
)
from substrate.kernels.on_device import euclidean_distances
from substrate.namespaces import namespace_of

__all__ = ["Matern"]

#: Between these nu values of the general form are right to a few units of 1e-12.
_SMALLEST_KNOWN, _LARGEST_KNOWN = 0.1, 40.0


@dataclass(frozen=True, repr=False)
class Matern(Kernel):
    """Matérn kernel of width ``sigma`` and smoothness ``nu`` (a positive number; for infinity write RBF)."""

    sigma: float | str = "median"
    nu: float = 1.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", width(self.sigma))
        object.__setattr__(self, "nu", positive(self.nu, "nu"))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """All of them."""
        return (tuple(range(n_features)),)

    @property
    def decays(self) -> bool:
        """True: the width is sigma."""
        return True

    def _resolved(self, X: Any) -> Self:
        return replace(self, sigma=median_distance(X)) if isinstance(self.sigma, str) else self

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        unit = needs_number(self, self.sigma) / math.sqrt(2.0 * self.nu)
        metric_distances(X, Z, "euclidean", unit, out)
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
        """The kernel values as a new array in the namespace of the points; nu is 1/2, 3/2 or 5/2."""
        if self.nu not in (0.5, 1.5, 2.5):
            raise DeclarationError(
                f"{self!r} needs a Bessel function that only numpy's road has; take nu = 0.5, 1.5 or 2.5, or pass "
                "numpy arrays (X.cpu().numpy(), X.get())"
            )
        unit = needs_number(self, self.sigma) / math.sqrt(2.0 * self.nu)
        xp = namespace_of(X)
        s = xp.clip(euclidean_distances(X, Z, unit, dtype), max=1e6)
        values = xp.exp(-s)
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

    def _gradient(self, X: Array, Z: Array, column: int) -> Array:
        """-(x_c - z_c)/u^2 m(s)/(2 nu - 2), u the unit of s and m the kernel of smoothness nu - 1."""
        s, unit = self._scaled_distances(X, Z)
        slope = _bessel_form(s, self.nu - 1.0) / (2.0 * self.nu - 2.0)
        return np.asarray(-(differences(X, Z, column) / unit) * slope / unit)

    def _mixed_derivative(self, X: Array, Z: Array, column: int, other: int) -> Array:
        """As the derivative of :meth:`gradient`, by d(s^nu K_nu(s))/ds = -s^nu K_(nu-1)(s)."""
        s, unit = self._scaled_distances(X, Z)
        apart = np.where(s > 0.0, s, 1.0)
        along = (differences(X, Z, column) / unit / apart) * (differences(X, Z, other) / unit / apart)
        bend = along * _bessel_bend(s, self.nu)
        return np.asarray(
            ((column == other) * _bessel_form(s, self.nu - 1.0) - bend) / (2.0 * self.nu - 2.0) / unit / unit
        )

    def _scaled_distances(self, X: Array, Z: Array) -> tuple[Array, float]:
        unit = needs_number(self, self.sigma) / math.sqrt(2.0 * self.nu)
        s = np.empty((X.shape[0], Z.shape[0]))
        metric_distances(X, Z, "euclidean", unit, s)
        return np.minimum(s, 1e6, out=s), unit

    def rounding(self, X: Any) -> float:
        """As for the Laplacian kernel; the general form uses logarithms and a Bessel function.

        That function overflows near zero for a large nu; for a tiny one the smallest distances matter, and underflow.
        No bound is known there.
        """
        if self.nu in (0.5, 1.5, 2.5):
            return float(X.shape[1] + 12.0) * EPS
        known = _SMALLEST_KNOWN <= self.nu <= _LARGEST_KNOWN
        return 1e-12 * (1.0 + self.nu) + X.shape[1] * EPS if known else math.inf

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """The formula above, with the elementary forms where there are some."""
        nu = number(self.nu)
        root = (2 * nu).sqrt() / number(needs_number(self, self.sigma))

        def value(x: Any, z: Any) -> Any:
            s = exact_squared_distance(x, z).sqrt() * root
            if self.nu in (0.5, 1.5, 2.5):
                factor = 1 + (self.nu > 1.0) * s + (self.nu > 2.0) * s * s / 3
                return factor * (-s).exp()
            return number(1.0) if s == 0 else 2 ** (1 - nu) / nu.gamma() * s**nu * s.bessel_k(nu)

        return value

    def diag(self, X: Any) -> Any:
        """Ones."""
        return ones(X)


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
    """2^(2-nu)/Gamma(nu-1) s^nu K_(nu-2)(s), which is -s times the derivative of the kernel of smoothness nu - 1."""
    from scipy.special import gammaln, kve

    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_value = math.log(2.0) * (2.0 - nu) - gammaln(nu - 1.0) + nu * np.log(np.maximum(s, tiny)) - s
        bessel = kve(nu - 2.0, s)
        value = np.exp(log_value + np.log(np.where(np.isfinite(bessel), bessel, 1.0)))
        near = s * s / max(2.0 * nu - 4.0, 1.0)  # the first term of the series, where the Bessel function overflows
    result: Array = np.where(np.isfinite(bessel) & (s > 0.0), value, near)
    return result
