r"""Shapes that hold everywhere in a box: what a machine reads at all points, and the constraints on it.

``s.f(everywhere)`` stands for the function, not for values at points: with
:math:`(D f)(x) = \sum_t c_t\, (D^{a_t} f_t)(x)` of one or several substrates, ``D f >= c`` asks for

.. math:: (D f)(x) \ge c \quad\text{for all } x \text{ of the box,}

infinitely many constraints, which :mod:`substrate.shapes.shaped_machine` solves by finitely many and proves by
:mod:`substrate.shapes.shape_oracle`.
"""

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, real_array, to_dense
from substrate.declare.linear_operators import LinearOperator
from substrate.declare.place_holders import Region
from substrate.errors import DataError, DeclarationError
from substrate.shapes.shape_oracle import ShapeConstraint, ShapeTerm
from substrate.shapes.shaped_machine import solve_shaped

__all__ = [
    "Everywhere",
    "ShapeExpression",
]

_REFUSED = (
    "what holds everywhere is compared with a number by >= or <=, as s.gradient(everywhere, 0) >= 0; received {}. For "
    "other convex terms give points in place of everywhere"
)


@dataclass(frozen=True, eq=False)
class Everywhere(Region):
    """All points of a box, in place of points in ``s.f``, ``s.component``, ``s.gradient`` and ``s.derivative``.

    Parameters
    ----------
    box
        The lower and the upper end of every column, of shape (d, 2); a mapping from columns, by number or name, to
        pairs, where the others have the range of the training rows; or None, the box of the training rows.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from substrate import Everywhere, Machine, Substrate
    >>> from substrate.kernels import RBF
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> s = Substrate(RBF(1.0), X, [0.0, 1.0, 0.8, 2.0])
    >>> rising = [s.gradient(Everywhere(), 0) >= 0]
    >>> result = Machine(s, minimize=5 * cp.sum_squares(s.e) + 0.5 * s.squared_norm, subject_to=rising).solve()
    >>> bool(result.certificate.holds)
    True
    """

    box: Any = None

    def __post_init__(self) -> None:
        if self.box is not None and not isinstance(self.box, Mapping):
            object.__setattr__(self, "box", _check_box(np.atleast_2d(real_array(self.box, "box", ndim=(1, 2)))))

    def limits(self, substrates: tuple[Any, ...]) -> Array:
        """Return the lower and the upper end of every column, (d, 2), for expressions of these substrates."""
        X = np.vstack([to_dense(s.X) for s in substrates])
        rows = np.column_stack([X.min(axis=0), X.max(axis=0)])
        if isinstance(self.box, np.ndarray):
            if self.box.shape != rows.shape:
                raise DataError(
                    f"box must have one pair for each of {rows.shape[0]} columns, received {self.box.shape[0]}"
                )
            return self.box
        for column, pair in (self.box or {}).items():
            rows[substrates[0].column_number(column)] = real_array(pair, f"box[{column!r}]", ndim=1)
        return _check_box(rows)

    def read(
        self, substrate: Any, operator: LinearOperator, part: int | None = None, hessian: tuple[int, ...] = ()
    ) -> "ShapeExpression":
        """Return what an operator with constant coefficients makes of f; or the Hessian of f in some columns."""
        if substrate.columns:
            raise DeclarationError(
                "a shape that holds everywhere is of a substrate with one column of y; give each output a substrate of "
                "its own, as in Machine(s1, s2, ...)"
            )
        terms = []
        for term in operator.terms:
            if term.at is not None or any(callable(c) for c in term.coefficients):
                raise DeclarationError(
                    "an operator that holds everywhere has numbers as coefficients, and is taken at the point itself; "
                    "give points for others"
                )
            factor = float(math.prod(c for c in term.coefficients if not callable(c)))
            terms.append(ShapeTerm(factor, substrate, tuple(term.orders), part))
        return ShapeExpression(self, tuple(terms), hessian=hessian)

    def solve(self, machine: Any, solver: str | None, verbose: bool, time_limit: float | None) -> Any:
        """Solve a machine with shapes in boxes by cutting planes, see :mod:`substrate.shapes.shaped_machine`."""
        return solve_shaped(machine, solver, verbose, time_limit)


def _check_box(box: Array) -> Array:
    if box.ndim != 2 or box.shape[1] != 2 or not np.isfinite(box).all() or (box[:, 0] > box[:, 1]).any():
        raise DataError(
            f"box must be a finite lower and upper end for every column, shape (d, 2), lower <= upper; received {box!r}"
        )
    return box


@dataclass(frozen=True, eq=False)
class ShapeExpression:
    """A function on a box that is linear in f: a sum of terms, and a number.

    With ``hessian`` it is the matrix of second derivatives of f in these columns; ``>= 0`` makes f convex in them
    jointly.
    """

    region: Everywhere
    terms: tuple[ShapeTerm, ...]
    constant: float = 0.0
    hessian: tuple[int, ...] = ()

    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __add__(self, other: Any) -> "ShapeExpression":
        if self.hessian or getattr(other, "hessian", ()):
            return NotImplemented
        if isinstance(other, numbers.Real):
            return ShapeExpression(self.region, self.terms, self.constant + float(other))
        if not isinstance(other, ShapeExpression):
            return NotImplemented
        if other.region is not self.region:
            raise DeclarationError("both sides must hold in the same box: use one Everywhere for both")
        return ShapeExpression(self.region, self.terms + other.terms, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> "ShapeExpression":
        return self * -1.0

    def __sub__(self, other: Any) -> "ShapeExpression":
        return self + (-other if isinstance(other, ShapeExpression) else -_number(other))

    def __rsub__(self, other: Any) -> "ShapeExpression":
        return -self + _number(other)

    def __mul__(self, factor: Any) -> "ShapeExpression":
        c = _number(factor)
        terms = tuple(ShapeTerm(c * t.factor, t.substrate, t.orders, t.part) for t in self.terms)
        return ShapeExpression(self.region, terms, c * self.constant, self.hessian)

    __rmul__ = __mul__

    def __ge__(self, bound: Any) -> "ShapeConstraint":
        if isinstance(bound, ShapeExpression):
            return (self - bound) >= 0.0
        return ShapeConstraint(self.region, self.terms, _number(bound) - self.constant, self.hessian)

    def __le__(self, bound: Any) -> "ShapeConstraint":
        return -self >= (-bound if isinstance(bound, ShapeExpression) else -_number(bound))

    __rshift__, __lshift__ = __ge__, __le__

    def __eq__(self, other: Any) -> Any:
        raise DeclarationError(
            "an equality that holds everywhere leaves no function strictly inside, and none can be proved; give points "
            "in place of everywhere, or a band by >= and <="
        )


def _number(bound: Any) -> float:
    if isinstance(bound, bool) or not isinstance(bound, numbers.Real) or not math.isfinite(float(bound)):
        raise DeclarationError(_REFUSED.format(repr(bound)))
    return float(bound)
