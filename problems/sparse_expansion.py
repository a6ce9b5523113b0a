r"""What the L1 substrate, its fusion and its reduced basis share: one cvxpy problem on a matrix of atoms.

.. math:: \min_{a, b, e} \; \tfrac12 \|e\|^2 + \zeta \|a\|_1
          \quad \text{s.t.} \quad t = \Phi a + b 1 + e, \quad 1^T a = 0

with :math:`\Phi = \Omega` and t = y, or both with the validation rows below; [Pelckmans2005]_ eq. (16) and (23). On a
reduced basis :math:`\Phi` has fewer columns than rows, and a need not sum to zero.
"""

from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.accuracy import Accuracy
from substrate.closed_form.page_accuracy import sparse_accuracy
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
    balanced: bool

    def rows(self, tolerance: float) -> tuple[Row, ...]:
        """Fit equalities, both sums, and the subgradient condition."""
        errors = replace(zero_sum_row(self.e.value, tolerance, self.target), name="1'e = 0", formula="|1'e|")
        a, e, weight = self.a.value, self.e.value, float(self.weight.value)
        balance = (zero_sum_row(a, tolerance, self.target / self._largest_atom()),) if self.balanced else ()
        sparse = sparsity_rows(self.Phi, self.target, e, a, weight, tolerance, self.balanced)
        return (self.fit.row(tolerance), *balance, errors, *sparse)

    def accuracy(self) -> Accuracy:
        """The objective is strongly convex in the fitted values, by its squared loss."""
        fitted, weight = self.target - self.e.value, float(self.weight.value)
        return sparse_accuracy(self.Phi, self.target, self.a.value, float(self.b.value), fitted, weight, self.balanced)

    def units(self) -> dict[str, float]:
        """How large alpha and everything in the units of y is where nothing is fitted."""
        y = float(np.abs(self.target).max())
        names = ("bias", "errors", "constants", "validation_errors")
        atoms = dict.fromkeys(("support_values", "coefficients"), y / self._largest_atom())
        return {**atoms, **dict.fromkeys(names, y)}

    def _largest_atom(self) -> float:
        return float(np.abs(self.Phi).max()) or 1.0

    def rescaled(self) -> tuple[Any, float]:
        """The same problem in the unit of the target in which a = 0 costs about 1."""
        spread = float(np.linalg.norm(self.target - self.target.mean()))
        unit = (
            spread if spread > 1e-12 * float(np.abs(self.target).max()) else max(float(np.abs(self.target).max()), 1.0)
        )
        weight, name = float(self.weight.value) / unit, self.weight.name()
        return sparse_expansion(self.Phi, self.target / unit, weight, name, self.balanced).problem, unit


def sparse_expansion(Phi: Array, target: Array, weight: float, name: str, balanced: bool = True) -> SparseExpansion:
    """Build the problem with ``weight`` as a parameter of the given name, ``balanced`` with 1'a = 0."""
    a, b, e = cp.Variable(Phi.shape[1], name="a"), cp.Variable(name="b"), cp.Variable(target.size, name="e")
    parameter = cp.Parameter(nonneg=True, name=name, value=weight)
    fit = regression_fit(target, Phi @ a + b, e)
    objective = 0.5 * cp.sum_squares(e) + sparsity(a, parameter).term
    constraints = [fit.constraint, zero_sum(a).constraint] if balanced else [fit.constraint]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    return SparseExpansion(problem, parameter, a, b, e, Phi, target, fit, balanced)
