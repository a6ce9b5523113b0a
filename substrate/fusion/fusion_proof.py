r"""The proof of a fusion as plain numbers: saved, read by another person, and checked without solving anything.

What :mod:`substrate.fusion.universal_bound` needs is a finite list of numbers: the conic program of the problem and the
one with the validation error beside it (each affine in the parameters); a feasible point :math:`x_j` at every vertex; a
dual point (w, z) behind every bound; and the cells. The check computes from these, in this order,

1. that every :math:`x_j` is feasible: the equalities are satisfied exactly by a correction of some of its coordinates,
   which is enclosed, and the inequalities and cones hold for all that is enclosed;
2. that every z is in the dual cone, and with :math:`r = P w + q - A^T z` the lower bound

   .. math:: \tfrac12 w^T P w + q^T w - z^T (A w + b) + d - \sum_j \min\left(\frac{r_j^2}{2 p_j}, |r_j| R_j\right)

   of the least value of its program, the first term where the diagonal entry :math:`p_j` is the only one of its row;
   where parameters are in constraints, b is affine in them, and with :math:`p` at the corners of a simplex of them the
   least value of the program less the affine function through these is at least the smallest, over the corners, of
   this bound with the same (w, z) less :math:`p`: for x fixed, both are affine in the parameters;
3. :math:`D_{jk}` and :math:`h_k(s)`, and with them the bound of every cell; where the two programs are those of
   :mod:`substrate.fusion.bias_chord`, that of the chord between the points at both ends too, and the larger counts;
4. that the cells cover the box.

The formulas are written once, over enclosed numbers (:mod:`substrate.certificates.enclosed`): in double precision for
``check``, in balls for ``prove``.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.balls import Balls, above, below
from substrate.certificates.enclosed import Double, Enclosed
from substrate.certificates.rounding import at_most, relative_rounding, subtract_below
from substrate.composition.semidefinite import SEMIDEFINITE, least_eigenvalue, order_of
from substrate.errors import DataError, DeclarationError
from substrate.fusion.bias_chord import KEPT, BiasChord, ChordEnd
from substrate.fusion.cell_search import starting_levels
from substrate.fusion.conic_numbers import Cones, ProgramNumbers
from substrate.fusion.saved_proof import (
    SavedProof,
    UnprovedError,
    check_convex,
    read_sparse,
    refuse_numbers,
    sparse_arrays,
)
from substrate.fusion.simplex_search import between, cell_simplices
from substrate.fusion.universal_bound import bound_game, bound_interval
from substrate.fusion.unsaved_proof import UnsavedProof

__all__ = ["FusionProof", "ProgramNumbers", "collect_proof"]

_KIND, _KIND_WITH_CONSTRAINTS = "proof of a fusion", "proof of a fusion over constraints"
#: Entries of the largest program that is proved in balls.
_MOST_ENTRIES = 100_000
_CONES = ("Zero", "NonNeg", "SOC", "ExpCone", SEMIDEFINITE)


@dataclass(frozen=True)
class FoldProof:
    """What is known of one problem: its programs, its vertices, and the dual points.

    ``points`` are feasible, ``duals`` those of the problem itself, one row per vertex, w and z behind each other (none
    where parameters are in constraints); ``fused`` those with the validation error beside it: row, column and s of
    each are in ``places``.
    """

    base: ProgramNumbers
    both: ProgramNumbers
    points: Array
    duals: Array
    places: Array
    fused: Array


@dataclass(frozen=True, kw_only=True)
class FusionProof(SavedProof):
    """The proof of a fusion by the universal inequality: vertices, cells and one record per fold.

    ``placed`` are the numbers of the parameters that are in constraints. Every row of ``columns`` are
    the vertices with the same weights at the corners of a simplex of those (one vertex where there are none), every row
    of ``cells`` the columns at the corners of a simplex of weights.
    """

    kinds = (_KIND, _KIND_WITH_CONSTRAINTS)

    thetas: Array
    cells: Any
    folds: tuple[FoldProof, ...]
    columns: Any
    placed: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        search: Any,
        names: Sequence[str],
        box: Sequence[tuple[float, float]],
        values: Mapping[str, float],
        error: float,
        lower: float,
        divisor: float = 1.0,
        least: float = 0.0,
    ) -> "FusionProof":
        """Copy what a :class:`~substrate.fusion.cell_search.CellSearch` found."""
        cells = search.cells
        if not search.covered:
            raise DeclarationError("this fusion has no proof that can be saved: its box is not covered")
        search.confirm(cells)
        base = search.families[0].base
        used = list(dict.fromkeys((theta, cell.places) for cell in cells for theta in cell.corners))
        thetas = list(dict.fromkeys(base.join(theta, place) for theta, places in used for place in places))
        number = {theta: k for k, theta in enumerate(thetas)}
        columns = [[number[base.join(theta, place)] for place in places] for theta, places in used]
        folds = []
        for fold, family in enumerate(search.families):
            knots = [search.knots[theta][fold] for theta in thetas]
            points = np.array([knot.feasible for knot in knots])
            n, m = family.base.q.shape[1], family.base.b.size
            duals = np.zeros((0, n + m))
            if not base.placed:
                duals = np.array([np.concatenate(family.base.witnesses[theta]) for theta in thetas])
            places, fused = [], []
            n, m = family.both.q.shape[1], family.both.b.size
            for k, (theta, simplex) in enumerate(used):
                vertex = search.vertex(fold, theta, simplex)
                for s, h in vertex.fused.items():
                    if np.isfinite(h):
                        places.append((float(k), s))
                        w, z = vertex.witnesses[s] if base.placed else family.both.witnesses[*theta, 1.0 / s]
                        fused.append(np.concatenate([w[:n], z[:m]]))
            width = n + m
            folds.append(
                FoldProof(
                    base=ProgramNumbers.of(family.base),
                    both=ProgramNumbers.of(family.both),
                    points=points,
                    duals=duals,
                    places=np.array(places).reshape(-1, 2),
                    fused=np.array(fused).reshape(-1, width),
                )
            )
        column = {key: k for k, key in enumerate(used)}
        corners = [[column[theta, cell.places] for theta in cell.corners] for cell in cells]
        ranges = tuple((float(low), float(high)) for low, high in box)
        return cls(
            names=tuple(names),
            box=ranges,
            values=dict(values),
            validation_error=error,
            lower_bound=lower,
            gap=search.gap,
            divisor=divisor,
            least=least,
            thetas=np.array(thetas),
            cells=np.array(corners, dtype=np.int64),
            folds=tuple(folds),
            columns=np.array(columns, dtype=np.int64),
            placed=tuple(base.placed),
        )

    @property
    def kind(self) -> str:
        """Return what a file of this proof calls itself."""
        return _KIND_WITH_CONSTRAINTS if self.placed else _KIND

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the cones of the programs, and all arrays."""
        content: dict[str, Any] = {
            "folds": len(self.folds),
            "cones": [[_cones(program) for program in (fold.base, fold.both)] for fold in self.folds],
        }
        arrays: dict[str, Any] = {"thetas": self.thetas, "cells": self.cells}
        if self.placed:
            content["placed"] = list(self.placed)
            arrays["columns"] = self.columns
        for number, fold in enumerate(self.folds):
            for name in ("points", "duals", "places", "fused"):
                arrays[f"fold{number}.{name}"] = getattr(fold, name)
            for word, program in (("base", fold.base), ("both", fold.both)):
                arrays |= {f"fold{number}.{word}.{name}": array for name, array in _arrays_of(program)}
        return content, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "FusionProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        proof = _read(statement, archive)
        _check_shapes(proof)
        return proof

    def bound(self) -> float:
        """Compute the bound on the sums of the folds again, in double precision with its rounding."""
        return _lower_bound(self, Double)

    def bound_in_balls(self) -> float:
        """Compute the bound on the sums of the folds again in ball arithmetic, for programs of up to a few hundred
        rows.
        """
        size = max(program.entries for fold in self.folds for program in (fold.base, fold.both))
        if size > _MOST_ENTRIES:
            raise DataError(
                f"the program has {size} entries, and proofs in balls are for up to {_MOST_ENTRIES}; use check()"
            )
        return _lower_bound(self, Balls)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and the radius that it assumes."""
        bounds = sum(len(fold.fused) for fold in self.folds)
        return (
            ("proof", f"{len(self.thetas)} vertices, {len(self.cells)} cells, {bounds} bounds"),
            (
                "radius of the bound",
                "where no square determines a variable, its optimum is within the radius in the file",
            ),
        )

    def matches(self, problem: Any, validation: Any) -> bool:
        """Return whether a proof of one problem has the numbers of this one, as cvxpy writes it."""
        from substrate.fusion.fused_family import FusedFamily

        by_name = {parameter.name(): parameter for parameter in problem.parameters()}
        missing = [name for name in self.names if name not in by_name]
        if missing or len(self.folds) != 1:
            return False
        family = FusedFamily(problem, [by_name[name] for name in self.names], validation)
        fold = self.folds[0]
        return fold.base.equals(ProgramNumbers.of(family.base)) and fold.both.equals(ProgramNumbers.of(family.both))


def collect_proof(
    search: Any,
    names: Sequence[str],
    box: Sequence[tuple[float, float]],
    values: Mapping[str, float],
    error: float,
    lower: float,
    divisor: float = 1.0,
    least: float = 0.0,
) -> FusionProof | UnsavedProof:
    """Return the numbers behind the bound of a search, or why they cannot be written."""
    if not (math.isfinite(lower) and search.covered):
        return UnsavedProof(f"the search ended before anything was proved over the whole box: {search.stop}")
    if lower <= search.floor < error:
        return UnsavedProof(f"no more is proved than that a loss is not negative: {search.stop}")
    if search.ended_early:
        return UnsavedProof(f"the search ended before its cells had bounds of their own: {search.stop}")
    try:
        return FusionProof.of(search, names, box, values, error, lower, divisor, least)
    except KeyboardInterrupt:
        search.stop = f"{search.stop}; interrupted while the numbers of the proof were collected"
        return UnsavedProof("interrupted while the numbers of the proof were collected; fuse again to save it")


# --- the check ------------------------------------------------------------------------------------------------------


def _lower_bound(proof: FusionProof, numbers: type[Enclosed]) -> float:
    """Return the bound over the box; raise where there is none."""
    _check_cover(proof)
    knots = [_ConicFold(fold, proof, numbers) for fold in proof.folds]
    return min(sum(fold.bound(cell) for fold in knots) for cell in proof.cells.tolist())


class _ConicFold:
    """The bounds of one fold, computed from its record."""

    def __init__(self, fold: FoldProof, proof: FusionProof, numbers: type[Enclosed]) -> None:
        base, both = _ProgramInBalls(fold.base, numbers), _ProgramInBalls(fold.both, numbers)
        n, m = fold.base.q.shape[1], fold.both.q.shape[1]
        self.columns = proof.columns.tolist()
        places = proof.thetas[:, list(proof.placed)]
        self.weights = [np.append(1.0, theta) for theta in np.delete(proof.thetas, list(proof.placed), axis=1)]
        if proof.placed:  # the objective is convex in the point and the parameters together
            for weights in self.weights:
                base.check_convex(weights)
        values_at_points = [base.parts_at(x, place) for x, place in zip(fold.points, places, strict=True)]
        #: p_k is any number; D the upper end of phi_k(x_j) - p_k.
        self.p = [
            float(_midpoint(_dot(numbers, w, values_at_point)))
            for w, values_at_point in zip(self.weights, values_at_points, strict=True)
        ]
        self._numbers, self._parts = numbers, values_at_points
        self.epsilons = []
        self.chord = None if proof.placed else BiasChord.of(fold.base, fold.both)
        self.ends: list[ChordEnd] = []
        for k, dual in enumerate(fold.duals):
            if self.chord is not None:
                strong = base.lower_bound(self.weights[k], dual[:n], dual[n:], KEPT)
                self.ends.append(ChordEnd(self.weights[k], fold.points[k], dual[:n], strong))
            lowest = base.lower_bound(self.weights[k], dual[:n], dual[n:])
            self.epsilons.append(max(_upper(_dot(numbers, self.weights[k], values_at_points[k]) - lowest), 0.0))
        self.pairs: list[list[tuple[float, float]]] = [[] for _ in self.columns]
        for (number, s), dual in zip(fold.places, fold.fused, strict=True):
            column = self.columns[int(number)]
            weights = np.append(self.weights[column[0]], 1.0 / s)
            at_corners = both.lower_bounds(weights, dual[:m], dual[m:], places[column])
            h = min(s * subtract_below(low, self.p[k]) for low, k in zip(at_corners, column, strict=True))
            self.pairs[int(number)].append((float(s), h))

    def bound(self, cell: Sequence[int]) -> float:
        """Return the larger one of both bounds on a cell."""
        return max(self._universal(cell), self._by_chord(cell))

    def _by_chord(self, cell: Sequence[int]) -> float:
        if self.chord is None or len(cell) != 2:
            return -np.inf
        vertices = [self.columns[number][0] for number in cell]
        values = [[_upper(_dot(self._numbers, self.weights[k], self._parts[j])) for k in vertices] for j in vertices]
        return self.chord.bound([self.ends[k] for k in vertices], np.array(values))

    def _universal(self, cell: Sequence[int]) -> float:
        D = np.zeros((len(cell), len(cell)))
        for j, first in enumerate(cell):
            for k, second in enumerate(cell):
                D[j, k] = max(
                    _upper(_dot(self._numbers, self.weights[at], self._parts[point]) - self.p[at])
                    for point, at in zip(self.columns[first], self.columns[second], strict=True)
                )
        pairs = [self.pairs[k] for k in cell]
        if not all(pairs):
            return -np.inf
        if len(cell) == 2 and self.epsilons:
            return bound_interval(pairs, D, [self.epsilons[self.columns[k][0]] for k in cell])
        steep = np.maximum(D.max(axis=0), 0.0)
        chosen = []
        for pair, d in zip(pairs, steep, strict=True):
            gains = [h - 0.5 * s * d for s, h in pair]
            chosen.append(pair[int(np.argmax(gains))])
        s, h = np.array(chosen).T
        return bound_game(subtract_below(h, s * D))


class _ProgramInBalls:
    """A program with its matrices as enclosed numbers."""

    def __init__(self, program: ProgramNumbers, numbers: type[Enclosed]) -> None:
        self.given, self.numbers = program, numbers
        self.A = program.A.toarray()
        self._A, self._AT = (self._exact(np.ascontiguousarray(matrix)).prepare() for matrix in (self.A, self.A.T))
        sizes_of_all = sp.csr_array(sum(abs(P) for P in program.P))
        beside = abs(sizes_of_all - sp.diags_array(sizes_of_all.diagonal())).sum(axis=1)
        self.single = np.asarray(beside).ravel() == 0.0
        #: The parts of P: their diagonals where these are all there is, as of most problems.
        self.P = [P.diagonal() if self.single.all() else P.toarray() for P in program.P]
        self.equal = np.concatenate([np.zeros(0, int), *(np.arange(r.start, r.stop) for r in program.rows("Zero"))])
        if self.equal.size:
            rows = self.A[self.equal]
            # columns that alone determine the equalities: those that pivoting takes first
            _, triangle, order = scipy.linalg.qr(rows, mode="economic", pivoting=True)
            sizes = np.abs(np.diag(triangle))
            if rows.shape[0] > rows.shape[1] or sizes.min() <= 1e-12 * sizes.max():
                raise UnprovedError("the equalities depend on each other")
            self.pivots = order[: rows.shape[0]]

    def _exact(self, values: Any) -> Any:
        return self.numbers.exact(values).careful()

    def rows_at(self, place: Array) -> tuple[Any, Any]:
        """Return b and what is added to the first d at values of the parameters in constraints, enclosed."""
        b, d = self.numbers.exact(self.given.b), self.numbers.exact(np.float64(0.0))
        for value, step, rise in zip(place, self.given.b_steps, self.given.d_steps, strict=True):
            b = b + self.numbers.exact(step) * float(value)
            d = d + self.numbers.exact(np.float64(rise)) * float(value)
        return b, d

    def parts_at(self, x: Array, place: Array) -> list[Any]:
        """Return the parts of the objective at a feasible point next to x, enclosed."""
        point = self._exact(x)
        b, d_of_place = self.rows_at(place)
        if self.equal.size:
            square = self.numbers.exact(self.A[np.ix_(self.equal, self.pivots)])
            residual = (self._A @ point + b).round().take(self.equal)
            point = point + square.solve(-residual).place(self.pivots, x.size)
        self._check_slack((self._A @ point + b).round())
        values = []
        for P, q, d in zip(self.P, self.given.q, self.given.d, strict=True):
            linear = (point * q).total()
            quadratic = (point * self._pull(self._exact(P), point)).total() * 0.5 if P.any() else 0.0
            values.append((linear + quadratic + float(d)).round())
        if place.size:
            values[0] = values[0] + d_of_place
        return values

    def _pull(self, P: Any, x: Any) -> Any:
        """Return P x, with P a matrix or its diagonal."""
        return P * x if self.single.all() else P @ x

    def _check_slack(self, slack: Any) -> None:
        program = self.given
        lower = _lower_ends(slack)
        for rows in program.rows("NonNeg"):
            if lower[rows].min(initial=0.0) < 0.0:
                raise UnprovedError("a point is not feasible: an inequality is violated")
        for rows in program.rows("SOC"):
            norm = slack.take(slice(rows.start + 1, rows.stop))
            room = slack.take(rows.start) * slack.take(rows.start) - (norm * norm).total()
            if lower[rows.start] < 0.0 or _lower(room) < 0.0:
                raise UnprovedError("a point is not feasible: outside a second-order cone")
        for rows in program.rows("ExpCone"):
            u, v, w = (slack.take(k) for k in range(rows.start, rows.stop))
            if not (lower[rows.start + 1] > 0.0 and _lower(w - v * _exponential(u / v)) >= 0.0):
                raise UnprovedError("a point is not feasible: outside an exponential cone")
        for rows in program.rows(SEMIDEFINITE):
            if not _is_definite(slack.take(rows)):
                raise UnprovedError("a point is not feasible: outside a semi-definite cone")

    def lower_bound(self, weights: Array, w: Array, z: Array, kept: float = 0.0) -> float:
        """Bound the objective less this share of the squares of x - w from below by a dual point, over all points."""
        return self.lower_bounds(weights, w, z, np.zeros((1, 0)), kept)[0]

    def lower_bounds(self, weights: Array, w: Array, z: Array, places: Array, kept: float = 0.0) -> list[float]:
        """Bound it at several values of the parameters in constraints by one dual point."""
        self._check_dual(z)
        P = sum(
            (self._exact(P) * weight for P, weight in zip(self.P[1:], weights[1:], strict=True)), self._exact(self.P[0])
        )
        q = sum(
            (self._exact(q) * weight for q, weight in zip(self.given.q[1:], weights[1:], strict=True)),
            self._exact(self.given.q[0]),
        )
        self.check_convex(weights)
        x, pressure = self._exact(w), self._exact(z)
        pulled = self._pull(P, x)
        r = abs((pulled + q - self._AT @ pressure).round())
        every = np.arange(w.size)
        diagonal = P.round() if self.single.all() else P.round().take((every, every))
        positive = (_lower_ends(diagonal) > 0.0) & self.single
        lost = r * self.given.radius
        if positive.any():
            safe = diagonal.select(positive, np.ones(w.size))
            lost = (r * r / (safe * (2.0 * (1.0 - kept)))).select(positive, lost)
        products = self._A @ x
        d = _dot(self.numbers, weights, [self.numbers.exact(number) for number in self.given.d])
        bounds = []
        for place in places:
            b, d_of_place = self.rows_at(place)
            value = (x * pulled).total() * 0.5 + (x * q).total() - (pressure * (products + b)).total()
            bounds.append(_lower(value + (d + d_of_place if place.size else d) - lost.sum()))
        return bounds

    def check_convex(self, weights: Array) -> None:
        """Check that P has no negative eigenvalue beyond rounding: cvxpy knows this of a problem, a file need not."""
        check_convex(sum(weight * P for weight, P in zip(weights, self.given.P, strict=True)))

    def _check_dual(self, z: Array) -> None:
        program = self.given
        for rows in program.rows("NonNeg"):
            if z[rows].min(initial=0.0) < 0.0:
                raise UnprovedError("a multiplier is negative")
        for rows in program.rows("SOC"):
            head, tail = self.numbers.exact(z[rows.start]), self.numbers.exact(z[rows.start + 1 : rows.stop])
            if z[rows.start] < 0.0 or _lower(head * head - (tail * tail).total()) < 0.0:
                raise UnprovedError("multipliers are outside a second-order cone")
        for rows in program.rows("ExpCone"):
            u, v, w = (self.numbers.exact(number) for number in z[rows])
            if z[rows.start] == 0.0:
                inside = z[rows.start + 1] >= 0.0 and z[rows.start + 2] >= 0.0
            else:
                inside = z[rows.start] < 0.0 and _lower(w + u * _exponential(v / u - 1.0)) >= 0.0
            if not inside:
                raise UnprovedError("multipliers are outside the dual of an exponential cone")
        for rows in program.rows(SEMIDEFINITE):
            if z[rows].any() and not _is_definite(self.numbers.exact(z[rows])):
                raise UnprovedError("multipliers are outside a semi-definite cone")


def _is_definite(vector: Any) -> bool:
    """Return whether the matrix of an enclosed vector is positive definite, whatever it is within its radii.

    In double precision by its least eigenvalue; in balls by the pivots of its elimination.
    """
    if not isinstance(vector, Balls):
        vector = vector.round()
        value, radius, _ = least_eigenvalue(np.asarray(vector.midpoint), vector.radius)
        return value >= radius
    n = order_of(np.size(vector.midpoint))
    root = Balls.exact(np.float64(2.0)).sqrt()
    entries: dict[tuple[int, int], Any] = {}
    for number, (column, row) in enumerate(zip(*np.tril_indices(n), strict=True)):
        entry = vector.take(number)
        entries[int(column), int(row)] = entry if row == column else entry / root
    for k in range(n):
        if _lower(entries[k, k]) <= 0.0:
            return False
        for i in range(k + 1, n):
            share = entries[i, k] / entries[k, k]
            for j in range(k + 1, i + 1):
                entries[i, j] = entries[i, j] - share * entries[j, k]
    return True


def _dot(numbers: type[Enclosed], weights: Array, vectors: Sequence[Any]) -> Any:
    """Return the sum of weights times parts, enclosed."""
    total = numbers.exact(np.float64(0.0))
    for weight, vector in zip(weights, vectors, strict=True):
        total = total + vector * float(weight)
    return total


def _exponential(number: Any) -> Any:
    """Return the exponential of one number, enclosed."""
    if isinstance(number, Balls):
        return Balls(number.value.exp())
    middle, radius = float(number.midpoint), number.error().upper()
    if not middle + radius < 700.0:
        return Double(np.float64(0.0), np.inf)
    value = math.exp(middle)
    # the library's exponential is taken to be within four units in the last place
    change = value * math.expm1(radius) * (1.0 + relative_rounding(8.0))
    return Double(np.float64(value), relative_rounding(4.0) * value + change)


def _midpoint(number: Any) -> float:
    return float(number.midpoint)


def _lower(number: Any) -> float:
    """Return a double that is not above one enclosed number."""
    if isinstance(number, Balls):
        return below(number.value)
    lower_end = number.round()
    value = float(lower_end.midpoint) - lower_end.error().upper()
    return float(np.nextafter(value, -np.inf)) if math.isfinite(value) else -np.inf


def _lower_ends(vector: Any) -> Array:
    """Return doubles that are not above the entries of an enclosed vector."""
    if isinstance(vector, Balls):
        return np.array([_lower(vector.take(k)) for k in range(np.size(vector.midpoint))])
    rounded = vector.round()
    ends = np.asarray(rounded.midpoint) - at_most(1.0) * np.broadcast_to(rounded.radius, np.shape(rounded.midpoint))
    return np.where(np.isfinite(ends), np.nextafter(ends, -np.inf), -np.inf)


def _upper(number: Any) -> float:
    """Return a double that is not below one enclosed number."""
    if isinstance(number, Balls):
        return above(number.value)
    return -_lower(-number)


Corner = tuple[float, ...]
ProductCell = tuple[tuple[Corner, ...], tuple[Corner, ...]]


def _check_cover(proof: FusionProof) -> None:
    """Check that the cells cover the box: in one dimension one behind the other, in several by cutting again."""
    cells = [_product_cell(proof, cell) for cell in proof.cells.tolist()]
    if len(proof.names) == 1:
        place = proof.box[0][0]
        ends = [cell[1] if proof.placed else cell[0] for cell in cells]
        for (low,), (high,) in sorted((min(corners), max(corners)) for corners in ends):
            if low > place:
                raise UnprovedError(f"the cells leave a hole from {place:g} to {low:g}")
            place = max(place, high)
        if place < proof.box[0][1]:
            raise UnprovedError(f"the cells end at {place:g}")
        return
    covered = {(frozenset(weights), frozenset(places)): True for weights, places in cells}
    vertices = {corner for simplices in cells for corners in simplices for corner in corners}
    levels = [starting_levels(low, high, True) for low, high in proof.box]
    weighing = cell_simplices([level for k, level in enumerate(levels) if k not in proof.placed])
    placing = cell_simplices([levels[k] for k in proof.placed])
    for cell in product(weighing, placing):
        if not _is_covered(cell, covered, vertices):
            raise UnprovedError("the cells do not cover the box")


def _product_cell(proof: FusionProof, cell: Sequence[int]) -> ProductCell:
    """Return the corners of the weights of a cell, and those of the parameters in constraints."""
    placed = list(proof.placed)
    values = [proof.thetas[column] for column in proof.columns[cell]]
    weights, places = ([np.delete(rows, placed, axis=1) for rows in values], [rows[:, placed] for rows in values])
    if any((rows != rows[0]).any() for rows in weights) or any((rows != places[0]).any() for rows in places):
        raise UnprovedError("the vertices of a cell are not those of a simplex of weights and one of the others")
    return tuple(tuple(rows[0].tolist()) for rows in weights), tuple(tuple(row) for row in places[0].tolist())


def _is_covered(cell: ProductCell, covered: dict[Any, bool], vertices: set[Corner]) -> bool:
    """Return whether a cell is one of the proof's, or both of its halves at a vertex on one of its edges are covered.

    The answer is kept for each cell.
    """
    key = frozenset(cell[0]), frozenset(cell[1])
    if key not in covered:
        covered[key] = any(
            all(_is_covered(half, covered, vertices) for half in halves) for halves in _halves(cell, vertices)
        )
    return covered[key]


def _halves(cell: ProductCell, vertices: set[Corner]) -> Iterator[list[ProductCell]]:
    """Yield both halves of a cell at each of its edges whose middle is a vertex."""
    for side, corners in enumerate(cell):
        for i, j in combinations(range(len(corners)), 2):
            middle = between(corners[i], corners[j])
            if middle is None or middle not in vertices or middle in corners:
                continue
            cuts = [tuple(middle if k == out else corner for k, corner in enumerate(corners)) for out in (i, j)]
            yield [(cut, cell[1]) if side == 0 else (cell[0], cut) for cut in cuts]


# --- the file -------------------------------------------------------------------------------------------------------


def _cones(program: ProgramNumbers) -> list[Any]:
    return [[kind, start, list(sizes)] for kind, start, sizes in program.cones]


def _arrays_of(program: ProgramNumbers) -> Iterator[tuple[str, Any]]:
    yield from (("q", program.q), ("d", program.d), ("b", program.b), ("radius", program.radius))
    if program.d_steps.size:
        yield from (("b_steps", program.b_steps), ("d_steps", program.d_steps))
    for name, matrix in (("A", program.A), *((f"P{k}", P) for k, P in enumerate(program.P))):
        yield from sparse_arrays(name, matrix).items()


def _read(statement: dict[str, Any], archive: Any) -> FusionProof:
    content, arrays = archive.content, archive.arrays
    placed = tuple(int(number) for number in content.get("placed", ()))

    def program(prefix: str, cones: Any) -> ProgramNumbers:
        q, b = arrays[f"{prefix}.q"], arrays[f"{prefix}.b"]
        n, m = q.shape[1], b.size

        P = tuple(read_sparse(arrays, f"{prefix}.P{k}", (n, n)) for k in range(q.shape[0]))
        read = tuple((str(kind), int(start), tuple(int(size) for size in sizes)) for kind, start, sizes in cones)
        steps = (np.zeros((0, m)), np.zeros(0))
        if placed:
            steps = arrays[f"{prefix}.b_steps"], arrays[f"{prefix}.d_steps"]
        return ProgramNumbers(
            P=P,
            q=q,
            d=arrays[f"{prefix}.d"],
            A=read_sparse(arrays, f"{prefix}.A", (m, n)),
            b=b,
            cones=read,
            radius=arrays[f"{prefix}.radius"],
            b_steps=steps[0],
            d_steps=steps[1],
        )

    folds = []
    for number in range(int(content["folds"])):
        base, both = content["cones"][number]
        folds.append(
            FoldProof(
                program(f"fold{number}.base", base),
                program(f"fold{number}.both", both),
                *(arrays[f"fold{number}.{name}"] for name in ("points", "duals", "places", "fused")),
            )
        )
    return FusionProof(
        **statement,
        thetas=arrays["thetas"],
        cells=arrays["cells"],
        folds=tuple(folds),
        columns=arrays["columns"] if placed else np.arange(len(arrays["thetas"]))[:, None],
        placed=placed,
    )


def _check_shapes(proof: FusionProof) -> None:
    """Refuse numbers that do not fit together, or that are not finite."""
    k = len(proof.names)
    vertices, n_columns, n_placed = proof.thetas.shape[0], len(proof.columns), len(proof.placed)
    n_weights = k - n_placed
    fits = proof.thetas.shape == (vertices, k) and proof.cells.ndim == 2 and proof.cells.shape[1] == n_weights + 1
    fits = fits and len(proof.box) == k and proof.cells.size > 0 and proof.divisor > 0.0 and bool(proof.folds)
    fits = fits and proof.placed == tuple(sorted(set(proof.placed) & set(range(k))))
    fits = fits and proof.columns.ndim == 2 and proof.columns.shape[1] == n_placed + 1
    for numbers, most in ((proof.cells, n_columns), (proof.columns, vertices)):
        fits = fits and numbers.dtype.kind == "i" and numbers.min() >= 0 and numbers.max() < most
    for fold in proof.folds:
        for program, n_parts in ((fold.base, n_weights + 1), (fold.both, n_weights + 2)):
            n, m = program.q.shape[1], program.b.size
            fits = (
                fits
                and program.q.shape == (n_parts, n)
                and program.d.shape == (n_parts,)
                and program.radius.shape == (n,)
            )
            fits = fits and all(kind in _CONES and size > 0 for kind, _, sizes in program.cones for size in sizes)
            fits = fits and _cover_rows(program.cones, m)
            fits = fits and program.b_steps.shape == (n_placed, m) and program.d_steps.shape == (n_placed,)
            sizes = (program.q, program.d, program.b, program.A.data, *(P.data for P in program.P), program.radius)
            sizes = (*sizes, program.b_steps, program.d_steps)
            fits = fits and all(np.isfinite(array).all() for array in sizes) and bool((program.radius >= 0.0).all())
        n, m = fold.base.q.shape[1], fold.base.b.size
        fits = fits and fold.points.shape == (vertices, n)
        fits = fits and fold.duals.shape == (0 if proof.placed else vertices, n + m)
        fits = fits and fold.fused.shape == (len(fold.places), fold.both.q.shape[1] + fold.both.b.size)
        fits = fits and fold.places.ndim == 2 and fold.places.shape[1] == 2 and bool((fold.places[:, 1] > 0.0).all())
        at = fold.places[:, 0]
        fits = fits and bool(((at >= 0) & (at < n_columns) & (at == np.floor(at))).all())
        fits = fits and all(np.isfinite(array).all() for array in (fold.points, fold.duals, fold.places, fold.fused))
    if not fits:
        refuse_numbers()


def _cover_rows(cones: Cones, height: int) -> bool:
    """Return whether every row is in exactly one cone."""
    rows_seen = [row for _, start, sizes in cones for row in range(start, start + sum(sizes))]
    exponential = all(size == 3 for kind, _, sizes in cones if kind == "ExpCone" for size in sizes)
    orders = [(size, order_of(size)) for kind, _, sizes in cones if kind == SEMIDEFINITE for size in sizes]
    triangles = all(2 * size == order * (order + 1) for size, order in orders)
    return exponential and triangles and sorted(rows_seen) == list(range(height))
