r"""The proof of a fusion by chords over simplices, as plain numbers.

The file has for every fold its quadratic program and the map from its solution to validation errors; a feasible point
and multipliers at every knot; and at which knot each simplex was cut. The check computes from these

1. that every point is feasible, its slacks, and the residual of stationarity of its multipliers
   (:meth:`~substrate.fusion.affine_program.AffineProgram.recall`);
2. how far the squares determine validation errors (:mod:`substrate.fusion.determined_errors`);
3. the bound of every simplex of the first grid (:mod:`substrate.fusion.simplex_bound`), and, where it does not reach
   the one that is stated, those of its parts: a simplex that is cut at a point

   .. math:: \theta = \sum_i \lambda_i \theta_i, \qquad \lambda_i \ge 0, \quad \sum_i \lambda_i = 1

   is the union of the simplices with :math:`\theta` in the place of one :math:`\theta_i` with :math:`\lambda_i > 0`, so
   that the box is covered whatever was cut;
4. the bounds beyond the box (:mod:`substrate.fusion.faces`), where larger values are covered too.

Where the weight is that of all squares, the simplices are intervals in one over it
(:mod:`substrate.fusion.affine_terms`), and the box is that of the weight.

No program is solved, so that a check costs a fraction of the search.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.affine_program import AffineProgram, Corner
from substrate.fusion.box import Box, levels, reciprocal_ends
from substrate.fusion.chord_numbers import ChordFold
from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.faces import Faces, vanishing_knot
from substrate.fusion.knot import Knot
from substrate.fusion.knot_store import KnotStore, ProgramFold
from substrate.fusion.saved_proof import SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.fusion.simplex_balls import BallKnots
from substrate.fusion.simplex_bound import simplex_bound
from substrate.fusion.simplex_search import Simplex, cell_simplices

__all__ = ["BELOW", "RADIUS", "SimplexProof"]

#: The effect of rounding in the few operations of a bound.
BELOW = 1.0 - 1e-10
#: Places of rounding by which a vertex may be off the simplex that it cuts: those that the bounds allow for.
_PLACES = 32.0
#: The assumption behind the bound, for the record.
RADIUS = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times its size, or the spread "
    "of y, of the knots; were it k times farther, the effect of rounding on the bound would be at most k times larger"
)

Growing = tuple[int, ...]
#: The bound over a simplex, or over the prism beyond it where parameters grow; one of at least the target is enough.
SimplexBounding = Callable[[Growing, Simplex, float], float]


@dataclass(frozen=True)
class Cuts:
    """Where simplices were cut: their vertices and the new one, one row each, and the shares of the vertices in it."""

    vertices: Any
    shares: Array

    @classmethod
    def of(cls, corners: Sequence[Corner], cuts: Mapping[Simplex, Sequence[Simplex]], width: int) -> "Cuts":
        """Copy what a search kept of its cuts."""
        rows, shares = [], []
        for simplex, parts in cuts.items():
            (new,) = set(parts[0]) - set(simplex)
            replaced = [simplex.index(vertex) for part in parts for vertex in simplex if vertex not in part]
            rows.append([*simplex, new])
            shares.append(_shares(np.array([corners[v] for v in simplex]), np.array(corners[new]), replaced))
        return cls(np.array(rows, dtype=np.int64).reshape(-1, width + 1), np.array(shares).reshape(-1, width))

    def fit(self, width: int, knots: int) -> bool:
        """Return whether the numbers fit together."""
        fits = self.vertices.dtype.kind == "i" and self.vertices.shape == (len(self.vertices), width + 1)
        fits = fits and self.shares.shape == (len(self.vertices), width) and bool((self.shares >= 0.0).all())
        return fits and self.vertices.min(initial=0) >= 0 and self.vertices.max(initial=0) < knots

    def parts(self, corners: Array) -> dict[frozenset[int], list[Simplex]]:
        """Return the parts of every simplex that was cut; raise where a new vertex is not inside."""
        parts = {}
        for (*simplex, new), shares in zip(self.vertices.tolist(), self.shares, strict=True):
            place, ends = corners[new], corners[simplex]
            off = np.abs(shares @ ends - place) > relative_rounding(_PLACES) * np.abs(ends).max(axis=0)
            if off.any() or abs(float(shares.sum()) - 1.0) > relative_rounding(_PLACES) or new in simplex:
                raise UnprovedError("a simplex is cut at a point outside of it")
            cut = [tuple(new if k == out else v for k, v in enumerate(simplex)) for out in np.flatnonzero(shares)]
            parts[frozenset(simplex)] = cut
        return parts


def _shares(ends: Array, place: Array, replaced: Sequence[int]) -> Array:
    """Return the shares of the vertices that were replaced in a new one, nearly; those of others are zero."""
    at = sorted(set(replaced))
    scale = np.maximum(np.abs(ends).max(axis=0), np.finfo(float).tiny)
    rows = np.vstack([ends[at].T / scale[:, None], np.ones(len(at))])
    if len(at) == 2:
        step = rows[:-1, 1] - rows[:-1, 0]
        widest = int(np.abs(step).argmax())
        share = float(np.clip((place[widest] / scale[widest] - rows[widest, 0]) / step[widest], 0.0, 1.0))
        inside = np.array([1.0 - share, share])
    else:
        inside = np.maximum(np.linalg.lstsq(rows, np.append(place / scale, 1.0), rcond=None)[0], 0.0)
    shares = np.zeros(len(ends))
    shares[at] = np.maximum(inside, np.finfo(float).tiny)  # what was replaced stays replaced
    return shares


@dataclass(frozen=True, kw_only=True)
class SimplexProof(SavedProof):
    """The proof by chords over simplices.

    Parameters
    ----------
    inner
        The box of the simplices; where an end of ``box`` is infinite, the value beyond which another argument holds.
    corners
        The weights at the knots, one row each.
    folds
        The numbers of every fold.
    cuts
        The cuts of the box, with no parameters, and of its faces, by the parameters that grow beyond them.
    vanishing
        Points whose penalties are exactly zero, by fold, knot and growing parameters.
    """

    kinds = ("proof of a fusion by chords over simplices",)

    inner: Box
    corners: Array
    folds: tuple[ChordFold, ...]
    cuts: dict[Growing, Cuts]
    vanishing: dict[tuple[int, int, Growing], Array]

    @classmethod
    def of(
        cls,
        store: KnotStore,
        box: Box,
        inner: Box,
        cuts: Mapping[Simplex, Sequence[Simplex]],
        faces: Faces | None,
        statement: Mapping[str, Any],
    ) -> "SimplexProof":
        """Copy what a search over simplices found, and what it found beyond its box."""
        p = len(inner)
        kept: dict[Growing, Cuts] = {(): Cuts.of(store.corners, cuts, p + 1)}
        vanishing = {}
        if faces is not None:
            by_growing: dict[Growing, dict[Simplex, Sequence[Simplex]]] = {}
            for (beyond, simplex), parts in faces.cuts.items():
                by_growing.setdefault(beyond, {})[simplex] = parts
            for beyond, cuts_of_face in by_growing.items():
                kept[beyond] = Cuts.of(store.corners, cuts_of_face, p + 1 - len(beyond))
            vanishing = {key: knot.x for key, knot in faces.points.items() if knot is not None}
        folds = []
        for fold, knots in zip(store.folds, store.knots, strict=True):
            ridge = fold.program.ridge
            folds.append(
                ChordFold.of(fold.program, inner[ridge] if ridge >= 0 else (0.0, 0.0), fold.M, fold.targets, knots)
            )
        return cls(
            **statement,
            box=box,
            inner=inner,
            corners=np.array(store.corners),
            folds=tuple(folds),
            cuts=kept,
            vanishing=vanishing,
        )

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the cut faces, and all arrays."""
        content = {
            "folds": len(self.folds),
            "inner": [list(ends) for ends in self.inner],
            "faces": [list(beyond) for beyond in self.cuts],
            "vanishing": [[fold, knot, list(beyond)] for fold, knot, beyond in self.vanishing],
        }
        arrays: dict[str, Any] = {"corners": self.corners}
        for number, cuts in enumerate(self.cuts.values()):
            arrays |= {f"face{number}.cuts": cuts.vertices, f"face{number}.shares": cuts.shares}
        arrays |= {f"vanishing{number}": x for number, x in enumerate(self.vanishing.values())}
        for number, fold in enumerate(self.folds):
            arrays |= {f"fold{number}.{name}": array for name, array in fold.arrays().items()}
        return content, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "SimplexProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        content, arrays = archive.content, archive.arrays
        corners, p = arrays["corners"], len(statement["names"])
        count = len(corners)
        folds = []
        for number in range(int(content["folds"])):
            folds.append(ChordFold.read(arrays_under(arrays, f"fold{number}."), p, count))
        cuts = {}
        for number, axes in enumerate(content["faces"]):
            cuts[tuple(int(k) for k in axes)] = Cuts(arrays[f"face{number}.cuts"], arrays[f"face{number}.shares"])
        vanishing = {}
        for number, (fold, knot, axes) in enumerate(content["vanishing"]):
            vanishing[int(fold), int(knot), tuple(int(k) for k in axes)] = arrays[f"vanishing{number}"]
        inner = tuple((float(low), float(high)) for low, high in content["inner"])
        fits = corners.shape == (count, p) and np.isfinite(corners).all() and bool((corners >= 0.0).all())
        fits = fits and bool(folds) and len(inner) == p and all(0.0 <= low < high < np.inf for low, high in inner)
        fits = fits and () in cuts and all(one.fit(p + 1 - len(axes), count) for axes, one in cuts.items())
        fits = fits and len({(fold.terms.ridge, fold.terms.inverse) for fold in folds}) == 1
        for (fold, knot, _), x in vanishing.items():
            fits = fits and fold < len(folds) and knot < count and x.shape == folds[fold].terms.q0.shape
        if not fits:
            refuse_numbers()
        return cls(**statement, inner=inner, corners=corners, folds=tuple(folds), cuts=cuts, vanishing=vanishing)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and the radius that it assumes."""
        cut = sum(len(cuts.vertices) for cuts in self.cuts.values())
        return (
            ("proof", f"{len(self.corners)} knots, {cut} cuts of simplices, {len(self.folds)} folds"),
            ("radius of the bound", RADIUS),
        )

    @cached_property
    def _store(self) -> KnotStore:
        """Return the knots with all that bounds need of them, computed again."""
        programs = []
        for fold in self.folds:
            fold.check_convex()
            program = AffineProgram(fold.terms, fold.unit, fold.ends[0])
            reach = DeterminedErrors.of(program, fold.M, fold.ends[1])
            programs.append(ProgramFold(program=program, M=fold.M, targets=fold.targets, reach=reach))
        store = KnotStore(programs)
        for number, corner in enumerate(map(tuple, self.corners.tolist())):
            knots = []
            for fold, program_fold in zip(self.folds, programs, strict=True):
                program = program_fold.program
                knot = program.recall(corner, fold.points[number], fold.duals[number])
                knots.append(program.nothing(fold.points[number], fold.duals[number]) if knot is None else knot)
            if store.recall(corner, knots) != number:
                raise UnprovedError("two knots have the same weights")
        return store

    def bound(self) -> float:
        """Compute the bound on the sums of the folds again."""
        return self._lower_bound(self._bound)

    def bound_in_balls(self) -> float:
        """Compute the bound on the sums of the folds again in ball arithmetic, for small programs."""
        knots = BallKnots(self._store)

        def bound(beyond: Growing, simplex: Simplex, target: float) -> float:
            if not beyond:
                return knots.bound(simplex, target)
            return knots.bound_beyond(simplex, beyond, self.vanishing, target) if self._vanish(simplex, beyond) else 0.0

        return self._lower_bound(bound)

    def _lower_bound(self, bound: SimplexBounding) -> float:
        """Return the smallest bound of all simplices, by a function of the growing parameters, a simplex and a
        target.
        """
        store, p = self._store, len(self.inner)
        box = self._searched_box()
        growing = tuple(k for k, (_, high) in enumerate(box) if np.isinf(high))
        for (low, high), (inner_low, inner_high) in zip(box, self.inner, strict=True):
            if low < inner_low or (high > inner_high and not np.isinf(high)):
                raise UnprovedError(f"the simplices cover values from {inner_low:g} to {inner_high:g} only")
        for fold in self.folds:
            ridge = fold.terms.ridge
            if ridge >= 0 and not (fold.ends[0] <= self.inner[ridge][0] and self.inner[ridge][1] <= fold.ends[1]):
                raise UnprovedError("a ridge weight is outside of the range in which its squares are known")
        start = cell_simplices([levels(ends, p) for ends in self.inner])
        lowest = min(self._lowest((), self._vertices(corners), bound) for corners in start)
        if growing:
            faces = self._faces
            if not set(growing) <= set(faces.growing):
                raise UnprovedError("a penalty may be negative, so that nothing is known of larger weights")
            for beyond, corners in faces.pieces():
                if set(beyond) <= set(growing):
                    lowest = min(lowest, self._lowest(beyond, self._vertices(corners), bound))
        return BELOW * min(lowest, float(store.squares.min()))

    def _searched_box(self) -> Box:
        """Return the box in the parameters of the simplices: the weight of all squares is searched as one over it.

        The ends of one over it are rounded, by less than the bounds of the corners allow for.
        """
        if not self.folds[0].terms.inverse:
            return self.box
        if self.box[0][0] < 0.0:
            raise UnprovedError("the simplices cover positive weights of the squares only")
        (low, high), (inner_low, inner_high) = reciprocal_ends(self.box[0]), self.inner[0]
        rounding = relative_rounding(4.0)
        low = inner_low if 0.0 <= inner_low - low <= rounding * inner_low else low
        return ((low, inner_high if 0.0 <= high - inner_high <= rounding * high else high),)

    def _vertices(self, corners: Sequence[Corner]) -> Simplex:
        if not all(self._store.holds(corner) for corner in corners):
            raise UnprovedError("a corner of the first grid has no knot")
        return tuple(self._store.add(corner) for corner in corners)

    @cached_property
    def _faces(self) -> Faces:
        faces = Faces.of(self._store, self._searched_box(), self.inner)
        for key in self.vanishing:
            faces.points[key] = self._vanishing_knot(*key)
        return faces

    def _vanishing_knot(self, fold: int, number: int, beyond: Growing) -> Knot | None:
        program, near = self._store.folds[fold].program, self._store.knots[fold][number]
        point = program.feasible.confirm(self.vanishing[fold, number, beyond])
        return vanishing_knot(program, self._store.corners[number], point, near.dual, beyond)

    @cached_property
    def _parts(self) -> dict[Growing, dict[frozenset[int], list[Simplex]]]:
        return {beyond: cuts.parts(self.corners) for beyond, cuts in self.cuts.items()}

    def _lowest(self, beyond: Growing, simplex: Simplex, bound_of: SimplexBounding) -> float:
        """Return the bound over a simplex, or over the prism beyond it: its own, or the smallest of its parts."""
        target = self.lower_bound * self.divisor / BELOW
        parts, lowest = self._parts.get(beyond, {}), np.inf
        waiting = [(simplex, 0.0)]
        while waiting:
            simplex, floor = waiting.pop()
            bound = max(bound_of(beyond, simplex, target), floor)
            cut = parts.get(frozenset(simplex), []) if bound < target else []
            waiting += [(part, bound) for part in cut]
            lowest = lowest if cut else min(lowest, bound)
        return lowest

    def _bound(self, beyond: Growing, simplex: Simplex, target: float) -> float:
        if not beyond:
            return simplex_bound(self._store, simplex, target).value
        found = self._faces.bound(simplex, beyond, target) if self._vanish(simplex, beyond) else None
        return 0.0 if found is None else found.value

    def _vanish(self, simplex: Simplex, beyond: Growing) -> bool:
        """Return whether the file has points whose penalties vanish beyond a simplex."""
        return all((f, i, beyond) in self.vanishing for f in range(len(self.folds)) for i in simplex)
