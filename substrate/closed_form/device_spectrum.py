r"""The decomposition of a centred kernel matrix on a device, and its leave-one-out sums.

As :mod:`~substrate.closed_form.spectrum`, which explains both, in functions of the array API: the reflection that takes
1 to the first axis is a product of two thin matrices, and one block of rows is as large as memory allows.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import device_blocks, namespace_of, to_numpy

__all__ = ["device_decomposition", "device_leave_one_out_sums", "device_leverages"]


def device_decomposition(K: Any, v: Any) -> tuple[float, Any, Any]:
    """Trace, eigenvalues (ascending) and vectors of PKP off the direction 1; v is the reflection's unit vector."""
    xp = namespace_of(K)
    product = K @ v
    q = 2.0 * (product - xp.sum(v * product) * v)
    inner = (K - xp.stack([v, q], axis=1) @ xp.stack([q, v], axis=0))[1:, 1:]
    trace = float(xp.linalg.trace(inner))
    values, vectors = xp.linalg.eigh(inner)
    first = xp.zeros((1, vectors.shape[1]), dtype=vectors.dtype, device=vectors.device)
    basis = xp.concat([first, vectors], axis=0)
    basis -= 2.0 * v[:, None] * (v[1:] @ vectors)[None, :]
    return trace, values, basis


def device_leverages(basis: Any, g: Any) -> Any:
    """B_ii, of shape (N, number of lambdas)."""
    xp = namespace_of(basis)
    parts = [(block * block) @ g for block in (basis[rows, :] for rows in device_blocks(*basis.shape))]
    return xp.concat(parts, axis=0)


def device_leave_one_out_sums(basis: Any, g: Any, z: Any) -> tuple[Array, Array]:
    """On the host: sums of the squared residuals, (lambdas, outputs), and of 1/B_ii, (lambdas,)."""
    xp = namespace_of(basis)
    squares, reciprocal = np.zeros((g.shape[1], z.shape[1])), np.zeros(g.shape[1])
    for rows in device_blocks(*basis.shape):
        block = basis[rows, :]
        inverse = 1.0 / ((block * block) @ g)
        reciprocal += to_numpy(xp.sum(inverse, axis=0))
        for k in range(z.shape[1]):
            residuals = (block @ (g * z[:, k][:, None])) * inverse
            squares[:, k] += to_numpy(xp.sum(residuals * residuals, axis=0))
    return squares, reciprocal
