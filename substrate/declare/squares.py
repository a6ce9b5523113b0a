r"""Machines of least squares: every observation left out in closed form.

.. math:: J(f) = p \, w^T w + \sum_i q_i \, (y_i - \ell_i f)^2

with bounded functionals :math:`\ell_i` (values, derivatives, integrals) is, over all w, the machine of
:mod:`substrate.operators.border` with

.. math:: K_{ij} = \langle \ell_i \varphi, \ell_j \varphi \rangle, \qquad D_{ii} = \frac{p}{q_i}, \qquad Z_i = \ell_i 1,

so that the residual of observation i without it is :math:`\alpha_i / B_{ii}`, and predictions without it, jackknife and
conformal intervals follow as for values (:mod:`substrate.intervals.conformal`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, real_points
from substrate.declare.linear_operators import VALUE
from substrate.declare.row_reader import read_row_losses
from substrate.declare.span import Reading, inner_products
from substrate.errors import DeclarationError
from substrate.intervals.conformal import (
    LeftOutMachines,
    conformal_ends,
    jackknife_plus,
)
from substrate.left_out.influence import KernelInfluence, kernel_influence
from substrate.left_out.leave_one_out import leave_one_out_residuals
from substrate.losses import PieceLoss
from substrate.operators.border import NO_BORDER, ONES, Border
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import solve_saddle_system

__all__ = ["METHODS", "SquaredRows"]

#: The methods of intervals.
METHODS = ("conformal", "jackknife+")
#: Share of the size of the targets by which the targets of the squares may differ from them: rounding of factors.
_SAME = 1e-12
_ADVICE = (
    "; leaving out in closed form is for machines that minimise s.squared_norm and squares of s.e, with weights, and "
    "nothing else. Refit without rows instead, or fuse over folds"
)


@dataclass(frozen=True, eq=False)
class SquaredRows:
    """The observations of a machine of least squares: what reads each, its target, what a bias adds to it, and D."""

    substrate: Any
    readings: tuple[Reading, ...]
    targets: Array
    constants: Array
    ridge: Array

    @classmethod
    def of(cls, substrate: Any, objective: Any, parameters: Mapping[str, Any], constrained: bool) -> "SquaredRows":
        """Return the rows of a machine of one substrate; refuse one that is not least squares, with the reason."""
        if constrained:
            raise DeclarationError(f"the machine has constraints{_ADVICE}")
        if substrate.task != "regression" or substrate.columns or substrate.basis is not None:
            raise DeclarationError(f"the machine has classes, several columns of y or a basis{_ADVICE}")
        exchange = {id(p): cp.Constant(parameters[p.name()]) for p in objective.parameters() if p.name() in parameters}
        leaves = {holder.role: holder.leaf for holder in substrate.holders() if holder.points is None}
        errors, observed = leaves.get("f"), substrate.observed
        if observed is not None:  # s.e is one expression, in whose place a variable is read
            errors = cp.Variable(observed.targets.size)
            exchange[id(substrate.e)] = errors
        read = read_row_losses(objective.tree_copy(exchange), errors, leaves.get("squared_norm"))
        if read is None or not isinstance(read.losses, PieceLoss):
            raise DeclarationError(f"its objective is not made of w'w and of one square for each row{_ADVICE}")
        losses = read.losses
        curvature = losses.curvature[:, 0]
        if losses.has_kinks or not (losses.curvature == curvature[:, None]).all():
            raise DeclarationError(f"the losses of its rows are no squares{_ADVICE}")
        if not (curvature > 0.0).all():
            raise DeclarationError(f"not every error is in a square of the objective{_ADVICE}")
        centres = losses.places[:, 0] - losses.below[:, 0] / curvature
        targets = substrate.y if observed is None else observed.targets
        stated = targets if observed is None else np.zeros(targets.size)
        if (np.abs(centres - stated) > _SAME * float(np.abs(targets).max())).any():
            raise DeclarationError(f"a square is of something else than y - f at its row{_ADVICE}")
        ridge = 2.0 * read.norm / curvature
        if observed is None:
            return cls(substrate, (Reading(),), targets, np.ones(targets.size), ridge)
        read_by = [block.functional(substrate) for block in observed.blocks]
        readings = tuple(Reading(at, operator=None if kind is VALUE else kind) for kind, at in read_by)
        constants = np.concatenate([kind.apply_to_constant(at) for kind, at in read_by])
        return cls(substrate, readings, targets, constants, ridge)

    def leave_one_out(self) -> Array:
        """Return y_i minus its value by the machine without observation i."""
        alpha, influence = self._solve()
        return leave_one_out_residuals(alpha, influence.diagonal)

    def predict_interval(self, fitted: Array, X: Any, coverage: Any, method: str) -> Array:
        """Return the ends of intervals for new values at the rows of X, from the values among the observations."""
        if method not in METHODS:
            raise DeclarationError(f"method must be one of {', '.join(map(repr, METHODS))}, received {method!r}")
        observed, points = self.substrate.observed, real_points(X)
        rows = np.arange(self.targets.size) if observed is None else np.flatnonzero(observed.are_values)
        if rows.size < 2:
            raise DeclarationError(
                f"intervals of values are made of the errors of other values, and {rows.size} were observed; observe "
                "some"
            )
        alpha, influence = self._solve()
        diagonal = np.asarray(self.substrate.kernel.diag(points))
        restricted = influence.restrict(rows)
        residuals = leave_one_out_residuals(alpha[rows], restricted.diagonal)
        machines = LeftOutMachines(
            influence=restricted,
            support_values=alpha[rows],
            residuals=residuals,
            ridge=self.ridge[rows],
        )
        interval = conformal_ends if method == "conformal" else jackknife_plus
        return interval(machines, fitted, points, diagonal, coverage)

    def _solve(self) -> tuple[Array, KernelInfluence]:
        """Return alpha, and the influence of all rows."""
        gram, border = Gram.from_matrix(self._matrix()), self._border()
        alpha = np.asarray(solve_saddle_system(gram, self.targets, self.ridge, border=border).support_values)
        gram.release()
        return alpha, kernel_influence(gram, self.ridge, border, partial(self._represent, border))

    def _border(self) -> Border:
        if not self.substrate.bias:
            return NO_BORDER
        if (self.constants == 1.0).all():
            return ONES
        return Border.of(self.constants[:, None], 1.0 / self.ridge, ["the bias"], constant=False)

    def _matrix(self) -> Array:
        K = np.block([[inner_products(self.substrate, a, b) for b in self.readings] for a in self.readings])
        return np.asarray((K + K.T) / 2.0)

    def _represent(self, border: Border, X: Any) -> Array:
        values = np.hstack([inner_products(self.substrate, Reading(X), reading) for reading in self.readings])
        return values if not border.slopes else np.column_stack([values, np.ones(X.shape[0])])
