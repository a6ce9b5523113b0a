r"""The library and the device of an array: numpy, or an array namespace on a device.

A function that documents it takes its namespace from its input: numpy arrays are handled in place by LAPACK, torch
tensors and CuPy arrays stay on their device and are returned as such. The common interface is the array API standard,
through ``array_api_compat``, which is imported with the first array that is not numpy's. What the standard lacks
(triangular solves, the diagonal of a matrix, free memory of a device) is implemented here only. Other libraries' arrays
are converted to numpy.
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
    "all_to_numpy",
    "check_factor",
    "check_finite",
    "cholesky",
    "device_blocks",
    "device_numbers",
    "device_points",
    "device_vector",
    "diagonal_set",
    "invert_triangle",
    "is_device_array",
    "multiply_rows",
    "multiply_triangle",
    "namespace_of",
    "on_device_of",
    "own_copy",
    "paired_sums",
    "room_on_device",
    "same_home",
    "solve_triangular",
    "sum_squares",
    "take_rows",
    "to_numpy",
    "where_it_lives",
    "zeros_beside",
]

#: What :func:`where_it_lives` says of numpy's arrays.
HOST = "numpy"
#: The libraries whose arrays keep their namespace.
_KNOWN = ("torch", "cupy", "array_api_strict")
#: Entries of a block of rows on a device: 1 GiB, so that the cost of launches is negligible.
_BLOCK_ENTRIES = 1 << 27
#: Bytes of a vector that is sent to a device while it works.
_SHORT = 1 << 20


#: Library and namespace of the types of arrays that were asked for: a fit asks some hundred times.
_LIBRARIES: dict[type, str] = {}
_NAMESPACES: dict[type, Any] = {}


def _library(array: Any) -> str:
    kind = type(array)
    if kind not in _LIBRARIES:
        name = kind.__module__.partition(".")[0]
        _LIBRARIES[kind] = name if name in _KNOWN else "numpy"
    return _LIBRARIES[kind]


def is_device_array(array: Any) -> bool:
    """Whether an array keeps its own namespace: torch, CuPy, or the standard's strict implementation."""
    return _library(array) != "numpy"


def namespace_of(array: Any) -> Any:
    """numpy itself, or the array API namespace of a device array."""
    if not is_device_array(array):
        return np
    if type(array) not in _NAMESPACES:
        from array_api_compat import array_namespace

        _NAMESPACES[type(array)] = array_namespace(array)
    return _NAMESPACES[type(array)]


def where_it_lives(array: Any) -> str:
    """Library and device in words."""
    return f"{_library(array)} on {array.device}" if is_device_array(array) else HOST


def same_home(**arrays: Any) -> None:
    """Refuse arrays of several libraries or devices; the first array sets the place, and ``None`` is skipped."""
    given = {name: array for name, array in arrays.items() if array is not None}
    first, *others = given
    home = where_it_lives(given[first])
    for name in others:
        there = where_it_lives(given[name])
        if there != home:
            raise DataError(
                f"{first} and {name} must live in one place: {first} is {home}, {name} is {there}; move one of them, "
                "for instance torch.as_tensor(y, device=X.device), or both to numpy"
            )


def to_numpy(array: Any) -> Any:
    """The same values as a numpy array; numpy arrays and plain values as they are."""
    library = _library(array)
    if library == "torch":
        return array.detach().cpu().numpy()
    if library == "cupy":
        return array.get()
    return np.asarray(array) if library == "array_api_strict" else array


def all_to_numpy(*arrays: Any) -> tuple[Any, ...]:
    """The same values in numpy; those of double precision on a device come in one transfer, and so with one wait."""
    if not is_device_array(arrays[0]):
        return arrays
    xp = namespace_of(arrays[0])
    flat = to_numpy(xp.concat([xp.reshape(array, (-1,)) for array in arrays]))
    found, start = [], 0
    for shape in (tuple(array.shape) for array in arrays):
        size = math.prod(shape)
        found.append(flat[start : start + size].reshape(shape))
        start += size
    return tuple(found)


def on_device_of(array: Any, values: Any) -> Any:
    """Values beside ``array``: in its library, on its device, of their own dtype."""
    if not is_device_array(array):
        return values if is_sparse(values) else np.asarray(values)
    given = values if is_device_array(values) else np.asarray(values)
    if isinstance(given, np.ndarray) and given.nbytes <= _SHORT and where_it_lives(array).startswith("torch on cuda"):
        # by way of pinned memory, which torch keeps until it is read: else the host waits for all work that is queued
        own = np.array(given, order="C")  # torch warns of views that cannot be written
        return sys.modules["torch"].as_tensor(own).pin_memory().to(array.device, non_blocking=True)
    return namespace_of(array).asarray(given, device=array.device)


def zeros_beside(array: Any, shape: Any) -> Any:
    """Zeros of double precision in the library and on the device of ``array``."""
    xp = namespace_of(array)
    return xp.zeros(shape, dtype=xp.float64, device=array.device)


def paired_sums(left: Any, right: Any, axis: int) -> Any:
    """Sums of the products of two matrices, entry by entry, along an axis; numpy's without a matrix of products."""
    if is_device_array(left):
        return namespace_of(left).sum(left * right, axis=axis)
    return np.einsum("ij,ij->j" if axis == 0 else "ij,ij->i", left, right)


def device_points(X: Any, name: str = "X") -> Any:
    """Points as the rows of a finite float64 matrix on its device."""
    points = device_numbers(X, name, (2,))
    check_finite(**{name: points})
    return points


