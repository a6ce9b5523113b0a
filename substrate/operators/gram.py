r"""The Gram matrix: the one owner of K, its factor, its coordinates and every alteration made to it.

K is never changed or moved, and the Cholesky factor of :math:`K + \operatorname{diag}(d)` is stored next to it. A
matrix that is not positive definite is factored as a symmetric indefinite one on the host, and refused on a device:
there is no such factorisation in the array API.

A matrix as a map of vectors is a :class:`KernelOperator`, however its entries are kept:

==================  =====================================================================================
``n``               the number of points
``product(V)``      K V, one column per vector
``block(r, c)``     the entries of some rows and some columns, by their numbers
``diagonal``        the diagonal of K
==================  =====================================================================================

It is in memory (:class:`Gram`, on the host or on a device), or none of it is stored
(:mod:`substrate.operators.kernel_tiles`). An iteration asks for products, the choice of a
basis for blocks.
"""

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
    blocks_beside,
    cholesky,
    diagonal_of,
    diagonal_set,
    has_room,
    invert_triangle,
    is_device_array,
    is_sparse,
    namespace_of,
    on_device_of,
    own_copy,
    real_array,
    real_points,
    room_on_device,
    solve_triangular,
    take_rows,
    to_numpy,
    where_it_lives,
)
from substrate.errors import (
    DataError,
    DeclarationError,
    DegenerateKernelWarning,
    IndefiniteKernelWarning,
    SolverError,
    user_level,
)
from substrate.kernels.kernel import Kernel, symmetric_matrix
from substrate.numbers import ROUNDED_ONCE, Double, relative_rounding

__all__ = ["Coordinates", "Gram", "KernelOperator", "has_room_for_matrix"]

#: Asymmetry of a given matrix, relative to its largest entry, that rounding in double precision explains.
_ROUNDED = 1e-10
#: A negative eigenvalue, relative to the largest, that rounding of the entries in single precision explains.
_ROUNDED_SINGLE = 1e-6
#: A kernel matrix whose correlations are this near one is constant for practical purposes.
_CONSTANT = 1e-9
#: The alteration recorded of a matrix that is not a kernel matrix.
_INDEFINITE = "not positive semi-definite"


class KernelOperator(ABC):
    """A kernel matrix K as a map of vectors: the number of points, and the diagonal."""

    n: int
    diagonal: Array

    @abstractmethod
    def product(self, V: Array) -> Array:
        """Return K V, one column per vector."""

    @abstractmethod
    def block(self, rows: Any, columns: Any) -> Array:
        """Return a new array of the entries of some rows and some columns, by their numbers."""


class Coordinates(NamedTuple):
    r"""Orthonormal coordinates in which K is diagonal: :math:`K \approx U \operatorname{diag}(s) U^T`.

    Directions with :math:`s_k \le \text{cutoff} \cdot s_1` are left out; ``rank`` is the number kept.
    """

    basis: Array
    values: Array
    cutoff: float

    @property
    def rank(self) -> int:
        """The number of directions kept."""
        return int(self.values.size)

    @property
    def factor(self) -> Array:
        """R with K = R R': the finite-dimensional feature map of the training points, one row per point.

        It has at least one column: for K = 0, a column of zeros.

        :equation [Suykens2002]_ (8): the kernel as an inner product of features
        """
        root: Array = self.basis * np.sqrt(self.values)
        return root if self.rank else np.zeros((self.basis.shape[0], 1))

    @classmethod
    def of(cls, matrix: Array, cutoff: float, rounding: float = 0.0) -> Self:
        """Return the coordinates of a matrix; a negative eigenvalue beyond rounding is refused with its value.

        ``rounding`` is the size of the errors of a matrix that is what is left of larger numbers.
        """
        n = matrix.shape[0]
        with blas_threads(n):
            values, vectors = np.linalg.eigh(matrix)
        largest = float(max(values[-1], 0.0))
        entry = max(ROUNDED_ONCE * max(largest, -float(values[0])), rounding)
        # by Weyl's inequality an eigenvalue moves by n times the largest error of an entry at most; ten times to spare
        if values[0] < -10.0 * n * entry:
            raise DeclarationError(
                f"the kernel matrix is not positive semi-definite: its smallest eigenvalue is {values[0]:.6g} "
                f"(the largest is {largest:.6g}), so the problem is not convex; use a positive semi-definite "
                "kernel, or clip the eigenvalues yourself and pass the result"
            )
        keep = values > max(cutoff * max(float(values[-1]), 0.0), rounding)
        return cls(np.ascontiguousarray(vectors[:, keep][:, ::-1]), values[keep][::-1].copy(), cutoff)


