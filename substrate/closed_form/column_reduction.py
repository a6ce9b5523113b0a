r"""Fewer columns, all rows: the least-squares solution of the LS-SVM's linear system on a part of its columns.

.. math:: \min_{b, \alpha_S} \; \Big\| A_S \begin{bmatrix} b \\ \alpha_S \end{bmatrix} - B \Big\|^2

[Carvalho2006]_ sections 3.3 to 3.5: S are the support vectors, :math:`A_S` the column of the bias and those of S, and
every row of A stays, so that every pattern counts in the fit. The column of the bias and the row
:math:`Y^T \alpha = 0` are never taken away.

The normal equations :math:`A_S^T A_S X = A_S^T B`, with columns of unit length and refined, cost a fraction of a
singular value decomposition and are used while their condition number allows; beyond that a rank-revealing QR
factorisation gives the shortest solution [Golub2013]_. Which of the two it was is on the record.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import EPS, roundoff
from substrate.closed_form.column_accuracy import ColumnFactor
from substrate.errors import SolverError
from substrate.threads import blas_threads

__all__ = ["ColumnSolution", "column_rows", "solve_columns", "with_bias"]

#: Reciprocal condition number of the normal equations below which they are not used.
_WELL_CONDITIONED = 1e-12
_MOST_REFINEMENTS = 3
#: A step this small beside the solution leaves, at these condition numbers, an error of rounding size.
_SETTLED = 1e-10


@dataclass(frozen=True, slots=True)
class ColumnSolution:
    """The bias, the coefficients of the kept columns, and how they were found.

    ``factor`` is that of the normal equations, where they were used; ``full`` says that no direction was left out.
    """

    bias: float
    coefficients: Array
    method: str
    rank: int
    factor: ColumnFactor | None = None

    @property
    def full(self) -> bool:
        """Whether the columns count as independent."""
        return self.rank == self.coefficients.size + 1


def with_bias(columns: Any) -> Any:
    """Which columns of A belong to the bias and to these patterns."""
    return np.append(0, np.asarray(columns, dtype=np.intp) + 1)


def solve_columns(A: Array, columns: Any, B: Array) -> ColumnSolution:
    """Least squares on the column of the bias and those of the given patterns.

    :place [Carvalho2006]_ sections 3.3 to 3.5, X = pinv(A) B: least squares on the kept columns
    """
    with blas_threads(A.shape[0]):
        C = A.T[with_bias(columns)].T  # Fortran order, as LAPACK wants it
        factor, solved = None, _normal_equations(C, B)
        if solved is not None:
            x, factor = solved
            method, rank = "normal equations", C.shape[1]
        else:
            x, rank = _rank_revealing(C, B)
            method = f"rank-revealing QR, rank {rank} of {C.shape[1]}"
    if not np.isfinite(x).all():
        raise SolverError(
            "the least-squares solution on the kept columns overflows; scale the kernel, or choose a smaller gamma"
        )
    return ColumnSolution(float(x[0]), np.ascontiguousarray(x[1:]), method, rank, factor)


def _lengths(squares: Array) -> Array:
    """Lengths of columns; a column of zeros keeps its own unit."""
    return np.asarray(np.sqrt(np.where(squares > 0.0, squares, 1.0)))


def _normal_equations(C: Array, B: Array) -> tuple[Array, ColumnFactor] | None:
    """C'C x = C'B by Cholesky with refinement, or nothing where C'C is too ill conditioned to be trusted."""
    from scipy.linalg.blas import dsyrk
    from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

    with np.errstate(over="ignore"):
        G = dsyrk(1.0, C, trans=1, lower=1)
    if not np.isfinite(G).all():
        return None
    length = _lengths(G.diagonal())
    G /= length
    G /= length[:, None]
    entries = np.abs(G)  # of the lower triangle; the upper one is zero
    size = float((entries.sum(axis=0) + entries.sum(axis=1) - entries.diagonal()).max())
    factor, info = dpotrf(G, lower=1, clean=0, overwrite_a=1)
    if info != 0 or dpocon(factor, size, uplo="L")[0] < _WELL_CONDITIONED:
        return None
    x = np.zeros(C.shape[1])
    for _ in range(1 + _MOST_REFINEMENTS):
        gradient = (C.T @ (B - C @ x)) / length
        step = np.asarray(dpotrs(factor, gradient, lower=1)[0]) / length
        x += step
        if np.linalg.norm(step) <= _SETTLED * np.linalg.norm(x):
            break
    return x, ColumnFactor.of_normal_equations(factor, length, C.shape[0])


def _rank_revealing(C: Array, B: Array) -> tuple[Array, int]:
    """The shortest solution by a complete orthogonal factorisation (LAPACK's gelsy)."""
    from scipy.linalg import lstsq

    length = np.linalg.norm(C, axis=0)
    length = np.where(length > 0.0, length, 1.0)
    x, _, rank, _ = lstsq(C / length, B, cond=max(C.shape) * EPS, lapack_driver="gelsy", check_finite=False)
    return np.asarray(x) / length, int(rank)


def column_rows(
    A: Array, columns: Any, B: Array, bias: float, coefficients: Array, *, tolerance: float | None = None
) -> tuple[Row, ...]:
    """The errors are orthogonal to the bias column and to every kept column: optimality of least squares."""
    C = A[:, with_bias(columns)]
    x = np.append(bias, coefficients)
    length = np.linalg.norm(C, axis=0)
    C, x = C / np.where(length > 0.0, length, 1.0), x * length
    e = B - C @ x
    norm = float(np.linalg.norm(C))
    # the errors are a difference of these terms, and each inner product sums them up once more
    scale = norm * float(np.linalg.norm(x)) + float(np.linalg.norm(B))
    limit = roundoff(A.shape[0]) if tolerance is None else tolerance
    inner = C.T @ e
    return (
        Row("errors orthogonal to the bias column", float(abs(inner[0])), scale, limit, "|a_0'e| / |a_0|"),
        Row("errors orthogonal to the columns", float(np.linalg.norm(inner[1:])), norm * scale, limit, "||A_S'e||"),
    )
