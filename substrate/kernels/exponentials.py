r"""Exponentials of large tiles in single precision, by vector instructions where numpy has none.

.. math:: e^v = 2^k\, 2^r , \qquad k = \operatorname{round}(v \log_2 e) , \quad
          2^r \approx \sum_{j=0}^{7} \frac{(r \log 2)^j}{j!} , \quad |r| \le \tfrac12 ,

right to a few units in the last place, as the exponent itself is: the remainder of the series is below
:math:`(\tfrac12 \log 2)^8/8! < 6 \cdot 10^{-9}`, a tenth of a rounding error. numpy computes exponentials of float32 by
vector instructions on x86-64; on other processors it calls the C library for each number (measured on a Neoverse N1:
6.7 ns, and 1.8 ns here). Steps in single precision are never part of a proof, which takes residuals in double
precision.
"""

import math
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from substrate.compilation import choose_twin, entry_in_order, will_compile
from substrate.namespaces import namespace_of

__all__ = ["are_vectors_worth", "exponential", "vector_exponentials"]

#: Rows from which on products with a kernel matrix take longer than to import the compiler and compile one loop.
_LEAST_ROWS = 8192
#: Processors with vector exponentials in numpy.
_WITH_THEIR_OWN = ("x86_64", "amd64")

_ZERO, _LOG2_E = np.float32(0.0), np.float32(1.0 / math.log(2.0))
#: Powers of two below this one are not normal numbers; so small a value stands for zero.
_LEAST_POWER = np.float32(-126.0)
#: Added to a small number, it leaves an integer in the last bits.
_ROUNDING_SHIFT = np.float32(1.5 * 2.0**23)
_MANTISSA_BITS = np.int32(23)
_C1, _C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(math.log(2.0) ** j / math.factorial(j)) for j in range(1, 8))
_ONE = np.float32(1.0)

_by_vectors: ContextVar[bool] = ContextVar("by_vectors", default=False)


def are_vectors_worth(rows: int) -> bool:
    """Return whether products with the kernel matrix of so many rows are worth a compiled loop.

    It depends on the machine and the number of rows alone, so that the same fit has the same bits.
    """
    return rows >= _LEAST_ROWS and platform.machine().lower() not in _WITH_THEIR_OWN and will_compile()


@contextmanager
def vector_exponentials(wanted: bool) -> Iterator[None]:
    """Compute exponentials in single precision by a compiled loop inside this block, if wanted."""
    token = _by_vectors.set(wanted)
    try:
        yield
    finally:
        _by_vectors.reset(token)


def exponential(exponents: Any, *, is_rounded: bool = False) -> Any:
    """Return e^v of exponents that are at most zero; the array given may be overwritten.

    What rounding adds to zero is cut off if ``is_rounded``: no kernel value is above one.
    """
    if _by_vectors.get() and isinstance(exponents, np.ndarray) and exponents.dtype == np.float32:
        values = np.ascontiguousarray(exponents)
        loop: Any = exponentiate
        choose_twin(loop)(values.reshape(-1))
        return values
    xp = namespace_of(exponents)
    return xp.exp(xp.clip(exponents, max=0.0) if is_rounded else exponents)


@entry_in_order
def exponentiate(values):  # type: ignore[no-untyped-def]
    """Overwrite a vector in single precision by e^v; what is above zero counts as zero, and NaN stays."""
    for i in range(values.size):
        x = max(min(values[i], _ZERO) * _LOG2_E, _LEAST_POWER)
        shifted = x + _ROUNDING_SHIFT
        r = x - (shifted - _ROUNDING_SHIFT)
        square = r * r
        low = (_ONE + _C1 * r) + square * (_C2 + _C3 * r)
        high = (_C4 + _C5 * r) + square * (_C6 + _C7 * r)
        power = low + (square * square) * high
        # the last bits of the sum are k: they go where the exponent of a number stands
        bits = np.float32(power).view(np.int32) + (np.float32(shifted).view(np.int32) << _MANTISSA_BITS)
        values[i] = np.int32(bits).view(np.float32)
