r"""The Gram matrix on a device: K and a factor of :math:`K + \operatorname{diag}(d)` side by side.

A library on a device factors out of place, so two :math:`N \times N` arrays are stored where numpy's
:class:`~substrate.gram.Gram` needs one; the products for refinement and certificate come from K itself. A matrix that
is not positive definite is refused: there is no indefinite factorisation in the array API.
"""

import warnings
from typing import Any

from substrate.arrays import EPS
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning, SolverError
from substrate.gram import ROUNDED_SINGLE, Gram
from substrate.kernel_matrix import ROUNDED, Alteration, warn_if_degenerate
from substrate.kernels import Kernel
from substrate.kernels.on_device import device_matrix
from substrate.namespaces import (
    check_factor,
    cholesky,
    device_blocks,
    diagonal_set,
    inverse_blocks,
    is_device_array,
    is_long_and_thin,
    namespace_of,
    on_device_of,
    room_on_device,
    solve_by_blocks,
    solve_triangular,
    take_rows,
    to_numpy,
    where_it_lives,
)

__all__ = ["DeviceGram", "HostVectors", "gram_kind"]


def gram_kind(X: Any) -> type[Gram]:
    """The class of the Gram matrix for the library of X: ``gram_kind(X).of(kernel, X)``."""
    return DeviceGram if is_device_array(X) else Gram


class DeviceGram(Gram):
    """A symmetric kernel matrix on a device, its factor and its record."""

    def __init__(self, matrix: Any, kernel: Kernel | None = None, alterations: tuple[Alteration, ...] = ()) -> None:
        self.kernel = kernel
        self.alterations = alterations
        xp = namespace_of(matrix)
        self.diagonal = xp.asarray(xp.linalg.diagonal(matrix), copy=True)
        self.jitter = 0.0
        self.negative = 0.0
        self._store = matrix
        self._factor: Any = None
        self._inverses: Any = None
        self._checked = False
        self._coordinates = {}

    @classmethod
    def of(cls, kernel: Kernel, X: Any, warn: bool = True) -> "DeviceGram":
        """The Gram matrix of a resolved kernel on points of a device; ``warn`` if it is the identity or constant."""
        n = int(X.shape[0])
        # K and its factor
        room_on_device(X, 16.0 * n * n, f"the {n} x {n} kernel matrix and its factor", "take a reduced set of rows.")
        if kernel.pairwise:
            _check_symmetric(X)
        gram = cls(device_matrix(kernel, X), kernel)
        if warn and kernel.decays and n > 1:
            warn_if_degenerate(gram._store, gram.diagonal, X, _extreme_correlations)
        return gram

    @property
    def matrix(self) -> Any:
        """K itself, not to be modified."""
        return self._store

    def product(self, V: Any) -> Any:
        """K V."""
        return self._store @ V

    def factorize(self, ridge: Any) -> None:
        """Factor K + diag(ridge); :meth:`solve` then uses it."""
        self._factor = self._inverses = None  # their memory is reused
        diagonal_set(self._store, self.diagonal + ridge)
        try:
            self._factor = cholesky(self._store, checked=False)
        finally:
            diagonal_set(self._store, self.diagonal)
        self._checked = False

    def solve(self, B: Any) -> Any:
        """(K + diag(ridge))^{-1} B with the present factor."""
        factor = self._present_factor()
        if is_long_and_thin(factor, B):
            if self._inverses is None:
                self._inverses = inverse_blocks(factor)
            solved = solve_by_blocks(factor, self._inverses, B)
        else:
            solved = solve_triangular(factor, solve_triangular(factor, B), transposed=True)
        self._checked_factor()  # now that the device has work to do
        return solved

    def inverse_factor(self) -> Any:
        """W with (K + diag(ridge))^{-1} = W'W, lower triangular."""
        factor = self._checked_factor()
        xp = namespace_of(factor)
        return solve_triangular(factor, xp.eye(self.n, dtype=xp.float64, device=factor.device))

    def check_definite(self) -> None:
        """Warn and record when a matrix of unknown origin has a negative eigenvalue beyond rounding."""
        xp = namespace_of(self._store)
        lift = ROUNDED_SINGLE * max(float(xp.mean(self.diagonal)), 0.0)
        try:
            self.factorize(xp.full_like(self.diagonal, lift))
            self._checked_factor()
            self.negative = lift + (self.n + 2.0) * EPS * max(float(xp.sum(self.diagonal)), 0.0)
        except SolverError:
            values = xp.linalg.eigvalsh(self._store)
            smallest, largest = float(values[0]), float(xp.max(xp.abs(values)))
            self.negative = float("inf")
            if smallest < -ROUNDED_SINGLE * largest:
                warnings.warn(
                    f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); the "
                    "machine is fitted where K + I/gamma is positive definite, but no w stands behind it; use a "
                    "positive semi-definite kernel",
                    IndefiniteKernelWarning,
                    stacklevel=5,
                )
            self.alterations += (Alteration("not positive semi-definite", smallest, "smallest eigenvalue of K"),)
        self.release()

    def block(self, rows: Any) -> "DeviceGram":
        """The Gram matrix of some of the points, by row numbers on the host."""
        some = take_rows(take_rows(self._store, rows).T, rows)
        part = DeviceGram(namespace_of(some).asarray(some, copy=True), self.kernel, self.alterations)
        part.negative = self.negative
        return part

    def release(self) -> None:
        """Free the factor."""
        self._factor = self._inverses = None

    def record(self) -> tuple[tuple[str, str], ...]:
        """Facts for a certificate, with the device of the matrix."""
        return (*super().record(), ("computed by", where_it_lives(self._store)))

    def _present_factor(self) -> Any:
        if self._factor is None:
            raise DeclarationError("factorize(ridge) must come before solve and inverse_diagonal")
        return self._factor

    def _checked_factor(self) -> Any:
        factor = self._present_factor()
        if not self._checked:
            try:
                check_factor(factor)
            except SolverError:
                self.release()
                raise
            self._checked = True
        return factor


