r"""LS-SVMs that choose their gamma, with a proof, and their kernel.

.. math:: \min_{k} \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

One eigendecomposition a kernel serves every gamma, and the inner minimum is global: a lower bound over the whole range
is on the certificate (:mod:`substrate.paths.gamma_search`). The outer one is over a list, and then global too, or a
simplex search in the logarithms of the kernel's parameters, and then local. The machine is fitted to all rows at the
end. This is also the fusion of training and validation of [Pelckmans2005]_ eq. (17)-(19), see
:mod:`problems.tikhonov_fusion`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv

from problems.estimators.candidates import Judged, Task, checked_criterion, checked_splits
from problems.estimators.coded import classes_of, scores_of, winners
from problems.estimators.kernel_search import best_of, nelder_mead
from problems.estimators.ls_svm import LSSVMClassifier, LSSVMRegressor, ridges_of
from problems.estimators.saddle_fit import Method, SaddleFit, fit_saddle
from problems.progress import Progress
from substrate.arrays import Array, positive
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import roundoff
from substrate.closed_form.hat_matrix import projected_diagonal
from substrate.closed_form.leave_one_out import leave_one_out_residuals
from substrate.closed_form.saddle_system import ridge_of, target_unit
from substrate.codings import code_book
from substrate.errors import DataError, DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel, as_kernel
from substrate.paths.gamma_search import GAP, GammaSearch, gamma_ends

__all__ = ["LSSVMClassifierCV", "LSSVMRegressorCV"]

_CLOSED_FORM = Method("auto", 1e-8, 1)


class _Selecting:
    """The parameters of a search, checked; the search; and what it leaves behind."""

    kernel: Any
    kernels: Any
    criterion: str
    cv: Any
    gamma_range: Any
    gap: float
    search: str | None
    max_evaluations: int
    n_jobs: int | None
    verbose: int

    def _check_rules(self, *others: str) -> None:
        """Refuse parameters before any work."""
        checked_criterion(self.criterion, others)
        positive(self.gap, "gap")
        if self.gamma_range is not None:
            gamma_ends(self.gamma_range)
        if self.search not in (None, "nelder-mead"):
            raise DeclarationError(f"search must be None or 'nelder-mead', received {self.search!r}")
        most = self.max_evaluations
        if isinstance(most, bool) or not isinstance(most, Integral) or most < 1:
            raise DeclarationError(f"max_evaluations must be an integer >= 1, received {most!r}")
        if self.kernels is None:
            return
        if isinstance(self.kernels, (str, Kernel)) or not isinstance(self.kernels, Sequence) or not self.kernels:
            raise DeclarationError(f"kernels must be a non-empty list of candidates, received {self.kernels!r}")
        if any(as_kernel(kernel).pairwise for kernel in self.kernels):
            raise DeclarationError("a precomputed kernel is no candidate; pass it as kernel='precomputed'")

    def _candidates(self, X: Any) -> list[Kernel]:
        """The kernels to judge, their widths as numbers, each once."""
        if self.kernels is None:
            return [self._resolved_kernel(X)]  # type: ignore[attr-defined]
        return list(dict.fromkeys(as_kernel(kernel).resolved(X) for kernel in self.kernels))

    def _splits(self, X: Any, y: Any, classifier: bool) -> Any:
        if self.criterion != "folds":
            return ()
        splitter = check_cv(5 if self.cv is None else self.cv, y, classifier=classifier)
        return checked_splits(splitter.split(X, y), X.shape[0], y if classifier else None)

    def _searched(self, kernels: list[Kernel], task: Task) -> list[Judged]:
        total = len(kernels) + (self.max_evaluations if self.search else 0)
        progress = Progress(total, shown=bool(self.verbose))
        try:
            judged = best_of(kernels, task, self.n_jobs, progress)
            if self.search is not None:
                first = min(judged, key=lambda candidate: candidate.score)
                judged += nelder_mead(first, task, int(self.max_evaluations), progress)
        finally:
            progress.close()
        return judged

    def _keep_search(self, judged: list[Judged], best: Judged, one: bool) -> None:
        search = _over_candidates(judged, best)
        self.gamma_ = float(search.gamma[0]) if one else search.gamma
        self.criterion_ = float(search.criterion[0]) if one else search.criterion
        self.criterion_lower_bound_ = float(search.lower_bound[0]) if one else search.lower_bound
        self.cv_results_ = _results(judged, one)

    def _final_fit(self, X: Any, Y: Array, judged: list[Judged], best: Judged, gammas: tuple[float, ...]) -> SaddleFit:
        """The chosen machine on all rows, its certificate rows joined by those of the search."""
        gram = Gram.of(best.kernel, X)
        weights = np.ones(X.shape[0])
        if (Y != 0.0).all() or isinstance(self, LSSVMRegressor):
            fit = fit_saddle(best.kernel, X, Y, gammas, weights, _CLOSED_FORM, gram=gram)
            extra = (_refitted_row(gram, Y, fit, best),) if self.criterion == "loo" else ()
        else:
            fit = self._fit_codes(best.kernel, X, Y, gammas[0], weights, _CLOSED_FORM)  # type: ignore[attr-defined]
            extra = ()
        rows, facts = self._search_rows(judged, best)
        return replace(fit, rows=(*fit.rows, *extra, *rows), facts=(*fit.facts, *facts))

    def _search_rows(self, judged: list[Judged], best: Judged) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
        """The gap of the winner, over all candidates, and the facts of the search."""
        rows = _over_candidates(judged, best).rows()
        kernels = f"{len(judged)} judged" + ("; the search among them is local" if self.search else "")
        facts = (
            ("criterion", f"{self.criterion}, " + ", ".join(f"{value:.6g}" for value in best.search.criterion)),
            *best.search.facts(),
            ("decomposition", f"known to {best.error:.1e} at the chosen gamma"),
            ("kernels", kernels),
            ("conditional on", "scaling of the columns and candidate kernels, chosen with all rows in sight"),
        )
        return rows, facts


def _over_candidates(judged: list[Judged], best: Judged) -> GammaSearch:
    """The winner's search; with one gamma to choose, its bound is that of all candidates."""
    if best.search.gamma.size > 1:
        return best.search
    return replace(best.search, bounds=np.min([candidate.search.bounds for candidate in judged], axis=0))


