r"""The standard form of a cvxpy problem, and the solver's point in it, kept as a witness.

cvxpy writes every problem as

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K},

in which kinks have become cones, and a point is optimal exactly when for some z

.. math:: s \in \mathcal{K}, \qquad z \in \mathcal{K}^*, \qquad P x + q = A^T z, \qquad s^T z = 0

([Boyd2004]_ section 5.9.2). The solver's x and z are witnesses: they are not trusted, and the four conditions are
recomputed from the data. This proves optimality where losses and penalties have kinks, which no finite number of
directions can.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.composition.cones import KINDS, SEMIDEFINITE, dual_point, misalignment, read_cones, violation
from substrate.composition.program import Program, compiled_program
from substrate.solvers import Answer

__all__ = ["Witness", "witness_of"]


@dataclass(frozen=True, slots=True)
class Witness:
    """A solver's point in standard form: the program, x, and the multipliers row by row."""

    program: Program
    x: Array
    z: Array

    def rows(self, cost: float, tolerance: float, natural: float) -> tuple[Row, ...]:
        """Return the four conditions; ``cost`` is the size of the objective, ``natural`` the size of the targets."""
        x, z, cones = self.x, self.z, self.program.cones
        P, q, A, b = self.program.P[0], self.program.q[0], self.program.A, self.program.b[0]
        s, ax, az = A @ x + b, np.abs(x), np.abs(z)
        reach = float((abs(A) @ ax + np.abs(b)).max(initial=0.0))
        pull = float((abs(P) @ ax + np.abs(q) + abs(A).T @ az).max(initial=0.0))
        size = float(ax @ (abs(P) @ ax) + np.abs(q) @ ax + np.abs(b) @ az)
        steepest = float(np.abs(P @ x + q - A.T @ z).max(initial=0.0))
        negative = float(np.abs(dual_point(cones, z) - z).max(initial=0.0))
        # where everything vanishes at the optimum, a number is measured by what a change of the size of the targets
        # adds to the cost
        pull += cost / max(float(ax.max(initial=0.0)), natural)
        weight = float(az.max(initial=0.0)) + cost / max(reach, natural)
        rows = (
            ("cones: feasible", violation(cones, s), max(reach, 1e-6 * natural), "excess of A x + b over K"),
            ("cones: multipliers", negative, weight, "excess of z over K*"),
            ("cones: stationarity", steepest, pull, "max |P x + q - A'z|"),
            ("cones: slackness", misalignment(cones, s, z), size + cost, "|s'z|, cone by cone"),
        )
        return tuple(
            Row(name=name, value=value, scale=scale, tolerance=tolerance, formula=formula)
            for name, value, scale, formula in rows
        )


def witness_of(answer: Answer) -> Witness | None:
    """Return the witness of a solver's answer; None if it has no point, or cones or multipliers that cannot be read."""
    compiled = answer.program
    kinds = {type(constraint).__name__ for constraint in compiled.constraints}
    # SCS has a different order for the entries of a matrix
    misordered = answer.solver == "SCS" and SEMIDEFINITE in kinds
    # some solvers receive bounds of variables apart from the rows, whose multipliers cvxpy does not return
    bounds = [getattr(compiled, name, None) for name in ("lower_bounds", "upper_bounds")]
    bounded = any(bound is not None and bool(np.isfinite(bound).any()) for bound in bounds)
    duals = [answer.duals.get(constraint.id) for constraint in compiled.constraints]
    if answer.x is None or misordered or bounded or not kinds <= KINDS or any(dual is None for dual in duals):
        return None
    # cvxpy changes the sign of the rows of equalities for a conic solver
    signs = [
        -1.0 if type(constraint).__name__ == "Zero" and not compiled.formatted else 1.0
        for constraint in compiled.constraints
    ]
    blocks = [
        sign * np.asarray(dual, dtype=np.float64).ravel(order="F") for sign, dual in zip(signs, duals, strict=True)
    ]
    program, z = compiled_program(compiled, read_cones(compiled.constraints)), np.concatenate([np.zeros(0), *blocks])
    x = np.array(answer.x, dtype=np.float64).ravel()
    return Witness(program, x, z) if z.size == program.A.shape[0] else None
