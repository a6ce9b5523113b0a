r"""The judgement of one kernel: its spectrum, a criterion of model selection, and the best gamma of a range.

The mean square over left-out rows or folds, generalised cross-validation, and the evidence of y are minimised with a
lower bound by :func:`substrate.search.gamma_search.search_gamma`.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.chosen.tasks import Task, centred_points, criterion_of
from substrate.arrays import Array, to_numpy
from substrate.errors import DegenerateKernelWarning
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.least_squares.spectrum import Spectrum
from substrate.least_squares.validation import CriterionSum
from substrate.search.gamma_result import GammaSearch
from substrate.search.gamma_search import gamma_ends, search_spectra
from substrate.threads import blas_threads

__all__ = [
    "EvaluatedKernel",
    "evaluate",
    "over_candidates",
    "tabulate",
    "winner",
]


@dataclass(frozen=True, slots=True)
class EvaluatedKernel:
    """A kernel with its best gamma, and the mean criterion by which kernels are compared.

    ``score`` is in the units of the search; ``error`` bounds the relative error of the spectrum at that gamma.
    ``price`` is what a simpler kernel may cost: kernels are compared by their scores over it. ``facts`` is what the
    search that it is part of states on the certificate.
    ``tried`` is the number of kernels on the way of a descent that ended here, which were not evaluated.
    """

    kernel: Kernel
    search: GammaSearch
    score: float
    error: float
    seconds: float
    price: float = 1.0
    facts: tuple[tuple[str, str], ...] = ()
    tried: int = 0

    @property
    def price_of_kernel(self) -> float:
        """The score by which kernels are compared."""
        return self.score / self.price


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
    task = replace(task, X=centred_points(kernel, task.X))
    with warnings.catch_warnings():
        # a candidate that does not distinguish points loses; a warning for the chosen one follows at its fit
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        gram = Gram.of(kernel, task.X)
    if not kernel.trusted:
        gram.check_definite()
    with blas_threads(gram.n):  # once for all that follows: a limit takes as long as a product with a small matrix
        criterion = criterion_of(gram, task)
        criteria = criterion.criteria if isinstance(criterion, CriterionSum) else (criterion,)
        spectra = [
            criterion_of_fold.spectrum
            for criterion_of_fold in criteria
            if isinstance(criterion_of_fold.spectrum, Spectrum)
        ]
        search = search_spectra(criterion, spectra, task.gammas, task.gap)
    low = 1.0 / float(search.gamma.max())
    error = max(criterion_of_fold.spectrum.decomposition_error(low) for criterion_of_fold in criteria)
    scales = _scales(task, search.unit)
    score = float(np.mean(search.values / scales))
    return EvaluatedKernel(
        kernel=kernel,
        search=search,
        score=score,
        error=error,
        seconds=0.0,
    )


def _scales(task: Task, unit: float) -> Array:
    """Return the unit of each output's criterion when kernels are compared: its variance, if there are several."""
    if task.pooled or task.Y.shape[1] == 1:
        return np.ones(1)
    spread = (to_numpy(task.Y) / unit).std(axis=0)
    return np.asarray(np.where(spread > 0.0, spread, 1.0) ** 2)


def winner(judged: Sequence[EvaluatedKernel]) -> EvaluatedKernel:
    """Return the smallest criterion after prices; of equal ones the first."""
    return min(judged, key=lambda evaluated: evaluated.price_of_kernel)


def over_candidates(judged: Sequence[EvaluatedKernel], best: EvaluatedKernel) -> GammaSearch:
    """Return the winner's search; with one gamma to choose, its bound is that of all candidates."""
    if best.search.gamma.size > 1:
        return best.search
    bounds = [candidate.search.bounds * (best.price / candidate.price) for candidate in judged]
    return replace(best.search, bounds=np.min(bounds, axis=0))


def tabulate(judged: Sequence[EvaluatedKernel], is_single: bool) -> dict[str, Any]:
    """Return the candidates as scikit-learn tabulates them: scores are negative criteria, larger is better."""
    unit = judged[0].search.unit if is_single else 1.0  # several outputs are each in units of their variance
    scores = -np.array([candidate.score for candidate in judged])
    priced = np.array([candidate.price_of_kernel for candidate in judged])
    ranks = np.array([1 + int((priced < price).sum()) for price in priced], dtype=np.int32)
    with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
        scores = scores * unit * unit
    gammas = [float(j.search.gamma[0]) if is_single else [float(g) for g in j.search.gamma] for j in judged]
    seconds = np.array([candidate.seconds for candidate in judged])
    return {
        "params": [{"kernel": j.kernel, "gamma": gamma} for j, gamma in zip(judged, gammas, strict=True)],
        "param_kernel": [candidate.kernel for candidate in judged],
        "param_gamma": gammas,
        "mean_fit_time": seconds,
        "mean_test_score": scores,
        "rank_test_score": ranks,
        "lower_bound": np.array([float(candidate.search.lower_bound[0]) for candidate in judged]),
        "gamma_range": [[float(end) for end in candidate.search.gamma_range] for candidate in judged],
        "n_intervals": np.array([candidate.search.intervals for candidate in judged]),
    }
