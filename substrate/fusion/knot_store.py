"""The knots of a search over several parameters: solved once for every fold, with what bounds need of them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.affine_program import YOUNG, AffineProgram, Corner
from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.knot import Knot

__all__ = ["KnotStore", "ProgramFold", "Reach"]


@dataclass(slots=True)
class ProgramFold:
    """A program, the matrix M from its solution to validation values, the targets, and what is known of M."""

    program: AffineProgram
    M: Array
    targets: Array
    reach: DeterminedErrors
    #: The size of the targets, which sets the first knots.
    size: float = 1.0

    def errors(self, knot: Knot) -> Array:
        """Return validation errors at a knot, in the units of y."""
        return np.asarray(self.targets - self.program.unit * (self.M @ knot.x))

    def errors_radius(self, knot: Knot) -> float:
        """Return how far they are from those of the exactly feasible point, by rounding."""
        products = np.abs(self.M) @ (relative_rounding(self.M.shape[1] + 4) * np.abs(knot.x) + knot.radius)
        each = self.program.unit * products + relative_rounding(2.0) * np.abs(self.targets)
        return 1.001 * float(np.linalg.norm(each))


class Reach(NamedTuple):
    """How far optima inside a simplex may be from the chord in a direction of all validation errors, in units of y.

    ``sigmas`` are factors of the radius, one for every fold; ``loss`` is what the quadratic terms leave open.
    """

    sigmas: list[float]
    loss: float


@dataclass
class KnotStore:
    """The folds, the corners solved so far, and their knots, one list per fold (changed in place)."""

    folds: list[ProgramFold]
    workers: int = 1
    corners: list[Corner] = field(default_factory=list)
    knots: list[list[Knot]] = field(default_factory=list)
    errors: Array = field(default_factory=lambda: np.zeros((0, 0)))
    error_radii: Array = field(default_factory=lambda: np.zeros(0))
    squares: Array = field(default_factory=lambda: np.zeros(0))
    solves: int = 0

    def __post_init__(self) -> None:
        sizes = np.cumsum([0, *(fold.targets.size for fold in self.folds)])
        self.parts = [slice(int(a), int(b)) for a, b in pairwise(sizes)]
        self.errors = np.zeros((0, int(sizes[-1])))
        self.knots = [[] for _ in self.folds]
        self._number: dict[Corner, int] = {}
        self._radii: dict[tuple[int, int], Array] = {}
        self._pairs: dict[tuple[int, int, int], tuple[float, float, float]] = {}

    @property
    def ridge(self) -> bool:
        """Return whether a parameter is in the quadratic term."""
        return self.folds[0].program.ridge >= 0

    @property
    def best(self) -> int:
        """Return the knot with the smallest error."""
        return int(self.squares.argmin())

    def holds(self, corner: Corner) -> bool:
        """Return whether the knot at a corner is solved."""
        return corner in self._number

    def add(self, corner: Corner) -> int:
        """Return the number of the knot at a corner, solved if it is new."""
        if corner in self._number:
            return self._number[corner]
        if self.workers > 1 and len(self.folds) > 1:
            with ThreadPoolExecutor(min(self.workers, len(self.folds))) as pool:
                knots = list(pool.map(lambda fold: fold.program.solve(corner), self.folds))
        else:
            knots = [fold.program.solve(corner) for fold in self.folds]
        return self._keep(corner, knots)

    def trim(self) -> None:
        """Drop what an interrupt left of a knot that was not kept whole."""
        count = min(len(self.corners), self.squares.size)
        for corner in self.corners[count:]:
            self._number.pop(corner, None)
        del self.corners[count:]
        for knots_of_fold in self.knots:
            del knots_of_fold[count:]
        self.errors, self.error_radii, self.squares = (
            self.errors[:count],
            self.error_radii[:count],
            self.squares[:count],
        )

    def _keep(self, corner: Corner, knots: list[Knot]) -> int:
        self.trim()
        self.solves += len(knots)
        e = np.concatenate([fold.errors(knot) for fold, knot in zip(self.folds, knots, strict=True)])
        radius = sum(fold.errors_radius(knot) for fold, knot in zip(self.folds, knots, strict=True))
        for knots_of_fold, knot in zip(self.knots, knots, strict=True):
            knots_of_fold.append(knot)
        self.errors = np.vstack([self.errors, e])
        self.error_radii = np.append(self.error_radii, radius)
        self.squares = np.append(self.squares, float(e @ e))
        self.corners.append(corner)
        self._number[corner] = len(self.corners) - 1
        return len(self.corners) - 1

    def along(self, u: Array, at: Sequence[int]) -> Reach:
        """Return how far optima on a simplex may be from the chord in a direction."""
        sigmas, loss = [], 0.0
        for f, (fold, place) in enumerate(zip(self.folds, self.parts, strict=True)):
            sigma, remainder = fold.reach.along(u[place], self.least_tau(f, at))
            sigmas.append(fold.program.unit * sigma)
            loss += fold.program.unit * max(float(remainder @ self.radius(f, i)) for i in at)
        return Reach(sigmas, loss)

    def radius(self, f: int, i: int) -> Array:
        """Return the assumed largest distance of an optimum from a knot, coordinate by coordinate."""
        if (f, i) not in self._radii:
            self._radii[f, i] = self.folds[f].program.radius(self.knots[f][i].x)
        return self._radii[f, i]

    def least_tau(self, f: int, at: Sequence[int]) -> float:
        """Return the smallest ridge weight of a simplex."""
        return min(self.folds[f].program.tau(self.corners[i]) for i in at)

    def radii(self, f: int, at: Sequence[int]) -> tuple[Array, Array]:
        """Return Q and R of a fold, in the units of its program."""
        n, tau = len(at), self.least_tau(f, at)
        Q, R = np.zeros((n, n)), np.zeros((n, n))
        for i in range(n):
            Q[i, i] = self.knots[f][at[i]].gap
            for j in range(i):
                Q[i, j], R[i, j] = self._pair(f, at[i], at[j], tau)
                Q[j, i], R[j, i] = Q[i, j], R[i, j]
        return Q, R

    def _pair(self, f: int, i: int, j: int, tau: float) -> tuple[float, float]:
        """Return Q_ij and R_ij: the product of the knots, and the covariance that a ridge weight leaves."""
        key = (f, min(i, j), max(i, j))
        program, first, second = self.folds[f].program, self.knots[f][i], self.knots[f][j]
        difference = abs(program.tau(self.corners[i]) - program.tau(self.corners[j]))
        if key not in self._pairs:
            self._pairs[key] = (
                program.cross(first, second),
                *(program.cross_radius(first, second) if difference else (0.0, 0.0)),
            )
        Q, tied, untied = self._pairs[key]
        if difference == 0.0:
            return Q, 0.0
        size, remainder = self.folds[f].reach.covariance(first.x - second.x, tau)
        radius = np.maximum(self.radius(f, i), self.radius(f, j))
        Q = Q + (1.0 + YOUNG) * 0.5 * difference * (untied + float(remainder @ radius))
        return Q, (1.0 + YOUNG) * (1.0 + relative_rounding(4.0)) * difference * (size + tied)
