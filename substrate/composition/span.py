r"""What the expansion of a substrate is built on: the training rows, and the points that a machine mentions elsewhere.

A machine reads w by inner products :math:`\langle w, r_j \rangle`: :math:`r = \varphi(p)` for the value of f at p,
:math:`\varphi^l(p)` for that of component l, and :math:`\partial \varphi(p) / \partial p_c` for the derivative of f in
input c (:mod:`substrate.kernels.derivatives`). Where it penalises the norm of w, the part of w that is orthogonal to all
:math:`r_j` changes no reading and only adds to the norm, so that the optimum over all w is an expansion

.. math:: w = \sum_i a_i \varphi(x_i) + \sum_j a'_j r_j

on every point mentioned ([Scholkopf2001]_ theorem 1, the representer theorem). Points that occur twice join once; at
the training rows components share one coefficient per row, as in [Pelckmans2005]_ eq. (8).

*The bias.* Values of f contain b, other readings do not. A change u of w that adds one number to all values of f, and
nothing to the other readings, is made up for by b. The optimum has no such part: the coefficients of values of f sum to
zero, over all points and not over the training rows alone. Where the machine mentions b itself, nothing makes up for u,
and the coefficients need not sum to zero.

Where w is not penalised, the readings elsewhere do not determine the shape of f between them; then the training rows
span it, which is part of the model and is on its certificate.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array, check_memory, is_sparse
from substrate.composition.level import PlaceHolder, Substrate
from substrate.kernels.base import row_blocks

__all__ = ["Reading", "Span", "inner_products", "penalises", "reading_of"]

#: Place-holders that read w at points.
_READ = ("f", "component", "gradient")
#: Place-holders that penalise w.
_NORMS = frozenset({"squared_norm", "norm"})

Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """f without its bias, its component ``part`` or its derivative in input ``column``, at points (None: training)."""

    points: Any = None
    part: int | None = None
    column: int | None = None


def reading_of(holder: PlaceHolder) -> Reading:
    """What a place-holder of values reads."""
    return _read(holder.role, holder.points, holder.part)


def _read(role: str, points: Any, part: int) -> Reading:
    return Reading(points, part if role == "component" else None, part if role == "gradient" else None)


def inner_products(substrate: Substrate, left: Reading, right: Reading) -> Array:
    """The matrix of all inner products of the representers of two readings."""
    if left.part is not None and right.part is not None and left.part != right.part:
        return np.zeros((_points(substrate, left).shape[0], _points(substrate, right).shape[0]))
    part = right.part if left.part is None else left.part
    if left.column is not None or right.column is not None:
        return _derivatives(substrate, left, right, part)
    if right.points is None:
        return substrate.kernel_rows(left.points, part)
    if left.points is None:
        return substrate.kernel_rows(right.points, part).T
    kernel = substrate.kernel if part is None else substrate.components[part]
    return np.asarray(kernel(left.points) if left is right else kernel(left.points, right.points))


def _derivatives(substrate: Substrate, left: Reading, right: Reading, part: int | None) -> Array:
    kernel = substrate.kernel if part is None else substrate.components[part]
    P, Q = _points(substrate, left), _points(substrate, right)
    if left.column is None:
        return kernel.gradient(Q, P, right.column).T  # type: ignore[arg-type]
    if right.column is None:
        return kernel.gradient(P, Q, left.column)
    return kernel.mixed_derivative(P, Q, left.column, right.column)


def penalises(substrate: Substrate, roles: Iterable[str]) -> bool:
    """Whether a machine that mentions these roles penalises w."""
    return substrate.ridge > 0.0 or not _NORMS.isdisjoint(roles)


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """The readings whose representers carry coefficients, the training rows first, then further values of f.

    ``values`` counts the representers of values of f; ``balanced`` says whether their coefficients sum to zero;
    ``places`` gives the representers of a mention, where each of its points has one; ``fact`` is for the certificate.
    """

    substrate: Substrate
    readings: tuple[Reading, ...]
    values: int
    balanced: bool
    places: dict[int, Numbers]
    fact: str = ""

    @classmethod
    def of(cls, substrate: Substrate, mentioned: tuple[PlaceHolder, ...]) -> "Span":
        """The span of a machine that mentions these place-holders."""
        roles = {holder.role for holder in mentioned}
        joined = _Joined(substrate, [holder for holder in mentioned if holder.role in _READ])
        why = _why_not(substrate, roles)
        free = substrate.bias and "b" in roles and not _decided(substrate, roles)
        balanced = substrate.bias and not free
        if why or not joined.size:
            fact = f"the training rows: {why}" if why and joined.size else ""
            fact = _with_bias(fact or "the training rows", free) if fact or free else ""
            return cls(substrate, (Reading(),), substrate.n, balanced, {}, fact)
        readings, values = joined.readings()
        reach = "components share the coefficients of the training rows" if joined.shared else "the optimum over all w"
        fact = f"{substrate.n} training rows and what the machine mentions beside them, {joined.counted()}: {reach}"
        return cls(substrate, (Reading(), *readings), values, balanced, joined.places(), _with_bias(fact, free))

    @property
    def sizes(self) -> list[int]:
        """The number of representers of every reading."""
        return [_points(self.substrate, reading).shape[0] for reading in self.readings]

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return sum(self.sizes)

    @property
    def plain(self) -> bool:
        """Whether the expansion is that of level 1: the training rows, with coefficients that sum to zero."""
        return len(self.readings) == 1 and self.balanced == self.substrate.bias

    def rows(self, reading: Reading) -> Array:
        """The inner products of the representers of a reading with those of the span, one column per coefficient."""
        if len(self.readings) == 1:
            return inner_products(self.substrate, reading, self.readings[0])
        return np.hstack([inner_products(self.substrate, reading, own) for own in self.readings])

    def lengths(self) -> Array:
        """A factor for every representer, by which derivatives have the length of values: their unit is another one."""
        factors, typical = [], 0.0
        for reading, size in zip(self.readings, self.sizes, strict=True):
            one = 1.0
            if reading.column is None:
                typical = typical or float(np.mean(self.substrate.kernel.diag(_points(self.substrate, reading))))
            else:
                own = float(np.mean(np.diagonal(inner_products(self.substrate, reading, reading))))
                one = float(np.sqrt(typical / own)) if typical > 0.0 and own > 0.0 else 1.0
            factors.append(np.full(size, one))
        return np.concatenate(factors)

    def product(self, a: Array) -> Array:
        """The fitted values without bias."""
        n, s = self.substrate.n, self.substrate
        fitted: Array = s.gram.product(a[:n])
        for reading, part in zip(self.readings[1:], self.parts(a)[1:], strict=True):
            fitted = fitted + inner_products(s, self.readings[0], reading) @ part
        return fitted

    def parts(self, a: Array) -> list[Array]:
        """The coefficients of every reading."""
        return np.split(a, np.cumsum(self.sizes)[:-1])

    def squared_norm(self, a: Array) -> float:
        """w'w of the coefficients."""
        total = float(a[: self.substrate.n] @ self.product(a))
        for reading, part in zip(self.readings[1:], self.parts(a)[1:], strict=True):
            total += float(part @ (self.rows(reading) @ a))
        return max(total, 0.0)

    def matrix(self) -> Array:
        """The inner products of all representers."""
        size = self.size
        check_memory(
            8.0 * size * size,
            f"the {size} x {size} matrix of the points that the machine mentions",
            "span='training' keeps the expansion on the training rows; or mention fewer points.",
        )
        edges = np.cumsum([0, *self.sizes])
        G = np.empty((size, size))
        for i, left in enumerate(self.readings):
            for j, right in enumerate(self.readings[: i + 1]):
                block = inner_products(self.substrate, left, right)
                G[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = block
                G[edges[j] : edges[j + 1], edges[i] : edges[i + 1]] = block.T
        return (G + G.T) / 2.0


def _points(substrate: Substrate, reading: Reading) -> Any:
    return substrate.X if reading.points is None else reading.points


def _decided(substrate: Substrate, roles: set[str]) -> bool:
    """Whether the machine is meant on the training rows."""
    return "alpha" in roles or substrate.span == "training" or not penalises(substrate, roles)


def _why_not(substrate: Substrate, roles: set[str]) -> str:
    """Why other points do not join, where they do not."""
    if substrate.span == "training":
        return "span='training', so that the optimum over all w can be lower"
    if "alpha" in roles:
        return "the machine mentions alpha, one per row"
    if not penalises(substrate, roles):
        return "the machine does not penalise w, so other points that it mentions do not join"
    if substrate.kernel.pairwise:
        return "a precomputed matrix has no kernel values between other points"
    return ""


def _with_bias(fact: str, free: bool) -> str:
    return f"{fact}; the machine mentions b, so the coefficients need not sum to zero" if free else fact


class _Joined:
    """The points of some mentions that are not training rows, each once, by what is read there."""

    def __init__(self, substrate: Substrate, holders: list[PlaceHolder]) -> None:
        self._first = substrate.n
        #: Whether a component is read at a training row, where its coefficient is that of all components.
        self.shared = any(holder.role == "component" and holder.points is None for holder in holders)
        self._known: dict[tuple[str, int], dict[bytes, int]] = {}
        self._points: dict[tuple[str, int], list[Any]] = {}
        self._at: dict[int, tuple[tuple[str, int], Numbers]] = {}
        elsewhere = [holder for holder in holders if holder.points is not None or holder.role == "gradient"]
        own: dict[bytes, int] = {}
        for row, key in enumerate(_keys(substrate.X) if elsewhere else ()):
            own.setdefault(key, row - self._first)  # training rows have negative numbers, to be told from the others
        for holder in elsewhere:
            self._add(holder, substrate.X if holder.points is None else holder.points, own)

    def _add(self, holder: PlaceHolder, points: Any, own: dict[bytes, int]) -> None:
        kind = (holder.role, holder.part)
        known = self._known.setdefault(kind, {})
        at, fresh = [], []
        for row, key in enumerate(_keys(points)):
            if key in own and holder.role != "gradient":
                at.append(own[key])
                continue
            if key not in known:
                known[key] = len(known)
                fresh.append(row)
            at.append(known[key])
        if fresh:
            self._points.setdefault(kind, []).append(points[fresh])
        places = np.array(at, dtype=np.intp)
        if holder.role != "component" or (places >= 0).all():
            self._at[id(holder.leaf)] = (kind, places)
        else:  # a component at a training row has no representer of its own
            self.shared = True

    @property
    def size(self) -> int:
        """How many representers."""
        return sum(len(known) for known in self._known.values())

    def _kinds(self) -> list[tuple[str, int]]:
        """Those of further values of f first."""
        return sorted(self._points, key=lambda kind: (kind[0] != "f", kind))

    def readings(self) -> tuple[list[Reading], int]:
        """The readings, and how many representers of values of f there are, with the training rows."""
        made = []
        for role, part in self._kinds():
            made.append(_read(role, _stacked(self._points[role, part]), part))
        return made, self._first + len(self._known.get(("f", 0), {}))

    def places(self) -> dict[int, Numbers]:
        """The representers of every mention that has one for each of its points."""
        starts, start = {}, self._first
        for kind in self._kinds():
            starts[kind] = start
            start += len(self._known[kind])
        return {
            leaf: np.where(at < 0, at + self._first, at + starts.get(kind, 0)) for leaf, (kind, at) in self._at.items()
        }

    def counted(self) -> str:
        """The number of representers, in words."""
        count = {role: sum(len(self._known[kind]) for kind in self._kinds() if kind[0] == role) for role in _READ}
        words = {"f": "further points", "component": "points of components", "gradient": "derivatives"}
        return ", ".join(f"{count[role]} {words[role]}" for role in _READ if count[role])


def _keys(points: Any) -> Iterable[bytes]:
    """One key per row, equal for equal rows."""
    for rows in row_blocks(points.shape[0], points.shape[1]):
        block = points[rows].toarray() if is_sparse(points) else points[rows]
        yield from (row.tobytes() for row in np.ascontiguousarray(block, dtype=np.float64) + 0.0)  # one zero, not two


def _stacked(blocks: list[Any]) -> Any:
    if not any(is_sparse(block) for block in blocks):
        return np.vstack(blocks)
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack([csr_array(block) for block in blocks]))
