"""The order of summation belongs to the rows: readers, spans and threads may not change a single bit."""

import numpy as np
import pytest

from substrate.kernels import RBF
from substrate.streaming.source import LEAF, MICRO
from substrate.streaming.summation import SummationTree, height

RNG = np.random.default_rng(3)
N = 5 * LEAF + MICRO + 77
X = RNG.normal(size=(N, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 0.1 * RNG.normal(size=N)])
KERNEL, POINTS = RBF(2.0), X[:30]


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
