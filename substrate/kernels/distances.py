r"""Sums over the columns of powers of differences, the distances of kernels, in any array namespace.

.. math:: s(x, z) = \sum_c \Big( \frac{|x_c - z_c|}{u_c} \Big)^p, \qquad p = 2 \text{ for Euclidean distances}

Differences are taken first and divided by the units afterwards: neither an offset of 1e8 nor a unit of 1e-12 costs a
digit, equal points have the distance zero, and the sum is right to a few more than d roundings. Four to ten times
faster, for p = 2 and many columns, is one matrix product about the mean of the points,

.. math:: -\|x_i - z_j\|^2 = [x_i,\ -\|x_i\|^2,\ 1]\,[2 z_j,\ 1,\ -\|z_j\|^2]^T ,

where the norms are so small that the cancellation does not show. Codes of categories have :math:`[x_c \ne z_c]` in the
place of the difference.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, is_device_array, is_sparse, namespace_of, on_device_of, strips
from substrate.numbers import random_rounding, relative_rounding, single_rounding

__all__ = [
    "MOST_DENSE",
    "add_by_column",
    "negative_squares",
    "powers_of_distances",
    "squares_error",
    "to_dense",
]

#: Largest accepted error of a squared distance that a matrix product gives, in numpy and on a device, where differences
#: cost one pass over the matrix per coordinate; and in single precision.
_ACCEPTED, _ACCEPTED_ON_DEVICE, _ACCEPTED_SINGLE = 1e-13, 1e-12, 5e-5
#: Coordinates in units of the width beyond which squares would overflow.
_FAR = 1e150
#: What sums are cut off at, in double and in single precision: every value is zero there, times any power of the sum.
_FARTHEST, _FARTHEST_SINGLE = 1e300, 1e30
#: Entries of sparse rows that are made dense at a time.
MOST_DENSE = 10_000_000
#: Accepted error of a sum over pairs, relative to the sum of its absolute terms.
_OF_SUMS = 1e-10
_METRICS = {1.0: "cityblock", 2.0: "sqeuclidean"}


def to_dense(points: Any) -> Any:
    """Return sparse rows as a dense array, and other rows unchanged."""
    return points.toarray() if is_sparse(points) else points


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
def negative_squares(X: Any, Z: Any, roots: Array, dtype: Any = np.float64, out: Array | None = None) -> Any:
    """Return -sum_c (roots_c (x_c - z_c))^2 for all pairs by one matrix product; rounding may leave it above zero.

    None if the norms are so large that the cancellation would show. An array ``out`` may be used for the result.
    """
    if is_sparse(X) or is_sparse(Z):  # centring would fill a sparse matrix; sparse data lie around the origin anyway
        left, right = ((p.multiply(roots[None, :]).tocsr() if is_sparse(p) else p * roots) for p in (X, Z))
        norms_x, norms_z = _row_squares(left), _row_squares(right)
        error = relative_rounding(_longest(X, Z) + 4.0) * (norms_x.max() + norms_z.max())
        if not error <= _ACCEPTED:
            return None
        return np.asarray(2.0 * to_dense(left @ right.T) - norms_x[:, None] - norms_z[None, :])
    xp, centre, by = namespace_of(X), _finite_mean(Z), on_device_of(X, roots)
    left, right = (X - centre) * by, (Z - centre) * by
    norms_x, norms_z = xp.sum(left * left, axis=1), xp.sum(right * right, axis=1)
    # a sum of d + 4 rounded terms, none larger than the norms; at worst 1.5 times this, see squares_error
    reach, terms = float(xp.max(norms_x) + xp.max(norms_z)), X.shape[1] + 4.0
    accepted, error = _ACCEPTED_ON_DEVICE if is_device_array(X) else _ACCEPTED, relative_rounding(terms) * reach
    if dtype != X.dtype:
        accepted, error = _ACCEPTED_SINGLE, single_rounding(terms) * reach
    if not error <= accepted:  # too large, or beyond floating point
        return None
    long = xp.concat([left, xp.stack([-norms_x, xp.ones_like(norms_x)], axis=1)], axis=1)
    wide = xp.concat([2.0 * right, xp.stack([xp.ones_like(norms_z), -norms_z], axis=1)], axis=1)
    if out is not None:
        return np.matmul(long, wide.T, out=out)
    return xp.astype(long, dtype, copy=False) @ xp.astype(wide, dtype, copy=False).T


def _row_squares(points: Any) -> Array:
    squares = points.multiply(points) if is_sparse(points) else np.square(points)
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def _longest(*sets: Any) -> float:
    """Return the largest number of entries of a row that are not zero; of a dense row, of all."""
    return float(max(np.diff(p.tocsr().indptr).max(initial=0) if is_sparse(p) else p.shape[1] for p in sets))


@np.errstate(over="ignore", invalid="ignore")
def squares_error(X: Any, roots: Array) -> float:
    """Bound the absolute error of squared distances of rows of X by :func:`negative_squares` wherever it is below 50.

    Where that returns None they are computed from differences.
    """
    if is_sparse(X):
        reach, terms = 2.0 * float(_row_squares(X.multiply(roots[None, :])).max()), _longest(X)
    else:
        # a block is centred by the mean of the rows it is compared with, which is no farther than any of them
        xp = namespace_of(X)
        centred = (X - xp.mean(X, axis=0)) * on_device_of(X, roots)
        reach, terms = 8.0 * float(xp.max(xp.sum(centred * centred, axis=1))), float(X.shape[1])
    # (d + 2) rounded terms of at most twice the norms, the norms' own d + 1 roundings, centring and scaling
    error = relative_rounding(1.5 * terms + 7.0) * reach
    accepted = 1.5 * (_ACCEPTED_ON_DEVICE if is_device_array(X) else _ACCEPTED)
    return float(error if error <= accepted else accepted + relative_rounding(X.shape[1] + 6.0))


def add_by_column(X: Array, Z: Array, units: Array, p: float, G: Array, *, codes: bool = False) -> Array:
    r"""Return the sums over pairs of ``G[i, j] (|x_ic - z_jc| / units_c)^p``, one for each column c.

    For p = 2 they are one product for all columns, about a common centre and in units of the widths,

    .. math:: \sum_{ij} G_{ij} (x_{ic} - z_{jc})^2 = \sum_i x_{ic}^2 \sum_j G_{ij} + \sum_j z_{jc}^2 \sum_i G_{ij}
              - 2 \sum_i x_{ic} \, (G Z)_{ic} .

    Where its terms cancel (for points that are near each other and far from the centre), and for any other p, the
    column is added up from differences.
    """
    sums, lost = np.zeros(units.size), np.ones(units.size, dtype=bool)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if p == 2.0:
            centre = Z.mean(axis=0)
            left, right = (X - centre) / units, (Z - centre) / units
            sums, _ = _expand(left, right, G)
            sizes, terms = _expand(left, right, np.abs(G))
            # every product has as many roundings as a sum over all points
            lost = ~(random_rounding(X.shape[0] + Z.shape[0]) * terms <= _OF_SUMS * sizes)
        for c in np.flatnonzero(lost):
            powers = _power_of_difference(np, X[:, c], Z[:, c], units[c], p, codes, np.float64)
            sums[c] = np.vdot(G, np.minimum(powers, _FARTHEST, out=powers))
    return sums


def _expand(left: Array, right: Array, G: Array) -> tuple[Array, Array]:
    """Return the sums of ``G_ij (l_ic - r_jc)^2`` by one product, and the same sums without the mixed terms."""
    squares = G.sum(axis=1) @ np.square(left) + G.sum(axis=0) @ np.square(right)
    return squares - 2.0 * np.einsum("ic,ic->c", left, G @ right), squares
