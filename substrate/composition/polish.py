r"""The point of a quadratic program made exact by its active rows, and a proof that every optimum is near it.

Rows with a multiplier larger than their slack are taken for equalities; rows that the solution violates are added, rows
with a negative multiplier removed, a few times, as in :mod:`substrate.fusion.eliminated`; the result is not trusted.

For the proof that all points that are no worse than a given one lie within a radius of it, let :math:`\tilde x` be
feasible, :math:`f(y) \le f(\tilde x)` for another feasible y, :math:`d = y - \tilde x`, and z any multipliers with
residual r at some :math:`x_c`. Then

.. math::

    \tfrac12 \|d\|_P^2 + z^T s(y) \le z^T \tilde s - r^T d - (\tilde x - x_c)^T P d
    \le z^T \tilde s + g^T R + a \|d\|_P ,

as long as :math:`|d| \le R` (:mod:`substrate.composition.determined`; :math:`\|\tilde x - x_c\|_P` is part of a).
Hence :math:`\|d\|_P \le D = a + \sqrt{a^2 + 2 (z^T \tilde s + g^T R)}`, and every slack is bounded,
:math:`0 \le s_i(y) \le G / z_i` with :math:`G = z^T \tilde s + g^T R + a^2/2`. Multipliers of an interior point are all
positive, and with :math:`e_j = A^T W + P X + E` each coordinate is bounded,

.. math:: |d_j| \le \sum_i |W_i| \max(\tilde s_i, G / z_i) + \sqrt{X^T P X}\, D + |E|^T R .

If that is below :math:`R_j` for all j, no segment from :math:`\tilde x` to a point that is no worse can leave the box,
and the optimum is in it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram, IntegerArray
from substrate.composition.determined import CoordinateBounds
from substrate.composition.feasible_point import Conditions

__all__ = ["interior_point", "polish", "within_radius"]


_ROUNDS = 12
#: Share of entries from which PIQP's dense backend is the faster one.
_DENSE = 1.0 / 3.0


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


def interior_point(program: ConeProgram, accuracy: float) -> tuple[Array, Array] | None:
    """Return a point of the quadratic program by PIQP; None where it failed."""
    import piqp

    dense = program.A.nnz > _DENSE * program.b.size * program.q.size
    solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
    form = sp.csc_matrix.toarray if dense else sp.csc_matrix.copy
    settings = solver.settings
    settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = accuracy, accuracy, 200, False
    equal, linear = program.equal, program.linear
    solver.setup(
        form(sp.csc_matrix(program.P)),
        program.q,
        form(sp.csc_matrix(program.A[equal])),
        -program.b[equal],
        form(sp.csc_matrix(-program.A[linear])),
        None,
        program.b[linear],
        None,
        None,
    )
    status = solver.solve()
    result = solver.result
    z = np.zeros(program.b.size)
    z[equal], z[linear] = -np.asarray(result.y), np.maximum(result.z_u, 0.0)
    x = np.array(result.x)
    usable = status in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED)
    return (x, z) if usable and np.isfinite(x).all() and np.isfinite(z).all() else None


#: Accuracies at which an interior point is stopped: central enough to bound slacks, near enough to bound distances.
_CENTRAL = (1e-4, 1e-6, 1e-8)
_MARGIN = 0.9
#: Share of the radius below which the rounding of a least solution does not matter.
_LITTLE = 1e-3


def within_radius(program: ConeProgram, x: Array, radius: Array, ties: CoordinateBounds) -> bool:
    """Return whether every optimum is proved to be within the radius of the feasible point x, coordinate by
    coordinate.
    """
    for accuracy in _CENTRAL:
        inside = interior_point(program, accuracy)
        if inside is None:
            continue
        with np.errstate(all="ignore"):
            proved = _prove(program, x, radius, ties, *inside)
        if proved is not None:
            return proved
    return False


def _prove(
    program: ConeProgram, x: Array, radius: Array, ties: CoordinateBounds, centre: Array, z: Array
) -> bool | None:
    """Return whether a centre proves it; None where another one may."""
    z = _stationary(program, centre, z)
    linear, weights = program.linear, z[program.linear]
    if not np.isfinite(z).all() or (weights <= 0.0).any():
        return None
    slope, error = program.slope(centre, z)
    a, untied = ties.split(np.abs(slope) + error, radius)
    difference = x - centre
    a = 1.001 * (a + math.sqrt(max(float(difference @ (program.P @ difference)), 0.0)))
    slack, rounding = program.slack(x)
    slacks = (np.maximum(slack, 0.0) + rounding)[linear]
    gap = 1.001 * (float(weights @ slacks) + float(untied @ radius))
    distance = a + math.sqrt(a * a + 2.0 * gap)
    reach = np.maximum(slacks, (gap + 0.5 * a * a) / weights)
    lost = False
    before = len(program.moves)
    for number, (kept, moves) in enumerate(_moves(program, distance, reach)):
        if (moves.largest(distance, reach, radius) <= _MARGIN * radius).all():
            program.moves[:] = [kept]
            return True
        # E is the rounding of the matrices, which another centre hardly changes
        rounding = moves.remainder @ radius
        lost = bool((rounding > _MARGIN * radius).any())
        # where it is small, a decomposition would find the same least solution again
        if number >= before and (rounding <= _LITTLE * radius).all():
            break
    return False if lost else None


def _stationary(program: ConeProgram, centre: Array, z: Array) -> Array:
    """Return z changed in proportion to itself so that the coordinates that P does not determine are stationary."""
    weak = program.alone == 0.0
    shares = np.abs(z)
    shares[program.equal] += 1.0
    rows = program.A[:, weak].T.toarray() * shares
    residual = (program.P @ centre + program.q - program.A.T @ z)[weak]
    return z + shares * np.linalg.lstsq(rows, residual, rcond=1e-14)[0] if weak.any() else z


@dataclass(frozen=True, slots=True)
class _Moves:
    """|W|, the norms of X in P, and |E| of the module's page, one line for each coordinate, for one matrix A."""

    P: Any
    rows: Array
    norms: Array
    remainder: Array

    @classmethod
    def of(cls, program: ConeProgram, W: Array, X: Array) -> "_Moves":
        m, n = program.b.size, program.q.size
        A, P = program.A.toarray().T, program.P.toarray()
        sizes = np.abs(X)
        # a sum of k products, in any order, is wrong by k u / (1 - k u) of their sizes; u the unit roundoff
        rounding = relative_rounding(0.51) * (m + n + 4)
        remainder = np.abs(np.eye(n) - A @ W - P @ X) + rounding * (
            np.eye(n) + np.abs(A) @ np.abs(W) + np.abs(P) @ sizes
        )
        squares = np.maximum(np.sum(X * (P @ X), axis=0), 0.0)
        squares += 1e-15 * n * np.sum(sizes * (np.abs(P) @ sizes), axis=0)
        return cls(program.P, np.abs(W[program.linear]).T, np.sqrt(squares), remainder.T)

    def at(self, program: ConeProgram) -> "_Moves | None":
        """Return those of a program with the same A and another P.

        With diagonal matrices P and P', :math:`X' = P'^{-1} P X` has :math:`P' X' = P X` exactly, so that E stays, and
        :math:`X'^T P' X' \\le \\max_j (P_{jj} / P'_{jj}) X^T P X`.
        """
        if not (self.P != program.P).nnz:
            return self
        if any((matrix.diagonal() != 0.0).sum() < matrix.count_nonzero() for matrix in (self.P, program.P)):
            return None
        old_diagonal, new_diagonal = self.P.diagonal(), program.P.diagonal()
        weighed = old_diagonal > 0.0
        if (new_diagonal[weighed] <= 0.0).any():
            return None
        ratio = float((old_diagonal[weighed] / new_diagonal[weighed]).max(initial=0.0))
        return _Moves(program.P, self.rows, 1.001 * math.sqrt(ratio) * self.norms, self.remainder)

    def largest(self, distance: float, reach: Array, radius: Array) -> Array:
        """Return the largest change of each coordinate, from the bounds on the rows and on the norm of P."""
        return np.asarray(self.rows @ reach + distance * self.norms + self.remainder @ radius)


