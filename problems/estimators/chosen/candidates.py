r"""The judgement of one kernel: its spectrum, a criterion of model selection, and the best gamma of a range.

The mean square over left-out rows, folds or validation rows, generalised cross-validation, and the evidence of y are
minimised with a lower bound by :func:`substrate.search.gamma_search.search_gamma`; other losses of leave-one-out
residuals (mean absolute, median, trimmed, misclassification) on a grid, without one.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from problems.estimators.chosen.tasks import Task, centred_points, criterion_of
from substrate.arrays import Array, positive
from substrate.errors import DataError, DeclarationError, DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.leave_one_out import ROBUST, Split, checked_splits
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.spectrum import Spectrum
from substrate.least_squares.validation import CriterionSum
from substrate.namespaces import to_numpy
from substrate.search.gamma_result import GammaSearch
from substrate.search.gamma_search import gamma_ends, grid_gamma, lambda_range, search_spectra
from substrate.threads import blas_threads

__all__ = [
    "SMOOTH",
    "EvaluatedKernel",
    "end_where_bounded",
    "evaluate",
    "held_out_rows",
    "judged_by",
    "over_candidates",
    "tabulate",
    "trainable_splits",
    "winner",
]

#: Criteria that are smooth in gamma.
SMOOTH: tuple[str, ...] = ("loo", "blocks", "gcv", "evidence", "folds", "validation")


@dataclass(frozen=True, slots=True)
class EvaluatedKernel:
    """A kernel with its best gamma, the mean criterion by which kernels are compared, and that of every split.

    Scores are in the units of the search; ``error`` bounds the relative error of the spectrum at that gamma. ``price``
    is what a simpler kernel may cost: kernels are compared by their scores over it. ``facts`` is what
    the search that it is part of states on the certificate.
    ``tried`` is the number of kernels on the way of a descent that ended here, which were not evaluated.
    """

    kernel: Kernel
    search: GammaSearch
    score: float
    split_scores: Array
    error: float
    seconds: float
    price: float = 1.0
    facts: tuple[tuple[str, str], ...] = ()
    tried: int = 0

    @property
    def price_of_kernel(self) -> float:
        """The score by which kernels are compared."""
        return self.score / self.price


def judged_by(
    cv: Any,
    loss: Any = "squared",
    losses: tuple[str, ...] = ("squared",),
    words: tuple[str, ...] = tuple(OF_SPECTRUM),
) -> str:
    """Return what ``cv`` (one of ``words``, if a word) and ``loss`` mean: one of ``SMOOTH``, or a loss of residuals."""
    if loss not in losses:
        raise DeclarationError(f"loss must be one of {', '.join(losses)}, received {loss!r}")
    if isinstance(cv, (bool, float)) or (isinstance(cv, str) and cv not in words):
        raise DeclarationError(
            f"cv must be {', '.join(map(repr, words))}, a number of folds, a splitter, a list of splits, or None for "
            f"validation rows; received {cv!r}"
        )
    if loss != "squared" and cv != "loo":
        raise DeclarationError(
            f"loss={loss!r} is computed from leave-one-out residuals: use cv='loo', received cv={cv!r}"
        )
    if loss != "squared":
        return str(loss)
    return cv if isinstance(cv, str) else "validation" if cv is None else "folds"


def held_out_rows(n: int, fraction: Any, random_state: Any, labels: Any = None) -> Split:
    """Return rows that train and rows that validate, drawn at random; for labels in proportion, where there are
    enough.
    """
    share = positive(fraction, "validation_fraction")
    if share >= 1.0:
        raise DeclarationError(f"validation_fraction must be below 1, received {fraction!r}")
    every = np.arange(n)
    try:
        train, test = train_test_split(every, test_size=share, random_state=random_state, stratify=labels)
    except ValueError:  # a class too small to be cut in proportion: one row of each trains
        _, first = np.unique(labels, return_index=True) if labels is not None else (None, every[:0])
        remaining = np.setdiff1d(every, first)
        rows = remaining if remaining.size > 1 else every
        train, test = train_test_split(rows, test_size=share, random_state=random_state)
        train = np.union1d(train, first if remaining.size > 1 else train)
    return np.sort(train), np.sort(test)


def trainable_splits(splits: Any, n: int, labels: Any = None, kept: Any = None) -> tuple[Split, ...]:
    """Check splits of n rows that also leave at least two rows, and one of every class, to train on.

    ``kept`` are the numbers of the rows of positive weight, None where these are all; the splits that are returned
    number the rows among them.
    """
    pairs = checked_splits(splits, n, kept)
    if kept is not None:
        n, labels = len(kept), None if labels is None else labels[kept]
    for number, (train, valid) in enumerate(pairs):
        if train.size < 2:
            raise DataError(
                f"split {number} has {train.size} training and {valid.size} validation rows of {n}; it needs at least "
                "two and one, so use fewer folds or more rows"
            )
        if labels is not None and np.unique(labels[train]).size < np.unique(labels).size:
            raise DataError(f"split {number} has a class that is absent from its training rows; use stratified folds")
    return pairs


def evaluate(kernel: Kernel, task: Task) -> EvaluatedKernel:
    """Find the best gamma of one kernel."""
    start = time.perf_counter()
    if task.weights is None:
        evaluated = _evaluate(kernel, task)
    else:
        evaluated = _evaluate_by_weights(kernel, task, to_numpy(task.weights))
    return replace(evaluated, seconds=time.perf_counter() - start)


def _evaluate_by_weights(kernel: Kernel, task: Task, v: Array) -> EvaluatedKernel:
    """Evaluate the kernel with weights of mean one, for which the criterion is a plain mean; gamma is that of the given
    weights.
    """
    size = float(v.mean())
    gammas = None if task.gammas is None else tuple(size * end for end in gamma_ends(task.gammas))
    evaluated = _evaluate(kernel, replace(task, weights=v / size, gammas=gammas))
    low, high = evaluated.search.gamma_range
    gamma, places = evaluated.search.gamma / size, evaluated.search.seen / size
    return replace(
        evaluated, search=replace(evaluated.search, gamma=gamma, gamma_range=(low / size, high / size), seen=places)
    )


def _evaluate(kernel: Kernel, task: Task) -> EvaluatedKernel:
    if task.check is None:
        task = replace(task, X=centred_points(kernel, task.X)[0])
    else:
        X, X_check = centred_points(kernel, task.X, task.check[0])
        task = replace(task, X=X, check=(X_check, task.check[1]))
    with warnings.catch_warnings():
        # a candidate that does not distinguish points loses; a warning for the chosen one follows at its fit
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        gram = Gram.of(kernel, task.X)
    if not kernel.trusted:
        gram.check_definite()
    with blas_threads(gram.n):  # once for all that follows: a limit takes as long as a product with a small matrix
        criterion, _ = criterion_of(gram, task)
        criteria = criterion.criteria if isinstance(criterion, CriterionSum) else (criterion,)
        spectra = [
            criterion_of_fold.spectrum
            for criterion_of_fold in criteria
            if isinstance(criterion_of_fold.spectrum, Spectrum)
        ]
        if task.criterion in SMOOTH:
            search = search_spectra(criterion, spectra, task.gammas, task.gap)
        else:
            search = grid_gamma(spectra[0], task.Y, lambda_range(spectra, task.gammas), _loss(task))
    low = 1.0 / float(search.gamma.max())
    error = max(criterion_of_fold.spectrum.decomposition_error(low) for criterion_of_fold in criteria)
    scales = _scales(task, search.unit)
    score = float(np.mean(search.values / scales))
    splits = np.array([score])
    if task.criterion == "folds" and len(criteria) == len(task.splits):
        t = Regularization(search.gamma).log_lambda(criterion.lift)[None, :]
        columns = range(search.gamma.size)
        at = [
            criterion_of_fold.sample(t).values[0][columns, columns] * (criterion_of_fold.unit / search.unit) ** 2
            for criterion_of_fold in criteria
        ]
        splits = np.array([float(np.mean(values / scales)) for values in at])
    return EvaluatedKernel(
        kernel=kernel,
        search=search,
        score=score,
        split_scores=splits,
        error=error,
        seconds=0.0,
    )


def _scales(task: Task, unit: float) -> Array:
    """Return the unit of each output's criterion when kernels are compared: its variance, if there are several."""
    if task.pooled or task.Y.shape[1] == 1:
        return np.ones(1)
    spread = (to_numpy(task.Y) / unit).std(axis=0)
    power = 1.0 if task.criterion in ("mean_absolute", "median_absolute") else 2.0
    return np.asarray(np.where(spread > 0.0, spread, 1.0) ** power)


