r"""Kernels that fall with the distance of two points, measured in widths: functions of one sum over the columns,

.. math:: k(x, z) = f(s), \qquad s = \sum_c \Big( \frac{|x_c - z_c|}{\sigma_c} \Big)^p, \qquad
          \frac{\partial k}{\partial \log \sigma_c} = -p f'(s) \Big( \frac{|x_c - z_c|}{\sigma_c} \Big)^p .

The formula f is written once, for arrays of any library and for numbers of an exact arithmetic.

**Distances.** Differences are taken first and divided by the units afterwards: neither an offset of 1e8 nor a unit of
1e-12 costs a digit, equal points have the distance zero, and the sum is right to a few more than d roundings. Four to
ten times faster, for p = 2 and many columns, is one matrix product about the mean of the points,

.. math:: -\|x_i - z_j\|^2 = [x_i,\ -\|x_i\|^2,\ 1]\,[2 z_j,\ 1,\ -\|z_j\|^2]^T ,

where the norms are so small that the cancellation does not show. Codes of categories have :math:`[x_c \ne z_c]` in the
place of the difference.

**Widths** are one number for all columns, one for each, or numbers that the data give. The median heuristic gives one,

.. math:: \sigma = \operatorname{median}_{i<j} \|x_i - x_j\|_p

over pairs of distinct points [Gretton2012]_. A point that occurs twice counts once, so that a row of weight two and a
repeated row mean the same. Beyond a thousand points a thousand evenly spaced ones, in sorted order, represent all: the
result is deterministic and does not depend on the order of the rows. Where there are very many rows, machines on a
reduced basis pass some of them only, by :func:`substrate.operators.sources.width_rows`.

``"each"`` gives one width per column, by the same heuristic on columns that are divided by their spreads
:math:`s_c`, the standard deviations over distinct points,

.. math:: \sigma_c = s_c \operatorname{median}_{i<j} \Big( \sum_k \frac{|x_{ik} - x_{jk}|^p}{s_k^p} \Big)^{1/p} ,

so that the units of a column do not matter. A column that is constant on the rows that are looked at tells nothing of
its unit: its width is 1e100, so that it has no effect, on new points neither.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    MOST_DENSE,
    Array,
    exp,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    positive,
    sqrt,
    strips,
    to_dense,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Dual, Orders, times
from substrate.kernels.integrals import integrate_differences
from substrate.kernels.kernel import Formula, Kernel, Number
from substrate.numbers import (
    LEAST,
    Double,
    at_most,
    exponential_rounding,
    relative_rounding,
    sum_rounding,
)

__all__ = [
    "RBF",
    "Categorical",
    "KernelOfDistance",
    "Laplacian",
    "Matern",
    "PowerExponential",
    "Width",
    "add_by_column",
    "checked_width",
    "distinct_rows",
    "each_distance",
    "median_distance",
    "negative_squares",
    "powers_of_distances",
    "spreads_of",
    "squares_error",
]

#: In units of the width: a distance that counts as none where a derivative is infinite.
_SAME = 1e-15
_ROOT_LOG2_E = 1.4426950408889634**0.5
#: Smallest q for which the largest and the smallest difference of two numbers act like infinity and zero.
_SMALLEST_POWER = 0.1
#: Largest accepted error of a squared distance that a matrix product gives, in numpy and on a device, where differences
#: cost one pass over the matrix per coordinate; and in single precision.
_ACCEPTED, _ACCEPTED_ON_DEVICE, _ACCEPTED_SINGLE = 1e-13, 1e-12, 5e-5
#: The unit roundoff of single precision divided by the one of double precision.
_SINGLE = 2.0**29
#: Coordinates in units of the width beyond which squares would overflow.
_FAR = 1e150
#: What sums are cut off at, in double and in single precision: every value is zero there, times any power of the sum.
_FARTHEST, _FARTHEST_SINGLE = 1e300, 1e30
#: Sums below which points count as equal: their slopes are finite here.
_NEAREST = 1e-290
#: Squares of coordinates, in units of the width, up to which slopes by a product lose few digits.
_FEW_LOST = 1e4
#: The names of sums of powers of differences in scipy.
_METRICS = {1.0: "cityblock", 2.0: "sqeuclidean"}


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def powers_of_distances(X: Any, Z: Any, units: Array, p: float, dtype: Any = np.float64, *, codes: bool = False) -> Any:
    """Return the sums above for all pairs, in the given precision, as a new array in the namespace of the points."""
    d, step = X.shape[1], max(1, MOST_DENSE // max(X.shape[1], 1))
    if is_sparse(Z) and Z.shape[0] > step:
        parts = [powers_of_distances(X, Z[rows], units, p, dtype, codes=codes) for rows in strips(Z.shape[0], step)]
        return np.concatenate(parts, axis=1)
    X, Z = to_dense(X), to_dense(Z)
    xp = namespace_of(X)
    if not is_device_array(X) and dtype == np.float64 and p in _METRICS and not codes:
        # a power of two is divided by without rounding, and what is left of the unit weighs the columns
        mantissas, exponents = np.frexp(units)
        left, right = np.ldexp(X, -exponents), np.ldexp(Z, -exponents)
        if max(np.abs(points).max(initial=0.0) for points in (left, right)) < _FAR:
            from scipy.spatial.distance import cdist

            return cdist(left, right, _METRICS[p], w=mantissas**-p)
    if dtype != X.dtype and not codes:
        centre = _finite_mean(Z)
        X, Z = (xp.astype((points - centre) / on_device_of(points, units), dtype) for points in (X, Z))
        units = np.ones(d)
    total = _power_of_difference(xp, X[:, 0], Z[:, 0], units[0], p, codes, dtype)
    for c in range(1, d):
        total += _power_of_difference(xp, X[:, c], Z[:, c], units[c], p, codes, dtype)
    return xp.clip(total, max=_FARTHEST if dtype == xp.float64 else _FARTHEST_SINGLE)


def _power_of_difference(xp: Any, x: Any, z: Any, unit: float, p: float, codes: bool, dtype: Any) -> Any:
    """Return the sum above for one column."""
    if codes:
        return xp.astype(x[:, None] != z[None, :], dtype) / float(unit)
    difference = x[:, None] - z[None, :]
    difference /= float(unit)
    if p == 2.0:
        return difference * difference
    return xp.abs(difference) if p == 1.0 else xp.abs(difference) ** p


def _finite_mean(points: Any) -> Any:
    xp = namespace_of(points)
    mean = xp.mean(points, axis=0)
    return xp.where(xp.isfinite(mean), mean, xp.zeros_like(mean))


@np.errstate(over="ignore", invalid="ignore")
def negative_squares(X: Any, Z: Any, units: Array, dtype: Any = np.float64, out: Array | None = None) -> Any:
    """Return -sum_c ((x_c - z_c) / units_c)^2 for all pairs by one matrix product; rounding may leave it above zero.

    None if the norms are so large that the cancellation would show. An array ``out`` may be used for the result.
    """
    any_sparse = is_sparse(X) or is_sparse(Z)
    centre = 0.0 if any_sparse else _finite_mean(Z)
    (left, norms_x), (right, norms_z) = (_in_units(points, centre, units) for points in (X, Z))
    xp = namespace_of(X)
    # a sum of d + 4 rounded terms, none larger than the norms; at worst 1.5 times this, see squares_error
    error = relative_rounding(_longest(X, Z) + 4.0) * float(xp.max(norms_x) + xp.max(norms_z))
    accepted = _ACCEPTED_ON_DEVICE if is_device_array(X) else _ACCEPTED
    if dtype != X.dtype:
        accepted, error = _ACCEPTED_SINGLE, _SINGLE * error
    if not error <= accepted:  # too large, or beyond floating point
        return None
    if any_sparse:
        return np.asarray(2.0 * to_dense(left @ right.T) - norms_x[:, None] - norms_z[None, :])
    long = xp.concat([left, xp.stack([-norms_x, xp.ones_like(norms_x)], axis=1)], axis=1)
    wide = xp.concat([2.0 * right, xp.stack([xp.ones_like(norms_z), -norms_z], axis=1)], axis=1)
    if out is not None:
        return np.matmul(long, wide.T, out=out)
    return xp.astype(long, dtype, copy=False) @ xp.astype(wide, dtype, copy=False).T


def _in_units(points: Any, centre: Any, units: Array) -> tuple[Any, Any]:
    """Return rows about a centre, in units of the widths, and the squares of their lengths.

    Sparse rows, which lie around the origin anyway, are not centred: that would fill them.
    """
    if is_sparse(points):
        rows = points.multiply(1.0 / units[None, :]).tocsr()
        return rows, np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    rows = (points - centre) / on_device_of(points, units)
    return rows, namespace_of(rows).sum(rows * rows, axis=1)


def _longest(*sets: Any) -> float:
    """Return the largest number of entries of a row that are not zero; of a dense row, of all."""
    return float(max(np.diff(p.tocsr().indptr).max(initial=0) if is_sparse(p) else p.shape[1] for p in sets))


@np.errstate(over="ignore", invalid="ignore")
def squares_error(X: Any, units: Array) -> float:
    """Bound the absolute error of squared distances of rows of X by :func:`negative_squares` wherever it is below 50.

    Where that returns None they are computed from differences.
    """
    # a block is centred by the mean of the rows it is compared with, which is no farther than any of them
    xp = namespace_of(X)
    _, norms = _in_units(X, 0.0 if is_sparse(X) else xp.mean(X, axis=0), units)
    reach = (2.0 if is_sparse(X) else 8.0) * float(xp.max(norms))
    # (d + 2) rounded terms of at most twice the norms, the norms' own d + 1 roundings, centring and scaling
    error = relative_rounding(1.5 * _longest(X) + 7.0) * reach
    accepted = 1.5 * (_ACCEPTED_ON_DEVICE if is_device_array(X) else _ACCEPTED)
    return float(error if error <= accepted else accepted + relative_rounding(X.shape[1] + 6.0))


def add_by_column(X: Array, Z: Array, units: Array, p: float, G: Array, *, codes: bool = False) -> Array:
    r"""Return the sums over pairs of ``G[i, j] (|x_ic - z_jc| / units_c)^p``, one for each column c.

    For p = 2 they are one product for all columns, about a common centre and in units of the widths,

    .. math:: \sum_{ij} G_{ij} (x_{ic} - z_{jc})^2 = \sum_i x_{ic}^2 \sum_j G_{ij} + \sum_j z_{jc}^2 \sum_i G_{ij}
              - 2 \sum_i x_{ic} \, (G Z)_{ic} .

    Where the squares are so large that its terms may cancel, and for any other p, the columns are added up from
    differences.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if p == 2.0:
            centre = Z.mean(axis=0)
            left, right = np.square((X - centre) / units), np.square((Z - centre) / units)
            if max(left.max(), right.max()) < _FEW_LOST:
                mixed = np.einsum("ic,ic->c", (X - centre) / units, G @ ((Z - centre) / units))
                return np.asarray(G.sum(axis=1) @ left + G.sum(axis=0) @ right - 2.0 * mixed)
        sums = np.zeros(units.size)
        for c in range(units.size):
            powers = _power_of_difference(np, X[:, c], Z[:, c], units[c], p, codes, np.float64)
            sums[c] = np.vdot(G, np.minimum(powers, _FARTHEST, out=powers))
    return sums


