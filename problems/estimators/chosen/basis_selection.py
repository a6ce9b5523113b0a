r"""The choice of gamma on a reduced basis, with a proof.

.. math:: \min_k \; \min_{\gamma_0 \le \gamma \le \gamma_1} F(k, \gamma)

for leave-one-out, generalised cross-validation or folds, on a basis chosen once per kernel. One statistic of all rows
and one eigendecomposition (for folds, one each) suffice for every gamma; see :mod:`substrate.left_out.basis_criteria`
for the criteria and their errors of rounding and decomposition, and :mod:`substrate.select.gamma_search` for the lower
bound. In every criterion rows are left out of the fit, not of the choice of the basis.

With weights v of the rows, the mean of F is weighted, and a row is left out whole. Everything is computed with weights
of mean one, :math:`v / \bar v`, and :math:`\gamma \bar v`, for which the mean is a plain one over the rows times
:math:`(v / \bar v)^{1/2}`; gamma then refers to the given weights.
"""

import time
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from problems.estimators.chosen.judgement import EvaluatedKernel, Task
from problems.estimators.chosen.rules import criterion_of, splits_of
from problems.estimators.reduced_fit import FitData, PreparedRows, basis_choice, prepare
from problems.estimators.shared.coded import numbers_of_codes
from substrate.arrays import ascending_pair, move_to_host, to_numpy
from substrate.errors import DeclarationError
from substrate.fits.basis_solution import Penalty
from substrate.kernels import Kernel
from substrate.left_out.basis_criteria import ReducedFold, ReducedLeaveOneOut, with_radius
from substrate.left_out.criteria import OF_SPECTRUM, Criterion, CriterionSum
from substrate.left_out.leave_one_out import Split
from substrate.operators.basis_spectrum import ReducedSpectrum, reduced_spectrum
from substrate.operators.features import Statistic, accumulate, fold_labels
from substrate.operators.passes import each_block
from substrate.operators.sources import Block, Source, draw_rows
from substrate.select.gamma_search import search_gamma

__all__ = ["check_basis", "folds_of_rows", "judge_on_basis", "sample_rows"]

#: Most rows by which a kernel is searched.
_SAMPLE = 800


class _Judged(NamedTuple):
    """A judged kernel, with the data of its final fit."""

    judged: EvaluatedKernel
    prepared: PreparedRows
    spectrum: ReducedSpectrum


def check_basis(model: Any) -> None:
    """Refuse parameters that a search on a basis does not support."""
    if np.size(model.linear_columns) or getattr(model, "robust", None) is not None:
        raise DeclarationError(
            "on a basis gamma is chosen without linear_columns and robust; give gamma to the machine without CV, "
            "or leave basis=None"
        )
    if isinstance(rule := basis_choice(model.basis).rule, str) and rule == "pruned":
        raise DeclarationError(
            "basis.rule='pruned' needs gamma before one is chosen; use another rule, or the basis_indices_ of a fit"
        )


