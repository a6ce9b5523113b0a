r"""Beyond the box: a bound for all larger values of weights whose penalties can vanish.

Let :math:`p_k(x) = q_k^T x \ge 0` be what :math:`\theta_k` weighs, non-negative on all feasible points by the rows
themselves (:func:`~substrate.fusion.penalty_signs.nonnegative_on_rows`), and :math:`\hat x` a feasible point with
:math:`p_k(\hat x) = 0` exactly. Let w be a knot at :math:`\theta_k = R`, with multipliers :math:`\mu`, and
:math:`x^\star` the optimum at the same other parameters and any :math:`\theta_k \ge R`. With :math:`f` the objective at
that value,

.. math::

    \tfrac12 \|\hat x - x^\star\|^2 \le f(\hat x) - f(x^\star)
    = (P w + q(\theta))^T (\hat x - x^\star) + \tfrac12 \|\hat x - w\|^2 - \tfrac12 \|x^\star - w\|^2 ,

and :math:`(P w + q(\theta))^T (\hat x - x^\star) \le \mu^T s(\hat x) + (\theta_k - R)(p_k(\hat x) - p_k(x^\star))
\le \mu^T s(\hat x)`. By the parallelogram law, at the middle :math:`m = (\hat x + w)/2`,

.. math:: \|x^\star - m\|_P^2 \le \mu^T s(\hat x) + \tfrac14 \|\hat x - w\|_P^2 ,

whatever :math:`\theta_k`. For the knots of a simplex of the face all of it is interpolated, and the right-hand side is
a quadratic form in t: the bound of :mod:`substrate.fusion.simplex_bound` covers the whole prism above the simplex.
Several parameters may grow at a time, at the edges and at the corner of the box. A residual r of stationarity adds
:math:`r^T (\hat x - x^\star)`, and :math:`\hat x - x^\star = (m - x^\star) + (\hat x - w)/2`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.feasible_point import FeasiblePoint, least_step
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.affine_program import MARGIN, YOUNG, AffineProgram, Corner
from substrate.fusion.box import Box, levels
from substrate.fusion.knot import Knot
from substrate.fusion.knot_store import KnotStore, ProgramFold, SimplexReach
from substrate.fusion.penalty_signs import nonnegative_on_rows
from substrate.fusion.program_numbers import least_linear
from substrate.fusion.simplex_bound import SimplexBound, bound_simplex
from substrate.fusion.simplex_search import Simplex, cell_simplices, halves
from substrate.search.best_first import Limits, SpentError

__all__ = ["Faces", "bound_beyond_box", "outer_ends", "vanishing_knot"]

#: Penalty, as a share of its largest value, that counts as vanished; the first weight, its growth and steps.
_NOUGHT, _FIRST, _GROWTH, _STEPS = 1e-9, 1e-3, 4.0, 40
#: Steps after which a penalty that falls no more is compared with the smallest that the constraints allow.
_STALLED = 4
#: Entries of a knot below this share of the largest count as zero, and how much larger a weight may make them so.
_ZERO, _FARTHER = 1e-9, 1e3
#: The same of a variable that a growing weight multiplies, which is set to zero.
_VANISHED = 1e-6


def outer_ends(store: KnotStore, ends: Box, limits: Limits | None = None) -> Box:
    """Return the box with every infinite end replaced by a value at which the penalties have vanished, or are as small
    as the constraints allow, if all of these have it.

    At smaller values of the others a penalty may last longer; whether the end was large enough is proved afterwards.
    """
    infinite = [k for k, (_, high) in enumerate(ends) if math.isinf(high)]
    if not infinite:
        return ends
    size = max(fold.size for fold in store.folds)
    corner = [low for low, _ in ends]
    value, most = max(_FIRST * size, _GROWTH * max(ends[k][0] for k in infinite)), 0.0
    least, before = 0.0, np.inf
    for step in range(_STEPS):
        for k in infinite:
            corner[k] = value
        if limits is not None and store.corners:  # the first one is solved whatever the limits
            limits.check(store.solves, len(store.folds))
        at = store.add(tuple(corner))
        pairs = zip(store.folds, store.knots, strict=True)
        penalty_left = max(fold.program.penalty(k, knots[at].x) for fold, knots in pairs for k in infinite)
        most = max(most, penalty_left)
        if step >= _STALLED and penalty_left > 0.5 * before and least == 0.0:
            least = max(_least_penalty(fold.program, k) for fold in store.folds for k in infinite)
        if penalty_left - least <= _NOUGHT * max(most - least, 1e-12):
            break
        value, before = value * _GROWTH, penalty_left
    else:
        raise DeclarationError(
            f"the penalties do not vanish at {value / _GROWTH:.1e}, nor are they as small as the constraints allow, so "
            "the search has no upper end; give one for each: "
            "box={name: (low, high), ...}"
        )
    return tuple((low, value) if k in infinite else (low, high) for k, (low, high) in enumerate(ends))


def _least_penalty(program: AffineProgram, k: int) -> float:
    """Return the smallest value that the constraints allow of what parameter k weighs; zero where there is none."""
    return least_linear(program.q[k], program.A, program.b, program.G, program.h) or 0.0


@dataclass(slots=True)
class Faces:
    """The faces of a box beyond which some parameters grow, and the points with a vanished penalty found so far."""

    store: KnotStore
    ends: Box
    growing: tuple[int, ...]
    #: Whether an interrupt ended the search beyond the box.
    interrupted: bool = False
    #: Points with a vanished penalty, by fold, knot and the parameters that grow.
    points: dict[tuple[int, int, tuple[int, ...]], Knot | None] = field(default_factory=dict)

    @classmethod
    def of(cls, store: KnotStore, box: Box, ends: Box) -> "Faces":
        """Return those of the parameters with an infinite end, where the rows show that their penalty is never
        negative; what a ridge weight multiplies is no penalty of this kind.
        """
        infinite = [k for k, (_, high) in enumerate(box) if math.isinf(high)]
        programs = [fold.program for fold in store.folds]
        shown = [k for k in infinite if all(k != p.ridge and nonnegative_on_rows(p.q[k], p.G, p.h) for p in programs)]
        return cls(store, ends, tuple(shown))

    def pieces(self) -> list[tuple[tuple[int, ...], tuple[Corner, ...]]]:
        """Return, for every set of parameters that grow, the simplices of the others, those at their ends."""
        pieces_found = []
        for count in range(1, len(self.growing) + 1):
            for beyond in combinations(self.growing, count):
                bounded_axes = [k for k in range(len(self.ends)) if k not in beyond]
                cells = (
                    cell_simplices([levels(self.ends[k], len(self.ends)) for k in bounded_axes])
                    if bounded_axes
                    else [((),)]
                )
                for cell in cells:
                    pieces_found.append((beyond, tuple(self._whole(bounded_axes, corner) for corner in cell)))
        return pieces_found

    def _whole(self, bounded_axes: Sequence[int], corner: Corner) -> Corner:
        values = [high for _, high in self.ends]
        for k, value in zip(bounded_axes, corner, strict=True):
            values[k] = value
        return tuple(values)

    def bound(self, vertices: Sequence[int], beyond: tuple[int, ...], enough: float = np.inf) -> SimplexBound | None:
        """Return the bound over the prism above a simplex of knots; None where a penalty does not vanish exactly."""
        at, store = list(vertices), self.store
        errors, radii, forms = [], np.zeros(len(at)), []
        for f, fold in enumerate(store.folds):
            far = [self._find_vanishing(f, i, beyond) for i in at]
            near = [store.knots[f][i] for i in at]
            far_knots = [far_knot for far_knot in far if far_knot is not None]
            if len(far_knots) < len(at):
                return None
            middles = [
                fold.errors(far_knot) + fold.errors(near_knot)
                for far_knot, near_knot in zip(far_knots, near, strict=True)
            ]
            errors.append(0.5 * np.array(middles))
            radii += [
                fold.errors_radius(far_knot) + fold.errors_radius(near_knot)
                for far_knot, near_knot in zip(far_knots, near, strict=True)
            ]
            forms.append(_forms(store, f, at, far_knots, near))
        E = np.concatenate(errors, axis=1)
        radii = radii + relative_rounding(1.0) * np.linalg.norm(E, axis=1)
        return bound_simplex(E, radii, forms, SimplexReach(store, at), enough)

    def _find_vanishing(self, f: int, i: int, beyond: tuple[int, ...]) -> Knot | None:
        """Return a feasible point near a knot whose penalties beyond are exactly zero."""
        key = (f, i, beyond)
        if key not in self.points:
            fold, corner = self.store.folds[f], self.store.corners[i]
            knot = _zero_penalties(fold, corner, self.store.knots[f][i], beyond)
            if knot is None:
                farther = tuple(_FARTHER * v if k in beyond else v for k, v in enumerate(corner))
                self.store.solves += 1
                knot = _zero_penalties(fold, farther, fold.program.solve(farther), beyond)
            self.points[key] = knot
        return self.points[key]


def bound_beyond_box(faces: Faces, target: float, budget: int | Limits) -> tuple[float, tuple[int, ...]]:
    """Return a lower bound of the squares beyond the box, and the parameters for which it holds beyond every value.

    Simplices of the faces are cut until their bounds reach the target. A parameter is given up where a single knot
    keeps its bound below that, where a penalty does not vanish exactly, or where the budget of solves or the time is
    spent.
    """
    try:
        return _cover_faces(faces, target, budget if isinstance(budget, Limits) else Limits(budget))
    except (KeyboardInterrupt, SolverError, SpentError) as error:  # the box has its bound all the same
        faces.interrupted = isinstance(error, KeyboardInterrupt)
        return np.inf, ()


def _cover_faces(faces: Faces, target: float, limits: Limits) -> tuple[float, tuple[int, ...]]:
    store, given_up = faces.store, set[int]()
    reached: dict[tuple[int, ...], float] = {}
    for beyond, corners in faces.pieces():
        waiting: list[Simplex] = [tuple(store.add(corner) for corner in corners)]
        while waiting and not given_up.intersection(beyond):
            limits.check_time()
            simplex = waiting.pop()
            bound_found = faces.bound(simplex, beyond, target)
            if bound_found is not None and bound_found.value >= target:
                reached[beyond] = min(reached.get(beyond, np.inf), bound_found.value)
                continue
            simplices: list[Simplex] = []
            if bound_found is not None and store.solves + 2 * len(store.folds) <= limits.budget:
                alone = [faces.bound([vertex], beyond, target) for vertex in simplex]
                if all(vertex is not None and vertex.value >= target for vertex in alone):
                    simplices = halves(store, simplex, bound_found.radii)
            if not simplices:
                given_up.add(beyond[-1])
            waiting += simplices
    lower = min((bound for beyond, bound in reached.items() if not given_up.intersection(beyond)), default=np.inf)
    return lower, tuple(k for k in faces.growing if k not in given_up)


def _zero_penalties(fold: ProgramFold, corner: Corner, knot: Knot, beyond: tuple[int, ...]) -> Knot | None:
    program = fold.program
    largest = max(float(np.abs(knot.x).max(initial=0.0)), 1e-3)  # solutions are of the order of one
    x = np.where(np.abs(knot.x) <= _ZERO * largest, 0.0, knot.x)
    found = vanishing_knot(program, corner, program.feasible.at(program.bounds.lower(x, MARGIN)), knot.dual, beyond)
    if found is not None:
        return found
    # rounding has raised a penalty: what is not weighed moves inside instead
    weighed = program.q[list(beyond)].any(axis=0)
    if (np.abs(x[weighed]) > _VANISHED * largest).any():
        return None
    x[weighed] = 0.0
    point = program.feasible.near(x, lambda near, gains: _step_beside(program, weighed, near, gains))
    return None if isinstance(point, str) else vanishing_knot(program, corner, point, knot.dual, beyond)


def _step_beside(program: AffineProgram, weighed: Any, near: Any, gains: Array) -> Array | None:
    """Return a change of x that raises the rows in a mask by gains, and leaves what is weighed as it is."""
    step, rows = np.zeros(weighed.size), -sp.csr_array(program.G)[near][:, ~weighed]
    moved = least_step(sp.csr_array(program.A)[:, ~weighed], rows, gains[near])
    if moved is None:
        return None
    step[~weighed] = moved
    return step


def vanishing_knot(
    program: AffineProgram, corner: Corner, point: FeasiblePoint | None, dual: Array, beyond: tuple[int, ...]
) -> Knot | None:
    """Return the knot at a feasible point whose penalties beyond are exactly zero; None where they are not."""
    weighed = program.q[list(beyond)].any(axis=0)
    if point is None or point.x[weighed].any() or point.radius[weighed].any():
        return None
    return program.at(corner, point, dual)


def _forms(store: KnotStore, f: int, at: list[int], far: list[Knot], near: list[Knot]) -> tuple[Array, Array]:
    """Return Q and R of the prism: slacks of the far points, and their distance from the knots."""
    program = store.folds[f].program
    m, n = program.b.size, len(at)
    _, R = store.radii(f, at)
    duals, slacks = np.array([knot.dual[m:] for knot in near]), np.array([knot.slack for knot in far])
    products = duals @ slacks.T
    allowances = np.array([knot.allowance for knot in near])
    share = (0.5 if store.ridge else 0.25) + YOUNG
    Q = (1.0 + YOUNG) * (0.5 * (products + products.T) + share * _distances(program, store, at, far, near))
    return Q + allowances[:, None] + allowances[None, :] + np.zeros((n, n)), 1.25 * R


def _distances(program: AffineProgram, store: KnotStore, at: list[int], far: list[Knot], near: list[Knot]) -> Array:
    """Return products of the steps from knots to far points, in the norm of the largest P, and their rounding."""
    P = program.quadratic(max(program.tau(store.corners[i]) for i in at))
    D = np.array([far_knot.x - near_knot.x for far_knot, near_knot in zip(far, near, strict=True)])
    sizes = np.array(
        [
            far_knot.radius + near_knot.radius + relative_rounding(4.0) * (np.abs(far_knot.x) + np.abs(near_knot.x))
            for far_knot, near_knot in zip(far, near, strict=True)
        ]
    )
    products, radius = D @ (P @ D.T), sizes @ (abs(P) @ sizes.T)
    lengths = np.sqrt(np.maximum(products.diagonal(), 0.0))
    rounding = relative_rounding(P.shape[0]) * (np.abs(D) @ (abs(P) @ np.abs(D).T))
    # (a + b)^2 <= (1 + s) a^2 + (1 + 1/s) b^2 with s = 1e-6
    return np.asarray(products + rounding + 1e-6 * np.outer(lengths, lengths) + 1.1e6 * float(radius.max(initial=0.0)))
