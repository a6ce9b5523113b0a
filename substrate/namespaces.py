r"""The library and the device of an array: numpy, or an array namespace on a device.

A function that documents it takes its namespace from its input: numpy arrays are handled in place by LAPACK and BLAS,
torch tensors and CuPy arrays stay on their device and are returned as such; other libraries' arrays are converted to
numpy. The common interface is the array API standard, through ``array_api_compat``, which is imported with the first
array that is not numpy's. This file has a verb for what the standard lacks (triangular solves, free memory of a device)
and for what numpy does in less time or memory than the standard's functions; no other file asks which library it is
dealing with in order to compute something.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from substrate.arrays import check_memory, is_sparse
from substrate.errors import DataError, SolverError

__all__ = [
    "HOST",
    "blocks_beside",
    "check_finite",
    "cholesky",
    "device_blocks",
    "device_numbers",
    "device_points",
    "device_vector",
    "diagonal_of",
    "diagonal_set",
    "has_room",
    "invert_triangle",
    "is_device_array",
    "namespace_of",
    "on_device_of",
    "own_copy",
    "paired_sums",
    "partition",
    "room_on_device",
    "row_blocks",
    "same_home",
    "solve_triangular",
    "strips",
    "take_columns",
    "take_rows",
    "to_numpy",
    "where_it_lives",
    "zeros_beside",
]

#: What :func:`where_it_lives` says of numpy's arrays.
HOST = "numpy"
#: The libraries whose arrays keep their namespace.
_LIBRARIES = ("torch", "cupy", "array_api_strict")
#: Entries of a block of rows on a device: 1 GiB, so that the cost of launches is negligible.
_BLOCK_ENTRIES = 1 << 27
#: Entries of a block in numpy: few enough to stay in a core's cache between the product and the exponential.
_CACHED_ENTRIES = 1 << 18

_NOT_DEFINITE = (
    "K + I/gamma is not positive definite to working precision, and a device has no factorisation for that; lower "
    "gamma, use a positive definite kernel in double precision, or fit numpy arrays (X.cpu().numpy(), X.get())"
)


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def is_device_array(array: Any) -> bool:
    """Return whether an array keeps its own namespace: torch, CuPy, or the standard's strict implementation."""
    return _library(array) in _LIBRARIES


def namespace_of(array: Any) -> Any:
    """Return numpy itself, or the array API namespace of a device array."""
    if not is_device_array(array):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def where_it_lives(array: Any) -> str:
    """Return library and device in words."""
    return f"{_library(array)} on {array.device}" if is_device_array(array) else HOST


def to_numpy(array: Any) -> Any:
    """Return the same values as a numpy array; numpy arrays and plain values as they are."""
    library = _library(array)
    if library == "torch":
        return array.detach().cpu().numpy()
    if library == "cupy":
        return array.get()
    return np.asarray(array) if library in _LIBRARIES else array


def on_device_of(array: Any, values: Any) -> Any:
    """Return values beside ``array``: in its library, on its device, of their own dtype."""
    if not is_device_array(array):
        return values if is_sparse(values) else np.asarray(values)
    values = values if is_device_array(values) else np.asarray(values)
    return namespace_of(array).asarray(values, device=array.device)


def zeros_beside(array: Any, shape: Any) -> Any:
    """Return zeros of double precision in the library and on the device of ``array``."""
    xp = namespace_of(array)
    return np.zeros(shape) if xp is np else xp.zeros(shape, dtype=xp.float64, device=array.device)


def own_copy(array: Any) -> Any:
    """Return a contiguous copy; a numpy array that is contiguous already is returned itself."""
    xp = namespace_of(array)
    return np.ascontiguousarray(array) if xp is np else xp.asarray(array, copy=True)


def take_rows(array: Any, rows: Any) -> Any:
    """Return some rows of an array by their numbers, which may be on the host."""
    xp = namespace_of(array)
    if xp is np:
        return array[rows]
    numbers = rows if is_device_array(rows) else on_device_of(array, np.asarray(rows, dtype=np.int64))
    return xp.take(array, numbers, axis=0)


