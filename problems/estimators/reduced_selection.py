r"""Sparse LS-SVMs that choose their gamma, with a proof.

.. math:: \min_k \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

for leave-one-out, generalised cross-validation or folds, on a basis chosen once a kernel. One statistic of all rows and
one eigendecomposition (for folds, one each) serve every gamma; see :mod:`substrate.paths.reduced_criteria` for the
criteria and :mod:`substrate.paths.gamma_search` for the lower bound. What is left out, in every criterion, is left out
of the fit, not of the choice of the basis.
"""

import time
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from problems.estimators.candidates import SMOOTH, Judged
from problems.estimators.coded import classes_of
from problems.estimators.model_search import ModelSearch
from problems.estimators.reduced_basis import SparseLSSVMClassifier, SparseLSSVMRegressor
from problems.estimators.reduced_fit import CONDITIONAL, Prepared, ReducedFit, fit_reduced, prepare
from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.reduced_basis import leave_rows_out_once
from substrate.closed_form.reduced_spectrum import ReducedSpectrum, reduced_spectrum
from substrate.closed_form.reduced_statistic import Statistic, accumulate, origin_of
from substrate.closed_form.saddle_system import target_unit
from substrate.closed_form.spectrum import centred_spectrum
from substrate.codings import code_book
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import Kernel
from substrate.paths.criteria import Criterion, GeneralizedCrossValidation, LeaveOneOut, Sum
from substrate.paths.gamma_search import GAP, gamma_ends, lambda_range, search_gamma
from substrate.paths.reduced_criteria import ReducedFold, ReducedGCV, ReducedLeaveOneOut

__all__ = ["SparseLSSVMClassifierCV", "SparseLSSVMRegressorCV"]


@dataclass(frozen=True, slots=True)
class _Found:
    """A kernel judged, with what its final fit needs."""

    judged: Judged
    prepared: Prepared
    spectrum: ReducedSpectrum
    statistic: Statistic


