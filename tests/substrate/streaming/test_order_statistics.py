"""Order statistics by counting are those of sorting, whatever the numbers, the spans and what may be gathered."""

import numpy as np
import pytest

from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF
from substrate.streaming.survey import CountsOfLeaf, keys_of, order_statistics, value_of

RNG = np.random.default_rng(5)
N = 2 * LEAF + 333


def first_column(block):
    return block.X[:, 0]


def counted(values, ranks, most, threads=1):
    source, made = ArraySource(values[:, None], None), []

    def sums(function):
        made.append(function)
        return OpenPasses(threads=threads).sums(source, function, "numbers")

    found, largest = order_statistics(sums, first_column, values.size, ranks, most)
    assert all(isinstance(function, CountsOfLeaf) for function in made)
    return found, largest, len(made)


KINDS = {
    "spread over all magnitudes": RNG.standard_cauchy(N) * 10.0 ** RNG.uniform(-300, 300, N),
    "close together": 1.0 + 1e-13 * RNG.normal(size=N),
    "mostly one number": np.where(RNG.random(N) < 0.9, -0.25, RNG.normal(size=N)),
    "of either sign": RNG.normal(size=N),
    "integers": np.round(3.0 * RNG.normal(size=N)),
}


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("most", [10**9, 3000, 1])
def test_they_are_those_of_sorting(values, most):
    ranks = [0, 17, N // 4, N // 2, N // 2 + 1, N - 1]
    found, largest, passes = counted(values, ranks, most)
    expected = np.sort(values)
    assert {rank: expected[rank] for rank in ranks} == found
    assert largest == np.abs(values).max()
    assert passes <= (1 if most >= N * len(ranks) else 5)


def test_few_numbers_are_counted_in_passes_and_gathered_at_the_end():
    values = KINDS["of either sign"]
    assert counted(values, [N // 2], N)[2] == 1
    assert counted(values, [N // 2], N // 4)[2] == 2, "counted once, then few enough"
    assert counted(KINDS["mostly one number"], [N // 2], 10)[2] == 4, "equal numbers are never few: all bits are read"


def test_spans_change_nothing():
    values = KINDS["close together"]
    assert counted(values, [100, N // 3], 50, threads=2) == counted(values, [100, N // 3], 50)


def test_keys_sort_as_numbers_do_and_give_them_back():
    values = np.array([-np.inf, -1e308, -2.0, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, 1e308, np.inf])
    keys = keys_of(values)
    assert (np.diff(keys.astype(object)) > 0).all()
    assert [value_of(int(key)) for key in keys] == values.tolist()
