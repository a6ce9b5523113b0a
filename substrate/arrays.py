"""Arrays: checks of the input, and the only file that knows of other libraries than numpy and of devices.

scikit-learn's own validation serves the estimators; the functions here serve callers who pass matrices to a
``declare``, and close two gaps of that validation: dates would silently become floats and a masked array would silently
lose its mask.

A function that documents it takes its namespace from its input: numpy arrays are handled in place by LAPACK and BLAS,
torch tensors and CuPy arrays stay on their device and are returned as such; other libraries' arrays are converted to
numpy. The common interface is the array API standard, through ``array_api_compat``, which is imported with the first
array that is not numpy's. This file has a verb for what the standard lacks (triangular solves, free memory of a device)
and for what numpy does in less time or memory than the standard's functions; no other file asks which library it is
dealing with in order to compute something.

On small matrices a second thread of BLAS costs more in waiting than it gains, 10 to 90 times more under load, so
below a measured size linear algebra runs on one thread and above it on as many as the user allows.
"""

import contextvars
import math
import numbers
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from substrate.errors import DataError, DeclarationError, SolverError
from substrate.numbers import Array

__all__ = [
    "HOST",
    "MOST_DENSE",
    "SERIAL_BELOW",
    "Array",
    "ascending_pair",
    "available_memory",
    "blas_threads",
    "blocks_beside",
    "check_finite",
    "check_memory",
    "cholesky",
    "device_blocks",
    "device_numbers",
    "device_vector",
    "diagonal_of",
    "diagonal_set",
    "exp",
    "has_room",
    "invert_triangle",
    "is_device_array",
    "is_sparse",
    "memory_limit",
    "move_to_host",
    "namespace_of",
    "non_negative",
    "on_device_of",
    "one_blas_thread",
    "own_copy",
    "paired_sums",
    "partition",
    "positive",
    "real_array",
    "real_points",
    "real_targets",
    "refuse_disguised",
    "room_on_device",
    "row_blocks",
    "row_weights",
    "same_home",
    "solve_triangular",
    "sqrt",
    "strips",
    "take_columns",
    "take_points",
    "take_rows",
    "target_unit",
    "threads_for",
    "to_dense",
    "to_numpy",
    "where_it_lives",
    "whole_number",
    "zeros_beside",
]

#: Allocations below this many bytes are not checked against the free memory.
_SMALL = 64.0 * 2**20

_memory_limit: contextvars.ContextVar[float | None] = contextvars.ContextVar("memory_limit", default=None)


