r"""The Gram matrix on a device: K and a factor of :math:`K + \operatorname{diag}(d)` side by side.

A matrix that is not positive definite is refused: there is no indefinite factorisation in the array API.
"""

import warnings
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import cholesky_rounding
from substrate.errors import DataError, DeclarationError, IndefiniteKernelWarning, SolverError
from substrate.gram import ROUNDED_SINGLE, Gram
from substrate.kernel_matrix import ROUNDED, Alteration, warn_if_degenerate
from substrate.kernels import Kernel
from substrate.kernels.on_device import device_matrix
from substrate.namespaces import (
    all_to_numpy,
    check_factor,
    cholesky,
    device_blocks,
    device_points,
    diagonal_set,
    has_room,
    is_device_array,
    namespace_of,
    on_device_of,
    room_on_device,
    solve_triangular,
    take_rows,
    to_numpy,
    where_it_lives,
)
from substrate.operators import SystemMatrix

__all__ = ["DeviceGram", "HostVectors", "gram_kind", "has_room_for_matrix"]


def gram_kind(X: Any) -> type[Gram]:
    """Return the class of the Gram matrix for the library of X: ``gram_kind(X).of(kernel, X)``."""
    return DeviceGram if is_device_array(X) else Gram


def has_room_for_matrix(kernel: Kernel, X: Any) -> bool:
    """Return whether a matrix and its factor fit the device of X, or no other way is left: a kernel without a formula
    cannot be computed anew.
    """
    n = int(X.shape[0])
    return kernel.pairwise or not kernel.trusted or has_room(X, 16.0 * n * n)


class DeviceGram(Gram):
    """A symmetric kernel matrix on a device, its factor and its record."""

    def __init__(self, matrix: Any, kernel: Kernel | None = None, alterations: tuple[Alteration, ...] = ()) -> None:
        self.kernel = kernel
        self.alterations = alterations
        xp = namespace_of(matrix)
        self._diagonal = xp.asarray(xp.linalg.diagonal(matrix), copy=True)
        self.first_row = xp.asarray(matrix[0, :], copy=True)
        self.jitter = 0.0
        self.negative = 0.0
        self._store = matrix
        self._factor: Any = None
        self._checked = False
        self._coordinates = {}

    @classmethod
    def of(cls, kernel: Kernel, X: Any, warn: bool = True, checked: bool = False) -> "DeviceGram":
        """Return the Gram matrix of a resolved kernel on points of a device; ``warn`` if it is the identity or
        constant.

        ``checked`` states that the points are finite numbers of double precision: asking would wait for the device.
        """
        n = int(X.shape[0])
        points = X if checked else device_points(X)
        # K and its factor
        room_on_device(X, 16.0 * n * n, f"the {n} x {n} kernel matrix and its factor", "take a reduced set of rows.")
        if kernel.pairwise:
            _check_symmetric(points)
        gram = cls(device_matrix(kernel, points, checked=True), kernel)
        if warn and kernel.decays:
            diagonal, first = all_to_numpy(gram.diagonal, gram.first_row)
            warn_if_degenerate(gram._store, diagonal, points, _extreme_correlations, first=first)
        return gram

    @property
    def matrix(self) -> Any:
        """K itself, not to be modified."""
        return self._store

    def product(self, V: Any) -> Any:
        """Return K V."""
        return self._store @ V

    def factorize(self, ridge: Any) -> None:
        """Factor K + diag(ridge); :meth:`solve` then uses it."""
        self._factor = None  # its memory is reused
        diagonal_set(self._store, self.diagonal + ridge)
        try:
            # of the transpose, which is the same matrix: by columns, as LAPACK has it, it is copied in half the time
            self._factor = cholesky(self._store.mT, checked=False)
        finally:
            diagonal_set(self._store, self.diagonal)
        self._checked = False

    def solve(self, B: Any, checked: bool = True) -> Any:
        """Return (K + diag(ridge))^{-1} B with the present factor.

        With ``checked`` false the solution is not finite where there is no factor, and :meth:`check_factor` refuses.
        """
        factor = self._present_factor()
        solved = solve_triangular(factor, solve_triangular(factor, B), transposed=True)
        if checked:
            self.check_factor()  # now that the device has work to do
        return solved

    def inverse_factor(self) -> Any:
        """Return W with (K + diag(ridge))^{-1} = W'W, lower triangular."""
        factor = self.check_factor()
        xp = namespace_of(factor)
        return solve_triangular(factor, xp.eye(self.n, dtype=xp.float64, device=factor.device))

    def inverse(self) -> Any:
        """Return (K + diag(ridge))^{-1} with the present factor."""
        root = self.inverse_factor()
        return root.T @ root

    def check_definite(self) -> None:
        """Warn and record when a matrix of unknown origin has a negative eigenvalue beyond rounding."""
        xp = namespace_of(self._store)
        lift = ROUNDED_SINGLE * max(float(xp.mean(self.diagonal)), 0.0)
        try:
            self.factorize(xp.full_like(self.diagonal, lift))
            self.check_factor()
            self.negative = lift + cholesky_rounding(self.n) * max(float(xp.sum(self.diagonal)), 0.0)
        except SolverError:
            values = xp.linalg.eigvalsh(self._store)
            smallest, largest = float(values[0]), float(xp.max(xp.abs(values)))
            self.negative = float("inf")
            if smallest < -ROUNDED_SINGLE * largest:
                warnings.warn(
                    f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); the "
                    "machine is fitted where K + I/gamma is positive definite, but no weight vector w has this "
                    "kernel; use a positive semi-definite kernel",
                    IndefiniteKernelWarning,
                    stacklevel=5,
                )
            self.alterations += (Alteration("not positive semi-definite", smallest, "smallest eigenvalue of K"),)
        self.release()

    def block(self, rows: Any, columns: Any) -> Any:
        """Return the entries of some rows and some columns, by their numbers on the host."""
        entries = take_rows(take_rows(self._store, columns).T, rows)
        return namespace_of(entries).asarray(entries, copy=True)

    def restrict(self, rows: Any) -> "DeviceGram":
        """Return the Gram matrix of some of the points, by row numbers on the host."""
        restricted = DeviceGram(self.block(rows, rows), self.kernel, self.alterations)
        restricted.negative = self.negative
        return restricted

    def release(self) -> None:
        """Free the factor."""
        self._factor = None

    def record(self) -> tuple[tuple[str, str], ...]:
        """Return facts for a certificate, with the device of the matrix."""
        return (*super().record(), ("computed by", where_it_lives(self.diagonal)))

    def _present_factor(self) -> Any:
        if self._factor is None:
            raise DeclarationError("factorize(ridge) must come before solve and inverse_diagonal")
        return self._factor

    def check_factor(self) -> Any:
        """Return the present factor, refused where the matrix is not positive definite."""
        factor = self._present_factor()
        if not self._checked:
            try:
                check_factor(factor)
            except SolverError:
                self.release()
                raise
            self._checked = True
        return factor


