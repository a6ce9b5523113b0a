r"""A primal-dual interior-point method for programs with the structure of :mod:`substrate.composition.structure`.

Mehrotra's predictor-corrector [Mehrotra1992]_ for

.. math:: \min_u \; \tfrac12 u^T H u + c^T u \quad \text{s.t.} \quad s = G u + h \ge 0, \qquad H u + c = G^T z .

Each step factors :math:`H + G^T W G` with :math:`w_i = z_i / s_i` once, as exactly as its gap asks for, and solves with
it twice. The point is not trusted: a certificate recomputes everything from the data.
"""

import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.composition.scaled_program import Iterate, NewtonSystem, ScaledProgram, State, Warm
from substrate.composition.structure import Structure
from substrate.solver_call import OUT_OF_TIME

__all__ = ["StructuredPoint", "structured_solution"]


_ITERATIONS = 100
#: Relative gap and residual at which the iteration ends; it ends earlier where they shrink no more.
_GAP, _RESIDUAL = 1e-13, 5e-13
#: Relative gap and residuals of a point that is returned.
_USABLE = 1e-5
_STALLED = 3
_FAILED = "failed (no convergence)"
#: Relative gap down to which an iterate counts as well inside.
_INSIDE = 1e-7
#: Relative gaps of the iterates that a similar program may begin with, and the largest residual of such an iterate
#: there, in units of its gap: a program that differs much begins farther back, or anew.
_EARLY, _READY = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3), 5.0
#: Growth of the residual near the end that ends the iteration.
_LOST = 100.0
#: Share of the way to the boundary that a step takes.
_STEP = 0.995
#: Share of columns and rows that the factor of a step leaves out, in units of the gap, and its ends; refinement then
#: keeps the residual below the gap.
_SHARE_OF_GAP, _LEAST_SHARE, _MOST_SHARE = 3.0, 1e-7, 0.1
#: Largest relative change of multipliers that balances them.
_SMALL_CHANGE = 1e-3
#: Relative gap below which nothing is left out: the bound on the answer rests on the last residuals.
_LAST = 1e-12


@dataclass(frozen=True, slots=True)
class StructuredPoint:
    """x and the multipliers of all rows of the program, and a point inside its inequalities where one was passed.

    ``gap`` and ``residual`` are relative; ``steps`` is the number of steps taken; ``warm`` are early iterates, from
    one of which a similar program is solved in fewer.
    """

    structure: Structure
    x: Array
    z: Array
    inside: Array | None
    gap: float
    residual: float
    steps: int
    warm: Warm | None = None


def structured_solution(
    structure: Structure,
    deadline: float | None = None,
    verbose: bool = False,
    warm: Warm | None = None,
    accuracy: float = 0.0,
) -> StructuredPoint | str:
    """Return a solution, to the accuracy that rounding allows; or the status of a method that failed.

    ``warm`` is that of a program of the same shape, to begin with; ``accuracy`` the relative gap and residual that are
    enough.
    """
    p = ScaledProgram(structure)
    with np.errstate(all="ignore"):
        try:
            point = _iterate(p, deadline, verbose, warm, accuracy) if p.m else _without_rows(p)
        except np.linalg.LinAlgError as error:
            point = f"failed ({error})"
    if isinstance(point, str):
        if warm is None or point == OUT_OF_TIME:
            return point
        return structured_solution(structure, deadline, verbose, accuracy=accuracy)
    x = structure.whole(point.u * p.unit)
    inside = None if point.inside is None else structure.whole(point.inside * p.unit)
    z = structure.multipliers(x, _balance(p, point.u, point.z) * (p.worth / p.unit))
    return StructuredPoint(
        structure=structure,
        x=x,
        z=z,
        inside=inside,
        gap=point.gap,
        residual=point.residual,
        steps=point.steps,
        warm=p.unscale(point.warm),
    )


@dataclass(frozen=True, slots=True)
class _IteratedPoint:
    """An iterate in our units, and an earlier one inside the inequalities."""

    u: Array
    z: Array
    gap: float
    residual: float
    steps: int
    inside: Array | None = None
    warm: Warm | None = None


def _without_rows(p: ScaledProgram) -> _IteratedPoint | str:
    u, _, _ = p.factor(np.zeros(0)).solve(-p.c, np.zeros(0))
    residual = float(np.abs(p.hessian(u) + p.c).max(initial=0.0)) / (1.0 + float(np.abs(p.c).max(initial=0.0)))
    return _IteratedPoint(u=u, z=np.zeros(0), gap=0.0, residual=residual, steps=1) if residual <= _USABLE else _FAILED


def _start(p: ScaledProgram, warm: Warm | None) -> list[Iterate]:
    """Return the iterates up to the latest whose residual here is not too large for its gap, which is the last of them.

    Earlier ones stay as they are for programs that differ more; without any, a first one.
    """
    iterates = [p.into(iterate) for iterate in warm or ()]
    while iterates:
        state = State.of(p, *iterates[-1])
        if state.residual <= _READY * state.gap:
            return iterates
        iterates.pop()
    return [_cold(p)]