def sample_rows(model: Any, data: FitData, folds: Any) -> Task:
    """Return the task of a machine on some of the rows, with all of them in its expansion, by the same criterion."""
    source = data.source
    numbers = draw_rows(source.n_rows, _SAMPLE, np.random.default_rng(0))
    splits: tuple[Split, ...] = ()
    if folds is not None:
        labels = folds[numbers]
        numbered = np.unique(labels[labels >= 0])
        splits = tuple((np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in numbered)
    weights = None if source.weights is None else to_numpy(source.weights)[numbers]
    unit = 1.0 if weights is None else float(weights.mean())
    return Task(
        X=source.take_rows(numbers),
        Y=_targets_of(source)[numbers],
        criterion=criterion_of(model),
        splits=splits,
        gammas=None,
        gap=float(model.gap),
        pooled=bool(model._labels),
        weights=None if weights is None else weights / unit,
        unit=unit,
    )


def folds_of_rows(model: Any, data: FitData, X: Any, y: Any) -> Any:
    """Return the folds of the rows: the same for rows in memory and for rows that are read in passes.

    A splitter or a list of splits names rows of X and y as they were given, including rows of weight zero.
    """
    source, coded, kept = data.source, data.coded, data.kept
    if kept is not None and (isinstance(model.cv, bool) or not isinstance(model.cv, Integral)):
        return fold_labels(splits_of(model, *_given_rows(model, data, X, y), kept), source.n_rows)
    block = source.block_in_memory
    points = np.empty((source.n_rows, 0)) if block is None else to_numpy(block.X)
    codes = _targets_of(source)
    labels = codes[:, 0] if coded.names is None else numbers_of_codes(codes, coded.book)
    return fold_labels(splits_of(model, points, labels), source.n_rows)


def _given_rows(model: Any, data: FitData, X: Any, y: Any) -> tuple[Any, Any]:
    """Return the rows for a splitter, without their inputs where they are read in passes, and their targets."""
    rows = model._model.open_source(X, y)
    if rows is None:
        X, y, _ = type(model)(model.kernel)._check_data(X, y, None)
        return to_numpy(X), to_numpy(y)
    return np.empty((rows.n_rows, 0)), np.ravel(_targets_of(rows))


def judge_on_basis(model: Any, kernel: Kernel, data: FitData, folds: Any) -> _Judged:
    """Judge one kernel: its basis, one statistic of all rows, and its best gamma."""
    start = time.perf_counter()
    prepared = prepare(kernel, data, basis_choice(model.basis), 1.0)
    unit, gammas = prepared.data.unit, None
    if model.gamma_range is not None:
        gammas = tuple(unit * end for end in ascending_pair(model.gamma_range, "the range of gamma"))
    lowest = 0.0 if gammas is None else 1.0 / gammas[1]
    statistic = accumulate(prepared.rows, prepared.features, prepared.origin, lowest, folds)
    spectrum = reduced_spectrum(statistic)
    criterion = criterion_on(criterion_of(model), prepared, statistic, spectrum, bool(model._labels))
    search = search_gamma(criterion, gammas, float(model.gap))
    error = max(part.decomposition_error(1.0 / float(search.gamma[0])) for part in criterion.spectra)
    score, per_row = float(search.values[0]), search if unit == 1.0 else search.per_weight(unit)
    return _Judged(EvaluatedKernel(kernel, per_row, score, error, time.perf_counter() - start), prepared, spectrum)


def _targets_of(source: Source) -> Any:
    """Return the targets of all rows, on the host."""
    return np.concatenate([to_numpy(targets) for targets in each_block(source, _read_targets)])


def _read_targets(block: Block) -> Any:
    """Return the targets of a block."""
    return block.Y


def criterion_on(
    which: str, prepared: PreparedRows, statistic: Statistic, spectrum: ReducedSpectrum, pooled: bool
) -> Criterion | CriterionSum:
    """Return the criterion of one of the names of ``cv``, from the statistic of all rows."""
    rows = prepared.rows
    if which == "gcv":
        spectrum = spectrum.with_squared_weights(rows)
    host = move_to_host(spectrum)
    penalty = Penalty.of(rows.values, to_numpy(prepared.K), host.features)
    host = with_radius(host, statistic, penalty, rows.terms)
    if which == "loo":
        return ReducedLeaveOneOut.of_rows(host, spectrum, rows, pooled=pooled)
    if which in OF_SPECTRUM:
        return OF_SPECTRUM[which].of(host, pooled=pooled)
    criteria = []
    for fold in statistic.folds:
        others = move_to_host(reduced_spectrum(statistic, statistic.total - fold))
        others = with_radius(others, statistic, penalty, rows.terms)
        criteria.append(ReducedFold.of_fold(others, host, fold, pooled=pooled))
    return CriterionSum.of(criteria, [1.0 / len(criteria)] * len(criteria))
