r"""What the L1 substrate and its fusion share: one cvxpy problem on a matrix of atoms.

.. math:: \min_{a, b, e} \; \tfrac12 \|e\|^2 + \zeta \|a\|_1
          \quad \text{s.t.} \quad t = \Phi a + b 1 + e, \quad 1^T a = 0

with :math:`\Phi = \Omega` and t = y, or both with the validation rows below; [Pelckmans2005]_ eq. (16) and (23).
"""

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.ingredients import regression_fit, sparsity, sparsity_rows, zero_sum, zero_sum_row

__all__ = ["SparseExpansion", "sparse_expansion"]


@dataclass(frozen=True, slots=True)
class SparseExpansion:
    """The problem, its variables and its certificate rows."""

    problem: Any
    weight: Any
    a: Any
    b: Any
    e: Any
    Phi: Array
    target: Array
    fit: Any

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Fit equalities, both sums, and the subgradient condition."""
        errors = replace(zero_sum_row(self.e.value, tolerance, self.target), name="1'e = 0", formula="|1'e|")
        return (
            self.fit.row(tolerance),
            zero_sum_row(self.a.value, tolerance, self.target / self._largest_atom()),
            errors,
            *sparsity_rows(self.Phi, self.target, self.e.value, self.a.value, float(self.weight.value), tolerance),
        )

    def units(self) -> dict[str, float]:
        """How large alpha and everything in the units of y is where nothing is fitted."""
        y = float(np.abs(self.target).max())
        names = ("bias", "errors", "constants", "validation_errors")
        return {"support_values": y / self._largest_atom(), **dict.fromkeys(names, y)}

    def _largest_atom(self) -> float:
        return float(np.abs(self.Phi).max()) or 1.0

    def rescaled(self) -> tuple[Any, float]:
        """The same problem in the unit of the target in which a = 0 costs about 1."""
        spread = float(np.linalg.norm(self.target - self.target.mean()))
        unit = (
            spread if spread > 1e-12 * float(np.abs(self.target).max()) else max(float(np.abs(self.target).max()), 1.0)
        )
        name = self.weight.name()
        return sparse_expansion(self.Phi, self.target / unit, float(self.weight.value) / unit, name).problem, unit


def sparse_expansion(Phi: Array, target: Array, weight: float, name: str) -> SparseExpansion:
    """Build the problem with ``weight`` as a parameter of the given name."""
    a, b, e = cp.Variable(Phi.shape[1], name="a"), cp.Variable(name="b"), cp.Variable(target.size, name="e")
    parameter = cp.Parameter(nonneg=True, name=name, value=weight)
    fit, balance = regression_fit(target, Phi @ a + b, e), zero_sum(a)
    objective = 0.5 * cp.sum_squares(e) + sparsity(a, parameter).term
    problem = cp.Problem(cp.Minimize(objective), [fit.constraint, balance.constraint])
    return SparseExpansion(problem, parameter, a, b, e, Phi, target, fit)
