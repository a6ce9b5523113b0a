r"""Squared distances between two point sets, never negative and stable far from the origin.

.. math:: s\,\|x_i - z_j\|^2 = s\,\|x_i\|^2 - 2s\,x_i^T z_j + s\,\|z_j\|^2

comes out of ONE matrix product once the norms are appended as columns,
:math:`[x_i,\ s\|x_i\|^2,\ 1]\,[-2s z_j,\ 1,\ s\|z_j\|^2]^T`. The points are centred first, so an offset of
1e8 costs nothing. Where the norms are so large against 1/s that the cancellation would show, the entries
that matter are computed again from plain differences.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse

__all__ = ["metric_distances", "scaled_squared_distances"]

#: Largest accepted absolute error of an entry that is not beyond `_NEAR`.
_ABSOLUTE_ERROR = 1e-13
#: exp(-50) = 2e-22: an entry farther than this is nought to every kernel that decays.
_NEAR = 50.0
_EPS = float(np.finfo(np.float64).eps)


def scaled_squared_distances(X: Any, Z: Any, scale: float, out: Array) -> Array:
    """Write ``scale * ||x_i - z_j||^2`` into ``out``; the sign of every entry is the sign of ``scale``."""
    if is_sparse(X) or is_sparse(Z):
        norms_x, norms_z = _sparse_into(X, Z, scale, out)
    else:
        norms_x, norms_z = _dense_into(X, Z, scale, out)
    (np.minimum if scale < 0.0 else np.maximum)(out, 0.0, out=out)
    reach = float(np.max(np.abs(norms_x))) + float(np.max(np.abs(norms_z)))
    if not np.isfinite(reach):
        _differences_into(X, Z, scale, out, np.ones(out.shape, dtype=bool))
    elif 4.0 * _EPS * reach > _ABSOLUTE_ERROR:
        _differences_into(X, Z, scale, out, np.abs(out) < _NEAR + 4.0 * _EPS * reach)
    return out


def _dense_into(X: Array, Z: Array, scale: float, out: Array) -> tuple[Array, Array]:
    d = X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        centre = _finite_mean(Z)[:, None]
        # One coordinate a row: the long axis is contiguous, so each of these lines is a vector operation.
        left = np.empty((d + 2, X.shape[0]))
        right = np.empty((d + 2, Z.shape[0]))
        np.subtract(X.T, centre, out=left[:d])
        np.subtract(Z.T, centre, out=right[:d])
        norms_x = scale * np.square(left[:d]).sum(axis=0)
        norms_z = scale * np.square(right[:d]).sum(axis=0)
        left[d], left[d + 1] = norms_x, 1.0
        right[:d] *= -2.0 * scale
        right[d], right[d + 1] = 1.0, norms_z
        np.matmul(left.T, right, out=out)
    return norms_x, norms_z


def _finite_mean(points: Array) -> Array:
    mean: Array = np.full(points.shape[0], 1.0 / points.shape[0]) @ points
    return np.where(np.isfinite(mean), mean, 0.0)


def _sparse_into(X: Any, Z: Any, scale: float, out: Array) -> tuple[Array, Array]:
    # Centring would fill a sparse matrix; data that are sparse have their origin among them anyway.
    norms_x, norms_z = scale * _row_norms(X), scale * _row_norms(Z)
    product = X @ Z.T
    out[...] = product.toarray() if is_sparse(product) else product
    out *= -2.0 * scale
    out += norms_x[:, None]
    out += norms_z[None, :]
    return norms_x, norms_z


def _row_norms(points: Any) -> Array:
    squares = points.multiply(points).sum(axis=1) if is_sparse(points) else (points * points).sum(axis=1)
    return np.asarray(squares, dtype=np.float64).ravel()


def _differences_into(X: Any, Z: Any, scale: float, out: Array, wanted: Any) -> None:
    """Compute the wanted entries again without cancellation, a row at a time."""
    root = float(np.sqrt(abs(scale)))
    for i in range(out.shape[0]):
        (columns,) = np.nonzero(wanted[i])
        if columns.size == 0:
            continue
        x = X[[i]].toarray()[0] if is_sparse(X) else X[i]
        z = Z[columns].toarray() if is_sparse(Z) else Z[columns]
        with np.errstate(over="ignore", invalid="ignore"):
            difference = (z - x) * root
            out[i, columns] = np.copysign(np.einsum("ij,ij->i", difference, difference), scale)


def metric_distances(X: Any, Z: Any, metric: str, unit: float, out: Array) -> None:
    """Write distances in units of ``unit`` into ``out``, from plain differences.

    Kernels with a cusp at zero need this: sqrt(||x||^2 - 2x'z + ||z||^2) would turn a rounding error of 1e-16
    into a distance of 1e-8 between equal points.
    """
    from scipy.spatial.distance import cdist

    left = X.toarray() if is_sparse(X) else X
    right = Z.toarray() if is_sparse(Z) else Z
    with np.errstate(over="ignore", invalid="ignore"):
        origin = _finite_mean(right)
        out[...] = cdist((left - origin) / unit, (right - origin) / unit, metric)
    np.nan_to_num(out, copy=False, nan=np.inf, posinf=np.inf)