def device_vector(y: Any, name: str, *, n: int, multiple: bool = False, checked: bool = True) -> Any:
    """One finite float64 number for each of n rows, or one row of numbers per row if ``multiple`` is true.

    With ``checked`` false the caller calls :func:`check_finite`, once for several arrays.
    """
    values = device_numbers(y, name, (1, 2) if multiple else (1,))
    if values.shape[0] != n:
        raise DataError(f"{name} must have one entry per row: expected {n}, received {values.shape[0]}")
    if checked:
        check_finite(**{name: values})
    return values


def device_numbers(values: Any, name: str, ndim: tuple[int, ...]) -> Any:
    """Real numbers in double precision; they may be NaN or infinite, which only the device knows."""
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


def own_copy(array: Any) -> Any:
    """A contiguous copy; a numpy array that is contiguous already is returned itself."""
    return namespace_of(array).asarray(array, copy=True) if is_device_array(array) else np.ascontiguousarray(array)


def take_rows(array: Any, rows: Any) -> Any:
    """Some rows of an array by their numbers, which may be on the host."""
    if not is_device_array(array):
        return array[rows]
    numbers = rows if is_device_array(rows) else on_device_of(array, np.asarray(rows, dtype=np.int64))
    return namespace_of(array).take(array, numbers, axis=0)


def device_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows, large enough to keep a device busy and small beside its memory."""
    step = max(_BLOCK_ENTRIES // max(n_columns, 1), 1)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def diagonal_set(matrix: Any, values: Any) -> None:
    """Write the diagonal of a square, contiguous matrix in place."""
    flat = namespace_of(matrix).reshape(matrix, (-1,))
    flat[:: matrix.shape[0] + 1] = values


def cholesky(matrix: Any, *, checked: bool = True) -> Any:
    """The lower Cholesky factor; a matrix that is not positive definite is refused.

    With ``checked`` false the caller does so by :func:`check_factor`: waiting for the factor would keep a device idle.
    """
    xp = namespace_of(matrix)
    try:
        if _library(matrix) == "torch":
            factor, info = sys.modules["torch"].linalg.cholesky_ex(matrix)
            factor[-1, -1] = xp.where(info == 0, factor[-1, -1], xp.full_like(factor[-1, -1], float("nan")))
        else:
            factor = xp.linalg.cholesky(matrix)
    except np.linalg.LinAlgError as error:
        raise SolverError(_NOT_DEFINITE) from error
    if checked:
        check_factor(factor)
    return factor


def check_factor(factor: Any) -> None:
    """Refuse the factor of a matrix that is not positive definite: its last entry is not a number then."""
    if not math.isfinite(float(factor[-1, -1])):
        raise SolverError(_NOT_DEFINITE)


_NOT_DEFINITE = (
    "K + I/gamma is not positive definite to working precision, and a device has no factorisation for that; lower "
    "gamma, use a positive definite kernel in double precision, or fit numpy arrays (X.cpu().numpy(), X.get())"
)


def solve_triangular(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """L^{-1} B, or L^{-T} B, with the lower factor L."""
    library = _library(factor)
    if library == "torch":
        matrix = factor.mT if transposed else factor
        return sys.modules["torch"].linalg.solve_triangular(matrix, right, upper=transposed)
    if library == "cupy":
        from cupyx.scipy.linalg import solve_triangular as solve

        return solve(factor, right, trans=int(transposed), lower=True)
    return namespace_of(factor).linalg.solve(factor.mT if transposed else factor, right)


def invert_triangle(L: Any) -> Any:
    """Return the inverse of a lower triangle."""
    if is_device_array(L):
        return namespace_of(L).linalg.inv(L)
    from scipy.linalg.lapack import dtrtri

    inverse, status = dtrtri(L, lower=1)
    if status != 0:
        raise np.linalg.LinAlgError("a triangle with a zero on its diagonal has no inverse")
    return np.asarray(inverse)


def multiply_triangle(L: Any, right: Any) -> Any:
    """Return L B with a lower triangle L, in half the time where there is a function for it."""
    if is_device_array(L):
        return L @ right
    from scipy.linalg.blas import dtrmm

    return np.asarray(dtrmm(1.0, np.asfortranarray(L), np.asfortranarray(right), lower=1))


def multiply_rows(rows: Any, L: Any) -> Any:
    """Return rows times a lower triangle L, stored by columns; in numpy in the memory of the rows, in half the time."""
    if is_device_array(rows):
        return rows @ L
    from scipy.linalg.blas import dtrmm

    return np.asarray(dtrmm(1.0, L, rows.T, lower=1, trans_a=1, overwrite_b=1).T)


def sum_squares(array: Any) -> Any:
    """Return the sum of the squares of all entries; numpy's without an array of squares."""
    return namespace_of(array).sum(array * array) if is_device_array(array) else np.vdot(array, array)


def room_on_device(array: Any, n_bytes: float, what: str, advice: str) -> None:
    """Refuse an allocation that cannot fit beside ``array``, before anything is allocated."""
    device = str(getattr(array, "device", ""))
    if _library(array) == "torch" and device.startswith("cuda"):
        cuda = sys.modules["torch"].cuda
        available, _ = cuda.mem_get_info(array.device)
        if n_bytes > available:  # what torch holds for later use is free too; asking for that takes a millisecond
            available += cuda.memory_reserved(array.device) - cuda.memory_allocated(array.device)
    elif _library(array) == "cupy":
        cupy = sys.modules["cupy"]
        available = cupy.cuda.Device(array.device).mem_info[0] + cupy.get_default_memory_pool().free_bytes()
    else:
        check_memory(n_bytes, what, advice)
        return
    if n_bytes > available:
        raise DataError(
            f"{what} needs {n_bytes / 2**20:.0f} MiB and {available / 2**20:.0f} MiB are free on {device}; {advice}"
        )