def _results(judged: list[Judged], one: bool) -> dict[str, Any]:
    """The candidates as scikit-learn tabulates them: scores are negative criteria, larger is better."""
    unit = judged[0].search.unit if one else 1.0  # of several outputs each is in units of its variance
    scores = -np.array([candidate.score for candidate in judged])
    splits = -np.array([candidate.split_scores for candidate in judged])
    deviations = splits.std(axis=1)
    ranks = np.array([1 + int((scores > score).sum()) for score in scores], dtype=np.int32)
    with np.errstate(over="ignore"):  # beyond 1e154 a square is infinite
        scores, splits, deviations = (values * unit * unit for values in (scores, splits, deviations))
    gammas = [float(j.search.gamma[0]) if one else [float(g) for g in j.search.gamma] for j in judged]
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
        "n_intervals": np.array([candidate.search.intervals for candidate in judged]),
    }


def _refitted_row(gram: Gram, Y: Array, fit: SaddleFit, best: Judged) -> Row:
    """The root of the leave-one-out criterion, first output, from a Cholesky factor instead of a spectrum."""
    ridge = ridge_of(float(best.search.gamma[0]), np.ones(gram.n))
    diagonal = projected_diagonal(gram, ridge)
    alpha = fit.support_values if best.search.gamma.size == 1 else fit.support_values[:, :1]
    residuals = leave_one_out_residuals(alpha, diagonal)
    unit = target_unit(residuals)
    again = unit * float(np.sqrt(np.mean(np.square(residuals / unit))))
    value = best.search.unit * float(np.sqrt(best.search.values[0]))
    tolerance = 1e-9 + 10.0 * best.error
    # where nothing is left over, what is left is rounding of y
    floor = 10.0 * roundoff(gram.n, 1.0) / tolerance * float(np.abs(Y).max())
    scale = max(value, again) + floor
    return Row("criterion refitted", value - again, scale, tolerance, "root, by spectrum - by Cholesky factor")


