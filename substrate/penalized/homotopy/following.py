r"""Following a block path from end to end: scaled, resumed after a stall, with holes recorded where that fails.

The rows are divided by their largest norm and the target by its own, so that one set of tolerances suffices. On a stall
the quadratic program is solved at a slightly larger rho and the path is resumed from its active rows. Between the two
points the path is not known, but they interpolate to feasible ones, and with :math:`\theta` from 0 to 1 the duality gap
there is

.. math:: (1 - \theta)^2 g_1 + \theta^2 g_2 + \theta (1 - \theta) c_{12}, \qquad
   c_{12} = \rho_1 1^T t_2 + \rho_2 1^T t_1 - \tilde y^T (u_1 + u_2) + 2 u_1^T u_2 .

Where that is below the tolerance nothing is lost; elsewhere the interval is a hole.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.penalized.homotopy.block_homotopy import BlockPath
from substrate.penalized.homotopy.signed_rows import Knots, SignedRows

__all__ = ["Resolve", "Trace", "follow", "solve_block_qp"]

#: The step over a stall, and the multipliers that count as zero, as shares of rho.
_FURTHER = (1e-8, 1e-6, 1e-4, 1e-2)
_ZERO = (1e-7, 1e-5, 1e-9)

#: From rho to the solution (u, xi) there.
Resolve = Callable[[float], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Trace:
    """The knots in the caller's units, the intervals left open, why it ended, and whether the end was reached."""

    knots: Knots
    holes: tuple[tuple[float, float], ...]
    stop: str
    finished: bool
    steps: int
    restarts: int


def solve_block_qp(problem: SignedRows, rho: float) -> tuple[Array, Array]:
    """Return u and xi at one rho, by PIQP's dense interface."""
    import piqp

    r, d = problem.target.size, problem.blocks
    p = problem.B.shape[0]
    P = np.zeros((r + d, r + d))
    P[:r, :r] = np.eye(r)
    cost = np.concatenate([-problem.target, np.full(d, rho)])
    G = np.hstack([np.vstack([problem.B, -problem.B]), -np.eye(d)[problem.block]])
    solver = piqp.DenseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel, solver.settings.max_iter = 1e-12, 1e-12, 500
    solver.setup(np.asfortranarray(P), cost, None, None, np.asfortranarray(G), None, np.zeros(2 * p))
    status = solver.solve()
    if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED, piqp.PIQP_NUMERICS):
        raise SolverError(f"PIQP ended with {status} at rho = {rho:g}")
    eta = np.asarray(solver.result.z_u)
    return np.asarray(solver.result.x[:r]), eta[:p] - eta[p:]


def follow(
    problem: SignedRows,
    floor: float,
    finish: float,
    most: float,
    max_steps: int,
    restarts: int,
    resolve: Resolve | None,
    seed: int,
) -> Trace:
    """Return the whole path from rho = 0, as far as it goes within ``max_steps`` exchanges.

    It ends where the sum of the levels is ``floor``, or u is ``finish`` times the target. All numbers are in the units
    of the given problem, except ``most``, the largest duality gap of a knot as a share of that of u = 0.
    """
    size = float(np.sqrt(np.einsum("ij,ij->i", problem.B, problem.B).max()))
    length = float(np.linalg.norm(problem.target))
    scaled = SignedRows(problem.B / size, problem.block, problem.target / length)
    unit = length / size  # of rho and of the multipliers

    def solve_again(rho: float) -> tuple[Array, Array]:
        if resolve is None:
            return solve_block_qp(scaled, rho)
        u, xi = resolve(rho * unit)
        return u / length, xi / unit

    walk = BlockPath(scaled, floor / (size * length), finish, seed)
    holes: list[tuple[float, float]] = []
    taken_up, sound, stop, finished = 0, 1, f"stopped after {max_steps} exchanges of active rows", False
    while walk.steps < max_steps:
        before = walk.age
        event, why = walk.advance(max_steps - walk.steps), "no exchange of active rows leads on"
        renewed = walk.age <= before
        if event or renewed or walk.gap() > most:  # the levels of all rows are recomputed only occasionally
            if walk.gap(exact=True) > most and not (walk.settle() and walk.gap(exact=True) <= most):
                while sound < walk.knots.size and knot_gap(scaled, walk.knots, sound) <= most:
                    sound += 1
                walk.knots.keep(sound)
                event, why = "stall", f"rounding makes the duality gap exceed {most:g} of that of the trivial point"
            sound = walk.knots.size
        if event == "end":
            stop, finished = "the end of the path was reached", True
            break
        if event == "stall":
            rho_reached = float(walk.knots.rho[-1])
            if taken_up >= restarts or not any(
                _resume(walk, rho_reached * (1.0 + more), solve_again, most) for more in _FURTHER
            ):
                stop = f"stopped where {why}" + (f", after {taken_up} restarts" if restarts else "")
                break
            taken_up += 1
            if chord_gap(scaled, walk.knots) > most:
                holes.append((rho_reached * unit, walk.rho * unit))
    walk.knots.multiply(unit, length, size * length)
    return Trace(
        knots=walk.knots, holes=tuple(holes), stop=stop, finished=finished, steps=walk.steps, restarts=taken_up
    )


def knot_gap(problem: SignedRows, knots: Knots, k: int) -> float:
    """Return the duality gap at a knot, as a share of that of u = 0."""
    u, target = knots.u[k], problem.target
    gap = float(knots.rho[k]) * float(problem.levels(u).sum()) + float(u @ (u - target))
    return gap / (0.5 * float(target @ target))


def chord_gap(problem: SignedRows, knots: Knots) -> float:
    """Return the largest duality gap between the last two knots, as a share of that of u = 0."""
    (u1, u2), (r1, r2) = knots.u[-2:], knots.rho[-2:].tolist()
    t1, t2 = (float(problem.levels(u).sum()) for u in (u1, u2))
    target = problem.target
    g1, g2 = (rho * t + float(u @ u - u @ target) for rho, t, u in ((r1, t1, u1), (r2, t2, u2)))
    cross = r1 * t2 + r2 * t1 - float(target @ (u1 + u2)) + 2.0 * float(u1 @ u2)
    bend = g1 + g2 - cross
    top = float(np.clip((2.0 * g1 - cross) / (2.0 * bend), 0.0, 1.0)) if bend < 0.0 else 0.0
    highest = max(g1, g2, (1.0 - top) ** 2 * g1 + top**2 * g2 + top * (1.0 - top) * cross)
    return float(highest) / (0.5 * float(target @ target))


def _resume(walk: BlockPath, rho: float, resolve: Resolve, most: float) -> bool:
    """Return whether the path could be resumed at rho; if so its point there is a knot."""
    try:
        xi = resolve(rho)[1]
    except SolverError:
        return False
    eta = np.concatenate([np.maximum(xi, 0.0), np.maximum(-xi, 0.0)])
    for zero in _ZERO:
        if walk.take_up(rho, eta, zero * rho) and walk.gap(exact=True) <= most:
            walk.record()
            return True
    return False
