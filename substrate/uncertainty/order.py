"""Order statistics along the last axis, wherever the numbers are; infinite where the rank runs out of them."""

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import namespace_of, partition

__all__ = ["kth_smallest"]


def kth_smallest(values: Array, k: int) -> Array:
    """Return the k-th smallest of every line, from 1 on; minus infinity for 0, infinity for one more than there are."""
    n = int(values.shape[-1])
    if not 1 <= k <= n:
        edge = -np.inf if k < 1 else np.inf
        return namespace_of(values).full_like(values[..., 0], edge)  # type: ignore[no-any-return]
    return partition(values, k - 1)[..., k - 1]  # type: ignore[no-any-return]
