r"""Widths: the units in which a kernel that falls with the distance measures it.

One number for all columns, one for each, or numbers that the data give. The median heuristic gives one width,

.. math:: \sigma = \operatorname{median}_{i<j} \|x_i - x_j\|_p

over pairs of distinct points [Gretton2012]_. A point that occurs twice counts once, so that a row of weight two and a
repeated row mean the same. Beyond a thousand points a thousand evenly spaced ones, in sorted order, represent all: the
result is deterministic and does not depend on the order of the rows. Where there are very many rows, machines on a
reduced basis pass some of them only, by :func:`substrate.streaming.rows.width_rows`.

``"each"`` gives one width per column, by the same heuristic on columns that are divided by their spreads
:math:`s_c`, the standard deviations over distinct points,

.. math:: \sigma_c = s_c \operatorname{median}_{i<j} \Big( \sum_k \frac{|x_{ik} - x_{jk}|^p}{s_k^p} \Big)^{1/p} ,

so that the units of a column do not matter. A column that is constant on the rows that are looked at tells nothing of
its unit: its width is 1e100, so that it has no effect, on new points neither.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse, positive, to_numpy
from substrate.errors import DeclarationError
from substrate.kernels.distances import MOST_DENSE, to_dense

__all__ = ["Width", "checked_width", "distinct_rows", "each_distance", "median_distance", "spreads_of"]

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
