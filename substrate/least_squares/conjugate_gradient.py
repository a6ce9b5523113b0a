r"""The LS-SVM saddle system by conjugate gradients, for N whose factor does not fit memory.

The bordered matrix is indefinite; eliminating the bias leaves two systems with the positive definite matrix
:math:`A = K + D` ([Suykens2002]_, end of section 2):

.. math:: A \eta = 1, \qquad A \nu = y, \qquad b = \frac{1^T\nu}{1^T\eta}, \qquad \alpha = \nu - \eta\, b .

With a :mod:`~substrate.least_squares.border` Z in the place of 1 there is one more system for each of its columns.
Products with K are computed block by block and each block is used twice, for its own rows and, transposed, for its
columns, so half of K is evaluated and none of it stored. The preconditioner is :math:`L L^T + D` with a partial
pivoted Cholesky factor L, applied by the Woodbury identity.

That factor, :math:`K \approx L L^T` with few columns, is obtained without forming K.

At each step the point with the largest remaining diagonal is the next pivot, so after r steps the trace of
:math:`K - L L^T`, which bounds its norm, is as small as a greedy choice makes it [Harbrecht2012]_.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array, check_memory
from substrate.errors import DeclarationError, SolverError
from substrate.kernels import Kernel
from substrate.kernels.base import row_blocks
from substrate.least_squares.border import ONES, Border
from substrate.progress import LateProgress

__all__ = ["kernel_product", "pivoted_cholesky", "preconditioner_rank", "solve_by_conjugate_gradients"]


def pivoted_cholesky(kernel: Kernel, X: Any, rank: int, tolerance: float = 1e-12) -> Array:
    """L of at most ``rank`` columns; fewer when the remainder is below ``tolerance`` times the largest diagonal."""
    remaining = kernel.diag(X)
    n, largest = remaining.size, float(remaining.max(initial=0.0))
    L = np.empty((n, min(rank, n)), order="F")
    column = np.empty((n, 1))
    for k in range(L.shape[1]):
        pivot = int(remaining.argmax())
        if remaining[pivot] <= tolerance * largest:
            return L[:, :k]
        kernel.fill(X, X[pivot : pivot + 1], column)
        L[:, k] = (column[:, 0] - L[:, :k] @ L[pivot, :k]) / np.sqrt(remaining[pivot])
        remaining -= L[:, k] ** 2
        np.maximum(remaining, 0.0, out=remaining)
        remaining[pivot] = 0.0  # exactly, so that rounding cannot choose it twice
    return L


#: Residual of the machine, in tolerances of its target: the bias combines the errors of two systems. A certificate
#: allows ten, of which half is for the rounding of its own product.
_JOINED = 5.0


@dataclass(frozen=True, slots=True)
class IterativeSolution:
    """Support values and bias of every output, K alpha, and a record of the iteration.

    ``reason`` states why the iteration ended above the tolerance, and is empty where it did not. ``slopes`` and
    ``schur`` are those of :class:`~substrate.least_squares.saddle_system.SaddleSolution`.
    """

    support_values: Array
    bias: Array
    products: Array
    iterations: int
    rank: int
    reason: str = ""
    slopes: Array | None = None
    schur: Array | None = None

    @property
    def converged(self) -> bool:
        """Whether every system is solved to its tolerance."""
        return not self.reason


def kernel_product(kernel: Kernel, X: Any, V: Array, progress: LateProgress | None = None) -> Array:
    """K V without K: upper blocks only, each used for its rows and, transposed, for its columns."""
    n = X.shape[0]
    out = np.zeros(V.shape)
    for rows in row_blocks(n, n):
        block = np.empty((rows.stop - rows.start, n - rows.start))
        kernel.fill(X[rows], X[rows.start :], block)
        out[rows] += block @ V[rows.start :]
        beyond = block[:, rows.stop - rows.start :]
        out[rows.stop :] += beyond.T @ V[rows]
        if progress is not None:
            progress.rows(rows.stop, n)
    return out


def preconditioner_rank(n: int) -> int:
    """Columns of the preconditioner: six square roots of N, at least 50: cheap relative to one product with K."""
    return min(n, max(50, 6 * int(np.sqrt(n))))


class _Preconditioner:
    """(L L' + D)^{-1} = D^{-1} - D^{-1} L (I + L' D^{-1} L)^{-1} L' D^{-1}."""

    def __init__(self, L: Array, ridge: Array) -> None:
        from scipy.linalg import cho_factor

        self._ridge = ridge[:, None]
        self._scaled = L / self._ridge
        core = L.T @ self._scaled
        core[np.diag_indices(core.shape[0])] += 1.0
        try:
            self._core = cho_factor(core, lower=True, overwrite_a=True)
        except (np.linalg.LinAlgError, ValueError) as error:  # rounding has absorbed the unit diagonal, or overflow
            raise SolverError(
                f"conjugate gradients have no preconditioner for 1/(gamma v) between {ridge.min():.1e} and "
                f"{ridge.max():.1e}; use solver='auto', lower gamma, or bring the weights closer together"
            ) from error

    def __call__(self, R: Array) -> Array:
        from scipy.linalg import cho_solve

        if not np.isfinite(R).all():
            raise SolverError(
                "conjugate gradients broke down: their numbers left the range of floating point; use solver='auto', "
                "lower gamma, or bring the weights closer together"
            )
        return np.asarray(R / self._ridge - self._scaled @ cho_solve(self._core, self._scaled.T @ R))


