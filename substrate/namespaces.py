r"""The library and the device of an array: numpy, or an array namespace on a device.

A function that documents it takes its namespace from its input: numpy arrays are handled in place by LAPACK, torch
tensors and CuPy arrays stay on their device and are returned as such. The common interface is the array API standard.
The functions here are the verbs of :mod:`substrate.backends`, where everything that differs between libraries is, as
functions of their arrays; and the checks of input that is on a device. Other libraries' arrays are converted to numpy.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from substrate.backends import HOST, DeviceBackend, backend_of
from substrate.errors import DataError

__all__ = [
    "HOST",
    "all_to_numpy",
    "blocks_beside",
    "check_factor",
    "check_finite",
    "cholesky",
    "column_squares",
    "device_blocks",
    "device_numbers",
    "device_points",
    "device_vector",
    "diagonal_of",
    "diagonal_set",
    "has_room",
    "invert_triangle",
    "is_device_array",
    "multiply_rows",
    "multiply_triangle",
    "namespace_of",
    "not_finite",
    "on_device_of",
    "ones_beside",
    "own_copy",
    "paired_sums",
    "partition",
    "reduce_columns",
    "room_on_device",
    "same_home",
    "solve_triangular",
    "sum_squares",
    "take_columns",
    "take_rows",
    "to_numpy",
    "where_it_lives",
    "zeros_beside",
]

_DEVICE = DeviceBackend()


def is_device_array(array: Any) -> bool:
    """Return whether an array keeps its own namespace: torch, CuPy, or the standard's strict implementation."""
    return backend_of(array).on_device


def namespace_of(array: Any) -> Any:
    """Return numpy itself, or the array API namespace of a device array."""
    return backend_of(array).namespace(array)


def where_it_lives(array: Any) -> str:
    """Return library and device in words."""
    return backend_of(array).where(array)


def to_numpy(array: Any) -> Any:
    """Return the same values as a numpy array; numpy arrays and plain values as they are."""
    return backend_of(array).to_host(array)


def all_to_numpy(*arrays: Any) -> tuple[Any, ...]:
    """Return the same values in numpy; those of double precision on a device come in one transfer, and so with one
    wait.
    """
    return backend_of(arrays[0]).all_to_host(arrays)


def on_device_of(array: Any, values: Any) -> Any:
    """Return values beside ``array``: in its library, on its device, of their own dtype."""
    return backend_of(array).send(values, array)


def zeros_beside(array: Any, shape: Any) -> Any:
    """Return zeros of double precision in the library and on the device of ``array``."""
    return backend_of(array).zeros(shape, array)


def ones_beside(array: Any, shape: Any) -> Any:
    """Return ones of double precision in the library and on the device of ``array``."""
    return backend_of(array).ones(shape, array)


def own_copy(array: Any) -> Any:
    """Return a contiguous copy; a numpy array that is contiguous already is returned itself."""
    return backend_of(array).copy(array)


def take_rows(array: Any, rows: Any) -> Any:
    """Return some rows of an array by their numbers, which may be on the host."""
    return backend_of(array).take_rows(array, rows)


def take_columns(array: Any, columns: Any) -> Any:
    """Return some columns of an array by their numbers, which may be on the host."""
    return backend_of(array).take_columns(array, columns)


def blocks_beside(array: Any, n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows for where ``array`` is: blocks that fit the cache, or on a device, large ones."""
    return backend_of(array).blocks(n_rows, n_columns)


def device_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows, large enough to keep a device busy and small beside its memory."""
    return _DEVICE.blocks(n_rows, n_columns)


def diagonal_of(matrix: Any) -> Any:
    """Return the diagonal of a square matrix, in numpy perhaps a sparse one."""
    return backend_of(matrix).diagonal(matrix)


def diagonal_set(matrix: Any, values: Any) -> None:
    """Write the diagonal of a square, contiguous matrix in place."""
    backend_of(matrix).set_diagonal(matrix, values)


def paired_sums(left: Any, right: Any, axis: int) -> Any:
    """Return sums of the products of two matrices, entry by entry, along an axis; numpy's without a matrix of
    products.
    """
    return backend_of(left).paired_sums(left, right, axis)


def sum_squares(array: Any) -> Any:
    """Return the sum of the squares of all entries; numpy's without an array of squares."""
    return backend_of(array).sum_squares(array)


def column_squares(factor: Any) -> Any:
    """Return the squared lengths of the columns of a lower triangle, which numpy makes one on the diagonal blocks."""
    return backend_of(factor).column_squares(factor)


def partition(values: Any, k: int) -> Any:
    """Return every line in an order in which the smallest k entries come first, and the next one after them."""
    return backend_of(values).partition(values, k)


def cholesky(matrix: Any, *, checked: bool = True) -> Any:
    """Return the lower Cholesky factor; a matrix that is not positive definite is refused.

    With ``checked`` false the caller does so by :func:`check_factor`: waiting for the factor would keep a device idle.
    """
    return backend_of(matrix).cholesky(matrix, checked=checked)


def check_factor(factor: Any) -> None:
    """Refuse the factor of a matrix that is not positive definite: its last entry is not a number then."""
    backend_of(factor).check_factor(factor)


def solve_triangular(factor: Any, right: Any, *, transposed: bool = False) -> Any:
    """Return L^{-1} B, or L^{-T} B, with the lower factor L."""
    return backend_of(factor).solve_triangular(factor, right, transposed=transposed)


def invert_triangle(L: Any) -> Any:
    """Return the inverse of a lower triangle."""
    return backend_of(L).invert_triangle(L)


def multiply_triangle(L: Any, right: Any) -> Any:
    """Return L B with a lower triangle L, in half the time where there is a function for it."""
    return backend_of(L).multiply_triangle(L, right)


def multiply_rows(rows: Any, L: Any, *, transposed: bool = False) -> Any:
    """Return rows times a lower triangle L, stored by columns, or times L'; in numpy in the memory of the rows."""
    return backend_of(rows).multiply_rows(rows, L, transposed=transposed)


def reduce_columns(columns: Any, vector: Any) -> tuple[Any, Any]:
    """Return R and Q'b of the columns Q R and a vector b."""
    return backend_of(columns).reduce_columns(columns, vector)


def room_on_device(array: Any, n_bytes: float, what: str, advice: str) -> None:
    """Refuse an allocation that cannot fit beside ``array``, before anything is allocated."""
    backend_of(array).check_room(array, n_bytes, what, advice)


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
            raise not_finite(name)


def not_finite(name: str) -> DataError:
    """Return the refusal of an array that contains NaN or infinity."""
    return DataError(f"{name} contains NaN or infinity; drop or impute those entries")
