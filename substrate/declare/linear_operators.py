r"""Functionals of f: derivatives with coefficients, integrals, a user's own, and what was observed of them.

.. math:: (L f)(x) = \sum_t c_t(x) \, (D^{a_t} f)(g_t(x))

with a number or a function :math:`c_t`, orders :math:`a_t` in the inputs, and a map :math:`g_t` (by default the
identity). That is the left side of a linear differential equation, a difference :math:`f(x + h) - f(x)`, a delay, a
derivative along a direction. Each value is a bounded functional of w where every derivative in it is; its representer
is :math:`L_x \varphi(x)`, and the inner product of two of them is :math:`L_x M_z \, k(x, z)`, so that it needs nothing
of the kernel but its derivatives, and joins the expansion as values of f do (:mod:`substrate.declare.span`).

Integrals are against measures, lengths of boxes, weights of points, and products and sums of both:

.. math:: \int f \, d\mu = \sum_j m_j \int_{B_j} f ,

with boxes :math:`B_j` that may be flat: a column whose two ends are the same is taken at that point. A measure on
points has boxes that are flat in all columns, a product of a length and of points has boxes that are flat in some. The
integral is one bounded functional of w, however many terms it has, with one representer
:math:`\sum_j m_j \int_{B_j} \varphi` (``substrate.kernels.integrals``).

*Observations*, values or any of these,

.. math:: y_i = \ell_i f + e_i

with a bounded linear functional :math:`\ell_i` for each observation. The representers of all of them join the
expansion (:mod:`substrate.declare.span`), so that a machine that penalises w has the optimum over all w, as it has
with values alone. Blocks of observations of different kinds are given side by side,
``Substrate(kernel, [X, Z], [y, slopes], observed=["value", {0: 1}])``.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array, real_array, real_points, strips, to_dense
from substrate.errors import DataError, DeclarationError
from substrate.ingredients import signed_labels
from substrate.kernels.derivatives import checked_orders
from substrate.kernels.kernel import Kernel, checked_boxes, volumes
from substrate.numbers import relative_rounding

__all__ = [
    "DERIVATIVES",
    "VALUE",
    "Functional",
    "Integral",
    "KernelAction",
    "LinearOperator",
    "Measure",
    "Observations",
    "OperatorTerm",
    "add_lengths",
    "bound_rounding",
    "checked_targets",
    "evaluation_points",
    "inner_product_matrix",
    "refuse_matrix",
    "without_single_column",
]


# --- operators --------------------------------------------------------------------------------------------------------

#: Inner products of derivatives lose so many times what inner products of values lose, and twice that for every order.
DERIVATIVES = 8.0

_UNKNOWN = (
    "a KernelAction is known together with values and with itself, not with derivatives, integrals or another action; "
    "state all of them as one action, or leave one of them out"
)

#: The most terms of integrals that are read together.
_MOST_TERMS = 2_000

#: A number, or a function of points (one row each) that returns one number for each.
Coefficient = float | Callable[[Array], Any]


@dataclass(frozen=True)
class OperatorTerm:
    """A coefficient, the orders of a derivative by column, and the map of the points where it is taken."""

    orders: tuple[tuple[Any, int], ...]
    coefficients: tuple[Coefficient, ...] = ()
    at: Callable[[Array], Any] | None = None

    def evaluate_coefficients(self, points: Array) -> Array:
        """Return the product of all coefficients at points."""
        values = np.ones(points.shape[0])
        for coefficient in self.coefficients:
            values = values * _numbers(coefficient, points)
        return values

    def map_points(self, points: Array) -> Array:
        """Return where the derivative is taken."""
        if self.at is None:
            return points
        mapped = real_points(self.at(points), "the points of a linear operator")
        if mapped.shape != points.shape:
            raise DataError(
                f"the map of a linear operator must return points of the shape {points.shape} that it was given, "
                f"received {mapped.shape}"
            )
        return np.asarray(mapped)


@dataclass(frozen=True)
class LinearOperator:
    """A linear operator on functions, to be read by :meth:`substrate.Substrate.apply`.

    Operators are added, subtracted and multiplied by numbers, and by functions of the points from the left.

    Examples
    --------
    The heat operator in (x, t), and a difference over one unit of x:

    >>> from substrate import LinearOperator
    >>> heat = LinearOperator.derivative({1: 1}) - 0.1 * LinearOperator.derivative({0: 2})
    >>> step = LinearOperator.value(at=lambda points: points + [1.0, 0.0]) - LinearOperator.value()
    """

    terms: tuple[OperatorTerm, ...]

    @classmethod
    def derivative(cls, orders: Mapping[Any, int], at: Callable[[Array], Any] | None = None) -> "LinearOperator":
        """Return the derivative of these orders by column; ``at`` maps the points to the places of the derivative."""
        if not isinstance(orders, Mapping):
            raise DeclarationError(f"orders must be a mapping from columns to orders, as {{0: 2}}; received {orders!r}")
        if at is not None and not callable(at):
            raise DeclarationError(f"at must be a function of points, received {at!r}")
        return cls((OperatorTerm(tuple(orders.items()), (), at),))

    @classmethod
    def value(cls, at: Callable[[Array], Any] | None = None) -> "LinearOperator":
        """Return the operator that takes the value of f, where ``at`` maps the points to."""
        return cls.derivative({}, at)

    def __add__(self, other: Any) -> "LinearOperator":
        if not isinstance(other, LinearOperator):
            return NotImplemented
        return LinearOperator(self.terms + other.terms)

    def __sub__(self, other: Any) -> "LinearOperator":
        return self + (-1.0) * other if isinstance(other, LinearOperator) else NotImplemented

    def __neg__(self) -> "LinearOperator":
        return -1.0 * self

    def __rmul__(self, factor: Any) -> "LinearOperator":
        """Multiply by a number or by a function of the points."""
        if not callable(factor):
            factor = float(factor)
        return LinearOperator(tuple(replace(t, coefficients=(factor, *t.coefficients)) for t in self.terms))

    def resolve(self, columns: Callable[[Any], int], n_features: int) -> "LinearOperator":
        """Return the operator with columns by number, checked, without orders of zero."""
        resolved = []
        for term in self.terms:
            orders: dict[int, int] = {}
            for column, order in term.orders:
                for number, checked in checked_orders({columns(column): order}, n_features).items():
                    orders[number] = orders.get(number, 0) + checked
            resolved.append(replace(term, orders=tuple(sorted(orders.items()))))
        return LinearOperator(tuple(resolved))

    @property
    def largest_order(self) -> int:
        """The largest order of a derivative in it."""
        return max((sum(order for _, order in term.orders) for term in self.terms), default=0)

    def refuse(self, kernel: Kernel) -> None:
        """Raise with the reason where functions of the kernel lack one of the derivatives."""
        for term in self.terms:
            kernel.refuse_orders(dict(term.orders))

    def apply_to_constant(self, points: Any) -> Array:
        """Return L 1 at points, the contribution of a bias of one."""
        dense = to_dense(points)
        constants = (term.evaluate_coefficients(dense) for term in self.terms if not term.orders)
        return np.asarray(sum(constants, np.zeros(dense.shape[0])))


@dataclass(frozen=True, eq=False)
class Measure:
    """A finite measure on the inputs, to be read by :meth:`substrate.Substrate.integral`.

    Measures are made by :meth:`of_points`, :meth:`of_box` and :meth:`product`; they are added, and multiplied by
    numbers of either sign.

    Parameters
    ----------
    boxes
        Shape (m, d, 2): m boxes, flat in some columns where the two ends are the same.
    weights
        One number per box.

    Examples
    --------
    The mean of f over three points, and its integral over the first column at two values of the second:

    >>> from substrate import Measure
    >>> mean = Measure.of_points([[0.0, 1.0], [2.0, 1.0], [1.0, 3.0]])
    >>> lines = Measure.product(Measure.of_box([[0.0, 1.0]]), Measure.of_points([[0.0], [2.0]], [1.0, 1.0]))
    >>> float(mean.mass), float(lines.mass), lines.n_features
    (1.0, 2.0, 2)
    """

    boxes: Array
    weights: Array

    @classmethod
    def of_points(cls, points: Any, weights: Any = None) -> "Measure":
        """Return weights at points; equal ones that sum to one, so that the integral is the mean, if none are given."""
        rows = np.asarray(real_points(points, "points"))
        if weights is None:
            masses = np.full(rows.shape[0], 1.0 / rows.shape[0])
        else:
            masses = real_array(weights, "weights", ndim=1)
            if masses.size != rows.shape[0]:
                raise DataError(
                    f"weights must have one entry per point: expected {rows.shape[0]}, received {masses.size}"
                )
        return cls(np.stack([rows, rows], axis=-1), masses)

    @classmethod
    def of_box(cls, box: Any) -> "Measure":
        """Return the volume on a box, given by its lower and upper end for each column."""
        ends = real_array(box, "box", ndim=2)
        return cls(checked_boxes(ends, ends.shape[0]), np.ones(1))

    @classmethod
    def product(cls, *measures: "Measure") -> "Measure":
        """Return the product of measures on different columns; the columns of the first come first."""
        if not measures or not all(isinstance(measure, Measure) for measure in measures):
            raise DeclarationError(f"a product is made of measures, at least one; received {measures!r}")
        boxes, weights = measures[0].boxes, measures[0].weights
        for factor in measures[1:]:
            first, second = (grid.ravel() for grid in np.indices((weights.size, factor.weights.size)))
            boxes = np.concatenate([boxes[first], factor.boxes[second]], axis=1)
            weights = weights[first] * factor.weights[second]
        return cls(boxes, weights)

    @property
    def n_features(self) -> int:
        """The number of columns of the inputs."""
        return int(self.boxes.shape[1])

    @property
    def is_discrete(self) -> bool:
        """Return whether the measure is on points alone."""
        return _are_flat(self.boxes)

    @property
    def mass(self) -> float:
        """The integral of one."""
        return float(self.weights @ volumes(self.boxes))

    def __add__(self, other: Any) -> "Measure":
        if not isinstance(other, Measure):
            return NotImplemented
        if other.n_features != self.n_features:
            raise DataError(f"measures on {self.n_features} and on {other.n_features} columns have no sum")
        return Measure(np.concatenate([self.boxes, other.boxes]), np.concatenate([self.weights, other.weights]))

    def __rmul__(self, factor: Any) -> "Measure":
        return Measure(self.boxes, float(factor) * self.weights)

    def __sub__(self, other: Any) -> "Measure":
        return self + (-1.0) * other if isinstance(other, Measure) else NotImplemented


@dataclass(frozen=True, eq=False)
class Integral:
    """The integral of f against measures; its points are their numbers, one row each."""

    measures: tuple[Measure, ...]

    largest_order = 0

    @classmethod
    def of(cls, domain: Any, n_features: int | None = None) -> "Integral":
        """Return the integrals against a measure or several, or over a box or several, on so many columns."""
        domain = (domain,) if isinstance(domain, Measure) else domain
        measures = tuple(domain) if isinstance(domain, Iterable) else ()
        if not any(isinstance(measure, Measure) for measure in measures):
            ends = real_array(domain, "box", ndim=(2, 3))
            boxes = checked_boxes(ends, ends.shape[-2] if n_features is None else n_features)
            return cls(tuple(Measure(box[None], np.ones(1)) for box in boxes))
        for measure in measures:
            if not isinstance(measure, Measure):
                raise DeclarationError(f"expected a Measure, as Measure.of_box([[0.0, 1.0]]), received {measure!r}")
            if n_features not in (None, measure.n_features):
                raise DataError(
                    f"the measure is on {measure.n_features} columns, the training points have {n_features}"
                )
        return cls(measures)

    def apply_to_constant(self, points: Any) -> Array:
        """Return the masses of the measures."""
        return np.array([self.measures[number].mass for number in _numbers_of(points)])

    def take_apart(self, points: Any) -> tuple[Any, Array]:
        """Return the weights of the boxes in each integral, and the boxes."""
        chosen = [self.measures[number] for number in _numbers_of(points)]
        ends = np.cumsum([0, *(measure.weights.size for measure in chosen)])
        weights = sp.csr_array(
            (np.concatenate([m.weights for m in chosen]), np.arange(ends[-1]), ends), (len(chosen), ends[-1])
        )
        return weights, np.concatenate([measure.boxes for measure in chosen])

    def parts(self, points: Any) -> Iterator[tuple[Any, Array]]:
        """Yield integrals with few boxes in all, so that no matrix of all pairs of boxes is stored."""
        start, terms = 0, 0
        for row, number in enumerate(_numbers_of(points)):
            size = self.measures[number].weights.size
            if terms and terms + size > _MOST_TERMS:
                yield self.take_apart(points[start:row])
                start, terms = row, 0
            terms += size
        yield self.take_apart(points[start:])

    @property
    def terms_of_each(self) -> int:
        """The largest number of terms that are added up in one integral."""
        return max(measure.weights.size for measure in self.measures)


def _are_flat(boxes: Array) -> bool:
    """Return whether boxes are points."""
    return bool((boxes[..., 0] == boxes[..., 1]).all())


def _numbers_of(points: Any) -> list[int]:
    return [int(number) for number in np.asarray(points)[:, 0]]


@dataclass(frozen=True, eq=False)
class KernelAction:
    r"""A linear operator defined by its action on the kernel, for :meth:`substrate.Substrate.apply`.

    For operators that are no sum of derivatives, such as a blur or a transform with a closed form. Its values are those
    of functionals :math:`\ell_r`, one for each row r of an array that only the functions below know the meaning of.
    They are exact by definition, as the values of a function that is a kernel are: a wrong formula is another operator,
    or none, which is refused where the matrix of all inner products has a negative eigenvalue.

    Parameters
    ----------
    once
        A function of rows and points that returns the matrix of :math:`\ell_r \, k(\cdot, z)`.
    twice
        A function of rows and rows that returns the matrix of :math:`\ell_r \ell_q \, k`, in one argument each.
    of_one
        What it makes of the constant one: a number, or a function of rows that returns one number for each.

    Examples
    --------
    The mean of f under a bell of width t about r, for ``RBF(s)`` in one column:

    >>> import numpy as np
    >>> from substrate import KernelAction
    >>> def bell(width, rows, others):
    ...     return np.exp(-((rows - others.T) ** 2) / width) / np.sqrt(width)
    >>> s, t = 1.0, 0.3
    >>> blur = KernelAction(
    ...     once=lambda rows, points: s * bell(s**2 + 2 * t**2, rows, points),
    ...     twice=lambda rows, others: s * bell(s**2 + 4 * t**2, rows, others),
    ...     of_one=1.0,
    ... )
    """

    once: Callable[[Array, Array], Any]
    twice: Callable[[Array, Array], Any]
    of_one: Coefficient = 0.0

    largest_order = 0

    def __post_init__(self) -> None:
        if not callable(self.once) or not callable(self.twice):
            raise DeclarationError("once and twice are functions of rows that return matrices of what k becomes")

    def apply_to_constant(self, points: Any) -> Array:
        """Return the contribution of a bias of one."""
        rows = to_dense(points)
        return np.asarray(np.broadcast_to(_numbers(self.of_one, rows), (rows.shape[0],)), dtype=np.float64)

    def act(self, rows: Array, right: "Functional", columns: Array) -> Array:
        """Return its inner products with values, with sums of values, and with itself; refuse all others."""
        if right is self:
            return _check_matrix(self.twice(rows, columns), rows, columns)
        if isinstance(right, LinearOperator) and not right.largest_order:
            total = np.zeros((rows.shape[0], columns.shape[0]))
            for term in right.terms:
                at = term.map_points(columns)
                total += _check_matrix(self.once(rows, at), rows, at) * term.evaluate_coefficients(columns)
            return total
        raise DeclarationError(_UNKNOWN)


def _check_matrix(values: Any, rows: Array, columns: Array) -> Array:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.shape != (rows.shape[0], columns.shape[0]):
        raise DataError(
            f"a KernelAction must return one number for every pair: expected {(rows.shape[0], columns.shape[0])}, "
            f"received {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise DataError("a KernelAction returned NaN or infinity at these rows")
    return matrix


#: What a machine reads: an operator at points, integrals against measures, or an action on k.
Functional = LinearOperator | Integral | KernelAction


#: What reads f itself.
VALUE = LinearOperator.value()


def inner_product_matrix(kernel: Kernel, left: Functional, P: Any, right: Functional, Q: Any) -> Array:
    """Return L_x M_z k at all pairs of points, L the left operator on x and M the right one on z."""
    refuse_matrix(kernel)
    if isinstance(left, Integral):
        return np.vstack([weights @ _integrate(kernel, boxes, right, Q) for weights, boxes in left.parts(P)])
    if isinstance(left, KernelAction) and not isinstance(right, Integral):
        return left.act(to_dense(P), right, to_dense(Q))
    if isinstance(left, KernelAction) or isinstance(right, (Integral, KernelAction)):
        return inner_product_matrix(kernel, right, Q, left, P).T
    rows = to_dense(P)
    columns = to_dense(Q)
    total = np.zeros((rows.shape[0], columns.shape[0]))
    for first in left.terms:
        for second in right.terms:
            at, against = first.map_points(rows), second.map_points(columns)
            if first.orders or second.orders:
                values = kernel.derivative(at, against, dict(first.orders), dict(second.orders))
            else:  # values need no derivatives
                values = kernel(at, against)
            total += (
                first.evaluate_coefficients(rows)[:, None] * values * second.evaluate_coefficients(columns)[None, :]
            )
    return total


def _integrate(kernel: Kernel, boxes: Array, right: Functional, Q: Any) -> Array:
    """Return the inner products of integrals over boxes with what another functional reads."""
    if _are_flat(boxes):  # which needs no integral of the kernel
        return inner_product_matrix(kernel, VALUE, boxes[..., 0], right, Q)
    if isinstance(right, KernelAction):
        raise DeclarationError(_UNKNOWN)
    if isinstance(right, Integral):
        columns = [
            weights
            @ (
                kernel.integral(right_boxes[..., 0], boxes, {})
                if _are_flat(right_boxes)
                else kernel.double_integral(right_boxes, boxes)
            )
            for weights, right_boxes in right.parts(Q)
        ]
        return np.vstack(columns).T
    points = to_dense(Q)
    total = np.zeros((points.shape[0], boxes.shape[0]))
    for term in right.terms:
        values = kernel.integral(term.map_points(points), boxes, dict(term.orders))
        total += term.evaluate_coefficients(points)[:, None] * values
    return total.T


def refuse_matrix(kernel: Kernel) -> None:
    """Raise for a precomputed matrix, whose rows are no points that an operator could be applied at."""
    if kernel.pairwise:
        raise DeclarationError(
            "a precomputed matrix has no points at which operators, integrals or averages could be taken; pass X and "
            "the kernel itself, or sum values s.f(rows) with weights of your own"
        )


def bound_rounding(kernel: Kernel, readings: Iterable[tuple[Functional | None, Any]]) -> float:
    """Return the rounding of inner products of what is read, in units of the lengths of both (:func:`add_lengths`).

    ``readings`` are operators with their points; None stands for values.
    """
    pairs = [pair for pair in readings if not isinstance(pair[0], KernelAction)]  # exact by definition
    places = [at if operator is None else evaluation_points(operator, at) for operator, at in pairs]
    p = max((float(kernel.rounding(points)) for points in places), default=0.0)
    operators = [operator for operator, _ in pairs if operator is not None and operator is not VALUE]
    if not operators:
        return p
    order = max(operator.largest_order for operator in operators)
    added = max((operator.terms_of_each for operator in operators if isinstance(operator, Integral)), default=0)
    return DERIVATIVES * 2.0 ** max(order, 1) * p + relative_rounding(2.0 * added)


def add_lengths(kernel: Kernel, operator: Functional, P: Any) -> Array:
    """Return the sum of the lengths of the terms of L_x phi(x), which cancellation in L does not make smaller."""
    if isinstance(operator, KernelAction):
        rows = to_dense(P)
        blocks = [np.diagonal(operator.act(rows[s], operator, rows[s])) for s in strips(len(rows), 64)]
        return np.sqrt(np.maximum(np.concatenate(blocks), 0.0))
    if isinstance(operator, Integral):
        # no longer than the integral of the lengths of phi, which is what rounding is relative to
        weights, boxes = operator.take_apart(P)
        lower, upper = boxes[..., 0], boxes[..., 1]
        farthest = np.where(np.abs(lower) > np.abs(upper), lower, upper)  # where k(x, x) is largest
        return np.asarray(abs(weights) @ (volumes(boxes) * np.sqrt(np.asarray(kernel.diag(farthest)))))
    points = to_dense(P)
    total = np.zeros(points.shape[0])
    for term in operator.terms:
        orders, at = dict(term.orders), term.map_points(points)
        if orders:
            blocks = [np.diagonal(kernel.derivative(at[s], at[s], orders, orders)) for s in strips(len(at), 64)]
            squares = np.concatenate(blocks)
        else:
            squares = np.asarray(kernel.diag(at))
        total += np.abs(term.evaluate_coefficients(points)) * np.sqrt(np.maximum(squares, 0.0))
    return total


def evaluation_points(operator: Functional, P: Any) -> Array:
    """Return the points at which the kernel is evaluated: where the terms map them, or the corners of boxes."""
    if isinstance(operator, KernelAction):
        return np.empty((0, 0))
    if isinstance(operator, Integral):
        _, boxes = operator.take_apart(P)
        return np.vstack([boxes[..., 0], boxes[..., 1]])
    return np.vstack([term.map_points(to_dense(P)) for term in operator.terms])


def _numbers(coefficient: Coefficient, points: Array) -> Any:
    if not callable(coefficient):
        return coefficient
    values = np.asarray(coefficient(points), dtype=np.float64)
    if values.shape not in ((), (points.shape[0],)):
        raise DataError(
            f"a coefficient of a linear operator must be one number per point: expected shape {(points.shape[0],)}, "
            f"received {values.shape}"
        )
    if not np.isfinite(values).all():
        raise DataError("a coefficient of a linear operator contains NaN or infinity at these points")
    return values


# --- observations -----------------------------------------------------------------------------------------------------

_KINDS = (
    "'value', 'integral' (at boxes or measures), 'average' (at groups of points), orders of a derivative by column as "
    "{0: 1}, a LinearOperator or a KernelAction"
)


@dataclass(frozen=True, eq=False)
class ObservedBlock:
    """Observations of one kind: where they were made, as points, boxes or measures, and how many there are."""

    kind: Any
    at: Any
    count: int

    @classmethod
    def of(cls, kind: Any, at: Any, name: str) -> "ObservedBlock":
        """Return a block with its places checked; ``name`` is their name in a refusal."""
        if kind == "average":
            groups = at if isinstance(at, (list, tuple)) or np.ndim(at) == 3 else ()
            if not len(groups) or any(np.ndim(group) != 2 for group in groups):
                raise DataError(
                    f"averages are observed over groups of points: {name} must be a list of arrays of points, one "
                    f"array per observation, received {type(at).__name__}"
                )
            return cls("integral", tuple(Measure.of_points(group) for group in groups), len(groups))
        if kind == "integral":
            measures = Integral.of(at).measures
            return cls(kind, measures, len(measures))
        if isinstance(kind, Mapping):
            kind = LinearOperator.derivative(kind)
        if not isinstance(kind, (LinearOperator, KernelAction)) and kind != "value":
            raise DeclarationError(f"observed is {_KINDS}, or a list of these; received {kind!r}")
        points = to_dense(real_points(at, name))
        return cls(kind, points, points.shape[0])

    @property
    def has_values(self) -> bool:
        """Return whether f itself was observed."""
        return isinstance(self.kind, str) and self.kind == "value"

    def locate(self) -> Array:
        """Return points of the inputs at which something was observed: those given, or the middles of boxes."""
        if self.kind != "integral":
            return np.asarray(self.at)
        boxes = np.concatenate([measure.boxes for measure in self.at])
        return np.asarray(0.5 * (boxes[..., 0] + boxes[..., 1]))

    def read(self, reader: Any) -> Any:
        """Return the values of a substrate, declared or solved, for the observations."""
        if self.has_values:
            return reader.f(self.at) if hasattr(reader, "holders") else reader.predict(self.at)
        if self.kind == "integral":
            return reader.integral(self.at)
        return reader.apply(self.kind, self.at)

    def functional(self, substrate: Any) -> tuple[Functional, Any]:
        """Return what reads the observations of a substrate, and its rows."""
        if self.has_values:
            return VALUE, self.at
        if self.kind == "integral":
            functional, rows = substrate.resolve_integral(self.at)
            return functional, rows
        return substrate.resolve_operator(self.kind), self.at


@dataclass(frozen=True, eq=False)
class Observations:
    """All observations of a substrate, block by block, with their targets.

    ``points`` are the training points of the substrate: where values were observed, if there are two of them, and
    otherwise where anything was; ``values`` are the targets there, or None.
    """

    blocks: tuple[ObservedBlock, ...]
    targets: Array
    points: Array
    values: Array | None
    column_names: tuple[str, ...]

    @classmethod
    def of(cls, X: Any, y: Any, observed: Any) -> "Observations":
        """Return what the arguments of a substrate declare."""
        several = isinstance(observed, (list, tuple))
        kinds = list(observed) if several else [observed]
        places = _as_blocks(X, len(kinds), "X") if several else [X]
        blocks = [
            ObservedBlock.of(kind, at, f"X[{number}]" if several else "X")
            for number, (kind, at) in enumerate(zip(kinds, places, strict=True))
        ]
        if not blocks:
            raise DeclarationError(f"observed is an empty list; name what was observed: {_KINDS}")
        targets = _check_targets(y, [block.count for block in blocks], several)
        located = [block.locate() for block in blocks]
        widths = {points.shape[1] for points in located}
        if len(widths) > 1:
            raise DataError(f"all observations must be on the same columns, received {sorted(widths)} columns")
        of_values = [number for number, block in enumerate(blocks) if block.has_values]
        edges = np.cumsum([0, *(block.count for block in blocks)])
        points, values = np.concatenate(located), None
        if sum(blocks[number].count for number in of_values) >= 2:
            points = np.concatenate([located[number] for number in of_values])
            values = np.concatenate([targets[edges[number] : edges[number + 1]] for number in of_values])
        names = next((tuple(map(str, at.columns)) for at in places if hasattr(at, "columns")), ())
        return cls(blocks=tuple(blocks), targets=targets, points=points, values=values, column_names=names)

    @property
    def are_values(self) -> Any:
        """Return whether each observation is a value of f, as an array."""
        return np.concatenate([np.full(block.count, block.has_values) for block in self.blocks])

    def read(self, substrate: Any) -> Any:
        """Return the observed quantities as an expression, block after block."""
        import cvxpy as cp

        readings = [block.read(substrate) for block in self.blocks]
        return readings[0] if len(readings) == 1 else (cp.hstack if self.targets.ndim == 1 else cp.vstack)(readings)

    def evaluate(self, expansion: Any) -> Array:
        """Return the values of a fitted function for the observations."""
        return np.concatenate([np.asarray(block.read(expansion)) for block in self.blocks])


def _as_blocks(values: Any, count: int, name: str) -> Sequence[Any]:
    if not isinstance(values, (list, tuple)) or len(values) != count:
        received = f"{len(values)} entries" if isinstance(values, (list, tuple)) else type(values).__name__
        raise DataError(
            f"{name} must be a list with one entry for each of the {count} kinds observed, received {received}"
        )
    return values


def _check_targets(y: Any, counts: list[int], several: bool) -> Array:
    """Return one target per observation; of several blocks a list of them, or all in one."""
    if y is None:
        raise DataError("observations have targets; give y, or leave observed out")
    if several and isinstance(y, (list, tuple)) and any(np.ndim(y_of_block) for y_of_block in y):
        blocks = [
            without_single_column(real_array(y_of_block, f"y[{k}]", ndim=(1, 2)), f"y[{k}]")
            for k, y_of_block in enumerate(_as_blocks(y, len(counts), "y"))
        ]
        for k, (block, count) in enumerate(zip(blocks, counts, strict=True)):
            if block.shape[0] != count:
                raise DataError(
                    f"y[{k}] must have one entry per observation: expected {count}, received {block.shape[0]}"
                )
        shapes = {block.shape[1:] for block in blocks}
        if len(shapes) > 1:
            raise DataError(f"all blocks of y must have the same columns, received the shapes {sorted(shapes)}")
        return np.concatenate(blocks)
    targets = without_single_column(real_array(y, "y", ndim=(1, 2)))
    if targets.shape[0] != sum(counts):
        raise DataError(f"y must have one entry per observation: expected {sum(counts)}, received {targets.shape[0]}")
    return targets


def without_single_column(targets: Array, name: str = "y") -> Array:
    """Return targets of shape (n, 1) as a vector, with scikit-learn's warning, and others unchanged.

    A column combined with a vector of values is broadcast: ``y - s.f()`` would be an n x n matrix.
    """
    if targets.ndim != 2 or targets.shape[1] != 1:
        return targets
    from sklearn.exceptions import DataConversionWarning

    warnings.warn(
        f"{name} of shape {targets.shape} is one column, where one number per row was expected; it is used as "
        f"{name}.ravel(). Give it so, also in terms of your own such as y - s.f()",
        DataConversionWarning,
        stacklevel=4,
    )
    return targets[:, 0]


def checked_targets(y: Any, n: int, task: str) -> Array:
    """Return one target per point, or a column of them per output."""
    targets = without_single_column(real_array(y, "y", ndim=(1, 2)))
    if targets.shape[0] != n:
        raise DataError(f"y must have one entry per point: expected {n}, received {targets.shape[0]}")
    if task == "classification" and targets.ndim == 2:
        return np.column_stack([signed_labels(column, n, f"y[:, {j}]") for j, column in enumerate(targets.T)])
    return signed_labels(targets, n) if task == "classification" else targets
