r"""Exact paths and validation sets: the input of the chord certificate, and the global optimum over all folds.

*Maximal variation* has :math:`u = \tilde y - \sum_l B^{lT} \xi^l`; from the multipliers alone, brought into their
balls, u and :math:`t_l = \|B^l u\|_\infty` are recomputed, so that

.. math:: g_k = \rho_k \sum_l t_l - \tilde y^T u + u^T u, \qquad
          c_{12} = \rho_1 1^T t_2 + \rho_2 1^T t_1 - \tilde y^T (u_1 + u_2) + 2 u_1^T u_2 .

*The L1 substrate* determines the fitted values f, but with a smooth kernel f hardly determines a, and thereby
predictions. It helps that :math:`\|a\|_1` is known, and that of the optimum too:
:math:`\zeta \|a^*\|_1 \le \zeta \|a\|_1 + \|e\| r` with :math:`r^2` the gap. With any matrix W,

.. math:: \|(\Omega^v - 1 \bar k^T)(a - a^*)\| \le \|W\| \, r + \max_j \|E_j\| \, \|a - a^*\|_1,
          \qquad E = (\Omega^v - 1 \bar k^T - W P \Omega) P ,

and W is taken from a family of regularised inverses, the best of them.

The global optimum is read off exact paths: one quadratic per segment, with the knots of all folds merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from substrate.arrays import Array
from substrate.closed_form.component_coordinates import ComponentCoordinates
from substrate.closed_form.l1_active_set import correlation_noise, zeta_max
from substrate.closed_form.maximal_variation import right_divided
from substrate.errors import DataError
from substrate.paths.chord_certificate import Track, interval_bounds, least, merged
from substrate.paths.homotopies import l1_path, variation_path
from substrate.paths.knots import Path, SparseRows

__all__ = ["L1Fold", "ReadOff", "VariationFold", "read_off"]

#: Columns whose entries differ by less than this share of the largest are constant.
_CONSTANT = 1e-9
#: Ridges, relative to the largest eigenvalue, from which the way from fitted values to predictions is chosen.
_RIDGES = 10.0 ** np.arange(-15.0, -2.0)


@dataclass(frozen=True, slots=True)
class VariationFold:
    """One training set, its path in rho, and one validation set."""

    path: Path
    track: Track
    variations: Array

    @classmethod
    def of(cls, coordinates: ComponentCoordinates, y: Array, below: Array, y_val: Array) -> "VariationFold":
        """``below`` takes v to the validation values without bias: kernel rows times coefficients."""
        B = right_divided(coordinates.parts, coordinates.metric)
        target = coordinates.targets(y)
        path = variation_path(list(B), target)
        mean = coordinates.parts.sum(axis=0).mean(axis=0) if coordinates.bias else np.zeros(target.size)
        M = solve_triangular(coordinates.metric, (below - mean).T, trans="T").T
        offsets = y_val - (y.mean() if coordinates.bias else 0.0)
        return cls(path, *_variation_track(B, target, path, M, offsets))


def _rows(rows: Array | SparseRows, width: int) -> Any:
    """Vectors of a path as one sparse matrix."""
    if isinstance(rows, SparseRows):
        return csr_array((rows.value, rows.index, rows.starts), shape=(len(rows), width))
    return csr_array(rows)


def _variation_track(B: Array, target: Array, path: Path, M: Array, offsets: Array) -> tuple[Track, Array]:
    """The track, and the maximal variations at its knots."""
    d, n, r = B.shape
    xi = _rows(path.dual, d * n)
    xi.sum_duplicates()
    rho = path.values
    # into the balls, by a factor that is one but for rounding
    block = csr_array((np.ones(d * n), (np.arange(d * n), np.repeat(np.arange(d), n))), shape=(d * n, d))
    sizes = (abs(xi) @ block).toarray()
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(sizes > rho[:, None], rho[:, None] / sizes, 1.0)
    knot = np.repeat(np.arange(rho.size), np.diff(xi.indptr))
    xi = csr_array((xi.data * shares[knot, xi.indices // n], xi.indices, xi.indptr), shape=xi.shape)
    flat = B.reshape(d * n, r)
    u = target - xi @ flat
    t = np.empty((rho.size, d))
    step = max(1, 600_000 // max(d * n, 1))
    for start in range(0, rho.size, step):
        part = slice(start, start + step)
        t[part] = np.abs(u[part] @ flat.T).reshape(-1, d, n).max(axis=2)
    total, along = t.sum(axis=1), u @ target
    inner = np.einsum("kr,kr->k", u, u)
    gaps = np.maximum(rho * total - along + inner, 0.0)
    both = np.einsum("kr,kr->k", u[:-1], u[1:])
    crosses = rho[:-1] * total[1:] + rho[1:] * total[:-1] - along[:-1] - along[1:] + 2.0 * both
    sigma = float(np.linalg.norm(M, 2)) if M.size else 0.0
    return Track(rho, offsets - u @ M.T, gaps, crosses, sigma), t


@dataclass(frozen=True, slots=True)
class L1Fold:
    """One training set, its path in zeta, and one validation set."""

    path: Path
    track: Track

    @classmethod
    def of(cls, Phi: Array, y: Array, below: Array, y_val: Array, zeta_min: float | None = None) -> "L1Fold":
        """``below`` are the kernel rows of the validation points."""
        centre = Phi - Phi.mean(axis=0)
        if float(np.abs(centre).max()) <= _CONSTANT * float(np.abs(Phi).max()):
            # a kernel that is constant but for rounding: nothing but the bias
            zeta_min = 2.0 * zeta_max(Phi, y) + 1e3 * correlation_noise(Phi, y)
        path = l1_path(Phi, y, zeta_min)
        return cls(path, _l1_track(Phi, y, path, below, y_val))


def _l1_track(Phi: Array, y: Array, path: Path, below: Array, y_val: Array) -> Track:
    a = _rows(path.primal, Phi.shape[1])
    zeta, nu = path.values, np.asarray([path.dual[k][0] for k in range(len(path))])
    e = y - a @ Phi.T
    e = e - e.mean(axis=1, keepdims=True)
    c = e @ Phi
    sizes = np.asarray(abs(a).sum(axis=1)).ravel()
    aligned = _paired(a, c) - nu * np.asarray(a.sum(axis=1)).ravel()
    # where correlations exceed zeta by x, ||f - f*||^2 <= zeta |a|_1 - (c - nu)'a + x |a*|_1, and
    # zeta |a*|_1 <= zeta |a|_1 + ||e|| ||f - f*||
    excess = np.maximum(np.abs(c - nu[:, None]).max(axis=1) - zeta, 0.0)
    lengths = np.linalg.norm(e, axis=1)
    gaps = np.maximum(zeta * sizes - aligned, 0.0) + excess * sizes
    crosses = (
        zeta[:-1] * sizes[1:]
        + zeta[1:] * sizes[:-1]
        - (_paired(a[:-1], c[1:]) + _paired(a[1:], c[:-1]))
        + (nu[1:] * np.asarray(a[:-1].sum(axis=1)).ravel() + nu[:-1] * np.asarray(a[1:].sum(axis=1)).ravel())
        + (excess[:-1] * sizes[1:] + excess[1:] * sizes[:-1])
    )
    gaps, crosses = _with_excess(zeta, gaps, crosses, excess, lengths)
    errors = y_val - y.mean() - a @ (below - Phi.mean(axis=0)).T
    worst = np.sqrt(np.maximum(gaps[:-1], gaps[1:]) + 0.25 * np.maximum(crosses, 0.0))
    beyond = np.maximum(lengths[:-1], lengths[1:]) * worst
    apart = 2.0 * np.maximum(sizes[:-1], sizes[1:])
    # at zeta = 0 the 1-norm of the optimum is not bounded
    apart += np.divide(beyond, zeta[:-1], out=np.full_like(beyond, np.inf), where=zeta[:-1] > 0.0)
    sigma, floors = _way_to_predictions(Phi, below - Phi.mean(axis=0), worst, apart)
    return Track(zeta, np.asarray(errors), gaps, crosses, sigma, floors)


def _with_excess(zeta: Array, gaps: Array, crosses: Array, excess: Array, lengths: Array) -> tuple[Array, Array]:
    """Gaps and cross terms with what the 1-norm of the optimum adds: r^2 <= c + b r, so r^2 <= c + b sqrt(c) + b^2."""

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


def _paired(a: Any, c: Array) -> Array:
    """a_k'c_k for every knot."""
    return np.asarray(a.multiply(c).sum(axis=1)).ravel()


