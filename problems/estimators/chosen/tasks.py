"""The task of a judgement: rows, targets and rules, and the criterion of a kernel on them as a function of gamma.

For a machine with a free bias, points are centred at their mean where that changes nothing else; the rounding of kernel
values of rows that validate is bounded.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_device_array, is_sparse, to_numpy
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear, Scaled
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.criteria import Criterion, LeaveOneOut, OfMachine
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.leave_one_out import Split
from substrate.least_squares.left_out_blocks import LeftOutBlocks
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.spectrum import Spectrum, centred_spectrum
from substrate.least_squares.validation import CriterionSum, ValidationCriterion

__all__ = ["CriterionShare", "Task", "centred_points", "criterion_of", "validation_at"]


def centred_points(kernel: Kernel, X: Any) -> Any:
    """Return X minus its mean for a linear kernel on dense arrays; unchanged for any other.

    Coefficients that sum to zero, and the bias, absorb what a common shift adds to x'z, while an offset of the
    points would cost digits of every kernel value.
    """
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if not isinstance(plain, Linear) or is_sparse(X) or is_device_array(X):
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        center = np.mean(X, axis=0)
    if not np.isfinite(center).all():
        return X
    return X - center


def _row_rounding(p: float, diagonal: Array, checked: Array, v: Array | None, w: Array | None) -> float:
    """Bound the root mean square error of centred kernel rows, from k(x, x) and the weights of both sets."""
    if p == 0.0:
        return 0.0
    if v is not None and w is not None:
        means = [
            float(np.average(np.abs(diagonal_entries), weights=by))
            for diagonal_entries, by in ((diagonal, v), (checked, w))
        ]
        diagonal, checked = v * diagonal, np.array([max(means)])
    # once for the row, once for the mean row that is subtracted
    length = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * length * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))


@dataclass(frozen=True, slots=True)
class Task:
    """The data by which candidates are judged: rows, targets (one column per output, 0: not in this machine), rules.

    ``criterion`` is a word of ``cv``, "blocks" for both of rows that are left out together, which are then ``blocks``,
    or "folds". ``pooled`` states that all outputs share one gamma. ``weights`` are those of the rows, in the fits and
    in the criterion, None where all are equal. ``border`` holds the columns that are not penalised.
    """

    X: Any
    Y: Array
    criterion: str
    splits: tuple[Split, ...]
    gammas: Any
    gap: float
    pooled: bool
    weights: Array | None = None
    border: Border = ONES
    blocks: LeftOutBlocks | None = None

    def border_of(self, rows: Any) -> Border:
        """Return the border of some of the rows, orthonormal by their weights."""
        weights = np.ones(self.Y.shape[0]) if self.weights is None else to_numpy(self.weights)
        return self.border.take(rows, weights[rows])

    def unit_targets(self) -> Array:
        """Return the targets in one unit, or, where outputs choose gammas of their own, in their deviations."""
        Y = self.Y / target_unit(self.Y)
        if self.pooled or Y.shape[1] == 1:
            return np.asarray(Y)
        spread = Y.std(axis=0)
        return np.asarray(Y / np.where(spread > 0.0, spread, 1.0))


@dataclass(frozen=True, slots=True)
class CriterionShare:
    """A criterion on some of the rows, and its share in the mean."""

    criterion: Criterion
    share: float = 1.0


def criterion_of(gram: Gram, task: Task) -> tuple[Criterion | CriterionSum, tuple[CriterionShare, ...]]:
    """Return the criterion of a task as a function of gamma, and its parts, one for each decomposition."""
    Y, pooled = task.Y, task.pooled
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(task.X)
    if task.criterion == "folds":
        shares = list[CriterionShare]()
        for train, valid in task.splits:
            rows = gram.matrix[np.ix_(valid, train)]
            w = None if task.weights is None else (task.weights[train], task.weights[valid])
            arguments = (gram.restrict(train), Y[train], rows, Y[valid], pooled, p, gram.diagonal[valid], w)
            of_fold = validation_parts(*arguments, task.border_of(train), task.border.linear(valid))
            shares += [replace(part, share=part.share / len(task.splits)) for part in of_fold]
        return _sum_parts(shares)
    if not pooled or (to_numpy(Y) != 0.0).all():
        border = task.border_of(np.arange(gram.n))
        whole = _of_spectrum(centred_spectrum(gram, p, task.weights, border), Y, task, None)
        return whole, (CriterionShare(whole),)
    shares, mass = list[CriterionShare](), 0.0
    for machine in each_machine(Y, True):  # one against one: every machine has its own rows
        v = None if task.weights is None else task.weights[machine.rows]
        spectrum = centred_spectrum(gram.restrict(machine.rows), p, v, border=task.border_of(machine.rows))
        shares.append(CriterionShare(_of_spectrum(spectrum, machine.y, task, machine.rows), machine.rows.size))
        mass += float(machine.rows.size if v is None else v.sum())
    return _sum_parts([replace(part, share=part.share / mass) for part in shares])


def _of_spectrum(spectrum: Spectrum, Y: Array, task: Task, rows: Any) -> OfMachine:
    """Return the criterion of a spectrum of all rows, or of some, where ``rows`` are given."""
    if task.blocks is not None:
        blocks = task.blocks if rows is None else task.blocks.restrict(rows)
        return LeaveOneOut.of_blocks(spectrum, Y, blocks, pooled=task.pooled)
    return OF_SPECTRUM[task.criterion].of(spectrum, Y, pooled=task.pooled)


def _sum_parts(shares: list[CriterionShare]) -> tuple[CriterionSum, tuple[CriterionShare, ...]]:
    return CriterionSum.of([share.criterion for share in shares], [share.share for share in shares]), tuple(shares)


def validation_at(gram: Gram, X: Any, Y: Array, X_check: Any, Y_check: Array) -> list[CriterionShare]:
    """Return the mean square error at validation points, whose kernel values are computed here."""
    kernel = gram.kernel
    if kernel is None:
        raise TypeError("internal error: validation rows need a kernel")
    p = kernel.rounding(np.vstack([X, X_check]))
    return validation_parts(gram, Y, kernel(X_check, X), Y_check, False, p, np.asarray(kernel.diag(X_check)))


def _reach(border: Border, linear: Array | None) -> float:
    """Return how much farther than a mean row the rows that the border takes up of validation points can be off.

    Of a point with Q(x) it is the row Q(x) W K, and W has rows of the length of those of the mean.
    """
    if linear is None or not border.slopes:
        return 1.0
    return 1.0 + float(np.abs(border.line(linear)[:, 1:]).sum(axis=1).max(initial=0.0))


def validation_parts(
    gram: Gram,
    Y: Array,
    below: Array,
    Y_check: Array,
    pooled: bool,
    p: float,
    checked: Array,
    weights: tuple[Array, Array] | None = None,
    border: Border = ONES,
    linear: Array | None = None,
) -> list[CriterionShare]:
    """Return the mean square error on validation rows, as one criterion or one per machine, each with its share.

    ``linear`` are their columns of a linear part, less the center of the border.
    """
    if not pooled or (Y != 0.0).all():
        v, w = (None, None) if weights is None else weights
        spectrum = centred_spectrum(gram, p, v, border=border)
        radius = _row_rounding(p, gram.diagonal, checked, v, w) * _reach(border, linear)
        whole = ValidationCriterion.of(
            spectrum, Y, below, Y_check, pooled=pooled, rounding=radius, weights=w, linear=linear
        )
        return [CriterionShare(whole)]
    shares = list[CriterionShare]()
    for k in range(Y.shape[1]):  # one against one: every machine has its own rows
        train, check = np.flatnonzero(Y[:, k]), np.flatnonzero(Y_check[:, k])
        if check.size:
            v, w = (None, None) if weights is None else (weights[0][train], weights[1][check])
            rows = np.ascontiguousarray(below[np.ix_(check, train)])
            border_of_rows = border.take(train, np.ones(train.size) if v is None else v)
            linear_val = None if linear is None else linear[check]
            radius = _row_rounding(p, gram.diagonal[train], checked[check], v, w) * _reach(border_of_rows, linear_val)
            spectrum = centred_spectrum(gram.restrict(train), p, v, border=border_of_rows)
            arguments = (np.ascontiguousarray(Y[train, k]), rows, Y_check[check, k])
            criterion = ValidationCriterion.of(spectrum, *arguments, rounding=radius, weights=w, linear=linear_val)
            shares.append(CriterionShare(criterion, float(check.size if w is None else w.sum())))
    total = sum(share.share for share in shares)
    return [replace(share, share=share.share / total) for share in shares]
