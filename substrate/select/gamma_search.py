r"""The best gamma of a whole range, with a proof: branch and bound on a criterion of :math:`t = \log\lambda`.

.. math:: \min_{\lambda_0 \le \lambda \le \lambda_1} F(\lambda), \qquad \lambda = 1/\gamma

The range is cut into intervals. On each, F is replaced by its interpolant, with a computed bound on the error, and the
interpolant is bounded from below by second-order Taylor bounds (:mod:`~substrate.select.polynomial_minimum`). An
interval whose bound comes within ``gap`` of the best value known is closed; the others are halved. One evaluation costs
two matrix products for all points at once, and about five intervals of 33 points cover ten decades. [Pelckmans2005]_
eq. (17)-(19) call the problem non-convex, which it is; it has one variable.

The effect of rounding, in the sums, in the decomposition and in the kernel values
(:mod:`~substrate.left_out.criteria`), is subtracted from the bound on every stretch of an interval, at its size
there; ``slack`` is the size where it counts. It grows like 1/lambda, so a default range ends where it may reach a tenth
of the criterion, or earlier for a proof, or where the criterion is below a
millionth of a millionth of the variance of y; the record says so.

**The default range** ends by one rule for every search. A search has a lower bound over a range, and the bound gets
worse, or is lost, where rounding hides the machine. A range may be ended before that, for a proof, at a price: with
:math:`F` the criterion at the choice, :math:`F_\star` the least criterion known of any range, and :math:`F_0` a
criterion that needs no bound,

.. math:: F \le \max\big( (1 + p) F_\star, \; F_0 \big), \qquad p = 1/100, \qquad
          F_0 = 10^{-12} \operatorname{var}(y) ,

and p = 1/20 where nothing nearer to :math:`F_\star` can be proved.

The root of :math:`F_0` is a millionth of the spread of y, the default accuracy of fitted values: of nearly noise-free
targets the criterion falls with every decade until rounding decides, and machines below :math:`F_0` are as good as each
other. Among those the smoothest is chosen. A proof that costs more is not worth having: the better machine is returned,
and its certificate fails.

What is beyond the range is not bounded, but it is looked at. With :math:`B` the least criterion that was seen there, or
that is to be expected if the criterion goes on falling as it did in the last decade,

.. math:: F - B \le \tfrac{1}{11} F + F_0

is a row of the certificate, so that a choice which holds is within a tenth of what a wider range is expected to give.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from substrate.arrays import Array, positive
from substrate.certificate import WIDER, Row
from substrate.left_out.criteria import Criterion, CriterionSum, Samples
from substrate.numbers import relative_rounding
from substrate.operators.spectrum import lambda_range
from substrate.select.polynomial_minimum import (
    DEGREE,
    LEBESGUE,
    coefficients,
    interpolation_error,
    minima_of_polynomial,
    points,
)

__all__ = [
    "GAP",
    "HIGHEST_PRICE",
    "NEGLIGIBLE",
    "PRICE",
    "STEP",
    "GammaSearch",
    "end_row",
    "is_affordable",
    "least_beyond",
    "search_gamma",
    "search_range",
]


@dataclass(frozen=True, slots=True)
class GammaSearch:
    """The best gamma per output, its criterion, a lower bound over the range, and the effort.

    ``values``, ``bounds``, ``slack`` (what was subtracted from the bounds for rounding) and ``floor`` (a criterion that
    needs no bound) are in units of ``unit`` squared, in which they neither overflow nor vanish; ``criterion`` and
    ``lower_bound`` are in the units of y squared. ``ended`` is whether the range was ended where rounding reaches the
    gap, or where the criterion is negligible. ``seen`` are the gammas, ascending, at which the criterion was evaluated,
    ``curve`` its values there, one column per output.
    """

    gamma: Array
    values: Array
    bounds: Array
    unit: float
    gamma_range: tuple[float, float]
    gap: float
    evaluations: int
    seen: Array
    curve: Array
    slack: Any = 0.0
    intervals: int = 0
    floor: Any = 0.0
    ended: bool = False

    def per_weight(self, unit: float) -> Self:
        """Return the same for weights in other units: gammas are divided by the unit of those that were searched."""
        low, high = (end / unit for end in self.gamma_range)
        gamma = np.clip(self.gamma / unit, low, high)
        return replace(self, gamma=gamma, gamma_range=(low, high), seen=self.seen / unit)

    @property
    def criterion(self) -> Array:
        """Return the criterion at gamma."""
        return _in_units(self.values, self.unit)

    @property
    def lower_bound(self) -> Array:
        """Return a number that no criterion of the range is below; minus infinity where nothing is claimed."""
        return _in_units(self.bounds, self.unit)

    @property
    def path(self) -> dict[str, Any]:
        """Return the values of the criterion that were seen, in the units of y squared, and their range of gamma."""
        curve = _in_units(self.curve, self.unit)
        values = curve[:, 0] if self.gamma.size == 1 else curve
        return {"parameter": "gamma", "values": self.seen, "criterion": values, "coverage": self.gamma_range}

    @property
    def is_certified(self) -> bool:
        """Return whether the search has a lower bound; a search on a grid has none."""
        return bool(np.isfinite(self.bounds).all())

    @property
    def is_closed(self) -> bool:
        """Return whether every lower bound is within the gap, rounding included."""
        return self.is_certified and self.rows()[0].passes

    def rows(self) -> tuple[Row, ...]:
        """Return the gap of the worst output as a row; none without a lower bound."""
        if not self.is_certified:
            return ()
        rows = [
            Row(
                name="gap of gamma",
                value=float(value - bound),
                scale=float(value + floor / self.gap),
                tolerance=self.gap,
                formula="criterion - lower bound, over the range of gamma",
            )
            for value, bound, floor in np.broadcast(self.values, self.bounds, self.floor)
        ]
        return (max(rows, key=lambda row: row.relative),)

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return the range, the effort and the rounding, for a certificate's record."""
        low, high = self.gamma_range
        rounding = float(np.max(self.slack / np.where(self.values > 0.0, self.values, 1.0)))
        ends = [
            f"{name} end" for name, end in (("lower", low), ("upper", high)) if np.isclose(self.gamma, end, 1e-6).any()
        ]
        description = f"{low:.3g} to {high:.3g}"
        if ends:
            description += f"; best at the {' and '.join(ends)}, gamma_range widens it"
        if self.ended:
            negligible = bool((self.values <= self.floor).all())
            description += "; it ends where " + (
                "the criterion is negligible" if negligible else "rounding hides what is beyond"
            )
        effort = f"{self.intervals} intervals, {self.evaluations} evaluations, rounding {rounding:.1e}"
        if not self.is_certified:
            effort = f"{self.evaluations} points of a grid, without a lower bound"
        return (("gamma searched", description), ("search of gamma", effort))

    def advice(self) -> tuple[tuple[str, str], ...]:
        """Return advice if the gap is not met."""
        if all(row.passes for row in self.rows()):
            return ()
        needed = float(np.max((self.values - self.bounds) / np.where(self.values > 0.0, self.values, 1.0)))
        said = f"the lower bound is not within gap={self.gap:g} of the criterion: gap={needed:.2g} would be met"
        return ((WIDER, said),)


