"""The global optimum over all folds, read off exact paths: one quadratic per segment, with the knots of all merged."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.penalized.homotopy.chord_certificate import (
    ChordSource,
    Track,
    interval_bounds,
    least,
    lowest_by_chords,
    merge_tracks,
)
from substrate.penalized.homotopy.knots import Path
from substrate.search.range_end import STEP, least_beyond

__all__ = ["ReadOff", "read_off"]


@dataclass(frozen=True, slots=True)
class ReadOff:
    """The best value, its mean squared error, the bound, and the merged path.

    Parameters
    ----------
    value, error, lower_bound
        The parameter that validates best, its error, and a bound below which no other value falls; the bound is minus
        infinity where a path has holes.
    values, errors
        The merged knots, and the error at each.
    coverage, holes
        The values for which the bound holds, and the intervals for which it does not.
    ended
        Whether the coverage ends above the lowest knot: where rounding reaches the gap, or where ``begin`` is.
    minima
        How many segments have a local minimum inside.
    beyond, seen
        The least error to expect below the coverage, seen there or where its fall over the last decade goes on; and the
        least that was seen.
    """

    value: float
    error: float
    lower_bound: float
    values: Array
    errors: Array
    coverage: tuple[float, float]
    holes: tuple[tuple[float, float], ...]
    minima: int
    ended: bool = False
    beyond: float = np.inf
    least_squares_seen: float = np.inf

    @property
    def at_lower_end(self) -> bool:
        """Whether the best value is the smallest covered, so that smaller ones may be better."""
        return self.coverage[0] > 0.0 and self.value <= self.coverage[0] * (1.0 + 1e-9)


def read_off(
    tracks: Sequence[Track | ChordSource], paths: Sequence[Path], gap: float | None = None, begin: float = 0.0
) -> ReadOff:
    """Minimise the error of all tracks together over the values that every path covers, from ``begin`` on.

    With a ``gap``, only down to where the bound is within that share of the error: below that the bound is not claimed.
    Where none of the tracks has its gaps yet, they are computed as far as the bound needs them.
    """
    rows = sum(track.errors.shape[1] for track in tracks)
    lowest = max(float(path.values[0]) for path in paths)
    low = max(lowest, begin)
    high = max(float(path.values[-1]) for path in paths)
    if not all(path.constant_above for path in paths):
        high = min(float(path.values[-1]) for path in paths if not path.constant_above)
    if not low < high and not low == high:
        raise DataError(f"the paths of the folds have no value in common: {low:g} is above {high:g}")
    holes = tuple(sorted({hole for path in paths for hole in path.holes if hole[1] > low and hole[0] < high}))
    inside = np.unique(np.concatenate([track.values for track in tracks]))
    values = np.unique(np.concatenate([[low], inside[(inside >= low) & (inside <= high)], [high]]))
    if values.size == 1:
        square = sum(float(np.square(track.errors[-1]).sum()) for track in tracks)
        return ReadOff(
            value=low,
            error=square / rows,
            lower_bound=square / rows,
            values=values,
            errors=np.array([square / rows]),
            coverage=(low, np.inf),
            holes=(),
            minima=0,
        )
    sources = [track for track in tracks if not isinstance(track, Track)]
    if gap is not None or len(sources) < len(tracks):
        errors, radii = merge_tracks([track if isinstance(track, Track) else track.track() for track in tracks], values)
        squares, places = least(errors, 0.0, 1.0)
        bounds, _ = interval_bounds(errors, radii, int(rows))
    else:
        errors, _ = merge_tracks([_without_gaps(source) for source in sources], values)
        squares, places = least(errors, 0.0, 1.0)
        bounds = np.array([lowest_by_chords(sources, low, high, float(squares.min()))])
    least_squares_seen = float(squares.min())
    beyond = _estimate_beyond(values, errors, least_squares_seen)
    first = 0 if gap is None or holes else _find_first_within(bounds, squares, gap)
    values, errors, squares, places = values[first:], errors[first:], squares[first:], places[first:]
    bounds, low = bounds[first:], float(values[0])
    claimed = np.ones(squares.size, dtype=bool)
    for start, stop in holes:
        claimed &= ~((values[:-1] < stop) & (values[1:] > start))
    k = int(np.where(claimed, squares, np.inf).argmin())
    at_knots = np.append(errors[:, 0], errors[-1].sum())
    lower = -np.inf if holes else min(float(bounds.min()), float(squares[k]))
    top = np.inf if all(path.constant_above for path in paths) else high
    inner = int(np.count_nonzero((places > 0.0) & (places < 1.0)))
    value = float(values[k] + places[k] * (values[k + 1] - values[k]))
    return ReadOff(
        value=value,
        error=float(squares[k]) / rows,
        lower_bound=lower / rows,
        values=values,
        errors=at_knots / rows,
        coverage=(low, top),
        holes=holes,
        minima=inner,
        ended=low > lowest,
        beyond=beyond / rows,
        least_squares_seen=least_squares_seen / rows,
    )


def _estimate_beyond(values: Array, errors: Array, least: float) -> float:
    """Return the least sum of squares to expect, of all segments and below them; ``errors`` are quadratics on the
    segments.
    """
    if values[0] <= 0.0 or STEP * values[0] > values[-1]:
        return least
    number = int(np.clip(np.searchsorted(values, STEP * values[0], side="right") - 1, 0, values.size - 2))
    s = (STEP * values[0] - values[number]) / (values[number + 1] - values[number])
    before = float((errors[number] * s ** np.arange(errors.shape[1])).sum())
    # knots far below may move a machine as much as those near the end: its fall is taken for a steady one
    return min(least, float(least_beyond(least, errors[0, 0], before, 2.0 * before - errors[0, 0])))


def _without_gaps(source: ChordSource) -> Track:
    """Return the errors alone, as those of a path that is exact."""
    none = np.zeros(source.values.size)
    return Track(values=source.values, errors=source.errors, gaps=none, crosses=none[1:], sigma=0.0)


def _find_first_within(bounds: Array, squares: Array, gap: float) -> int:
    """Return the first interval from which on the bound is within the gap of the best error; zero where there is
    none.
    """
    lowest = np.minimum.accumulate(bounds[::-1])[::-1]
    best = np.minimum.accumulate(squares[::-1])[::-1]
    within = np.flatnonzero(lowest >= (1.0 - gap) * best)
    return int(within[0]) if within.size else 0
