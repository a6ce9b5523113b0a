"""Small steps on vectors, in numpy and in loops.

numba compiles an expression of arrays with its shapes, its broadcasting and its words for every error, and so does an
assignment to a slice: each takes longer than all loops of a function together. What the compiled functions of the block
path do to whole vectors therefore stands here, once as numpy has it and once as the loop that is compiled instead.
"""

import numpy as np

from substrate.arrays import Array
from substrate.compilation import loops_of
from substrate.penalized.homotopy.signed_rows import Index

__all__ = ["add_multiple", "copy_into", "find_largest", "find_members", "inner_product", "scale_into"]


def inner_product(v: Array, w: Array) -> float:
    """Return v'w."""
    return float(np.dot(v, w))


@loops_of(inner_product)
def _inner_product(v, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(v.size):
        total += v[i] * w[i]
    return total


def copy_into(out: Array | Index, v: Array | Index) -> None:
    """Write v into ``out``."""
    out[:] = v


@loops_of(copy_into)
def _copy_into(out, v):  # type: ignore[no-untyped-def]
    for i in range(v.size):
        out[i] = v[i]


def scale_into(out: Array, size: float, v: Array) -> None:
    """Write a multiple of v into ``out``, which may be v itself."""
    np.multiply(v, size, out)


@loops_of(scale_into)
def _scale_into(out, size, v):  # type: ignore[no-untyped-def]
    for i in range(v.size):
        out[i] = size * v[i]


def add_multiple(out: Array, size: float, v: Array) -> None:
    """Add a multiple of v to ``out``."""
    out += size * v


@loops_of(add_multiple)
def _add_multiple(out, size, v):  # type: ignore[no-untyped-def]
    for i in range(v.size):
        out[i] += size * v[i]


def find_members(home: Index, which: int) -> Index:
    """Return the places at which ``home`` is ``which``."""
    return np.flatnonzero(home == which)


@loops_of(find_members)
def _find_members(home, which):  # type: ignore[no-untyped-def]
    places, count = np.empty(home.size, dtype=np.int64), 0
    for i in range(home.size):
        if home[i] == which:
            places[count] = i
            count += 1
    return places[:count]


def find_largest(values: Array, places: Index) -> int:
    """Return the place of the largest value among some places, the first of equal ones."""
    return int(places[np.argmax(values[places])])


@loops_of(find_largest)
def _find_largest(values, places):  # type: ignore[no-untyped-def]
    largest = places[0]
    for i in places:
        if values[i] > values[largest]:
            largest = i
    return largest
