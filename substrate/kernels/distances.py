r"""Squared distances between two point sets, never negative and stable far from the origin.

.. math:: \|x_i - z_j\|^2 = \|x_i\|^2 - 2 x_i^T z_j + \|z_j\|^2

is one matrix product once the norms are appended as columns,
:math:`[x_i,\ \|x_i\|^2,\ 1]\,[-2 z_j,\ 1,\ \|z_j\|^2]^T`. The points are centred first, so an offset of 1e8 costs
nothing. Where the norms are so large that the cancellation would show, the entries that matter are computed again from
plain differences.

Where every column has a width of its own, ``root`` and ``unit`` are one number per column. An offset of 1e8 and a unit
of 1e-12 still cost nothing: differences, or centred coordinates, are taken first and divided by the widths afterwards.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.namespaces import is_device_array, namespace_of, on_device_of, paired_sums

__all__ = [
    "MOST_DENSE",
    "Units",
    "differences",
    "exact_squared_distance",
    "metric_distances",
    "pair_shares",
    "scaled_squared_distances",
    "squared_distance_error",
]

#: What coordinates are measured in: one number for all columns, or one for each.
Units = float | Array

#: Largest accepted absolute error of an entry that is not beyond `_NEAR`.
_ABSOLUTE_ERROR = 1e-13
#: The same on a device, see :mod:`~substrate.kernels.on_device`.
_ABSOLUTE_ERROR_ON_DEVICE = 1e-12
#: exp(-50) = 2e-22: beyond this distance every kernel that decays is zero.
_NEAR = 50.0
#: Sums of squares, in units of the width, so far below overflow that no sum of products of coordinates overflows.
_LARGEST_REACH = 1e300
#: Coordinates, in units of the width, beyond which squares would overflow.
_FAR = 1e150
#: No difference in units of a width has a larger power of two.
_LARGEST_POWER = 4000
#: Pairs of points that are looked through at a time for those to be computed from differences.
_PAIRS = 100_000
#: One in so many marked pairs are many.
_MANY = 8
#: Entries of sparse rows that are made dense at a time.
MOST_DENSE = 10_000_000


def exact_squared_distance(x: Sequence[Any], z: Sequence[Any]) -> Any:
    """Return ||x - z||^2 of two points in an exact arithmetic."""
    return sum((a - b) * (a - b) for a, b in zip(x, z, strict=True))


def scaled_squared_distances(X: Any, Z: Any, root: Units, sign: float, out: Array) -> Array:
    """Write ``sign * (root * ||x_i - z_j||)^2`` into ``out``; every entry has the sign of ``sign`` (+1 or -1).

    The points are multiplied by ``root`` before anything is squared, so no width is too small or too large.
    """
    sparse = is_sparse(X) or is_sparse(Z)
    with np.errstate(over="ignore", invalid="ignore"):
        norms_x, norms_z = (_sparse_into if sparse else _dense_into)(X, Z, root, sign, out)
        reach = float(norms_x.max()) + float(norms_z.max())
        # a sum of d + 4 rounded terms, none larger than the norms
        error = relative_rounding(X.shape[1] + 4.0) * reach  # at worst 1.5 times this, see squared_distance_error
    if not reach < _LARGEST_REACH:
        _differences_into(X, Z, root, sign, out, np.ones(out.shape, dtype=bool))
        return out
    # An entry of the other sign is rounding, and becomes zero. The bits of a negative number are those of a negative
    # integer, and for integers this takes a third of the time (measured); no entry is NaN, since nothing overflowed.
    bits = out.view(np.int64)
    (np.minimum if sign < 0.0 else np.maximum)(bits, 0, out=bits)
    if error > _ABSOLUTE_ERROR:
        _differences_into(X, Z, root, sign, out, np.abs(out) < _NEAR + error)
    return out


def differences(X: Array, Z: Array, column: int) -> Array:
    """Return x_ic - z_jc for all pairs."""
    return np.asarray(X[:, column, None] - Z[None, :, column])


def squared_distance_error(X: Any, root: Units) -> float:
    """Bound the absolute error of ``(root * ||x_i - x_j||)^2`` wherever it is below 50, over all rows of
    X.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(X):
            reach = 2.0 * float(_row_norms(_times(X, root)).max())
        else:
            # a block is centred by the mean of the rows it is compared with, which is no farther than any of them
            # (one coordinate per row: vector operations are as long as there are points)
            xp = namespace_of(X)
            columns = xp.permute_dims(X, (1, 0)) if is_device_array(X) else np.ascontiguousarray(X.T)
            centred = columns - xp.mean(columns, axis=1)[:, None]
            centred *= root if isinstance(root, float) else on_device_of(X, root)[:, None]
            reach = 8.0 * float(xp.max(paired_sums(centred, centred, 0)))
        # (d + 2) rounded terms of at most twice the norms, the norms' own d + 1 roundings, centring and scaling
        error = relative_rounding(1.5 * X.shape[1] + 7.0) * reach
    # beyond the accepted error the entries are computed again from differences, and those left out are zero
    accepted = _ABSOLUTE_ERROR_ON_DEVICE if is_device_array(X) else _ABSOLUTE_ERROR
    return float(error if error <= 1.5 * accepted else 1.5 * accepted + relative_rounding(X.shape[1] + 6.0))