class _SparseSearch(ModelSearch):
    """The search over gamma and a list of kernels, for machines on a reduced basis."""

    search = None
    max_evaluations = 1
    n_jobs = None
    verbose = 0

    def _check_search(self) -> None:
        if self.criterion not in SMOOTH:
            raise DeclarationError(f"criterion must be one of {', '.join(SMOOTH)}, received {self.criterion!r}")
        self._check_rules()
        if isinstance(self.basis, str) and self.basis == "pruned":  # type: ignore[attr-defined]
            raise DeclarationError(
                "basis='pruned' needs gamma before one is chosen; use another rule, or the basis_indices_ of a fit"
            )

    def _found(self, X: Any, Y: Array, splits: Any, pooled: bool) -> list[_Found]:
        return [self._judged_kernel(kernel, X, Y, splits, pooled) for kernel in self._candidates(X)]

    def _judged_kernel(self, kernel: Kernel, X: Any, Y: Array, splits: Any, pooled: bool) -> _Found:
        start = time.perf_counter()
        prepared = prepare(kernel, X, Y, self._choice(), 1.0)  # type: ignore[attr-defined]
        folds = _folds(splits, X.shape[0])
        origin = origin_of(prepared.K, Y, target_unit(Y))
        lowest = 0.0 if self.gamma_range is None else 1.0 / gamma_ends(self.gamma_range)[1]
        method = "auto" if lowest > 0.0 else "row-wise"  # all that matters reaches down to where rounding begins
        statistic = accumulate(prepared.rows, Y, prepared.features, origin, lowest, folds, method)
        spectrum = reduced_spectrum(prepared.features, origin, statistic.total, statistic.error)
        criterion = self._criterion(prepared, Y, statistic, spectrum, pooled)
        parts = criterion.parts if isinstance(criterion, Sum) else (criterion,)
        lambdas = lambda_range([part.spectrum for part in parts], self.gamma_range)
        search = search_gamma(criterion, lambdas, float(self.gap))
        gamma = float(search.gamma[0])
        error = max(part.spectrum.decomposition_error(1.0 / gamma) for part in parts)
        score = float(search.values[0])
        scores = np.array([score])
        if isinstance(criterion, Sum):
            t = np.array([[np.log(1.0 / gamma)]])
            scores = np.array([float(part.sample(t).values[0, 0, 0]) for part in parts])
        judged = Judged(kernel, search, score, scores, error, time.perf_counter() - start)
        return _Found(judged, prepared, spectrum, statistic)

    def _criterion(
        self, prepared: Prepared, Y: Array, statistic: Statistic, spectrum: ReducedSpectrum, pooled: bool
    ) -> Criterion | Sum:
        if self.criterion != "folds" and prepared.rows.n_rows <= prepared.rows.n_basis + 1:
            return self._dense_criterion(prepared, Y, pooled)
        if self.criterion == "loo":
            return ReducedLeaveOneOut.of(spectrum, prepared.rows, Y, pooled=pooled)
        if self.criterion == "gcv":
            return ReducedGCV.of(spectrum, pooled=pooled)
        parts = []
        for fold in statistic.folds:
            others = reduced_spectrum(prepared.features, statistic.origin, statistic.total - fold, statistic.error)
            parts.append(ReducedFold.of(others, fold, pooled=pooled))
        return Sum.of(parts, [1.0 / len(parts)] * len(parts))

    def _dense_criterion(self, prepared: Prepared, Y: Array, pooled: bool) -> Criterion:
        """As many vectors as rows: 1 - h_ii may vanish, which the dense spectrum tells better than a difference."""
        Z = prepared.rows.taken(np.arange(prepared.rows.n_rows)) @ prepared.features.transform
        kind = GeneralizedCrossValidation if self.criterion == "gcv" else LeaveOneOut
        return kind.of(centred_spectrum(Gram(Z @ Z.T)), Y, pooled=pooled)

    def _final(self, Y: Array, found: list[_Found]) -> tuple[ReducedFit, list[Judged], Judged]:
        best = min(found, key=lambda one: one.judged.score)
        judged, gamma = [one.judged for one in found], float(best.judged.search.gamma[0])
        fit = fit_reduced(best.prepared, Y, gamma, best.spectrum, best.statistic.method)
        rows, facts = self._search_rows(judged, best.judged)
        extra = (_refitted_row(Y, fit, best.judged),) if self.criterion == "loo" else ()
        told = tuple(("conditional on", CONDITIONAL) if name == "conditional on" else (name, f) for name, f in facts)
        return replace(fit, rows=(*fit.rows, *extra, *rows), facts=(*fit.facts, *told)), judged, best.judged


def _folds(splits: Any, n: int) -> tuple[Any, ...]:
    """The validation rows of each split; training must be all the others, which is what sums can leave out."""
    folds = []
    seen = np.zeros(n, dtype=bool)
    for number, (train, valid) in enumerate(splits):
        if train.size + valid.size != n or seen[valid].any():
            raise DeclarationError(
                f"split {number} of cv is no fold: each row must validate once at most and train otherwise; use KFold, "
                "StratifiedKFold or GroupKFold"
            )
        seen[valid] = True
        folds.append(valid)
    return tuple(folds)


def _refitted_row(Y: Array, fit: ReducedFit, best: Judged) -> Row:
    """The root of the leave-one-out criterion from the fitted machine and its factor, instead of the spectrum."""
    unit = best.search.unit
    _, _, residuals = leave_rows_out_once(fit.prepared.rows, Y, fit.coefficients, fit.bias, fit.factor)
    again = float(np.sqrt(np.mean(np.square(residuals / unit))))
    value = float(np.sqrt(best.search.values[0]))
    tolerance = 1e-8 + 10.0 * best.error
    scale = max(value, again) + 1e-6 * float(np.abs(Y / unit).max())
    return Row("criterion refitted", value - again, scale, tolerance, "root, by spectrum - by the fitted machine")


