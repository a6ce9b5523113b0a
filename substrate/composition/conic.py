r"""The standard form behind a cvxpy problem, and the solver's point in it, kept as a witness.

cvxpy writes every problem as

.. math:: \min_x \; \tfrac12 x^T P x + q^T x \quad \text{s.t.} \quad s = A x + b \in \mathcal{K},

in which kinks have become cones, and a point is optimal exactly when for some z

.. math:: s \in \mathcal{K}, \qquad z \in \mathcal{K}^*, \qquad P x + q = A^T z, \qquad s^T z = 0

([Boyd2004]_ section 5.9.2). The solver's z, and its x where the problem's own variables do not say it (bounds on
terms), are witnesses: nothing is believed of them, the four conditions are computed anew from the data and from the
values the variables hold now. This proves optimality where losses and penalties bend, which no finite number of
directions can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.composition.cones import dual_excess, misalignment, primal_excess
from substrate.composition.standard_form import StandardForm

__all__ = ["Witness", "WitnessedProblem"]


@dataclass(frozen=True, slots=True)
class Witness:
    """A solver's point for a problem in standard form: x, and a multiplier for each cone.

    ``own`` are the identities of the problem's own variables, ``read`` the multipliers of its constraints as cvxpy
    reads them from these; ``unit`` and ``worth`` as in :class:`WitnessedProblem`.
    """

    form: StandardForm
    unit: float
    worth: float
    own: tuple[int, ...]
    x: Array
    duals: dict[int, Array]
    read: tuple[Array, ...]

    def rows(self, problem: Any, cost: float, tolerance: float) -> tuple[Row, ...]:
        """The conditions at the present values of a problem or its twin; none where a cone is beyond this check.

        ``cost`` is the size of the objective.
        """
        form, z = self.form, self.form.multipliers(self.duals)
        if z is None:
            return ()
        x = form.point(self.x, {own: v.value / self.unit for own, v in zip(self.own, problem.variables(), strict=True)})
        P, q, A, b = form.numbers()
        s, ax, az = A @ x + b, np.abs(x), np.abs(z)
        cost = cost / self.worth
        reach = float((abs(A) @ ax + np.abs(b)).max(initial=0.0))
        pull = float((abs(P) @ ax + np.abs(q) + abs(A).T @ az).max(initial=0.0))
        size = float(ax @ (abs(P) @ ax) + np.abs(q) @ ax + np.abs(b) @ az)
        steepest = float(np.abs(P @ x + q - A.T @ z).max(initial=0.0))
        outside = max((primal_excess(kind, s[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        negative = max((dual_excess(kind, z[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        slack = max((misalignment(kind, s[rows], z[rows], sizes) for kind, rows, sizes in form.cones), default=0.0)
        apart = max((float(np.abs(a - b).max(initial=0.0)) for a, b in self._pairs(problem)), default=0.0)
        largest = max((float(np.abs(b).max(initial=0.0)) for _, b in self._pairs(problem)), default=0.0)
        # where everything vanishes at the optimum, a number counts by what it adds to the cost
        pull += cost / max(float(ax.max(initial=0.0)), np.finfo(float).tiny)
        weight = float(az.max(initial=0.0)) + cost / max(reach, np.finfo(float).tiny)
        return (
            Row("cones: feasible", max(outside, 0.0), reach, tolerance, "excess of A x + b over K"),
            Row("cones: multipliers", max(negative, 0.0), weight, tolerance, "excess of z over K*"),
            Row("cones: stationarity", steepest, pull, tolerance, "max |P x + q - A'z|"),
            Row("cones: slackness", slack, size + cost, tolerance, "|s'z|, cone by cone"),
            Row("cones: multipliers read", apart, largest, tolerance, "|lambda - lambda(z)|"),
        )

    def _pairs(self, problem: Any) -> list[tuple[Array, Array]]:
        """The multipliers a problem holds, each beside what it should be."""
        return list(zip(_multipliers(problem), [self.unit * value for value in self.read], strict=True))


class WitnessedProblem(cp.Problem):  # type: ignore[misc]
    """A cvxpy problem like any other, which hands on every solver's point in standard form.

    ``keep`` is called with the solver's name, its word, and the witness (or None) after each solve. A twin of another
    problem (:mod:`substrate.composition.units`) has variables that times ``unit``, and an objective that times
    ``worth``, are the other's; so are its multipliers times ``unit``, as they are handed on.
    """

    def __init__(
        self,
        objective: Any,
        constraints: list[Any],
        keep: Callable[[str, str, Witness | None], None],
        unit: float = 1.0,
        worth: float = 1.0,
    ) -> None:
        super().__init__(objective, constraints)
        self.unit, self.worth = unit, worth
        self._keep = keep

    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Solve from scratch: cvxpy would take the values of an earlier solve into bounds they need not respect."""
        for variable in self.variables():
            variable.save_value(None)
        return super().solve(*args, **kwargs)

    def unpack_results(self, solution: Any, chain: Any, inverse_data: Any) -> None:
        """What cvxpy does with a solver's answer; the answer itself is handed on."""
        super().unpack_results(solution, chain, inverse_data)
        for dual in _duals(self):
            if dual.value is not None:
                dual.save_value(dual.value * (self.worth / self.unit**2))
        inner, name = chain.solver.invert(solution, inverse_data[-1]), chain.solver.name()
        witness = None
        if inner.primal_vars and inner.dual_vars is not None and all(dual.value is not None for dual in _duals(self)):
            x = np.asarray(next(iter(inner.primal_vars.values())), dtype=np.float64).ravel()
            duals = {key: np.asarray(dual, dtype=np.float64).ravel(order="F") for key, dual in inner.dual_vars.items()}
            form = StandardForm(self.get_problem_data(name)[0]["param_prob"], name)
            own = tuple(variable.id for variable in self.variables())
            witness = Witness(form, self.unit, self.worth, own, x, duals, tuple(_multipliers(self)))
        self._keep(name, str(self.status), witness)


def _duals(problem: Any) -> list[Any]:
    return [dual for constraint in problem.constraints for dual in constraint.dual_variables]


def _multipliers(problem: Any) -> list[Array]:
    return [np.array(dual.value, dtype=np.float64) for dual in _duals(problem)]
