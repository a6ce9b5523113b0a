"""A kernel matrix as pages take it: a matrix, or a :class:`~substrate.gram.Gram` that is at hand already."""

from typing import Any

from substrate.gram import Gram

__all__ = ["given_gram", "own_gram"]


def given_gram(K: Any) -> Gram:
    """The Gram that was given, or one of the matrix that was given."""
    return K if isinstance(K, Gram) else Gram.from_matrix(K)


def own_gram(K: Any) -> Gram:
    """A Gram of the same matrix that a closed form may factor in place."""
    return Gram.from_matrix(K.matrix if isinstance(K, Gram) else K)