def _loss(task: Task) -> Callable[[Array], Array]:
    if task.criterion in ROBUST:
        robust = ROBUST[task.criterion]

        def sum_by_output(residuals: Array) -> Array:
            values = np.asarray(robust(residuals))
            return values.mean(axis=1, keepdims=True) if task.pooled else values

        return sum_by_output
    wrong, Y = task.wrong, to_numpy(task.Y)
    assert wrong is not None
    return lambda residuals: np.array([[wrong(Y - residuals[:, k])] for k in range(residuals.shape[1])])


def winner(judged: Sequence[EvaluatedKernel]) -> EvaluatedKernel:
    """Return the smallest criterion after prices; of equal ones the first."""
    return min(judged, key=lambda evaluated: evaluated.price_of_kernel)


def over_candidates(judged: Sequence[EvaluatedKernel], best: EvaluatedKernel) -> GammaSearch:
    """Return the winner's search; with one gamma to choose, its bound is that of all candidates.

    What is to expect beyond its range is then no more than what was seen of any candidate beyond its own.
    """
    if best.search.gamma.size > 1:
        return best.search
    bounds = [candidate.search.bounds * (best.price / candidate.price) for candidate in judged]
    beyond = best.search.beyond
    if beyond is not None:
        outside = [c.search.outside * (best.price / c.price) for c in judged if c.search.outside is not None]
        beyond = np.min([beyond, *outside], axis=0)
    return replace(best.search, bounds=np.min(bounds, axis=0), beyond=beyond)


