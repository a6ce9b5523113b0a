"""The point of a quadratic program made exact by its active rows.

Rows with a multiplier larger than their slack are taken for equalities; rows that the solution violates are added, rows
with a negative multiplier removed, a few times, as in :mod:`substrate.fusion.eliminated`; the result is not trusted.
"""

from collections.abc import Iterator

import numpy as np

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.feasible_point import Conditions

__all__ = ["polish"]


_ROUNDS = 12


def polish(program: ConeProgram, x: Array, z: Array) -> tuple[Array, Array]:
    """Return the best of the points computed; the given one where none is better."""
    return min([(x, z), *_meet_constraints(program, x, z)], key=lambda point: _merit(program, *point))


def _meet_constraints(program: ConeProgram, x: Array, z: Array) -> Iterator[tuple[Array, Array]]:
    linear = program.linear
    slack = (program.A @ x + program.b)[linear]
    rows = np.flatnonzero(z[linear] > np.maximum(slack, 0.0))
    visited: set[bytes] = set()
    for _ in range(_ROUNDS):
        if rows.tobytes() in visited:
            return
        visited.add(rows.tobytes())
        active = np.concatenate([program.equal, linear[rows]])
        solved = _on_rows(program, x, z, active)
        if solved is None:
            return
        point, values = solved
        multipliers = np.zeros_like(z)
        multipliers[active] = values
        mu = multipliers[linear[rows]]
        multipliers[linear] = np.maximum(multipliers[linear], 0.0)
        yield point, multipliers
        slack = (program.A @ point + program.b)[linear]
        rounding = 1e-13 * max(float(np.abs(point).max(initial=0.0)), 1.0)
        kept = rows[mu >= -1e-13 * max(float(np.abs(mu).max(initial=0.0)), 1e-300)]
        joined = np.union1d(kept, np.flatnonzero(slack < -rounding)).astype(np.intp)
        if np.array_equal(joined, rows):
            return
        rows = joined


def _on_rows(program: ConeProgram, x: Array, z: Array, active: IntegerArray) -> tuple[Array, Array] | None:
    """Return x and the multipliers with the given rows as equalities; None where that system has no solution."""
    n = x.size
    right = np.concatenate([-program.q, -program.b[active]])
    try:
        system = Conditions(program.P, program.A[active])
    except RuntimeError:  # singular all the same
        return None
    solution = system.solve(right, np.concatenate([x, -z[active]]))
    return (solution[:n], -solution[n:]) if np.isfinite(solution).all() else None


def _merit(program: ConeProgram, x: Array, z: Array) -> float:
    """Return complementarity, violation and the residual of stationarity, in the units of the objective."""
    slack = program.A @ x + program.b
    z = z.copy()
    z[program.linear] = np.maximum(z[program.linear], 0.0)
    missed = np.abs(slack[program.equal]).sum() + np.maximum(-slack[program.linear], 0.0).sum()
    gap = float(z[program.linear] @ np.maximum(slack[program.linear], 0.0))
    r = np.abs(program.P @ x + program.q - program.A.T @ z).sum()
    merit = (
        gap
        + float(missed) * (1.0 + float(np.abs(z).max(initial=0.0)))
        + float(r) * (1.0 + float(np.abs(x).max(initial=0.0)))
    )
    return merit if np.isfinite(merit) else np.inf
