r"""Validation errors along exact paths, and a lower bound of them over all values of the parameter.

A machine minimises :math:`\tfrac12 x^T H x + (c + \rho g)^T x` under constraints without rho. Primal and dual points at
two knots interpolate to feasible points at every rho between them, and the duality gap along the chord is

.. math:: \mathrm{gap}(\theta) = (1-\theta)^2 g_1 + \theta^2 g_2 + \theta (1-\theta) c_{12},

with :math:`g_k` the gaps at the knots and :math:`c_{12}` the cross terms, slacks of one knot times multipliers of
the other. The optimum x* is near: :math:`\|x^* - x\|_H^2 \le \mathrm{gap}(\theta)`. If the validation errors are
affine in x and move by at most :math:`\sigma \|x - x'\|_H`, then

.. math:: \|e^v(x^*)\| \ge \|e^v(x_\theta)\| - \sigma \sqrt{\mathrm{gap}(\theta)} .

Both terms are square roots of quadratics in :math:`\theta`, so an interval is bounded by a handful of numbers; folds
add up. The minimum of the errors over all values of the parameter is read off the quadratics of all folds, with the
knots of all merged, and so is the bound: [Pelckmans2005]_ eq. (28) is solved to global optimality.

*Maximal variation* has :math:`u = \tilde y - \sum_l B^{lT} \xi^l`; from the multipliers alone, brought into their
balls, u and :math:`t_l = \|B^l u\|_\infty` are recomputed, so that

.. math:: g_k = \rho_k \sum_l t_l - \tilde y^T u + u^T u, \qquad
          c_{12} = \rho_1 1^T t_2 + \rho_2 1^T t_1 - \tilde y^T (u_1 + u_2) + 2 u_1^T u_2 .

The computed u is at a distance :math:`\delta` from the u of the multipliers, and its gap is larger by at most
:math:`\|u\| \delta + \tfrac12 \delta^2`. That, and the rounding of every sum, is in the gaps and cross terms.

*The L1 substrate* determines the fitted values f, but with a smooth kernel f hardly determines a, and thereby
predictions. It helps that :math:`\|a\|_1` is known, and that :math:`\|a^*\|_1` of the optimum is bounded:
:math:`\zeta \|a^*\|_1 \le \zeta \|a\|_1 + \|e\| r` with :math:`r^2` the gap. With any matrix W,

.. math:: \|(\Omega^v - 1 \bar k^T)(a - a^*)\| \le \|W\| \, r + \max_j \|E_j\| \, \|a - a^*\|_1,
          \qquad E = (\Omega^v - 1 \bar k^T - W P \Omega) P ,

and W is taken from a family of regularised inverses, the best of them. Support values that sum to s instead of zero
have a gap that is larger by at most :math:`|s| |\nu - \nu^\star|`, where
:math:`|\nu^\star| \le \zeta + \max_j \|\Omega_j\| \|y - \bar y\|`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.fits.coordinates import ComponentCoordinates
from substrate.fits.l1 import zeta_max
from substrate.fits.paths import Path, correlation_noise, l1_path, variation_path
from substrate.fits.variation import divide_from_right
from substrate.numbers import UNIT, at_most, relative_rounding
from substrate.select.gamma_search import STEP, least_beyond

__all__ = ["Fold", "ReadOff", "Track", "l1_fold", "l1_path_of", "read_off", "variation_fold"]

#: Columns whose entries differ by less than this share of the largest are constant.
_CONSTANT = 1e-9
#: Ridges, relative to the largest eigenvalue, from which the way from fitted values to predictions is chosen.
_RIDGES = 10.0 ** np.arange(-15.0, -2.0)
#: What a squared radius is enlarged by to add another one that is far smaller.
_SPARE = 1e-10
#: Parts into which an interval is cut before each is bounded by its worst point.
_PIECES = 16
#: Rounded operations between the coefficients of a track and the value of a sum of quadratics.
_OPERATIONS = 64.0
#: Numbers of a block of products.
_AT_ONCE = 600_000


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
        Squared distances, one per interval, by which they may move in addition.
    """

    values: Array
    errors: Array
    gaps: Array
    crosses: Array
    sigma: float | Array
    floors: Array | None = None

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