class LSSVMRegressorCV(_Selecting, LSSVMRegressor):
    """An LS-SVM for regression that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel, as for :class:`LSSVMRegressor`; where ``kernels`` are given, those are used.
    kernels : list of kernels, default=None
        Candidates, each judged at its own best gamma.
    criterion : str, default="loo"
        ``"loo"``: mean square leave-one-out residual; ``"gcv"``: generalised cross-validation; ``"folds"``: mean square
        error over the splits of ``cv``. These come with a lower bound. ``"mean_absolute"``, ``"median_absolute"`` and
        ``"trimmed"`` (without the largest tenth), of leave-one-out residuals, are searched on a grid, without one.
    cv : int, splitter or iterable, default=None
        The splits of ``criterion="folds"``; five folds unless given. A single validation set is a ``PredefinedSplit``.
    gamma_range : pair of float, default=None
        Lowest and highest gamma; unless given, all that makes a difference to the machine on this kernel matrix.
    gap : float, default=1e-4
        Relative distance between criterion and lower bound at which the search of gamma ends.
    search : {None, "nelder-mead"}, default=None
        Whether to go on from the best kernel by a simplex search in the logarithms of its parameters; local.
    max_evaluations : int, default=40
        Most kernels that search may judge.
    n_jobs : int, default=None
        How many candidates of ``kernels`` are judged at a time.
    verbose : int, default=0
        Whether a bar on the terminal shows the progress.

    Attributes
    ----------
    gamma_ : float or array of shape (n_outputs,)
        The chosen gamma, one an output.
    criterion_ : float or array of shape (n_outputs,)
        Its criterion.
    criterion_lower_bound_ : float or array of shape (n_outputs,)
        No gamma of the range (and, for one output, no candidate) has a smaller criterion than this; minus infinity for
        a criterion without a bound.
    cv_results_ : dict
        A row a judged kernel, at its best gamma: ``params``, ``mean_test_score`` (the negative criterion; of several
        outputs the mean, each in units of its variance), ``rank_test_score``, the scores of splits, times, bounds.
    kernel_, support_values_, bias_, support_, support_vectors_, ridge_, certificate_, n_iter_
        As for :class:`LSSVMRegressor`; the certificate also has the gap, and for ``"loo"`` the criterion computed anew.

    Notes
    -----
    There is no ``sample_weight``: leaving out a row of weight two is not leaving out one of two rows.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        kernels: Any = None,
        criterion: str = "loo",
        cv: Any = None,
        gamma_range: Any = None,
        gap: float = GAP,
        search: str | None = None,
        max_evaluations: int = 40,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.kernels = kernels
        self.criterion = criterion
        self.cv = cv
        self.gamma_range = gamma_range
        self.gap = gap
        self.search = search
        self.max_evaluations = max_evaluations
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Choose, then fit to all rows."""
        self._forget()
        self._check_rules()
        X, y, weights = self._checked(X, y, None, numeric=True, multi_output=True)
        Y = y[:, None] if y.ndim == 1 else y
        one = y.ndim == 1
        kernels = self._candidates(X)
        task = Task(X, Y, self.criterion, self._splits(X, y, False), self.gamma_range, float(self.gap), False)
        judged = self._searched(kernels, task)
        best = min(judged, key=lambda candidate: candidate.score)
        gammas = tuple(float(gamma) for gamma in best.search.gamma)
        fit = self._final_fit(X, Y, judged, best, gammas)
        self._keep_search(judged, best, one)
        rows = np.arange(X.shape[0])
        self._keep(X, rows, best.kernel, fit, ridges_of(gammas, weights), "LS-SVM regression, gamma selected", one)
        return self

    def certify(self, X: Any, y: Any) -> Certificate:  # type: ignore[override]
        """Check the coefficients this model holds now against the KKT system at ``gamma_`` on the training data."""
        return super().certify(X, y)

    def _gammas(self, n_outputs: int) -> tuple[float, ...]:
        gammas = tuple(float(gamma) for gamma in np.atleast_1d(self.gamma_))
        if len(gammas) != n_outputs:
            raise DataError(f"the model chose {len(gammas)} gammas, these data have {n_outputs} outputs")
        return gammas


