"""One fold of a proof by chords as plain numbers: the program, the map to validation errors, points at the knots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.saved_proof import check_convex, read_sparse, refuse_numbers, sparse_arrays

__all__ = ["ChordFold"]

_ARRAYS = ("q0", "q", "b", "M", "targets", "points", "duals")


@dataclass(frozen=True, kw_only=True)
class ChordFold:
    """What a chord needs of one fold.

    Parameters
    ----------
    terms
        The quadratic program, affine in its weights.
    unit
        The power of two in whose units ``points`` and ``duals`` are.
    ends
        The smallest and the largest ridge weight; zeros where there is none.
    M, targets
        Validation errors are ``targets - unit * M @ x``, times the roots of the weights of their rows.
    points, duals
        A feasible point and the multipliers of all rows at every knot.
    """

    terms: AffineTerms
    unit: float
    ends: tuple[float, float]
    M: Array
    targets: Array
    points: Array
    duals: Array

    @classmethod
    def of(cls, program: Any, ends: tuple[float, float], M: Array, targets: Array, knots: Sequence[Any]) -> "ChordFold":
        """Copy the numbers of a program, and its knots."""
        return cls(
            terms=program.terms,
            unit=program.unit,
            ends=ends,
            M=M,
            targets=targets,
            points=np.array([knot.x for knot in knots]),
            duals=np.array([knot.dual for knot in knots]),
        )

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a file."""
        terms = self.terms
        arrays = {
            "q0": terms.q0,
            "q": terms.q,
            "b": terms.b,
            "starts": np.array(sorted(set(terms.columns.values())), dtype=np.int64),
            "equalities": np.array(terms.equalities),
            "ridge": np.array(terms.ridge),
            "inverse": np.array(int(terms.inverse)),
            "scale": np.array([self.unit, *self.ends]),
            "M": self.M,
            "targets": self.targets,
            "points": self.points,
            "duals": self.duals,
        }
        for name, matrix in (("P0", terms.P0), ("P1", terms.P1), ("A", terms.A)):
            arrays |= sparse_arrays(name, matrix)
        return arrays

    @classmethod
    def read(cls, arrays: Mapping[str, Any], weights: int, knots: int) -> "ChordFold":
        """Return the fold of a file; refuse numbers that do not fit together, or are not finite."""
        numbers = {name: arrays[name] for name in _ARRAYS}
        n, height = numbers["q0"].size, numbers["b"].size
        matrices = {
            name: read_sparse(arrays, name, shape)
            for name, shape in (("P0", (n, n)), ("P1", (n, n)), ("A", (height, n)))
        }
        starts, (unit, low, high) = arrays["starts"], (float(number) for number in arrays["scale"])
        equalities, ridge, inverse = (int(arrays[name]) for name in ("equalities", "ridge", "inverse"))
        shapes = {
            "q0": (n,),
            "q": (weights, n),
            "b": (height,),
            "M": (numbers["targets"].size, n),
            "targets": (numbers["targets"].size,),
            "points": (knots, n),
            "duals": (knots, height),
        }
        fits = all(numbers[name].shape == shape for name, shape in shapes.items())
        fits = fits and all(np.isfinite(array).all() for array in numbers.values())
        fits = fits and all(np.isfinite(matrix.data).all() for matrix in matrices.values())
        fits = fits and 0 <= equalities <= height and -1 <= ridge < weights and 0.0 <= low <= high < np.inf
        fits = fits and np.frexp(unit)[0] == 0.5 and starts.dtype.kind == "i" and starts.size > 0
        fits = fits and (inverse == 0 or (inverse == 1 and ridge == -1 and weights == 1))
        if not (fits and starts.min() == 0 and starts.max() < n):
            refuse_numbers()
        terms = AffineTerms(
            **matrices,
            q0=numbers["q0"],
            q=numbers["q"],
            b=numbers["b"],
            columns=dict(enumerate(starts.tolist())),
            equalities=equalities,
            ridge=ridge,
            inverse=bool(inverse),
        )
        kept = {name: numbers[name] for name in ("M", "targets", "points", "duals")}
        return cls(terms=terms, unit=unit, ends=(low, high), **kept)

    def check_convex(self) -> None:
        """Check that the squares are convex at every weight of a ridge."""
        check_convex(self.terms.P0 + self.ends[0] * self.terms.P1)
        check_convex(self.terms.P1)
