r"""What the expansion of a substrate is built on: the training rows, and the points that a machine mentions elsewhere.

A machine reads w by inner products :math:`\langle w, r_j \rangle`: :math:`r = \varphi(p)` for the value of f at p,
:math:`\varphi^l(p)` for component l, and :math:`L \varphi(p)` for :math:`L f`, L a derivative or another linear
operator (:mod:`substrate.declare.linear_operators`). Where it penalises the norm of w, the part of w that is
orthogonal to all :math:`r_j` changes no reading and only adds to the norm, so that the optimum over all w is an
expansion

.. math:: w = \sum_i a_i \varphi(x_i) + \sum_j a'_j r_j

on every point mentioned ([Scholkopf2001]_ theorem 1, the representer theorem). Points that occur twice join once. A
component that is mentioned has separate coefficients, at the training rows too: with :math:`w = (w^1, \dots, w^d)` and
:math:`\varphi = (\varphi^1, \dots, \varphi^d)` the optimum has :math:`w^l = \sum_i (a_i + a^l_i) \varphi^l(x_i)`, where
:math:`a^l` belongs to the terms in component l. (In [Pelckmans2005]_ eq. (8) all components share :math:`a`; that is
the machine where w is not penalised, where alpha is mentioned.)

*The bias.* Values of f contain b, other readings do not. A change u of w that adds one number to all values of f, and
nothing to the other readings, is made up for by b. The optimum has no such part: the coefficients of values of f sum to
zero, over all points and not over the training rows alone. Where the machine mentions b itself, nothing makes up for u,
and the coefficients need not sum to zero.

Where w is not penalised, the readings elsewhere do not determine the shape of f between them; then the training rows
span it, which is part of the model and is on its certificate. Where the substrate has a basis, its vectors span f, and
nothing joins; their coefficients need not sum to zero.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, check_memory, is_sparse, real_points, row_blocks, to_dense
from substrate.declare.linear_operators import (
    VALUE,
    Functional,
    LinearOperator,
    inner_product_matrix,
)
from substrate.declare.place_holders import PlaceHolder
from substrate.errors import DataError

__all__ = [
    "NORMS",
    "READ",
    "Further",
    "KernelExpansion",
    "Numbers",
    "Reading",
    "SubstrateSpan",
    "inner_products",
    "keys_of",
    "penalises",
    "points_of",
    "reading_of",
]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """f without its bias, its component ``part`` or what an operator makes of it, at points (None: training)."""

    points: Any = None
    part: int | None = None
    operator: Functional | None = None


def reading_of(holder: PlaceHolder) -> Reading:
    """Return what a place-holder of values reads."""
    role, part = holder.role, holder.part
    return Reading(holder.points, part if role == "component" else None, part if role == "operator" else None)


def inner_products(substrate: Any, left: Reading, right: Reading) -> Array:
    """Return the matrix of all inner products of the representers of two readings."""
    P, Q = points_of(substrate, left), points_of(substrate, right)
    if left.part is not None and right.part is not None and left.part != right.part:
        return np.zeros((P.shape[0], Q.shape[0]))
    component = right.part if left.part is None else left.part
    kernel = substrate.kernel if component is None else substrate.components[component]
    if left.operator is not None or right.operator is not None:
        return inner_product_matrix(kernel, left.operator or VALUE, P, right.operator or VALUE, Q)
    if right.points is substrate.basis:
        return np.asarray(substrate.kernel_rows(left.points, component))
    return np.asarray(kernel(P) if P is Q else kernel(P, Q))


def points_of(substrate: Any, reading: Reading) -> Any:
    """Return the points of a reading."""
    return substrate.X if reading.points is None else reading.points


Numbers = NDArray[np.intp]
#: Place-holders that read w at points.
READ = ("f", "component", "operator")


def _join_points(
    substrate: Any, mentioned: list[PlaceHolder], separate: bool
) -> tuple[list[Reading], dict[int, Numbers]]:
    """Return readings at the mentioned points that are not training rows, each once, and the representers of a mention.

    ``separate`` says whether one of several components that is read at a training row has its own representer there, as
    operators have, or the coefficient that all components share.
    """
    separate = separate and len(substrate.components) > 1
    has_own = {"f": False, "component": separate, "operator": True}
    kinds: dict[tuple[str, Any], list[PlaceHolder]] = {}
    for holder in mentioned:
        if holder.points is not None or has_own[holder.role]:
            kinds.setdefault((holder.role, holder.part), []).append(holder)
    # further values of f first, then components, then operators in order of mention
    order = sorted(kinds, key=lambda kind: (READ.index(kind[0]), kind[1] if kind[0] == "component" else 0))
    training: dict[bytes, int] = {}
    for row, key in enumerate(keys_of(substrate.X) if kinds else ()):
        training.setdefault(key, row)
    readings, places, count = list[Reading](), dict[int, Numbers](), substrate.n
    for kind in order:
        numbers, blocks = {} if has_own[kind[0]] else training.copy(), []
        for holder in kinds[kind]:
            points, at, fresh = substrate.X if holder.points is None else holder.points, [], []
            for row, key in enumerate(keys_of(points)):
                if key not in numbers:
                    numbers[key] = count
                    count += 1
                    fresh.append(row)
                at.append(numbers[key])
            blocks.append(points[fresh])
            rows = np.array(at, dtype=np.intp)
            if kind[0] != "component" or (rows >= substrate.n).all():  # a shared coefficient is no component's own
                places[id(holder.leaf)] = rows
        if any(block.shape[0] for block in blocks):
            readings.append(replace(reading_of(kinds[kind][0]), points=_stack(blocks)))
    return readings, places


def _count_in_words(substrate: Any, readings: list[Reading]) -> str:
    """Return the number of representers, in words."""
    count = {"further points": 0, "points of components": 0, "functionals": 0}
    for reading in readings:
        beyond = "further points" if reading.part is None else "points of components"
        count["functionals" if reading.operator is not None else beyond] += points_of(substrate, reading).shape[0]
    return ", ".join(f"{number} {what}" for what, number in count.items() if number)


def keys_of(points: Any) -> Iterable[bytes]:
    """Yield one key per row, equal for equal rows."""
    for rows in row_blocks(points.shape[0], points.shape[1]):
        block = to_dense(points[rows])
        yield from (row.tobytes() for row in np.ascontiguousarray(block, dtype=np.float64) + 0.0)  # one zero, not two


def _stack(blocks: list[Any]) -> Any:
    if not any(is_sparse(block) for block in blocks):
        return np.vstack(blocks)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))


#: Place-holders that penalise w.
NORMS = frozenset({"squared_norm", "norm"})
_SHARED = "components share the coefficients of the training rows"


def penalises(roles: Iterable[str]) -> bool:
    """Return whether a machine that mentions these roles penalises w."""
    return not NORMS.isdisjoint(roles)


@dataclass(frozen=True, slots=True, eq=False)
class SubstrateSpan:
    """The readings whose representers carry coefficients: the training rows or the basis, then further values of f.

    ``values`` counts the representers of values of f; ``balanced`` says whether their coefficients sum to zero;
    ``places`` gives the representers of a mention, where each of its points has one; ``fact`` is for the certificate.
    """

    substrate: Any
    readings: tuple[Reading, ...]
    values: int
    balanced: bool
    places: dict[int, Numbers]
    fact: str = ""

    @classmethod
    def of(cls, substrate: Any, mentioned: tuple[PlaceHolder, ...]) -> "SubstrateSpan":
        """Return the span of a machine that mentions these place-holders."""
        if substrate.basis is not None:
            return cls(
                substrate=substrate,
                readings=(Reading(substrate.basis),),
                values=substrate.basis.shape[0],
                balanced=False,
                places={},
            )
        roles = {holder.role for holder in mentioned}
        why = _why_not(substrate, roles)
        further, places = _join_points(substrate, [holder for holder in mentioned if holder.role in READ], not why)
        free = substrate.bias and "b" in roles and not _is_on_training_rows(substrate, roles)
        balanced = substrate.bias and not free
        if why or not further:
            fact = f"the training rows: {why}" if why and further else ""
            if why and penalises(roles) and "component" in roles and len(substrate.components) > 1:
                fact = f"the training rows: {why}; {_SHARED}"
            fact = _with_bias(fact or "the training rows", free) if fact or free else ""
            return cls(
                substrate=substrate,
                readings=(Reading(),),
                values=substrate.n,
                balanced=balanced,
                places={} if why else places,
                fact=fact,
            )
        others = f"what else the machine mentions, {_count_in_words(substrate, further)}"
        fact = f"{substrate.n} training rows and {others}: the optimum over all w"
        return cls(
            substrate=substrate,
            readings=(Reading(), *further),
            values=substrate.n + sum(r.points.shape[0] for r in further if r.operator is None and r.part is None),
            balanced=balanced,
            places=places,
            fact=_with_bias(fact, free),
        )

    @property
    def sizes(self) -> list[int]:
        """The number of representers of every reading."""
        return [points_of(self.substrate, reading).shape[0] for reading in self.readings]

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return sum(self.sizes)

    @property
    def rank(self) -> int:
        """The largest rank that the kernel can have on the representers, centred where they are, in exact arithmetic.

        Equal points count once; a matrix or a function that defines the kernel has the rank of its values, so that
        what rounding hides is zero.
        """
        kernel, points = self.substrate.kernel, points_of(self.substrate, self.readings[0])
        if kernel.pairwise or not kernel.diag(points).any():
            return 0
        free = len(set(keys_of(points))) + sum(self.sizes[1:]) - self.balanced
        if self.substrate.basis is not None:
            free = min(free, self.substrate.n - self.substrate.bias)
        finite = kernel.rank(points.shape[1])
        return free if finite is None else min(free, finite)

    def rows(self, reading: Reading) -> Array:
        """Return the inner products of the representers of a reading with the span's, one column per coefficient."""
        if len(self.readings) == 1:
            return inner_products(self.substrate, reading, self.readings[0])
        return np.hstack([inner_products(self.substrate, reading, own_reading) for own_reading in self.readings])

    def lengths(self) -> Array:
        """Return a factor for every representer, by which derivatives have the length of values: their unit is
        another one.
        """
        factors, typical = [], 0.0
        for reading, size in zip(self.readings, self.sizes, strict=True):
            ratio = 1.0
            if reading.operator is None:
                typical = typical or float(np.mean(self.substrate.kernel.diag(points_of(self.substrate, reading))))
            else:
                own_length = float(np.mean(np.diagonal(inner_products(self.substrate, reading, reading))))
                ratio = float(np.sqrt(typical / own_length)) if typical > 0.0 and own_length > 0.0 else 1.0
            factors.append(np.full(size, ratio))
        return np.concatenate(factors)

    def product(self, a: Array) -> Array:
        """Return the fitted values without bias."""
        return self._read(Reading(), a)

    def _read(self, reading: Reading, a: Array) -> Array:
        pairs = zip(self.readings, self.parts(a), strict=True)
        return np.asarray(sum(inner_products(self.substrate, reading, place) @ block for place, block in pairs))

    def parts(self, a: Array) -> list[Array]:
        """Return the coefficients of every reading."""
        return np.split(a, np.cumsum(self.sizes)[:-1])

    def squared_norm(self, a: Array) -> float:
        """Return w'w of the coefficients, summed over their columns."""
        pairs = zip(self.readings, self.parts(a), strict=True)
        return max(sum(float(np.vdot(block, self._read(reading, a))) for reading, block in pairs), 0.0)

    def matrix(self) -> Array:
        """Return the inner products of all representers."""
        size = self.size
        check_memory(
            8.0 * size * size,
            f"the {size} x {size} matrix of the points that the machine mentions",
            "Mention fewer points.",
        )
        edges = np.cumsum([0, *self.sizes])
        G = np.empty((size, size))
        for i, left in enumerate(self.readings):
            for j, right in enumerate(self.readings[: i + 1]):
                block = inner_products(self.substrate, left, right)
                G[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = block
                G[edges[j] : edges[j + 1], edges[i] : edges[i + 1]] = block.T
        return (G + G.T) / 2.0


def _is_on_training_rows(substrate: Any, roles: set[str]) -> bool:
    """Return whether the machine is meant on the training rows."""
    return "alpha" in roles or not penalises(roles)


def _why_not(substrate: Any, roles: set[str]) -> str:
    """Return why other points do not join, where they do not."""
    if "alpha" in roles:
        return "the machine mentions alpha, one per row"
    if not penalises(roles):
        return "the machine does not penalise w, so other points that it mentions are not part of its expansion"
    if substrate.kernel.pairwise:
        return "a precomputed matrix has no kernel values between other points"
    return ""


def _with_bias(fact: str, free: bool) -> str:
    return f"{fact}; the machine mentions b, so the coefficients need not sum to zero" if free else fact


@dataclass(frozen=True, slots=True)
class Further:
    """Coefficients in addition to the training rows': of f at points, of its component ``part``, or of an operator.

    Both are None for f itself.
    """

    points: Any
    coefficients: Array
    part: int | None = None
    operator: Functional | None = None


@dataclass(frozen=True, slots=True)
class KernelExpansion:
    """One substrate's part of a solution: all its quantities, and its values at any points.

    ``alpha`` has one entry per training row, or per vector of the basis where the substrate has one. Where y has
    columns, so have alpha, e, f and the values, and b has one entry per column.
    """

    substrate: Any
    alpha: Array
    b: Any
    e: Array
    f: Array
    squared_norm: float
    maximal_variation: Array
    #: The expansion beyond the training rows, see :mod:`substrate.declare.span`; ``predict`` uses it.
    further: tuple[Further, ...] = ()

    @classmethod
    def of(cls, span: SubstrateSpan, a: Array, b: Any) -> "KernelExpansion":
        """Return the solution with these coefficients of a span."""
        s, products = span.substrate, span.product(a)
        f = products + b
        every = range(len(s.components))
        components = [products] if len(every) == 1 else [span.rows(Reading(part=part)) @ a for part in every]
        first, *further_coefficients = span.parts(a)
        expansion = cls(
            substrate=s,
            alpha=s.signs * first,
            b=b,
            e=s.errors_of(f),
            f=f,
            squared_norm=span.squared_norm(a),
            maximal_variation=np.array([float(np.abs(values).max()) for values in components]),
            further=tuple(
                Further(reading.points, coefficients, reading.part, reading.operator)
                for reading, coefficients in zip(span.readings[1:], further_coefficients, strict=True)
            ),
        )
        if s.observed is None:
            return expansion
        return replace(expansion, e=s.observed.targets - s.observed.evaluate(expansion))

    def restore(self) -> "KernelExpansion":
        """Return the expansion that a file holds, refused where its numbers do not belong to the substrate."""
        s = self.substrate
        errors = (s.n, *s.columns) if s.observed is None else s.observed.targets.shape
        shapes = {"alpha": (s.size, *s.columns), "e": errors, "f": (s.n, *s.columns), "b": s.columns}
        for name, shape in shapes.items():
            values = np.asarray(getattr(self, name))
            if values.shape != shape or values.dtype.kind != "f":
                raise DataError(f"{name} of a substrate has shape {values.shape}, expected {shape}")
        for term in self.further:
            if term.points is not None and term.points.shape[0] != term.coefficients.shape[0]:
                raise DataError("further coefficients do not belong to their points")
            if term.part is not None and not 0 <= term.part < len(s.components):
                raise DataError(f"there is no component {term.part!r}")
        return self

    @property
    def c(self) -> Array:
        """The additive regularization constants, e - alpha."""
        self.substrate.refuse_constants()
        return self.e - self.alpha

    @property
    def coefficients(self) -> Array:
        """Return a: alpha, or y∘alpha in classification."""
        return np.asarray(self.substrate.signs * self.alpha)

    @property
    def norm(self) -> float:
        """The norm of w."""
        return math.sqrt(self.squared_norm)

    def predict(self, X: Any) -> Array:
        """Return f at the rows of X."""
        return np.asarray(self._values(Reading(real_points(X))) + self.b)

    def component(self, part: int, X: Any) -> Array:
        """Return one component at the rows of X."""
        return self._values(Reading(real_points(X), part=part))

    def derivative(self, X: Any, orders: Any) -> Array:
        """Return the derivative of f of these orders by column, as ``{0: 2}``, at the rows of X."""
        return self.apply(LinearOperator.derivative(orders), X)

    def apply(self, operator: LinearOperator, X: Any) -> Array:
        """Return what a linear operator makes of f at the rows of X."""
        return self._read(self.substrate.resolve_operator(operator), real_points(X))

    def integral(self, boxes: Any) -> Array:
        """Return the integral of f over boxes, one of shape (d, 2) or several, (m, d, 2), or against measures."""
        return self._read(*self.substrate.resolve_integral(boxes))

    def _read(self, functional: Functional, points: Array) -> Array:
        constant = functional.apply_to_constant(points)
        values = self._values(Reading(points, operator=functional))
        return np.asarray(values + (np.multiply.outer(constant, self.b) if constant.any() else 0.0))

    def value_of(self, holder: PlaceHolder) -> Any:
        """Return what a place-holder of the substrate stands for here."""
        if holder.role == "alpha":
            return self.alpha
        if holder.role == "b":
            return np.asarray(self.b)
        if holder.role in ("norm", "squared_norm"):
            return np.asarray(self.squared_norm if holder.role == "squared_norm" else self.norm)
        if holder.role == "f" and holder.points is None:
            return self.f
        points = self.substrate.X if holder.points is None else holder.points
        reading = replace(reading_of(holder), points=points)
        return self._values(reading) + (self.b if holder.role == "f" else 0.0)

    def _values(self, wanted: Reading) -> Array:
        X, a = wanted.points, self.coefficients
        out, s = np.empty((X.shape[0], *a.shape[1:])), self.substrate
        for rows in row_blocks(X.shape[0], a.shape[0]):
            reading = replace(wanted, points=X[rows])
            out[rows] = inner_products(s, reading, Reading(s.basis)) @ a
            for further in self.further:
                at = Reading(further.points, further.part, further.operator)
                out[rows] += inner_products(s, reading, at) @ further.coefficients
        return out
