r"""The judgement of one kernel: its spectrum, a criterion of model selection, and the best gamma of a range.

The mean square over left-out rows, folds or validation rows, generalised cross-validation, and the evidence of y are
minimised with a lower bound by :func:`substrate.paths.gamma_search.search_gamma`; other losses of leave-one-out
residuals (mean absolute, median, trimmed, misclassification) on a grid, without one.

For a machine with a free bias, points are centred at their mean where that changes nothing else; the rounding of kernel
values of validation rows is bounded.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse, positive
from substrate.closed_form.leave_one_out import ROBUST, Split, checked_splits
from substrate.closed_form.spectrum import Spectrum, centred_spectrum
from substrate.device_gram import gram_kind
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear
from substrate.kernels.nested import Scaled
from substrate.namespaces import is_device_array, to_numpy
from substrate.paths.criteria import Criterion, LeaveOneOut
from substrate.paths.evidence import OF_SPECTRUM
from substrate.paths.gamma_result import GammaSearch
from substrate.paths.gamma_search import gamma_ends, grid_gamma, lambda_range, search_spectra
from substrate.paths.validation import Sum, Validation
from substrate.paths.width_search import WidthSearch

__all__ = ["SMOOTH", "Judged", "Task", "centred_points", "held_out_rows", "judge", "judged_by", "trainable_splits"]

#: Criteria that are smooth in gamma.
SMOOTH: tuple[str, ...] = ("loo", "gcv", "evidence", "folds", "validation")


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
    targets. ``weights`` are those of the rows, in the fits and in the criterion, None where all are equal.
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


@dataclass(frozen=True, slots=True)
class Judged:
    """A kernel with its best gamma, the mean criterion by which kernels are compared, and that of every split.

    Scores are in the units of the search; ``error`` bounds the relative error of the spectrum at that gamma; ``widths``
    may be a proof over all widths."""

    kernel: Kernel
    search: GammaSearch
    score: float
    split_scores: Array
    error: float
    seconds: float
    widths: WidthSearch | None = None


def judged_by(cv: Any, loss: Any = "squared", losses: tuple[str, ...] = ("squared",)) -> str:
    """The meaning of ``cv`` and ``loss``: one of ``SMOOTH``, or the loss of leave-one-out residuals."""
    if loss not in losses:
        raise DeclarationError(f"loss must be one of {', '.join(losses)}, received {loss!r}")
    if isinstance(cv, (bool, float)) or (isinstance(cv, str) and cv not in OF_SPECTRUM):
        raise DeclarationError(
            "cv must be 'loo', 'gcv', 'evidence', a number of folds, a splitter, a list of splits, or None for "
            f"validation rows; received {cv!r}"
        )
    if loss != "squared" and cv != "loo":
        raise DeclarationError(f"loss={loss!r} is taken of leave-one-out residuals: use cv='loo', received cv={cv!r}")
    if loss != "squared":
        return str(loss)
    return cv if isinstance(cv, str) else "validation" if cv is None else "folds"


def held_out_rows(n: int, fraction: Any, random_state: Any, labels: Any = None) -> Split:
    """Rows that train and rows that validate, drawn at random; for labels in proportion, where there are enough."""
    share = positive(fraction, "validation_fraction")
    if share >= 1.0:
        raise DeclarationError(f"validation_fraction must be below 1, received {fraction!r}")
    every = np.arange(n)
    try:
        train, test = train_test_split(every, test_size=share, random_state=random_state, stratify=labels)
    except ValueError:  # a class too small to be cut in proportion: one row of each trains
        _, first = np.unique(labels, return_index=True) if labels is not None else (None, every[:0])
        rest = np.setdiff1d(every, first)
        some = rest if rest.size > 1 else every
        train, test = train_test_split(some, test_size=share, random_state=random_state)
        train = np.union1d(train, first if rest.size > 1 else train)
    return np.sort(train), np.sort(test)


def trainable_splits(splits: Any, n: int, labels: Any = None) -> tuple[Split, ...]:
    """Checked splits that also leave at least two rows, and one of every class, to train on."""
    pairs = checked_splits(splits, n)
    for number, (train, valid) in enumerate(pairs):
        if train.size < 2:
            raise DataError(
                f"split {number} has {train.size} training and {valid.size} validation rows of {n}; it needs at least "
                "two and one, so use fewer folds or more rows"
            )
        if labels is not None and np.unique(labels[train]).size < np.unique(labels).size:
            raise DataError(f"split {number} has a class that is absent from its training rows; use stratified folds")
    return pairs


def judge(kernel: Kernel, task: Task) -> Judged:
    """Find the best gamma of one kernel."""
    start = time.perf_counter()
    found = _judge(kernel, task) if task.weights is None else _judged_by_weights(kernel, task, to_numpy(task.weights))
    return replace(found, seconds=time.perf_counter() - start)


def _judged_by_weights(kernel: Kernel, task: Task, v: Array) -> Judged:
    """Judged with weights of mean one, for which the criterion is a plain mean; gamma is that of the given weights."""
    size = float(v.mean())
    gammas = None if task.gammas is None else tuple(size * end for end in gamma_ends(task.gammas))
    found = _judge(kernel, replace(task, weights=v / size, gammas=gammas))
    low, high = found.search.gamma_range
    gamma, seen = found.search.gamma / size, found.search.seen / size
    return replace(found, search=replace(found.search, gamma=gamma, gamma_range=(low / size, high / size), seen=seen))


def _judge(kernel: Kernel, task: Task) -> Judged:
    if task.check is None:
        task = replace(task, X=centred_points(kernel, task.X)[0])
    else:
        X, X_check = centred_points(kernel, task.X, task.check[0])
        task = replace(task, X=X, check=(X_check, task.check[1]))
    with warnings.catch_warnings():
        # a candidate that does not distinguish points loses; a warning for the chosen one follows at its fit
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        gram = gram_kind(task.X).of(kernel, task.X)
    if not kernel.trusted:
        gram.check_definite()
    criterion = _criterion_of(gram, task)
    parts = criterion.parts if isinstance(criterion, Sum) else (criterion,)
    spectra = [part.spectrum for part in parts if isinstance(part.spectrum, Spectrum)]
    if task.criterion in SMOOTH:
        search = search_spectra(criterion, spectra, task.gammas, task.gap)
    else:
        search = grid_gamma(spectra[0], task.Y, lambda_range(spectra, task.gammas), _loss(task))
    low = 1.0 / float(search.gamma.max())
    error = max(part.spectrum.decomposition_error(low) for part in parts)
    scales = _scales(task, search.unit)
    score = float(np.mean(search.values / scales))
    splits = np.array([score])
    if task.criterion == "folds" and len(parts) == len(task.splits):
        t = np.log(1.0 / search.gamma - criterion.lift)[None, :]
        columns = range(search.gamma.size)
        at = [part.sample(t).values[0][columns, columns] * (part.unit / search.unit) ** 2 for part in parts]
        splits = np.array([float(np.mean(values / scales)) for values in at])
    return Judged(kernel, search, score, splits, error, 0.0)


def _scales(task: Task, unit: float) -> Array:
    """The unit of each output's criterion when kernels are compared: its variance, if there are several."""
    if task.pooled or task.Y.shape[1] == 1:
        return np.ones(1)
    spread = (to_numpy(task.Y) / unit).std(axis=0)
    power = 1.0 if task.criterion in ("mean_absolute", "median_absolute") else 2.0
    return np.asarray(np.where(spread > 0.0, spread, 1.0) ** power)


