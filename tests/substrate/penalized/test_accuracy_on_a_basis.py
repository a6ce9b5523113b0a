"""What the bound of a structure on a basis counts of its sums."""

from substrate.penalized.variation.accuracy_on_a_basis import _terms
from substrate.streaming.source import LEAF


def test_terms_of_sums_include_the_height_of_the_tree_of_leaves():
    assert _terms(4 * LEAF + 1, careful=True) == _terms(LEAF, careful=True) + 3
    assert _terms(LEAF, careful=True) < _terms(LEAF, careful=False)