def _in_units(values: Array, unit: float) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values * unit * unit)


#: How much worse, relatively, the best machine of a range with a proof may be, and where there is no other proof.
PRICE, HIGHEST_PRICE = 0.01, 0.05


#: Criterion, as a share of the variance of y, that needs no bound.
NEGLIGIBLE = 1e-12


#: Share of the criterion that a wider range may save where a certificate holds: 1 - 1/1.1.
_SAVED = 1.0 / 11.0


#: A criterion larger than the best one by this factor at the end of a range has turned before it.
_TURNED = 1.1


#: The factor of a step by which a fall is measured, half a decade, and over how many steps beyond it is continued.
STEP, _STEPS = 10.0**0.5, 20


def is_affordable(values: Any, best: Any, gap: float, negligible: Any = 0.0, price: float = PRICE) -> bool:
    """Return whether every criterion is worse than the best one by no more than a proof may cost, or negligible."""
    most = np.maximum((1.0 + max(gap, price)) * np.asarray(best), negligible)
    return bool((np.asarray(values) <= most).all())


def least_beyond(best: Any, at_end: Any, before_end: Any, before_that: Any) -> Array:
    """Estimate the criterion ten decades beyond an end, from its values there and one and two steps before it.

    Where it is above the ``best`` one by more than a tenth at the end, it has turned: it is expected to stay.

    A step is half a decade, ``STEP``. The falls of one step after the other are continued as a geometric series, which
    is exact for a power of the parameter plus a constant, and never below zero; where the criterion does not fall, it
    is expected to stay.
    """
    last, before = np.asarray(before_end) - at_end, np.asarray(before_that) - np.asarray(before_end)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.clip(np.where(before > 0.0, last / before, 1.0), 0.0, 1.0)
    falls = np.maximum(last, 0.0) * np.sum([ratio**k for k in range(1, _STEPS + 1)], axis=0)
    return np.asarray(np.where(at_end <= _TURNED * np.asarray(best), np.maximum(at_end - falls, 0.0), at_end))


