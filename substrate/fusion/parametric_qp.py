r"""A machine as a quadratic program whose linear term is affine in one parameter.

.. math:: \min_x \; \tfrac12 x^T P x + (q_0 + \rho \, q_1)^T x \quad \text{s.t.} \quad A x = b, \quad G x \le h

The numbers are those cvxpy hands to a solver. A solution at one rho, its knot, is polished: the rows with a multiplier
larger than their slack are taken for equalities and the linear system of the optimality conditions is solved. What is
then missing in feasibility and stationarity is added to the duality gap, so that a bound built on it errs on the
safe side.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from substrate.arrays import Array
from substrate.errors import DeclarationError, SolverError

__all__ = ["Knot", "ParametricQP"]

#: Diagonal that makes the system of the optimality conditions regular; refinement takes its effect out again.
_REGULAR = 1e-9
_REFINEMENTS = 8


@dataclass(frozen=True, slots=True)
class Knot:
    """A primal and dual point at one value: x, the multipliers of the rows (dual), their slacks, and the gap."""

    value: float
    x: Array
    dual: Array
    slack: Array
    gap: float


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
        x, dual = self._interior(rho)
        raw, fine = self._knot(rho, x, dual), self._polished(rho, x, dual)
        return raw if fine is None or fine.gap > raw.gap else fine

    def _interior(self, rho: float) -> tuple[Array, Array]:
        import piqp

        dense = self.q0.size * (self.h.size + self.b.size) < 2_000_000
        solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs, settings.eps_rel, settings.max_iter, settings.verbose = 1e-10, 1e-10, 400, False
        ready = (lambda M: M.toarray()) if dense else sp.csc_matrix
        solver.setup(ready(self.P), self.linear(rho), ready(self.A), self.b, ready(self.G), None, self.h, None, None)
        status = solver.solve()
        if status not in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED):
            raise SolverError(f"PIQP ended with {status} at {rho:g}")
        result = solver.result
        return np.array(result.x), np.append(result.y, np.maximum(result.z_u, 0.0))

    def _polished(self, rho: float, x: Array, dual: Array) -> Knot | None:
        """The same active rows, solved for as equalities."""
        slack = self.h - self.G @ x
        rows = np.flatnonzero(dual[self.b.size :] > np.maximum(slack, 0.0))
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
        multipliers = np.zeros(dual.size)
        multipliers[: self.b.size] = start[n : n + self.b.size]
        multipliers[self.b.size + rows] = np.maximum(start[n + self.b.size :], 0.0)
        return self._knot(rho, start[:n], multipliers)

    def _knot(self, rho: float, x: Array, dual: Array) -> Knot:
        """The knot with its gap, inflated by what the point lacks in feasibility and stationarity."""
        lam, mu = dual[: self.b.size], dual[self.b.size :]
        slack = self.h - self.G @ x
        missing = self.P @ x + self.linear(rho) + self.A.T @ lam + self.G.T @ mu
        violated = float(mu @ np.maximum(-slack, 0.0)) + float(np.abs(lam) @ np.abs(self.A @ x - self.b))
        gap = float(mu @ np.maximum(slack, 0.0)) + violated + float(np.linalg.norm(missing) * np.linalg.norm(x))
        return Knot(rho, x, dual, np.maximum(slack, 0.0), gap)

    def cross(self, one: Knot, other: Knot) -> float:
        """Slacks of one knot times multipliers of the other, both ways."""
        m = self.b.size
        return float(one.dual[m:] @ other.slack + other.dual[m:] @ one.slack)

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
