r"""A lower bound of the validation error over all values of a parameter, from knots computed by any solver.

A machine minimises :math:`\tfrac12 x^T H x + (c + \rho g)^T x` under constraints without rho. Primal and dual points at
two knots interpolate to feasible points at every rho between them, and the duality gap along the chord is

.. math:: \mathrm{gap}(\theta) = (1-\theta)^2 g_1 + \theta^2 g_2 + \theta (1-\theta) c_{12},

with :math:`g_k` the gaps at the knots and :math:`c_{12}` the cross terms, slacks of one knot times multipliers of
the other. The optimum x* is near: :math:`\|x^* - x\|_H^2 \le \mathrm{gap}(\theta)`. If the validation errors are
affine in x and move by at most :math:`\sigma \|x - x'\|_H`, then

.. math:: \|e^v(x^*)\| \ge \|e^v(x_\theta)\| - \sigma \sqrt{\mathrm{gap}(\theta)} .

Both terms are square roots of quadratics in :math:`\theta`, so an interval is bounded by a handful of numbers; folds
add up. [Pelckmans2005]_ eq. (28) is solved to global optimality by this bound and a search.

A chord need not join neighbours: one over many knots of an exact path has a larger gap, and is still a proof.
:func:`lowest_by_chords` bounds most of a path by few chords, and goes from knot to knot only where a chord leaves room
for an error below the best one known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DeclarationError

__all__ = [
    "ChordSource",
    "Track",
    "find_settled",
    "interval_bounds",
    "least",
    "lowest_by_chords",
    "merge_tracks",
    "most_rows",
]

#: Parts into which an interval is cut before each is bounded by its worst point.
_PIECES = 16
#: Knots under one chord at first.
_STRIDE = 16
_ROUNDING = 1e-12
#: Rounded operations between the coefficients of a track and the value of a sum of quadratics.
_OPERATIONS = 64.0


@dataclass(frozen=True, slots=True)
class Track:
    """One path and one validation set: the quantities that the bound needs.

    Parameters
    ----------
    values
        The parameter at the knots, ascending; the path is constant beyond the last one.
    errors
        Validation errors at the knots, one row per knot.
    gaps
        Duality gaps at the knots, increased by the infeasibility of the points.
    crosses
        The cross terms, one per interval.
    sigma
        How far validation errors move when x moves by one in the norm of H, one number or one per interval; infinity
        where they are not determined.
    floors
        Squared distances, one per interval, by which they may move in addition (see
        :mod:`substrate.penalized.homotopy.tracks`).
    """

    values: Array
    errors: Array
    gaps: Array
    crosses: Array
    sigma: float | Array
    floors: Array | None = None

    def squares(self) -> Array:
        """Return the validation error at the knots, as a sum of squares."""
        return np.asarray(np.einsum("kv,kv->k", self.errors, self.errors))

    def quadratics(self) -> tuple[Array, Array]:
        """Return coefficients (1, theta, theta^2) of ||e(theta)||^2 and of the squared radius, one row per interval."""
        e1, step = self.errors[:-1], np.diff(self.errors, axis=0)
        dot = "kv,kv->k"
        errors = np.column_stack([np.einsum(dot, e1, e1), 2.0 * np.einsum(dot, e1, step), np.einsum(dot, step, step)])
        g1, g2, cross = self.gaps[:-1], self.gaps[1:], np.maximum(self.crosses, 0.0)
        gaps = np.column_stack([g1, cross - 2.0 * g1, g1 + g2 - cross])
        radii = gaps * np.square(np.broadcast_to(self.sigma, g1.shape))[:, None]
        if self.floors is not None:
            radii[:, 0] += self.floors
        return errors, radii


class ChordSource(Protocol):
    """A path of which gaps and cross terms are computed for the knots that are asked for."""

    @property
    def values(self) -> Array:
        """The parameter at the knots, ascending."""

    @property
    def errors(self) -> Array:
        """Validation errors at the knots, one row per knot."""

    def track(self, chosen: NDArray[np.int64] | None = None) -> Track:
        """Return the track of the knots with these numbers, ascending, the first and the last among them; or of all."""


def lowest_by_chords(paths: Sequence[ChordSource], low: float, high: float, best: float) -> float:
    """Return a lower bound of the sum of squared validation errors of all paths together between two values.

    Chords over many knots suffice where their bound is at least ``best``; elsewhere every knot is used.
    """
    chosen = [np.unique(np.append(np.arange(0, path.values.size, _STRIDE), path.values.size - 1)) for path in paths]
    while True:
        tracks = [path.track(knots) for path, knots in zip(paths, chosen, strict=True)]
        inside = np.concatenate([track.values for track in tracks])
        values = np.unique(np.concatenate([[low], inside[(inside > low) & (inside < high)], [high]]))
        bounds, _ = interval_bounds(*merge_tracks(tracks, values), most_rows(tracks))
        midpoints = 0.5 * (values[:-1] + values[1:])[~(bounds >= best)]
        finer = [_every_knot(path.values, knots, midpoints) for path, knots in zip(paths, chosen, strict=True)]
        if all(new.size == knots.size for new, knots in zip(finer, chosen, strict=True)):
            return float(bounds.min())
        chosen = finer


def _every_knot(values: Array, chosen: NDArray[np.int64], places: Array) -> NDArray[np.int64]:
    """Return the chosen knots, and all under the chords that these places lie on."""
    every = np.arange(values.size)
    on = np.searchsorted(values[chosen], places, side="right")
    return every[np.isin(every, chosen) | np.isin(np.searchsorted(values[chosen], values, side="right"), on)]


def most_rows(tracks: Sequence[Track]) -> int:
    """Return the largest number of validation rows."""
    return max(int(track.errors.shape[1]) for track in tracks)


def merge_tracks(tracks: Sequence[Track], values: Array) -> tuple[Array, Array]:
    """Return the quadratics of all tracks added up, on the intervals of a common list of knots.

    Each track's own knots are among ``values``; between them it is interpolated: a part of a chord is a chord, and its
    gap is that of the whole chord there. Beyond its last knot a track is constant.
    """
    for track in tracks:
        inside = track.values[(track.values >= values[0]) & (track.values <= values[-1])]
        if not np.isin(inside, values).all() or values[0] < track.values[0]:
            raise DeclarationError(
                "the common knots must hold every knot of each track between their ends, and start where all have begun"
            )
    errors, gaps = np.zeros((values.size - 1, 3)), np.zeros((values.size - 1, 3))
    for track in tracks:
        own_errors, own_gaps = track.quadratics()
        last = track.values.size - 2
        where = np.clip(np.searchsorted(track.values, values[:-1], side="right") - 1, 0, max(last, 0))
        beyond = values[:-1] >= track.values[-1]
        if last < 0:
            beyond = np.ones(values.size - 1, dtype=bool)
        else:
            low, width = track.values[where], np.diff(track.values)[where]
            start, stop = (values[:-1] - low) / width, (values[1:] - low) / width
            errors[~beyond] += _rescale(own_errors[where], start, stop)[~beyond]
            gaps[~beyond] += _rescale(own_gaps[where], start, stop)[~beyond]
        errors[beyond, 0] += float(track.errors[-1] @ track.errors[-1])
        last_sigma = np.ravel(track.sigma)[-1:]  # none for a single knot, which is exact
        gaps[beyond, 0] += float(np.square(last_sigma).sum()) * float(track.gaps[-1])
    return errors, gaps


def _rescale(quadratic: Array, start: Array, stop: Array) -> Array:
    """Return the same quadratics in a variable that runs from 0 to 1 between two values of the old one."""
    c, b, a = quadratic.T
    step = stop - start
    return np.column_stack([c + b * start + a * start**2, (b + 2.0 * a * start) * step, a * step**2])


def interval_bounds(errors: Array, gaps: Array, rows: int = 0) -> tuple[Array, Array]:
    """Return for every interval a lower bound of the sum of squared validation errors, and where in [0, 1] it is
    attained.

    ``rows`` is the largest number of validation rows of a track, whose sums are rounded.
    """
    edges = np.linspace(0.0, 1.0, _PIECES + 1)
    lowest = np.full(errors.shape[0], np.inf)
    place = np.zeros(errors.shape[0])
    lost = relative_rounding(rows + _OPERATIONS)
    rounding = [lost * np.abs(quadratics).sum(axis=1) for quadratics in (errors, gaps)]
    for start, stop in pairwise(edges):
        low, at = least(errors, start, stop)
        low = low - rounding[0]
        radius = np.sqrt(np.maximum(_greatest(gaps, start, stop), 0.0) + rounding[1])
        bound = np.maximum(np.sqrt(np.maximum(low, 0.0)) - radius, 0.0) ** 2
        better = bound < lowest
        lowest[better], place[better] = bound[better], at[better]
    return lowest, place


def find_settled(errors: Array, gaps: Array, best: float) -> NDArray[np.bool_]:
    """Return intervals that a further knot cannot improve: no better error on the chord, and the gap of its ends."""
    ends = np.maximum(gaps[:, 0], gaps.sum(axis=1))
    middle = _at(gaps, np.full(gaps.shape[0], 0.5))
    return np.asarray((middle <= ends) & (least(errors, 0.0, 1.0)[0] >= best * (1.0 - _ROUNDING)))


def _at(quadratic: Array, theta: Array) -> Array:
    return np.asarray(quadratic[:, 0] + theta * (quadratic[:, 1] + theta * quadratic[:, 2]))


def _vertex(quadratic: Array, start: float, stop: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = -quadratic[:, 1] / (2.0 * quadratic[:, 2])
    return np.clip(np.where(np.isfinite(vertex), vertex, start), start, stop)


def least(quadratic: Array, start: float, stop: float) -> tuple[Array, Array]:
    """Return the minimum of convex quadratics on an interval, and where."""
    candidates = (
        np.full(quadratic.shape[0], start),
        _vertex(quadratic, start, stop),
        np.full(quadratic.shape[0], stop),
    )
    values = np.array([_at(quadratic, theta) for theta in candidates])
    best = values.argmin(axis=0)
    every = np.arange(best.size)
    return values[best, every], np.array(candidates)[best, every]


def _greatest(quadratic: Array, start: float, stop: float) -> Array:
    """Return the maximum of quadratics on an interval."""
    thetas = (np.full(quadratic.shape[0], start), _vertex(quadratic, start, stop), np.full(quadratic.shape[0], stop))
    return np.asarray(np.max([_at(quadratic, theta) for theta in thetas], axis=0))
