r"""A preconditioner of K + D: the columns of a few sampled rows, inverted with the diagonal by the Woodbury identity.

With the n x m columns :math:`C = K_{\cdot J}` of a sample J, and :math:`G = K_{JJ}`,

.. math:: M = C G^{-1} C^T + D, \qquad
          M^{-1} = D^{-1} - D^{-1} C \left(G + C^T D^{-1} C\right)^{-1} C^T D^{-1} ,

the Nystrom approximation of K, for the price of :math:`N m` kernel values and one product. Random rows follow the
density of the data, and leave out isolated rows.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import (
    Array,
    cholesky,
    diagonal_of,
    diagonal_set,
    has_room,
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    solve_triangular,
    strips,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.errors import SolverError
from substrate.kernels import Kernel
from substrate.threads import blas_threads

__all__ = ["SampledInverse", "sample_rows"]

#: Jitter of the small matrix, as a share of its trace; increased until a factor exists.
_JITTERS = (1e-15, 1e-13, 1e-11, 1e-9)
#: Rows of which the small matrix is added up at a time.
_STRIP = 4096
#: A product of a device computes kernel values anew, so that more sampled rows are worth their price than on the host;
#: and the room for their columns there: with a copy of them, and tiles.
_MORE_ON_DEVICE, _BESIDE_SAMPLE = 2, 2.5


def sample_rows(kernel: Kernel, X: Any, ridge: Array) -> Any:
    """Return the numbers of random rows, more where the diagonal of K is large in units of 1/(gamma v).

    They are always the same for a number of rows and a size.
    """
    n = int(X.shape[0])
    with np.errstate(all="ignore"):
        relative = float(np.mean(to_numpy(kernel.diag(X)) / ridge))
    digits = math.log10(1.0 + relative) if math.isfinite(relative) else 4.0
    size = min(n // 2, round(math.sqrt(n) * min(2.0 + 2.0 * digits, 10.0)))
    if is_device_array(X):
        size = min(n // 2, _MORE_ON_DEVICE * size)
        while size > 1 and not has_room(X, _BESIDE_SAMPLE * 8.0 * n * size):
            size //= 2
    return np.sort(np.random.default_rng(0).permutation(n)[:size])


class SampledInverse:
    """M^{-1} for vectors on the host; points may be on a device."""

    def __init__(self, kernel: Kernel, points: Any, rows: Any, ridge: Array) -> None:
        n, sample, columns = ridge.size, take_rows(points, rows), None
        what = f"the preconditioner of {rows.size} sampled rows"
        advice = "Take a reduced set of rows, or give LSSVMRegressor or LSSVMClassifier a basis of few."
        room_on_device(points, 8.0 * n * rows.size, what, advice)
        roots, core, self._ridge = np.sqrt(ridge)[:, None], None, ridge[:, None]
        with blas_threads(n), np.errstate(over="ignore", invalid="ignore"):  # what overflows has no factor
            for strip in strips(n, _STRIP):
                values = kernel(points[strip, :], sample)
                columns = zeros_beside(values, (n, rows.size)) if columns is None else columns
                columns[strip, :] = values
                pulled = values / on_device_of(values, roots[strip])
                core = pulled.T @ pulled if core is None else core + pulled.T @ pulled
            self._columns: Any = columns
            self._factor: Any = None
            if bool(namespace_of(columns).any(columns != 0.0)):  # otherwise M is D
                small = take_rows(columns, rows)
                self._factor = _factor(core + (small + small.T) / 2.0, ridge)

    def __call__(self, R: Array) -> Array:
        """Return M^{-1} R."""
        pulled = R / self._ridge
        if self._factor is not None:
            on_device = on_device_of(self._columns, pulled)
            inner = solve_triangular(self._factor, self._columns.T @ on_device)
            small = solve_triangular(self._factor, inner, transposed=True)
            pulled -= to_numpy(self._columns @ small) / self._ridge
        return pulled


def _factor(core: Any, ridge: Array) -> Any:
    """Return a lower factor of G + C'D^-1 C."""
    diagonal = diagonal_of(core)
    trace = float(namespace_of(core).sum(diagonal))
    for jitter in _JITTERS if math.isfinite(trace) else ():  # some LAPACK factors infinite numbers without a word
        diagonal_set(core, diagonal + jitter * trace)
        try:
            return cholesky(core)
        except (SolverError, ValueError):  # rounding
            continue
    raise SolverError(
        f"conjugate gradients have no preconditioner in double precision for 1/(gamma v) between {ridge.min():.1e} and "
        f"{ridge.max():.1e}; use solver='cholesky', lower gamma, or bring the weights closer together"
    )
