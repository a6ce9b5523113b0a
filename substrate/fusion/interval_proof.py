r"""The proof of a fusion over one weight by chords between the knots of a path, as plain numbers.

The file has for every fold its quadratic program and the map from its solution to validation errors, and a feasible
point and multipliers at every knot. The check computes from these that every point is feasible, its gap, how far the
squares determine validation errors, and the bound of every interval between two knots and of what lies beyond the last
(:mod:`substrate.fusion.refinement`). Neighbouring knots are the ends of the intervals, so that nothing is left out.

Where the weight is that of all squares, the path is in one over it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.fusion.chord_numbers import ChordFold
from substrate.fusion.error_gram import ErrorGram
from substrate.fusion.fold import Fold
from substrate.fusion.parametric_qp import Knot, ParametricQP
from substrate.fusion.refinement import BELOW, IntervalSpace, bound_beyond
from substrate.fusion.saved_proof import SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.fusion.simplex_proof import RADIUS
from substrate.search.best_first import Limits

__all__ = ["IntervalProof"]


@dataclass(frozen=True, kw_only=True)
class IntervalProof(SavedProof):
    """The proof by chords between knots.

    Parameters
    ----------
    knots
        The weight at the knots, or one over it, ascending.
    inverse
        Whether the knots are one over the weight.
    folds
        The numbers of every fold.
    at_zero
        For every fold the point whose multipliers are those at zero, where that is another one than the knot's: no
        numbers where it is the same.
    """

    kinds = ("proof of a fusion by chords between knots",)

    knots: Array
    inverse: bool
    folds: tuple[ChordFold, ...]
    at_zero: tuple[Array, ...]

    @classmethod
    def of(
        cls,
        folds: Sequence[Fold],
        values: Array,
        ends: tuple[float, float],
        statement: Mapping[str, Any],
    ) -> "IntervalProof":
        """Copy what a search over intervals found."""
        records = []
        for fold in folds:
            knots = [fold.knots[float(value)] for value in values]
            records.append(ChordFold.of(fold.program, (0.0, 0.0), fold.M, fold.errors_at_zero, knots))
        return cls(
            **statement,
            box=(ends,),
            knots=values.copy(),
            inverse=folds[0].program.inverse,
            folds=tuple(records),
            at_zero=tuple(np.zeros(0) if fold.at_zero is None else fold.at_zero[0].x for fold in folds),
        )

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the number of folds, and all arrays."""
        arrays: dict[str, Any] = {"knots": self.knots}
        for number, (fold, point) in enumerate(zip(self.folds, self.at_zero, strict=True)):
            arrays |= {f"fold{number}.{name}": array for name, array in fold.arrays().items()}
            arrays[f"fold{number}.at_zero"] = point
        return {"folds": len(self.folds), "inverse": self.inverse}, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "IntervalProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        arrays, knots = archive.arrays, archive.arrays["knots"]
        folds, at_zero = [], []
        for number in range(int(archive.content["folds"])):
            own = arrays_under(arrays, f"fold{number}.")
            folds.append(ChordFold.read(own, 1, knots.size))
            at_zero.append(own["at_zero"])
        fits = knots.ndim == 1 and knots.size > 1 and bool(np.isfinite(knots).all()) and len(statement["names"]) == 1
        fits = fits and bool((np.diff(knots) > 0.0).all()) and float(knots[0]) >= 0.0 and bool(folds)
        fits = fits and isinstance(archive.content["inverse"], bool)
        for fold, point in zip(folds, at_zero, strict=True):
            fits = fits and (point.size == 0 or point.shape == fold.terms.q0.shape) and bool(np.isfinite(point).all())
            fits = fits and fold.terms.ridge == -1 and (point.size == 0 or float(knots[0]) == 0.0)
        if not fits:
            refuse_numbers()
        return cls(
            **statement,
            knots=knots,
            inverse=archive.content["inverse"],
            folds=tuple(folds),
            at_zero=tuple(at_zero),
        )

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and the radius that it assumes."""
        return (
            ("proof", f"{self.knots.size} knots, {len(self.folds)} folds"),
            ("radius of the bound", RADIUS),
        )

    def bound(self) -> float:
        """Compute the bound on the sums of the folds again."""
        folds = [self._recall(fold, point) for fold, point in zip(self.folds, self.at_zero, strict=True)]
        ((low, high),) = self.box
        if self.inverse and low >= 0.0:
            low, high = (0.0 if np.isinf(high) else 1.0 / high), (np.inf if low == 0.0 else 1.0 / low)
        first, last = float(self.knots[0]), float(self.knots[-1])
        # one over an end is rounded
        if first > low * (1.0 + 1e-15) or (np.isfinite(high) and high > last * (1.0 + 1e-15)):
            raise UnprovedError(f"the knots cover values from {first:g} to {last:g} only")
        space = IntervalSpace(folds=folds, gap=self.gap, limits=Limits(0), least=self.least * self.divisor)
        bounds = [space.bound_interval(start, stop).bound for start, stop in pairwise(self.knots.tolist())]
        if np.isinf(high):
            beyond = bound_beyond(folds, self.knots)
            if beyond is None:
                raise UnprovedError("nothing is known of values beyond the last knot")
            bounds.append(beyond)
        return BELOW * min(*bounds, space.best)

    def _recall(self, numbers: ChordFold, at_zero: Array) -> Fold:
        """Return a fold with all that bounds need of it, computed again."""
        numbers.check_convex()
        program = ParametricQP.of(numbers.terms, numbers.unit, self.inverse)
        knots: dict[float, Knot] = {}
        for value, x, dual in zip(self.knots.tolist(), numbers.points, numbers.duals, strict=True):
            knot = program.recall(value, x, dual)
            knots[value] = program.nothing(value, x, dual) if knot is None else knot
        largest = np.abs(numbers.points).max(axis=0)
        tie = program.tie(numbers.M, largest)
        directions = ErrorGram.of(program.program, numbers.M)
        if tie is None or directions is None:
            raise UnprovedError("the squares do not determine the validation errors")
        fold = Fold(
            program=program,
            M=numbers.M,
            errors_at_zero=numbers.targets,
            sigma=tie.factor,
            knots=knots,
            remainder=tie.remainder,
            directions=directions,
        )
        if at_zero.size:
            zero = program.recall(0.0, at_zero, numbers.duals[0])
            if zero is None:
                raise UnprovedError("the point at zero is not feasible")
            low = float(self.knots[1])
            fold.stand_in(low, knots[low], zero)
        return fold