def end_row(name: str, values: Any, beyond: Any, negligible: Any, range_option: str | None = None) -> Row:
    """Return the certificate row of what the worst output could gain beyond a range.

    ``range_option`` is the parameter that widens the range.
    """
    rows = [
        Row(
            name=f"range of {name}",
            value=max(float(value - best), 0.0),
            scale=float(value + floor / _SAVED),
            tolerance=_SAVED,
            formula=f"criterion - least one to expect beyond the range; {range_option or f'{name}_range'} widens it",
        )
        for value, best, floor in np.broadcast(np.atleast_1d(values), np.atleast_1d(beyond), np.atleast_1d(negligible))
    ]
    return max(rows, key=lambda row: row.relative)


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


def search_gamma(criterion: Criterion | CriterionSum, gammas: Any = None, gap: float = GAP) -> GammaSearch:
    """Minimise over a given range of gamma, or over a default one, which ends where rounding may decide, or where the
    criterion is negligible.

    A default range ends earlier where that proves the gap at an affordable price
    (:mod:`~substrate.select.gamma_search`).
    """
    low, high = lambda_range(criterion.spectra, gammas)
    if gammas is not None:
        return search_range(criterion, (low, high), gap)
    lambdas, values, least = _survey(criterion, low, high)
    begin = end = _end_of_range(lambdas, values, least, _negligible(criterion))
    result = first = search_range(criterion, (end, high), gap)
    # each search of a range is many passes over the rows: the first step is to where the survey expects a proof
    provable = _last_of(lambdas, least >= (1.0 - gap) * np.minimum.accumulate(values, axis=0))
    while not result.is_closed and _STEP * end < high and (result.slack > 0.25 * gap * result.values).any():
        end = max(_STEP * end, provable)
        result = search_range(criterion, (end, high), gap)
        if not is_affordable(result.values, first.values, gap, first.floor, HIGHEST_PRICE):
            result, end = first, begin  # the proof would cost too much
            break
    return replace(result, ended=end > low * (1.0 + 1e-9))


def _survey(criterion: Criterion | CriterionSum, low: float, high: float) -> tuple[Array, Array, Array]:
    """Return some lambdas of a range, the largest one first, the criteria there, and what rounding leaves of them."""
    count = max(5, int(np.ceil(np.log(high / low) / _SURVEY)) + 1)
    lambdas = np.geomspace(high, low, count)
    # far down the error of the decomposition may overflow, and nothing is known there
    with np.errstate(over="ignore", invalid="ignore"):
        samples = criterion.sample(np.log(lambdas - criterion.lift)[:, None])
        values = samples.values[:, 0, :]
        least = np.maximum(values - _rounding(criterion, values, samples.ceilings[:, 0]), 0.0)
        return lambdas, values, np.square(np.maximum(np.sqrt(least) - samples.lost[:, 0], 0.0))


def _end_of_range(lambdas: Array, values: Array, least: Array, floor: Array) -> float:
    """Return the smallest lambda of a survey down to which rounding can change every criterion by a small share only;
    or the first one at which all are negligible.
    """
    end = _last_of(lambdas, values - least <= _KNOWN * values + floor)
    negligible: Any = (np.minimum.accumulate(values, axis=0) <= floor).all(axis=1)
    return max(end, float(lambdas[negligible.argmax()])) if negligible.any() and not negligible[0] else end


def _last_of(lambdas: Array, holds: Any) -> float:
    """Return the last of some lambdas before one, after the first two, at which something does not hold for an
    output.
    """
    fails = np.flatnonzero(~holds.all(axis=1)[2:])
    return float(lambdas[int(fails[0]) + 1 if fails.size else -1])


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
