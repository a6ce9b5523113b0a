"""Checks of the input: plain real arrays, weights, scalars, and the memory a matrix would take.

scikit-learn's own validation serves the estimators; the functions here serve callers who pass matrices to a
``declare``, and close two gaps of that validation: dates would silently become floats and a masked array would silently
lose its mask.
"""

import contextvars
import math
import numbers
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.errors import DataError, DeclarationError

__all__ = [
    "EPS",
    "Array",
    "ascending_pair",
    "available_memory",
    "check_memory",
    "is_sparse",
    "memory_limit",
    "non_negative",
    "positive",
    "real_array",
    "real_points",
    "real_targets",
    "refuse_disguised",
    "row_weights",
    "whole_number",
]

Array = NDArray[np.float64]

#: Distance from one to the next number in double precision.
EPS = float(np.finfo(np.float64).eps)

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
            "mmap_mode='r') for those of a .npy file"
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


def _columns(values: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the dtypes of an array, a list or the columns of a frame, each with its entries."""
    if values is None or is_sparse(values):
        return
    dtypes = getattr(values, "dtypes", None)
    if isinstance(dtypes, Iterable):  # a frame: pandas has a Series of dtypes here, polars a list
        for position, dtype in enumerate(dtypes):
            column = values.iloc[:, position] if hasattr(values, "iloc") else values[:, position]
            yield dtype, column
    elif hasattr(values, "dtype"):
        yield values.dtype, values
    elif isinstance(values, (list, tuple)):
        try:
            array = np.asarray(values)
        except ValueError:  # ragged: the conversion raises
            return
        yield array.dtype, array


def real_array(values: Any, name: str, *, ndim: int | tuple[int, ...]) -> Array:
    """Return a finite, contiguous float64 array of the given number of dimensions; the input is never modified."""
    if is_sparse(values):
        raise DataError(f"{name} is sparse; pass a dense array, {name}.toarray()")
    refuse_disguised(values, name)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as an array: {error}") from error
    if array.dtype.kind == "c":
        raise DataError(f"{name} is complex; pass its real part, or real and imaginary parts as two columns")
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name} must hold real numbers, received dtype {array.dtype}")
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if array.ndim not in allowed:
        wanted = " or ".join(f"{n}-D" for n in allowed)
        raise DataError(f"{name} must be {wanted}, received {array.ndim}-D of shape {array.shape}")
    if array.size == 0:
        raise DataError(f"{name} is empty: received shape {array.shape}")
    result = np.asarray(array, dtype=np.float64, order="C")  # keeps an array of no dimensions as it is
    if not np.isfinite(result).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(result))[0])
        raise DataError(
            f"{name} contains NaN or infinity, first at {where[0] if len(where) == 1 else where}; "
            "drop or impute those entries"
        )
    return result


def real_points(X: Any, name: str = "X") -> Any:
    """Return points as the rows of a finite 2-D array, or as a finite csr matrix when X is sparse."""
    if is_sparse(X):
        if X.dtype.kind == "c":
            raise DataError(f"{name} is complex; pass its real part, or real and imaginary parts as two columns")
        if X.dtype.kind not in "fiub":
            raise DataError(f"{name} must hold real numbers, received a sparse matrix of dtype {X.dtype}")
        if 0 in X.shape:
            raise DataError(f"{name} is empty: received shape {X.shape}")
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
            for line in table:
                if line.startswith("MemAvailable:"):
                    limits.append(float(line.split()[1]) * 1024.0)
        with (
            open("/sys/fs/cgroup/memory.max", encoding="ascii") as most,
            open("/sys/fs/cgroup/memory.current", encoding="ascii") as now,
        ):
            limits.append(float(most.read()) - float(now.read()))  # "max" is not a number: no limit
    except (OSError, ValueError):
        pass
    if not limits and hasattr(os, "sysconf"):
        limits.append(float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES")))
    return min(limits, default=math.inf)


@contextmanager
def memory_limit(n_bytes: float) -> Iterator[None]:
    """Override, inside a ``with`` block, what :func:`check_memory` takes for available (``inf`` lifts it)."""
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
