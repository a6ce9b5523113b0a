r"""The judgement of kernels on the rows of a task: a spectrum, a criterion of model selection, and the best gamma.

The mean square over left-out rows or folds, generalised cross-validation, and the evidence of y are minimised with a
lower bound by :func:`substrate.select.gamma_search.search_gamma`. For a machine with a free bias, points are centred at
their mean where that changes nothing else; the rounding of kernel values of rows that validate is bounded.

With weights v of the rows, everything is computed with weights of mean one, :math:`v / \bar v`, and
:math:`\gamma \bar v`, for which a criterion is a plain mean; gamma then refers to the given weights.

**The simplest of several kernels.** The smallest criterion of several families belongs to the family that suits these
rows, errors included: on a few hundred rows of a smooth function a rough kernel is ahead by chance now and then, with
many more degrees of freedom. With the left-out errors :math:`e_i` of the best kernel and :math:`e_i(k)` of another one,
and shares v of the rows that sum to one,

.. math:: d_i = e_i^2(k) - e_i^2, \qquad \bar d = \textstyle\sum_i v_i d_i, \qquad
          \mathrm{se}^2 = \tfrac{N}{N - 1} \sum_i v_i^2 (d_i - \bar d)^2 ,

the kernel of fewest effective parameters :math:`\operatorname{tr} H` among those with :math:`\bar d \le \mathrm{se}` is
taken ([Breiman1984]_ section 3.4.3: the simplest tree within one standard error). Errors are paired by rows, so that
rows which all kernels miss do not make the standard error large. In the same way a search by slopes decides whether one
width for each input predicts better than a shared one (:mod:`~problems.estimators.chosen.kernel_search`), of classes by
the number of wrong rows: squares also fall where outputs come nearer to codes that were on their right side before, on
tables with hardly a wrong row by many standard errors.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed

from problems.estimators.chosen.rules import family_name
from problems.estimators.shared.base import Facts
from problems.estimators.shared.checks import definite_gram
from substrate.arrays import Array, blas_threads, is_device_array, is_sparse, target_unit, to_numpy
from substrate.errors import DegenerateKernelWarning
from substrate.kernels import Kernel, Linear, Scaled
from substrate.left_out.criteria import OF_SPECTRUM, Criterion, CriterionSum, LeaveOneOut, ValidationCriterion
from substrate.left_out.influence import kernel_influence
from substrate.left_out.leave_one_out import LeftOutBlocks, Split, leave_one_out_residuals
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram
from substrate.operators.saddle_system import ridge_of, solve_saddle_system
from substrate.operators.spectrum import centred_spectrum
from substrate.progress import Progress
from substrate.select.gamma_search import GammaSearch, search_gamma

__all__ = [
    "EvaluatedKernel",
    "JudgedKernels",
    "LeftOutLosses",
    "Task",
    "centred_points",
    "criterion_of_task",
    "evaluate",
    "judge_each",
    "prefer_simplest",
    "validation_criterion",
]


#: Largest criterion of a kernel that is compared, as a multiple of the best one; beyond it kernels differ clearly.
_COMPARED = 1.5
#: Most effective parameters of a simpler kernel, as a share of the best kernel's.
_FEWER = 0.95
#: Most relative error of a decomposition at the gamma of a simpler kernel: beyond it rounding hides the machine.
_KNOWN = 1e-7
#: Rows below which a standard error says little.
_FEWEST = 10


def centred_points(kernel: Kernel, X: Any) -> Any:
    """Return X minus its mean for a linear kernel on dense arrays; unchanged for any other.

    Coefficients that sum to zero, and the bias, absorb the effect of a common shift on x'z, while an offset of the
    points would cost digits of every kernel value.
    """
    plain = kernel.kernel if isinstance(kernel, Scaled) else kernel
    if not isinstance(plain, Linear) or is_sparse(X) or is_device_array(X):
        return X
    with np.errstate(over="ignore", invalid="ignore"):
        center = np.mean(X, axis=0)
    return X - center if np.isfinite(center).all() else X


@dataclass(frozen=True, slots=True)
class Task:
    """The data by which candidates are judged: rows, targets (one column per output), rules.

    ``criterion`` is a word of ``cv``, "blocks" for both of rows that are left out together, which are then ``blocks``,
    or "folds". ``pooled`` states that all outputs share one gamma. ``weights`` are the weights of the rows, in the fits
    and in the criterion, of mean one and in units of ``unit``, None where all are one; ``gammas`` are a range of gamma
    for weights in that unit. ``border`` holds the columns that are not penalised.
    """

    X: Any
    Y: Array
    criterion: str
    splits: tuple[Split, ...]
    gammas: tuple[float, float] | None
    gap: float
    pooled: bool
    weights: Array | None = None
    unit: float = 1.0
    border: Border = ONES
    blocks: LeftOutBlocks | None = None

    @property
    def row_weights(self) -> Array:
        """Return the weights of the rows, of mean one."""
        return np.ones(self.Y.shape[0]) if self.weights is None else to_numpy(self.weights)

    def unit_targets(self) -> Array:
        """Return the targets in one unit, or each in its deviation where every output chooses its own gamma."""
        Y = self.Y / target_unit(self.Y)
        if self.pooled or Y.shape[1] == 1:
            return np.asarray(Y)
        spread = Y.std(axis=0)
        return np.asarray(Y / np.where(spread > 0.0, spread, 1.0))

    def mean_of_outputs(self, values: Array, unit: float) -> float:
        """Return the mean of criteria, each in units of the variance of its output, if there are several."""
        if self.pooled or self.Y.shape[1] == 1:
            return float(values.mean())
        spread = (to_numpy(self.Y) / unit).std(axis=0)
        return float(np.mean(values / np.where(spread > 0.0, spread, 1.0) ** 2))


class EvaluatedKernel(NamedTuple):
    """A kernel with its best gamma, and the mean criterion by which kernels are compared.

    ``score`` is in the units of the search; ``error`` bounds the relative error of the spectrum at that gamma.
    """

    kernel: Kernel
    search: GammaSearch
    score: float
    error: float = 0.0
    seconds: float = 0.0


def evaluate(kernel: Kernel, task: Task) -> EvaluatedKernel:
    """Find the best gamma of one kernel."""
    start, X = time.perf_counter(), centred_points(kernel, task.X)
    with warnings.catch_warnings():
        # a candidate that does not distinguish points loses; a warning for the chosen one follows at its fit
        warnings.simplefilter("ignore", DegenerateKernelWarning)
        gram = definite_gram(kernel, X)
    with blas_threads(gram.n):  # once for all that follows: a limit takes as long as a product with a small matrix
        criterion = criterion_of_task(gram, X, task)
        search = search_gamma(criterion, task.gammas, task.gap)
    low = 1.0 / float(search.gamma.max())
    error = max(spectrum.decomposition_error(low) for spectrum in criterion.spectra)
    score = task.mean_of_outputs(search.values, search.unit)
    return EvaluatedKernel(kernel, search.per_weight(task.unit), score, error, time.perf_counter() - start)


def judge_each(
    kernels: Sequence[Kernel], task: Task, deadline: float, n_jobs: Any, progress: Progress
) -> list[EvaluatedKernel]:
    """Judge every kernel until the deadline, at least one, several at a time if requested."""
    results = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(evaluate)(kernel, task) for kernel in kernels):
        progress.step(result.kernel)
        results.append(result)
        if time.monotonic() > deadline:
            break
    return results


def criterion_of_task(gram: Gram, X: Any, task: Task) -> Criterion | CriterionSum:
    """Return the criterion of a task as a function of gamma."""
    Y, pooled, v = task.Y, task.pooled, task.row_weights
    p = 0.0 if gram.kernel is None or gram.kernel.pairwise else gram.kernel.rounding(X)
    if task.criterion == "folds":
        folds = [
            validation_criterion(
                gram.restrict(train),
                Y[train],
                gram.matrix[np.ix_(valid, train)],
                Y[valid],
                pooled,
                p,
                gram.diagonal[valid],
                None if task.weights is None else (v[train], v[valid]),
                task.border.take(train, v[train]),
                task.border.linear(valid),
            )
            for train, valid in task.splits
        ]
        return CriterionSum.of(folds, [1.0 / len(folds)] * len(folds))
    spectrum = centred_spectrum(gram, p, task.weights, task.border.take(np.arange(gram.n), v))
    if task.blocks is not None:
        return LeaveOneOut.of_blocks(spectrum, Y, task.blocks, pooled=pooled)
    return OF_SPECTRUM[task.criterion].of(spectrum, Y, pooled=pooled)


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
    radius = _row_rounding(p, gram.diagonal, checked, v, w)
    if linear is not None and border.slopes:
        # of a point with Q(x) the border takes up the row Q(x) W K, and W has rows as long as the rows of the mean
        radius *= 1.0 + float(np.abs(border.line(linear)[:, 1:]).sum(axis=1).max(initial=0.0))
    return ValidationCriterion.of_rows(
        spectrum, Y, below, Y_check, pooled=pooled, rounding=radius, weights=w, linear=linear
    )


def _row_rounding(p: float, diagonal: Array, checked: Array, v: Array | None, w: Array | None) -> float:
    """Bound the root mean square error of centred kernel rows, from k(x, x) and the weights of both sets."""
    if p == 0.0:
        return 0.0
    if v is not None and w is not None:
        means = [float(np.average(np.abs(each), weights=by)) for each, by in ((diagonal, v), (checked, w))]
        diagonal, checked = v * diagonal, np.array([max(means)])
    # once for the row, once for the mean row that is subtracted
    length = float(np.sqrt(np.abs(diagonal).sum()))
    return 2.0 * p * length * float(np.sqrt(max(np.abs(checked).mean(), np.abs(diagonal).mean())))


class JudgedKernels(NamedTuple):
    """The kernels that were judged, the best of them, how many more were tried on the way, and facts."""

    judged: Sequence[EvaluatedKernel]
    best: Any
    tried: int = 0
    facts: Facts = ()

    @property
    def is_single(self) -> bool:
        """Return whether there is one gamma to choose, so that a bound is over all candidates."""
        return self.best.search.gamma.size == 1

    @property
    def overall(self) -> GammaSearch:
        """Return the search of the least criterion, with a bound over all candidates; of the best kernel, if there are
        several gammas.
        """
        if not self.is_single:
            search: GammaSearch = self.best.search
            return search
        least = min((kernel.search for kernel in self.judged), key=lambda search: float(search.values[0]))
        return replace(least, bounds=np.min([kernel.search.bounds for kernel in self.judged], axis=0))

    def table(self, is_single: bool) -> dict[str, Any]:
        """Return the candidates as scikit-learn tabulates them: scores are negative criteria, larger is better."""
        judged = self.judged
        unit = judged[0].search.unit if is_single else 1.0  # several outputs are each in units of their variance
        scores = np.array([candidate.score for candidate in judged])
        order = np.where([candidate is self.best for candidate in judged], -np.inf, scores)
        gammas = [float(j.search.gamma[0]) if is_single else [float(g) for g in j.search.gamma] for j in judged]
        with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
            means = -scores * unit * unit
        return {
            "params": [{"kernel": j.kernel, "gamma": gamma} for j, gamma in zip(judged, gammas, strict=True)],
            "param_kernel": [candidate.kernel for candidate in judged],
            "param_gamma": gammas,
            "mean_fit_time": np.array([candidate.seconds for candidate in judged]),
            "mean_test_score": means,
            "rank_test_score": np.array([1 + int((order < each).sum()) for each in order], dtype=np.int32),
            "lower_bound": np.array([float(candidate.search.lower_bound[0]) for candidate in judged]),
            "gamma_range": [[float(end) for end in candidate.search.gamma_range] for candidate in judged],
        }


@dataclass(frozen=True, slots=True)
class LeftOutLosses:
    """The losses of a machine at rows left out, the shares of these rows, and its effective number of parameters."""

    losses: Array
    shares: Array
    freedom: float

    @classmethod
    def of(cls, kernel: Kernel, gamma: float, task: Task) -> Self:
        """Leave every row out of the machine: squared errors, of several outputs the mean in units of their variances,
        and of classes, which share a gamma, whether the row is decoded to a wrong one.
        """
        weights = task.row_weights
        ridge = ridge_of(gamma, task.unit * weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateKernelWarning)  # of the chosen machine alone
            gram = Gram.of(kernel, centred_points(kernel, task.X))
        Y, diagonal = task.unit_targets(), kernel_influence(gram, ridge).diagonal
        residuals = leave_one_out_residuals(solve_saddle_system(gram, Y, ridge).support_values, diagonal)
        losses = np.square(residuals).mean(axis=1)
        if task.pooled:
            book, numbers = np.unique(Y, axis=0, return_inverse=True)
            # all codes have the same length: the nearest one has the largest product
            losses = (((Y - residuals) @ book.T).argmax(axis=1) != numbers.ravel()).astype(np.float64)
        return cls(losses, weights / weights.sum(), float(ridge.size - ridge @ diagonal))

    def gain_over(self, other: "LeftOutLosses") -> tuple[float, float]:
        """Return by how much the mean of these losses is smaller than the mean of others, and its standard error."""
        n, gains = self.losses.size, other.losses - self.losses
        mean = float(self.shares @ gains)
        return mean, float(np.sqrt(n / (n - 1.0) * np.sum(np.square(self.shares * (gains - mean)))))


def prefer_simplest(judged: Sequence[EvaluatedKernel], task: Task) -> tuple[EvaluatedKernel, Facts]:
    """Return the simplest of the judged kernels within a standard error of the best one, and facts about it.

    For one output by the squares of left-out rows; otherwise the best one is returned.
    """
    best = min(judged, key=lambda candidate: candidate.score)
    n = int(task.Y.shape[0])
    usual = task.criterion == "loo" and task.Y.shape[1] == 1 and not task.pooled and task.border.plain
    if not usual or is_device_array(task.X) or n < _FEWEST or not 0.0 < best.score < np.inf:
        return best, ()
    others = [candidate for candidate in judged if candidate is not best]
    near = [candidate for candidate in others if candidate.score <= _COMPARED * best.score and _is_known(candidate)]
    if not near:
        return best, ()
    first, simplest = LeftOutLosses.of(best.kernel, float(best.search.gamma[0]), task), best
    fewest = _FEWER * first.freedom
    for candidate in near:
        machine = LeftOutLosses.of(candidate.kernel, float(candidate.search.gamma[0]), task)
        loss, error = first.gain_over(machine)
        if machine.freedom < fewest and loss <= error:
            simplest, fewest = candidate, machine.freedom
    if simplest is best:
        return best, ()
    said = (
        f"{family_name(simplest.kernel)} with {fewest:.3g} effective parameters, for {family_name(best.kernel)} with "
        f"{first.freedom:.3g}, whose criterion is {best.score / simplest.score:.4g} of it"
    )
    return simplest, (("simplest kernel within a standard error", said),)


def _is_known(candidate: EvaluatedKernel) -> bool:
    """Return whether the best gamma is proved, and the machine there determined in double precision."""
    return candidate.error <= _KNOWN and all(row.passes for row in candidate.search.rows())