class HostVectors:
    """A Gram matrix on a device for vectors on the host: an operation on a short vector takes the device as long as its
    way there."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram
        self.n = gram.n
        self.diagonal = to_numpy(gram.diagonal)
        self._ridge: Any = None

    def factorize(self, ridge: Any) -> None:
        """K + diag(ridge) is factored with the next solution: a vector that is sent later would wait for the factor."""
        self._ridge = ridge

    def solve(self, B: Any) -> Any:
        """(K + diag(ridge))^{-1} B with the present factor."""
        right = self._there(B)
        if self._ridge is not None:
            self._gram.factorize(self._there(self._ridge))
            self._ridge = None
        return to_numpy(self._gram.solve(right))

    def product(self, V: Any) -> Any:
        """K V."""
        return to_numpy(self._gram.product(self._there(V)))

    def _there(self, values: Any) -> Any:
        return on_device_of(self._gram.diagonal, values)


def _check_symmetric(K: Any) -> None:
    xp = namespace_of(K)
    if K.shape[0] != K.shape[1]:
        raise DataError(f"the precomputed kernel matrix must be square, received shape {tuple(K.shape)}")
    blocks = device_blocks(*K.shape)
    asymmetry = max(float(xp.max(xp.abs(K[rows, :] - K[:, rows].T))) for rows in blocks)
    if asymmetry > ROUNDED * float(xp.max(xp.abs(K))):
        raise DataError(
            f"the precomputed kernel matrix is not symmetric: entries differ from their mirror by up to "
            f"{asymmetry:.3g}; (K + K.T) / 2 makes it so if the difference is rounding"
        )


def _extreme_correlations(matrix: Any, root: Any) -> tuple[float, float]:
    xp, n = namespace_of(matrix), matrix.shape[0]
    numbers, scale = xp.arange(n, device=root.device), 1.0 / root
    lowest, highest = float("inf"), float("-inf")
    for rows in device_blocks(n, n):
        block = matrix[rows, :] * scale[rows][:, None] * scale
        others = numbers[rows][:, None] != numbers
        lowest = min(lowest, float(xp.min(xp.where(others, block, xp.full_like(block, float("inf"))))))
        highest = max(highest, float(xp.max(xp.where(others, block, xp.full_like(block, float("-inf"))))))
    return lowest, highest
