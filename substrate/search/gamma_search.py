r"""The best gamma of a whole range, with a proof: branch and bound on a criterion of :math:`t = \log\lambda`.

.. math:: \min_{\lambda_0 \le \lambda \le \lambda_1} F(\lambda), \qquad \lambda = 1/\gamma

The range is cut into intervals. On each, F is replaced by its interpolant, with a computed bound on the error, and the
interpolant is bounded from below by second-order Taylor bounds (:mod:`~substrate.search.polynomial_minimum`). An
interval whose bound comes within ``gap`` of the best value known is closed; the others are halved. One evaluation costs
two matrix products for all points at once, and about five intervals of 33 points cover ten decades. [Pelckmans2005]_
eq. (17)-(19) call the problem non-convex, which it is; it has one variable.

The effect of rounding, in the sums, in the decomposition and in the kernel values
(:mod:`~substrate.least_squares.criteria`), is subtracted from the bound on every stretch of an interval, at its size
there; ``slack`` is the size where it counts. It grows like 1/lambda, so a default range ends where it may reach a tenth
of the criterion, or earlier for a proof (:mod:`~substrate.search.range_end`), or where the criterion is below a
millionth of a millionth of the variance of y; the record says so.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, ascending_pair, positive
from substrate.errors import DeclarationError
from substrate.least_squares.criteria import Criterion, CriterionSum, Samples, Spectral
from substrate.numbers import relative_rounding
from substrate.search.gamma_result import GammaSearch
from substrate.search.polynomial_minimum import (
    DEGREE,
    LEBESGUE,
    coefficients,
    interpolation_error,
    minima_of_polynomial,
    points,
)
from substrate.search.range_end import HIGHEST_PRICE, NEGLIGIBLE, is_affordable

__all__ = ["GAP", "gamma_ends", "lambda_range", "search_gamma", "search_range"]

#: Default relative distance between criterion and lower bound.
GAP = 1e-4
#: Length of the first intervals in t; shorter ones need more evaluations in all, longer ones are halved at once.
_LENGTH = 6.25
_MOST_INTERVALS = 2000
#: Factor of the end of a default range where the gap is not proved.
_STEP = 10.0**0.25
#: Distance in log lambda of the points at which the widest range is looked at: half a decade.
_SURVEY = 0.5 * float(np.log(10.0))
#: Share of a criterion by which rounding may change it where a default range ends.
_KNOWN = 0.1
#: Values this near each other, relatively, are a tie: the larger lambda, the smoother machine, wins.
_TIE = 1e-12


def lambda_range(spectra: Sequence[Spectral], gammas: Any = None) -> tuple[float, float]:
    """Return the range of lambda: from a given range of gamma, or all that matters to machines on these spectra.

    Above 10 trace(PKP) every machine is the mean of y; the lower end is 1e-11 of the trace, or where rounding of the
    kernel matrix begins to matter.
    """
    lift = max(spectrum.lift for spectrum in spectra)
    if gammas is None:
        trace, norm = max(spectrum.trace for spectrum in spectra), max(spectrum.norm for spectrum in spectra)
        noise = relative_rounding(1e3) * norm  # a constant kernel, whose trace is rounding, is measured by its own size
        scale = trace if trace > noise else (norm if norm > 0.0 else 1.0)
        low = max(1e-11 * scale, relative_rounding(1e5) * norm, 2.0 * lift)
        return low, max(10.0 * scale, 10.0 * low)
    lowest, highest = gamma_ends(gammas)
    low, high = 1.0 / highest, 1.0 / lowest
    if low <= lift:
        raise DeclarationError(
            f"K + I/gamma is not positive definite above gamma = {1.0 / lift:.3g}: the kernel matrix has the "
            f"eigenvalue {-lift:.3g}; end the range below that, or use a positive semi-definite kernel"
        )
    return low, high


def search_gamma(criterion: Criterion | CriterionSum, gammas: Any = None, gap: float = GAP) -> GammaSearch:
    """Minimise over a given range of gamma, or over a default one, which ends where rounding may decide, or where the
    criterion is negligible.

    A default range ends earlier where that proves the gap at an affordable price
    (:mod:`~substrate.search.range_end`).
    """
    low, high = lambda_range(criterion.spectra, gammas)
    if gammas is not None:
        return search_range(criterion, (low, high), gap)
    begin = end = _end_of_range(criterion, low, high)
    result = first = search_range(criterion, (end, high), gap)
    while not result.is_closed and _STEP * end < high and (result.slack > 0.25 * gap * result.values).any():
        end *= _STEP
        result = search_range(criterion, (end, high), gap)
        if not is_affordable(result.values, first.values, gap, first.floor, HIGHEST_PRICE):
            result, end = first, begin  # the proof would cost too much
            break
    return replace(result, ended=end > low * (1.0 + 1e-9))


def _end_of_range(criterion: Criterion | CriterionSum, low: float, high: float) -> float:
    """Return the smallest lambda, of some in a range, down to which rounding can change every criterion by a small
    share only; or the first one at which all are negligible.
    """
    count = max(5, int(np.ceil(np.log(high / low) / _SURVEY)) + 1)
    lambdas = np.geomspace(high, low, count)
    # far down the error of the decomposition may overflow, and nothing is known there
    with np.errstate(over="ignore", invalid="ignore"):
        samples = criterion.sample(np.log(lambdas - criterion.lift)[:, None])
        values, floor = samples.values[:, 0, :], _negligible(criterion)
        least = np.maximum(values - _rounding(criterion, values, samples.ceilings[:, 0]), 0.0)
        roots = np.sqrt(least) - samples.lost[:, 0]
        is_known: Any = (values - np.square(np.maximum(roots, 0.0)) <= _KNOWN * values + floor).all(axis=1)
    is_known[:2] = True
    last = int(np.flatnonzero(np.logical_and.accumulate(is_known))[-1])
    negligible: Any = (np.minimum.accumulate(values, axis=0) <= floor).all(axis=1)
    return float(
        lambdas[min(last, int(negligible.argmax()))] if negligible.any() and not negligible[0] else lambdas[last]
    )


def _rounding(criterion: Criterion | CriterionSum, values: Array, ceiling: Array) -> Array:
    """Return a bound on the rounding of the sums in a value of the criterion."""
    eta = relative_rounding(criterion.size + 16)
    with np.errstate(over="ignore", invalid="ignore"):
        rounding = 5.0 * eta * (np.sqrt(values) * np.sqrt(ceiling) + eta * ceiling)
    return np.asarray(np.where(np.isnan(rounding), np.inf, rounding))


def _negligible(criterion: Criterion | CriterionSum) -> Array:
    """Return a criterion that needs no bound, one number per output: below it rounding decides, or nothing is to be
    gained.
    """
    share = max(NEGLIGIBLE, (relative_rounding(30.0 * criterion.size)) ** 2)
    return np.asarray(share * criterion.spread)


def gamma_ends(gammas: Any) -> tuple[float, float]:
    """Return a range of gamma as an ascending pair of positive numbers."""
    return ascending_pair(gammas, "the range of gamma")


def search_range(
    criterion: Criterion | CriterionSum,
    lambdas: tuple[float, float],
    gap: float = GAP,
    most_intervals: int = _MOST_INTERVALS,
) -> GammaSearch:
    """Minimise a criterion over lambda between two ends, every output on its own."""
    gap = positive(gap, "gap")
    low, high = (float(np.log(value - criterion.lift)) for value in lambdas)
    edges = np.linspace(low, high, max(1, int(np.ceil((high - low) / _LENGTH))) + 1)
    todo = np.column_stack([edges[:-1], edges[1:]])
    best, bounds, slacks = np.full(criterion.outputs, np.inf), np.full(criterion.outputs, np.inf), np.zeros(1)
    places, values, intervals = list[Array](), list[Array](), 0

    def sample(t: Array) -> Samples:
        nonlocal best
        samples = criterion.sample(t)
        places.append(t.ravel())
        values.append(samples.values.reshape(t.size, -1))
        best = np.minimum(best, values[-1].min(axis=0))
        return samples

    while todo.size:
        intervals += len(todo)
        middle, half = todo.mean(axis=1)[:, None], 0.5 * (todo[:, 1] - todo[:, 0])[:, None]
        samples = sample(middle + half * points())
        pieces = [_bound_interval(criterion, float(h), samples, number) for number, h in enumerate(half[:, 0])]
        # the minima of the interpolants, which may lie between the points
        inner = [m + h * p.points[p.minima < best * (1.0 + _TIE)] for m, h, p in zip(middle, half, pieces, strict=True)]
        if sum(each.size for each in inner):
            sample(np.clip(np.unique(np.concatenate(inner)), low, high)[None, :])
        halves = list[tuple[float, float]]()
        for (start, stop), piece in zip(todo.tolist(), pieces, strict=True):
            # halving helps as long as the bound suffers from the interpolant rather than from rounding
            halve = (piece.below < (1.0 - 0.5 * gap) * best) & (piece.error > 2.0 * piece.rounding)
            if halve.any() and intervals + len(halves) + 2 <= most_intervals:
                between = 0.5 * (start + stop)
                halves += [(start, between), (between, stop)]
            else:
                # the effect of rounding: half of the error, and as much in bounding the interpolant
                taken = 3.0 * piece.rounding + np.maximum(piece.lower - piece.error - piece.below, 0.0)
                slacks = np.where(piece.below < bounds, taken, slacks)
                bounds = np.minimum(bounds, piece.below)
        todo = np.array(halves)
    t, first = np.unique(np.concatenate(places), return_index=True)
    curve = np.concatenate(values)[first]
    ties: Any = curve <= best * (1.0 + _TIE)  # of which the largest lambda, the smoothest machine, is taken
    return GammaSearch(
        gamma=1.0 / (np.exp(np.where(ties, t[:, None], low).max(axis=0)) + criterion.lift),
        values=best,
        bounds=np.minimum(np.maximum(bounds, 0.0), best),
        slack=np.minimum(slacks, best),
        unit=criterion.unit,
        gamma_range=(1.0 / lambdas[1], 1.0 / lambdas[0]),
        gap=gap,
        intervals=intervals,
        evaluations=sum(map(len, places)),
        seen=1.0 / (np.exp(t[::-1]) + criterion.lift),
        curve=curve[::-1],
        floor=_negligible(criterion),
    )


class _Interval(NamedTuple):
    """The interpolants on an interval, one per output: their lower bound, error and rounding, and where they are
    smallest.

    ``below`` is the bound that all of these leave.
    """

    lower: Array
    error: Array
    rounding: Array
    below: Array
    points: Array
    minima: Array


def _bound_interval(
    criterion: Criterion | CriterionSum, half_length: float, samples: Samples, number: int
) -> _Interval:
    """Bound a criterion on the interval of some number."""
    values, ceiling = samples.values[number], samples.ceilings[number].max(axis=0)
    largest = values.max(axis=0)
    rounding = LEBESGUE * (_rounding(criterion, largest, ceiling) + relative_rounding(64.0 * DEGREE) * largest)
    error = rounding + interpolation_error(half_length, ceiling, criterion.cone, criterion.growth)
    lowest, places, minima = zip(*map(minima_of_polynomial, coefficients(values).T), strict=True)
    stretches = np.column_stack(lowest)
    # the decomposition's error falls along the interval: each stretch of the interpolant has its own
    roots = np.sqrt(np.maximum(stretches - error, 0.0)) - samples.lost[number, :-1]
    below = np.square(np.maximum(roots, 0.0)).min(axis=0)
    return _Interval(stretches.min(axis=0), error, rounding, below, np.array(places), np.array(minima))
