r"""The machines without each of several blocks of rows, and the residuals of the rows left out.

.. math::

    \min_{w_S, b_S, e_S} \; \sum_S \Big( \tfrac12 w_S^T w_S + \tfrac{\gamma}{2} \sum_{i \notin S} v_i e_{S i}^2 \Big)
    \quad \text{s.t.} \quad y_i = w_S^T \varphi(x_i) + b_S + e_{S i}, \quad i \notin S, \text{ for every block } S

Symbols: S sets of rows that are left out together, groups or a row with its ``reach`` neighbours on both sides
(:mod:`substrate.left_out.leave_one_out`); all others, for every S anew, are as in
:mod:`problems.ls_svm_regression`.

The problem is as many LS-SVMs as there are blocks, refitted. The residuals are
:math:`r_i = y_i - w_S^T \varphi(x_i) - b_S` of the rows of S that count: all of a group, of a row with its neighbours
the row itself. Every row counts once.

Closed form: with the machine of all rows, its support values :math:`\alpha` and the block B of the inverse of its
bordered matrix that maps y to :math:`\alpha`,

.. math:: r_S = (B_{SS})^{-1} \alpha_S ,

by :func:`substrate.left_out.leave_one_out.block_residuals`: one factorisation in the place of all refits. Blocks
of one row are leave-one-out, [Cawley2004]_ section 2.5; neighbours are left out where errors are correlated,
[DeBrabanter2011b]_.
"""

from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from problems.demonstration import Case, Demonstration
from substrate.arrays import Array, positive, real_targets, row_weights, whole_number
from substrate.certificate import Row
from substrate.declare.declared import Declared, given_gram, own_gram
from substrate.declare.regression_page import RegressionData, optimality_rows
from substrate.errors import DataError, DeclarationError
from substrate.ingredients import regression_fit, squared_errors, squared_norm
from substrate.kernels import RBF
from substrate.left_out.influence import kernel_influence
from substrate.left_out.leave_one_out import LeftOutBlocks, block_residuals
from substrate.operators.saddle_system import ridge_of, solve_saddle_system

__all__ = ["DEMONSTRATION", "closed_form", "declare"]


DEMONSTRATION = Demonstration(
    equations="Cawley2004 section 2.5; DeBrabanter2011b",
    cases=(
        Case(
            label="groups",
            choice={},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"gamma": 20.0, "groups": 3},
            every=6,
        ),
        Case(
            label="neighbours",
            choice={},
            dataset="motorcycle",
            kernel=RBF(sigma=10.0),
            parameters={"gamma": 20.0, "reach": 1},
            every=12,
        ),
    ),
)


def declare(
    K: Any, y: Any, gamma: float, weights: Any = None, *, groups: Any = None, reach: int | None = None
) -> Declared:
    """Declare all refits as one problem, for labels of groups (or their number, one after the other) or neighbours."""
    gram = given_gram(K)
    return _declare_refits(RegressionData.of(gram, y, gamma, weights), gram.matrix, _blocks(gram.n, groups, reach))


class _Refit:
    """The LS-SVM on the rows of one refit, with the gamma of all."""

    def __init__(self, R: Array, y: Array, v: Array, gamma: Any) -> None:
        w, e, self.b = cp.Variable(R.shape[1], name="w"), cp.Variable(y.size, name="e"), cp.Variable(name="b")
        self.fit = regression_fit(y, R @ w + self.b, e)
        self.norm, self.errors = squared_norm(w, R), squared_errors(e, gamma, v)


def _declare_refits(data: RegressionData, K: Array, blocks: LeftOutBlocks) -> Declared:
    R, y, v = data.R, data.y, data.v
    gamma = cp.Parameter(nonneg=True, name="gamma", value=data.gamma)
    others = [np.setdiff1d(np.arange(blocks.n), block) for block in blocks.rows]
    refits = [_Refit(R[rows], y[rows], v[rows], gamma) for rows in others]
    objective = cp.sum(cp.hstack([refit.norm.term + refit.errors.term for refit in refits]))
    problem = cp.Problem(cp.Minimize(objective), [refit.fit.constraint for refit in refits])

    def residuals() -> Array:
        left_out = np.empty(blocks.n)
        for refit, rows, block, counted in zip(refits, others, blocks.rows, blocks.counted, strict=True):
            S = block[counted]
            left_out[S] = y[S] - K[np.ix_(S, rows)] @ refit.fit.multiplier - refit.b.value
        return left_out

    def rows_of_certificate(tolerance: float) -> tuple[Row, ...]:
        """Return the worst row of each kind over all refits."""
        by_refit = [optimality_rows(refit.fit, refit.norm, refit.errors, tolerance) for refit in refits]
        return tuple(max(same, key=lambda row: row.relative / row.tolerance) for same in zip(*by_refit, strict=True))

    def sizes(now: RegressionData) -> dict[str, float]:
        return {"residuals": float(np.abs(now.y).max())}

    title, values = f"LS-SVM without each of {len(blocks.rows)} blocks", {"residuals": residuals}
    declared = data.declare(title, problem, {"gamma": gamma}, values, rows_of_certificate, sizes=sizes)
    # the bounds of refits are on the rows that they were fitted to, the answer is on those that they were not
    return replace(declared, accuracy="residuals of rows that are left out are compared with their closed form")


def closed_form(
    K: Any, y: Any, gamma: float, weights: Any = None, *, groups: Any = None, reach: int | None = None
) -> dict[str, Array]:
    """Return the residuals of the rows that were left out, from the machine on all rows."""
    gram = own_gram(K)
    blocks = _blocks(gram.n, groups, reach)
    ridge = ridge_of(positive(gamma, "gamma"), row_weights(weights, gram.n))
    alpha = solve_saddle_system(gram, real_targets(y, gram.n), ridge).support_values
    return {"residuals": block_residuals(alpha, kernel_influence(gram, ridge).projected_inverse, blocks)}


def _blocks(n: int, groups: Any, reach: int | None) -> LeftOutBlocks:
    if (groups is None) == (reach is None):
        raise DeclarationError(
            "give groups=, one label per row or a number of groups, or reach=, the number of neighbours on each side"
        )
    if groups is not None:
        if np.ndim(groups) == 0:
            count = min(whole_number(groups, "groups", 2), n)
            groups = count * np.arange(n) // n
        blocks = LeftOutBlocks.of_groups(groups)
        if blocks.n != n:
            raise DataError(f"groups must have one label for each of the {n} rows, received {blocks.n}")
        return blocks
    return LeftOutBlocks.centred(n, whole_number(reach, "reach", 0))
