r"""What ``predict`` of a machine returns: one output, or several by name, each a sum of substrates and linear parts.

.. math:: \hat y(x) = \sum_k a_k(x) \, f_k(x) + \sum_l \phi_l(x)^T w_l + c

with numbers or functions :math:`a_k` of x, one unless a product says otherwise. A partly linear model, for instance, is
a substrate on some columns of X and a linear part on others. A cvxpy expression such as ``X @ w`` belongs to the rows
of X; a linear part knows how its columns follow from the rows of any X, so that it can be evaluated at new ones.

Several substrates may be summands of one function or separate functions, and only the user knows which: ``predict`` of
the machine says so, or the names of its substrates.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, real_array, real_points, to_dense
from substrate.certificate import ACCURATE, spread_of
from substrate.declare.place_holders import has_attributes
from substrate.errors import DataError, DeclarationError

__all__ = [
    "Column",
    "LinearPart",
    "One",
    "Outputs",
    "Term",
    "TermSum",
    "WeightedTerm",
    "base_of",
    "columns_of",
    "declared_outputs",
    "linear_parts",
    "scale_of_targets",
    "terms_of",
]

_ADVICE = (
    "a machine of several substrates says what it predicts: give all of them a name, Substrate(..., name='low'), for "
    "one output each, or pass predict=s1 + s2 for their sum, predict=s1 for one of them, or predict={'low': s1, ...} "
    "for outputs by name"
)


class Term:
    """Something that outputs are made of: ``+``, ``-``, numbers, columns and variables of one's own make affine ones.

    ``2.0 * s1 - s2``, ``s * Column(1)`` (f times a column of X, a coefficient that varies), ``s - threshold`` with a
    ``cvxpy.Variable`` of one entry, and ``s.on(0, 2)`` for a function of some columns of X are outputs too.
    """

    __slots__ = ()
    #: numpy leaves ``array + term`` to the term, which refuses it with the reason.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> "TermSum":
        return TermSum((*terms_of(self), *terms_of(_as_term(other))))

    def __radd__(self, other: Any) -> Any:
        if isinstance(other, int) and other == 0:  # the start of Python's sum()
            return self
        return self.__add__(other)

    def __neg__(self) -> "Term":
        return -1.0 * self

    def __sub__(self, other: Any) -> "TermSum":
        return self + -1.0 * _as_term(other)

    def __rsub__(self, other: Any) -> "TermSum":
        return (-self).__add__(other)

    def __mul__(self, factor: Any) -> "Term":
        if isinstance(factor, numbers.Real) and not isinstance(factor, bool):
            if not np.isfinite(float(factor)):
                raise DeclarationError(f"the factor of an output must be finite, received {factor!r}")
            return self._weigh(float(factor), ())
        if callable(factor) and not isinstance(factor, Term):
            return self._weigh(1.0, (factor,))
        raise DeclarationError(
            "an output is multiplied by a number, by Column(number) or by a function of X that returns one number per "
            f"row, received {type(factor).__name__}"
        )

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> "Term":
        if not isinstance(divisor, numbers.Real) or not float(divisor):
            raise DeclarationError(f"an output is divided by a number that is not zero, received {divisor!r}")
        return self * (1.0 / float(divisor))

    def on(self, *columns: int) -> "Term":
        """Return the same function of some of the columns of X, by number, for functions with different inputs."""
        if not columns or any(isinstance(c, bool) or not hasattr(c, "__index__") or c < 0 for c in columns):
            raise DeclarationError(f"columns are numbers from 0 on, at least one; received {columns!r}")
        taken = []
        for term in map(_as_weighted, terms_of(self)):
            if term.columns is not None or term.multipliers:
                raise DeclarationError("columns are taken before anything is multiplied, as in s.on(0, 2) * Column(1)")
            taken.append(replace(term, columns=tuple(int(c) for c in columns)))
        return taken[0] if len(taken) == 1 else TermSum(tuple(taken))

    def _weigh(self, factor: float, multipliers: tuple[Callable[[Any], Any], ...]) -> "Term":
        weighted = [
            replace(term, factor=factor * term.factor, multipliers=term.multipliers + multipliers)
            for term in map(_as_weighted, terms_of(self))
        ]
        return weighted[0] if len(weighted) == 1 else TermSum(tuple(weighted))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of X by number, to multiply a function with: ``s * Column(1)``."""

    number: int

    def __call__(self, X: Any) -> Array:
        """Return the column at the rows of X."""
        width = X.shape[1]
        if not 0 <= self.number < width:
            raise DataError(f"an output takes column {self.number} of X, which has {width}")
        return np.ravel(np.asarray(to_dense(X[:, [self.number]]), dtype=np.float64))

    def __mul__(self, term: Any) -> Any:
        return term * self if isinstance(term, Term) else NotImplemented