#: A number, one per column, or the name of a rule that takes it from the data.
Width = float | str | tuple[float, ...]
_RULES = ("median", "each")


_MOST_ROWS = 1000
#: The width of a column that tells nothing of its unit; its square is still a number.
_NO_EFFECT = 1e100


def checked_width(value: Any, name: str = "sigma") -> Width:
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


def _space_rows(X: Any) -> Any:
    n = X.shape[0]
    return X[np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.intp)]


def _is_huge(X: Any) -> bool:
    return is_sparse(X) and X.shape[0] * X.shape[1] > MOST_DENSE


def distinct_rows(X: Any) -> Array:
    """Return the distinct rows, sorted; of very many sparse rows, of some of them."""
    points = to_numpy(X)
    return np.asarray(np.unique(to_dense(_space_rows(points) if _is_huge(points) else points), axis=0))


def median_distance(X: Any, power: float = 2.0) -> float:
    """Return the median distance between distinct rows of X; 1 where all rows are the same point."""
    from scipy.spatial.distance import pdist

    sample = _space_rows(distinct_rows(X))
    # Distances may overflow or vanish although the points do not: measure in units of their spread.
    halves = sample / 2.0 - sample[:1] / 2.0
    unit = float(np.abs(halves).max())
    if unit == 0.0:
        return 1.0
    distances = pdist(halves / unit, "minkowski", p=power)
    typical = float(np.median(distances[distances > 0.0]))
    return min(2.0 * typical * unit, float(np.finfo(np.float64).max))


