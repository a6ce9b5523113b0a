r"""Kernels that fall with the distance of two points, measured in widths: functions of one sum over the columns,

.. math:: k(x, z) = f(s), \qquad s = \sum_c \Big( \frac{|x_c - z_c|}{\sigma_c} \Big)^p, \qquad
          \frac{\partial k}{\partial \log \sigma_c} = -p f'(s) \Big( \frac{|x_c - z_c|}{\sigma_c} \Big)^p .

The formula f is written once, for arrays of any library and for numbers of an exact arithmetic.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from substrate.arrays import Array, namespace_of, positive, zeros_beside
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number
from substrate.kernels.derivatives import Orders, differentiate_distance
from substrate.kernels.distances import (
    add_by_column,
    negative_squares,
    powers_of_distances,
    squares_error,
)
from substrate.kernels.integrals import integrate_differences
from substrate.kernels.widths import Width, checked_width, distinct_rows, each_distance, median_distance
from substrate.numbers import LEAST, Double, at_most, exponential_rounding, relative_rounding, sum_rounding

__all__ = ["NUMPY", "RBF", "Categorical", "Functions", "KernelOfDistance", "Laplacian", "PowerExponential"]

#: In units of the width: exp(-50^2) is zero.
_FAR = 50.0
_ROOT_LOG2_E = 1.4426950408889634**0.5
#: Smallest q for which the largest and the smallest difference of two numbers are those of infinity and zero.
_SMALLEST_POWER = 0.1


class Functions(NamedTuple):
    """The functions of an arithmetic: how a number is made, the exponential and the root."""

    number: Callable[[float], Any]
    exp: Callable[[Any], Any]
    sqrt: Callable[[Any], Any]


#: The functions of numpy, and those of numbers with a radius.
NUMPY = Functions(float, np.exp, np.sqrt)
_ENCLOSED = Functions(Double.exact, Double.exp, Double.sqrt)
#: Operations of a sum of powers of differences, beside one per column: units, differences, powers and their weights.
_OPERATIONS = 16.0


@dataclass(frozen=True, repr=False)
class KernelOfDistance(Kernel, ABC):
    """A kernel that falls from one with the distance of two points, measured in widths."""

    sigma: Width = "median"
    #: Whether columns are codes, of which it matters only whether they differ.
    codes: ClassVar[bool] = False
    decays: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", checked_width(self.sigma))

    def formula(self, s: Any, functions: Functions) -> Any:
        """Return f(s), which is exp(-s) unless a kernel defines another."""
        return functions.exp(-s)

    @abstractmethod
    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return p such that a computed k(x, z) is within p of the true one, for all rows of X."""

    def slope(self, s: Array, values: Array) -> Array:
        """Return -p f'(s), given f(s); any number where s is zero, since no width matters there."""
        return self.power * values

    @property
    def power(self) -> float:
        """The power p of the differences."""
        return 2.0

    def _sums(self, X: Any, Z: Any, dtype: Any = np.float64) -> Any:
        return powers_of_distances(X, Z, self._unit(X.shape[1]), self.power, dtype, codes=self.codes)

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return f of the sums, which are right to a few operations more than there are columns."""
        if not self.is_elementary:
            return super().enclose(X, Z)
        sums = self._sums(X, Z)
        radius = at_most(sum_rounding(X.shape[1] + _OPERATIONS)) * sums + LEAST
        values: Double = self.formula(Double(sums, radius), _ENCLOSED)
        return values

    @property
    def is_elementary(self) -> bool:
        """Whether f is made of roots, exponentials and polynomials."""
        return True

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        return self.formula(self._sums(X, Z, dtype), Functions(float, namespace_of(X).exp, namespace_of(X).sqrt))

    def diag(self, X: Any) -> Any:
        """Return ones."""
        self._widths(X.shape[1])
        ones: Array = zeros_beside(X, X.shape[0]) + 1.0
        return ones

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return f of the sum."""
        units = self._exact_units(number, n_features)
        functions = Functions(number, lambda v: v.exp(), lambda v: v.sqrt())
        return lambda x, z: self.formula(
            sum(self._exact_power(a, b, unit, number) for a, b, unit in zip(x, z, units, strict=True)), functions
        )

    def _exact_units(self, number: Number, n_features: int) -> list[Any]:
        return [number(float(width)) for width in self._widths(n_features)]

    def _exact_power(self, a: Any, b: Any, unit: Any, number: Number) -> Any:
        if self.codes:  # whether two codes are the same is decided by the numbers themselves
            return (1 / unit) * (a != b)
        ratio = (a - b) / unit
        if self.power == 2.0:
            return ratio * ratio
        return abs(ratio) if self.power == 1.0 else abs(ratio) ** number(self.power)

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns; none where every column has its own width."""
        # a kernel of one column may be that of every column of a sum, and its width then is one for all
        has_own_widths = self.sigma == "each" or (isinstance(self.sigma, tuple) and len(self.sigma) == n_features)
        return () if has_own_widths else (tuple(range(n_features)),)

    def _resolve(self, X: Any) -> Self:
        if isinstance(self.sigma, str):
            rule: Any = each_distance if self.sigma == "each" else median_distance
            return replace(self, sigma=rule(X, self.power))
        self._widths(X.shape[1])
        return self

    def _widths(self, n_features: int) -> Array:
        """Return one width per column, or an error that states how to obtain them."""
        if isinstance(self.sigma, str):
            raise DeclarationError(f"{self!r} depends on data; call kernel.resolved(X) first (estimators do)")
        if isinstance(self.sigma, tuple) and len(self.sigma) != n_features:
            raise DataError(
                f"the number of widths of {self!r} is {len(self.sigma)}, the points have {n_features} columns; give "
                "one width per column, one number for all, or name its columns by kernel.on(...)"
            )
        return np.array(np.broadcast_to(self.sigma, (n_features,)), dtype=np.float64)

    def _unit(self, n_features: int) -> Array:
        """Return the units of the differences in the sum."""
        return self._widths(n_features)

    def _inverse(self, n_features: int, of: float = 1.0) -> Array:
        """Return ``of`` over the widths, and no more than the largest number there is."""
        with np.errstate(over="ignore"):
            return np.minimum(of / self._widths(n_features), np.finfo(np.float64).max)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives above, weighted and added up; of one width, the sum over the columns."""
        s = self._sums(X, Z)
        slopes = weights * self.slope(s, self.formula(s, NUMPY))
        if isinstance(self.sigma, float):
            return np.array([np.vdot(slopes, s)])
        return add_by_column(X, Z, self._unit(X.shape[1]), self.power, slopes, codes=self.codes)

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Differentiate by the profile of the kernel, see :mod:`~substrate.kernels.derivatives`."""
        orders = {c: left.get(c, 0) + right.get(c, 0) for c in sorted({*left, *right})}
        sums = self._sums(X, Z)
        if not orders:
            return np.asarray(self.formula(sums, NUMPY))
        unit, r = self._unit(X.shape[1]), np.sqrt(sums)
        divisor = np.where(r > 0.0, r, 1.0)
        with np.errstate(over="ignore"):
            differences = {c: (X[:, c, None] - Z[None, :, c]) / unit[c] for c in orders}
        along = {c: np.clip(difference, -divisor, divisor) / divisor for c, difference in differences.items()}
        values = differentiate_distance(along, orders, lambda order, power: self._profile(r, order, power))
        for c, order in orders.items():
            for _ in range(order):
                values = values / unit[c]
        return -values if sum(right.values()) % 2 else values

    def _profile(self, r: Array, order: int, power: int) -> Array:
        """Return r^power times the derivative of this order of the kernel as a function of r^2, for smooth kernels."""
        raise DeclarationError(f"{self!r} has no profile of its derivatives")

    def refuse_boxes(self, n_features: int) -> None:
        """Raise where the kernel has no integrals over boxes of so many columns."""

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the product over the columns of integrals of the kernel on one column."""
        self.refuse_orders(orders)
        n_features = boxes.shape[1]
        self.refuse_boxes(n_features)
        values = np.ones((boxes.shape[0], others.shape[0]))
        origin = np.zeros((1, 1))
        for c, width in enumerate(self._widths(n_features)):
            of_column = replace(self, sigma=float(width))
            order = {0: orders[c]} if c in orders else {}

            def value(u: Array, k: KernelOfDistance = of_column, order: Orders = order) -> Array:
                return k._derivative(u.reshape(-1, 1), origin, order, {}).reshape(u.shape)

            offsets = boxes[:, None, c, 0] - others[None, :, c, 0]
            lengths = [each[:, c, 1] - each[:, c, 0] for each in (boxes, others)]
            unit = float(of_column._unit(1)[0])
            values *= integrate_differences(value, unit, offsets, lengths[0][:, None], lengths[1][None, :])
        return values


