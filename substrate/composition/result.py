"""The solution of a machine: plain numbers, a predictor, a certificate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array, real_points
from substrate.certificates import Certificate
from substrate.composition.level import Substrate
from substrate.composition.reading import Reading, inner_products
from substrate.errors import DeclarationError
from substrate.kernels.base import row_blocks
from substrate.solvers import SolverRecord

__all__ = ["Expansion", "Further", "Result"]


@dataclass(frozen=True, slots=True)
class Further:
    """Coefficients beside those of the training rows: of f at points, of its component ``part``, or of its derivative.

    ``column`` is the input of the derivative; both are None for f itself.
    """

    points: Any
    coefficients: Array
    part: int | None
    column: int | None

    @classmethod
    def of(cls, reading: Reading, coefficients: Array) -> "Further":
        """The coefficients of a reading."""
        return cls(reading.points, coefficients, reading.part, reading.column)

    @property
    def reading(self) -> Reading:
        """What the coefficients belong to."""
        return Reading(self.points, self.part, self.column)


@dataclass(frozen=True, slots=True)
class Expansion:
    """One substrate's part of a solution: all its quantities, and its values at any points.

    ``alpha`` has one entry per training row, or per vector of the basis where the substrate has one.
    """

    substrate: Substrate
    alpha: Array
    b: float
    e: Array
    f: Array
    squared_norm: float
    maximal_variation: Array
    #: The expansion beyond the training rows, see :mod:`substrate.composition.span`; ``predict`` uses it.
    further: tuple[Further, ...] = ()

    @property
    def c(self) -> Array:
        """The additive regularization constants, e - alpha."""
        self.substrate.refuse_constants()
        return self.e - self.alpha

    @property
    def coefficients(self) -> Array:
        """a: alpha, or y∘alpha in classification."""
        return self.substrate.signs * self.alpha

    def predict(self, X: Any) -> Array:
        """f at the rows of X."""
        return self._values(Reading(real_points(X))) + self.b

    def component(self, part: int, X: Any) -> Array:
        """One component at the rows of X."""
        return self._values(Reading(real_points(X), part=part))

    def gradient(self, X: Any, column: int) -> Array:
        """The derivative of f in input ``column`` at the rows of X."""
        self.substrate.kernel.refuse_derivatives()
        return self._values(Reading(real_points(X), column=column))

    def _values(self, wanted: Reading) -> Array:
        X, a = wanted.points, self.coefficients
        out = np.empty(X.shape[0])
        for rows in row_blocks(X.shape[0], a.size):
            here = replace(wanted, points=X[rows])
            out[rows] = inner_products(self.substrate, here, Reading(self.substrate.basis)) @ a
            for other in self.further:
                out[rows] += inner_products(self.substrate, here, other.reading) @ other.coefficients
        return out


@dataclass(frozen=True)
class Result:
    """A machine's solution.

    With one substrate its quantities are attributes here: ``alpha, b, c, e, f, squared_norm, maximal_variation`` and
    ``further``; with several, ``result[s]`` has those of s, and ``predict`` returns the sum of their values.
    """

    objective: float
    parameters: Mapping[str, Any]
    expansions: tuple[Expansion, ...]
    certificate: Certificate
    solver_record: SolverRecord

    def __getitem__(self, substrate: Substrate) -> Expansion:
        for expansion in self.expansions:
            if expansion.substrate is substrate:
                return expansion
        raise KeyError("this substrate is not part of the machine")

    def predict(self, X: Any) -> Array:
        """The machine's values: the sum over its substrates."""
        total: Array = np.sum([expansion.predict(X) for expansion in self.expansions], axis=0)
        return total

    def component(self, part: int, X: Any) -> Array:
        """One component of a machine with one substrate."""
        return self._only("component").component(part, X)

    def gradient(self, X: Any, column: int) -> Array:
        """The derivative of f in input ``column``, of a machine with one substrate."""
        return self._only("gradient").gradient(X, column)

    def _only(self, name: str) -> Expansion:
        if len(self.expansions) != 1:
            raise DeclarationError(f"{name!r} is ambiguous in a machine of several substrates; ask result[substrate]")
        return self.expansions[0]

    def __getattr__(self, name: str) -> Any:
        if name in ("alpha", "b", "c", "e", "f", "squared_norm", "maximal_variation", "further"):
            return getattr(self._only(name), name)
        raise AttributeError(f"a result has no attribute {name!r}")
