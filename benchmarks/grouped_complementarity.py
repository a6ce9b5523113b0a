"""(28) with one weight for each half of the inputs as a program with complementarity constraints, for SCIP."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from problems import fused_maximal_variation
from substrate.arrays import Array
from substrate.declarations.variation_expansion import component_grams
from substrate.fusion.complementarity_program import _ComplementarityModel, _scip

__all__ = ["Bounded", "bounds_by_scip"]


@dataclass(frozen=True, slots=True)
class Bounded:
    """The mean squared validation error that SCIP found, its lower bound, its status and CPU seconds."""

    error: float
    lower_bound: float
    status: str
    seconds: float


class _Grouped(_ComplementarityModel):
    """The program with two weights, each from zero to ``top``: the box of the search, in the units of the targets."""

    top = 1.0

    def _bound(self, y_val: Array) -> None:
        super()._bound(y_val)
        self.rho_bound = self.top

    def _pairs(self) -> None:
        model, (d, m, _) = self.model, self.fit.parts.shape
        self.xi = {}
        halves = np.array_split(np.arange(d), 2)
        for half in halves:
            rho = model.addVar(lb=0.0, ub=self.rho_bound)
            for component in map(int, half):
                for row in range(m):
                    value = self._linear(self.fit.parts[component, row])
                    for side, sign in enumerate((1.0, -1.0)):
                        xi = self.xi[side, component, row] = model.addVar(lb=0.0, ub=self.rho_bound)
                        slack = model.addVar(lb=0.0)
                        model.addCons(slack == self.t[component] + sign * value)
                        model.addConsSOS1([xi, slack])
                model.addCons(self.sum(self.xi[side, component, row] for side in (0, 1) for row in range(m)) == rho)


def bounds_by_scip(
    X: Array, y: Array, validation: tuple[Array, Array], kernel: Any, top: float, cutoff: float, limit: float
) -> Bounded:
    """Return the best value and the lower bound that SCIP has when it ends, or after a number of seconds."""
    X_val, y_val = validation
    d = X.shape[1]
    K, K_val = ([kernel(A[:, [j]], X[:, [j]]) for j in range(d)] for A in (X, X_val))
    fit, M, targets = fused_maximal_variation._numbers(component_grams(K), y, K_val, y_val, "regression", True, cutoff)
    unit = float(np.linalg.norm(fit.centred_target))
    program = type("Boxed", (_Grouped,), {"top": top})(_scip(), fit.scale(unit), M, targets / unit, None)
    start = time.process_time()
    program.model.setParam("limits/time", limit)
    program.model.optimize()
    seconds = time.process_time() - start
    has_solution = program.model.getNSols() > 0
    error = float(program.model.getObjVal()) if has_solution else np.inf
    share = unit**2 / y_val.size
    bound = share * float(program.model.getDualbound())
    return Bounded(share * error, bound, str(program.model.getStatus()), seconds)
