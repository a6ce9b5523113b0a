"""The task of a judgement: rows, targets and rules, and the criterion of a kernel on them as a function of gamma.

For a machine with a free bias, points are centred at their mean where that changes nothing else; the rounding of kernel
values of validation rows is bounded.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear
from substrate.kernels.nested import Scaled
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.criteria import Criterion, LeaveOneOut
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.leave_one_out import Split
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import Sum, Validation
from substrate.namespaces import is_device_array, to_numpy

__all__ = ["Part", "Task", "centred_points", "criterion_of"]


def centred_points(kernel: Kernel, X: Any, *others: Any) -> tuple[Any, ...]:
    """X and further points minus the mean of X for a linear kernel on dense arrays; unchanged for any other.

    Coefficients that sum to zero, and the bias, absorb what a common shift adds to x'z, while an offset of the
    points would cost digits of every kernel value.
    """
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if not isinstance(plain, Linear) or is_sparse(X) or is_device_array(X):
        return (X, *others)
    with np.errstate(over="ignore", invalid="ignore"):
        center = np.mean(X, axis=0)
    if not np.isfinite(center).all():
        return (X, *others)
    return tuple(points - center for points in (X, *others))


def _joint_rounding(kernel: Kernel, X: Any, X_check: Any) -> float:
    """The kernel's p for the rows of both; zero for a user's matrix, which is exact by definition."""
    if kernel.pairwise:
        return 0.0
    if is_sparse(X):
        from scipy.sparse import vstack

        return kernel.rounding(vstack([X, X_check]).tocsr())
    return kernel.rounding(np.vstack([X, X_check]))


def _row_rounding(p: float, diagonal: Array, checked: Array, v: Array | None, w: Array | None) -> float:
    """A bound on the root mean square error of centred kernel rows, from k(x, x) and the weights of both sets."""
    if p == 0.0:
        return 0.0
    if v is not None and w is not None:
        means = [float(np.average(np.abs(part), weights=by)) for part, by in ((diagonal, v), (checked, w))]
        diagonal, checked = v * diagonal, np.array([max(means)])
    # once for the row, once for the mean row that is subtracted
    own = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * own * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))


@dataclass(frozen=True, slots=True)
class Task:
    """The data by which candidates are judged: rows, targets (one column per output, 0: not in this machine), rules.

    ``criterion`` is one of ``SMOOTH``, or a loss of leave-one-out residuals. ``pooled`` states that all outputs share
    one gamma; ``wrong`` counts wrong classes from leave-one-out outputs; ``check`` are validation rows and their
    targets. ``weights`` are those of the rows, in the fits and in the criterion, None where all are equal. ``border``
    holds the columns that are not penalised, and ``check_linear`` those of a linear part at the validation rows.
    """

    X: Any
    Y: Array
    criterion: str
    splits: tuple[Split, ...]
    gammas: Any
    gap: float
    pooled: bool
    wrong: Callable[[Array], float] | None = None
    check: tuple[Any, Array] | None = None
    weights: Array | None = None
    check_weights: Array | None = None
    border: Border = ONES
    check_linear: Array | None = None

    def border_of(self, rows: Any) -> Border:
        """The border of some of the rows, orthonormal by their weights."""
        weights = np.ones(self.Y.shape[0]) if self.weights is None else to_numpy(self.weights)
        return self.border.take(rows, weights[rows])


@dataclass(frozen=True, slots=True)
class Part:
    """A criterion on some of the rows: its share in the mean, its training rows, and the rows that validate, if any.

    Validation rows are numbers of training data for folds, and of ``check`` where that is given.
    """

    criterion: Criterion
    share: float
    train: Any
    check: Any = None


def criterion_of(gram: Gram, task: Task) -> tuple[Criterion | Sum, tuple[Part, ...]]:
    """The smooth criterion of a task as a function of gamma, or leave-one-out for those that are not smooth.

    Also its parts, one for each decomposition.
    """
    Y, pooled = task.Y, task.pooled
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(task.X)
    if task.check is not None:
        return _summed(_checked_parts(gram, task))
    if task.criterion == "folds":
        parts = []
        for train, valid in task.splits:
            rows = gram.matrix[np.ix_(valid, train)]
            w = None if task.weights is None else (task.weights[train], task.weights[valid])
            known = (gram.restrict(train), Y[train], rows, Y[valid], pooled, p, gram.diagonal[valid], w)
            round_ = _validated(*known, task.border_of(train), task.border.linear(valid))
            for part in round_:
                numbers = {"train": train[part.train], "check": valid[part.check]}
                parts.append(replace(part, share=part.share / len(task.splits), **numbers))
        return _summed(parts)
    kind = OF_SPECTRUM.get(task.criterion, LeaveOneOut)
    coarse = task.gammas is not None  # the end of a default range depends on the error, a given one does not
    if not pooled or (to_numpy(Y) != 0.0).all():
        own = task.border_of(np.arange(gram.n))
        whole = kind.of(centred_spectrum(gram, p, task.weights, coarse, own), Y, pooled=pooled)
        return whole, (Part(whole, 1.0, np.arange(gram.n)),)
    criteria, counts, mass = [], [], 0.0
    machines = list(each_machine(Y, True))
    for one in machines:  # one against one: every machine has its own rows
        v = None if task.weights is None else task.weights[one.rows]
        spectrum = centred_spectrum(gram.restrict(one.rows), p, v, border=task.border_of(one.rows))
        criteria.append(kind.of(spectrum, one.y, pooled=True))
        counts.append(float(one.rows.size))
        mass += float(one.rows.size if v is None else v.sum())
    return _summed([Part(c, m / mass, one.rows) for c, m, one in zip(criteria, counts, machines, strict=True)])


def _summed(parts: list[Part]) -> tuple[Sum, tuple[Part, ...]]:
    return Sum.of([part.criterion for part in parts], [part.share for part in parts]), tuple(parts)


def _checked_parts(gram: Gram, task: Task) -> list[Part]:
    """The criterion on validation rows, whose kernel values are computed here."""
    if task.check is None or gram.kernel is None:
        raise TypeError("validation rows come with a kernel")
    kernel, (X_check, Y_check) = gram.kernel, task.check
    below = np.empty((Y_check.shape[0], task.Y.shape[0]))
    kernel.fill(X_check, None if kernel.pairwise else task.X, below)
    p = _joint_rounding(kernel, task.X, X_check)
    checked = np.zeros(Y_check.shape[0]) if p == 0.0 else np.asarray(kernel.diag(X_check))
    ones = np.ones(Y_check.shape[0]) if task.check_weights is None else task.check_weights
    weights = None if task.weights is None else (task.weights, ones)
    known = (gram, task.Y, below, Y_check, task.pooled, p, checked, weights)
    return _validated(*known, task.border_of(np.arange(gram.n)), task.check_linear)


def _reach(border: Border, linear: Array | None) -> float:
    """How much farther than a mean row the rows that the border takes up of validation points can be off.

    Of a point with Q(x) it is the row Q(x) W K, and W has rows of the length of those of the mean.
    """
    if linear is None or not border.slopes:
        return 1.0
    return 1.0 + float(np.abs(border.line(linear)[:, 1:]).sum(axis=1).max(initial=0.0))


def _validated(
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
) -> list[Part]:
    """The mean square error on validation rows, as one criterion or one per machine.

    ``linear`` are their columns of a linear part, less the center of the border.
    """
    if not pooled or (Y != 0.0).all():
        v, w = (None, None) if weights is None else weights
        spectrum = centred_spectrum(gram, p, v, border=border)
        unsure = _row_rounding(p, gram.diagonal, checked, v, w) * _reach(border, linear)
        whole = Validation.of(spectrum, Y, below, Y_check, pooled=pooled, rounding=unsure, weights=w, linear=linear)
        return [Part(whole, 1.0, np.arange(gram.n), np.arange(Y_check.shape[0]))]
    found = []
    for k in range(Y.shape[1]):  # one against one: every machine has its own rows
        train, check = np.flatnonzero(Y[:, k]), np.flatnonzero(Y_check[:, k])
        if check.size:
            v, w = (None, None) if weights is None else (weights[0][train], weights[1][check])
            rows = np.ascontiguousarray(below[np.ix_(check, train)])
            own = border.take(train, np.ones(train.size) if v is None else v)
            there = None if linear is None else linear[check]
            unsure = _row_rounding(p, gram.diagonal[train], checked[check], v, w) * _reach(own, there)
            spectrum = centred_spectrum(gram.restrict(train), p, v, border=own)
            known = (np.ascontiguousarray(Y[train, k]), rows, Y_check[check, k])
            part = Validation.of(spectrum, *known, rounding=unsure, weights=w, linear=there)
            found.append(Part(part, float(check.size if w is None else w.sum()), train, check))
    total = sum(part.share for part in found)
    return [replace(part, share=part.share / total) for part in found]