def _iterate(
    p: ScaledProgram, deadline: float | None, verbose: bool, warm: Warm | None, accuracy: float
) -> _IteratedPoint | str:
    m = p.m
    start = _start(p, warm)
    u, s, z = start[-1]
    early = [*start, *([start[-1]] * (len(_EARLY) - len(start)))]
    best: _IteratedPoint | None = None
    inside: Array | None = None
    stalled, exact, before = 0, False, np.inf
    for step in range(1, _ITERATIONS + 1):
        if deadline is not None and time.monotonic() > deadline:
            return OUT_OF_TIME
        state = State.of(p, u, s, z)
        rd, rp, mu, gap, residual = state.rd, state.rp, state.mu, state.gap, state.residual
        merit = max(gap, residual)
        if verbose:
            line = f"\rstep {step}: gap {gap:.1e}, residual {residual:.1e} "
            print(line, end="", file=sys.stderr, flush=True)
        if not np.isfinite(merit):
            break
        least = np.inf if best is None else max(best.gap, best.residual)
        stalled = 0 if merit < 0.9 * least else stalled + 1
        if gap >= _INSIDE and float(state.slack.min()) > 0.0:
            inside = u
        early = [
            (u, s, z) if gap >= accuracy_level else kept for accuracy_level, kept in zip(_EARLY, early, strict=True)
        ]
        if best is None or merit < least:
            best = _IteratedPoint(u=u, z=z, gap=gap, residual=residual, steps=step)
        # exact steps never enlarge the residual
        exact = exact or residual > max(gap, before, _RESIDUAL)
        before = residual
        # in rounding: what was reached is lost, or good enough and no longer improved
        lost = gap < _INSIDE and residual > _LOST * max(least, _RESIDUAL)
        lost = lost or (gap <= _GAP and stalled > 0 and least <= 2.0 * _RESIDUAL)
        if (
            lost
            or merit <= accuracy
            or (gap <= _GAP and residual <= _RESIDUAL)
            or stalled >= (_STALLED if least < _USABLE else 4 * _STALLED)
        ):
            break
        w = z / s
        share = 0.0 if exact or gap < _LAST else min(max(_SHARE_OF_GAP * gap, _LEAST_SHARE), _MOST_SHARE)
        newton = p.factor(w, share)
        # predictor
        rc = s * z
        du, ds, dz = _direction(newton, s, z, rd, rp, rc, 0 if gap > _INSIDE else 1)
        alpha = min(_largest(s, ds), _largest(z, dz), 1.0)
        after = float((s + alpha * ds) @ (z + alpha * dz)) / m
        sigma = (max(after, 0.0) / mu) ** 3
        # corrector
        rc = s * z + ds * dz - sigma * mu
        du, ds, dz = _direction(newton, s, z, rd, rp, rc, 1 if gap > _INSIDE else 2)
        alpha = min(_STEP * min(_largest(s, ds), _largest(z, dz)), 1.0)
        u, s, z = u + alpha * du, s + alpha * ds, z + alpha * dz
    if best is None or max(best.gap, best.residual) > _USABLE:
        return _FAILED
    return replace(best, inside=inside, warm=tuple(early))


def _cold(p: ScaledProgram) -> Iterate:
    """Return a first iterate: the solution with quadratic penalties, moved inside."""
    u, z, row_change = p.factor(np.ones(p.m), _MOST_SHARE).solve(-p.c, -p.h)
    return u, _inside(row_change + p.h), _inside(z)


def _balance(p: ScaledProgram, u: Array, z: Array) -> Array:
    r"""Return multipliers that are stationary in the sparse variables to rounding, by the smallest relative changes.

    With C the columns of a block and r its residual, :math:`\Delta z = Z^2 C (C^T Z^2 C)^{-1} r`. A warm start leaves a
    residual that shrinks only as its steps do, and squares do not determine these variables.
    """
    z = z.copy()
    for _ in range(2 if p.m else 0):
        residual = p.hessian(u) + p.c - p.pull(z)
        for blocks in p.structure.blocks:
            k = blocks.sparse_columns.shape[1]
            if not k:
                continue
            is_own = (blocks.rows >= 0) & (blocks.rows < p.m)
            sizes = np.where(is_own, z[np.where(is_own, blocks.rows, 0)], 0.0)
            rows = blocks.coefficients[:, :, :k] * sizes[:, :, None]
            gram = np.einsum("bhi,bhj->bij", rows, rows)
            gram += _RESIDUAL * np.einsum("bii->b", gram)[:, None, None] * np.eye(k)
            usable = np.einsum("bii->b", gram) > 0.0
            gram[~usable] = np.eye(k)
            change = np.linalg.solve(gram, residual[blocks.sparse_columns][:, :, None])
            relative = (rows @ change)[:, :, 0]
            relative[~usable | (np.abs(relative).max(axis=1) > _SMALL_CHANGE)] = 0.0
            z[blocks.rows[is_own]] += (sizes * relative)[is_own]
    return z


def _direction(
    newton: NewtonSystem, s: Array, z: Array, rd: Array, rp: Array, rc: Array, refinements: int
) -> tuple[Array, Array, Array]:
    du, dz, row_change = newton.solve(-rd, -rp - rc / z, refinements)
    # the slack of an active row is far smaller than the terms of the row
    ds = np.where(z > s, -(rc + s * dz) / z, row_change + rp)
    return du, ds, dz


def _inside(values: Array) -> Array:
    """Return the values, shifted to be positive where they are not."""
    lowest = float(values.min())
    size = float(np.linalg.norm(values)) / np.sqrt(values.size)
    return values if lowest > 0.1 else values - lowest + max(size, 1.0)


def _largest(value: Array, step: Array) -> float:
    """Return the longest step that keeps the values positive."""
    falls = step < 0.0
    return float((-value[falls] / step[falls]).min(initial=np.inf))