def _way_to_predictions(Phi: Array, below: Array, radii: Array, apart: Array) -> tuple[Array, Array]:
    """sigma and floors, one each per interval, from the W of the family that gives the best bound."""
    # both a and a* sum to zero, so that only what is orthogonal to 1 counts on either side
    centre = Phi - Phi.mean(axis=0)
    _, s, Vt = np.linalg.svd(centre - centre.mean(axis=1, keepdims=True), full_matrices=False)
    below = below - below.mean(axis=1, keepdims=True)
    best, sigma, floors = np.full(radii.size, np.inf), np.zeros(radii.size), np.full(radii.size, np.inf)
    along = below @ Vt.T
    for ridge in _RIDGES * float(s[0]):
        # s / (s^2 + ridge^2), without squares that underflow
        W = along * np.divide(1.0, s + ridge * (ridge / np.where(s > 0.0, s, 1.0)), out=np.zeros_like(s), where=s > 0.0)
        E = below - (W * s) @ Vt
        E = E - 0.5 * (E.max(axis=1) + E.min(axis=1))[:, None]
        size, left = float(np.linalg.norm(W, 2)), float(np.linalg.norm(E, axis=0).max())
        better = size * radii + left * apart < best
        best[better] = (size * radii + left * apart)[better]
        # (x + y)^2 <= 2 x^2 + 2 y^2
        sigma[better], floors[better] = np.sqrt(2.0) * size, 2.0 * (left * apart[better]) ** 2
    return sigma, floors


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

    @property
    def at_lower_end(self) -> bool:
        """Whether the best value is the smallest covered, so that smaller ones may be better."""
        return self.coverage[0] > 0.0 and self.value <= self.coverage[0] * (1.0 + 1e-9)


