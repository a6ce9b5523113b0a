r"""What adds up to an output of a machine: substrates, and linear parts in variables of one's own.

.. math:: \hat y(x) = \sum_k f_k(x) + \sum_l \phi_l(x)^T w_l

A partly linear model, for instance, is a substrate on some columns of X and a linear part on others. A cvxpy
expression such as ``X @ w`` belongs to the rows of X; a linear part knows how its columns follow from the rows of any
X, so that it can be evaluated at new ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.errors import DataError, DeclarationError

__all__ = ["FittedPart", "LinearPart", "Term", "TermSum", "terms_of"]


class Term:
    """Something that an output can be a sum of; ``+`` makes such a sum."""

    __slots__ = ()
    #: numpy leaves ``array + term`` to the term, which refuses it with the reason.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> "TermSum":
        if not isinstance(other, Term):
            raise DeclarationError(
                f"an output is a sum of substrates and linear parts, received {type(other).__name__}; for a variable w "
                "of your own add LinearPart(w, columns), and for values at given points add to s.f(points)"
            )
        return TermSum((*terms_of(self), *terms_of(other)))

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, int) and other == 0:  # the start of Python's sum()
            return self
        return self.__add__(other)


@dataclass(frozen=True, slots=True, eq=False)
class TermSum(Term):
    """A sum of substrates and linear parts, written with ``+``."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if len({id(term) for term in self.terms}) != len(self.terms):
            raise DeclarationError("a term occurs twice in a sum")


def terms_of(term: Term) -> tuple[Term, ...]:
    """Return the terms of a sum; a term that is none is its only one."""
    return term.terms if isinstance(term, TermSum) else (term,)


@dataclass(frozen=True, slots=True, eq=False)
class LinearPart(Term):
    """The linear function of x with a variable of one's own as its weights.

    Parameters
    ----------
    weights
        A ``cvxpy.Variable`` with one entry per column, or one row per column and one column per output.
    columns
        The columns of X that are multiplied by them, as numbers; all of them if None.
    features
        A function of X that returns the matrix to multiply instead, one row per row of X.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from substrate import LinearPart
    >>> part = LinearPart(cp.Variable(2), columns=[0, 2])
    >>> part([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).shape
    (2,)
    """

    weights: Any
    columns: int | Sequence[int] | None = None
    features: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        w = self.weights
        if not isinstance(w, cp.Variable) or w.ndim > 2:
            raise DeclarationError(
                f"the weights of a linear part are a cvxpy.Variable of one or two dimensions, received {w!r}"
            )
        if any(value is not None and value is not False for value in w.attributes.values()):
            raise DeclarationError(
                "the weights of a linear part are a cvxpy.Variable without attributes; write what restricts them as "
                "constraints, such as w >= 0 in subject_to"
            )
        if self.columns is not None and self.features is not None:
            raise DeclarationError("a linear part has columns or features, not both")
        if self.features is not None and not callable(self.features):
            raise DeclarationError(f"features must be a function of X, received {self.features!r}")
        if self.columns is not None:
            numbers = np.atleast_1d(np.asarray(self.columns))
            if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.size != self.height:
                raise DeclarationError(
                    f"columns must be {self.height} column numbers, one per weight, received {self.columns!r}"
                )

    @property
    def height(self) -> int:
        """Number of columns of the matrix that the weights multiply."""
        return int(self.weights.shape[0]) if self.weights.ndim else 1

    def places(self, starts: dict[int, int], column: int = 0) -> NDArray[np.intp]:
        """Return where a program has a column of the weights; ``starts`` has the first place of each variable."""
        first = starts[self.weights.id] + column * self.height
        return np.arange(first, first + self.height)

    @property
    def columns_of_values(self) -> tuple[int, ...]:
        """The number of columns of the values as a shape: () for one value per row."""
        return tuple(self.weights.shape[1:])

    def matrix(self, X: Any, name: str = "X") -> Array:
        """Return the matrix that the weights multiply at the rows of X."""
        X = real_points(X, name)
        n, width = X.shape
        if self.features is not None:
            M = real_array(self.features(X), f"features({name})", ndim=(1, 2))
            M = M[:, None] if M.ndim == 1 else M
            if M.shape != (n, self.height):
                raise DataError(f"features({name}) must have shape {(n, self.height)}, received {M.shape}")
            return M
        numbers = np.arange(width) if self.columns is None else np.atleast_1d(np.asarray(self.columns))
        if numbers.size != self.height or numbers.max() >= width or numbers.min() < -width:
            wanted = f"{self.height} columns" if self.columns is None else f"columns {numbers.tolist()}"
            raise DataError(f"a linear part takes {wanted} of {name}, which has {width}")
        chosen = X[:, numbers]
        return np.asarray(chosen.toarray() if is_sparse(chosen) else chosen, dtype=np.float64)

    def __call__(self, X: Any) -> Any:
        """Return the values at the rows of X, affine in the weights."""
        M = self.matrix(X)
        return M @ self.weights if self.weights.ndim else M[:, 0] * self.weights

    def at_present_value(self) -> "FittedPart":
        """Return the linear part with the present value of its weights."""
        return FittedPart(self, np.array(self.weights.value, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class FittedPart:
    """A linear part of a solution: its weights as numbers."""

    part: LinearPart
    weights: Array

    def predict(self, X: Any) -> Array:
        """Return the values at the rows of X."""
        M = self.part.matrix(X)
        return np.asarray(M @ (self.weights if self.weights.ndim else self.weights[None]))