@dataclass(frozen=True, repr=False)
class RBF(KernelOfDistance):
    r"""exp(-||x - z||^2 / sigma^2), or one width per column.

    ``sigma="median"`` takes the median distance of the training points, ``sigma="each"`` one width per column from
    them. This is the form all five source papers use ([Pelckmans2005]_ after eq. (3), [Suykens2002]_ after eq. (9));
    scikit-learn's ``gamma`` is 1/sigma^2.
    """

    not_smooth: ClassVar[str] = ""
    no_integral: ClassVar[str] = ""

    def smooth_units(self, n_features: int) -> Array:
        """Return the widths."""
        return self._widths(n_features)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array, by one matrix product where nothing cancels in it."""
        xp = namespace_of(X)
        if xp is np and dtype == np.float64:
            out = np.empty((X.shape[0], Z.shape[0]))
            self.fill(X, Z, out)
            return out
        squares = negative_squares(X, Z, self._inverse(X.shape[1]), dtype)
        return super().evaluate(X, Z, dtype) if squares is None else xp.exp(xp.clip(squares, max=0.0))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``, which predictions use again for every block."""
        # 2^(x log2 e) is e^x, and a power of two is a tenth cheaper than the exponential
        squares = negative_squares(X, Z, self._inverse(X.shape[1], _ROOT_LOG2_E), out=out)
        if squares is None:
            out[...] = super().evaluate(X, Z, np.float64)
        else:
            np.exp2(np.minimum(squares, 0.0, out=out), out=out)

    def _profile(self, r: Array, order: int, power: int) -> Array:
        """Return r^power times the derivative of this order of exp(-s) in s = r^2."""
        r = np.minimum(r, _FAR)
        return np.asarray((-1.0) ** order * r**power * np.exp(-np.square(r)))

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the absolute error of the exponent, and that of the exponential.

        Differences are right to a few units in the last place, and t exp(-t) is at most 1/e.
        """
        if by_differences:
            return exponential_rounding(X.shape[1] + 10.0, 3.0)
        return squares_error(X, self._inverse(X.shape[1])) + relative_rounding(X.shape[1] + 10.0)


@dataclass(frozen=True, repr=False)
class Laplacian(KernelOfDistance):
    """exp(-||x - z||_1 / sigma), or one width per column (scikit-learn's gamma is 1/sigma).

    ``sigma="median"`` takes the median L1 distance of the training points, ``sigma="each"`` one width per column from
    them.
    """

    power: ClassVar[float] = 1.0
    not_smooth: ClassVar[str] = "it has a kink where x = z; take RBF or Matern(nu > 1)"
    no_integral: ClassVar[str] = ""

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding: distances are right to d + 4 roundings, t exp(-t) is at most 1/e, and the exponential
        to four.
        """
        return exponential_rounding(X.shape[1] + 6.0, 4.0)


@dataclass(frozen=True, repr=False)
class PowerExponential(KernelOfDistance):
    r"""exp(-(||x - z||_p / sigma)^q), 0 < q <= p <= 2, or one width per column.

    ``sigma="median"`` takes the median distance of the training points, by the same p, ``sigma="each"`` one width per
    column from them. :math:`|u|^p` is negative definite for :math:`0 < p \le 2`, sums of such functions are, and so are
    powers of them with exponents from 0 to 1; the exponential of the negative is then positive definite
    ([Schoenberg1938]_). p = q = 1 is the Laplacian kernel, p = q = 2 the RBF kernel, p = 2 and q = 1 the Matérn kernel
    of smoothness 1/2. With p below 2 the axes of the inputs matter, and with q below 1 the values near a row fall
    faster, and those far from it slower, than with any width of the Laplacian kernel.
    """

    p: float = 1.0
    q: float = 0.5
    not_smooth: ClassVar[str] = "it has a kink where x = z, unless p = q = 2; take RBF or Matern(nu > 1)"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("p", "q"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if not self.q <= self.p <= 2.0:
            raise DeclarationError(
                f"exp(-(||x - z||_p / sigma)^q) is positive definite for 0 < q <= p <= 2, received p={self.p:g} and "
                f"q={self.q:g}; take p at most 2 and q at most p"
            )

    @property
    def power(self) -> float:
        """The field p."""
        return self.p

    def formula(self, s: Any, functions: Functions) -> Any:
        """Return exp(-s^(q/p))."""
        return functions.exp(-self._exponent(s, functions))

    def _exponent(self, s: Any, functions: Functions) -> Any:
        if self.q == 0.5 * self.p:
            return functions.sqrt(s)
        return s if self.q == self.p else s ** (functions.number(self.q) / functions.number(self.p))

    def slope(self, s: Array, values: Array) -> Array:
        """Return q s^(q/p - 1) f(s)."""
        exponents = self._exponent(s, NUMPY)
        return np.asarray(self.q * np.divide(exponents, s, out=np.zeros_like(s), where=s > 0.0) * values)

    @property
    def is_elementary(self) -> bool:
        """False: powers that are no whole numbers have no radius."""
        return False

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding: s is right to the operations of its ratios, powers (each to four units of the last place)
        and sums.

        No bound is known for a q so small that differences which underflow or overflow have values of their own.
        """
        return math.inf if self.q < _SMALLEST_POWER else exponential_rounding(X.shape[1] + 40.0, 4.0)


@dataclass(frozen=True, repr=False)
class Categorical(KernelOfDistance):
    r"""exp(-number of codes that differ / sigma), or one width per column.

    ``sigma="median"`` takes the median number of codes in which two distinct training points differ, ``sigma="each"``
    the same for each column. Columns hold codes, and two points are near where few of their codes differ,

    .. math:: k(x, z) = \exp\!\Big(-\sum_c \frac{[x_c \ne z_c]}{\sigma_c}\Big)
              = \prod_c \big( \rho_c + (1 - \rho_c) [x_c = z_c] \big), \qquad \rho_c = e^{-1/\sigma_c} .

    Every factor is a convex combination of the constant kernel and of the identity, so that the product is positive
    semi-definite. A code is a name: neither its size nor its order matters. It is the Laplacian kernel of width
    :math:`2 \sigma_c` on 0-1 columns, one per category, with one column and one width per variable; for mixed columns
    multiply, ``RBF(1.0).on(0, 1) * Categorical(1.0).on(2, 3)``.
    """

    codes: ClassVar[bool] = True

    power: ClassVar[float] = 1.0
    not_smooth: ClassVar[str] = "it jumps where two codes differ; take derivatives in the other columns"
    no_integral: ClassVar[str] = (
        "its columns are codes of categories, which have no boxes; integrate over the other columns"
    )

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return none: codes have no scale."""
        return ()

    def _resolve(self, X: Any) -> Self:
        if not isinstance(self.sigma, str):
            return super()._resolve(X)
        points = distinct_rows(X)
        rows = points[np.linspace(0, points.shape[0] - 1, min(points.shape[0], 1000)).astype(np.intp)]
        counts = powers_of_distances(rows, rows, np.ones(rows.shape[1]), 1.0, codes=True)
        counts = counts[np.triu_indices(rows.shape[0], 1)]
        typical = float(np.median(counts)) if counts.size else 1.0
        return replace(self, sigma=(typical,) * rows.shape[1] if self.sigma == "each" else typical)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding: d inverse widths, right to one rounding each, are added; t exp(-t) is at most 1/e."""
        return exponential_rounding(X.shape[1] + 6.0, 4.0)
