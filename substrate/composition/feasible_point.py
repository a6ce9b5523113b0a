r"""A point that satisfies every constraint exactly, near one that satisfies them to rounding.

*Equalities* :math:`A_E x = -b_E` that are violated by :math:`\varepsilon` hold exactly at some :math:`x + c`: a row
with a column of its own is corrected there, the others at a distance of at most
:math:`\|\varepsilon\| / \sigma_{\min}`. Every :math:`|c_j|` is bounded; c itself is never computed.

*Inequalities and cones* that are violated, or satisfied by less than what rounding and c may change, are satisfied
after a short step h with :math:`A_E h = 0` and :math:`A_i h > 0` in these rows, towards the interior. Where there is no
interior there is no such step, and no bound is claimed.

The linear systems of the optimality conditions are regularised and refined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import Cone, ConeProgram, IntegerArray
from substrate.composition.semidefinite import SEMIDEFINITE, least_eigenvalue

__all__ = ["NO_INSIDE", "Conditions", "Feasibility", "FeasiblePoint", "Step", "least_step", "towards"]


#: Diagonal that makes the system regular; refinement removes its effect.
_REGULAR = 1e-9
_REFINEMENTS = 8
#: Entries of a matrix up to which singular values are quicker than a sparse factor.
_SMALL = 20_000


#: A change of x that raises the inequalities in a mask by gains, nearly, and keeps the equalities.
Step = Callable[[NDArray[np.bool_], Array], Array | None]


class Conditions:
    """The matrix [P, C'; C, 0], factored; the caller computes the residuals of its solutions."""

    def __init__(self, P: Any, C: Any) -> None:
        n, m = P.shape[0], C.shape[0]
        size = float(abs(P).max()) if P.nnz else 1.0
        self._full = sp.csc_array(sp.block_array([[P, C.T], [C, sp.csr_array((m, m))]]))
        shift = np.append(np.full(n, _REGULAR * size), np.full(m, -_REGULAR))
        self._factor = splu(sp.csc_matrix(self._full + sp.diags_array(shift)))

    def solve(self, right: Array, start: Array | None = None, refinements: int = _REFINEMENTS) -> Array:
        """Return a solution of the system without the added diagonal, by refinement."""
        solution = np.zeros_like(right) if start is None else start
        for _ in range(refinements):
            solution = solution + self._factor.solve(right - self._full @ solution)
        return solution


def towards(program: ConeProgram, x: Array, inside: Array | None) -> Step:
    """Step from x towards a point inside the inequalities, as far as the gains ask for."""

    def step(near: NDArray[np.bool_], gains: Array) -> Array | None:
        if inside is None:
            return None
        way = inside - x
        rises = (program.A @ way)[program.linear[near]] / np.maximum(gains[near], np.finfo(float).tiny)
        return way / float(rises.min()) if rises.size and float(rises.min()) > 0.0 else None

    return step


def least_step(equal: Any, rows: Any, gains: Array) -> Array | None:
    """Return the shortest h with ``equal @ h = 0`` and ``rows @ h >= gains``, nearly; None where there is none."""
    unit = float(gains.max(initial=0.0))
    if unit <= 0.0:
        return None
    n = rows.shape[1]
    right = np.concatenate([np.zeros(equal.shape[0]), gains / unit])
    if right.size * n <= _SMALL:
        step = np.linalg.lstsq(np.vstack([equal.toarray(), rows.toarray()]), right, rcond=None)[0]
    else:
        step = _by_conditions(sp.vstack([equal, rows], format="csr"), right)
    if not _serves(equal @ step, rows @ step, gains / unit, step):
        by_program = _by_program(equal, rows, gains / unit)
        if by_program is None or not _serves(equal @ by_program, rows @ by_program, gains / unit, by_program):
            return None
        step = by_program
    return np.asarray(unit * step)


def _by_conditions(rows: Any, right: Array) -> Array:
    n = rows.shape[1]
    try:
        return Conditions(sp.eye_array(n, format="csr"), rows).solve(np.append(np.zeros(n), right))[:n]
    except RuntimeError:  # singular all the same
        return np.full(n, np.nan)


def _serves(changed: Array, gained: Array, gains: Array, step: Array) -> bool:
    """Return whether a step gains nearly what is asked for, and changes the equalities by nothing that counts."""
    if not np.isfinite(step).all():
        return False
    size = 1.0 + float(np.abs(step).max(initial=0.0))
    missed = float(np.abs(changed).max(initial=0.0))
    return bool((gained >= 0.9 * gains - 1e-6).all()) and missed <= 1e-6 * size


def _by_program(equal: Any, rows: Any, gains: Array) -> Array | None:
    """Find the step by a quadratic program: rows that depend on each other may gain more than required."""
    import piqp

    n = rows.shape[1]
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = 1e-9, 1e-9, 100, False
    solver.setup(
        sp.csc_matrix(sp.eye_array(n)),
        np.zeros(n),
        sp.csc_matrix(equal),
        np.zeros(equal.shape[0]),
        sp.csc_matrix(rows),
        gains,
        np.full(gains.size, 1e30),
        None,
        None,
    )
    if solver.solve() != piqp.PIQP_SOLVED:
        return None
    return np.array(solver.result.x)


#: Why there is no feasible point near one: what is asked of the constraints, not the point, is in its way.
NO_INSIDE = "its constraints leave no inside that could be reached from the solver's point"
_STEPS = 6
#: Rows whose slack is below this many times the largest margin are kept in the interior by a step too.
_NEAR = 1e3
#: Smallest singular value, as a share of the largest, of equalities that count as independent.
_INDEPENDENT = 1e-10


@dataclass(frozen=True, slots=True)
class FeasiblePoint:
    """x, and the distance in each coordinate to a point that satisfies all constraints exactly."""

    x: Array
    radius: Array


class Feasibility:
    """The constraints of a program, prepared once for many points."""

    def __init__(self, program: ConeProgram) -> None:
        self.program = program
        self._equalities = _Equalities.of(program)

    def near(self, x: Array, step: Step | None = None) -> FeasiblePoint | str:
        """Return a feasible point near x, or why none was found; ``step`` is tried before others."""
        if isinstance(self._equalities, str):
            return self._equalities
        program = self.program
        for _ in range(_STEPS):
            x = self._equalities.correct(x)
            slack = program.slack(x)
            radius = self._equalities.bound_distance(*slack)
            lacking, margins = _lacking(program, *slack, radius)
            if not np.isfinite(margins.sum()):
                break
            if (lacking <= 0.0).all():
                return FeasiblePoint(x, radius)
            rounding = _rounding(program, x)
            near = lacking > -_NEAR * float((margins + rounding).max(initial=0.0))
            step_taken = self._move(x, near, np.maximum(lacking + margins + rounding, 0.0), step)
            if step_taken is None:
                return NO_INSIDE
            x = x + step_taken
        return "no feasible point was found next to the solver's point"

    def _move(self, x: Array, near: NDArray[np.bool_], gains: Array, step: Step | None) -> Array | None:
        program = self.program
        unit = float(gains[near].max(initial=0.0))
        if unit > 0.0:
            tried = [] if step is None else [step(near, gains / unit)]
            # what led inside before does so again, if it is long enough
            lacking = near & (gains > 0.0)
            for way in program.inward:
                least = float((_gains_of_step(program, x, way)[lacking] * unit / gains[lacking]).min())
                tried += [way / least] if least > 0.0 else []
            for step_taken in tried:
                if step_taken is not None and _serves(
                    program.equalities @ step_taken,
                    _gains_of_step(program, x, step_taken)[near],
                    gains[near] / unit,
                    step_taken,
                ):
                    return np.asarray(unit * step_taken)
        least_taken = least_step(program.equalities, _inward(program, x)[near], gains[near])
        program.inward[:] = [] if least_taken is None else [least_taken / unit]
        return least_taken

    def at(self, x: Array) -> FeasiblePoint | None:
        """Return x itself, corrected in columns that belong to one equality; None where feasibility is not certain."""
        return None if isinstance(self._equalities, str) else self.confirm(self._equalities.correct(x))

    def confirm(self, x: Array) -> FeasiblePoint | None:
        """Return x as it is, with its distance to a feasible point; None where feasibility is not certain."""
        if isinstance(self._equalities, str):
            return None
        slack = self.program.slack(x)
        radius = self._equalities.bound_distance(*slack)
        return FeasiblePoint(x, radius) if (_lacking(self.program, *slack, radius)[0] <= 0.0).all() else None


@dataclass(frozen=True, slots=True)
class _Equalities:
    """The rows of equalities: the column that belongs to each alone (-1: none), and the others as a dense matrix."""

    equal: IntegerArray
    rows: Any
    constants: Array
    own_columns: IntegerArray
    pivots: Array
    shared: Array
    smallest: float

    @classmethod
    def of(cls, program: ConeProgram) -> "_Equalities | str":
        rows = sp.csc_array(program.equalities)
        counts = np.diff(rows.indptr)
        own_columns, pivots = np.full(program.equal.size, -1, dtype=np.intp), np.ones(program.equal.size)
        for column in np.flatnonzero(counts == 1):
            at = rows.indptr[column]
            row, value = rows.indices[at], rows.data[at]
            if value != 0.0 and (own_columns[row] < 0 or abs(value) > abs(pivots[row])):
                own_columns[row], pivots[row] = column, value
        shared = rows.tocsr()[own_columns < 0].toarray()
        smallest = np.inf
        if shared.size:
            values = np.linalg.svd(shared, compute_uv=False)
            smallest = float(values[-1]) if shared.shape[0] <= shared.shape[1] else 0.0
            if smallest <= _INDEPENDENT * float(values[0]):
                return "its equality constraints depend on each other"
            if program.whole is not None:
                lost = program.whole.curvature_radius(program.equal[own_columns < 0])
                if lost >= 0.5 * smallest**2:
                    return "its equality constraints depend on each other, up to the rounding of the kernel"
                smallest = float(np.sqrt(smallest**2 - lost))
        return cls(
            equal=program.equal,
            rows=rows.tocsr(),
            constants=program.b[program.equal],
            own_columns=own_columns,
            pivots=pivots,
            shared=shared,
            smallest=0.5 * smallest,
        )

    def correct(self, x: Array) -> Array:
        """Return x with the equalities satisfied to rounding."""
        if not self.own_columns.size:
            return x
        x = x.copy()
        if self.shared.size:
            x -= np.linalg.lstsq(self.shared, (self.rows @ x + self.constants)[self.own_columns < 0], rcond=None)[0]
        has = self.own_columns >= 0
        x[self.own_columns[has]] -= ((self.rows @ x + self.constants) / self.pivots)[has]
        return x

    def bound_distance(self, slack: Array, rounding: Array) -> Array:
        """Bound, per coordinate, the distance to a point that satisfies them, by slacks and their rounding."""
        missed, has = (np.abs(slack) + rounding)[self.equal], self.own_columns >= 0
        distance = float(np.linalg.norm(missed[~has])) / self.smallest if self.shared.size else 0.0
        radius = np.where(self.shared.any(axis=0), distance, 0.0)
        radius[self.own_columns[has]] = 1.01 * ((missed + abs(self.rows) @ radius) / np.abs(self.pivots))[has]
        return radius


def _lacking(program: ConeProgram, slack: Array, rounding: Array, point_radius: Array) -> tuple[Array, Array]:
    """Return what each inequality and each cone lacks to hold with certainty (negative: it holds), and its margin."""
    radius = rounding + program.sizes[1] @ point_radius
    margins = [radius[program.linear]]
    lacking = [radius[program.linear] - slack[program.linear]]
    for cone in program.cone_blocks:
        excess, margin = _excess(cone, slack[cone.rows], radius[cone.rows])
        margins.append(np.array([margin]))
        lacking.append(np.array([excess + margin]))
    return np.concatenate(lacking), np.concatenate(margins)


def _rounding(program: ConeProgram, x: Array) -> Array:
    """Return twice what rounding x itself may change in each inequality and each cone."""
    sizes = relative_rounding(2.0) * (program.sizes[1] @ np.abs(x))
    cones = [np.array([float(np.linalg.norm(sizes[cone.rows]))]) for cone in program.cone_blocks]
    return np.concatenate([sizes[program.linear], *cones])


def _excess(cone: Cone, s: Array, radius: Array) -> tuple[float, float]:
    if cone.kind == "SOC":
        norm = float(np.linalg.norm(s[1:]))
        return norm - float(s[0]), float(radius[0] + np.linalg.norm(radius[1:]) + 4e-16 * s.size * norm)
    if cone.kind == SEMIDEFINITE:
        value, margin, _ = least_eigenvalue(s, radius)
        return -value, margin
    u, v, w = map(float, s)
    if v <= float(radius[1]) or u / v > 300.0:
        return np.inf, 0.0
    top = max(float(np.exp(min((u + radius[0]) / far, 700.0))) for far in (v - radius[1], v + radius[1]))
    slope = 1.0 + (abs(u) + radius[0]) / (v - radius[1])
    value = v * float(np.exp(u / v))
    margin = radius[2] + 2.0 * top * (radius[0] + slope * radius[1]) + 1e-15 * slope * value
    return value - w, float(margin)


def _inward(program: ConeProgram, x: Array) -> Any:
    """Return the rows along which each inequality and each cone gains, for cones to first order."""
    slack = program.A @ x + program.b
    cones = [sp.csr_array(_gain(cone, slack)[None, :] @ program.A[cone.rows]) for cone in program.cone_blocks]
    return sp.vstack([program.A[program.linear], *cones], format="csr")


def _gains_of_step(program: ConeProgram, x: Array, step: Array) -> Array:
    """Return what each inequality and each cone gains by a step, for cones to first order."""
    slack, change = program.A @ x + program.b, program.A @ step
    cones = [np.array([_gain(cone, slack) @ change[cone.rows]]) for cone in program.cone_blocks]
    return np.concatenate([change[program.linear], *cones])


def _gain(cone: Cone, slack: Array) -> Array:
    """Return the slope of what a cone has left, in its rows."""
    s = slack[cone.rows]
    if cone.kind == "SOC":
        norm = float(np.linalg.norm(s[1:])) or 1.0
        return np.append(1.0, -s[1:] / norm)
    if cone.kind == SEMIDEFINITE:
        return least_eigenvalue(s)[2]
    rise = float(np.exp(min(s[0] / max(s[1], 1e-300), 300.0)))
    return np.array([-rise, -rise * (1.0 - s[0] / max(s[1], 1e-300)), 1.0])
