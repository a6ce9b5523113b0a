r"""Order statistics, and their rank at a level of coverage, from the decimal that was written.

.. math:: k = \lceil c \, (n + 1) \rceil

is the rank, among n scores and the one to come, of the score that bounds a share c of them ([Vovk2005]_). In floating
point 0.9 times 10 may be 9.000000000000002, whose ceiling is 10: the rank would be wrong at the levels that are used
most. So the level is read as the fraction of the decimal that prints it, 9/10, and the rank is exact.
"""

import math
import numbers
from fractions import Fraction
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.namespaces import namespace_of, partition

__all__ = ["exact_level", "kth_smallest", "rank"]


def exact_level(coverage: Any, name: str = "coverage") -> Fraction:
    """Return the fraction of a level strictly between zero and one: that of the shortest decimal that is this
    number.
    """
    if isinstance(coverage, np.ndarray) and coverage.ndim == 0:
        coverage = coverage[()]
    if isinstance(coverage, (bool, np.bool_)) or not isinstance(coverage, numbers.Real):
        raise DeclarationError(f"{name} must be a number between 0 and 1, received {coverage!r}")
    if not 0.0 < float(coverage) < 1.0:
        raise DeclarationError(
            f"{name} must be above 0 and below 1, a share of the new rows such as 0.9, received {coverage!r}"
        )
    return Fraction(str(coverage))


def rank(coverage: Any, n: int) -> int:
    """Return ceil(coverage (n + 1)), exactly: from 1 to n + 1, where n + 1 says that n scores do not suffice."""
    return math.ceil(exact_level(coverage) * (n + 1))


def kth_smallest(values: Array, k: int) -> Array:
    """Return the k-th smallest of every line, from 1 on; minus infinity for 0, infinity for one more than there are."""
    n = int(values.shape[-1])
    if not 1 <= k <= n:
        edge = -np.inf if k < 1 else np.inf
        return namespace_of(values).full_like(values[..., 0], edge)  # type: ignore[no-any-return]
    return partition(values, k - 1)[..., k - 1]  # type: ignore[no-any-return]