def read_off(tracks: Sequence[Track], paths: Sequence[Path], gap: float | None = None, begin: float = 0.0) -> ReadOff:
    """Minimise the error of all tracks together over the values that every path covers, from ``begin`` on.

    With a ``gap``, only down to where the bound is within that share of the error: below that the bound is not claimed.
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
        square = sum(float(track.squares()[-1]) for track in tracks)
        return ReadOff(low, square / rows, square / rows, values, np.array([square / rows]), (low, np.inf), (), 0)
    errors, radii = merged(tracks, values)
    squares, places = least(errors, 0.0, 1.0)
    bounds, _ = interval_bounds(errors, radii)
    first = 0 if gap is None or holes else _first_within(bounds, squares, gap)
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
    best, knots = float(squares[k]) / rows, at_knots / rows
    return ReadOff(value, best, lower / rows, values, knots, (low, top), holes, inner, low > lowest)


def _first_within(bounds: Array, squares: Array, gap: float) -> int:
    """The first interval from which on the bound is within the gap of the best error; zero where there is none."""
    lowest = np.minimum.accumulate(bounds[::-1])[::-1]
    best = np.minimum.accumulate(squares[::-1])[::-1]
    within = np.flatnonzero(lowest >= (1.0 - gap) * best)
    return int(within[0]) if within.size else 0
