r"""Sparse LS-SVMs that choose their gamma, with a proof.

.. math:: \min_k \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

for leave-one-out, generalised cross-validation or folds, on a basis chosen once per kernel. One statistic of all rows
and one eigendecomposition (for folds, one each) suffice for every gamma; see :mod:`substrate.reduced.criteria` for the
criteria and their errors of rounding and decomposition, and :mod:`substrate.search.gamma_search` for the lower bound.
In every criterion rows are left out of the fit, not of the choice of the basis.

With weights v of the rows, the mean of F is weighted, and a row is left out whole. Everything is computed with weights
of mean one, :math:`v / \bar v`, and :math:`\gamma \bar v`, for which the mean is a plain one over the rows times
:math:`(v / \bar v)^{1/2}`; gamma is then that of the given weights.
"""

import time
import warnings
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from problems.estimators.chosen.basis_criterion import criterion_on, refitted_row, slopes_on
from problems.estimators.chosen.candidates import EvaluatedKernel, winner
from problems.estimators.chosen.families import at_all_widths, is_families, list_unresolved
from problems.estimators.chosen.kernel_search import check_slopes, most_evaluations
from problems.estimators.chosen.over_gamma import RECOMMENDED, OverGamma
from problems.estimators.chosen.width_rule import Widths, WidthSetting, best_to_search, refine_widths
from problems.estimators.reduced.fit import CONDITIONAL, FitData, PreparedRows, ReducedFit, fit_at, prepare
from problems.estimators.reduced.ls_svm import SparseLSSVMClassifier, SparseLSSVMRegressor
from problems.estimators.shared.base import Uses
from problems.estimators.shared.coded import numbers_of_codes
from substrate.errors import DeclarationError, DegenerateKernelWarning
from substrate.kernels import RBF, Kernel
from substrate.least_squares.validation import CriterionSum
from substrate.namespaces import to_numpy
from substrate.progress import Progress, announce_steps
from substrate.reduced.choice import ChosenBasis
from substrate.reduced.folds import GivenFolds, folds_of
from substrate.reduced.moments import accumulate
from substrate.reduced.spectrum import ReducedSpectrum, reduced_spectrum
from substrate.search.gamma_search import GAP, gamma_ends, lambda_range, search_gamma, search_widest
from substrate.streaming.passes import each_block
from substrate.streaming.rows import Block

__all__ = ["BasisGammaChoice", "BasisSearch", "SparseLSSVMClassifierCV", "SparseLSSVMRegressorCV"]


@dataclass(frozen=True, slots=True)
class _BestKernel:
    """A judged kernel, with the data of its final fit."""

    judged: EvaluatedKernel
    prepared: PreparedRows
    spectrum: ReducedSpectrum