class LSSVMClassifierCV(_Selecting, LSSVMClassifier):
    """An LS-SVM classifier that chooses gamma, provably the best of a range, and its kernel.

    Parameters
    ----------
    kernel, kernels, cv, gamma_range, gap, search, max_evaluations, n_jobs, verbose
        As for :class:`LSSVMRegressorCV`.
    criterion : str, default="loo"
        As for :class:`LSSVMRegressorCV`, of the labels -1 and +1, averaged over the machines; or
        ``"misclassification"``, the share of rows that leave-one-out decodes to a wrong class, on a grid and without a
        lower bound.
    coding : {"one_vs_rest", "one_vs_one", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`LSSVMClassifier`; ``one_vs_one`` with more than two classes knows ``"loo"`` and ``"gcv"`` only.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, cv_results_
        As for :class:`LSSVMRegressorCV`, one gamma for all machines.
    classes_, code_book_, support_codes_, support_values_, bias_, support_, support_vectors_, kernel_, certificate_
        As for :class:`LSSVMClassifier`.
    """

    class_weight = None

    def __init__(
        self,
        kernel: Any = "rbf",
        kernels: Any = None,
        criterion: str = "loo",
        cv: Any = None,
        gamma_range: Any = None,
        gap: float = GAP,
        search: str | None = None,
        max_evaluations: int = 40,
        coding: str = "one_vs_rest",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.kernels = kernels
        self.criterion = criterion
        self.cv = cv
        self.gamma_range = gamma_range
        self.gap = gap
        self.search = search
        self.max_evaluations = max_evaluations
        self.coding = coding
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        """Choose, then fit to all rows."""
        self._forget()
        self._check_rules("misclassification")
        code_book(self.coding, 2)  # an unknown coding is refused before any work
        X, labels, weights = self._checked(X, y, None, numeric=False)
        classes = classes_of(labels)
        book = code_book(self.coding, classes.size)
        numbers = np.searchsorted(classes, labels)
        Y = book[numbers]
        if (Y == 0.0).any() and self.criterion not in ("loo", "gcv"):
            raise DeclarationError(
                f"coding='one_vs_one' has no criterion {self.criterion!r}, its machines having rows of their own; use "
                "'loo' or 'gcv', or another coding"
            )
        kernels = self._candidates(X)
        wrong = partial(_share_wrong, numbers=numbers, coding=self.coding, book=book)
        splits = self._splits(X, labels, True)
        task = Task(X, Y, self.criterion, splits, self.gamma_range, float(self.gap), True, wrong)
        judged = self._searched(kernels, task)
        best = min(judged, key=lambda candidate: candidate.score)
        gamma = float(best.search.gamma[0])
        fit = self._final_fit(X, Y, judged, best, (gamma,) * Y.shape[1])
        self._keep_search(judged, best, True)
        self.classes_, self.code_book_ = classes, book
        one = Y.shape[1] == 1
        self.support_codes_ = np.ascontiguousarray(Y[:, 0] if one else Y)
        signed = replace(fit, support_values=Y * fit.support_values)
        title = "LS-SVM classification, gamma selected"
        self._keep(X, np.arange(X.shape[0]), best.kernel, signed, ridge_of(gamma, weights), title, one)
        return self

    def certify(self, X: Any, y: Any) -> Certificate:  # type: ignore[override]
        """Check the coefficients this model holds now against the KKT system at ``gamma_`` on the training data."""
        return super().certify(X, y)

    def _class_gammas(self, n_machines: int) -> tuple[float, ...]:
        return (float(self.gamma_),) * n_machines


def _share_wrong(outputs: Array, numbers: Any, coding: str, book: Array) -> float:
    """The share of rows whose outputs decode to a class other than their own."""
    scores = scores_of(outputs[:, 0] if book.shape[1] == 1 else outputs, coding, book)
    return float(np.mean(winners(scores) != numbers))
