r"""Preconditioners of K + D: a few columns of a kernel matrix, inverted with the diagonal by the Woodbury identity.

With n x m columns C and a small positive definite matrix G,

.. math:: M = C G^{-1} C^T + D, \qquad
          M^{-1} = D^{-1} - D^{-1} C \left(G + C^T D^{-1} C\right)^{-1} C^T D^{-1} .

A sample of m rows, J, gives :math:`C = K_{\cdot J}` and :math:`G = K_{JJ}`, the Nystrom approximation of K, for the
price of :math:`N m` kernel values and one product. Random rows follow the density of the data, and leave out those that
lie apart.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.kernels import Kernel
from substrate.namespaces import (
    cholesky,
    diagonal_of,
    diagonal_set,
    namespace_of,
    on_device_of,
    room_on_device,
    solve_triangular,
    strips,
    take_rows,
    to_numpy,
    zeros_beside,
)
from substrate.progress import LateProgress
from substrate.threads import blas_threads

__all__ = ["KernelSample", "LowRankInverse"]

#: Jitter of the small matrix, as a share of its trace; increased until a factor exists.
_JITTERS = (1e-15, 1e-13, 1e-11, 1e-9)
#: Rows of which the small matrix is added up at a time.
_STRIP = 4096


class LowRankInverse:
    """M^{-1} of the module for vectors on the host, with G ``small``; columns may be on a device."""

    def __init__(self, columns: Any, small: Array, ridge: Array, progress: LateProgress | None = None) -> None:
        self._columns, self._ridge, self._progress = columns, ridge[:, None], progress
        self._factor: Any = None
        if bool(namespace_of(columns).any(columns != 0.0)):  # otherwise M is D
            with blas_threads(ridge.size):
                self._factor = self._factor_core(small)

    def _factor_core(self, small: Array) -> Any:
        """Return a lower factor of G + C'D^-1 C, which is added up over strips of rows."""
        columns: Any = self._columns
        n, xp = columns.shape[0], namespace_of(columns)
        core = xp.asarray((small + small.T) / 2.0, copy=True)
        roots = on_device_of(columns, np.sqrt(self._ridge))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows has no factor
            for rows in strips(n, _STRIP):
                pulled = columns[rows, :] / roots[rows, :]
                core += pulled.T @ pulled
                if self._progress is not None:
                    self._progress.rows(rows.stop, n)
        diagonal = diagonal_of(core)
        trace = float(xp.sum(diagonal))
        for jitter in _JITTERS if math.isfinite(trace) else ():  # some LAPACK factors infinite numbers without a word
            diagonal_set(core, diagonal + jitter * trace)
            try:
                return cholesky(core)
            except (SolverError, ValueError):  # rounding
                continue
        raise SolverError(
            f"conjugate gradients have no preconditioner in double precision for 1/(gamma v) between "
            f"{self._ridge.min():.1e} and {self._ridge.max():.1e}; use solver='cholesky', lower gamma, or bring the "
            "weights closer together"
        )

    def __call__(self, R: Array) -> Array:
        """Return M^{-1} R."""
        pulled = R / self._ridge
        if self._factor is not None:
            there = on_device_of(self._columns, pulled)
            inner = solve_triangular(self._factor, self._columns.T @ there)
            small = solve_triangular(self._factor, inner, transposed=True)
            pulled -= to_numpy(self._columns @ small) / self._ridge
        return pulled


@dataclass(frozen=True, slots=True)
class KernelSample:
    """A random sample of the rows, always the same for a number of rows, and ``probes``, rows outside it."""

    kernel: Kernel
    points: Any
    rows: Any
    probes: Any

    @classmethod
    def of(cls, kernel: Kernel, X: Any, size: int, n_probes: int = 200) -> "KernelSample":
        """Draw ``size`` rows without replacement, and probes from the others."""
        n = X.shape[0]
        order = np.random.default_rng(0).permutation(n)
        return cls(kernel, X, np.sort(order[:size]), np.sort(order[size : size + n_probes]))

    @property
    def bytes(self) -> float:
        """What the preconditioner of this sample takes: one column per sampled row."""
        return 8.0 * float(self.points.shape[0]) * float(self.rows.size)

    @np.errstate(all="ignore")
    def remainder(self, ridge: Array) -> float:
        """Return the mean, over the probes, of the part of k(x, x) that the sample leaves, in units of the diagonal
        D.
        """
        from scipy.linalg import LinAlgError, cholesky, solve_triangular

        sample, probes = self.points[self.rows], self.points[self.probes]
        if probes.shape[0] == 0:
            return 0.0
        values, sample_matrix = self.kernel(probes, sample), self.kernel(sample)
        sample_matrix[np.diag_indices_from(sample_matrix)] += 1e-12 * np.trace(sample_matrix)
        try:
            factor = cholesky(sample_matrix, lower=True, overwrite_a=True)
            explained = np.square(solve_triangular(factor, values.T, lower=True)).sum(axis=0)
        except (LinAlgError, ValueError):
            return float("inf")
        unexplained = np.maximum(self.kernel.diag(probes) - explained, 0.0) / ridge[self.probes]
        return float(np.mean(unexplained)) if np.isfinite(unexplained).all() else float("inf")

    def inverse(self, ridge: Array, progress: LateProgress | None = None) -> LowRankInverse:
        """Return the preconditioner of a diagonal D; the progress is told of every strip of rows."""
        what = f"the preconditioner of {self.rows.size} sampled rows"
        advice = "Take a reduced set of rows, or give LSSVMRegressor or LSSVMClassifier a basis of few."
        room_on_device(self.points, self.bytes, what, advice)
        n, sample, columns = ridge.size, take_rows(self.points, self.rows), None
        with blas_threads(n):
            for rows in strips(n, _STRIP):
                values = self.kernel(self.points[rows, :], sample)
                columns = zeros_beside(values, (n, self.rows.size)) if columns is None else columns
                columns[rows, :] = values
                if progress is not None:
                    progress.rows(rows.stop, n)
        return LowRankInverse(columns, take_rows(columns, self.rows), ridge, progress)
