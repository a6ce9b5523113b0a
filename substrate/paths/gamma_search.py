r"""The best gamma of a whole range, with a proof: branch and bound on a criterion of :math:`t = \log\lambda`.

.. math:: \min_{\lambda_0 \le \lambda \le \lambda_1} F(\lambda), \qquad \lambda = 1/\gamma

The range is cut into intervals. On each, F is replaced by its interpolant, with a computed bound on the error, and the
interpolant is bounded from below by second-order Taylor bounds (:mod:`~substrate.paths.polynomial_minimum`). An
interval whose bound comes within ``gap`` of the best value known is closed; the others are halved. One evaluation costs
two matrix products for all points at once, and about five intervals of 33 points cover ten decades. [Pelckmans2005]_
eq. (17)-(19) call the problem non-convex, which it is; it has one variable.

The effect of rounding, in the sums, in the decomposition and in the kernel values (:mod:`~substrate.paths.criteria`),
is subtracted from the bound on every stretch of an interval, at its size there; ``slack`` is the size where it counts.
It grows like 1/lambda, so a default range ends where it reaches the gap, and the record states that.

Medians, trimmed means, absolute values and misclassification of leave-one-out residuals have kinks or steps in lambda,
so the best gamma of a grid is taken: nothing is bounded between two points, and no certificate states a lower bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array, ascending_pair, positive
from substrate.closed_form.spectrum import Spectrum
from substrate.errors import DeclarationError
from substrate.namespaces import to_numpy
from substrate.paths.criteria import Criterion, Samples, Spectral
from substrate.paths.gamma_result import GammaSearch
from substrate.paths.polynomial_minimum import (
    DEGREE,
    LEBESGUE,
    coefficients,
    interpolation_error,
    largest_on_cells,
    minimum_of_polynomial,
    points,
)
from substrate.paths.validation import Sum

__all__ = ["GAP", "PRICE", "gamma_ends", "grid_gamma", "lambda_range", "search_gamma", "search_spectra"]

#: Default relative distance between criterion and lower bound.
GAP = 1e-4
#: How much worse, relatively, the best machine of a range with a proof may be.
PRICE = 0.01
#: Length of the first intervals in t; shorter ones need more evaluations in all, longer ones are halved at once.
_LENGTH = 6.25
_MOST_INTERVALS = 2000
#: Share of the gap that the error of the decomposition may have at the end of a default range.
_SHARE = 0.08
#: An interval shorter than this is not halved for the sake of the decomposition's error, which hardly varies on it.
_SHORT = 0.25
#: Factor of the end of a default range where the gap is not proved.
_STEP = 10.0**0.5
#: Values this near each other, relatively, are a tie: the larger lambda, the smoother machine, wins.
_TIE = 1e-12
#: Points of a grid, equally spaced in log lambda, and how many of them are evaluated at once.
_GRID, _AT_ONCE = 400, 50


def lambda_range(spectra: Sequence[Spectral], gammas: Any = None) -> tuple[float, float]:
    """The range of lambda: from a given range of gamma, or all that matters to machines on these spectra.

    Above 10 trace(PKP) every machine is the mean of y; the lower end is 1e-11 of the trace, or where rounding of the
    kernel matrix begins to matter.
    """
    lift = max(spectrum.lift for spectrum in spectra)
    if gammas is None:
        trace, norm = max(spectrum.trace for spectrum in spectra), max(spectrum.norm for spectrum in spectra)
        noise = 1e3 * EPS * norm  # a constant kernel, whose trace is rounding, is measured by its own size
        scale = trace if trace > noise else (norm if norm > 0.0 else 1.0)
        low = max(1e-11 * scale, 1e5 * EPS * norm, 2.0 * lift)
        return low, max(10.0 * scale, 10.0 * low)
    lowest, highest = gamma_ends(gammas)
    low, high = 1.0 / highest, 1.0 / lowest
    if low <= lift:
        raise DeclarationError(
            f"K + I/gamma is not positive definite above gamma = {1.0 / lift:.3g}: the kernel matrix has the "
            f"eigenvalue {-lift:.3g}; end the range below that, or use a positive semi-definite kernel"
        )
    return low, high


def search_spectra(
    criterion: Criterion | Sum, spectra: Sequence[Spectrum], gammas: Any = None, gap: float = GAP
) -> GammaSearch:
    """Minimise over a given range of gamma, or over the range that matters, which ends where rounding fills the gap."""
    if gammas is not None:
        return search_gamma(criterion, lambda_range(spectra, gammas), gap)
    widest, high = lambda_range(spectra)
    low = max(widest, *(spectrum.lift + spectrum.unknown_below(_SHARE * gap) for spectrum in spectra))
    high = max(high, 10.0 * low)
    found = search_gamma(criterion, (low, high), gap)
    first = found
    while not found.closed and _STEP * low < high and (found.slack > 0.25 * gap * found.values).any():
        low *= _STEP
        found = search_gamma(criterion, (low, high), gap)
        if (found.values > (1.0 + max(gap, PRICE)) * first.values).any():
            return replace(first, ended=first.gamma_range[1] < 1.0 / widest)  # the proof would cost too much
    return replace(found, ended=low > widest)


def gamma_ends(gammas: Any) -> tuple[float, float]:
    """A range of gamma as an ascending pair of positive numbers."""
    return ascending_pair(gammas, "the range of gamma")


def search_gamma(
    criterion: Criterion | Sum, lambdas: tuple[float, float], gap: float = GAP, most_intervals: int = _MOST_INTERVALS
) -> GammaSearch:
    """Minimise a criterion over lambda between two ends, every output on its own."""
    gap = positive(gap, "gap")
    low, high = (float(np.log(value - criterion.lift)) for value in lambdas)
    count = max(1, int(np.ceil((high - low) / _LENGTH)))
    edges = np.linspace(low, high, count + 1)
    todo = np.column_stack([edges[:-1], edges[1:]])
    best = _Best(criterion, low, high, gap)
    bounds, slacks = np.full(criterion.outputs, np.inf), np.zeros(criterion.outputs)
    intervals = 0
    while todo.size:
        intervals += len(todo)
        pieces = best.explore(todo)
        again: list[tuple[float, float]] = []
        for piece in pieces:
            above, below = piece.lower - piece.error, piece.below
            # halving helps as long as the bound suffers from the interpolant rather than from rounding, or from the
            # decomposition's error at the far end of the interval
            open_still = below < (1.0 - 0.5 * gap) * best.values
            moved = (1.0 - piece.shrink**2 > 0.25 * gap) & (piece.stop - piece.start > _SHORT)
            halve = open_still & ((piece.error > 2.0 * piece.rounding) | moved)
            if halve.any() and intervals + len(again) + 2 <= most_intervals:
                middle = 0.5 * (piece.start + piece.stop)
                again += [(piece.start, middle), (middle, piece.stop)]
            else:
                # the effect of rounding: half of the error, and as much in bounding the interpolant
                taken = 3.0 * piece.rounding + np.maximum(above - below, 0.0)
                slacks = np.where(below < bounds, taken, slacks)
                bounds = np.minimum(bounds, below)
        todo = np.array(again)
    seen, curve = best.path()
    return GammaSearch(
        gamma=1.0 / (np.exp(best.places) + criterion.lift),
        values=best.values,
        bounds=np.minimum(np.maximum(bounds, 0.0), best.values),
        slack=np.minimum(slacks, best.values),
        unit=criterion.unit,
        gamma_range=(1.0 / lambdas[1], 1.0 / lambdas[0]),
        gap=gap,
        intervals=intervals,
        evaluations=best.evaluations,
        seen=1.0 / (np.exp(seen) + criterion.lift),
        curve=curve,
        floor=(30.0 * criterion.size * EPS) ** 2 * criterion.spread,
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """An interval with its interpolant's lower bound, error and rounding, and the decomposition's error.

    ``below`` is the bound that all of these leave.
    """

    start: float
    stop: float
    lower: Array
    error: Array
    rounding: Array
    shrink: Array
    below: Array


class _Best:
    """The best points so far, and the evaluation of intervals."""

    def __init__(self, criterion: Criterion | Sum, low: float, high: float, gap: float) -> None:
        self.criterion, self.low, self.high, self.gap = criterion, low, high, gap
        self.values = np.full(criterion.outputs, np.inf)
        self.places = np.full(criterion.outputs, high)
        self.evaluations = 0
        self._seen: list[tuple[Array, Array]] = []

    def explore(self, todo: Array) -> list[_Piece]:
        """Evaluate all intervals at once; then the interpolants' best points, which may lie between the nodes."""
        middle, half = todo.mean(axis=1)[:, None], 0.5 * (todo[:, 1] - todo[:, 0])[:, None]
        t = middle + half * points()
        samples = self.criterion.sample(t)
        self._take(t.ravel(), samples.values.reshape(t.size, -1))
        pieces, candidates = [], []
        for number, (start, stop) in enumerate(todo):
            piece, best_points = self._bounded(start, stop, samples, number)
            pieces.append(piece)
            candidates += [0.5 * (start + stop) + 0.5 * (stop - start) * x for x in best_points]
        if candidates:
            trial = np.clip(np.unique(candidates), self.low, self.high)[None, :]
            self._take(trial.ravel(), self.criterion.sample(trial).values[0])
        return pieces

    def _bounded(self, start: float, stop: float, samples: Samples, number: int) -> tuple[_Piece, list[float]]:
        criterion, values, ceiling = self.criterion, samples.values[number], samples.ceiling[number]
        shrink = np.ones(criterion.outputs) if samples.shrink is None else samples.shrink[number]
        eta = (criterion.size + 16) * EPS
        largest = values.max(axis=0)
        rounding = LEBESGUE * (5.0 * eta * (np.sqrt(largest * ceiling) + eta * ceiling) + 64.0 * DEGREE * EPS * largest)
        error = rounding + interpolation_error(0.5 * (stop - start), ceiling, criterion.cone, criterion.growth)
        series = coefficients(values)
        lower, below, best_points = np.empty(criterion.outputs), np.empty(criterion.outputs), []
        for k in range(criterion.outputs):
            known = float(self.values[k])
            found = minimum_of_polynomial(series[:, k], known, 0.1 * self.gap * known + float(rounding[k]))
            lower[k] = found.lower_bound
            # the decomposition's error falls along the interval: each cell of the interpolant has its own
            shift = 0.0 if samples.shifts is None else largest_on_cells(samples.shifts[number, :, k])
            roots = shrink[k] * np.sqrt(np.maximum(found.cells - error[k], 0.0)) - shift
            below[k] = float(np.square(np.maximum(roots, 0.0)).min())
            if found.value < known * (1.0 + _TIE):
                best_points.append(found.point)
        return _Piece(start, stop, lower, error, rounding, shrink, below), best_points

    def path(self) -> tuple[Array, Array]:
        """Every point at which the criterion was evaluated, gamma ascending, and its values there."""
        t, first = np.unique(np.concatenate([places for places, _ in self._seen]), return_index=True)
        return t[::-1], np.concatenate([values for _, values in self._seen])[first[::-1]]

    def _take(self, t: Array, values: Array) -> None:
        self.evaluations += t.size
        self._seen.append((t, values))
        for k in range(values.shape[1]):
            lowest = min(float(values[:, k].min()), float(self.values[k]))
            level = lowest * (1.0 + _TIE)
            places = t[values[:, k] <= level]
            held = self.places[k] if self.values[k] <= level else -np.inf
            self.places[k], self.values[k] = max(held, places.max(initial=-np.inf)), lowest


def grid_gamma(
    spectrum: Spectrum, Y: Array, lambdas: tuple[float, float], loss: Callable[[Array], Array], points: int = _GRID
) -> GammaSearch:
    """Evaluate ``loss`` of the residuals, from shape (N, lambdas, outputs) to (lambdas, gammas to choose).

    Of equal values the largest lambda wins, the smoothest machine.
    """
    targets = spectrum.targets(Y)
    low, high = (np.log(value - spectrum.lift) for value in lambdas)
    grid = np.exp(np.linspace(high, low, points)) + spectrum.lift
    losses = np.concatenate(
        [loss(to_numpy(spectrum.leave_one_out(targets, grid[k : k + _AT_ONCE]))) for k in range(0, points, _AT_ONCE)]
    )
    best = losses.argmin(axis=0)
    values = losses.min(axis=0)
    return GammaSearch(
        gamma=1.0 / grid[best],
        values=values,
        bounds=np.full(values.size, -np.inf),
        slack=np.zeros(values.size),
        unit=1.0,
        gamma_range=(1.0 / lambdas[1], 1.0 / lambdas[0]),
        gap=np.inf,
        intervals=0,
        evaluations=points,
        seen=1.0 / grid,
        curve=losses,
    )