def each_distance(X: Any, power: float = 2.0) -> tuple[float, ...]:
    """Return one width per column: its spread times the median distance of rows that are divided by the spreads."""
    points = distinct_rows(X)
    # of very many sparse rows, some give the median distance, but a rare entry must count: all give the spreads
    spreads = spreads_of(X if _is_huge(X) else points)
    moving = spreads > 0.0
    widths = np.full(points.shape[1], _NO_EFFECT)
    if moving.any():
        halves = points[:, moving] / 2.0 - points[:1, moving] / 2.0
        limits = np.finfo(np.float64)
        with np.errstate(over="ignore", under="ignore"):
            typical = median_distance(halves / spreads[moving], power)
            widths[moving] = np.clip(2.0 * typical * spreads[moving], limits.smallest_subnormal, limits.max)
    return tuple(float(width) for width in widths)


def spreads_of(X: Any) -> Array:
    """Return the standard deviation of every column; exactly zero where it is constant."""
    if is_sparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

        low, high = min_max_axis(X.tocsr(), axis=0)
        safe = np.where(low < high, np.maximum(np.abs(low), np.abs(high)), 1.0)
        _, variances = mean_variance_axis(X.multiply(1.0 / safe).tocsr(), axis=0)
        return np.where(low < high, safe * np.sqrt(variances), 0.0)
    halves = X / 2.0 - X[:1] / 2.0  # a difference of large numbers may overflow
    units = np.abs(halves).max(axis=0)
    safe = np.where(units > 0.0, units, 1.0)
    with np.errstate(over="ignore"):
        spread = np.minimum(2.0 * (halves / safe).std(axis=0) * safe, np.finfo(np.float64).max)
    return np.asarray(np.where(units > 0.0, spread, 0.0))


