"""The point of a quadratic program made exact: the system of the optimality conditions of its active rows.

Rows with a multiplier larger than their slack are taken for equalities; rows that the solution violates join, rows with
a negative multiplier leave, a few times over. The way is that of :mod:`substrate.fusion.parametric_qp`; nothing is
believed of the result.
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.least_step import Conditions

__all__ = ["interior_point", "polished"]

_ROUNDS = 12


def polished(program: ConeProgram, x: Array, z: Array) -> tuple[Array, Array]:
    """The best of the points met on the way; the one that came in where none is better."""
    return min([(x, z), *_met(program, x, z)], key=lambda point: _merit(program, *point))


def _met(program: ConeProgram, x: Array, z: Array) -> Iterator[tuple[Array, Array]]:
    linear = program.linear
    slack = (program.A @ x + program.b)[linear]
    rows = np.flatnonzero(z[linear] > np.maximum(slack, 0.0))
    seen: set[bytes] = set()
    for _ in range(_ROUNDS):
        if rows.tobytes() in seen:
            return
        seen.add(rows.tobytes())
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
    """x and the multipliers with the given rows as equalities; None where that system has no solution."""
    n = x.size
    right = np.concatenate([-program.q, -program.b[active]])
    try:
        system = Conditions(program.P, program.A[active])
    except RuntimeError:  # singular all the same
        return None
    found = system.solve(right, np.concatenate([x, -z[active]]))
    return (found[:n], -found[n:]) if np.isfinite(found).all() else None


def _merit(program: ConeProgram, x: Array, z: Array) -> float:
    """Complementarity, violation and what stationarity lacks, in the units of the objective."""
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


def interior_point(program: ConeProgram, accuracy: float) -> tuple[Array, Array] | None:
    """A point of the quadratic program by PIQP; None where it gave up."""
    import piqp

    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = accuracy, accuracy, 200, False
    equal, linear = program.equal, program.linear
    solver.setup(
        sp.csc_matrix(program.P), program.q, sp.csc_matrix(program.A[equal]), -program.b[equal],
        sp.csc_matrix(-program.A[linear]), None, program.b[linear], None, None,
    )  # fmt: skip
    status = solver.solve()
    result = solver.result
    z = np.zeros(program.b.size)
    z[equal], z[linear] = -np.asarray(result.y), np.maximum(result.z_u, 0.0)
    x = np.array(result.x)
    usable = status in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED)
    return (x, z) if usable and np.isfinite(x).all() and np.isfinite(z).all() else None