@dataclass(frozen=True, slots=True)
class Fold:
    """One training set, its path, and the track of one validation set; ``levels`` are the maximal variations."""

    path: Path
    track: Track
    levels: Array | None = None


def variation_fold(coordinates: ComponentCoordinates, y: Array, below: Array, y_val: Array) -> Fold:
    """Follow the path in rho; ``below`` takes v to the validation values without bias."""
    B = divide_from_right(coordinates.parts, coordinates.metric)
    target = coordinates.targets(y)
    path = variation_path(list(B), target)
    mean = coordinates.parts.sum(axis=0).mean(axis=0) if coordinates.bias else np.zeros(target.size)
    M = solve_triangular(coordinates.metric, (below - mean).T, trans="T").T
    return Fold(path, *_variation_track(B, target, path, M, y_val - (y.mean() if coordinates.bias else 0.0)))


def _variation_track(B: Array, target: Array, path: Path, M: Array, offsets: Array) -> tuple[Track, Array]:
    """Return the track from the multipliers of a path alone, and the levels; ``M`` takes u to the validation values,
    up to their offsets.
    """
    (d, n, r), flat = B.shape, B.reshape(-1, B.shape[2])
    xi, rho = path.dual, path.values
    # into the balls, by a factor that is one but for rounding
    knot, component, counts = np.repeat(np.arange(rho.size), np.diff(xi.indptr)), xi.indices // n, np.diff(xi.indptr)
    sums = np.bincount(knot * d + component, np.abs(xi.data), rho.size * d).reshape(-1, d)
    sizes = sums * (1.0 + relative_rounding(float(counts.max(initial=0)) + 4.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(sizes > rho[:, None], rho[:, None] / sizes, 1.0)
    xi = csr_array((xi.data * shares[knot, component], xi.indices, xi.indptr), shape=xi.shape)
    u = target - xi @ flat
    moves = at_most(UNIT) * (counts[:, None] + 4.0) * (abs(xi) @ np.abs(flat) + np.abs(target))
    levels, step = np.empty((rho.size, d)), max(1, _AT_ONCE // (d * n))
    for start in range(0, rho.size, step):
        block = slice(start, start + step)
        levels[block] = np.abs(u[block] @ flat.T).reshape(-1, d, n).max(axis=2)
    # gaps and cross terms are the same sums of products of two knots, of one with itself and of one with the other
    sizes_u, lengths = np.abs(u), np.linalg.norm(u, axis=1)
    steepest, lost = float(np.linalg.norm(B, axis=2).max(axis=1).sum()), at_most(UNIT) * (r + d + 8.0)

    def gap(first: slice, second: slice) -> tuple[Array, Array]:
        dots = np.einsum("kr,kr->k", u[first], u[second])
        value = rho[first] * levels[second].sum(axis=1) - u[second] @ target + dots
        sums = rho[first] * steepest * lengths[second] + sizes_u[second] @ np.abs(target)
        sums = lost * (sums + np.einsum("kr,kr->k", sizes_u[first], sizes_u[second]))
        shift = np.einsum("kr,kr->k", sizes_u[first] + 0.5 * moves[first], moves[second])
        return value, at_most(1.0) * (sums + shift)

    low, high = slice(None, -1), slice(1, None)
    (knot_gaps, rounded), (first, before), (second, after) = (
        gap(*pair) for pair in ((slice(None), slice(None)), (low, high), (high, low))
    )
    sigma = (1.0 + relative_rounding(16.0 * sum(M.shape))) * float(np.linalg.norm(M, 2)) if M.size else 0.0
    radii = relative_rounding(r + 4.0) * lengths * float(np.linalg.norm(M))
    radii = at_most(1.0) * (radii + relative_rounding(2.0) * float(np.linalg.norm(offsets)))
    sigma, floors = _with_error_radii(sigma, None, radii)
    gaps, crosses = np.maximum(knot_gaps, 0.0) + rounded, np.maximum(first + second, 0.0) + before + after
    return Track(values=rho, errors=offsets - u @ M.T, gaps=gaps, crosses=crosses, sigma=sigma, floors=floors), levels


def l1_fold(Phi: Array, y: Array, below: Array, y_val: Array, zeta_min: float | None = None) -> Fold:
    """Follow the path in zeta; ``below`` are the kernel rows of the validation points."""
    path = l1_path_of(Phi, y, zeta_min)
    # the bias absorbs what is taken off a column, and rounding counts the values that are left; each is rounded once
    # more, by u of itself, for which a relative_rounding of one operation or more, 2 u each, has room
    offsets = Phi.mean(axis=0)
    return Fold(path, _l1_track(Phi - offsets, y, path, below - offsets, y_val))


def l1_path_of(Phi: Array, y: Array, zeta_min: float | None = None) -> Path:
    """Return the path in zeta; of a kernel that is constant but for rounding, nothing but the bias."""
    centre = Phi - Phi.mean(axis=0)
    if float(np.abs(centre).max()) <= _CONSTANT * float(np.abs(Phi).max()):
        zeta_min = 2.0 * zeta_max(Phi, y) + 1e3 * correlation_noise(Phi, y)
    return l1_path(Phi, y, zeta_min)


def _l1_track(Phi: Array, y: Array, path: Path, below: Array, y_val: Array) -> Track:
    a, zeta, nu, n = path.primal, path.values, path.dual[:, 0], float(y.size)
    count, sizes, sums = float(np.diff(a.indptr).max(initial=0)), abs(a).sum(axis=1), a.sum(axis=1)
    columns = np.linalg.norm(Phi, axis=0)
    e = y - a @ Phi.T
    e = e - e.mean(axis=1, keepdims=True)
    lengths, c = np.linalg.norm(e, axis=1), e @ Phi
    # the errors are known to the rounding of their terms, correlations to that and to the rounding of theirs
    off = relative_rounding(count + n + 4.0) * np.linalg.norm(abs(a) @ np.abs(Phi).T + np.abs(y), axis=1)
    deviation = at_most(1.0) * float(columns.max(initial=0.0)) * (off + relative_rounding(n) * (lengths + off))
    largest = np.abs(c).max(axis=1)
    # where correlations exceed zeta by x, ||f - f*||^2 <= zeta |a|_1 - (c - nu)'a + x |a*|_1, and
    # zeta |a*|_1 <= zeta |a|_1 + ||e|| ||f - f*||
    excess = np.maximum(np.abs(c - nu[:, None]).max(axis=1) - zeta, 0.0)
    excess = excess + deviation + relative_rounding(4.0) * (largest + np.abs(nu) + zeta)
    balance = np.array([abs(math.fsum(a.data[start:stop])) for start, stop in pairwise(a.indptr.tolist())])
    spread = float(np.linalg.norm(y - y.mean()))
    unbalanced = balance * at_most(1.0) * (np.abs(nu) + zeta + float(columns.max(initial=0.0)) * spread)
    each = excess + at_most(1.0) * (deviation + relative_rounding(count + 8.0) * (largest + np.abs(nu) + zeta))

    def slack(first: slice, second: slice) -> Array:
        """Return zeta |a| - (c - nu)'a with zeta, c and nu of one knot and a of the other, and its rounding."""
        aligned = np.asarray(a[second].multiply(c[first]).sum(axis=1)).ravel() - nu[first] * sums[second]
        return np.asarray(zeta[first] * sizes[second] - aligned + each[first] * sizes[second])

    low, high = slice(None, -1), slice(1, None)
    knot_gaps = slack(slice(None), slice(None))
    gaps = np.maximum(knot_gaps, each * sizes) + unbalanced
    crosses = slack(low, high) + slack(high, low) + 2.0 * np.maximum(unbalanced[:-1], unbalanced[1:])
    gaps, crosses = _with_excess(zeta, gaps, crosses, excess, lengths + off)
    centred = below - Phi.mean(axis=0)
    errors = y_val - y.mean() - a @ centred.T
    added = np.linalg.norm(abs(a) @ (np.abs(below) + np.abs(Phi).mean(axis=0)).T, axis=1)
    added = added + float(np.linalg.norm(np.abs(y_val) + np.abs(y).mean()))
    error_radii = at_most(1.0) * (relative_rounding(count + n + 8.0) * added)
    worst = np.sqrt(np.maximum(gaps[:-1], gaps[1:]) + 0.25 * np.maximum(crosses, 0.0))
    beyond = np.maximum(lengths[:-1], lengths[1:]) * worst
    distances = 2.0 * np.maximum(sizes[:-1], sizes[1:])
    # at zeta = 0 the 1-norm of the optimum is not bounded
    distances += np.divide(beyond, zeta[:-1], out=np.full_like(beyond, np.inf), where=zeta[:-1] > 0.0)
    sigma, floors = _with_error_radii(*_way_to_predictions(Phi, centred, worst, distances), error_radii)
    return Track(values=zeta, errors=np.asarray(errors), gaps=gaps, crosses=crosses, sigma=sigma, floors=floors)


def _with_error_radii(sigma: Any, floors: Array | None, radii: Array) -> tuple[Any, Array]:
    r"""Return sigma and floors, which are one per interval, that cover radii of the errors of the knots too.

    :math:`(x + y)^2 \le (1 + s) x^2 + (1 + 1/s) y^2`.
    """
    most = np.maximum(radii[:-1], radii[1:])
    before = np.zeros_like(most) if floors is None else floors
    return math.sqrt(1.0 + _SPARE) * sigma, (1.0 + _SPARE) * before + (1.0 + 1.0 / _SPARE) * np.square(most)


def _with_excess(zeta: Array, gaps: Array, crosses: Array, excess: Array, lengths: Array) -> tuple[Array, Array]:
    """Return gaps and cross terms with what the 1-norm of the optimum adds: r^2 <= c + b r, so r^2 <= c + b sqrt(c) +
    b^2.
    """

    def extra(c: Array, x: Array, length: Array, low: Array) -> Array:
        b = np.divide(x * length, low, out=np.zeros_like(low), where=low > 0.0)  # floors cover the unknown at zero
        return np.asarray(b * (np.sqrt(c) + b))

    def both(rows: Array) -> Array:
        return np.asarray(np.maximum(rows[:-1], rows[1:]))

    inside = extra(both(gaps) + 0.25 * np.maximum(crosses, 0.0), both(excess), both(lengths), zeta[:-1])
    more = extra(gaps, excess, lengths, zeta)
    more[:-1], more[1:] = np.maximum(more[:-1], inside), np.maximum(more[1:], inside)
    # a constant is (1-th)^2 + th^2 + 2 th (1-th) times itself
    return gaps + more, np.maximum(crosses, 0.0) + 2.0 * inside


def _way_to_predictions(Phi: Array, below: Array, radii: Array, distances: Array) -> tuple[Array, Array]:
    """Return sigma and floors, one each per interval, from the W of the family that gives the best bound."""
    # both a and a* sum to zero, so that only what is orthogonal to 1 counts on either side
    centre = Phi - Phi.mean(axis=0)
    centre = centre - centre.mean(axis=1, keepdims=True)
    U, s, Vt = np.linalg.svd(centre, full_matrices=False)
    below = below - below.mean(axis=1, keepdims=True)
    # what the decomposition leaves, by its own residuals, and the rounding of means and products
    n = float(sum(Phi.shape))
    skew = float(np.linalg.norm(U.T @ U - np.eye(s.size))) + relative_rounding(n + 8.0) * s.size
    residue = float(np.linalg.norm(centre - (U * s) @ Vt)) + relative_rounding(n + 8.0) * float(np.linalg.norm(Phi))
    residue = at_most(residue + relative_rounding(n + 8.0) * float(s.sum()) + skew * float(s[0]))
    rounded = at_most(relative_rounding(n + 8.0) * float(np.linalg.norm(np.abs(below).max(axis=1, initial=0.0))))
    best, sigma, floors = np.full(radii.size, np.inf), np.zeros(radii.size), np.full(radii.size, np.inf)
    along = below @ Vt.T
    for ridge in _RIDGES * float(s[0]):
        # s / (s^2 + ridge^2), without squares that underflow
        W = along * np.divide(1.0, s + ridge * (ridge / np.where(s > 0.0, s, 1.0)), out=np.zeros_like(s), where=s > 0.0)
        E = below - (W * s) @ Vt
        E = E - 0.5 * (E.max(axis=1) + E.min(axis=1))[:, None]
        size = (1.0 + 1e-9) * (1.0 + skew) * float(np.linalg.norm(W, 2))
        products = relative_rounding(n + 8.0) * float(np.linalg.norm(W * s))
        remainder = float(np.linalg.norm(E, axis=0).max()) + size * residue + at_most(products) + 2.0 * rounded
        better = size * radii + remainder * distances < best
        best[better] = (size * radii + remainder * distances)[better]
        # (x + y)^2 <= 2 x^2 + 2 y^2
        sigma[better], floors[better] = np.sqrt(2.0) * size, 2.0 * (remainder * distances[better]) ** 2
    return sigma, floors


@dataclass(frozen=True, slots=True)
class ReadOff:
    """The best value, its mean squared error, the bound, and the merged path.

    Parameters
    ----------
    value, error, lower_bound
        The parameter that validates best, its error, and a bound below which no other value falls.
    values, errors
        The merged knots, and the error at each.
    coverage
        The values for which the bound holds.
    ended
        Whether the coverage ends above the lowest knot: where rounding reaches the gap, or where ``begin`` is.
    minima
        How many segments have a local minimum inside.
    beyond, least_squares_seen
        The least error to expect below the coverage, seen there or where its fall over the last decade goes on; and the
        least that was seen.
    """

    value: float
    error: float
    lower_bound: float
    values: Array
    errors: Array
    coverage: tuple[float, float]
    minima: int
    ended: bool = False
    beyond: float = np.inf
    least_squares_seen: float = np.inf

    @property
    def at_lower_end(self) -> bool:
        """Return whether the best value is the smallest covered, so that smaller ones may be better."""
        return self.coverage[0] > 0.0 and self.value <= self.coverage[0] * (1.0 + 1e-9)


def read_off(folds: Sequence[Fold], gap: float | None = None, begin: float = 0.0) -> ReadOff:
    """Minimise the error of all tracks together over the values that every path covers, from ``begin`` on.

    With a ``gap``, only down to where the bound is within that share of the error: below that the bound is not claimed.
    """
    tracks, paths = [fold.track for fold in folds], [fold.path for fold in folds]
    rows = sum(track.errors.shape[1] for track in tracks)
    lowest = max(float(path.values[0]) for path in paths)
    low, top = max(lowest, begin), min(path.highest for path in paths)
    high = max(float(path.values[-1]) for path in paths) if math.isinf(top) else top
    if low > high:
        raise DataError(f"the paths of the folds have no value in common: {low:g} is above {high:g}")
    inside = np.unique(np.concatenate([track.values for track in tracks]))
    values = np.unique(np.concatenate([[low], inside[(inside >= low) & (inside <= high)], [high]]))
    if values.size == 1:
        error = sum(float(np.square(track.errors[-1]).sum()) for track in tracks) / rows
        return ReadOff(
            value=low,
            error=error,
            lower_bound=error,
            values=values,
            errors=np.array([error]),
            coverage=(low, np.inf),
            minima=0,
        )
    errors, radii = _merge(tracks, values)
    squares, places = _least(errors, 0.0, 1.0)
    bounds = _interval_bounds(errors, radii, max(int(track.errors.shape[1]) for track in tracks))
    seen = float(squares.min())
    beyond = _estimate_beyond(values, errors, seen)
    first = 0 if gap is None else _find_first_within(bounds, squares, gap)
    values, errors, squares, places = values[first:], errors[first:], squares[first:], places[first:]
    k = int(squares.argmin())
    return ReadOff(
        value=float(values[k] + places[k] * (values[k + 1] - values[k])),
        error=float(squares[k]) / rows,
        lower_bound=min(float(bounds[first:].min()), float(squares[k])) / rows,
        values=values,
        errors=np.append(errors[:, 0], errors[-1].sum()) / rows,
        coverage=(float(values[0]), top),
        minima=int(np.count_nonzero((places > 0.0) & (places < 1.0))),
        ended=float(values[0]) > lowest,
        beyond=beyond / rows,
        least_squares_seen=seen / rows,
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


def _find_first_within(bounds: Array, squares: Array, gap: float) -> int:
    """Return the first interval from which on the bound is within the gap of the best error; zero without such an
    interval.
    """
    lowest = np.minimum.accumulate(bounds[::-1])[::-1]
    best = np.minimum.accumulate(squares[::-1])[::-1]
    within = np.flatnonzero(lowest >= (1.0 - gap) * best)
    return int(within[0]) if within.size else 0


def _merge(tracks: Sequence[Track], values: Array) -> tuple[Array, Array]:
    """Return the quadratics of all tracks added up, on the intervals of a common list of knots.

    Each track's own knots are among ``values``; between them it is interpolated: a part of a chord is a chord, with the
    gap of the whole chord there. Beyond its last knot a track is constant.
    """
    errors, gaps = np.zeros((values.size - 1, 3)), np.zeros((values.size - 1, 3))
    for track in tracks:
        inside = values[:-1] < track.values[-1]
        if inside.any():
            own_errors, own_gaps = track.quadratics()
            where = np.clip(np.searchsorted(track.values, values[:-1][inside], side="right") - 1, 0, None)
            low, width = track.values[where], np.diff(track.values)[where]
            start, stop = (values[:-1][inside] - low) / width, (values[1:][inside] - low) / width
            errors[inside] += _rescale(own_errors[where], start, stop)
            gaps[inside] += _rescale(own_gaps[where], start, stop)
        errors[~inside, 0] += float(track.errors[-1] @ track.errors[-1])
        last_sigma = np.ravel(track.sigma)[-1:]  # none for a single knot, which is exact
        gaps[~inside, 0] += float(np.square(last_sigma).sum()) * float(track.gaps[-1])
    return errors, gaps


def _rescale(quadratic: Array, start: Array, stop: Array) -> Array:
    """Return the same quadratics in a variable that runs from 0 to 1 between two values of the old one."""
    c, b, a = quadratic.T
    step = stop - start
    return np.column_stack([c + b * start + a * start**2, (b + 2.0 * a * start) * step, a * step**2])


def _interval_bounds(errors: Array, gaps: Array, rows: int) -> Array:
    """Return for every interval a lower bound of the sum of squared validation errors.

    ``rows`` is the largest number of validation rows of a track, whose sums are rounded.
    """
    lowest, lost = np.full(errors.shape[0], np.inf), relative_rounding(rows + _OPERATIONS)
    rounding = [lost * np.abs(quadratics).sum(axis=1) for quadratics in (errors, gaps)]
    for start, stop in pairwise(np.linspace(0.0, 1.0, _PIECES + 1)):
        low = _least(errors, start, stop)[0] - rounding[0]
        greatest = -_least(-gaps, start, stop)[0]
        radius = np.sqrt(np.maximum(greatest, 0.0) + rounding[1])
        lowest = np.minimum(lowest, np.maximum(np.sqrt(np.maximum(low, 0.0)) - radius, 0.0) ** 2)
    return lowest


def _least(quadratic: Array, start: float, stop: float) -> tuple[Array, Array]:
    """Return the minimum of quadratics on an interval, and where."""
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = -quadratic[:, 1] / (2.0 * quadratic[:, 2])
    vertex = np.clip(np.where(np.isfinite(vertex), vertex, start), start, stop)
    places = np.array([np.full_like(vertex, start), vertex, np.full_like(vertex, stop)])
    values = quadratic[:, 0] + places * (quadratic[:, 1] + places * quadratic[:, 2])
    best, every = values.argmin(axis=0), np.arange(vertex.size)
    return values[best, every], places[best, every]