class SparseLSSVMRegressorCV(_SparseSearch, SparseLSSVMRegressor):
    """A sparse LS-SVM for regression that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; where ``kernels`` are given, those are used.
    kernels : list of kernels, default=None
        Candidates, each with a basis of its own, judged at its best gamma.
    criterion : {"loo", "gcv", "folds"}, default="loo"
        Mean square leave-one-out residual, generalised cross-validation, or mean square error over the folds of ``cv``.
    cv : int, splitter or iterable, default=None
        The folds of ``criterion="folds"``; five unless given. Every row validates once at most and trains otherwise.
    gamma_range : pair of float, default=None
        Lowest and highest gamma; unless given, all that makes a difference to the machine on this basis.
    gap : float, default=1e-4
        Relative distance between criterion and lower bound at which the search ends.
    n_basis, basis, n_candidates, n_scoring, tolerance, random_state
        As for :class:`SparseLSSVMRegressor`; ``basis="pruned"`` needs a gamma and is refused.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, cv_results_
        As for :class:`~problems.LSSVMRegressorCV`; the bound is for the basis at hand.
    support_values_, bias_, basis_, basis_indices_, reconstruction_error_, rank_, degrees_of_freedom_, certificate_
        As for :class:`SparseLSSVMRegressor`; the certificate also has the gap, and for ``"loo"`` the criterion anew.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        kernels: Any = None,
        criterion: str = "loo",
        cv: Any = None,
        gamma_range: Any = None,
        gap: float = GAP,
        n_basis: Any = None,
        basis: Any = "feature_vectors",
        n_candidates: Any = 2000,
        n_scoring: Any = 1000,
        tolerance: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.kernels = kernels
        self.criterion = criterion
        self.cv = cv
        self.gamma_range = gamma_range
        self.gap = gap
        self.n_basis = n_basis
        self.basis = basis
        self.n_candidates = n_candidates
        self.n_scoring = n_scoring
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose basis and gamma, then fit to all rows."""
        self._forget()
        self._check_search()
        self._choice()
        X, y, _ = self._checked(X, y, None, numeric=True)
        Y = y[:, None]
        fit, judged, best = self._final(Y, self._found(X, Y, self._splits(X, y, False), False))
        self._keep_search(judged, best, True)
        self._keep(X, fit, "Sparse LS-SVM regression, gamma selected", True)
        return self

    def _fitted_gamma(self) -> float:
        return float(self.gamma_)


class SparseLSSVMClassifierCV(_SparseSearch, SparseLSSVMClassifier):
    """A sparse LS-SVM classifier that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel, kernels, cv, gamma_range, gap
        As for :class:`SparseLSSVMRegressorCV`.
    criterion : {"loo", "gcv", "folds"}, default="loo"
        As for :class:`SparseLSSVMRegressorCV`, of the labels -1 and +1, averaged over the machines.
    n_basis, basis, n_candidates, n_scoring, tolerance, random_state
        As for :class:`SparseLSSVMRegressorCV`.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`SparseLSSVMClassifier`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, cv_results_
        As for :class:`SparseLSSVMRegressorCV`, one gamma for all machines.
    classes_, code_book_, support_values_, bias_, basis_, basis_indices_, reconstruction_error_, certificate_
        As for :class:`SparseLSSVMClassifier`.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        kernels: Any = None,
        criterion: str = "loo",
        cv: Any = None,
        gamma_range: Any = None,
        gap: float = GAP,
        n_basis: Any = None,
        basis: Any = "feature_vectors",
        n_candidates: Any = 2000,
        n_scoring: Any = 1000,
        tolerance: float = 0.0,
        coding: str = "one_vs_rest",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.kernels = kernels
        self.criterion = criterion
        self.cv = cv
        self.gamma_range = gamma_range
        self.gap = gap
        self.n_basis = n_basis
        self.basis = basis
        self.n_candidates = n_candidates
        self.n_scoring = n_scoring
        self.tolerance = tolerance
        self.coding = coding
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Choose basis and gamma, then fit to all rows and labels of any kind."""
        self._forget()
        self._check_search()
        self._choice()
        self._check_coding()
        X, labels, _ = self._checked(X, y, None, numeric=False)
        classes = classes_of(labels)
        book = code_book(self.coding, classes.size)
        Y = np.ascontiguousarray(book[np.searchsorted(classes, labels)])
        fit, judged, best = self._final(Y, self._found(X, Y, self._splits(X, labels, True), True))
        self._keep_search(judged, best, True)
        self.classes_, self.code_book_ = classes, book
        self._keep(X, fit, "Sparse LS-SVM classification, gamma selected", Y.shape[1] == 1)
        return self

    def _fitted_gamma(self) -> float:
        return float(self.gamma_)