def solve_by_conjugate_gradients(
    kernel: Kernel,
    X: Any,
    Y: Array,
    ridge: Array,
    *,
    tolerance: float = 1e-8,
    max_iter: int = 1000,
    border: Border = ONES,
) -> IterativeSolution:
    """Solve for all columns of Y together; they and the border, a column of ones, share every product with K.

    Each system is stopped when its residual is below ``tolerance`` times its right-hand side; those of the border,
    whose residuals its coefficients multiply, continue until the residual of every machine is small relative to its
    target too.

    :place [Suykens2002]_ end of section 2: conjugate gradients on the positive definite systems
    """
    if kernel.pairwise:
        raise DeclarationError(
            "conjugate gradients evaluate the kernel block by block, but a precomputed matrix is in memory already; "
            "use solver='auto'"
        )
    n, rank = Y.shape[0], preconditioner_rank(Y.shape[0])
    check_memory(
        16.0 * n * rank,
        f"the preconditioner of {rank} columns for {n} rows",
        "Take a reduced set of rows, or fit SparseLSSVMRegressor or SparseLSSVMClassifier, which keep a few.",
    )
    shift = np.clip(Y.mean(axis=0), Y.min(axis=0), Y.max(axis=0))
    shift = shift if border.constant else np.zeros_like(shift)
    right = np.column_stack([Y - shift, border.matrix(Y)])
    progress = LateProgress()
    try:
        progress.piece(f"preconditioner of {rank} columns")
        L = pivoted_cholesky(kernel, X, rank)
        known = (right, ridge, _Preconditioner(L, ridge), tolerance, max_iter, progress, border)
        solved, iterations, reason = _iterate(kernel, X, *known)
    finally:
        progress.close()
    alpha, c, schur = np.zeros_like(Y), np.zeros((border.count, Y.shape[1])), None
    try:
        eliminated = border.eliminate(solved[:, Y.shape[1] :])
        schur = eliminated.schur
        alpha, c = eliminated(solved[:, : Y.shape[1]], c, again=False)
    except SolverError:
        if not reason:
            raise
        # an iteration that ended before its first step has not reached the border: the point is where it began
    bias, slopes = border.split(c)
    products = kernel_product(kernel, X, alpha)
    made = (alpha, bias + shift, products, iterations, L.shape[1], reason)
    return IterativeSolution(*made, slopes, schur)


@np.errstate(all="ignore")  # overflow or 0 / 0 never counts as converged
def _iterate(
    kernel: Kernel,
    X: Any,
    B: Array,
    ridge: Array,
    precondition: _Preconditioner,
    tolerance: float,
    max_iter: int,
    progress: LateProgress,
    border: Border,
) -> tuple[Array, int, str]:
    """Preconditioned conjugate gradients on every column of B at once, each with its own step lengths.

    The last columns are those of the border. Returns the point, the number of iterations, and why it is not as accurate
    as required, if it is not.
    """
    Z, outputs = np.zeros_like(B), B.shape[1] - border.count
    R = B.copy()
    goal = tolerance * np.linalg.norm(B, axis=0)
    P = precondition(R)
    energy = np.einsum("ij,ij->j", R, P)
    for iteration in range(max_iter + 1):
        active = ~(np.linalg.norm(R, axis=0) <= goal)  # so that NaN counts as not converged
        if not active.any():
            # the recursion drifts from the true residual when A is ill conditioned: the latter decides
            R = B - kernel_product(kernel, X, Z, progress) - ridge[:, None] * Z
            active = ~(np.linalg.norm(R, axis=0) <= goal)
            if not active.any():
                _, c = border.eliminate(Z[:, outputs:])(Z[:, :outputs], np.zeros((border.count, outputs)), again=False)
                joined = np.linalg.norm(R[:, :outputs] - R[:, outputs:] @ c, axis=0)
                if (joined <= _JOINED * goal[:outputs]).all():
                    return Z, iteration, ""
                goal[outputs:] *= 0.1
                active[outputs:] = True
            P = precondition(R)
            energy = np.einsum("ij,ij->j", R, P)
        if iteration == max_iter:
            break
        progress.piece(f"conjugate gradients, iteration {iteration + 1} of at most {max_iter}")
        AP = kernel_product(kernel, X, P[:, active], progress) + ridge[:, None] * P[:, active]
        curvature = np.einsum("ij,ij->j", P[:, active], AP)
        if (curvature < 0.0).any():
            if not kernel.trusted and (curvature < -_rounding_of_curvature(kernel, X, P[:, active], ridge)).any():
                raise DeclarationError(
                    "the kernel is not positive semi-definite: a direction of negative curvature was met, and "
                    "conjugate gradients do not apply; use solver='auto', which reports how negative it is"
                )
            return Z, iteration, "rounding has made the system indefinite"
        step = energy[active] / curvature
        Z[:, active] += step * P[:, active]
        R[:, active] -= step * AP
        M = precondition(R[:, active])
        renewed = np.einsum("ij,ij->j", R[:, active], M)
        P[:, active] = M + (renewed / energy[active]) * P[:, active]
        energy[active] = renewed
    return Z, max_iter, "no more were allowed"


def _rounding_of_curvature(kernel: Kernel, X: Any, P: Array, ridge: Array) -> Array:
    r"""Bound what rounding changes in :math:`p^T (K + D) p`, for every column p.

    A product of n terms is known to :math:`n \epsilon` times the sum of their sizes; with
    :math:`|k(x_i, x_j)| \le s_i s_j`, :math:`s_i^2 = k(x_i, x_i)`, as it is for a semi-definite matrix,

    .. math:: |p|^T (|K| + D) |p| \le (s^T |p|)^2 + p^T D p .
    """
    s = np.sqrt(np.maximum(kernel.diag(X), 0.0))
    size = np.square(s @ np.abs(P)) + np.einsum("ij,i,ij->j", P, ridge, P)
    return np.asarray(4.0 * P.shape[0] * EPS * size)