def take_columns(array: Any, columns: Any) -> Any:
    """Return some columns of an array by their numbers, which may be on the host."""
    xp = namespace_of(array)
    numbers = np.asarray(columns, dtype=np.int64)
    return array[:, numbers] if xp is np else xp.take(array, on_device_of(array, numbers), axis=1)


def strips(n_rows: int, step: int) -> Iterator[slice]:
    """Yield slices of ``step`` rows."""
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows whose blocks fit the cache."""
    return strips(n_rows, int(np.clip(_CACHED_ENTRIES // max(n_columns, 1), 64, 256)))


def device_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows, large enough to keep a device busy and small beside its memory."""
    return strips(n_rows, max(_BLOCK_ENTRIES // max(n_columns, 1), 1))


def blocks_beside(array: Any, n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows for where ``array`` is: blocks that fit the cache, or on a device, large ones."""
    return (device_blocks if is_device_array(array) else row_blocks)(n_rows, n_columns)


def diagonal_of(matrix: Any) -> Any:
    """Return a copy of the diagonal of a square matrix, in numpy perhaps a sparse one."""
    xp = namespace_of(matrix)
    if xp is np:
        return np.array(matrix.diagonal(), dtype=np.float64)
    return xp.asarray(xp.linalg.diagonal(matrix), copy=True)


def diagonal_set(matrix: Any, values: Any) -> None:
    """Write the diagonal of a square matrix in place, whether it is stored by rows or by columns."""
    xp = namespace_of(matrix)
    if _library(matrix) == "array_api_strict":  # no index by two arrays; its matrices are stored by rows
        flat = xp.reshape(matrix, (-1,))
        flat[:: matrix.shape[0] + 1] = values
        return
    places = xp.arange(matrix.shape[0])
    matrix[places, places] = values


def paired_sums(left: Any, right: Any, axis: int) -> Any:
    """Return sums of the products of two matrices, entry by entry, along an axis; numpy's without a matrix of
    products.
    """
    xp = namespace_of(left)
    if xp is np:
        return np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", left, right)
    return xp.sum(left * right, axis=axis)


def partition(values: Any, k: int) -> Any:
    """Return every line in an order in which the smallest k entries come first, and the next one after them."""
    xp = namespace_of(values)
    return np.partition(values, k, axis=-1) if xp is np else xp.sort(values, axis=-1)


def cholesky(matrix: Any) -> Any:
    """Return the lower Cholesky factor; a matrix that is not positive definite is refused."""
    if _library(matrix) == "torch":
        factor, info = sys.modules["torch"].linalg.cholesky_ex(matrix)
        if int(info):
            raise SolverError(_NOT_DEFINITE)
        return factor
    try:
        factor = namespace_of(matrix).linalg.cholesky(matrix)
    except np.linalg.LinAlgError as error:
        raise SolverError(_NOT_DEFINITE) from error
    if not math.isfinite(float(factor[-1, -1])):  # CuPy raises nothing
        raise SolverError(_NOT_DEFINITE)
    return factor


def solve_triangular(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """Return L^{-1} B, or L^{-T} B, with the lower factor L."""
    library, turned = _library(factor), factor.mT if transposed and is_device_array(factor) else factor
    if library == "torch":
        return sys.modules["torch"].linalg.solve_triangular(turned, right, upper=transposed)
    if library == "array_api_strict":  # the standard has no function for triangles
        return namespace_of(factor).linalg.solve(turned, right)
    if library == "cupy":
        from cupyx.scipy.linalg import solve_triangular as solve

        return solve(factor, right, trans=int(transposed), lower=True)
    from scipy.linalg import solve_triangular as solve_on_host

    return solve_on_host(factor, right, trans=int(transposed), lower=True, check_finite=False)


def invert_triangle(L: Any) -> Any:
    """Return the inverse of a lower triangle."""
    if is_device_array(L):
        return namespace_of(L).linalg.inv(L)
    from scipy.linalg.lapack import dtrtri

    inverse, status = dtrtri(L, lower=1)
    if status != 0:
        raise np.linalg.LinAlgError("a triangle with a zero on its diagonal has no inverse")
    return np.asarray(inverse)


def room_on_device(array: Any, n_bytes: float, what: str, advice: str) -> None:
    """Refuse an allocation that cannot fit beside ``array``, before anything is allocated."""
    library, device = _library(array), getattr(array, "device", None)
    if library == "cupy":
        cupy = sys.modules["cupy"]
        available = cupy.cuda.Device(device).mem_info[0] + cupy.get_default_memory_pool().free_bytes()
    elif library == "torch" and str(device).startswith("cuda"):
        cuda = sys.modules["torch"].cuda
        # what torch holds for later use is free too
        available = cuda.mem_get_info(device)[0] + cuda.memory_reserved(device) - cuda.memory_allocated(device)
    else:
        check_memory(n_bytes, what, advice)
        return
    if n_bytes > available:
        raise DataError(
            f"{what} needs {n_bytes / 2**20:.0f} MiB and {available / 2**20:.0f} MiB are free on {device}; {advice}"
        )


def has_room(array: Any, n_bytes: float) -> bool:
    """Return whether an allocation can fit beside ``array``."""
    try:
        room_on_device(array, n_bytes, "", "")
    except DataError:
        return False
    return True


def same_home(**arrays: Any) -> None:
    """Refuse arrays of several libraries or devices; the first array sets the place, and ``None`` is skipped."""
    present = {name: array for name, array in arrays.items() if array is not None}
    first, *further = present
    home = where_it_lives(present[first])
    for name in further:
        place = where_it_lives(present[name])
        if place != home:
            raise DataError(
                f"{first} and {name} must live in one place: {first} is {home}, {name} is {place}; move one of them, "
                "for instance torch.as_tensor(y, device=X.device), or both to numpy"
            )


def device_points(X: Any, name: str = "X") -> Any:
    """Return points as the rows of a finite float64 matrix on its device."""
    points = device_numbers(X, name, (2,))
    check_finite(**{name: points})
    return points


def device_vector(y: Any, name: str, *, n: int, multiple: bool = False, checked: bool = True) -> Any:
    """Return one finite float64 number for each of n rows, or one row of numbers per row if ``multiple`` is true.

    With ``checked`` false the caller calls :func:`check_finite`, once for several arrays.
    """
    values = device_numbers(y, name, (1, 2) if multiple else (1,))
    if values.shape[0] != n:
        raise DataError(f"{name} must have one entry per row: expected {n}, received {values.shape[0]}")
    if checked:
        check_finite(**{name: values})
    return values


def device_numbers(values: Any, name: str, ndim: tuple[int, ...]) -> Any:
    """Return real numbers in double precision; they may be NaN or infinite, which only the device knows."""
    xp = namespace_of(values)
    if getattr(values, "requires_grad", False):
        raise DataError(f"{name} requires a gradient, and no fit or prediction carries one; pass {name}.detach()")
    if xp.isdtype(values.dtype, "complex floating"):
        raise DataError(f"{name} is complex; pass its real part, or real and imaginary parts as two columns")
    if values.ndim not in ndim:
        wanted = " or ".join(f"{n}-D" for n in ndim)
        raise DataError(f"{name} must be {wanted}, received {values.ndim}-D of shape {tuple(values.shape)}")
    if 0 in values.shape:
        raise DataError(f"{name} is empty: received shape {tuple(values.shape)}")
    return xp.astype(values, xp.float64, copy=False)


def check_finite(**arrays: Any) -> None:
    """Refuse NaN and infinity in arrays on one device, by their names, after one transfer for all of them."""
    xp = namespace_of(next(iter(arrays.values())))
    with np.errstate(invalid="ignore"):
        sums = [xp.sum(array * 0.0) for array in arrays.values()]  # 0 times NaN or infinity is NaN
    for name, total in zip(arrays, to_numpy(xp.stack(sums)), strict=True):
        if total != 0.0:
            raise DataError(f"{name} contains NaN or infinity; drop or impute those entries")
