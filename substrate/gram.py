r"""The Gram matrix: the one owner of K, its factors, its coordinates and every alteration made to it.

One :math:`N \times N` array serves the closed form from beginning to end. Both triangles hold K at first; the
Cholesky factor of :math:`K + \operatorname{diag}(d)` then overwrites one of them, and the other, with the diagonal
kept aside, still gives exact products with K for refinement and certificate.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from substrate.arrays import Array, check_memory, is_sparse, real_array, real_points
from substrate.certificates.rounding import cholesky_rounding, rank_cutoff
from substrate.errors import DeclarationError, IndefiniteKernelWarning, SolverError
from substrate.kernel_matrix import Alteration, Coordinates, mirror_lower, symmetric, warn_if_degenerate
from substrate.kernels import Kernel
from substrate.kernels.base import symmetric_matrix
from substrate.namespaces import column_squares
from substrate.operators import SystemMatrix
from substrate.threads import blas_threads

__all__ = ["ROUNDED_SINGLE", "Gram"]

#: A negative eigenvalue, relative to the largest, that rounding of the entries in single precision explains.
ROUNDED_SINGLE = 1e-6
#: The alteration recorded of a matrix that is not a kernel matrix.
_INDEFINITE = "not positive semi-definite"
#: Up to this many columns, one matrix-vector product per column beats the packed matrix-matrix product.
_FEW_COLUMNS = 8


class Gram(SystemMatrix):
    """A symmetric kernel matrix, its factor and its record.

    Build one with :meth:`of` (a kernel on points) or :meth:`from_matrix` (a matrix from elsewhere).
    """

    def __init__(self, matrix: Array, kernel: Kernel | None = None, alterations: tuple[Alteration, ...] = ()) -> None:
        self.kernel = kernel
        self.alterations = alterations
        self._diagonal: Array = matrix.diagonal().copy()
        self.jitter = 0.0
        #: K + negative I is positive semi-definite: zero by the kernel's formula, or what :meth:`check_definite` found.
        self.negative = 0.0
        #: A bound on the eigenvalues of the error of K where the kernel is what cancellation leaves, zero elsewhere.
        self.cancelled = 0.0
        #: The rank that K has at most by the kernel's formula, None where that is the number of points.
        self.rank: int | None = None
        self._store = matrix
        self._ridge: Array | None = None
        self._factor_diagonal: Array | None = None
        self._pivots: Any = None
        #: The points of which the matrix was computed in strips; None for a matrix from elsewhere, or a part of one.
        self.points: Any = None
        self._coordinates: dict[float, Coordinates] = {}

    @classmethod
    def of(cls, kernel: Kernel, X: Any) -> "Gram":
        """Return the Gram matrix of a resolved kernel on points, refused before allocation when it cannot fit."""
        X = real_points(X)
        n = X.shape[0]
        check_memory(
            8.0 * n * n,
            f"the {n} x {n} kernel matrix",
            "LSSVMRegressor and LSSVMClassifier fit it with solver='cg', which stores none of it; or take a reduced "
            "set of rows.",
        )
        if kernel.pairwise:
            matrix, alterations = symmetric(X.toarray() if is_sparse(X) else X, "the precomputed kernel matrix")
            computed = symmetric_matrix(kernel, matrix)
            return cls(computed, kernel, alterations)
        gram = cls(symmetric_matrix(kernel, X), kernel)
        gram.points = X
        gram.rank = kernel.rank(X.shape[1])
        if (envelope := kernel.envelope) is not kernel:
            # entries within p sqrt(k(x, x) k(z, z)) move an eigenvalue by p trace(K) at most
            gram.cancelled = 2.0 * envelope.rounding(X) * float(np.sum(envelope.diag(X)))
        if kernel.decays and n > 1:
            warn_if_degenerate(gram._store, gram.diagonal, X)
        return gram

    @classmethod
    def from_matrix(cls, K: Any, name: str = "K") -> "Gram":
        """Return a copy of a given matrix, square and symmetric up to rounding."""
        matrix, alterations = symmetric(real_array(K, name, ndim=2), name)
        return cls(matrix.copy(), None, alterations)

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self._store.shape[0])

    @property
    def diagonal(self) -> Array:
        """The diagonal of K, wherever a factor is."""
        return self._diagonal

    @property
    def matrix(self) -> Array:
        """K itself: a read-only view, or a copy once a factor lives in its upper triangle."""
        if self._ridge is None:
            view = self._store.view()
            view.flags.writeable = False
            return view
        K = self._store.copy()
        mirror_lower(K)
        return K

    def product(self, V: Array) -> Array:
        """Return K V, from the triangle that no factor overwrites."""
        from scipy.linalg.blas import dsymm, dsymv

        stored = self._store.T  # Fortran's upper triangle is the untouched one
        with blas_threads(self.n):
            if V.ndim == 1:
                return np.asarray(dsymv(1.0, stored, V))
            if V.shape[1] <= _FEW_COLUMNS:
                return np.column_stack([dsymv(1.0, stored, column) for column in V.T])
            return np.ascontiguousarray(dsymm(1.0, stored, V))

    def factorize(self, ridge: Array) -> None:
        """Factor K + diag(ridge) in place; :meth:`solve` then uses it.

        Cholesky, or, where the matrix turns out not to be positive definite, the symmetric indefinite
        factorisation, recorded as such. The factor of the same diagonal is kept.
        """
        from scipy.linalg.lapack import dpotrf

        if self._factor_diagonal is not None and self._ridge is not None and np.array_equal(self._ridge, ridge):
            return
        with blas_threads(self.n):
            self._restore()
            self._ridge = ridge.copy()
            np.fill_diagonal(self._store, self._diagonal + ridge)
            factor, info = dpotrf(self._store.T, lower=1, clean=0, overwrite_a=1)
            if info > 0:
                self._factorize_indefinite(ridge, info)
            elif not np.shares_memory(factor, self._store):
                self._store = factor.T
            self._factor_diagonal = self._store.diagonal().copy()
            np.fill_diagonal(self._store, self._diagonal)

    def solve(self, B: Array) -> Array:
        """Return (K + diag(ridge))^{-1} B with the present factor."""
        from scipy.linalg.lapack import dpotrs, dsytrs

        if self._factor_diagonal is None:
            raise DeclarationError("factorize(ridge) must come before solve")
        columns = np.asfortranarray(B)
        with blas_threads(self.n), self._factor_in_place(self._factor_diagonal):
            if self._pivots is None:
                X, info = dpotrs(self._store.T, columns, lower=1)
            else:
                X, info = dsytrs(self._store.T, self._pivots, columns, lower=1)
        if info != 0:
            raise SolverError(f"LAPACK refused the triangular solve (info = {info})")
        return np.asarray(X)

    def inverse(self) -> Array:
        """Return (K + diag(ridge))^{-1} with the present factor: a third of the work of :meth:`solve` on all unit
        vectors.
        """
        from scipy.linalg.lapack import dpotri

        if self._factor_diagonal is None:
            raise DeclarationError("factorize(ridge) must come before inverse")
        if self._pivots is not None:
            return np.ascontiguousarray(self.solve(np.eye(self.n, order="F")))
        with blas_threads(self.n), self._factor_in_place(self._factor_diagonal):
            inverse, info = dpotri(self._store.T, lower=1)
        if info != 0:
            raise SolverError(f"LAPACK refused the inverse (info = {info})")
        mirror_lower(inverse)
        return np.asarray(inverse.T)

    def inverse_factor(self) -> Array | None:
        """Return W with (K + diag(ridge))^{-1} = W'W in the lower triangle, anything above; None if indefinite."""
        from scipy.linalg.lapack import dtrtri

        if self._factor_diagonal is None:
            raise DeclarationError("factorize(ridge) must come before inverse_diagonal")
        if self._pivots is not None:
            return None
        with blas_threads(self.n), self._factor_in_place(self._factor_diagonal):
            factor, info = dtrtri(self._store.T, lower=1)
        if info != 0:
            raise SolverError(f"LAPACK refused the inverse of the factor (info = {info})")
        return np.asarray(factor)

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of (K + diag(ridge))^{-1}: column sums of squares of the inverse factor."""
        factor = self.inverse_factor()
        return np.array(self.inverse().diagonal()) if factor is None else column_squares(factor)

    def coordinates(self, cutoff: float | None = None) -> Coordinates:
        """Return well-conditioned coordinates of K, without directions below ``cutoff`` times the largest eigenvalue.

        The default cut-off, N eps, is the noise of the matrix itself. A negative eigenvalue beyond that noise is
        refused with its value: no convex problem can be declared on such a matrix.

        :equation [Suykens2002]_ (6)-(7): Mercer's expansion on the given points, refused where the kernel is not
            positive
        """
        relative = rank_cutoff(self.n) if cutoff is None else cutoff
        if relative not in self._coordinates:
            self._coordinates[relative] = Coordinates.of(self.matrix, relative)
        return self._coordinates[relative]

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the entries of some rows and some columns."""
        if self._ridge is not None:
            raise DeclarationError("blocks are taken before the matrix is factored, or after release()")
        return self._store[np.ix_(rows, columns)]

    def restrict(self, rows: Any) -> "Gram":
        """Return the Gram matrix of some of the points."""
        restricted = Gram(self.block(rows, rows), self.kernel, self.alterations)
        restricted.negative, restricted.cancelled, restricted.rank = self.negative, self.cancelled, self.rank
        return restricted

    def shift(self, by: Array) -> "Gram":
        """Return K - by 1' - 1 by': with coefficients that sum to zero, products with it differ by a constant alone."""
        shifted = Gram(self.matrix - (by[:, None] + by), None, self.alterations)
        shifted.negative, shifted.cancelled = self.negative, self.cancelled
        return shifted

    def release(self) -> None:
        """Restore K in the triangle that holds a factor, so that :attr:`matrix` is a view again."""
        self._restore()

    def record(self) -> tuple[tuple[str, str], ...]:
        """Return facts for a certificate: kernel, size, ranks kept, jitter, alterations."""
        facts = [("kernel", "a given matrix" if self.kernel is None else repr(self.kernel))]
        ranks = "".join(f", rank {c.rank} kept at cut-off {c.cutoff:.1e}" for c in self._coordinates.values())
        facts.append(("Gram matrix", f"{self.n} x {self.n}{ranks}, jitter {self.jitter:g}"))
        facts += [("alteration", str(alteration)) for alteration in self.alterations]
        return tuple(facts)

    def _factorize_indefinite(self, ridge: Array, failed_at: int) -> None:
        from scipy.linalg.lapack import dsytrf, dsytrf_lwork

        np.fill_diagonal(self._store, self._diagonal)
        self._restore()
        smallest = self._warn_if_indefinite(stacklevel=8)
        self.alterations += (
            Alteration("symmetric indefinite factorisation", smallest, f"Cholesky stopped at row {failed_at}"),
        )
        self._ridge = ridge
        np.fill_diagonal(self._store, self._diagonal + ridge)
        lwork, _ = dsytrf_lwork(self.n, lower=1)
        factor, self._pivots, info = dsytrf(self._store.T, lower=1, lwork=int(lwork), overwrite_a=1)
        if info > 0:
            np.fill_diagonal(self._store, self._diagonal)
            self._restore()
            raise SolverError(
                "K + I/gamma is exactly singular; change gamma slightly or use a positive definite kernel"
            )
        if not np.shares_memory(factor, self._store):
            self._store = factor.T

    def check_definite(self) -> None:
        """Warn and record when a matrix of unknown origin has a negative eigenvalue beyond rounding.

        K + diag(d) may be positive definite although K is not, so its factorisation proves nothing; that of K itself,
        shifted by its own rounding error, does.
        """
        self._restore()
        trace = max(float(self._diagonal.sum()), 0.0)
        rounding = cholesky_rounding(self.n) * trace
        # what entries rounded in double precision explain, or else in single: a share of the largest eigenvalue
        for lift in (rounding, ROUNDED_SINGLE * trace / self.n):
            if self._is_definite(lift):
                self.negative = lift + rounding
                return
        smallest = self._warn_if_indefinite(stacklevel=6)
        self.negative = float("inf")
        self.alterations += (Alteration(_INDEFINITE, smallest, "smallest eigenvalue of K"),)

    def _is_definite(self, lift: float) -> bool:
        from scipy.linalg.lapack import dpotrf

        np.fill_diagonal(self._store, self._diagonal + lift)
        with blas_threads(self.n):
            factor, info = dpotrf(self._store.T, lower=1, clean=0, overwrite_a=1)
        self._store = self._store if np.shares_memory(factor, self._store) else factor.T
        np.fill_diagonal(self._store, self._diagonal)
        mirror_lower(self._store)
        return bool(info == 0)

    def _warn_if_indefinite(self, stacklevel: int) -> float:
        values = np.linalg.eigvalsh(self._store)
        smallest = float(values[0])
        recorded = any(alteration.what == _INDEFINITE for alteration in self.alterations)  # or of a larger one
        explained = max(ROUNDED_SINGLE * float(np.abs(values).max()), self.cancelled)
        if smallest < -explained and not recorded:
            warnings.warn(
                f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); the machine is "
                "fitted, but it is not the minimum of a penalized problem: no weight vector w has this kernel, and the "
                "solution of the linear system is a saddle point; use a positive semi-definite kernel",
                IndefiniteKernelWarning,
                stacklevel=stacklevel,
            )
        return smallest

    @contextmanager
    def _factor_in_place(self, diagonal: Array) -> Iterator[None]:
        np.fill_diagonal(self._store, diagonal)
        try:
            yield
        finally:
            np.fill_diagonal(self._store, self._diagonal)

    def _restore(self) -> None:
        """Restore K in the upper triangle."""
        if self._ridge is not None:
            mirror_lower(self._store)
        self._ridge = self._factor_diagonal = self._pivots = None