@dataclass(frozen=True, slots=True, eq=False)
class One(Term):
    """The constant function one; a number in an output is a multiple of it."""

    def __call__(self, X: Any) -> Array:
        """Return ones, the features of a variable that is the same for all rows."""
        return np.ones((X.shape[0], 1))

    def predict(self, X: Any) -> Array:
        """Return ones, one per row of X."""
        return np.ones(X.shape[0])


@dataclass(frozen=True, slots=True, eq=False)
class WeightedTerm(Term):
    """A term of a function of some columns, times a number and functions of X."""

    base: Any
    factor: float = 1.0
    multipliers: tuple[Callable[[Any], Any], ...] = ()
    columns: tuple[int, ...] | None = None

    def weights(self, X: Any) -> Array:
        """Return the factors of the values of the base at the rows of X."""
        total = np.full(X.shape[0], self.factor)
        for multiplier in self.multipliers:
            values = real_array(multiplier(X), "a factor of an output", ndim=(0, 1))
            if values.shape not in ((), (X.shape[0],)):
                raise DataError(
                    f"a factor of an output must be one number per row: expected {X.shape[0]}, received {values.size}"
                )
            total = total * values
        return total

    def take(self, X: Any) -> Any:
        """Return the columns of X that the base is a function of."""
        if self.columns is None:
            return X
        if max(self.columns) >= X.shape[1]:
            raise DataError(f"an output takes column {max(self.columns)} of X, which has {X.shape[1]}")
        return X[:, list(self.columns)]

    def predict(self, X: Any) -> Array:
        """Return the values at the rows of X, of a solution."""
        rows, base = real_points(X), self.base
        return np.asarray((self.weights(rows) * base.predict(self.take(rows)).T).T)


def _as_weighted(term: Term) -> WeightedTerm:
    return term if isinstance(term, WeightedTerm) else WeightedTerm(term)


def _as_term(other: Any) -> Term:
    """Return a number or a variable of one entry as a term."""
    if isinstance(other, Term):
        return other
    if isinstance(other, numbers.Real) and not isinstance(other, bool) and np.isfinite(float(other)):
        return WeightedTerm(One(), float(other))
    if isinstance(other, cp.Variable) and other.shape in ((), (1,)):
        return LinearPart(other, features=One())
    raise DeclarationError(
        f"an output is made of substrates, linear parts, numbers and variables of one entry, received "
        f"{type(other).__name__}; for a variable w of several entries add LinearPart(w, columns), and for values at "
        "given points add to s.f(points)"
    )


