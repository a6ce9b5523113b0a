r"""The standard form of a cvxpy problem, and the solver's point in it, kept as a witness.

cvxpy writes every problem as

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K},

in which kinks have become cones, and a point is optimal exactly when for some z

.. math:: s \in \mathcal{K}, \qquad z \in \mathcal{K}^*, \qquad P x + q = A^T z, \qquad s^T z = 0

([Boyd2004]_ section 5.9.2). The solver's z, and its x where the problem's own variables do not determine it (bounds on
terms), are witnesses: they are not trusted, and the four conditions are recomputed from the data and from the present
values of the variables. This proves optimality where losses and penalties have kinks, which no finite number of
directions can.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.composition.cones import KINDS, SEMIDEFINITE, dual_point, misalignment, read_cones, violation
from substrate.composition.place_holders import has_attributes
from substrate.composition.program import Program, compiled_program
from substrate.solvers import Answer

__all__ = ["StandardForm", "Witness", "multipliers_of", "witness_of"]


class StandardForm:
    """The numbers a solver is given, and the cones the rows of A belong to."""

    def __init__(self, program: Any, solver: str) -> None:
        self.program = program
        self.solver = solver
        # the parameters' values, and the numbers there; at first of no values
        self._at: tuple[Any, Program | None] = (None, None)
        self.columns = dict(program.var_id_to_col)
        # cvxpy changes the sign of the rows of equalities for a conic solver
        self.sign = 1.0 if program.formatted else -1.0
        kinds = {type(constraint).__name__ for constraint in program.constraints}
        # SCS has a different order for the entries of a matrix
        misordered = SEMIDEFINITE if solver == "SCS" else None
        # some solvers receive bounds of variables apart from the rows, whose multipliers cvxpy does not return
        bounds = [getattr(program, name, None) for name in ("lower_bounds", "upper_bounds")]
        bounded = any(bound is not None and bool(np.isfinite(bound).any()) for bound in bounds)
        self.understood = kinds <= KINDS and misordered not in kinds and not bounded
        self.cones = read_cones(program.constraints) if kinds <= KINDS else ()
        self.height = self.cones[-1].rows.stop if self.cones else 0

    def numbers(self) -> Program:
        """Return the numbers at the parameters' present values."""
        values = {parameter.id: np.asarray(parameter.value).tobytes() for parameter in self.program.parameters}
        latest_values, numbers = self._at
        if numbers is None or latest_values != values:
            numbers = compiled_program(self.program, self.cones)
            self._at = (values, numbers)
        return numbers

    def point(self, x: Array, values: dict[int, Any]) -> Array:
        """Return x with the given values at the places of their variables."""
        x = x.copy()
        for key, value in values.items():
            if key in self.columns:
                start = self.columns[key]
                x[start : start + np.size(value)] = np.ravel(value, order="F")
        return x

    def multipliers(self, duals: dict[int, Array]) -> Array | None:
        """Return z, row by row; None if its order is not known."""
        constraints = self.program.constraints
        if not self.understood or not all(constraint.id in duals for constraint in constraints):
            return None
        blocks = [
            (self.sign if type(constraint).__name__ == "Zero" else 1.0) * duals[constraint.id]
            for constraint in constraints
        ]
        z = np.concatenate([np.zeros(0), *blocks])
        return z if z.size == self.height else None


@dataclass(frozen=True, slots=True)
class Witness:
    """A solver's point for a problem in standard form: x, and a multiplier for each cone.

    ``read`` are the multipliers of the problem's constraints as cvxpy reads them from these.
    """

    form: StandardForm
    x: Array
    duals: dict[int, Array]
    read: tuple[Array, ...]

    def rows(self, problem: Any, cost: float, tolerance: float, natural: float) -> tuple[Row, ...]:
        """Return the conditions at the present values of a problem; where they cannot be read, one that fails.

        ``cost`` is the size of the objective, ``natural`` the size of the targets.
        """
        form, z = self.form, self.form.multipliers(self.duals)
        if z is None:
            formula = f"the cones of {form.solver} cannot be read; CLARABEL can be checked"
            return (Row(name="cones", value=np.inf, scale=1.0, tolerance=tolerance, formula=formula),)
        # cvxpy exchanges variables with attributes for others
        plain = [variable for variable in problem.variables() if not has_attributes(variable)]
        x = form.point(self.x, {variable.id: variable.value for variable in plain})
        numbers = form.numbers()
        P, q, A, b = numbers.P[0], numbers.q[0], numbers.A, numbers.b[0]
        s, ax, az = A @ x + b, np.abs(x), np.abs(z)
        reach = float((abs(A) @ ax + np.abs(b)).max(initial=0.0))
        pull = float((abs(P) @ ax + np.abs(q) + abs(A).T @ az).max(initial=0.0))
        size = float(ax @ (abs(P) @ ax) + np.abs(q) @ ax + np.abs(b) @ az)
        steepest = float(np.abs(P @ x + q - A.T @ z).max(initial=0.0))
        outside, slack = violation(form.cones, s), misalignment(form.cones, s, z)
        negative = float(np.abs(dual_point(form.cones, z) - z).max(initial=0.0))
        pairs = list(zip(multipliers_of(problem), self.read, strict=True))
        distance = float(np.max([np.abs(a - b).max(initial=0.0) for a, b in pairs], initial=0.0))  # or NaN
        largest = max((float(np.abs(b).max(initial=0.0)) for _, b in pairs), default=0.0)
        # where everything vanishes at the optimum, a number is measured by what a change of the size of the targets
        # adds to the cost
        pull += cost / max(float(ax.max(initial=0.0)), natural)
        weight = float(az.max(initial=0.0)) + cost / max(reach, natural)
        rows = (
            ("cones: feasible", outside, max(reach, 1e-6 * natural), "excess of A x + b over K"),
            ("cones: multipliers", negative, weight, "excess of z over K*"),
            ("cones: stationarity", steepest, pull, "max |P x + q - A'z|"),
            ("cones: slackness", slack, size + cost, "|s'z|, cone by cone"),
            ("cones: multipliers read", distance, largest, "|lambda - lambda(z)|"),
        )
        return tuple(
            Row(name=name, value=value, scale=scale, tolerance=tolerance, formula=formula)
            for name, value, scale, formula in rows
        )


def witness_of(problem: Any, answer: Answer) -> Witness | None:
    """Return the witness of a solver's answer to a problem; None if it has no point or no multipliers."""
    if answer.x is None or any(dual.value is None for dual in _duals(problem)):
        return None
    x = np.array(answer.x, dtype=np.float64).ravel()
    duals = {key: np.asarray(dual, dtype=np.float64).ravel(order="F") for key, dual in answer.duals.items()}
    return Witness(StandardForm(answer.program, answer.solver), x, duals, tuple(multipliers_of(problem)))


def _duals(problem: Any) -> list[Any]:
    return [dual for constraint in problem.constraints for dual in constraint.dual_variables]


def multipliers_of(problem: Any) -> list[Array]:
    """Return the values of all multipliers of a problem's constraints."""
    return [np.array(dual.value, dtype=np.float64) for dual in _duals(problem)]