#: The largest degree of the polynomial of a Matern kernel.
_MOST_SMOOTH = 10
#: Operations of a sum of powers of differences besides one per column: units, differences, powers and their weights.
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

    def formula(self, s: Any) -> Any:
        """Return f(s) in any arithmetic, which is exp(-s) unless a kernel defines another."""
        return exp(-s)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return p such that a computed k(x, z) is within p of the true one, for all rows of X.

        The sum is right to d + 4 roundings and s exp(-s) is at most 1/e, as s f'(s) is of every kernel here.
        """
        return exponential_rounding(X.shape[1] + 10.0, 4.0)

    @property
    @abstractmethod
    def power(self) -> float:
        """The power p of the differences."""

    def _sums(self, X: Any, Z: Any, dtype: Any = np.float64) -> Any:
        return powers_of_distances(X, Z, self._widths(X.shape[1]), self.power, dtype, codes=self.codes)

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return f of the sums, which are right to a few operations more than there are columns."""
        sums = self._sums(X, Z)
        radius = at_most(sum_rounding(X.shape[1] + _OPERATIONS)) * sums + LEAST
        values: Double = self.formula(Double(sums, radius))
        return values

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        return self.formula(self._sums(X, Z, dtype))

    def diag(self, X: Any) -> Any:
        """Return ones."""
        self._widths(X.shape[1])
        ones: Array = zeros_beside(X, X.shape[0]) + 1.0
        return ones

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return f of the sum."""
        widths = [number(float(width)) for width in self._widths(n_features)]
        return lambda x, z: self.formula(
            sum(self._exact_power(a, b, width) for a, b, width in zip(x, z, widths, strict=True))
        )

    def _exact_power(self, a: Any, b: Any, width: Any) -> Any:
        if self.codes:  # whether two codes are the same is decided by the numbers themselves
            return (1 / width) * (a != b)
        ratio = (a - b) / width
        if self.power == 2.0:
            return ratio * ratio
        return abs(ratio) if self.power == 1.0 else abs(ratio) ** self.power

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return all columns; none if every column has its own width."""
        # a kernel of one column may stand for every column of a sum, and its width then is one for all
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

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives above, weighted and added up; of one width, the sum over the columns."""
        s = self._sums(X, Z)
        # of equal points, where a slope may be infinite, no width matters
        slopes = weights * (-self.power * self.formula(Dual(np.maximum(s, _NEAREST), 1)).slope)
        if isinstance(self.sigma, float):
            return np.array([np.vdot(slopes, s)])
        return add_by_column(X, Z, self._widths(X.shape[1]), self.power, slopes, codes=self.codes)

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the product over the columns of integrals of the kernel on one column."""
        self.refuse_orders(orders)
        n_features = boxes.shape[1]
        values = np.ones((boxes.shape[0], others.shape[0]))
        origin = np.zeros((1, 1))
        for c, width in enumerate(self._widths(n_features)):
            of_column = replace(self, sigma=float(width))
            order = {0: orders[c]} if c in orders else {}

            def value(u: Array, k: KernelOfDistance = of_column, order: Orders = order) -> Array:
                return k._derivative(u.reshape(-1, 1), origin, order, {}).reshape(u.shape)

            offsets = boxes[:, None, c, 0] - others[None, :, c, 0]
            lengths = [each[:, c, 1] - each[:, c, 0] for each in (boxes, others)]
            values *= integrate_differences(value, float(width), offsets, lengths[0][:, None], lengths[1][None, :])
        return values