class BasisSearch(OverGamma):
    """A search on a reduced basis: one statistic of all rows for every kernel, and the machine of the best one."""

    def check_rules(self) -> None:
        """Refuse parameters before any work, and what rows that are read in passes do not have."""
        model = self.estimator
        if model.cv is None:
            raise DeclarationError(
                "cv must be 'loo', 'gcv', 'evidence', a number of folds, a splitter or a list of splits, received "
                "None; rows that are read in passes have no validation rows beside them, and a PredefinedSplit holds "
                "rows out"
            )
        super().check_rules()
        if isinstance(rule := model._model.choice().rule, str) and rule == "pruned":
            raise DeclarationError(
                "basis.rule='pruned' needs gamma before one is chosen; use another rule, or the basis_indices_ of a fit"
            )

    def search(
        self, data: FitData, folds: GivenFolds | None, pooled: bool
    ) -> tuple[list[EvaluatedKernel], _BestKernel]:
        """Return all judged kernels, and the best one with the data of its fit."""
        model = self.estimator
        if is_families(given := model.kernels):
            model._model.data_kernel(data, model._model.own_kernel(RBF()))  # warns of columns on different scales
        middle = (
            [model._model.data_kernel(data)]
            if given is None
            else model._model.data_kernels(list_unresolved(given), data)
        )
        kernels = at_all_widths(given, middle)
        by_slopes = model.search == "gradient"
        if by_slopes:
            check_slopes(kernels, data.source.take_rows(np.arange(1)), self.criterion)
        judged, best, first = list[EvaluatedKernel](), None, None  # of the others nothing is kept but their judgement
        for kernel in announce_steps(kernels, bool(model.verbose)):
            one = self.judge_kernel(kernel, data, folds, pooled, slopes=by_slopes and len(kernels) == 1)
            judged.append(one.judged)
            best = one if best is None or one.judged.score < best.judged.score else best
            first = one if first is None or one.judged is best_to_search(judged) else first
        if best is None or first is None:
            raise TypeError("internal error: a search needs a kernel")
        if model.search is None:
            return judged, best
        basis, most = first.prepared.basis, most_evaluations(model.max_evaluations)

        def judged_on_basis(kernel: Kernel) -> EvaluatedKernel:
            nonlocal best
            with warnings.catch_warnings():
                # a candidate that does not distinguish points loses; a warning for the first one was given
                warnings.simplefilter("ignore", DegenerateKernelWarning)
                one = self.judge_kernel(kernel, data, folds, pooled, basis, True)
            best = min(best, one, key=lambda each: each.judged.score)
            return one.judged

        progress = Progress(most, shown=bool(model.verbose))
        way = WidthSetting.on_a_basis(
            judged_on_basis, data.width_rows(), data.source, self.criterion, float(model.gap), pooled
        )
        judged = refine_widths(judged, way, self.way(), most, None, progress)
        top = winner(judged)
        if best.judged.kernel != top.kernel:
            best = self.judge_kernel(top.kernel, data, folds, pooled, basis)
        return judged, replace(best, judged=top)

    def folds(self, data: FitData, X: Any, y: Any) -> GivenFolds | None:
        """Return the folds of the rows: the same for rows in memory and for rows that are read in passes.

        A splitter or a list of splits names rows of X and y as they were given, those of weight zero included.
        """
        model = self.estimator
        if self.criterion != "folds":
            return None
        source, classes, kept = data.source, data.classes, data.weighed.kept
        if kept is not None and (isinstance(model.cv, bool) or not isinstance(model.cv, Integral)):
            return folds_of(self.splits(*self.given_rows(data, X, y), kept), source.n_rows)
        if source.block_in_memory is not None:
            X, Y = to_numpy(source.block_in_memory.X), to_numpy(source.block_in_memory.Y)
            labels = Y[:, 0] if classes is None else numbers_of_codes(Y, classes.book)
            return folds_of(self.splits(X, labels), source.n_rows)
        codes = np.concatenate(list(each_block(source, _targets)))
        labels = codes[:, 0] if classes is None else numbers_of_codes(codes, classes.book)
        return folds_of(self.splits(np.empty((source.n_rows, 0)), labels), source.n_rows)

    def given_rows(self, data: FitData, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows for a splitter, without their inputs where they are read in passes, and their targets."""
        model = self.estimator
        rows = model._model.open_source(X, y)
        if rows is None:
            X, y, _ = model._make_checker()._check_given(X, y, None, numeric=data.classes is None)
            return to_numpy(X), to_numpy(y)
        targets = np.concatenate([np.ravel(targets) for targets in each_block(rows, _targets)])
        return np.empty((rows.n_rows, 0)), targets

    def judge_kernel(
        self,
        kernel: Kernel,
        data: FitData,
        folds: GivenFolds | None,
        pooled: bool,
        basis: ChosenBasis | None = None,
        slopes: bool = False,
    ) -> _BestKernel:
        """Judge one kernel: its basis, one statistic of all rows, and its best gamma."""
        model = self.estimator
        start = time.perf_counter()
        prepared = prepare(kernel, data, model._model.choice(), 1.0, basis)
        unit, gammas = prepared.weighed.unit, None
        if model.gamma_range is not None:
            gammas = tuple(unit * end for end in gamma_ends(model.gamma_range))
        lowest = 0.0 if gammas is None else 1.0 / gammas[1]
        rows, features, origin = prepared.rows, prepared.features, prepared.origin
        statistic = accumulate(rows, features, origin, lowest, prepared.K, folds)
        spectrum = reduced_spectrum(statistic)
        criterion = criterion_on(self.criterion, prepared, statistic, spectrum, pooled)
        parts = criterion.criteria if isinstance(criterion, CriterionSum) else (criterion,)
        lambdas = lambda_range([part.spectrum for part in parts], gammas)
        search = (search_widest if gammas is None else search_gamma)(criterion, lambdas, float(model.gap))
        gamma = float(search.gamma[0])
        error = max(part.spectrum.decomposition_error(1.0 / gamma) for part in parts)
        scores = np.array([score := float(search.values[0])])
        if isinstance(criterion, CriterionSum):
            t = np.array([[np.log(1.0 / gamma)]])
            scores = np.array([float(part.sample(t).values[0, 0, 0]) for part in parts])
        slope = None
        if slopes:
            slope = slopes_on(self.criterion, criterion, prepared, statistic, search, folds, gammas is None)
        if unit != 1.0:
            low, high = (end / unit for end in search.gamma_range)
            gamma_there = np.clip(search.gamma / unit, low, high)
            search = replace(search, gamma=gamma_there, gamma_range=(low, high), seen=search.seen / unit)
        judged = EvaluatedKernel(
            kernel=kernel,
            search=search,
            score=score,
            split_scores=scores,
            error=error,
            seconds=time.perf_counter() - start,
            slope=slope,
        )
        return _BestKernel(judged, prepared, spectrum)

    def fit_final(self, judged: list[EvaluatedKernel], best: _BestKernel) -> ReducedFit:
        """Fit the chosen machine to all rows, with the rows of the search."""
        unit = best.prepared.weighed.unit
        gamma = unit * float(best.judged.search.gamma[0])
        fit = fit_at(best.prepared, gamma, self.estimator._tolerance(), best.spectrum)
        rows, facts = self.search_rows(judged, best.judged)
        extra = (refitted_row(fit, best.judged),) if self.criterion == "loo" else ()
        said = {"conditional on": CONDITIONAL}
        if self.estimator.search is not None:
            said["kernels"] = dict(facts)["kernels"] + ", on the basis of its start"
        more = tuple((name, said.get(name, fact)) for name, fact in facts)
        return replace(fit, factor=fit.factor.in_unit(unit), rows=(*fit.rows, *extra, *rows), facts=(*fit.facts, *more))


def _targets(block: Block) -> Any:
    """Return the targets of a block."""
    return np.asarray(block.Y)


@dataclass(eq=False, repr=False)
class BasisGammaChoice:
    """The choice of gamma on a reduced basis, of numbers or of classes: its parameters, and the fit.

    It comes before the estimator whose gamma is chosen; :class:`SparseLSSVMRegressorCV` documents the parameters.
    """

    _selector_type: ClassVar[Any] = BasisSearch
    _chooses: ClassVar[str | None] = "gamma"
    # what a search chooses or does not use is no parameter of its machine
    gamma: Any = field(default=None, init=False)
    _: KW_ONLY
    kernels: Any = None
    cv: Any = "loo"
    loss: str = field(default="squared", init=False)
    validation_fraction: float = field(default=0.25, init=False)
    random_state: None = field(default=None, init=False)
    gamma_range: Any = None
    gap: float = GAP
    search: str | None = None
    max_evaluations: int | None = None
    widths: Widths | None = None
    n_jobs: None = field(default=None, init=False)
    verbose: int = 0
    sigma_range: None = field(default=None, init=False)
    width_gap: float = field(default=0.01, init=False)

    recommended = RECOMMENDED

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose basis and gamma, then fit to all rows, wherever they are, and to numbers or labels of any kind.

        ``sample_weight`` weighs the errors, in every fit and in the criterion, as in
        :class:`~problems.LSSVMRegressorCV`; otherwise it is that of :class:`~problems.SparseLSSVMRegressor`.
        """
        estimator: Any = self
        estimator._begin_fit()
        model, search = estimator._model, estimator._selector
        search.check_rules()
        data = model.read(X, y, sample_weight)
        folds = search.folds(data, X, y)
        judged, best = search.search(data, folds, estimator._labels)
        fit = search.fit_final(judged, best)
        search.keep_search(judged, best.judged, True)
        estimator._keep_classes(data.classes)
        model.keep(fit, data.outputs == 1)
        return self


@dataclass(eq=False, repr=False)
class SparseLSSVMRegressorCV(BasisGammaChoice, SparseLSSVMRegressor):
    """A sparse LS-SVM for regression that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        The kernel; where ``kernels`` are given, those are used.
    tol : float, default=1e-6
        Accuracy of the fitted values, as a share of the spread of y, up to which the certificate holds.
    basis
        As for :class:`SparseLSSVMRegressor`; the rule ``"pruned"`` needs a gamma and is refused.
    kernels : list of kernels or "families", default=None
        Candidates, each with a basis of its own, judged at its best gamma; ``"families"`` as for ``LSSVMRegressorCV``.
    cv : {"loo", "gcv", "evidence"}, int, splitter or iterable, default="loo"
        How a machine is judged: the mean square leave-one-out residual, generalised cross-validation, the evidence of y
        (:mod:`substrate.least_squares.evidence`), or the mean square error over folds. Every row validates once at most
        and trains otherwise. A number makes consecutive folds in regression and stratified ones in classification, the
        same ones wherever the rows are. A splitter is given the targets of rows that are read in passes, not their
        inputs. A single validation set is a ``PredefinedSplit``.
    gamma_range : pair of float, default=None
        As for :class:`~problems.LSSVMRegressorCV`: unless given, up to where rounding reaches the gap, but never so
        short that the criterion is worse for it by more than a hundredth.
    gap : float, default=1e-4
        Relative distance between criterion and lower bound at which the search ends.
    search, max_evaluations, widths
        As for :class:`~problems.LSSVMRegressorCV`. The basis is chosen once, for the kernel from which the search
        starts, and kept while its scales change; derivatives cost one more pass over the rows (two for leave-one-out).
    verbose : int, default=0
        Whether a bar on the terminal shows the progress.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, cv_results_
        As for :class:`~problems.LSSVMRegressorCV`; the bound is for the machine that is fitted, on the basis and the
        directions of it that were kept, minus the effects of rounding and decomposition.
    support_values_, bias_, basis_, basis_indices_, reconstruction_error_, rank_, degrees_of_freedom_, certificate_
        As for :class:`SparseLSSVMRegressor`; the certificate also has the gap, and for ``cv="loo"`` its recomputation.

    Notes
    -----
    A row of weight v is left out whole, as in :class:`~problems.LSSVMRegressorCV`; that is not v equal rows.
    """

    _typical: ClassVar[Uses] = ({"cv": 3}, {"cv": "evidence"})
    _title = "Sparse LS-SVM regression, gamma selected"


@dataclass(eq=False, repr=False)
class SparseLSSVMClassifierCV(BasisGammaChoice, SparseLSSVMClassifier):
    """A sparse LS-SVM classifier that chooses gamma, provably the best of a range for its basis.

    Parameters
    ----------
    kernel, tol, basis, kernels, cv, gamma_range, gap, search, max_evaluations, widths
        As for :class:`SparseLSSVMRegressorCV`; errors are those of the labels -1 and +1, averaged over the machines.
    coding : {"one_vs_rest", "minimum_output", "ecoc"}, default="one_vs_rest"
        As for :class:`SparseLSSVMClassifier`.
    calibration, class_weight
        As for :class:`~problems.SparseLSSVMClassifier`; the criterion is weighted too.
    verbose : int, default=0
        As for :class:`SparseLSSVMRegressorCV`.

    Attributes
    ----------
    gamma_, criterion_, criterion_lower_bound_, path_, cv_results_
        As for :class:`SparseLSSVMRegressorCV`, one gamma for all machines.
    classes_, code_book_, support_values_, bias_, basis_, basis_indices_, reconstruction_error_, certificate_
        As for :class:`SparseLSSVMClassifier`.
    """

    _typical: ClassVar[Uses] = ({"cv": 3}, {"cv": "gcv"})
    _title = "Sparse LS-SVM classification, gamma selected"
