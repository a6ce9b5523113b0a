"""Checks of a kernel matrix before it is used: symmetry, more than one value, coordinates of full rank."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import eigenvalue_shift, lost_beside
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.kernels.base import mirror_square, row_blocks
from substrate.namespaces import namespace_of
from substrate.threads import blas_threads

__all__ = ["ROUNDED", "Alteration", "Coordinates", "mirror_lower", "refuse_negative", "symmetric", "warn_if_degenerate"]

#: Asymmetry of a given matrix, relative to its largest entry, that rounding in double precision explains.
ROUNDED = 1e-10
#: A kernel matrix whose correlations are this near one is constant for practical purposes.
_CONSTANT = 1e-9
#: From a matrix and the roots of its diagonal to the lowest and the highest correlation of two different points.
Extremes = Callable[[Array, Array], tuple[float, float]]


class Alteration(NamedTuple):
    """A change made to a matrix by the package: what, how much, and why."""

    what: str
    size: float
    why: str

    def __str__(self) -> str:
        return f"{self.what} ({self.size:.2e}): {self.why}"


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
        refuse_negative(values, rounding)
        keep = values > max(cutoff * max(float(values[-1]), 0.0), rounding)
        return cls(np.ascontiguousarray(vectors[:, keep][:, ::-1]), values[keep][::-1].copy(), cutoff)


def refuse_negative(values: Array, rounding: float = 0.0) -> None:
    """Refuse eigenvalues, in ascending order, of which one is negative beyond rounding."""
    largest = float(max(values[-1], 0.0))
    entry = max(lost_beside(max(largest, -float(values[0]))), rounding)
    if values[0] < -eigenvalue_shift(values.size, entry):
        raise DeclarationError(
            f"the kernel matrix is not positive semi-definite: its smallest eigenvalue is {values[0]:.6g} "
            f"(the largest is {largest:.6g}), so the problem is not convex; use a positive semi-definite "
            "kernel, or clip the eigenvalues yourself and pass the result"
        )


def _extreme_correlations(matrix: Array, root: Array) -> tuple[float, float]:
    """Return the lowest and the highest correlation of two different points."""
    correlations = (matrix / root / root[:, None])[~np.eye(matrix.shape[0], dtype=bool)]
    return float(correlations.min()), float(correlations.max())


def warn_if_degenerate(
    matrix: Any,
    diagonal: Array,
    X: Any,
    extremes: Extremes = _extreme_correlations,
    *,
    first: Array | None = None,
) -> None:
    """Warn where no two points are told apart by degree: the matrix is the identity, or constant.

    Of a matrix on a device the diagonal and the ``first`` row are numpy's.
    """
    # The first row decides in almost every case; the whole matrix is read only when it looks suspicious.
    root = np.sqrt(diagonal)
    if matrix.shape[0] < 2 or not (root > 0.0).all():
        return
    row = (matrix[0] if first is None else first)[1:] / (root[0] * root[1:])
    beside_one = lost_beside(1.0)
    if float(row.max()) < beside_one and extremes(matrix, root)[1] < beside_one:
        problem = "the identity: sigma is far smaller than every distance"
    elif float(row.min()) > 1.0 - _CONSTANT and extremes(matrix, root)[0] > 1.0 - _CONSTANT and not _all_rows_equal(X):
        problem = "constant: sigma is far larger than every distance"
    else:
        return
    warnings.warn(
        f"the kernel matrix is {problem}, so no two points are told apart by degree; try sigma='median'",
        DegenerateKernelWarning,
        stacklevel=5,
    )


def _all_rows_equal(X: Any) -> bool:
    points = X.toarray() if is_sparse(X) else X
    return bool(namespace_of(points).all(points == points[:1, :]))


def mirror_lower(K: Array) -> None:
    """Copy the lower triangle of K onto its upper one, block by block."""
    n = K.shape[0]
    for rows in row_blocks(n, n):
        K[rows, rows.stop :] = K[rows.stop :, rows].T
        mirror_square(K[rows, rows], upper=False)


def symmetric(matrix: Array, name: str) -> tuple[Array, tuple[Alteration, ...]]:
    """Return a given matrix without the asymmetry that rounding explains, and what was altered; more is refused."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise DataError(f"{name} must be square, received shape {matrix.shape}")
    asymmetry = max((float(np.abs(matrix[r] - matrix[:, r].T).max()) for r in row_blocks(*matrix.shape)), default=0.0)
    if asymmetry == 0.0:
        return matrix, ()
    if asymmetry > ROUNDED * float(np.abs(matrix).max()):
        raise DataError(
            f"{name} is not symmetric: entries differ from their mirror by up to {asymmetry:.3g}; a kernel matrix is "
            "symmetric, and (K + K.T) / 2 makes it so if the difference is rounding"
        )
    return (matrix + matrix.T) / 2.0, (Alteration("symmetrised", asymmetry, "rounding of the given matrix"),)
