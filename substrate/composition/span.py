r"""What the expansion of a substrate is built on: the training rows, and the points that a machine mentions elsewhere.

A machine reads w by inner products :math:`\langle w, r_j \rangle`: :math:`r = \varphi(p)` for the value of f at p,
:math:`\varphi^l(p)` for that of component l, and :math:`L \varphi(p)` for that of :math:`L f`, L a derivative or
another linear operator (:mod:`substrate.composition.linear_operators`). Where it penalises the norm of w, the part of w
that is orthogonal to all :math:`r_j` changes no reading and only adds to the norm, so that the optimum over all w is an
expansion

.. math:: w = \sum_i a_i \varphi(x_i) + \sum_j a'_j r_j

on every point mentioned ([Scholkopf2001]_ theorem 1, the representer theorem). Points that occur twice join once. A
component that is mentioned has coefficients of its own, at the training rows too: with
:math:`w = (w^1, \dots, w^d)` and :math:`\varphi = (\varphi^1, \dots, \varphi^d)` the optimum has
:math:`w^l = \sum_i (a_i + a^l_i) \varphi^l(x_i)`, where :math:`a^l` belongs to the terms in component l. (In
[Pelckmans2005]_ eq. (8) all components share :math:`a`; that is the machine where w is not penalised, where alpha is
mentioned, and where ``span="training"``.)

*The bias.* Values of f contain b, other readings do not. A change u of w that adds one number to all values of f, and
nothing to the other readings, is made up for by b. The optimum has no such part: the coefficients of values of f sum to
zero, over all points and not over the training rows alone. Where the machine mentions b itself, nothing makes up for u,
and the coefficients need not sum to zero.

Where w is not penalised, the readings elsewhere do not determine the shape of f between them; then the training rows
span it, which is part of the model and is on its certificate. Where the substrate has a basis, its vectors span f, and
nothing joins; their coefficients need not sum to zero.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, check_memory
from substrate.composition.further_points import READ, FurtherPoints, Numbers, keys_of
from substrate.composition.level import Substrate
from substrate.composition.place_holders import PlaceHolder
from substrate.composition.reading import Reading, inner_products, points_of, reading_of

__all__ = ["SubstrateSpan", "penalises", "value_of_holder"]

#: Place-holders that penalise w.
_NORMS = frozenset({"squared_norm", "norm"})
_SHARED = "components share the coefficients of the training rows"


def penalises(roles: Iterable[str]) -> bool:
    """Return whether a machine that mentions these roles penalises w."""
    return not _NORMS.isdisjoint(roles)


@dataclass(frozen=True, slots=True, eq=False)
class SubstrateSpan:
    """The readings whose representers carry coefficients: the training rows or the basis, then further values of f.

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
    def of(cls, substrate: Substrate, mentioned: tuple[PlaceHolder, ...]) -> "SubstrateSpan":
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
        joined = FurtherPoints(substrate, [holder for holder in mentioned if holder.role in READ], not why)
        free = substrate.bias and "b" in roles and not _is_on_training_rows(substrate, roles)
        balanced = substrate.bias and not free
        if why or not joined.size:
            fact = f"the training rows: {why}" if why and joined.size else ""
            if why and penalises(roles) and "component" in roles and len(substrate.components) > 1:
                fact = f"the training rows: {why}; {_SHARED}"
            fact = _with_bias(fact or "the training rows", free) if fact or free else ""
            places = {} if why else joined.places()
            return cls(
                substrate=substrate,
                readings=(Reading(),),
                values=substrate.n,
                balanced=balanced,
                places=places,
                fact=fact,
            )
        readings, values = joined.readings()
        beside = f"what the machine mentions beside them, {joined.count_in_words()}"
        fact = f"{substrate.n} training rows and {beside}: the optimum over all w"
        return cls(
            substrate=substrate,
            readings=(Reading(), *readings),
            values=values,
            balanced=balanced,
            places=joined.places(),
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
    def plain(self) -> bool:
        """Whether the expansion is that of level 1: the training rows, with coefficients that sum to zero."""
        return self.substrate.basis is None and len(self.readings) == 1 and self.balanced == self.substrate.bias

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
        """Return the inner products of the representers of a reading with those of the span, one column per
        coefficient.
        """
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
        s, (own_coefficients, *further_coefficients) = self.substrate, self.parts(a)
        fitted: Array = s.gram.product(own_coefficients) if s.basis is None else s.kernel_rows(None) @ own_coefficients
        for reading, coefficients in zip(self.readings[1:], further_coefficients, strict=True):
            fitted = fitted + inner_products(s, Reading(), reading) @ coefficients
        return fitted

    def parts(self, a: Array) -> list[Array]:
        """Return the coefficients of every reading."""
        return np.split(a, np.cumsum(self.sizes)[:-1])

    def squared_norm(self, a: Array) -> float:
        """Return w'w of the coefficients, summed over their columns."""
        if a.ndim == 2:
            return sum(self.squared_norm(column) for column in a.T)
        own_coefficients, *further_coefficients = self.parts(a)
        total = float(
            own_coefficients
            @ (self.product(a) if self.substrate.basis is None else self.substrate.gram.product(own_coefficients))
        )
        for reading, coefficients in zip(self.readings[1:], further_coefficients, strict=True):
            total += float(coefficients @ (self.rows(reading) @ a))
        return max(total, 0.0)

    def matrix(self) -> Array:
        """Return the inner products of all representers."""
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


def _is_on_training_rows(substrate: Substrate, roles: set[str]) -> bool:
    """Return whether the machine is meant on the training rows."""
    return "alpha" in roles or substrate.span == "training" or not penalises(roles)


def _why_not(substrate: Substrate, roles: set[str]) -> str:
    """Return why other points do not join, where they do not."""
    if substrate.span == "training":
        return "span='training', so that the optimum over all w can be lower"
    if "alpha" in roles:
        return "the machine mentions alpha, one per row"
    if not penalises(roles):
        return "the machine does not penalise w, so other points that it mentions are not part of its expansion"
    if substrate.kernel.pairwise:
        return "a precomputed matrix has no kernel values between other points"
    return ""


def _with_bias(fact: str, free: bool) -> str:
    return f"{fact}; the machine mentions b, so the coefficients need not sum to zero" if free else fact


def value_of_holder(span: SubstrateSpan, a: Array, b: Any, holder: PlaceHolder) -> Any:
    """Return what a place-holder stands for in the machine of coefficients a and bias b."""
    s = span.substrate
    if holder.role == "alpha":
        return s.signs * a[: s.size]
    if holder.role == "b":
        return np.asarray(b)
    if holder.role in ("norm", "squared_norm"):
        square = span.squared_norm(a)
        return np.asarray(square if holder.role == "squared_norm" else np.sqrt(square))
    return span.rows(reading_of(holder)) @ a + (b if holder.role == "f" else 0.0)
