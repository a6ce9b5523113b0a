r"""A machine as a quadratic program whose linear term is affine in one parameter.

.. math:: \min_x \; \tfrac12 x^T P x + (q_0 + \rho \, q_1)^T x \quad \text{s.t.} \quad A x = b, \quad G x \le h

The numbers are those cvxpy hands to a solver. A solution at one rho, its knot, is polished: the rows with a multiplier
larger than their slack are taken for equalities and the linear system of the optimality conditions is solved; rows that
its solution violates join, rows with a negative multiplier leave, a few times over.

With slacks s, multipliers :math:`\mu \ge 0` and stationarity, the optimum is near:
:math:`\|x - x^*\|_P^2 = (\mu - \mu^*)^T (s - s^*) \le \mu^T s - \mu^{*T} s`. The first term is the duality gap; the
second is not positive where x is feasible. Where it is not, the violation times a size that multipliers do not exceed
is added, and so is what stationarity lacks: the allowance of a knot. A bound built on it errs on the safe side.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.errors import DeclarationError, SolverError

IntegerArray = NDArray[np.intp]

__all__ = ["Knot", "ParametricQP"]

#: Diagonal that makes the system of the optimality conditions regular; refinement takes its effect out again.
_REGULAR = 1e-9
_REFINEMENTS = 8
#: Accuracies asked of the solver in turn: at the first the active rows stand out; where it stalls, the second.
_ACCURACIES = (1e-13, 1e-10)
#: Gap at which the second is not tried any more.
_POLISHED = 1e-12
#: Times that rows may join and leave before the solver's point is kept.
_ROUNDS = 12
#: Optimal multipliers are taken to be no larger than this many times the largest one found.
_LARGER = 2.0


@dataclass(frozen=True, slots=True)
class Knot:
    """A primal and dual point at one value.

    The primal point x, the multipliers of the rows (dual), their slacks, the gap, and the part of the gap (allowance)
    that makes up for what the point lacks in feasibility and stationarity.
    """

    value: float
    x: Array
    dual: Array
    slack: Array
    gap: float
    allowance: float


class ParametricQP:
    """The program, in units in which its solutions are of the order of one."""

    def __init__(self, problem: Any, parameter: Any, unit: float) -> None:
        self.unit = unit
        self.P, q, A, b, self.columns, equalities = _numbers(problem, parameter, 1.0)
        self.q1 = _numbers(problem, parameter, 2.0)[1] - q
        self.q0 = (q - self.q1) / unit
        self._refuse_other_dependence(problem, parameter, A, b)
        self.A, self.b = A[:equalities], b[:equalities] / unit
        self.G, self.h = A[equalities:], b[equalities:] / unit
        if not self.q1.any():
            raise DeclarationError(f"the objective does not depend on {parameter.name()!r}")

    def _refuse_other_dependence(self, problem: Any, parameter: Any, A: Any, b: Array) -> None:
        P, q, A2, b2, _, _ = _numbers(problem, parameter, 3.7)
        same = _equal(P, self.P) and _equal(A2, A) and np.allclose(b2, b, rtol=1e-12, atol=0.0)
        if not same or not np.allclose(q, self.unit * self.q0 + 3.7 * self.q1, rtol=1e-9, atol=1e-12):
            raise DeclarationError(
                f"{parameter.name()!r} must enter the linear term only, as the weight of a norm, of a maximum or of a "
                "hinge does; here it also weighs a quadratic term or enters a constraint"
            )

    def linear(self, rho: float) -> Array:
        """q at rho, in our units."""
        return np.asarray(self.q0 + rho / self.unit * self.q1)

    def penalty(self, x: Array) -> float:
        """What rho weighs."""
        return float(self.q1 @ x)

    def solve(self, rho: float) -> Knot:
        """The polished knot at rho; raises where the solver fails."""
        found: list[Knot] = []
        for accuracy in _ACCURACIES:
            point = self._interior(rho, accuracy)
            if point is not None:
                rows = np.flatnonzero(point[1][self.b.size :] > np.maximum(self.h - self.G @ point[0], 0.0))
                found += [self._knot(rho, *point), *self._polished(rho, *point, rows)]
            if found and min(knot.gap for knot in found) <= _POLISHED:
                break
        if not found:
            raise SolverError(f"PIQP found no point at {rho:g}")
        return min(found, key=lambda knot: knot.gap)

    def limit(self, rho: float, near: Knot) -> Knot | None:
        """The knot at rho on the segment of another one, by its active rows; None where the linear system fails."""
        rows = np.flatnonzero(near.dual[self.b.size :] > 0.0)
        knots = self._polished(rho, near.x, rho / near.value * near.dual, rows)
        return min(knots, key=lambda knot: knot.gap, default=None)

    def _interior(self, rho: float, accuracy: float) -> tuple[Array, Array] | None:
        """The solver's point, None where it gave up; one that only stalled is judged by its gap."""
        import piqp

        dense = self.q0.size * (self.h.size + self.b.size) < 2_000_000
        solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = accuracy, accuracy, 100, False
        ready = (lambda M: M.toarray()) if dense else sp.csc_matrix
        solver.setup(ready(self.P), self.linear(rho), ready(self.A), self.b, ready(self.G), None, self.h, None, None)
        status = solver.solve()
        result = solver.result
        point = np.array(result.x), np.append(result.y, np.maximum(result.z_u, 0.0))
        usable = status in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED) and np.isfinite(np.concatenate(point)).all()
        return point if usable else None

    def _polished(self, rho: float, x: Array, dual: Array, rows: IntegerArray) -> list[Knot]:
        """The knots met on the way from a guess of the active rows to the rows that are."""
        knots: list[Knot] = []
        seen: set[bytes] = set()
        for _ in range(_ROUNDS):
            solved = self._on_rows(rho, x, dual, rows)
            if solved is None or rows.tobytes() in seen:
                break
            seen.add(rows.tobytes())
            point, lam, mu = solved
            multipliers = np.zeros(dual.size)
            multipliers[: self.b.size], multipliers[self.b.size + rows] = lam, np.maximum(mu, 0.0)
            knots.append(self._knot(rho, point, multipliers))
            slack = self.h - self.G @ point
            rounding = 1e-13 * max(float(np.abs(point).max(initial=0.0)), 1.0)
            joining = np.setdiff1d(np.flatnonzero(slack < -rounding), rows)
            leaving = rows[mu < -1e-13 * max(float(np.abs(mu).max(initial=0.0)), 1e-300)]
            if not joining.size and not leaving.size:
                break
            rows = np.union1d(np.setdiff1d(rows, leaving), joining)
        return knots

    def _on_rows(self, rho: float, x: Array, dual: Array, rows: IntegerArray) -> tuple[Array, Array, Array] | None:
        """x and the multipliers with the given rows as equalities; None where that system has no solution."""
        C, d = sp.vstack([self.A, self.G[rows]]).tocsc(), np.append(self.b, self.h[rows])
        n, m = x.size, d.size
        full = sp.bmat([[self.P, C.T], [C, None]], format="csc")
        regular = full + sp.diags(np.append(np.full(n, _REGULAR), np.full(m, -_REGULAR)), format="csc")
        right = np.append(-self.linear(rho), d)
        try:
            factor = splu(regular)
        except RuntimeError:  # singular all the same: the solver's point is kept
            return None
        start = np.append(x, dual[np.append(np.arange(self.b.size), self.b.size + rows)])
        for _ in range(_REFINEMENTS):
            start = start + factor.solve(right - full @ start)
        if not np.isfinite(start).all():
            return None
        return start[:n], start[n : n + self.b.size], start[n + self.b.size :]

    def _knot(self, rho: float, x: Array, dual: Array) -> Knot:
        """The knot with its gap, enlarged by what the point lacks in feasibility and stationarity."""
        lam, mu = dual[: self.b.size], dual[self.b.size :]
        slack = self.h - self.G @ x
        missing = self.P @ x + self.linear(rho) + self.A.T @ lam + self.G.T @ mu
        violated = np.append(np.abs(self.A @ x - self.b), np.maximum(-slack, 0.0))
        size = float(np.abs(dual).max(initial=0.0)) + float(np.abs(self.linear(rho)).max())
        # multipliers far from optimal say nothing of the optimal ones, which are of the order of one in these units
        beyond = np.maximum(violated - self._rounding(x), 0.0)
        allowance = _LARGER * (size * float(violated.sum()) + float(beyond.sum()))
        allowance += float(np.linalg.norm(missing)) * (1.0 + float(np.linalg.norm(x)))
        gap = float(mu @ np.maximum(slack, 0.0)) + allowance
        return Knot(rho, x, dual, np.maximum(slack, 0.0), gap, allowance)

    def _rounding(self, x: Array) -> Array:
        """What evaluating the rows at x leaves undecided."""
        sizes = np.append(abs(self.A) @ np.abs(x) + np.abs(self.b), abs(self.G) @ np.abs(x) + np.abs(self.h))
        return np.asarray(x.size * float(np.finfo(np.float64).eps) * sizes)

    def cross(self, one: Knot, other: Knot) -> float:
        """Slacks of one knot times multipliers of the other, both ways.

        Along a chord an allowance shrinks like theta, not like its square; the rest of it is part of the cross term.
        """
        m = self.b.size
        products = float(one.dual[m:] @ other.slack + other.dual[m:] @ one.slack)
        return products + one.allowance + other.allowance

    def distance(self, one: Array, other: Array) -> float:
        """Half the squared distance in the norm of P."""
        step = one - other
        return 0.5 * float(step @ (self.P @ step))

    def sensitivity(self, M: Array) -> float:
        r"""The largest :math:`\|M d\|` over :math:`A d = 0, d^T P d \le 1`; infinite where P does not determine M d."""
        n, m = self.q0.size, self.b.size
        size = float(abs(self.P).max()) or 1.0
        full = sp.bmat([[self.P, self.A.T], [self.A, None]], format="csc")
        shift = np.append(np.full(n, _REGULAR * size), np.full(m, -_REGULAR))
        factor = splu((full + sp.diags(shift)).tocsc())
        right = np.vstack([M.T, np.zeros((m, M.shape[0]))])
        solved = np.zeros_like(right)
        for _ in range(_REFINEMENTS):
            solved += factor.solve(right - full @ solved)
        left = np.abs(right - full @ solved).max(initial=0.0)
        if not np.isfinite(solved).all() or left > 1e-6 * np.abs(M).max(initial=0.0):
            return float("inf")
        gram = M @ solved[:n]
        return float(np.sqrt(max(np.linalg.eigvalsh((gram + gram.T) / 2.0)[-1], 0.0)))

    def least_penalty(self) -> float | None:
        """The smallest penalty that the constraints allow, by a linear program; None where there is none."""
        from scipy.optimize import linprog

        found = linprog(
            self.q1, A_ub=self.G, b_ub=self.h, A_eq=self.A if self.b.size else None,
            b_eq=self.b if self.b.size else None, bounds=(None, None), method="highs",
        )  # fmt: skip
        return float(found.fun) if found.status == 0 else None


def _numbers(problem: Any, parameter: Any, value: float) -> tuple[Any, Array, Any, Array, dict[int, int], int]:
    """P, q, A, b, the column of each variable, and how many rows are equalities, with the parameter at a value."""
    kept = parameter.value
    parameter.value = value
    try:
        data, _, _ = problem.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": True})
    finally:
        parameter.value = kept
    dims = data["dims"]
    if dims.soc or dims.psd or dims.exp or getattr(dims, "p3d", None):
        raise DeclarationError(
            "the machine is not a quadratic program: it has second-order, exponential or semi-definite cones; fuse "
            "needs squares, 1-norms, maxima, hinges and linear constraints"
        )
    size = data["c"].size
    P = data.get("P")
    P = sp.csc_array((size, size)) if P is None else sp.csc_array(P)
    program = data["param_prob"]
    return P, np.array(data["c"]), sp.csr_array(data["A"]), np.array(data["b"]), dict(program.var_id_to_col), dims.zero


def _equal(one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    difference = abs(one - other)
    return not difference.nnz or float(difference.max()) <= 1e-12 * float(abs(one).max())