class HostVectors(SystemMatrix):
    """A Gram matrix on a device for vectors on the host: an operation on a short vector takes the device as long as its
    way there.

    Every transfer waits for all work that was queued before it, so the diagonal and the first row come with the first
    solution, and the right-hand side leaves together with the ridge.
    """

    def __init__(self, gram: DeviceGram) -> None:
        self._gram = gram
        self._ridge: Any = None
        self._known: tuple[Array, Array] | None = None

    @property
    def n(self) -> int:
        """Number of points."""
        return self._gram.n

    @property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return self._entries()[0]

    def factorize(self, ridge: Any) -> None:
        """Factor K + diag(ridge) with the next solution: a vector that is sent later would wait for the factor."""
        self._ridge = ridge

    def solve(self, B: Any) -> Any:
        """Return (K + diag(ridge))^{-1} B with the present factor."""
        if self._ridge is None:
            right = self._there(B)
        else:
            right_sides = self._there(np.concatenate([B, self._ridge[:, None]], axis=1))
            right, self._ridge = right_sides[:, :-1], None
            self._gram.factorize(right_sides[:, -1])
        device = self._gram.solve(right, checked=False)
        if self._known is None:
            solved, *copies = all_to_numpy(device, self._gram.diagonal, self._gram.first_row)
            self._known = (copies[0], copies[1])
        else:
            solved = to_numpy(device)
        if not np.isfinite(solved[-1, 0]):  # the last pivot of a factor that does not exist is not a number
            self._gram.check_factor()
        return solved

    def product(self, V: Any) -> Any:
        """Return K V."""
        return to_numpy(self._gram.product(self._there(V)))

    def block(self, rows: Any, columns: Any) -> Any:
        """Return the entries of some rows and some columns."""
        return to_numpy(self._gram.block(rows, columns))

    def release(self) -> None:
        """Free the factor."""
        self._ridge = None
        self._gram.release()

    def warn_if_degenerate(self, X: Any) -> None:
        """Warn if the kernel matrix of the points X is the identity or constant."""
        diagonal, first = self._entries()
        warn_if_degenerate(self._gram.matrix, diagonal, X, _extreme_correlations, first=first)

    def _entries(self) -> tuple[Array, Array]:
        if self._known is None:
            diagonal, first = all_to_numpy(self._gram.diagonal, self._gram.first_row)
            self._known = (diagonal, first)
        return self._known

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


def _extreme_correlations(matrix: Any, root: Array) -> tuple[float, float]:
    xp, n = namespace_of(matrix), matrix.shape[0]
    scale = on_device_of(matrix, 1.0 / root)
    numbers = xp.arange(n, device=scale.device)
    lowest, highest = float("inf"), float("-inf")
    for rows in device_blocks(n, n):
        block = matrix[rows, :] * scale[rows][:, None] * scale
        is_other = numbers[rows][:, None] != numbers
        lowest = min(lowest, float(xp.min(xp.where(is_other, block, xp.full_like(block, float("inf"))))))
        highest = max(highest, float(xp.max(xp.where(is_other, block, xp.full_like(block, float("-inf"))))))
    return lowest, highest
