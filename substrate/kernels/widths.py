r"""Widths: the units in which a kernel that falls with the distance measures it.

One number for all columns, one for each, or numbers that the data give. The median heuristic gives one width,

.. math:: \sigma = \operatorname{median}_{i<j} \|x_i - x_j\|

over pairs of distinct points [Gretton2012]_. A point that occurs twice counts once, so that a row of weight two and a
repeated row mean the same. Beyond a thousand points a thousand evenly spaced ones, in sorted order, represent all: the
result is deterministic and does not depend on the order of the rows. Where there are very many rows, machines on a
reduced basis pass some of them only, by :func:`substrate.streaming.array_source.width_rows`.

``"each"`` gives one width per column, by the same heuristic on columns that are divided by their spreads
:math:`s_c`, the standard deviations over distinct points,

.. math:: \sigma_c = s_c \operatorname{median}_{i<j} \Big( \sum_k \frac{(x_{ik} - x_{jk})^2}{s_k^2} \Big)^{1/2}

(for the Laplacian kernel with absolute differences), so that the units of a column do not matter. A column that is
constant on the rows that are looked at tells nothing of its unit: its width is 1e100, so that it has no effect, on new
points neither.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array, is_sparse, positive
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number, ones
from substrate.kernels.derivatives import Orders, differentiate_distance
from substrate.kernels.distances import MOST_DENSE, Units, differences, metric_distances
from substrate.namespaces import to_numpy

__all__ = ["KernelOfDistance", "Width", "each_distance", "median_distance", "one_of", "width"]

#: A number, one per column, or the name of a rule that takes it from the data.
Width = float | str | tuple[float, ...]

_RULES = ("median", "each")
_MOST_ROWS = 1000
#: A distance in units of the width beyond which every kernel that falls with it, times any power of it, is zero.
_ZERO_BEYOND = 1e6
#: The width of a column that tells nothing of its unit; its square is still a number.
_NO_EFFECT = 1e100


def width(value: Any, name: str = "sigma") -> Width:
    """Return a kernel width: a positive number as a plain float, several as a tuple, or the name of a rule."""
    if isinstance(value, str):
        if value in _RULES:
            return value
        raise DeclarationError(
            f"{name} must be a positive number, one per column, 'median' or 'each', received {value!r}"
        )
    if hasattr(value, "__array__") and getattr(value, "ndim", 0) > 0:
        value = list(value)
    if not isinstance(value, Sequence) or isinstance(value, (bytes, bytearray)):
        return positive(value, name)
    if len(value) == 0:
        raise DeclarationError(
            f"{name} must be a positive number or one per column, received {value!r}, which is empty"
        )
    return tuple(positive(entry, f"{name}[{column}]") for column, entry in enumerate(value))


def one_of(widths: Units, column: int) -> float:
    """Return the width of one column."""
    return widths if isinstance(widths, float) else float(widths[column])


@dataclass(frozen=True, repr=False)
class KernelOfDistance(Kernel, ABC):
    """A kernel that falls from one with the distance of two points, measured in widths."""

    sigma: Width = "median"
    #: How coordinates make a distance.
    metric: ClassVar[str] = "euclidean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", width(self.sigma))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns; none where every column has its own width."""
        # a kernel of one column may be that of every column of a sum, and its width then is one for all
        has_own_widths = self.sigma == "each" or (isinstance(self.sigma, tuple) and len(self.sigma) == n_features)
        return () if has_own_widths else (tuple(range(n_features)),)

    @property
    def decays(self) -> bool:
        """True: the width is sigma."""
        return True

    @property
    def has_steady_decay(self) -> bool:
        """True: x^m K_m(x), r exp(-r^2) / r and exp(-r) fall with the distance."""
        return True

    def _resolve(self, X: Any) -> Self:
        if self.sigma == "each":
            return replace(self, sigma=each_distance(X, self.metric))
        if self.sigma == "median":
            return replace(self, sigma=median_distance(X, self.metric))
        self._widths(X.shape[1])
        return self

    def _widths(self, n_features: int) -> Units:
        """Return the width or widths as numbers, or an error that states how to obtain them."""
        if isinstance(self.sigma, str):
            raise DeclarationError(f"{self!r} depends on data; call kernel.resolved(X) first (estimators do)")
        if not isinstance(self.sigma, tuple):
            return self.sigma
        if len(self.sigma) != n_features:
            raise DataError(
                f"the number of widths of {self!r} is {len(self.sigma)}, the points have {n_features} columns; give "
                "one width per column, one number for all, or name its columns by kernel.on(...)"
            )
        return np.array(self.sigma)

    def _inverse(self, n_features: int, of: float = 1.0) -> Units:
        """Return ``of`` over the widths, and no more than the largest number there is."""
        widths, largest = self._widths(n_features), float(np.finfo(np.float64).max)
        if isinstance(widths, float):
            return min(of / widths, largest)
        with np.errstate(over="ignore"):
            return np.minimum(of / widths, largest)

    def relevances(self, spreads: Array) -> Array:
        """Return the spreads over the widths."""
        with np.errstate(over="ignore"):
            return np.minimum(spreads * self._inverse(spreads.size), np.finfo(np.float64).max)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the formula of one width; several divide the columns."""
        widths = self._widths(n_features)
        if isinstance(widths, float):
            return self._exact(number, widths)
        inner, units, origin = self._exact(number, 1.0), [number(width) for width in widths], [number(0.0)] * n_features
        return lambda x, z: inner([(a - b) / u for a, b, u in zip(x, z, units, strict=True)], origin)

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Differentiate by the profile of the kernel, see :mod:`~substrate.kernels.derivatives`."""
        orders = {c: left.get(c, 0) + right.get(c, 0) for c in sorted({*left, *right})}
        unit = self._unit(X.shape[1])
        r = np.empty((X.shape[0], Z.shape[0]))
        metric_distances(X, Z, self.metric, unit, r)
        divisor = np.minimum(np.where(r > 0.0, r, 1.0), np.finfo(np.float64).max)
        with np.errstate(over="ignore"):
            along = {c: np.clip(differences(X, Z, c) / one_of(unit, c), -divisor, divisor) / divisor for c in orders}
        reach = np.minimum(r, _ZERO_BEYOND)
        values = differentiate_distance(along, orders, lambda order, power: self._profile(reach, order, power))
        for c, order in orders.items():
            for _ in range(order):
                values = values / one_of(unit, c)
        return -values if sum(right.values()) % 2 else values

    def derivative_sums(
        self, X: Array, Z: Array, every: Sequence[Orders], right: Orders, coefficients: Array
    ) -> list[Array]:
        r"""Compute distances and profile once for all first derivatives,

        .. math:: \partial_c \sum_j a_j k(x, z_j) = \frac{2}{u_c} \sum_j a_j\, r_j g'(r_j^2)\, \frac{v_{cj}}{r_j},
                  \qquad v_{cj} = \frac{x_c - z_{jc}}{u_c} .
        """
        if right or coefficients.ndim != 1 or any(sum(orders.values()) != 1 for orders in every):
            return super().derivative_sums(X, Z, every, right, coefficients)
        for orders in every:
            self.refuse_orders(orders)
        unit, r = self._unit(X.shape[1]), np.empty((X.shape[0], Z.shape[0]))
        metric_distances(X, Z, self.metric, unit, r)
        divisor = np.minimum(np.where(r > 0.0, r, 1.0), np.finfo(np.float64).max)
        pulls = 2.0 * self._profile(np.minimum(r, _ZERO_BEYOND), 1, 1) * coefficients
        sums = []
        for orders in every:
            ((column, _),) = ((column, order) for column, order in orders.items() if order)
            with np.errstate(over="ignore"):
                along = np.clip(differences(X, Z, column) / one_of(unit, column), -divisor, divisor) / divisor
            sums.append(np.einsum("ij,ij->i", along, pulls) / one_of(unit, column))
        return sums

    def _unit(self, n_features: int) -> Units:
        """Return the units of the differences in the profile."""
        return self._widths(n_features)

    def _profile(self, r: Array, order: int, power: int) -> Array:
        """Return r^power times the derivative of this order of the kernel as a function of r^2, for smooth kernels."""
        raise self._refuse_derivative("_profile")

    @abstractmethod
    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula of one width."""

    def diag(self, X: Any) -> Any:
        """Return ones."""
        self._widths(X.shape[1])
        return ones(X)


def _space_rows(X: Any) -> Any:
    n = X.shape[0]
    return X[np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.intp)]


def _distinct(X: Any) -> Array:
    """Return the distinct rows, sorted; of very many sparse rows, of some of them."""
    X = to_numpy(X)
    if is_sparse(X):
        X = (_space_rows(X) if X.shape[0] * X.shape[1] > MOST_DENSE else X).toarray()
    return np.asarray(np.unique(X, axis=0))


def median_distance(X: Any, metric: str = "euclidean", power: float | None = None) -> float:
    """Return the median distance between distinct rows of X, of this power by the metric "minkowski"; 1 where all rows
    are the same point.
    """
    from scipy.spatial.distance import pdist

    sample = _space_rows(_distinct(X))
    # Distances may overflow or vanish although the points do not: measure in units of their spread.
    halves = sample / 2.0 - sample[:1] / 2.0
    unit = float(np.abs(halves).max())
    if unit == 0.0:
        return 1.0
    distances = pdist(halves / unit, metric, **({} if power is None else {"p": power}))
    typical = float(np.median(distances[distances > 0.0]))
    return min(2.0 * typical * unit, float(np.finfo(np.float64).max))


def each_distance(X: Any, metric: str = "euclidean", power: float | None = None) -> tuple[float, ...]:
    """Return one width per column: its spread times the median distance of rows that are divided by the spreads."""
    points = _distinct(X)
    halves = points / 2.0 - points[:1] / 2.0
    units, spreads = _units_and_spreads(X, halves)
    moving = spreads > 0.0
    widths = np.full(points.shape[1], _NO_EFFECT)
    if moving.any():
        typical = median_distance(halves[:, moving] / units[moving] / spreads[moving], metric, power)
        limits = np.finfo(np.float64)
        with np.errstate(over="ignore", under="ignore"):
            widths_found = 2.0 * (typical * spreads[moving]) * units[moving]
        widths[moving] = np.clip(widths_found, limits.smallest_subnormal, limits.max)
    return tuple(float(width) for width in widths)


def _units_and_spreads(X: Any, halves: Array) -> tuple[Array, Array]:
    """Return a unit of every column in which nothing overflows, and half its standard deviation in it."""
    if not is_sparse(X) or X.shape[0] * X.shape[1] <= MOST_DENSE:
        units = np.abs(halves).max(axis=0)
        units[units == 0.0] = 1.0
        return units, np.asarray((halves / units).std(axis=0))
    # of very many sparse rows, some give the median distance, but a rare entry must count: all give the spreads
    units = np.asarray(abs(X).max(axis=0).toarray()).ravel()
    units[units == 0.0] = 1.0
    inside = X.multiply(0.5 / units).tocsr()
    means = np.asarray(inside.mean(axis=0)).ravel()
    squares = np.asarray(inside.multiply(inside).mean(axis=0)).ravel()
    varying = np.asarray((X.max(axis=0) - X.min(axis=0)).toarray()).ravel() > 0.0
    return units, np.where(varying, np.sqrt(np.maximum(squares - means * means, 0.0)), 0.0)
