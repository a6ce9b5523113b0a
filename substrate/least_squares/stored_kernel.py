r"""Products with a kernel matrix, its triangle stored or its blocks computed anew, and a preconditioner.

One triangle of K suffices for products with K. Of an N x N array whose other triangle is never written, the operating
system provides the pages that are: as much memory as all of K takes in single precision.

A sample of m rows, J, gives the preconditioner

.. math:: M = K_{\cdot J} K_{JJ}^{-1} K_{J \cdot} + D, \qquad
          M^{-1} = D^{-1} - D^{-1} K_{\cdot J}
                   \left(K_{JJ} + K_{J \cdot} D^{-1} K_{\cdot J}\right)^{-1} K_{J \cdot} D^{-1} ,

the Nystrom approximation of K with the diagonal of the errors, inverted by the Woodbury identity. A random sample
follows the density of the rows; greedy pivots take the outliers first, cost more, and need more iterations.
"""

import contextlib
import mmap
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.errors import SolverError
from substrate.gram import Gram
from substrate.kernel_matrix import warn_if_degenerate
from substrate.kernels import Kernel
from substrate.kernels.base import mirror_square, strips
from substrate.least_squares.conjugate_gradient import kernel_product
from substrate.progress import LateProgress
from substrate.threads import blas_threads

__all__ = ["KernelBlocks", "KernelSample", "KernelTriangle", "SampledInverse", "SymmetricMap"]

#: Rows of a strip, as in :func:`substrate.kernels.base.symmetric_matrix`: the same values to the last bit.
_STRIP = 128
#: Up to this many columns, one matrix-vector product per column beats the packed matrix-matrix product.
_FEW_COLUMNS = 8
#: Bytes of an array from which half of it is worth saving: small pages are a little slower.
_SMALL_PAGES_FROM = 2.0**27
#: Jitter of the small matrix, as a share of its trace; increased until a factor exists.
_JITTERS = (1e-15, 1e-13, 1e-11, 1e-9)


class SymmetricMap(Protocol):
    """A kernel matrix as a map of vectors."""

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""

    def product(self, V: Array) -> Array:
        """K V, one column per vector."""


class KernelTriangle:
    """The upper triangle of a kernel matrix."""

    def __init__(self, kernel: Kernel, store: Array, diagonal: Array) -> None:
        self.kernel, self.diagonal = kernel, diagonal
        self._store = store

    @classmethod
    def of(cls, kernel: Kernel, X: Any) -> "KernelTriangle":
        """The triangle of a resolved kernel on points, refused before allocation when it cannot fit."""
        n = X.shape[0]
        check_memory(
            4.0 * n * n,
            f"one triangle of the {n} x {n} kernel matrix",
            "solver='cg' stores none of it; or take a reduced set of rows.",
        )
        store, diagonal = _half_used(n), kernel.diag(X)
        for rows in strips(n, _STRIP):
            kernel.fill(X[rows], X[rows.start :], store[rows, rows.start :])
        np.fill_diagonal(store, diagonal)
        made = cls(kernel, store, diagonal)
        if kernel.decays and n > 1:
            warn_if_degenerate(store, diagonal, X, _extreme_correlations)
        return made

    def product(self, V: Array) -> Array:
        """K V, reading each stored number once for a few columns."""
        from scipy.linalg.blas import dsymm, dsymv

        stored = self._store.T  # Fortran's lower triangle
        with blas_threads(stored.shape[0]):
            if V.shape[1] <= _FEW_COLUMNS:
                return np.column_stack([dsymv(1.0, stored, column, lower=1) for column in V.T])
            return np.ascontiguousarray(dsymm(1.0, stored, V, lower=1))

    def gram(self) -> Gram:
        """The whole matrix in the same array, for a factorisation; this object must not be used afterwards."""
        K = self._store
        n = K.shape[0]
        check_memory(
            4.0 * n * n, f"the other triangle of the {n} x {n} kernel matrix", "Fit with solver='stored_cg', or 'cg'."
        )
        for rows in strips(n, _STRIP):
            K[rows.stop :, rows] = K[rows, rows.stop :].T
            mirror_square(K[rows, rows], upper=True)
        return Gram(K, self.kernel)