def is_sparse(X: Any) -> bool:
    """Return whether X is a scipy sparse matrix or array, found without importing scipy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def refuse_disguised(values: Any, name: str, *, text: bool = False) -> None:
    """Refuse what a conversion to float would silently misread: masks, dates, and numbers written as text.

    ``text=True`` lets text pass, for labels.
    """
    if isinstance(values, os.PathLike) or (isinstance(values, str) and name == "X"):
        raise DataError(
            f"{name} is {os.fspath(values)!r}, and files are not read here; give its rows, numpy.load(..., "
            "mmap_mode='r') for the rows of a .npy file"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(
            f"{name} is a masked array and its mask would be lost; drop or impute the masked entries, "
            f"then pass {name}.data"
        )
    for dtype, entries in _columns(values):
        kind = getattr(dtype, "kind", "")
        if kind in ("f", "i", "u", "b") and isinstance(dtype, np.dtype):
            continue
        described = str(dtype).lower()
        if kind in ("M", "m") or described.startswith(("date", "time", "dur")):
            raise DataError(
                f"{name} holds dates or durations ({dtype}); convert them to numbers you choose, "
                "for instance days since a reference date"
            )
        worded = kind in ("U", "S", "T") or described.startswith(("str", "utf8", "large_string", "binary"))
        if kind == "O" and not text:
            worded = any(isinstance(entry, (str, bytes)) for entry in np.asarray(entries, dtype=object).ravel())
        if worded and not text:
            raise DataError(
                f"{name} must hold real numbers, received dtype {dtype} with text; convert it to numbers first"
            )


def _columns(values: Any) -> list[tuple[Any, Any]]:
    """Return the dtypes of an array, a list or the columns of a frame, each with its entries."""
    dtypes = getattr(values, "dtypes", None)
    if isinstance(dtypes, Iterable):  # a frame: pandas has a Series of dtypes here, polars a list
        columns = values.iloc if hasattr(values, "iloc") else values
        return [(dtype, columns[:, position]) for position, dtype in enumerate(dtypes)]
    if isinstance(values, (list, tuple)):
        try:
            values = np.asarray(values)
        except ValueError:  # ragged: the conversion raises
            return []
    return [(values.dtype, values)] if hasattr(values, "dtype") and not is_sparse(values) else []


def real_array(values: Any, name: str, *, ndim: int | tuple[int, ...]) -> Array:
    """Return a finite, contiguous float64 array of the given number of dimensions; the input is never modified."""
    if is_sparse(values):
        raise DataError(f"{name} is sparse; pass a dense array, {name}.toarray()")
    refuse_disguised(values, name)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as an array: {error}") from error
    _check_form(array, array.dtype.kind, name, (ndim,) if isinstance(ndim, int) else ndim)
    result = np.asarray(array, dtype=np.float64, order="C")  # keeps an array of no dimensions unchanged
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        raise DataError(
            f"{name} contains NaN or infinity, first at {where[0] if len(where) == 1 else where}; "
            "drop or impute those entries"
        )
    return result


def _check_form(array: Any, kind: str, name: str, ndim: tuple[int, ...]) -> None:
    """Refuse an array of another kind of numbers, of another number of dimensions, or without entries."""
    shape = tuple(array.shape)
    if kind == "c":
        raise DataError(f"{name} is complex; pass its real part, or real and imaginary parts as two columns")
    if kind not in "fiub":
        raise DataError(f"{name} must hold real numbers, received dtype {array.dtype}")
    if len(shape) not in ndim:
        wanted = " or ".join(f"{n}-D" for n in ndim)
        raise DataError(f"{name} must be {wanted}, received {len(shape)}-D of shape {shape}")
    if 0 in shape:
        raise DataError(f"{name} is empty: received shape {shape}")


def real_points(X: Any, name: str = "X") -> Any:
    """Return points as the rows of a finite 2-D array, on its device if it is there, or of a csr matrix."""
    if is_device_array(X):
        points = device_numbers(X, name, (2,))
        check_finite(**{name: points})
        return points
    if is_sparse(X):
        _check_form(X, X.dtype.kind, name, (2,))
        matrix = X.tocsr().astype(np.float64)
        if not np.isfinite(matrix.data).all():
            raise DataError(f"{name} contains NaN or infinity; drop or impute those entries")
        return matrix
    return real_array(X, name, ndim=2)


def _number(value: Any, name: str, wanted: str) -> float:
    """Return a float, infinite if an integer is too large for one; no bool, no text; an array of no dimensions
    counts.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise DeclarationError(f"{name} must be {wanted}, received {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def positive(value: Any, name: str) -> float:
    """Return a finite number above zero."""
    number = _number(value, name, "a positive number")
    if not (math.isfinite(number) and number > 0.0):
        raise DeclarationError(f"{name} must be positive and finite, received {value!r}")
    return number


def ascending_pair(values: Any, name: str) -> tuple[float, float]:
    """Return a range as two positive numbers, the lower one first."""
    if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != 2:
        raise DeclarationError(f"{name} must be a pair (lowest, highest), received {values!r}")
    low, high = (positive(value, f"an end of {name}") for value in values)
    if not low < high:
        raise DeclarationError(f"{name} must ascend, received {low:g} to {high:g}")
    return low, high


def non_negative(value: Any, name: str, why: str = "to keep the kernel positive semi-definite") -> float:
    """Return a finite number, zero or above."""
    number = _number(value, name, "a finite number >= 0")
    if not math.isfinite(number):
        raise DeclarationError(f"{name} must be a finite number >= 0, received {value!r}")
    if number < 0.0:
        raise DeclarationError(f"{name} must be >= 0 {why}, received {value!r}")
    return number


def whole_number(value: Any, name: str, least: int = 0) -> int:
    """Return an integer, ``least`` or above; no bool."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or value < least:
        raise DeclarationError(f"{name} must be an integer >= {least}, received {value!r}")
    return int(value)


def real_targets(y: Any, n: int, name: str = "y") -> Array:
    """Return one finite number for each of at least two rows."""
    target = real_array(y, name, ndim=1)
    if target.size != n:
        raise DataError(f"{name} must have one entry per row of K: expected {n}, received {target.size}")
    if n < 2:
        raise DataError(f"at least two rows are needed, received {n}")
    return target


def row_weights(weights: Any, n: int, name: str = "weights") -> Array:
    """Return one finite, strictly positive weight for each of n rows; ``None`` is all ones."""
    if weights is None:
        return np.ones(n)
    v = real_array(weights, name, ndim=1)
    if v.shape != (n,):
        raise DataError(f"{name} must have one entry per row: expected {n}, received {v.size}")
    if (v < 0.0).any():
        raise DataError(f"{name} must not be negative, received {v.min()} at row {int(v.argmin())}")
    if (v == 0.0).any():
        raise DataError(
            f"{name} must be positive here: a row of weight zero has an infinite diagonal 1/(gamma v); "
            "drop those rows first"
        )
    return v


def available_memory() -> float:
    """Return bytes this process may still take: free physical memory, or less where a control group limits it."""
    limits = []
    try:
        with open("/proc/meminfo", encoding="ascii") as table:
            limits += [float(line.split()[1]) * 1024.0 for line in table if line.startswith("MemAvailable:")]
        most, now = (Path("/sys/fs/cgroup", name).read_text("ascii") for name in ("memory.max", "memory.current"))
        limits.append(float(most) - float(now))  # "max" is not a number: no limit
    except (OSError, ValueError):
        pass
    if not limits and hasattr(os, "sysconf"):
        limits.append(float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES")))
    return min(limits, default=math.inf)


@contextmanager
def memory_limit(n_bytes: float) -> Iterator[None]:
    """Override, inside a ``with`` block, the memory that :func:`check_memory` assumes available (``inf``: no limit)."""
    token = _memory_limit.set(n_bytes)
    try:
        yield
    finally:
        _memory_limit.reset(token)


def check_memory(n_bytes: float, what: str, advice: str) -> None:
    """Refuse an allocation that cannot fit, before anything is allocated."""
    limit = _memory_limit.get()
    if limit is None and n_bytes < _SMALL:
        return
    available = available_memory() if limit is None else limit
    if n_bytes > available:
        raise DataError(
            f"{what} needs {n_bytes:.0f} bytes ({n_bytes / 2**20:.0f} MiB) and {available:.0f} bytes "
            f"({available / 2**20:.0f} MiB) are available; {advice} To try all the same, fit inside "
            "`with substrate.arrays.memory_limit(float('inf')):`."
        )


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


def exp(value: Any) -> Any:
    """Return the exponential of a number of any arithmetic, or of an array of any library."""
    return value.exp() if hasattr(value, "exp") else namespace_of(value).exp(value)


def sqrt(value: Any) -> Any:
    """Return the root of a number of any arithmetic, or of an array of any library."""
    return value.sqrt() if hasattr(value, "sqrt") else namespace_of(value).sqrt(value)


def where_it_lives(array: Any) -> str:
    """Return library and device in words."""
    return f"{_library(array)} on {array.device}" if is_device_array(array) else HOST


def to_numpy(array: Any) -> Any:
    """Return the same values as a numpy array; numpy arrays and plain values unchanged."""
    library = _library(array)
    if library == "torch":
        return array.detach().cpu().numpy()
    if library == "cupy":
        return array.get()
    return np.asarray(array) if library in _LIBRARIES else array


def move_to_host(record: Any) -> Any:
    """Return a record with its arrays in numpy, and those of the records in it."""
    if not is_dataclass(record) or isinstance(record, type):
        return to_numpy(record)
    moved = {field.name: move_to_host(getattr(record, field.name)) for field in fields(record)}
    return replace(record, **moved)


def on_device_of(array: Any, values: Any) -> Any:
    """Return values in the library and on the device of ``array``, with their dtype unchanged."""
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


def take_points(X: Any, rows: Any, pairwise: bool) -> Any:
    """Return some of the points; of a precomputed matrix these rows and columns."""
    points = take_rows(X, rows)
    return take_columns(points, rows) if pairwise else points


def strips(n_rows: int, step: int) -> Iterator[slice]:
    """Yield slices of ``step`` rows."""
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows whose blocks fit the cache."""
    return strips(n_rows, int(np.clip(_CACHED_ENTRIES // max(n_columns, 1), 64, 256)))


def device_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows, large enough to keep a device busy and small against its memory."""
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
    """Return the lower Cholesky factor; a matrix that is not positive definite is refused.

    What stands above the diagonal is not part of it.
    """
    if _library(matrix) == "torch":
        factor, info = sys.modules["torch"].linalg.cholesky_ex(matrix)
        if int(info):
            raise SolverError(_NOT_DEFINITE)
        return factor
    if isinstance(matrix, np.ndarray):
        from scipy.linalg.lapack import dpotrf

        factor, info = dpotrf(matrix, lower=1, clean=0)
        if info:
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
    return np.tril(inverse)


def room_on_device(array: Any, n_bytes: float, what: str, advice: str) -> None:
    """Refuse an allocation that cannot fit next to ``array``, before anything is allocated."""
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
    """Return whether an allocation can fit next to ``array``."""
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


def device_vector(y: Any, name: str, *, n: int, multiple: bool = False) -> Any:
    """Return one float64 number for each of n rows, or one row of numbers per row if ``multiple`` is true.

    The caller calls :func:`check_finite`, once for several arrays.
    """
    values = device_numbers(y, name, (1, 2) if multiple else (1,))
    if values.shape[0] != n:
        raise DataError(f"{name} must have one entry per row: expected {n}, received {values.shape[0]}")
    return values


def device_numbers(values: Any, name: str, ndim: tuple[int, ...]) -> Any:
    """Return real numbers in double precision; they may be NaN or infinite, since only the device could check."""
    xp = namespace_of(values)
    if getattr(values, "requires_grad", False):
        raise DataError(f"{name} requires a gradient, and no fit or prediction carries one; pass {name}.detach()")
    _check_form(values, "c" if xp.isdtype(values.dtype, "complex floating") else "f", name, ndim)
    return xp.astype(values, xp.float64, copy=False)


def check_finite(**arrays: Any) -> None:
    """Refuse NaN and infinity in arrays on one device, by their names, after one transfer for all of them."""
    xp = namespace_of(next(iter(arrays.values())))
    with np.errstate(invalid="ignore"):
        sums = [xp.sum(array * 0.0) for array in arrays.values()]  # 0 times NaN or infinity is NaN
    for name, total in zip(arrays, to_numpy(xp.stack(sums)), strict=True):
        if total != 0.0:
            raise DataError(f"{name} contains NaN or infinity; drop or impute those entries")


#: Entries of sparse rows that are made dense at a time.
MOST_DENSE = 10_000_000


def to_dense(points: Any) -> Any:
    """Return sparse rows as a dense array, and other rows unchanged."""
    return points.toarray() if is_sparse(points) else points


#: Order of a matrix below which one thread is used.
SERIAL_BELOW = 1000


@cache
def _controller() -> Any:
    # Finding the loaded libraries costs milliseconds, limiting them microseconds: find them once, after scipy
    # has brought its own BLAS into the process.
    import scipy.linalg  # noqa: F401

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


#: How many blocks require one thread now, and the limit that the first of them set, None where there is one thread
#: anyway: to ask takes a tenth of the time to set and restore. The limit belongs to the process:
#: if every fit set and restored its own, one that starts inside another's limit would take one thread for the original
#: number and restore that; and if the first restored it, the others would continue with many.
_guard = threading.Lock()


_holders = 0


_limit: Any = None


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.8 accepts limits only from the first thread that sets one.

    A worker's thread would then compute with many BLAS threads, and round as many do; and a limit that one thread set
    could not be lifted by another. Ours are set and lifted under a lock, by any thread.
    """
    openblas: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(openblas, "clear_controlling_thread"):
        openblas.clear_controlling_thread(force=True)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread inside the block, for the whole process."""
    global _holders, _limit
    with _guard:
        if _holders == 0 and any(library.num_threads != 1 for library in _controller().lib_controllers):
            _take_control()
            _limit = _controller().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _guard:
            _holders -= 1
            if _holders == 0 and _limit is not None:
                _take_control()
                _limit.restore_original_limits()
                _take_control()  # so that the next thread may set limits
                _limit = None


def threads_for(order: int) -> int:
    """Return the number of threads for matrices of this order: one, or as many as BLAS may use at present."""
    if order < SERIAL_BELOW:
        return 1
    return int(max((library.num_threads for library in _controller().lib_controllers), default=1))


def blas_threads(order: int) -> AbstractContextManager[None]:
    """Use one BLAS thread inside the block when matrices of this order do not repay a second."""
    return nullcontext() if order >= SERIAL_BELOW else one_blas_thread()


def target_unit(y: Array) -> float:
    """Return 1, or a power of two near max|y| where squares of y would overflow or vanish."""
    xp = namespace_of(y)
    largest = float(xp.max(xp.abs(y))) if y.shape[0] else 0.0
    return 1.0 if largest == 0.0 or 1e-50 < largest < 1e50 else float(2.0 ** np.floor(np.log2(largest)))