def pair_shares(X: Array, Z: Array, root: Units) -> tuple[Array, Array]:
    r"""Bound the error of every ``(root * ||x_i - z_j||)^2``, as written from X and Z, by a number per row of either.

    About the mean of Z, :math:`\|x_i - z_j\|^2` is a sum of d + 2 products whose sizes add up to at most
    :math:`2 (\|x_i\|^2 + \|z_j\|^2)`. With the norms' own d operations, eight for centring and scaling, and twelve for
    ``root``, which is right to three, the error is at most :math:`(3 d + 26)\, u\, (\|x_i\|^2 + \|z_j\|^2)`. Entries
    that are computed again from differences are right to :math:`(d + 11)\, u` of themselves, which is less.
    """
    share = relative_rounding(1.5 * X.shape[1] + 13.0)
    with np.errstate(over="ignore", invalid="ignore"):
        centre = _finite_mean(Z)
        # the mean may have been rounded otherwise when the entries were written
        off = float(np.linalg.norm(relative_rounding(Z.shape[0]) * np.abs(Z).max(axis=0) * root))
        left, right = (np.sqrt(np.square((points - centre) * root).sum(axis=1)) + off for points in (X, Z))
        return at_most(share) * np.square(left), at_most(share) * np.square(right)


def _dense_into(X: Array, Z: Array, root: Units, sign: float, out: Array) -> tuple[Array, Array]:
    d = X.shape[1]
    centre = _finite_mean(Z)[:, None]
    # One coordinate per row: the long axis is contiguous, so each of these lines is a vector operation.
    left = np.empty((d + 2, X.shape[0]))
    right = np.empty((d + 2, Z.shape[0]))
    np.subtract(X.T, centre, out=left[:d])
    np.subtract(Z.T, centre, out=right[:d])
    roots = np.reshape(root, (-1, 1))
    left[:d] *= roots
    right[:d] *= roots
    norms_x = np.square(left[:d]).sum(axis=0)
    norms_z = np.square(right[:d]).sum(axis=0)
    left[d], left[d + 1] = sign * norms_x, 1.0
    right[:d] *= -2.0 * sign
    right[d], right[d + 1] = 1.0, sign * norms_z
    np.matmul(left.T, right, out=out)
    return norms_x, norms_z


def _finite_mean(points: Array) -> Array:
    mean: Array = np.full(points.shape[0], 1.0 / points.shape[0]) @ points
    return np.where(np.isfinite(mean), mean, 0.0)


def _sparse_into(X: Any, Z: Any, root: Units, sign: float, out: Array) -> tuple[Array, Array]:
    # Centring would fill a sparse matrix; sparse data lie around the origin anyway.
    left, right = _times(X, root), _times(Z, root)
    norms_x, norms_z = _row_norms(left), _row_norms(right)
    product = left @ right.T
    out[...] = product.toarray() if is_sparse(product) else product
    out *= -2.0 * sign
    out += sign * norms_x[:, None]
    out += sign * norms_z[None, :]
    return norms_x, norms_z


def _times(points: Any, root: Units) -> Any:
    """Return the points, dense or sparse, times a number or times one number per column."""
    return points * root if isinstance(root, float) or not is_sparse(points) else points.multiply(root[None, :]).tocsr()


def _row_norms(points: Any) -> Array:
    squares = points.multiply(points).sum(axis=1) if is_sparse(points) else (points * points).sum(axis=1)
    return np.asarray(squares, dtype=np.float64).ravel()