def _warn_if_degenerate(matrix: Any, X: Any) -> None:
    """Warn if the matrix is the identity or constant, so that all pairs of points are equally similar."""
    diagonal = to_numpy(diagonal_of(matrix))
    if diagonal.size < 2 or not (diagonal > 0.0).all():
        return
    # the first row decides in almost every case; the whole matrix is read only when it looks suspicious
    root = np.sqrt(diagonal)
    row = to_numpy(matrix[0, :])[1:] / (root[0] * root[1:])
    if float(row.max()) < ROUNDED_ONCE and _extreme_correlations(matrix, root)[1] < ROUNDED_ONCE:
        problem = "the identity: sigma is far smaller than every distance"
    elif float(row.min()) > 1.0 - _CONSTANT and _extreme_correlations(matrix, root)[0] > 1.0 - _CONSTANT:
        points = X.toarray() if is_sparse(X) else X
        if bool(namespace_of(points).all(points == points[:1, :])):
            return
        problem = "constant: sigma is far larger than every distance"
    else:
        return
    warnings.warn(
        f"the kernel matrix is {problem}, so no two points are told apart by degree; try sigma='median'",
        DegenerateKernelWarning,
        stacklevel=user_level(),
    )


def _extreme_correlations(matrix: Any, root: Array) -> tuple[float, float]:
    """Return the lowest and the highest correlation of two different points."""
    xp, n = namespace_of(matrix), matrix.shape[0]
    scale, numbers = on_device_of(matrix, 1.0 / root), on_device_of(matrix, np.arange(n))
    lowest, highest = np.inf, -np.inf
    for rows in blocks_beside(matrix, n, n):
        block = matrix[rows, :] * scale[rows][:, None] * scale
        is_other = numbers[rows][:, None] != numbers
        lowest = min(lowest, float(xp.min(xp.where(is_other, block, xp.full_like(block, np.inf)))))
        highest = max(highest, float(xp.max(xp.where(is_other, block, xp.full_like(block, -np.inf)))))
    return lowest, highest


