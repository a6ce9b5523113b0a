r"""Sums over the products of values, as of main effects and interactions.

.. math:: \sum_{m = 1}^{q} e_m(v_1, \dots, v_d) = \sum_l v_l + \sum_{l < m} v_l v_m + \dots, \qquad
          e_m \leftarrow e_m + v_l e_{m-1} \quad \text{for one } v_l \text{ after another}

takes q d operations for all products of up to q of d values. Values are numbers, arrays of any namespace, or numbers of
an exact arithmetic.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from math import comb, inf
from typing import Any

import numpy as np

from substrate.arrays import Array

__all__ = ["count_of", "groups_of", "multipliers", "sum_interactions"]


def count_of(values: int, order: int, most: float = inf) -> int:
    """Return the number of products, or a number above ``most`` as soon as there are more: counting all takes long."""
    count = 0
    for size in range(1, order + 1):
        count += comb(values, size)
        if count > most:
            break
    return count


def groups_of(values: int, order: int) -> Iterator[tuple[int, ...]]:
    """Return the numbers of the values in each product: single ones first, then pairs, and so on."""
    return (group for size in range(1, order + 1) for group in combinations(range(values), size))


def sum_interactions(values: Iterable[Any], order: int) -> Any:
    """Return the sum of all values, and of all products of up to ``order`` of them."""
    return reduce(lambda total, more: total + more, _symmetric_sums(values, order))


def _symmetric_sums(values: Iterable[Any], order: int) -> list[Any]:
    """Return e_1, e_2, ..., up to the order."""
    sums: list[Any] = []
    for value in values:
        for size in range(min(len(sums), order - 1), 0, -1):
            product = sums[size - 1] * value
            if size < len(sums):
                sums[size] = sums[size] + product
            else:
                sums.append(product)
        if sums:
            sums[0] = sums[0] + value
        else:
            sums.append(value)
    return sums


def multipliers(values: Sequence[Array], order: int) -> list[Array]:
    """Return what multiplies each value in the sum: its derivative in that value."""
    sums = _symmetric_sums(values, order)[: order - 1]
    return [_sums_without(value, sums) for value in values]


def _sums_without(value: Array, sums: Sequence[Array]) -> Array:
    """Return one, and the symmetric sums of the other values, e_m(others) = e_m - v e_{m-1}(others)."""
    sums_of_others = total = np.ones(value.shape)
    for products in sums:
        sums_of_others = products - value * sums_of_others
        total = total + sums_of_others
    return total
