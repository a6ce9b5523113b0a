r"""The lower bound of a search on a reduced basis, minus the effects of rounding and decomposition.

The criterion is that of the machine that is fitted, on the directions of the basis that were kept. Its root has an
error of at most :math:`\delta(\lambda)` (:mod:`substrate.reduced.criteria`), which grows as lambda falls, so over a
range with the lowest end :math:`\lambda_0` a bound :math:`B` on the computed criterion gives

.. math:: \big( \sqrt B - \delta(\lambda_0) \big)_+^2

on the criterion itself. By default a range ends where :math:`\delta` reaches a part of the gap. One that is
given is searched as a whole; below that end it is bounded separately.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.estimators.reduced.prepared import Prepared
from substrate.arrays import EPS, Array
from substrate.namespaces import to_numpy
from substrate.paths.criteria import Criterion, LeaveOneOut
from substrate.paths.evidence import Evidence, GeneralizedCrossValidation
from substrate.paths.gamma_result import GammaSearch
from substrate.paths.gamma_search import lambda_range, search_gamma
from substrate.paths.validation import Sum
from substrate.reduced.criteria import Doubt, ReducedFold, ReducedGCV, sizes_of_rows
from substrate.reduced.evidence import ReducedEvidence
from substrate.reduced.left_out import ReducedLeaveOneOut
from substrate.reduced.spectrum import ReducedSpectrum

__all__ = ["bounded_search"]

#: Part of the gap, for the root of the criterion, that rounding may use at the default end of a range.
_PART = 0.2
#: Number of points of the range at which the error bound is computed.
_POINTS = 64


@dataclass(frozen=True, slots=True)
class _Known:
    """The criterion, the spectrum of all rows, and the error of the root of the criterion at one lambda.

    ``lambdas`` ascend over the range of a search; ``spare`` is the smallest 1 - h_ii at each, which grows with lambda.
    """

    criterion: Criterion | Sum
    spectrum: ReducedSpectrum
    doubts: tuple[Doubt, ...]
    pooled: bool
    lambdas: Array
    spare: Array

    def at(self, number: int, value: Array) -> Array:
        """A bound on the error of the root from that lambda on, one number per output, where the root is ``value``."""
        criterion, lam, n = self.criterion, float(self.lambdas[number]), self.spectrum.n
        if isinstance(criterion, Sum):
            total = np.zeros(criterion.outputs)
            for doubt, part, weight in zip(self.doubts, criterion.parts, criterion.weights, strict=True):
                _, errors = doubt.errors(lam)
                total += weight * np.square(self._pooled(errors / math.sqrt(part.mass)))  # type: ignore[attr-defined]
            return np.asarray(np.sqrt(total))
        lifted, errors = self.doubts[0].errors(lam)
        if isinstance(criterion, (ReducedEvidence, Evidence)):
            known = ReducedEvidence.of(self.spectrum, pooled=self.pooled).relative_error(lam, lifted, errors)
            return np.asarray(np.where(known < 1.0, value * (1.0 - np.sqrt(1.0 - np.minimum(known, 1.0))), math.inf))
        if isinstance(criterion, ReducedGCV):
            lifted += criterion.rounding(lam, self.doubts[0].terms)
        root, spare = self._pooled(errors / math.sqrt(n)), float(self.spare[number]) - lifted
        if spare <= 0.0:
            return np.full(criterion.outputs, math.inf)
        return np.asarray((root + lifted * value) / spare)

    def _pooled(self, errors: Array) -> Array:
        return np.sqrt(np.mean(np.square(errors), keepdims=True)) if self.pooled else errors


def bounded_search(
    criterion: Criterion | Sum,
    prepared: Prepared,
    spectrum: ReducedSpectrum,
    gamma_range: Any,
    gap: float,
    pooled: bool,
) -> GammaSearch:
    """The best gamma of a range with a lower bound of the criterion itself."""
    parts = criterion.parts if isinstance(criterion, Sum) else (criterion,)
    low, high = lambda_range([part.spectrum for part in parts], gamma_range)
    known = _known(criterion, prepared, spectrum, pooled, low, high)
    end = _end(known, gap)
    middle = float(known.lambdas[end])
    upper = _taken_off(known, end, search_gamma(criterion, (middle, high), gap), prepared)
    if gamma_range is None or end == 0:
        return upper
    lower = _taken_off(known, 0, search_gamma(criterion, (low, middle), gap), prepared)
    better = lower.values < upper.values
    return replace(
        upper,
        gamma=np.where(better, lower.gamma, upper.gamma),
        values=np.minimum(lower.values, upper.values),
        bounds=np.minimum(lower.bounds, upper.bounds),
        gamma_range=(upper.gamma_range[0], lower.gamma_range[1]),
        intervals=lower.intervals + upper.intervals,
        evaluations=lower.evaluations + upper.evaluations,
        seen=np.append(upper.seen, lower.seen),
        curve=np.append(upper.curve, lower.curve, axis=0),
    )


def _known(
    criterion: Criterion | Sum, prepared: Prepared, spectrum: ReducedSpectrum, pooled: bool, low: float, high: float
) -> _Known:
    rows, K, host = prepared.rows, to_numpy(prepared.K), spectrum.on_host()
    sizes = sizes_of_rows(rows)
    lambdas = np.exp(np.linspace(math.log(low), math.log(high), _POINTS))
    lambdas[0] = low
    if not isinstance(criterion, Sum):
        spare = _spare(criterion, host, lambdas)
        return _Known(criterion, host, (Doubt(host, K, sizes, rows.terms),), pooled, lambdas, spare)
    doubts = []
    for part in criterion.parts:
        if not isinstance(part, ReducedFold):
            raise TypeError("a sum of criteria on a reduced basis is one of folds")
        Q = part.spectrum.rotation  # the fold's scatter is in eigen-coordinates
        doubts.append(Doubt(part.spectrum, K, sizes, rows.terms, Q @ part.scatter @ Q.T, part.count))
    return _Known(criterion, host, tuple(doubts), pooled, lambdas, np.ones(_POINTS))


def _end(known: _Known, gap: float) -> int:
    """The lowest of the lambdas from which on the criterion is accurate to a part of the gap, by its smallest value."""
    t = np.log(known.lambdas)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # with as many vectors as rows the divisor vanishes
        own = isinstance(known.criterion, ReducedGCV) and known.criterion.heavy is not None
        scale = known.criterion if own else ReducedGCV.of(known.spectrum, pooled=known.pooled)
        values = scale.sample(t).values
    free = np.array([known.spectrum.degrees_of_freedom(float(lam)) <= 0.9 * known.spectrum.n for lam in known.lambdas])
    if own:  # rows of hardly any weight are no freedom
        free &= known.spare >= 0.1
    usable = np.isfinite(values) & free[:, None, None]  # a machine that interpolates has no scale
    root = np.sqrt(np.where(usable, values, np.inf).min(axis=(0, 1)))
    if not np.isfinite(root).all():
        return 0

    def enough(number: int) -> bool:
        return bool((known.at(number, root) <= _PART * gap * root).all())

    bad, good = 0, _POINTS - 2
    if enough(bad) or not enough(good):
        return 0
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if enough(middle) else (middle, good)
    return good


def _taken_off(known: _Known, number: int, search: GammaSearch, prepared: Prepared) -> GammaSearch:
    """The bounds minus their errors; only the rounding of the targets themselves is neglected."""
    root = np.sqrt(search.bounds)
    doubt = known.at(number, np.sqrt(search.values))
    with np.errstate(invalid="ignore"):
        bounds = np.where(np.isfinite(doubt), np.square(np.maximum(root - doubt, 0.0)), 0.0)
    targets = prepared.targets
    floor = (prepared.rows.n_rows * EPS * float(np.abs(targets.extremes).max()) / search.unit) ** 2
    slack = np.minimum(np.full_like(search.slack, floor), search.values)
    return replace(search, bounds=np.minimum(bounds, search.bounds), slack=slack)


def _spare(criterion: Criterion, spectrum: ReducedSpectrum, lambdas: Array) -> Array:
    """The smallest 1 - h_ii at each lambda, in one pass over the rows; their mean where that represents all."""
    t = np.log(lambdas)[:, None]
    if isinstance(criterion, ReducedLeaveOneOut):
        return np.asarray(criterion.sums(criterion._inverses(t)).smallest)
    if isinstance(criterion, LeaveOneOut) and not isinstance(criterion, GeneralizedCrossValidation):
        basis, g = to_numpy(criterion.spectrum.basis), to_numpy(criterion._inverses(t))
        return np.asarray(lambdas * (np.square(basis) @ g).min(axis=0))
    if isinstance(criterion, ReducedGCV) and criterion.heavy is not None:
        return criterion.spare(criterion._inverses(t)) / spectrum.n
    if isinstance(criterion, GeneralizedCrossValidation) and criterion.masses is not None:
        return np.asarray(lambdas * criterion.spare(criterion._inverses(t)) / criterion.spectrum.n)
    return np.array([1.0 - spectrum.degrees_of_freedom(float(lam)) / spectrum.n for lam in lambdas])
