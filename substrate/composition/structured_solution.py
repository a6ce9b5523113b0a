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
from substrate.composition.newton_factor import Factor, factored
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
#: Relative gap of the iterate that a similar program begins with.
_EARLY = 1e-2
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


#: u, the slacks and their multipliers.
Iterate = tuple[Array, Array, Array]


@dataclass(frozen=True, slots=True)
class StructuredPoint:
    """x and the multipliers of all rows of the program, and a point inside its inequalities where one was passed.

    ``gap`` and ``residual`` are relative; ``steps`` is the number of steps taken; ``warm`` is an early iterate, from
    which a similar program is solved in fewer.
    """

    structure: Structure
    x: Array
    z: Array
    inside: Array | None
    gap: float
    residual: float
    steps: int
    warm: Iterate | None = None


class _Problem:
    """The program in units in which its data are of the order of one."""

    def __init__(self, structure: Structure) -> None:
        self.structure, self.m = structure, structure.n_rows
        constants, m = structure.constants, structure.n_rows
        c = structure.linear + structure.pulled(np.append(np.zeros(m), structure.squares * constants[m:]))
        self.unit = _power(float(np.abs(constants).max(initial=0.0)))
        self.worth = _power(float(np.abs(c).max(initial=0.0)) * self.unit)
        #: what the quadratic term is multiplied by
        self.rate = self.unit**2 / self.worth
        self.h, self.c = constants[:m] / self.unit, c * (self.unit / self.worth)

    def hessian(self, u: Array) -> Array:
        """H u."""
        s, m = self.structure, self.m
        if not s.squares.size:
            return self.rate * s.quadratic(u)
        squares = np.append(np.zeros(m), s.squares * s.rows(u)[m:])
        return self.rate * (s.quadratic(u) + s.pulled(squares))

    def slacks(self, u: Array) -> Array:
        """G u."""
        return self.structure.rows(u)[: self.m]

    def pulled(self, z: Array) -> Array:
        """G'z."""
        return self.structure.pulled(np.append(z, np.zeros(self.structure.squares.size)))

    def into(self, given: Iterate) -> Iterate:
        """An iterate in our units."""
        u, s, z = given
        return u / self.unit, s / self.unit, z * (self.unit / self.worth)

    def out(self, ours: Iterate | None) -> Iterate | None:
        """An iterate of ours in the units of the program."""
        return None if ours is None else (ours[0] * self.unit, ours[1] * self.unit, ours[2] * (self.worth / self.unit))

    def factor(self, w: Array, share: float = 0.0) -> "_Newton":
        """H + G'WG, factored without columns and rows of so small a share."""
        return _Newton(self, w, factored(self.structure, w / self.rate, share))


@dataclass(frozen=True, slots=True)
class _Newton:
    """The linear system of a step, ``H du - G'dz = r1`` and ``G du + dz / w = r2``."""

    problem: _Problem
    w: Array
    factor: Factor

    def solve(self, r1: Array, r2: Array, refinements: int = 2) -> tuple[Array, Array, Array]:
        """du, dz and G du, refined as a pair: products with large w would hide the rounding of one alone."""
        du, dz, moved = self._once(r1, r2)
        p = self.problem
        for _ in range(refinements):
            more, further, by = self._once(r1 - p.hessian(du) + p.pulled(dz), r2 - moved - dz / self.w)
            du, dz, moved = du + more, dz + further, moved + by
        return du, dz, moved

    def _once(self, r1: Array, r2: Array) -> tuple[Array, Array, Array]:
        p = self.problem
        u, rows = self.factor.solve(r1, np.append(self.w * r2, np.zeros(p.structure.squares.size)))
        moved = rows[: p.m] / p.rate
        return u / p.rate, self.w * (r2 - moved), moved


def structured_solution(
    structure: Structure, deadline: float | None = None, verbose: bool = False, warm: Iterate | None = None
) -> StructuredPoint | str:
    """A solution, to the accuracy that rounding allows; or the status of a method that failed.

    ``warm`` is that of a program of the same shape, to begin with.
    """
    p = _Problem(structure)
    with np.errstate(all="ignore"):
        try:
            found = _iterated(p, deadline, verbose, warm) if p.m else _without_rows(p)
        except np.linalg.LinAlgError as error:
            found = f"failed ({error})"
    if isinstance(found, str):
        return found if warm is None or found == OUT_OF_TIME else structured_solution(structure, deadline, verbose)
    x = structure.whole(found.u * p.unit)
    inside = None if found.inside is None else structure.whole(found.inside * p.unit)
    z = structure.multipliers(x, _balanced(p, found.u, found.z) * (p.worth / p.unit))
    return StructuredPoint(structure, x, z, inside, found.gap, found.residual, found.steps, p.out(found.warm))


@dataclass(frozen=True, slots=True)
class _Found:
    """An iterate in our units, and an earlier one inside the inequalities."""

    u: Array
    z: Array
    gap: float
    residual: float
    steps: int
    inside: Array | None = None
    warm: Iterate | None = None


