"""Points about their mean, where a machine with a free bias does not see the difference."""

from typing import Any

import numpy as np

from substrate.arrays import is_sparse
from substrate.kernels import Kernel, Linear
from substrate.kernels.algebra import Scaled
from substrate.namespaces import is_device_array

__all__ = ["centred_points"]


def centred_points(kernel: Kernel, X: Any, *others: Any) -> tuple[Any, ...]:
    """X and further points less the mean of X for a linear kernel on dense arrays; as they are for any other.

    Coefficients that sum to zero take up what a common shift adds to x'z, and the bias the rest, while an offset of the
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