@dataclass(frozen=True, repr=False)
class RBF(KernelOfDistance):
    r"""exp(-||x - z||^2 / sigma^2), or one width per column.

    ``sigma="median"`` takes the median distance of the training points, ``sigma="each"`` one width per column from
    them. This is the form all five source papers use ([Pelckmans2005]_ after eq. (3), [Suykens2002]_ after eq. (9));
    scikit-learn's ``gamma`` is 1/sigma^2.
    """

    power: ClassVar[float] = 2.0
    not_smooth: ClassVar[str] = ""

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array, by one matrix product where nothing cancels in it."""
        xp = namespace_of(X)
        if xp is np and dtype == np.float64:
            out = np.empty((X.shape[0], Z.shape[0]))
            self.fill(X, Z, out)
            return out
        squares = negative_squares(X, Z, self._widths(X.shape[1]), dtype)
        return super().evaluate(X, Z, dtype) if squares is None else xp.exp(xp.clip(squares, max=0.0))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``, which predictions use again for every block."""
        # 2^(x log2 e) is e^x, and a power of two is a tenth cheaper than the exponential
        squares = negative_squares(X, Z, self._widths(X.shape[1]) / _ROOT_LOG2_E, out=out)
        if squares is None:
            out[...] = super().evaluate(X, Z, np.float64)
        else:
            np.exp2(np.minimum(squares, 0.0, out=out), out=out)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the absolute error of the exponent, and the error of the exponential."""
        if by_differences:
            return super().rounding(X)
        return squares_error(X, self._widths(X.shape[1])) + relative_rounding(X.shape[1] + 10.0)


@dataclass(frozen=True, repr=False)
class Laplacian(KernelOfDistance):
    """exp(-||x - z||_1 / sigma), or one width per column (scikit-learn's gamma is 1/sigma).

    ``sigma="median"`` takes the median L1 distance of the training points, ``sigma="each"`` one width per column from
    them.
    """

    power: ClassVar[float] = 1.0
    not_smooth: ClassVar[str] = "it has a kink where x = z; take RBF or Matern(nu > 1)"


@dataclass(frozen=True, repr=False)
class Matern(KernelOfDistance):
    r"""Matérn kernel of width ``sigma`` and smoothness ``nu``: 0.5, 1.5, 2.5, ..., at most 10.5.

    .. math:: k(x, z) = \frac{2^{1-\nu}}{\Gamma(\nu)} \, r^{\nu} K_\nu(r) = p_n(r) e^{-r}, \qquad
              r = \frac{\sqrt{2\nu}\,\|x - z\|_2}{\sigma}, \quad n = \nu - \tfrac12,

    with :math:`K_\nu` the modified Bessel function [Rasmussen2006]_ eq. (4.14) and the polynomials

    .. math:: p_0 = 1, \quad p_1 = 1 + r, \quad p_m = p_{m-1} + \frac{r^2}{(2m - 1)(2m - 3)}\, p_{m-2} .

    The limit of large nu is exp(-||x-z||^2/(2 sigma^2)), which is ``RBF(sigma * sqrt(2))``. With one width per column,
    :math:`r^2 = 2 \nu \sum_c (x_c - z_c)^2 / \sigma_c^2`; the width may be taken from the data by ``"median"`` or
    ``"each"``, as for the RBF kernel. Functions of the kernel have derivatives up to the order n.
    """

    nu: float = 1.5
    power: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        nu = positive(self.nu, "nu")
        if nu - 0.5 not in range(_MOST_SMOOTH + 1):
            raise DeclarationError(
                f"nu must be 0.5, 1.5, 2.5, ... up to {_MOST_SMOOTH + 0.5}, where the kernel is a polynomial times an "
                f"exponential, received {nu:g}; for a smoother one take its limit, RBF(sigma * sqrt(2))"
            )
        object.__setattr__(self, "nu", nu)

    def formula(self, s: Any) -> Any:
        """Return p_n(r) exp(-r) of r^2 = 2 nu s."""
        square = s * (2.0 * self.nu)
        return self._differentiated(square, 0) if isinstance(s, Dual) else _polynomial(int(self.nu), square)

    @property
    def not_smooth(self) -> str:
        """Empty for nu > 1."""
        return "" if self.nu > 1.0 else "functions of a Matern kernel have some for nu > 1 only; take nu=1.5 or more"

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the largest integer below nu."""
        return float(int(self.nu))

    def _differentiated(self, s: Any, order: int) -> Any:
        r"""Return the derivative of this order in the square s of r; zero where it is infinite, at x = z, for what it
        is multiplied by there is smaller.

        The function is :math:`r^\nu K_\nu(r)`, whose derivative is :math:`-\tfrac12 r^{\nu-1} K_{\nu-1}(r)`, and
        :math:`K_{-\mu} = K_\mu`.
        """
        if isinstance(s, Dual):
            return Dual(self._differentiated(s.value, order), times(self._differentiated(s.value, order + 1), s.slope))
        if not isinstance(s, np.ndarray):
            raise DeclarationError(
                f"derivatives of {self!r} are known in double precision only, since its formula has a root; take RBF"
            )
        s, index = np.minimum(s, _FARTHEST), self.nu - order
        degree, exponent = int(abs(index)), min(2.0 * index, 0.0)
        at_zero, at_order = (math.prod(range(2 * m - 1, 0, -2)) for m in (degree, int(self.nu)))
        r = np.sqrt(s)
        lengths = np.where((r > _SAME) | (exponent == 0.0), r, np.inf) ** exponent
        return (-0.5) ** order * at_zero / at_order * lengths * _polynomial(degree, s)

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Integrate over intervals; boxes of several columns are refused."""
        if boxes.shape[1] > 1:
            raise DeclarationError(
                f"{self!r} has integrals over intervals of one column, not over boxes of {boxes.shape[1]}; take RBF, "
                "or Componentwise with this kernel"
            )
        return super()._integral(boxes, others, orders)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding as for the other kernels, plus the rounding of the polynomial."""
        return super().rounding(X) + relative_rounding(4.0 * self.nu)


def _polynomial(degree: int, square: Any) -> Any:
    """Return p_m(r) exp(-r) of the square of r; the factors are multiplied first, for the polynomial overflows."""
    r = sqrt(square)
    before = exp(-r)
    value = (1 + r) * before if degree else before
    for m in range(2, degree + 1):
        before, value = value, value + square / ((2 * m - 1) * (2 * m - 3)) * before
    return value


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
    _integral = Kernel._integral

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

    def formula(self, s: Any) -> Any:
        """Return exp(-s^(q/p))."""
        if self.q == self.p:
            return exp(-s)
        return exp(-sqrt(s)) if self.q == 0.5 * self.p else exp(-(s ** (self.q / self.p)))

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return the values by their rounding: powers that are no whole numbers have no radius."""
        return Kernel.enclose(self, X, Z)

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Bound the rounding: s is right to the operations of its ratios, powers (each to four units of the last place)
        and sums.

        No bound is known for a q so small that differences which underflow or overflow have distinct values.
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
    _integral = Kernel._integral

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return none: codes have no scale."""
        return ()

    def _resolve(self, X: Any) -> Self:
        if not isinstance(self.sigma, str):
            return super()._resolve(X)
        from scipy.spatial.distance import pdist

        rows = _space_rows(distinct_rows(X))
        d = rows.shape[1]
        typical = float(np.round(d * np.median(pdist(rows, "hamming")), 1)) if rows.shape[0] > 1 else 1.0
        return replace(self, sigma=(typical,) * d if self.sigma == "each" else typical)