@dataclass(frozen=True, slots=True, eq=False)
class TermSum(Term):
    """A sum of terms, written with ``+`` and ``-``."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if len({id(term) for term in self.terms}) != len(self.terms):
            raise DeclarationError("a term occurs twice in a sum; write 2.0 * s")


def terms_of(term: Term) -> tuple[Term, ...]:
    """Return the terms of a sum; a term that is none is its only one."""
    return term.terms if isinstance(term, TermSum) else (term,)


def base_of(term: Term) -> Term:
    """Return the substrate, linear part or constant that a term is a multiple of."""
    return term.base if isinstance(term, WeightedTerm) else term


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
        if not isinstance(w, (cp.Variable, np.ndarray)) or w.ndim > 2:
            raise DeclarationError(
                f"the weights of a linear part are a cvxpy.Variable of one or two dimensions, received {w!r}"
            )
        if isinstance(w, cp.Variable) and has_attributes(w):
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
        return np.asarray(to_dense(X[:, numbers]), dtype=np.float64)

    def __call__(self, X: Any) -> Any:
        """Return the values at the rows of X, affine in the weights."""
        M = self.matrix(X)
        return M @ self.weights if self.weights.ndim else M[:, 0] * self.weights

    def at_present_value(self) -> "LinearPart":
        """Return the linear part of a solution, whose weights are numbers."""
        return replace(self, weights=np.array(self.weights.value, dtype=np.float64))

    def predict(self, X: Any) -> Array:
        """Return the values at the rows of X, for the present value of the weights."""
        values = self(X)
        return np.asarray(getattr(values, "value", values))


#: The terms of each output by its name; the name None stands for the only one, which is returned as an array.
Outputs = Mapping[str | None, tuple[Term, ...]]


def linear_parts(outputs: Outputs) -> list[LinearPart]:
    """Return the linear parts of all outputs."""
    every = [base_of(term) for terms in outputs.values() for term in terms]
    return [term for term in every if isinstance(term, LinearPart)]


def declared_outputs(predict: Any, substrates: tuple[Any, ...]) -> Outputs:
    """Return the outputs that ``predict=`` declares; without it, the one substrate or those named."""
    if predict is None:
        if len(substrates) == 1:
            return {None: substrates}
        if any(s.name is None for s in substrates):
            raise DeclarationError(_ADVICE)
        return {s.name: (s,) for s in substrates}
    if isinstance(predict, Term):
        return {None: _check_output(predict, substrates)}
    if not isinstance(predict, Mapping) or not predict:
        raise DeclarationError(
            "predict is a substrate, an affine expression of substrates and linear parts (s1 + s2, 2.0 * s, s - w), or "
            f"a dict of them by name, received {predict!r}"
        )
    unnamed = [name for name in predict if not isinstance(name, str) or not name]
    if unnamed:
        raise DeclarationError(f"the outputs of predict are named by text, received {unnamed[0]!r}")
    return {name: _check_output(term, substrates, f" {name!r}") for name, term in predict.items()}


def _check_output(output: Any, substrates: tuple[Any, ...], name: str = "") -> tuple[Term, ...]:
    if not isinstance(output, Term):
        raise DeclarationError(
            f"output{name} of predict must be a substrate, a linear part or an affine expression of them, received "
            f"{output!r}"
        )
    terms = terms_of(output)
    for term in map(base_of, terms):
        if not isinstance(term, (LinearPart, One)) and not any(term is s for s in substrates):
            raise DeclarationError(f"output{name} of predict uses a substrate that the machine was not given")
    if all(isinstance(base_of(term), One) for term in terms):
        raise DeclarationError(f"output{name} of predict is a number; give it a substrate")
    shapes = {columns_of(term) for term in terms if not isinstance(base_of(term), One)}
    if len(shapes) > 1:
        raise DeclarationError(
            f"the terms of output{name} of predict have different columns, {sorted(shapes)}; give them the same number"
        )
    return terms


def columns_of(term: Term) -> tuple[int, ...]:
    """Return the number of columns of a term's values as a shape: () for one value per row."""
    base: Any = base_of(term)
    if isinstance(base, LinearPart):
        return base.columns_of_values
    return () if isinstance(base, One) else base.columns


def scale_of_targets(y: Array, weights: Array) -> tuple[float, float]:
    """Return the spread of y and the accepted rounding: for targets without a spread, a millionth of their size."""
    spread, rounding = spread_of(y, weights)
    if spread <= rounding:
        rounding = ACCURATE * (float(np.abs(y).max()) or 1.0)
    return spread, rounding