def _symmetric(matrix: Any, name: str) -> tuple[Any, tuple[str, ...]]:
    """Return a given matrix without asymmetry from rounding, and the alteration; refuse larger asymmetry."""
    xp = namespace_of(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{name} must be square, received shape {tuple(matrix.shape)}")
    blocks = blocks_beside(matrix, *matrix.shape)
    asymmetry = max((float(xp.max(xp.abs(matrix[rows, :] - matrix[:, rows].T))) for rows in blocks), default=0.0)
    if asymmetry == 0.0:
        return matrix, ()
    if asymmetry > _ROUNDED * float(xp.max(xp.abs(matrix))):
        raise DataError(
            f"{name} is not symmetric: entries differ from their mirror by up to {asymmetry:.3g}; a kernel matrix is "
            "symmetric, and (K + K.T) / 2 makes it so if the difference is rounding"
        )
    return (matrix + matrix.T) / 2.0, (f"symmetrised ({asymmetry:.2e}): rounding of the given matrix",)


def has_room_for_matrix(kernel: Kernel, X: Any) -> bool:
    """Return whether a matrix and its factor fit the device of X, or no other way is left: a kernel without a formula
    cannot be computed anew.
    """
    n = int(X.shape[0])
    return kernel.pairwise or not kernel.trusted or has_room(X, 16.0 * n * n)


class Gram(KernelOperator):
    """A symmetric kernel matrix, its factor and its record.

    Build one with :meth:`of` (a kernel on points) or :meth:`from_matrix` (a matrix from elsewhere).
    """

    def __init__(self, matrix: Any, kernel: Kernel | None = None, alterations: tuple[str, ...] = ()) -> None:
        self.kernel = kernel
        self.alterations = alterations
        self.n = int(matrix.shape[0])
        self.diagonal = diagonal_of(matrix)
        #: K + negative I is positive semi-definite: zero by the kernel's formula, or what :meth:`check_definite` found.
        self.negative = 0.0
        #: A bound on the eigenvalues of the error of K where the kernel is what cancellation leaves, zero elsewhere.
        self.cancelled = 0.0
        self._store = matrix
        self._ridge: Array | None = None
        #: The lower Cholesky factor, or the factors of a symmetric indefinite matrix with their pivots.
        self._factor: Any = None
        self._pivots: Any = None
        #: The points of which the matrix was computed in strips; None for a matrix from elsewhere, or a part of one.
        self.points: Any = None
        self._coordinates: dict[float, Coordinates] = {}

    @classmethod
    def of(cls, kernel: Kernel, X: Any) -> "Gram":
        """Return the Gram matrix of a resolved kernel on points, refused before allocation when it cannot fit."""
        X = real_points(X)
        n = int(X.shape[0])
        what, advice = f"the {n} x {n} kernel matrix and its factor", "take a reduced set of rows."
        if not is_device_array(X):
            advice = "LSSVMRegressor and LSSVMClassifier fit it with solver='cg', which stores none of it; or " + advice
        room_on_device(X, 16.0 * n * n, what, advice)
        if kernel.pairwise:
            matrix, alterations = _symmetric(X.toarray() if is_sparse(X) else X, "the precomputed kernel matrix")
            return cls(symmetric_matrix(kernel, matrix), kernel, alterations)
        gram = cls(symmetric_matrix(kernel, X), kernel)
        gram.points = X
        if (envelope := kernel.envelope) is not kernel:
            # entries within p sqrt(k(x, x) k(z, z)) move an eigenvalue by p trace(K) at most
            gram.cancelled = kernel.value_rounding(X) * float(np.sum(to_numpy(envelope.diag(X))))
        if kernel.decays and n > 1:
            _warn_if_degenerate(gram._store, X)
        return gram

    @classmethod
    def from_matrix(cls, K: Any, name: str = "K") -> "Gram":
        """Return a copy of a given matrix, square and symmetric up to rounding."""
        matrix, alterations = _symmetric(real_array(K, name, ndim=2), name)
        return cls(matrix.copy(), None, alterations)

    @property
    def matrix(self) -> Array:
        """K itself, on the host as a view that cannot be written to."""
        view: Array = self._store if is_device_array(self._store) else self._store.view()
        if view is not self._store:
            view.flags.writeable = False
        return view

    def product(self, V: Array) -> Array:
        """Return K V."""
        with blas_threads(self.n):
            product: Array = self._store @ V
        return product

    def enclose(self, X: Any) -> Double:
        """Return the values with a radius, of a kernel from differences of the points; a given matrix is exact, and its
        diagonal is lifted by as much as the matrix may be indefinite.
        """
        if self.kernel is None or self.kernel.pairwise or not self.kernel.trusted:
            return Double(self.matrix + self.negative * np.eye(self.n))
        return self.kernel.enclose(X, X)

    def factorize(self, ridge: Array) -> None:
        """Factor K + diag(ridge); :meth:`solve` then uses it.

        Cholesky, or, where the matrix turns out not to be positive definite, the symmetric indefinite
        factorisation, recorded as such. The factor of the same diagonal is kept.
        """
        if self._factor is not None and bool(namespace_of(ridge).all(self._ridge == ridge)):
            return
        self.release()  # its memory is reused
        try:
            self._factor = self._cholesky(ridge)
        except SolverError:
            if is_device_array(self._store):
                raise
            self._factorize_indefinite(ridge)
        self._ridge = namespace_of(ridge).asarray(ridge, copy=True)

    def _cholesky(self, ridge: Array) -> Any:
        """Return the lower factor of K + diag(ridge)."""
        diagonal_set(self._store, self.diagonal + ridge)
        try:
            with blas_threads(self.n):
                # of the transpose, the same matrix by columns, as LAPACK has it: it is copied in half the time
                return cholesky(self._store.mT)
        finally:
            diagonal_set(self._store, self.diagonal)

    def solve(self, B: Array) -> Array:
        """Return (K + diag(ridge))^{-1} B with the factor of the last :meth:`factorize`."""
        factor = self._factor
        with blas_threads(self.n):
            if self._pivots is None:
                return solve_triangular(factor, solve_triangular(factor, B), transposed=True)  # type: ignore[no-any-return]
            from scipy.linalg.lapack import dsytrs

            X, _ = dsytrs(factor, self._pivots, B, lower=1)
        return np.asarray(X)

    def inverse_factor(self) -> Any:
        """Return a lower triangle W with (K + diag(ridge))^{-1} = W'W; None if indefinite."""
        with blas_threads(self.n):
            return invert_triangle(self._factor) if self._pivots is None else None

    def coordinates(self, cutoff: float | None = None) -> Coordinates:
        """Return well-conditioned coordinates of K, without directions below ``cutoff`` times the largest eigenvalue.

        The default cut-off, N eps, is the noise of the matrix itself. A negative eigenvalue beyond that noise is
        refused with its value: no convex problem can be declared on such a matrix.

        :equation [Suykens2002]_ (6)-(7): Mercer's expansion on the given points, refused where the kernel is not
            positive
        """
        relative = relative_rounding(self.n) if cutoff is None else cutoff
        if relative not in self._coordinates:
            self._coordinates[relative] = Coordinates.of(self.matrix, relative)
        return self._coordinates[relative]

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the entries of some rows and some columns."""
        if is_device_array(self._store):
            return own_copy(take_rows(take_rows(self._store, columns).T, rows))  # type: ignore[no-any-return]
        entries: Array = self._store[np.ix_(rows, columns)]
        return entries

    def restrict(self, rows: Any) -> "Gram":
        """Return the Gram matrix of some of the points."""
        restricted = Gram(self.block(rows, rows), self.kernel, self.alterations)
        restricted.negative, restricted.cancelled = self.negative, self.cancelled
        return restricted

    def release(self) -> None:
        """Forget the factor, and give its memory back."""
        self._factor = self._ridge = self._pivots = None

    def record(self) -> tuple[tuple[str, str], ...]:
        """Return facts for a certificate: kernel, size, ranks kept, alterations."""
        size = f"{self.n} x {self.n}"
        for kept in self._coordinates.values():
            size += f", rank {kept.rank} kept at cut-off {kept.cutoff:.1e}"
        facts = [("kernel", "a given matrix" if self.kernel is None else repr(self.kernel)), ("Gram matrix", size)]
        for alteration in self.alterations:
            facts.append(("alteration", alteration))
        if is_device_array(self._store):
            facts.append(("computed by", where_it_lives(self._store)))
        return tuple(facts)

    def _factorize_indefinite(self, ridge: Array) -> None:
        from scipy.linalg.lapack import dsytrf, dsytrf_lwork

        what, smallest = "symmetric indefinite factorisation", self._warn_if_indefinite()
        self.alterations += (f"{what} ({smallest:.2e}): K + diag(1/(gamma v)) has no Cholesky factor",)
        lwork, _ = dsytrf_lwork(self.n, lower=1)
        matrix = np.asfortranarray(self._store + np.diag(ridge))
        with blas_threads(self.n):
            factor, pivots, info = dsytrf(matrix, lower=1, lwork=int(lwork), overwrite_a=1)
        if info > 0:
            raise SolverError(
                "K + I/gamma is exactly singular; change gamma slightly or use a positive definite kernel"
            )
        self._factor, self._pivots = factor, pivots

    def check_definite(self) -> None:
        """Warn and record when a matrix of unknown origin has a negative eigenvalue beyond rounding.

        K + diag(d) may be positive definite although K is not, so its factorisation proves nothing; the factorisation
        of K itself, shifted by its own rounding error, does.
        """
        xp = namespace_of(self._store)
        trace = max(float(xp.sum(self.diagonal)), 0.0)
        # by how much of its trace a matrix may be indefinite whose factorisation succeeds [Rump2006]_
        rounding = relative_rounding(self.n + 2.0) * trace
        # what entries rounded in double precision explain, or else in single: a share of the largest eigenvalue
        for lift in (rounding, _ROUNDED_SINGLE * trace / self.n):
            try:
                self._cholesky(xp.full_like(self.diagonal, lift))
            except SolverError:
                continue
            self.negative = lift + rounding
            return
        smallest = self._warn_if_indefinite()
        self.negative = float("inf")
        self.alterations += (f"{_INDEFINITE} ({smallest:.2e}): smallest eigenvalue of K",)

    def _warn_if_indefinite(self) -> float:
        values = to_numpy(namespace_of(self._store).linalg.eigvalsh(self._store))
        smallest = float(values[0])
        recorded = any(alteration.startswith(_INDEFINITE) for alteration in self.alterations)  # or of a larger one
        explained = max(_ROUNDED_SINGLE * float(np.abs(values).max()), self.cancelled)
        if smallest < -explained and not recorded:
            warnings.warn(
                f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); the machine is "
                "fitted, but it is not the minimum of a penalized problem: no weight vector w has this kernel, and the "
                "solution of the linear system is a saddle point; use a positive semi-definite kernel",
                IndefiniteKernelWarning,
                stacklevel=user_level(),
            )
        return smallest