def end_where_bounded(candidate: EvaluatedKernel, best: EvaluatedKernel, task: Task) -> EvaluatedKernel:
    """Return a candidate whose range ends before rounding takes its bound below the criterion of the best one.

    A range goes on where a better machine of the same kernel is (:mod:`substrate.search.range_end`). Of a kernel that
    another one beats there anyway, no machine is lost where the range ends earlier, and the bound over all candidates
    is then that of the best one. What was seen of the remaining range stays in what is known beyond it.
    """
    search, limit = candidate.search, (1.0 - task.gap) * best.search.values * (candidate.price / best.price)
    if candidate is best or not search.is_certified or (search.bounds >= limit).all():
        return candidate
    (low, high), seen = search.gamma_range, search.values
    outside = seen if search.outside is None else np.minimum(search.outside, seen)
    while low < (high := 0.1 * high):
        shorter = evaluate(candidate.kernel, replace(task, gammas=(low, float(high))))
        if (shorter.search.bounds >= limit).all():
            ended = replace(shorter.search, ended=True, beyond=search.beyond, outside=outside)
            return replace(shorter, search=ended, price=candidate.price, facts=candidate.facts, tried=candidate.tried)
    return candidate


def tabulate(judged: Sequence[EvaluatedKernel], is_single: bool) -> dict[str, Any]:
    """Return the candidates as scikit-learn tabulates them: scores are negative criteria, larger is better."""
    unit = judged[0].search.unit if is_single else 1.0  # several outputs are each in units of their variance
    scores = -np.array([candidate.score for candidate in judged])
    splits = -np.array([candidate.split_scores for candidate in judged])
    deviations = splits.std(axis=1)
    priced = np.array([candidate.price_of_kernel for candidate in judged])
    ranks = np.array([1 + int((priced < price).sum()) for price in priced], dtype=np.int32)
    with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
        scores, splits, deviations = (values * unit * unit for values in (scores, splits, deviations))
    gammas = [float(j.search.gamma[0]) if is_single else [float(g) for g in j.search.gamma] for j in judged]
    seconds = np.array([candidate.seconds for candidate in judged])
    results: dict[str, Any] = {
        "params": [{"kernel": j.kernel, "gamma": gamma} for j, gamma in zip(judged, gammas, strict=True)],
        "param_kernel": [candidate.kernel for candidate in judged],
        "param_gamma": gammas,
        "mean_fit_time": seconds,
        "std_fit_time": np.zeros(seconds.size),
    }
    if splits.shape[1] > 1:
        results |= {f"split{k}_test_score": np.ascontiguousarray(splits[:, k]) for k in range(splits.shape[1])}
    return results | {
        "mean_test_score": scores,
        "std_test_score": deviations,
        "rank_test_score": ranks,
        "lower_bound": np.array([float(candidate.search.lower_bound[0]) for candidate in judged]),
        "gamma_range": [[float(end) for end in candidate.search.gamma_range] for candidate in judged],
        "n_intervals": np.array([candidate.search.intervals for candidate in judged]),
    }
