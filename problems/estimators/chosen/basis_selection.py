r"""The choice of gamma on a reduced basis, with a proof.

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from problems.estimators.chosen.candidates import EvaluatedKernel, winner
from problems.estimators.chosen.families import at_all_widths, is_families, list_unresolved
from problems.estimators.chosen.over_gamma import OverGamma
from problems.estimators.chosen.tasks import Task
from problems.estimators.reduced.fit import CONDITIONAL, FitData, PreparedRows, ReducedFit, fit_at, prepare
from problems.estimators.shared.coded import numbers_of_codes
from substrate.arrays import take_rows, to_numpy
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Kernel
from substrate.least_squares.criteria import Criterion
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.validation import CriterionSum
from substrate.reduced.criteria import (
    ReducedEvidence,
    ReducedFold,
    ReducedGcv,
    SpectrumRadius,
    criterion_of_sums,
    sizes_of_rows,
)
from substrate.reduced.folds import GivenFolds, folds_of
from substrate.reduced.left_out import ReducedLeaveOneOut
from substrate.reduced.moments import Statistic, accumulate
from substrate.reduced.solution import Penalty
from substrate.reduced.spectrum import ReducedSpectrum, reduced_spectrum
from substrate.search.gamma_search import gamma_ends, lambda_range, search_gamma, search_widest
from substrate.streaming.passes import each_block
from substrate.streaming.rows import Block, draw_rows

__all__ = ["BasisSearch"]

#: Most rows by which a kernel is searched.
_SAMPLE = 1000


@dataclass(frozen=True, slots=True)
class _BestKernel:
    """A judged kernel, with the data of its final fit."""

    judged: EvaluatedKernel
    prepared: PreparedRows
    spectrum: ReducedSpectrum


@dataclass(frozen=True, slots=True)
class _DrawnRows:
    """The rows of a block that have some numbers, with their targets and weights."""

    numbers: Any

    def __call__(self, block: Block) -> tuple[Any, Any, Any]:
        """Take them."""
        rows = self.numbers[(self.numbers >= block.start) & (self.numbers < block.rows.stop)] - block.start
        weights = None if block.weights is None else to_numpy(block.weights)[rows]
        return take_rows(block.X, rows), to_numpy(block.Y)[rows], weights


class BasisSearch(OverGamma):
    """A search on a reduced basis: one statistic of all rows for every kernel, and the machine of the best one."""

    def fit(self, X: Any, y: Any, sample_weight: Any, further: Mapping[str, Any]) -> None:
        """Choose basis and gamma, then fit to all rows, wherever they are, and to numbers or labels of any kind.

        ``further`` are what else a fit on all rows takes, by name, and has to be None.
        """
        model = self.estimator
        for name, value in further.items():
            if value is not None:
                raise DeclarationError(f"{name} is of a search on all rows; leave basis=None, or leave {name} out")
        self.check_rules()
        data = model._model.read(X, y, sample_weight)
        folds = self.folds(data, X, y)
        judged, best = self.search(data, folds, model._labels)
        fit = self.fit_final(judged, best)
        self.keep_search(judged, best.judged, True)
        model._model.keep(fit, data)

    def check_rules(self) -> None:
        """Refuse parameters before any work, and what rows that are read in passes do not have."""
        model = self.estimator
        if np.size(model.linear_columns) or getattr(model, "robust", None) is not None:
            raise DeclarationError(
                "on a basis gamma is chosen without linear_columns and robust; give gamma to the machine without CV, "
                "or leave basis=None"
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
        best: _BestKernel | None = None  # of the others nothing is kept but their judgement

        def judge(kernel: Kernel) -> EvaluatedKernel:
            nonlocal best
            one = self.judge_kernel(kernel, data, folds, pooled)
            best = one if best is None or one.judged.score < best.judged.score else best
            return one.judged

        judged = self.search_kernels(kernels, judge, self.sample(data, pooled), None)
        if best is None:
            raise TypeError("internal error: a search needs a kernel")
        return judged, replace(best, judged=winner(judged))

    def sample(self, data: FitData, pooled: bool) -> Task:
        """Return the task of a machine on some of the rows, with all of them in its expansion, whose kernel is
        searched by slopes.
        """
        count = _SAMPLE if self.estimator.search == "gradient" else 2
        drawn = _DrawnRows(draw_rows(data.source.n_rows, count, np.random.default_rng(0)))
        X, Y, weights = zip(*(rows for rows in each_block(data.source, drawn) if rows[0].shape[0]), strict=True)
        return Task(
            X=X[0] if len(X) == 1 else np.concatenate(X),
            Y=np.concatenate(Y),
            criterion=self.criterion if self.criterion in OF_SPECTRUM else "loo",
            splits=(),
            gammas=None,
            gap=float(self.estimator.gap),
            pooled=pooled,
            weights=None if weights[0] is None else np.concatenate(weights),
        )

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
            X, y, _ = model._make_checker()._check_data(X, y, None, numeric=data.classes is None)
            return to_numpy(X), to_numpy(y)
        targets = np.concatenate([np.ravel(targets) for targets in each_block(rows, _targets)])
        return np.empty((rows.n_rows, 0)), targets

    def judge_kernel(
        self,
        kernel: Kernel,
        data: FitData,
        folds: GivenFolds | None,
        pooled: bool,
    ) -> _BestKernel:
        """Judge one kernel: its basis, one statistic of all rows, and its best gamma."""
        model = self.estimator
        start = time.perf_counter()
        prepared = prepare(kernel, data, model._model.choice(), 1.0)
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
        score = float(search.values[0])
        if unit != 1.0:
            low, high = (end / unit for end in search.gamma_range)
            gamma_there = np.clip(search.gamma / unit, low, high)
            search = replace(search, gamma=gamma_there, gamma_range=(low, high), seen=search.seen / unit)
        judged = EvaluatedKernel(
            kernel=kernel,
            search=search,
            score=score,
            error=error,
            seconds=time.perf_counter() - start,
        )
        return _BestKernel(judged, prepared, spectrum)

    def fit_final(self, judged: list[EvaluatedKernel], best: _BestKernel) -> ReducedFit:
        """Fit the chosen machine to all rows, with the rows of the search."""
        unit = best.prepared.weighed.unit
        gamma = unit * float(best.judged.search.gamma[0])
        fit = fit_at(best.prepared, gamma, self.estimator._tolerance(), best.spectrum)
        rows, facts = self.search_rows(judged, best.judged)
        said = {"conditional on": f"{CONDITIONAL}, chosen with the left-out row included"}
        if self.estimator.search is not None:
            said["kernels"] = dict(facts)["kernels"] + f", by at most {_SAMPLE} rows"
        more = tuple((name, said.get(name, fact)) for name, fact in facts)
        return replace(fit, factor=fit.factor.in_unit(unit), rows=(*fit.rows, *rows), facts=(*fit.facts, *more))


def _targets(block: Block) -> Any:
    """Return the targets of a block."""
    return np.asarray(block.Y)


def criterion_on(
    which: str, prepared: PreparedRows, statistic: Statistic, spectrum: ReducedSpectrum, pooled: bool
) -> Criterion | CriterionSum:
    """Return the criterion of one of the names of ``cv``, from the statistic of all rows."""
    rows, host = prepared.rows, spectrum.on_host()
    rounding = rows, Penalty.of(rows.values, to_numpy(prepared.K), host.features), sizes_of_rows(rows)
    radius = SpectrumRadius.of(host, *rounding)
    if which == "loo":
        return ReducedLeaveOneOut.of_rows(spectrum, rows, radius, pooled=pooled)
    if which == "gcv":
        return criterion_of_sums(ReducedGcv, spectrum.with_squared_weights(rows).on_host(), radius, pooled)
    if which == "evidence":
        return criterion_of_sums(ReducedEvidence, host, radius, pooled)
    criteria = []
    for fold in statistic.folds:
        others = reduced_spectrum(statistic, statistic.total - fold).on_host()
        criteria.append(ReducedFold.of(others, fold, SpectrumRadius.of(others, *rounding), pooled=pooled))
    return CriterionSum.of(criteria, [1.0 / len(criteria)] * len(criteria))
