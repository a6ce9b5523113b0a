"""The order of summation belongs to the rows: readers, spans and threads may not change a single bit."""

import numpy as np
import pytest

from substrate.kernels import RBF
from substrate.reduced.features import eigen_features
from substrate.reduced.moments import origin_of
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.reduced.statistic import accumulate
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import LEAF, MICRO
from substrate.streaming.summation import SummationTree, height

RNG = np.random.default_rng(3)
N = 5 * LEAF + MICRO + 77
X = RNG.normal(size=(N, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 0.1 * RNG.normal(size=N)])
KERNEL, POINTS = RBF(2.0), X[:30]


def moments(passes, source, method="row-wise"):
    rows, K = KernelRows(KernelValues(KERNEL, POINTS), source, passes), KERNEL(POINTS)
    origin = origin_of(K, rows.target_summary(), 1.0)
    return accumulate(rows, eigen_features(K), origin, 0.1, method=method).total


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("count", "first", "second", "targets", "cross", "squares")
    )


@pytest.mark.parametrize("method", ["accumulated", "row-wise"])
def test_spans_and_steps_change_no_bit(method):
    source = ArraySource(X, Y)
    expected = moments(OpenPasses(), source, method)
    for threads, budget in [(1, 1.0), (2, 1e6), (3, 1e9)]:
        assert same(moments(OpenPasses(budget, threads=threads), source, method), expected)


def test_another_order_would_change_bits():
    expected = moments(OpenPasses(), ArraySource(X, Y))
    turned = moments(OpenPasses(), ArraySource(X[::-1], Y[::-1]))
    assert not same(turned, expected), "the law above is not empty"
    np.testing.assert_allclose(turned.second, expected.second, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("leaves", [1, 2, 3, 7, 8, 21])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_aligned_parts_make_the_same_tree(leaves, level):
    class Term(str):
        def __add__(self, other):
            return Term(f"({self}{other})")

    def tree_of(values):
        tree = SummationTree()
        for value in values:
            tree.push(0, Term(value))
        return tree.total()

    letters = [chr(97 + k) for k in range(leaves)]
    size = 2**level
    parts = SummationTree()
    for start in range(0, leaves, size):
        parts.push(level, tree_of(letters[start : start + size]))
    assert parts.total() == tree_of(letters)


def test_a_node_may_not_follow_a_lower_one():
    tree = SummationTree()
    tree.push(0, 1.0)
    with pytest.raises(ValueError, match="height 2"):
        tree.push(2, 1.0)
    with pytest.raises(ValueError, match="without leaves"):
        SummationTree().total()


def test_height_is_that_of_the_smallest_tree():
    assert [height(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [0, 1, 2, 2, 3, 3, 4]