def _criterion_of(gram: Gram, task: Task) -> Criterion | Sum:
    """The smooth criterion of a task as a function of gamma, or leave-one-out for those that are not smooth."""
    Y, pooled = task.Y, task.pooled
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(task.X)
    if task.check is not None:
        return Sum.of(*zip(*_checked_parts(gram, task), strict=True))
    if task.criterion == "folds":
        parts = []
        for train, valid in task.splits:
            rows = gram.matrix[np.ix_(valid, train)]
            w = None if task.weights is None else (task.weights[train], task.weights[valid])
            round_ = _validated(gram.block(train), Y[train], rows, Y[valid], pooled, p, gram.diagonal[valid], w)
            parts += [(part, share / len(task.splits)) for part, share in round_]
        return Sum.of(*zip(*parts, strict=True))
    kind = OF_SPECTRUM.get(task.criterion, LeaveOneOut)
    if not pooled or (to_numpy(Y) != 0.0).all():
        return kind.of(centred_spectrum(gram, p, task.weights), Y, pooled=pooled)
    criteria, counts, mass = [], [], 0.0
    for one in each_machine(Y, True):  # one against one: every machine has its own rows
        v = None if task.weights is None else task.weights[one.rows]
        criteria.append(kind.of(centred_spectrum(gram.block(one.rows), p, v), one.y, pooled=True))
        counts.append(float(one.rows.size))
        mass += float(one.rows.size if v is None else v.sum())
    return Sum.of(criteria, [count / mass for count in counts])


def _checked_parts(gram: Gram, task: Task) -> list[tuple[Criterion, float]]:
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
    return _validated(gram, task.Y, below, Y_check, task.pooled, p, checked, weights)


def _validated(
    gram: Gram, Y: Array, below: Array, Y_check: Array, pooled: bool, p: float, checked: Array,
    weights: tuple[Array, Array] | None = None,
) -> list[tuple[Criterion, float]]:  # fmt: skip
    """The mean square error on validation rows, as one criterion or one per machine, with shares."""
    if not pooled or (Y != 0.0).all():
        v, w = (None, None) if weights is None else weights
        spectrum, unsure = centred_spectrum(gram, p, v), _row_rounding(p, gram.diagonal, checked, v, w)
        return [(Validation.of(spectrum, Y, below, Y_check, pooled=pooled, rounding=unsure, weights=w), 1.0)]
    found = []
    for k in range(Y.shape[1]):  # one against one: every machine has its own rows
        train, check = np.flatnonzero(Y[:, k]), np.flatnonzero(Y_check[:, k])
        if check.size:
            v, w = (None, None) if weights is None else (weights[0][train], weights[1][check])
            rows = np.ascontiguousarray(below[np.ix_(check, train)])
            unsure = _row_rounding(p, gram.diagonal[train], checked[check], v, w)
            spectrum = centred_spectrum(gram.block(train), p, v)
            known = (np.ascontiguousarray(Y[train, k]), rows, Y_check[check, k])
            part = Validation.of(spectrum, *known, rounding=unsure, weights=w)
            found.append((part, float(check.size if w is None else w.sum())))
    total = sum(count for _, count in found)
    return [(part, count / total) for part, count in found]


def _loss(task: Task) -> Callable[[Array], Array]:
    if task.criterion in ROBUST:
        robust = ROBUST[task.criterion]

        def by_output(residuals: Array) -> Array:
            values = np.asarray(robust(residuals))
            return values.mean(axis=1, keepdims=True) if task.pooled else values

        return by_output
    wrong, Y = task.wrong, to_numpy(task.Y)
    assert wrong is not None
    return lambda residuals: np.array([[wrong(Y - residuals[:, k])] for k in range(residuals.shape[1])])