def _without_rows(p: _Problem) -> _Found | str:
    u, _, _ = p.factor(np.zeros(0)).solve(-p.c, np.zeros(0))
    residual = float(np.abs(p.hessian(u) + p.c).max(initial=0.0)) / (1.0 + float(np.abs(p.c).max(initial=0.0)))
    return _Found(u, np.zeros(0), 0.0, residual, 1) if residual <= _USABLE else _FAILED


def _iterated(p: _Problem, deadline: float | None, verbose: bool, warm: Iterate | None) -> _Found | str:
    m = p.m
    u, s, z = _cold(p) if warm is None else p.into(warm)
    early: Iterate | None = None
    best: _Found | None = None
    inside: Array | None = None
    stalled, exact, before = 0, False, np.inf
    for step in range(1, _ITERATIONS + 1):
        if deadline is not None and time.monotonic() > deadline:
            return OUT_OF_TIME
        hu, gz, slack = p.hessian(u), p.pulled(z), p.slacks(u) + p.h
        rd, rp = hu + p.c - gz, slack - s
        mu = float(s @ z) / m
        size = 1.0 + abs(0.5 * float(u @ hu) + float(p.c @ u))
        residual = max(
            float(np.abs(rd).max()) / (1.0 + float(np.abs(gz).max(initial=0.0))),
            float(np.abs(rp).max()) / (1.0 + float(np.abs(s).max())),
        )
        gap = m * mu / size
        merit = max(gap, residual)
        if verbose:
            line = f"\rstep {step}: gap {gap:.1e}, residual {residual:.1e} "
            print(line, end="", file=sys.stderr, flush=True)
        if not np.isfinite(merit):
            break
        least = np.inf if best is None else max(best.gap, best.residual)
        stalled = 0 if merit < 0.9 * least else stalled + 1
        if gap >= _INSIDE and float(slack.min()) > 0.0:
            inside = u
        if gap >= _EARLY or early is None:
            early = u, s, z
        if best is None or merit < least:
            best = _Found(u, z, gap, residual, step)
        # exact steps never enlarge the residual
        exact = exact or residual > max(gap, before, _RESIDUAL)
        before = residual
        # in rounding: what was reached is lost, or good enough and no longer improved
        lost = gap < _INSIDE and residual > _LOST * max(least, _RESIDUAL)
        lost = lost or (gap <= _GAP and stalled > 0 and least <= 2.0 * _RESIDUAL)
        if (
            lost
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
    return replace(best, inside=inside, warm=early)


def _cold(p: _Problem) -> Iterate:
    """A first iterate: the solution with quadratic penalties, moved inside."""
    u, z, moved = p.factor(np.ones(p.m), _MOST_SHARE).solve(-p.c, -p.h)
    return u, _inside(moved + p.h), _inside(z)


def _balanced(p: _Problem, u: Array, z: Array) -> Array:
    r"""Multipliers that are stationary in the sparse variables to rounding, by the smallest relative changes.

    With C the columns of a block and r its residual, :math:`\Delta z = Z^2 C (C^T Z^2 C)^{-1} r`. A warm start leaves a
    residual that shrinks only as its steps do, and squares do not determine these variables.
    """
    z = z.copy()
    for _ in range(2 if p.m else 0):
        residual = p.hessian(u) + p.c - p.pulled(z)
        for blocks in p.structure.blocks:
            k = blocks.own.shape[1]
            if not k:
                continue
            ours = (blocks.rows >= 0) & (blocks.rows < p.m)
            sizes = np.where(ours, z[np.where(ours, blocks.rows, 0)], 0.0)
            rows = blocks.coefficients[:, :, :k] * sizes[:, :, None]
            gram = np.einsum("bhi,bhj->bij", rows, rows)
            gram += _RESIDUAL * np.einsum("bii->b", gram)[:, None, None] * np.eye(k)
            usable = np.einsum("bii->b", gram) > 0.0
            gram[~usable] = np.eye(k)
            change = np.linalg.solve(gram, residual[blocks.own][:, :, None])
            relative = (rows @ change)[:, :, 0]
            relative[~usable | (np.abs(relative).max(axis=1) > _SMALL_CHANGE)] = 0.0
            z[blocks.rows[ours]] += (sizes * relative)[ours]
    return z


def _direction(
    newton: _Newton, s: Array, z: Array, rd: Array, rp: Array, rc: Array, refinements: int
) -> tuple[Array, Array, Array]:
    du, dz, moved = newton.solve(-rd, -rp - rc / z, refinements)
    # the slack of an active row is far smaller than the terms of the row
    ds = np.where(z > s, -(rc + s * dz) / z, moved + rp)
    return du, ds, dz


def _inside(values: Array) -> Array:
    """The values, shifted to be positive where they are not."""
    lowest = float(values.min())
    size = float(np.linalg.norm(values)) / np.sqrt(values.size)
    return values if lowest > 0.1 else values - lowest + max(size, 1.0)


def _largest(value: Array, step: Array) -> float:
    """The longest step that keeps the values positive."""
    falls = step < 0.0
    return float((-value[falls] / step[falls]).min(initial=np.inf))


def _power(value: float) -> float:
    return float(2.0 ** np.round(np.log2(value))) if 0.0 < value < np.inf else 1.0
