r"""The Matérn kernel of smoothness nu.

.. math:: k(x, z) = \frac{2^{1-\nu}}{\Gamma(\nu)} \, r^{\nu} K_\nu(r), \qquad
          r = \frac{\sqrt{2\nu}\,\|x - z\|_2}{\sigma}

with :math:`K_\nu` the modified Bessel function [Rasmussen2006]_ eq. (4.14); nu = 1/2, 3/2 and 5/2 have elementary
forms. The limit of large nu is exp(-||x-z||^2/(2 sigma^2)), which is ``RBF(sigma * sqrt(2))``. With one width per
column, :math:`r^2 = 2 \nu \sum_c (x_c - z_c)^2 / \sigma_c^2`. As a function of :math:`r^2` it has the derivatives
:math:`(-\tfrac12)^j \frac{2^{1-\nu}}{\Gamma(\nu)} \, r^{\nu-j} K_{\nu-j}(r)`, since
:math:`\frac{d}{dr} r^\nu K_\nu(r) = -r^\nu K_{\nu-1}(r)`.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, positive
from substrate.errors import DeclarationError
from substrate.kernels.base import Number
from substrate.kernels.of_distance import Functions, KernelOfDistance
from substrate.numbers import bessel_rounding, relative_rounding

__all__ = ["ELEMENTARY", "Matern"]

#: Between these nu values of the general form are right to a few units of 1e-12.
_SMALLEST_KNOWN, _LARGEST_KNOWN = 0.1, 40.0
#: The smoothness of elementary forms.
ELEMENTARY = (0.5, 1.5, 2.5)


@dataclass(frozen=True, repr=False)
class Matern(KernelOfDistance):
    """Matérn kernel of width ``sigma`` and smoothness ``nu`` (a positive number; for infinity write RBF).

    The width is a number, one per column, or taken from the data by ``"median"`` or ``"each"``, as for the RBF kernel.
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nu", positive(self.nu, "nu"))

    def _unit(self, n_features: int) -> Array:
        """Return the widths, for r to be the distance in units of them."""
        return self._widths(n_features) / math.sqrt(2.0 * self.nu)

    def _exact_units(self, number: Number, n_features: int) -> list[Any]:
        widths = super()._exact_units(number, n_features)
        root = (2 * number(self.nu)).sqrt()
        return [width / root for width in widths]

    def formula(self, s: Any, functions: Functions) -> Any:
        """Return the elementary forms of s = r^2, or the general one."""
        if self.nu in ELEMENTARY:
            r = functions.sqrt(s)
            decay = functions.exp(-r)
            if self.nu == 0.5:
                return decay
            return (1 + r) * decay if self.nu == 1.5 else (1 + r + s / 3) * decay
        if isinstance(s, np.ndarray):
            return np.minimum(self._profile(np.sqrt(s), 0, 0), 1.0)
        if not hasattr(s, "bessel_k"):
            raise DeclarationError(
                f"{self!r} needs a Bessel function that only the numpy backend has; take nu = 0.5, 1.5 or 2.5, or pass "
                "numpy arrays (X.cpu().numpy(), X.get())"
            )
        nu, r = functions.number(self.nu), functions.sqrt(s)
        return functions.number(1.0) if r == 0 else 2 ** (1 - nu) / nu.gamma() * r**nu * r.bessel_k(nu)

    @property
    def is_elementary(self) -> bool:
        """Whether there is no Bessel function in it."""
        return self.nu in ELEMENTARY

    def slope(self, s: Array, values: Array) -> Array:
        """Return 2^(1-nu)/Gamma(nu) r^(nu-1) K_(nu-1)(r); at a distance of zero nothing changes."""
        r = np.sqrt(s)
        if self.nu == 0.5:
            return np.divide(values, r, out=np.zeros_like(r), where=r > 0.0)
        if self.nu == 1.5:
            return values / (1.0 + r)
        if self.nu == 2.5:
            return np.asarray(values * (1.0 + r) / (3.0 + 3.0 * r + s))
        if self.nu > _LARGEST_KNOWN:
            raise DeclarationError(f"{self!r} has no derivatives in its widths: {self.not_smooth}")
        return -2.0 * self._profile(r, 1, 0)

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
        """Return r^power times the derivative of this order in r^2, by logarithms: r^nu underflows and K_nu(r)
        overflows near zero where their product does not.
        """
        from scipy.special import gammaln, kve

        r = np.minimum(r, 1e6)  # every value, times any power of the distance, is zero there
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
        if self.nu in ELEMENTARY:
            return ""
        return f"there is no closed form for nu = {self.nu:g}; take nu = 0.5, 1.5 or 2.5"

    def refuse_boxes(self, n_features: int) -> None:
        """Refuse boxes of several columns."""
        if n_features > 1:
            raise DeclarationError(
                f"{self!r} has integrals over intervals of one column, not over boxes of {n_features}; take RBF, or "
                "Componentwise with this kernel"
            )

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding as for the Laplacian kernel; the general form uses logarithms and a Bessel function.

        That function overflows near zero for a large nu; for a tiny one the smallest distances matter, and underflow.
        No bound is known there.
        """
        if self.nu in ELEMENTARY:
            return relative_rounding(X.shape[1] + 12.0)
        is_known = _SMALLEST_KNOWN <= self.nu <= _LARGEST_KNOWN
        return bessel_rounding(self.nu) + relative_rounding(X.shape[1]) if is_known else math.inf