def _differences_into(X: Any, Z: Any, root: Units, sign: float, out: Array, wanted: Any) -> None:
    """Compute the marked entries again without cancellation: many at a time, of sparse rows one row at a time."""
    if not (is_sparse(X) or is_sparse(Z)):
        step = max(1, _PAIRS // max(out.shape[1], 1))
        for start in range(0, out.shape[0], step):
            block, marked = slice(start, start + step), wanted[start : start + step]
            many = _MANY * np.count_nonzero(marked) > marked.size
            if many and _all_differences(X[block], Z, root, sign, out[block], marked):
                continue
            rows, columns = np.divmod(np.flatnonzero(marked), out.shape[1])
            with np.errstate(over="ignore", invalid="ignore"):
                difference = (Z.take(columns, axis=0) - X[block].take(rows, axis=0)) * root
                out[rows + start, columns] = sign * np.einsum("ij,ij->i", difference, difference)
        return
    for i in range(out.shape[0]):
        (columns,) = np.nonzero(wanted[i])
        if columns.size == 0:
            continue
        x = X[[i]].toarray()[0] if is_sparse(X) else X[i]
        for block in _chunks(columns, Z):
            z = Z[block].toarray() if is_sparse(Z) else Z[block]
            with np.errstate(over="ignore", invalid="ignore"):
                difference = (z - x) * root
                out[i, block] = sign * np.einsum("ij,ij->i", difference, difference)


def _all_differences(X: Array, Z: Array, root: Units, sign: float, out: Array, wanted: Array) -> bool:
    """Return the marked entries by the differences of all pairs, which is faster where many are marked; not near
    overflow.
    """
    from scipy.spatial.distance import cdist

    # the power of two in the unit scales points without rounding, the rest the squares of their differences
    mantissa, exponent = np.frexp(root)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        power = np.ldexp(1.0, exponent)
        left, right = X * power, Z * power
        ends = (left.max(initial=0.0), right.max(initial=0.0), -left.min(initial=0.0), -right.min(initial=0.0))
        if not max(ends) < _FAR or not np.all((power > 0.0) & (power < np.inf)):
            return False
        weights = None if mantissa.ndim == 0 else np.square(mantissa)
        squares = cdist(left, right, "sqeuclidean", w=weights)
        squares *= sign if weights is not None else sign * mantissa**2
    np.copyto(out, squares, where=wanted)
    return True


def _chunks(columns: Any, Z: Any) -> list[Any]:
    """Return all at once, or as many sparse rows at a time as may be made dense."""
    size = max(1, MOST_DENSE // max(Z.shape[1], 1)) if is_sparse(Z) else columns.size
    return [columns[start : start + size] for start in range(0, columns.size, size)]


def metric_distances(X: Any, Z: Any, metric: str, unit: Units, out: Array) -> None:
    """Write distances in units of ``unit`` into ``out``, from plain differences.

    Kernels with a cusp at zero need this: sqrt(||x||^2 - 2x'z + ||z||^2) would turn a rounding error of 1e-16
    into a distance of 1e-8 between equal points.
    """
    from scipy.spatial.distance import cdist

    left = X.toarray() if is_sparse(X) else X
    right = Z.toarray() if is_sparse(Z) else Z
    # cdist takes differences first; only the unit must be applied before they are squared, and a power of two does so
    # without rounding. What is left of one unit divides the distances, what is left of many is the columns' weights.
    mantissa, exponent = np.frexp(unit)
    weights = None if mantissa.ndim == 0 else 1.0 / mantissa if metric == "cityblock" else 1.0 / np.square(mantissa)
    with np.errstate(over="ignore", under="ignore"):
        near_x, near_z = np.ldexp(left, -exponent), np.ldexp(right, -exponent)
        far_x, far_z = (np.abs(near_x) > _FAR).any(axis=1), (np.abs(near_z) > _FAR).any(axis=1)
        clipped = np.clip(near_x, -_FAR, _FAR), np.clip(near_z, -_FAR, _FAR)
        if out.flags.c_contiguous and out.dtype == np.float64:
            cdist(*clipped, metric, w=weights, out=out)
        else:
            out[...] = cdist(*clipped, metric, w=weights)
        if far_x.any() or far_z.any():
            for i in range(out.shape[0]) if far_z.any() else np.nonzero(far_x)[0]:
                out[i] = _far_distances(left[i], right, metric, exponent, 1.0 if weights is None else weights)
        if weights is None:
            out /= mantissa


def _far_distances(x: Array, Z: Array, metric: str, exponent: Any, weights: Any) -> Array:
    """Return distances of one point where squares would overflow, each pair in units of its own largest difference."""
    halves = np.ldexp(Z, -1) - np.ldexp(x, -1)  # halves: the difference of two huge numbers is finite
    fractions, powers = np.frexp(halves)
    powers = np.where(halves == 0.0, -_LARGEST_POWER, powers - exponent)
    tops = powers.max(axis=1)
    scaled = np.ldexp(fractions, powers - tops[:, None])
    terms = weights * (np.abs(scaled) if metric == "cityblock" else np.square(scaled))
    sums = terms.sum(axis=1) if metric == "cityblock" else np.sqrt(terms.sum(axis=1))
    distances: Array = np.ldexp(sums, tops + 1)
    return distances