def _moves(program: ConeProgram, distance: float, reach: Array) -> Iterator[tuple[_Moves, _Moves]]:
    """Yield those of an earlier program with the same A, as they were and for this one; then new ones, the cheaper
    first.
    """
    for moves in program.moves:
        taken = moves.at(program)
        if taken is not None:
            yield moves, taken
    m = program.b.size
    cost = np.full(m, 1e-6 * float(reach.min(initial=1.0)))  # equalities do not move
    cost[program.linear] = reach
    stiff = np.sqrt(np.maximum(program.P.diagonal(), 0.0)) * distance
    stiff = np.where(stiff > 0.0, stiff, 1.0)
    scales = np.concatenate([cost, stiff])
    scaled = np.hstack([program.A.toarray().T, program.P.toarray()]) / scales
    for solve in (_by_normal_equations, _by_singular_values):
        solved = solve(scaled) / scales[:, None]
        moves_made = _Moves.of(program, solved[:m], solved[m:])
        yield moves_made, moves_made


def _by_normal_equations(M: Array) -> Array:
    """Return the least solution S of M S = I by a Cholesky factor of M M^T, refined once; not a number where there is
    none.
    """
    try:
        factor = cho_factor(M @ M.T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.full(M.T.shape, np.nan)
    S = M.T @ cho_solve(factor, np.eye(M.shape[0]), overwrite_b=True, check_finite=False)
    more = M.T @ cho_solve(factor, np.eye(M.shape[0]) - M @ S, overwrite_b=True, check_finite=False)
    return np.asarray(S + more)


def _by_singular_values(M: Array) -> Array:
    return np.asarray(np.linalg.lstsq(M, np.eye(M.shape[0]), rcond=1e-14)[0], dtype=np.float64)