def _half_used(n: int) -> Array:
    """An N x N array that takes up memory where it is written: from a size on, in pages smaller than its rows.

    Linux would otherwise back a large array with pages of 2 MiB, each of which holds numbers of the stored triangle.
    """
    if 8.0 * n * n < _SMALL_PAGES_FROM or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.empty((n, n))
    memory = mmap.mmap(-1, 8 * n * n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.float64).reshape(n, n)


def _extreme_correlations(store: Array, root: Array) -> tuple[float, float]:
    """The lowest and the highest correlation of two different points, from the upper triangle."""
    low, high = np.inf, -np.inf
    for i in range(root.size - 1):
        row = store[i, i + 1 :] / (root[i] * root[i + 1 :])
        low, high = min(low, float(row.min())), max(high, float(row.max()))
    return low, high


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """A kernel matrix that is computed anew for every product."""

    kernel: Kernel
    points: Any
    progress: LateProgress | None = None

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return np.asarray(self.kernel.diag(self.points))

    def product(self, V: Array) -> Array:
        """K V, half of K evaluated and none of it stored."""
        with blas_threads(V.shape[0]):
            return kernel_product(self.kernel, self.points, V, self.progress)


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
        """What the preconditioner of this sample takes at its peak: two columns per sampled row."""
        return 16.0 * float(self.points.shape[0]) * float(self.rows.size)

    @np.errstate(all="ignore")
    def remainder(self, ridge: Array) -> float:
        """The mean, over the probes, of the part of k(x, x) that the sample leaves, in units of the diagonal D."""
        from scipy.linalg import LinAlgError, cholesky, solve_triangular

        sample, probes = self.points[self.rows], self.points[self.probes]
        if probes.shape[0] == 0:
            return 0.0
        values, own = self.kernel(probes, sample), self.kernel(sample)
        own[np.diag_indices_from(own)] += 1e-12 * np.trace(own)
        try:
            factor = cholesky(own, lower=True, overwrite_a=True)
            explained = np.square(solve_triangular(factor, values.T, lower=True)).sum(axis=0)
        except (LinAlgError, ValueError):
            return float("inf")
        left = np.maximum(self.kernel.diag(probes) - explained, 0.0) / ridge[self.probes]
        return float(np.mean(left)) if np.isfinite(left).all() else float("inf")


class SampledInverse:
    """M^{-1} of the module's preconditioner."""

    def __init__(self, sample: KernelSample, ridge: Array) -> None:
        from scipy.linalg import LinAlgError, cho_factor
        from scipy.linalg.blas import dsyrk

        what = f"the preconditioner of {sample.rows.size} sampled rows"
        check_memory(sample.bytes, what, "Use solver='cg', or take a reduced set of rows.")
        with blas_threads(ridge.size):
            columns = sample.kernel(sample.points, sample.points[sample.rows])
            own = columns[sample.rows]
            pulled = columns / np.sqrt(ridge)[:, None]
            core = dsyrk(1.0, pulled.T, lower=1)  # its other triangle is never read
            core += (own + own.T) / 2.0
            self._columns, self._ridge = columns, ridge[:, None]
            for jitter in _JITTERS:
                lifted = core + np.diag(np.full(core.shape[0], jitter * float(np.trace(core))))
                try:
                    self._core = cho_factor(lifted, lower=True, overwrite_a=True)
                    return
                except (LinAlgError, ValueError):  # rounding, or overflow
                    continue
        raise SolverError("the sample of rows gives no preconditioner in double precision")

    def __call__(self, R: Array) -> Array:
        """M^{-1} R."""
        from scipy.linalg import cho_solve

        pulled = R / self._ridge
        small = cho_solve(self._core, self._columns.T @ pulled, check_finite=False)
        pulled -= (self._columns @ small) / self._ridge
        return pulled
