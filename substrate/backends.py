r"""What differs between array libraries, in one object for each of them: numpy, torch, CuPy, and the bare standard.

Arrays of numpy are handled in place by LAPACK; those of the other libraries stay on their device. The common interface
is the array API standard, through ``array_api_compat``, which is imported with the first array that is not numpy's.
A backend has a verb for what the standard lacks (triangular solves, the diagonal of a matrix, free memory of a device)
and for what one library does in less time or memory than by the standard's functions; no other file asks which library
it is dealing with in order to compute something. :func:`backend_of` gives the backend of an array, and
:mod:`substrate.namespaces` the verbs as functions of their arrays.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from substrate.arrays import check_memory, is_sparse
from substrate.errors import DataError, SolverError

__all__ = [
    "HOST",
    "Backend",
    "CupyBackend",
    "DeviceBackend",
    "TorchBackend",
    "backend_of",
    "row_blocks",
    "strips",
]

#: What :meth:`Backend.where` says of numpy's arrays.
HOST = "numpy"
#: Entries of a block of rows on a device: 1 GiB, so that the cost of launches is negligible.
_BLOCK_ENTRIES = 1 << 27
#: Entries of a block in numpy: few enough to stay in a core's cache between the product and the exponential.
_CACHED_ENTRIES = 1 << 18
#: Bytes of a vector that is sent to a device while it works.
_SHORT = 1 << 20

_NOT_DEFINITE = (
    "K + I/gamma is not positive definite to working precision, and a device has no factorisation for that; lower "
    "gamma, use a positive definite kernel in double precision, or fit numpy arrays (X.cpu().numpy(), X.get())"
)


def strips(n_rows: int, step: int) -> Iterator[slice]:
    """Yield slices of ``step`` rows."""
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of rows whose blocks fit the cache."""
    return strips(n_rows, int(np.clip(_CACHED_ENTRIES // max(n_columns, 1), 64, 256)))


class Backend:
    """numpy: arrays in the memory of the host, factored and multiplied in place by LAPACK and BLAS."""

    name = "numpy"
    on_device = False

    def namespace(self, array: Any) -> Any:
        """Return the namespace of the array's functions."""
        return np

    # where arrays are

    def where(self, array: Any) -> str:
        """Return library and device in words."""
        return HOST

    def to_host(self, array: Any) -> Any:
        """Return the same values as a numpy array; numpy arrays and plain values as they are."""
        return array

    def all_to_host(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the same values in numpy."""
        return tuple(arrays)

    def send(self, values: Any, home: Any) -> Any:
        """Return values beside ``home``: in its library, on its device, of their own dtype."""
        return values if is_sparse(values) else np.asarray(values)

    def check_room(self, home: Any, n_bytes: float, what: str, advice: str) -> None:
        """Refuse an allocation that cannot fit beside ``home``, before anything is allocated."""
        check_memory(n_bytes, what, advice)

    def blocks(self, n_rows: int, n_columns: int) -> Iterator[slice]:
        """Yield slices of rows whose blocks fit the cache."""
        return row_blocks(n_rows, n_columns)

    # creation and parts

    def zeros(self, shape: Any, home: Any) -> Any:
        """Return zeros of double precision beside ``home``."""
        return np.zeros(shape)

    def ones(self, shape: Any, home: Any) -> Any:
        """Return ones of double precision beside ``home``."""
        return np.ones(shape)

    def copy(self, array: Any) -> Any:
        """Return a contiguous copy; a numpy array that is contiguous already is returned itself."""
        return np.ascontiguousarray(array)

    def take_rows(self, array: Any, rows: Any) -> Any:
        """Return some rows by their numbers, which may be on the host."""
        return array[rows]

    def take_columns(self, array: Any, columns: Any) -> Any:
        """Return some columns by their numbers, which may be on the host."""
        return array[:, np.asarray(columns, dtype=np.intp)]

    def diagonal(self, matrix: Any) -> Any:
        """Return a copy of the diagonal of a square matrix, in numpy perhaps a sparse one."""
        return np.array(matrix.diagonal(), dtype=np.float64)

    def set_diagonal(self, matrix: Any, values: Any) -> None:
        """Write the diagonal of a square, contiguous matrix in place."""
        flat = self.namespace(matrix).reshape(matrix, (-1,))
        flat[:: matrix.shape[0] + 1] = values

    # sums and products

    def paired_sums(self, left: Any, right: Any, axis: int) -> Any:
        """Return sums of the products of two matrices, entry by entry, along an axis, without a matrix of products."""
        return np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", left, right)

    def sum_squares(self, array: Any) -> Any:
        """Return the sum of the squares of all entries, without an array of squares."""
        return np.vdot(array, array)

    def column_squares(self, factor: Any) -> Any:
        """Return the squared lengths of the columns of a lower triangle, which is made one on the diagonal blocks."""
        n = factor.shape[0]
        squares = np.zeros(n)
        for rows in row_blocks(n, n):
            block = factor[rows, : rows.stop]
            np.copyto(block[:, rows], np.tril(block[:, rows]))
            squares[: rows.stop] += np.einsum("ij,ij->j", block, block)
        return squares

    def multiply_triangle(self, L: Any, right: Any) -> Any:
        """Return L B with a lower triangle L, in half the time where there is a function for it."""
        from scipy.linalg.blas import dtrmm

        return np.asarray(dtrmm(1.0, np.asfortranarray(L), np.asfortranarray(right), lower=1))

    def multiply_rows(self, rows: Any, L: Any, *, transposed: bool = False) -> Any:
        """Return rows times a lower triangle L, stored by columns, or times L'; in the memory of the rows."""
        from scipy.linalg.blas import dtrmm

        return np.asarray(dtrmm(1.0, L, rows.T, lower=1, trans_a=int(not transposed), overwrite_b=1)).T

    def partition(self, values: Any, k: int) -> Any:
        """Return every line in an order in which the smallest k entries come first, and the next one after them."""
        return np.partition(values, k, axis=-1)

    # factors

    def cholesky(self, matrix: Any, *, checked: bool = True) -> Any:
        """Return the lower Cholesky factor; a matrix that is not positive definite is refused.

        With ``checked`` false the caller does so by :meth:`check_factor`: waiting for the factor would keep a device
        idle.
        """
        try:
            factor = self._cholesky(matrix)
        except np.linalg.LinAlgError as error:
            raise SolverError(_NOT_DEFINITE) from error
        if checked:
            self.check_factor(factor)
        return factor

    def _cholesky(self, matrix: Any) -> Any:
        return self.namespace(matrix).linalg.cholesky(matrix)

    def check_factor(self, factor: Any) -> None:
        """Refuse the factor of a matrix that is not positive definite: its last entry is not a number then."""
        if not math.isfinite(float(factor[-1, -1])):
            raise SolverError(_NOT_DEFINITE)

    def solve_triangular(self, factor: Any, right: Any, *, transposed: bool = False) -> Any:
        """Return L^{-1} B, or L^{-T} B, with the lower factor L."""
        from scipy.linalg import solve_triangular

        return solve_triangular(factor, right, trans=int(transposed), lower=True, check_finite=False)

    def invert_triangle(self, L: Any) -> Any:
        """Return the inverse of a lower triangle."""
        from scipy.linalg.lapack import dtrtri

        inverse, status = dtrtri(L, lower=1)
        if status != 0:
            raise np.linalg.LinAlgError("a triangle with a zero on its diagonal has no inverse")
        return np.asarray(inverse)

    def reduce_columns(self, columns: Any, vector: Any) -> tuple[Any, Any]:
        """Return R and Q'b of the columns Q R and a vector b."""
        triangle = np.asarray(np.linalg.qr(np.column_stack([columns, vector]), mode="r"))  # without Q
        return np.ascontiguousarray(triangle[:, :-1]), triangle[:, -1].copy()


class DeviceBackend(Backend):
    """Arrays on a device by the functions of the array API standard alone."""

    name = "array_api_strict"
    on_device = True

    def __init__(self) -> None:
        self._namespace: Any = None

    def namespace(self, array: Any) -> Any:
        """Return the array API namespace of the library."""
        if self._namespace is None:
            from array_api_compat import array_namespace

            self._namespace = array_namespace(array)
        return self._namespace

    def where(self, array: Any) -> str:
        """Return library and device in words."""
        return f"{self.name} on {array.device}"

    def to_host(self, array: Any) -> Any:
        """Return the same values as a numpy array."""
        return np.asarray(array)

    def all_to_host(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Return the same values in numpy; those of double precision come in one transfer, and so with one wait."""
        return _split(self.to_host(self._join(arrays)), [tuple(array.shape) for array in arrays])

    def _join(self, arrays: Sequence[Any]) -> Any:
        """Return the entries of all arrays in one."""
        xp = self.namespace(arrays[0])
        return xp.concat([xp.reshape(array, (-1,)) for array in arrays])

    def send(self, values: Any, home: Any) -> Any:
        """Return values beside ``home``: in its library, on its device, of their own dtype."""
        array = values if backend_of(values).on_device else np.asarray(values)
        return self._send(array, home)

    def _send(self, array: Any, home: Any) -> Any:
        return self.namespace(home).asarray(array, device=home.device)

    def blocks(self, n_rows: int, n_columns: int) -> Iterator[slice]:
        """Yield slices of rows, large enough to keep a device busy and small beside its memory."""
        return strips(n_rows, max(_BLOCK_ENTRIES // max(n_columns, 1), 1))

    def zeros(self, shape: Any, home: Any) -> Any:
        """Return zeros of double precision on the device of ``home``."""
        xp = self.namespace(home)
        return xp.zeros(shape, dtype=xp.float64, device=home.device)

    def ones(self, shape: Any, home: Any) -> Any:
        """Return ones of double precision on the device of ``home``."""
        xp = self.namespace(home)
        return xp.ones(shape, dtype=xp.float64, device=home.device)

    def copy(self, array: Any) -> Any:
        """Return a copy."""
        return self.namespace(array).asarray(array, copy=True)

    def take_rows(self, array: Any, rows: Any) -> Any:
        """Return some rows by their numbers, which may be on the host."""
        numbers = rows if backend_of(rows).on_device else self.send(np.asarray(rows, dtype=np.int64), array)
        return self.namespace(array).take(array, numbers, axis=0)

    def take_columns(self, array: Any, columns: Any) -> Any:
        """Return some columns by their numbers, which may be on the host."""
        return self.namespace(array).take(array, self.send(columns, array), axis=1)

    def diagonal(self, matrix: Any) -> Any:
        """Return the diagonal of a square matrix."""
        return self.namespace(matrix).linalg.diagonal(matrix)

    def paired_sums(self, left: Any, right: Any, axis: int) -> Any:
        """Return sums of the products of two matrices, entry by entry, along an axis."""
        return self.namespace(left).sum(left * right, axis=axis)

    def sum_squares(self, array: Any) -> Any:
        """Return the sum of the squares of all entries."""
        return self.namespace(array).sum(array * array)

    def column_squares(self, factor: Any) -> Any:
        """Return the squared lengths of the columns of a lower triangle, above which there are zeros."""
        return self.namespace(factor).sum(factor * factor, axis=0)

    def multiply_triangle(self, L: Any, right: Any) -> Any:
        """Return L B."""
        return L @ right

    def multiply_rows(self, rows: Any, L: Any, *, transposed: bool = False) -> Any:
        """Return rows times a lower triangle L, or times L'."""
        return rows @ (L.T if transposed else L)

    def partition(self, values: Any, k: int) -> Any:
        """Return every line in ascending order."""
        return self.namespace(values).sort(values, axis=-1)

    def solve_triangular(self, factor: Any, right: Any, *, transposed: bool = False) -> Any:
        """Return L^{-1} B, or L^{-T} B, with the lower factor L: the standard has no function for triangles."""
        return self.namespace(factor).linalg.solve(factor.mT if transposed else factor, right)

    def invert_triangle(self, L: Any) -> Any:
        """Return the inverse of a lower triangle."""
        return self.namespace(L).linalg.inv(L)

    def reduce_columns(self, columns: Any, vector: Any) -> tuple[Any, Any]:
        """Return R and Q'b of the columns Q R and a vector b."""
        Q, R = self.namespace(columns).linalg.qr(columns)
        return self.copy(R), Q.T @ vector

    def _refuse_bytes(self, n_bytes: float, available: float, what: str, advice: str, device: str) -> None:
        if n_bytes > available:
            raise DataError(
                f"{what} needs {n_bytes / 2**20:.0f} MiB and {available / 2**20:.0f} MiB are free on {device}; {advice}"
            )


class TorchBackend(DeviceBackend):
    """torch, on the CPU or on CUDA devices."""

    name = "torch"

    @property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    def to_host(self, array: Any) -> Any:
        """Return the same values as a numpy array."""
        return array.detach().cpu().numpy()

    def _send(self, array: Any, home: Any) -> Any:
        if isinstance(array, np.ndarray) and array.nbytes <= _SHORT and self._is_on_cuda(home):
            # by way of pinned memory, which torch keeps until it is read: else the host waits for all work queued
            copy = np.array(array, order="C")  # torch warns of views that cannot be written
            return self._torch.as_tensor(copy).pin_memory().to(home.device, non_blocking=True)
        return super()._send(array, home)

    def _is_on_cuda(self, array: Any) -> bool:
        return str(array.device).startswith("cuda")

    def check_room(self, home: Any, n_bytes: float, what: str, advice: str) -> None:
        """Refuse an allocation that cannot fit on the device of ``home``, before anything is allocated."""
        if not self._is_on_cuda(home):
            check_memory(n_bytes, what, advice)
            return
        cuda = self._torch.cuda
        available, _ = cuda.mem_get_info(home.device)
        if n_bytes > available:  # what torch holds for later use is free too; asking for that takes a millisecond
            available += cuda.memory_reserved(home.device) - cuda.memory_allocated(home.device)
        self._refuse_bytes(n_bytes, available, what, advice, str(home.device))

    def _cholesky(self, matrix: Any) -> Any:
        return self._marked(*self._torch.linalg.cholesky_ex(matrix))

    def _marked(self, factor: Any, info: Any) -> Any:
        """Return a factor whose last entry is not a number where there is none, without waiting for the device."""
        not_a_number = self._torch.full_like(factor[-1, -1], float("nan"))
        factor[-1, -1] = self._torch.where(info == 0, factor[-1, -1], not_a_number)
        return factor

    def solve_triangular(self, factor: Any, right: Any, *, transposed: bool = False) -> Any:
        """Return L^{-1} B, or L^{-T} B, with the lower factor L."""
        matrix = factor.mT if transposed else factor
        return self._torch.linalg.solve_triangular(matrix, right, upper=transposed)


def _split(flat: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[Any, ...]:
    """Return the entries of one array in the shapes of those it was joined from."""
    parts, start = [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(flat[start : start + size].reshape(shape))
        start += size
    return tuple(parts)


class CupyBackend(DeviceBackend):
    """CuPy, on CUDA devices."""

    name = "cupy"

    def to_host(self, array: Any) -> Any:
        """Return the same values as a numpy array."""
        return array.get()

    def check_room(self, home: Any, n_bytes: float, what: str, advice: str) -> None:
        """Refuse an allocation that cannot fit on the device of ``home``, before anything is allocated."""
        cupy = sys.modules["cupy"]
        available = cupy.cuda.Device(home.device).mem_info[0] + cupy.get_default_memory_pool().free_bytes()
        self._refuse_bytes(n_bytes, available, what, advice, str(home.device))

    def solve_triangular(self, factor: Any, right: Any, *, transposed: bool = False) -> Any:
        """Return L^{-1} B, or L^{-T} B, with the lower factor L."""
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(factor, right, trans=int(transposed), lower=True)


_NUMPY = Backend()
#: The libraries whose arrays keep their namespace; other libraries' arrays are converted to numpy.
_LIBRARIES: dict[str, Backend] = {kind.name: kind() for kind in (DeviceBackend, TorchBackend, CupyBackend)}
#: The backends of the types of arrays that were asked for: a fit asks some hundred times.
_BACKENDS: dict[type, Backend] = {}


def backend_of(array: Any) -> Backend:
    """Return the backend of an array: numpy's also for lists, numbers and arrays of libraries that are not known."""
    kind = type(array)
    if kind not in _BACKENDS:
        _BACKENDS[kind] = _LIBRARIES.get(kind.__module__.partition(".")[0], _NUMPY)
    return _BACKENDS[kind]
