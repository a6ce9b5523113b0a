"""The task of a judgement: rows, targets and rules, and the criterion of a kernel on them as a function of gamma.

For a machine with a free bias, points are centred at their mean where that changes nothing else; the rounding of kernel
values of rows that validate is bounded.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_device_array, is_sparse, to_numpy
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear, Scaled
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.criteria import Criterion, LeaveOneOut
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.leave_one_out import Split
from substrate.least_squares.left_out_blocks import LeftOutBlocks
from substrate.least_squares.saddle_system import target_unit
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import CriterionSum, ValidationCriterion

__all__ = ["Task", "centred_points", "criterion_of", "validation_at"]


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
    """The data by which candidates are judged: rows, targets (one column per output), rules.

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


def criterion_of(gram: Gram, task: Task) -> Criterion | CriterionSum:
    """Return the criterion of a task as a function of gamma."""
    Y, pooled = task.Y, task.pooled
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(task.X)
    if task.criterion == "folds":
        folds = list[Criterion]()
        for train, valid in task.splits:
            rows = gram.matrix[np.ix_(valid, train)]
            w = None if task.weights is None else (task.weights[train], task.weights[valid])
            arguments = (gram.restrict(train), Y[train], rows, Y[valid], pooled, p, gram.diagonal[valid], w)
            folds.append(validation_criterion(*arguments, task.border_of(train), task.border.linear(valid)))
        return CriterionSum.of(folds, [1.0 / len(folds)] * len(folds))
    spectrum = centred_spectrum(gram, p, task.weights, task.border_of(np.arange(gram.n)))
    if task.blocks is not None:
        return LeaveOneOut.of_blocks(spectrum, Y, task.blocks, pooled=pooled)
    return OF_SPECTRUM[task.criterion].of(spectrum, Y, pooled=pooled)


def validation_at(gram: Gram, X: Any, Y: Array, X_check: Any, Y_check: Array) -> ValidationCriterion:
    """Return the mean square error at validation points, whose kernel values are computed here."""
    kernel = gram.kernel
    if kernel is None:
        raise TypeError("internal error: validation rows need a kernel")
    p = kernel.rounding(np.vstack([X, X_check]))
    return validation_criterion(gram, Y, kernel(X_check, X), Y_check, False, p, np.asarray(kernel.diag(X_check)))


def _reach(border: Border, linear: Array | None) -> float:
    """Return how much farther than a mean row the rows that the border takes up of validation points can be off.

    Of a point with Q(x) it is the row Q(x) W K, and W has rows of the length of those of the mean.
    """
    if linear is None or not border.slopes:
        return 1.0
    return 1.0 + float(np.abs(border.line(linear)[:, 1:]).sum(axis=1).max(initial=0.0))


def validation_criterion(
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
) -> ValidationCriterion:
    """Return the mean square error on validation rows; ``linear`` are their columns of a linear part, less the center
    of the border.
    """
    v, w = (None, None) if weights is None else weights
    spectrum = centred_spectrum(gram, p, v, border=border)
    radius = _row_rounding(p, gram.diagonal, checked, v, w) * _reach(border, linear)
    return ValidationCriterion.of(spectrum, Y, below, Y_check, pooled=pooled, rounding=radius, weights=w, linear=linear)
