r"""Judging one kernel: its spectrum, a criterion of model selection, and the best gamma of a range.

Smooth criteria (leave-one-out, generalised cross-validation, folds) are minimised with a lower bound by
:func:`substrate.paths.gamma_search.search_gamma`; the others (mean absolute, median, trimmed, misclassification) on a
grid, without one.

Points about their mean, where a machine with a free bias does not see the difference.

How far computed kernel values of validation rows may be from the true ones.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.shared.machine_rows import each_machine
from substrate.arrays import Array, is_sparse
from substrate.closed_form.leave_one_out import mean_absolute, median_absolute, trimmed_mean_square
from substrate.closed_form.spectrum import Spectrum, centred_spectrum
from substrate.device_gram import gram_kind
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.folds import Split, checked_splits
from substrate.gram import Gram
from substrate.kernels import Kernel, Linear
from substrate.kernels.nested import Scaled
from substrate.namespaces import is_device_array, to_numpy
from substrate.paths.criteria import Criterion, GeneralizedCrossValidation, LeaveOneOut, Sum, Validation
from substrate.paths.gamma_grid import grid_gamma
from substrate.paths.gamma_search import GammaSearch, lambda_range, search_spectra

__all__ = [
    "ROBUST",
    "SMOOTH",
    "Judged",
    "Task",
    "centred_points",
    "checked_criterion",
    "criterion_of",
    "joint_rounding",
    "judge",
    "row_rounding",
    "trainable_splits",
]


def centred_points(kernel: Kernel, X: Any, *others: Any) -> tuple[Any, ...]:
    """X and further points less the mean of X for a linear kernel on dense arrays; as they are for any other.

    Coefficients that sum to zero take up what a common shift adds to x'z, and the bias the rest, while an offset of the
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


def joint_rounding(kernel: Kernel, X: Any, X_check: Any) -> float:
    """The kernel's p for the rows of both; zero for a matrix from elsewhere, which is what it is."""
    if kernel.pairwise:
        return 0.0
    if is_sparse(X):
        from scipy.sparse import vstack

        return kernel.rounding(vstack([X, X_check]).tocsr())
    return kernel.rounding(np.vstack([X, X_check]))


def row_rounding(p: float, diagonal: Array, checked: Array) -> float:
    """Root mean square length by which centred kernel rows of points may be off, from k(x, x) of both sets."""
    if p == 0.0:
        return 0.0
    # once for the row, once for the mean row that is taken off
    own = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * own * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))


SMOOTH: tuple[str, ...] = ("loo", "gcv", "folds")
ROBUST: dict[str, Callable[[Array], Any]] = {
    "mean_absolute": mean_absolute,
    "median_absolute": median_absolute,
    "trimmed": trimmed_mean_square,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What every candidate is judged on: rows, targets (one column per output, 0: not in this machine), and the rules.

    ``pooled`` says that all outputs share one gamma; ``wrong`` counts wrong classes from leave-one-out outputs.
    """

    X: Any
    Y: Array
    criterion: str
    splits: tuple[Split, ...]
    gammas: Any
    gap: float
    pooled: bool
    wrong: Callable[[Array], float] | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A kernel with its best gamma, the mean criterion by which kernels are compared, and that of every split.

    Scores are in the units of the search; ``error`` is how far the spectrum is known at that gamma.
    """

    kernel: Kernel
    search: GammaSearch
    score: float
    split_scores: Array
    error: float
    seconds: float


def checked_criterion(criterion: Any, others: tuple[str, ...] = ()) -> str:
    """One of the criteria there are."""
    known = (*SMOOTH, *ROBUST, *others)
    if criterion not in known:
        raise DeclarationError(f"criterion must be one of {', '.join(known)}, received {criterion!r}")
    return str(criterion)


def trainable_splits(splits: Any, n: int, labels: Any = None) -> tuple[Split, ...]:
    """Checked splits that also leave at least two rows, and of every class one, to train on."""
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
    (X,) = centred_points(kernel, task.X)
    task = replace(task, X=X)
    with warnings.catch_warnings():
        # a candidate that tells no points apart loses; the one that is chosen is warned of when it is fitted
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        gram = gram_kind(task.X).of(kernel, task.X)
    if not kernel.trusted:
        gram.check_definite()
    criterion = criterion_of(gram, task)
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
    if task.criterion == "folds":
        t = np.log(1.0 / search.gamma - criterion.lift)[None, :]
        columns = range(search.gamma.size)
        at = [part.sample(t).values[0][columns, columns] * (part.unit / search.unit) ** 2 for part in parts]
        splits = np.array([float(np.mean(values / scales)) for values in at])
    return Judged(kernel, search, score, splits, error, time.perf_counter() - start)


def _scales(task: Task, unit: float) -> Array:
    """What each output's criterion is measured in when kernels are compared: its variance, if there are several."""
    if task.pooled or task.Y.shape[1] == 1:
        return np.ones(1)
    spread = (to_numpy(task.Y) / unit).std(axis=0)
    power = 1.0 if task.criterion in ("mean_absolute", "median_absolute") else 2.0
    return np.asarray(np.where(spread > 0.0, spread, 1.0) ** power)


def criterion_of(gram: Gram, task: Task) -> Criterion | Sum:
    """The smooth criterion of a task as a function of gamma, or leave-one-out for those that are not smooth."""
    Y, pooled = task.Y, task.pooled
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(task.X)
    if task.criterion == "folds":
        parts = []
        for train, valid in task.splits:
            rows = gram.matrix[np.ix_(valid, train)]
            spectrum = centred_spectrum(gram.block(train), p)
            unsure = row_rounding(p, gram.diagonal[train], gram.diagonal[valid])
            parts.append(Validation.of(spectrum, Y[train], rows, Y[valid], pooled=pooled, rounding=unsure))
        return Sum.of(parts, [1.0 / len(parts)] * len(parts))
    kind = GeneralizedCrossValidation if task.criterion == "gcv" else LeaveOneOut
    if not pooled or (to_numpy(Y) != 0.0).all():
        return kind.of(centred_spectrum(gram, p), Y, pooled=pooled)
    machines = list(each_machine(Y, True))  # one against one: every machine on rows of its own
    criteria = [kind.of(centred_spectrum(gram.block(one.rows), p), one.y, pooled=True) for one in machines]
    total = float(sum(one.rows.size for one in machines))
    return Sum.of(criteria, [float(one.rows.size) / total for one in machines])


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
