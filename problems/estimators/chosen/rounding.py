"""Points about their centre where a kernel allows it, and how far rounding moves the kernel rows of points."""

from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.kernels import Kernel, Linear
from substrate.kernels.nested import Scaled
from substrate.namespaces import is_device_array

__all__ = ["centred_points", "joint_rounding", "row_rounding"]


def centred_points(kernel: Kernel, X: Any, *others: Any) -> tuple[Any, ...]:
    """X and further points minus the mean of X for a linear kernel on dense arrays; unchanged for any other.

    Coefficients that sum to zero, and the bias, absorb what a common shift adds to x'z, while an offset of the
    points would cost digits of every kernel value.
    """
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if not isinstance(plain, Linear) or is_sparse(X) or is_device_array(X):
        return (X, *others)
    with np.errstate(over="ignore", invalid="ignore"):
        center = np.mean(X, axis=0)
    if not np.isfinite(center).all():
        return (X, *others)
    return tuple(points - center for points in (X, *others))


def joint_rounding(kernel: Kernel, X: Any, X_check: Any) -> float:
    """The kernel's p for the rows of both; zero for a user's matrix, which is exact by definition."""
    if kernel.pairwise:
        return 0.0
    if is_sparse(X):
        from scipy.sparse import vstack

        return kernel.rounding(vstack([X, X_check]).tocsr())
    return kernel.rounding(np.vstack([X, X_check]))


def row_rounding(p: float, diagonal: Array, checked: Array) -> float:
    """A bound on the root mean square error of centred kernel rows of points, from k(x, x) of both sets."""
    if p == 0.0:
        return 0.0
    # once for the row, once for the mean row that is subtracted
    own = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * own * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))


def weighted_rounding(p: float, diagonal: Array, checked: Array, v: Array | None, w: Array | None) -> float:
    """As :func:`row_rounding`, of rows scaled by the roots of weights."""
    if p == 0.0 or v is None or w is None:
        return row_rounding(p, diagonal, checked)
    means = [float(np.average(np.abs(part), weights=by)) for part, by in ((diagonal, v), (checked, w))]
    return row_rounding(p, v * diagonal, np.array([max(means)]))
