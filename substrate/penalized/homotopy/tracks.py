r"""Exact paths and validation sets: the input of the chord certificate.

*Maximal variation* has :math:`u = \tilde y - \sum_l B^{lT} \xi^l`; from the multipliers alone, brought into their
balls, u and :math:`t_l = \|B^l u\|_\infty` are recomputed, so that

.. math:: g_k = \rho_k \sum_l t_l - \tilde y^T u + u^T u, \qquad
          c_{12} = \rho_1 1^T t_2 + \rho_2 1^T t_1 - \tilde y^T (u_1 + u_2) + 2 u_1^T u_2 .

What is computed as u is a point at a distance :math:`\delta` of that of the multipliers, whose gap is larger by at
most :math:`\|u\| \delta + \tfrac12 \delta^2`. That, and the rounding of every sum, is in the gaps and cross terms.

*The L1 substrate* determines the fitted values f, but with a smooth kernel f hardly determines a, and thereby
predictions. It helps that :math:`\|a\|_1` is known, and that of the optimum too:
:math:`\zeta \|a^*\|_1 \le \zeta \|a\|_1 + \|e\| r` with :math:`r^2` the gap. With any matrix W,

.. math:: \|(\Omega^v - 1 \bar k^T)(a - a^*)\| \le \|W\| \, r + \max_j \|E_j\| \, \|a - a^*\|_1,
          \qquad E = (\Omega^v - 1 \bar k^T - W P \Omega) P ,

and W is taken from a family of regularised inverses, the best of them. Support values that sum to s instead of zero
have a gap that is larger by at most :math:`|s| |\nu - \nu^\star|`, where
:math:`|\nu^\star| \le \zeta + \max_j \|\Omega_j\| \|y - \bar y\|`.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from substrate.arrays import Array
from substrate.certificates.doubled_precision import Pair, SlicedMatrix, add, minus, multiply
from substrate.certificates.rounding import OF_PAIRS, UNIT, at_most, relative_rounding
from substrate.penalized.homotopy.chord_certificate import Track
from substrate.penalized.homotopy.homotopies import l1_path, variation_path
from substrate.penalized.homotopy.knots import Path, SparseRows
from substrate.penalized.l1.active_set import correlation_noise, zeta_max
from substrate.penalized.variation.active_rows import divide_from_right
from substrate.penalized.variation.component_coordinates import ComponentCoordinates

__all__ = ["L1Fold", "VariationFold", "VariationKnots", "l1_path_of"]

#: Columns whose entries differ by less than this share of the largest are constant.
_CONSTANT = 1e-9
#: Ridges, relative to the largest eigenvalue, from which the way from fitted values to predictions is chosen.
_RIDGES = 10.0 ** np.arange(-15.0, -2.0)
#: What a squared radius is enlarged by to add another one that is far smaller.
_SPARE = 1e-10


@dataclass(frozen=True, slots=True)
class VariationFold:
    """One training set, its path in rho, and one validation set."""

    path: Path
    knots: "VariationKnots"

    @classmethod
    def of(cls, coordinates: ComponentCoordinates, y: Array, below: Array, y_val: Array) -> "VariationFold":
        """Build the fold; ``below`` takes v to the validation values without bias: kernel rows times coefficients."""
        B = divide_from_right(coordinates.parts, coordinates.metric)
        target = coordinates.targets(y)
        path = variation_path(list(B), target)
        mean = coordinates.parts.sum(axis=0).mean(axis=0) if coordinates.bias else np.zeros(target.size)
        M = solve_triangular(coordinates.metric, (below - mean).T, trans="T").T
        offsets = y_val - (y.mean() if coordinates.bias else 0.0)
        return cls(path, VariationKnots.of(B, target, path, M, offsets))


def _rows(rows: Array | SparseRows, width: int) -> Any:
    """Return vectors of a path as one sparse matrix."""
    if isinstance(rows, SparseRows):
        return csr_array((rows.value, rows.index, rows.starts), shape=(len(rows), width))
    return csr_array(rows)


@dataclass(frozen=True, slots=True)
class VariationKnots:
    """Knots in rho, with their points ``u`` and validation errors; levels, gaps and cross terms come when asked for.

    The levels take most of the work of a certificate: all rows of the components ``B`` (d x N x r) times every u.
    """

    values: Array
    u: Array
    errors: Array
    #: The rounding of the errors, as a length, and how far u may be from that of the multipliers, entry by entry.
    error_radii: Array
    moves: Array
    B: Array
    target: Array
    sigma: float
    #: The multipliers, one sparse row per knot; an index may occur twice.
    multipliers: Any
    _levels: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_levels", np.full((self.values.size, self.B.shape[0]), np.nan))  # not computed yet

    @classmethod
    def of(cls, B: Array, target: Array, path: Path, M: Array, offsets: Array) -> "VariationKnots":
        """Build the knots from the multipliers of a path alone; ``M`` takes u to the validation values, up to their
        offsets.
        """
        d, n, r = B.shape
        xi, rho = _rows(path.dual, d * n), path.values
        # into the balls, by a factor that is one but for rounding; both signs of a row count, as they do on a path
        knot, component = np.repeat(np.arange(rho.size), np.diff(xi.indptr)), xi.indices // n
        terms = float(np.diff(xi.indptr).max(initial=0))
        sums = np.bincount(knot * d + component, np.abs(xi.data), rho.size * d).reshape(-1, d)
        sizes = sums * (1.0 + relative_rounding(terms + 4.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(sizes > rho[:, None], rho[:, None] / sizes, 1.0)
        xi = csr_array((xi.data * shares[knot, component], xi.indices, xi.indptr), shape=xi.shape)
        flat = B.reshape(d * n, r)
        u = target - xi @ flat
        magnitudes = csr_array((np.abs(xi.data), xi.indices, xi.indptr), shape=xi.shape)
        counts = np.diff(xi.indptr)[:, None] + 4.0
        moves = at_most(UNIT) * counts * (magnitudes @ np.abs(flat) + np.abs(target))
        sigma = (1.0 + relative_rounding(16.0 * sum(M.shape))) * float(np.linalg.norm(M, 2)) if M.size else 0.0
        moved = relative_rounding(r + 4.0) * np.linalg.norm(u, axis=1) * float(np.linalg.norm(M))
        return cls(
            values=rho,
            u=u,
            errors=offsets - u @ M.T,
            error_radii=at_most(1.0) * (moved + relative_rounding(2.0) * float(np.linalg.norm(offsets))),
            B=B,
            target=target,
            sigma=sigma,
            moves=moves,
            multipliers=xi,
        )

    def variations(self, chosen: NDArray[np.int64] | None = None) -> Array:
        """Return the maximal variation of each component, one row per knot: of those with these numbers, or of all."""
        d, n, r = self.B.shape
        chosen = np.arange(self.values.size) if chosen is None else chosen
        flat, missing = self.B.reshape(d * n, r), chosen[np.isnan(self._levels[chosen]).any(axis=1)]
        step = max(1, 600_000 // max(d * n, 1))
        for start in range(0, missing.size, step):
            block = missing[start : start + step]
            self._levels[block] = np.abs(self.u[block] @ flat.T).reshape(-1, d, n).max(axis=2)
        return self._levels[chosen]

    def track(self, chosen: NDArray[np.int64] | None = None) -> Track:
        """Return the track of the knots with these numbers, ascending, or of all."""
        knots = np.arange(self.values.size) if chosen is None else chosen
        rho, u, total = self.values[knots], self.u[knots], self.variations(knots).sum(axis=1)
        along, inner = u @ self.target, np.einsum("kr,kr->k", u, u)
        own, between = self._rounding(knots)
        gaps = np.maximum(rho * total - along + inner, 0.0) + own
        products = np.einsum("kr,kr->k", u[:-1], u[1:])
        crosses = rho[:-1] * total[1:] + rho[1:] * total[:-1] - along[:-1] - along[1:] + 2.0 * products
        crosses = np.maximum(crosses, 0.0) + between
        sigma, floors = with_error_radii(self.sigma, None, self.error_radii[knots])
        return Track(values=rho, errors=self.errors[knots], gaps=gaps, crosses=crosses, sigma=sigma, floors=floors)

    def _rounding(self, knots: NDArray[np.int64]) -> tuple[Array, Array]:
        """Bound what rounding changes in the gaps of knots, and in the cross terms of neighbours.

        Both are the same sums of products of two knots, of one with itself and of one with the other.
        """
        d, _, r = self.B.shape
        u, moves, rho = np.abs(self.u[knots]), self.moves[knots], self.values[knots]
        lengths, steepest = np.linalg.norm(u, axis=1), float(np.linalg.norm(self.B, axis=2).max(axis=1).sum())
        along, lost = u @ np.abs(self.target), at_most(UNIT) * (r + d + 8.0)

        def changes(first: slice, second: slice) -> Array:
            dots = np.einsum("kr,kr->k", u[first], u[second])
            sums = lost * (rho[first] * steepest * lengths[second] + along[second] + dots)
            moved = np.einsum("kr,kr->k", u[first] + 0.5 * moves[first], moves[second])
            return np.asarray(at_most(1.0) * (sums + moved))

        every, low, high = slice(None), slice(None, -1), slice(1, None)
        return changes(every, every), changes(low, high) + changes(high, low)


@dataclass(frozen=True, slots=True)
class L1Fold:
    """One training set, its path in zeta, and one validation set."""

    path: Path
    track: Track

    @classmethod
    def of(cls, Phi: Array, y: Array, below: Array, y_val: Array, zeta_min: float | None = None) -> "L1Fold":
        """Build the fold; ``below`` are the kernel rows of the validation points."""
        path = l1_path_of(Phi, y, zeta_min)
        return cls(path, _l1_track(Phi, y, path, below, y_val))


def l1_path_of(Phi: Array, y: Array, zeta_min: float | None = None) -> Path:
    """Return the path in zeta; of a kernel that is constant but for rounding, nothing but the bias."""
    centre = Phi - Phi.mean(axis=0)
    if float(np.abs(centre).max()) <= _CONSTANT * float(np.abs(Phi).max()):
        zeta_min = 2.0 * zeta_max(Phi, y) + 1e3 * correlation_noise(Phi, y)
    return l1_path(Phi, y, zeta_min)


def _l1_track(Phi: Array, y: Array, path: Path, below: Array, y_val: Array) -> Track:
    a = _rows(path.primal, Phi.shape[1])
    zeta, nu = path.values, np.asarray([path.dual[k][0] for k in range(len(path))])
    pairs, residual_radius = _centred_errors(Phi, y, a)
    c, radius = _correlations(Phi, pairs)
    moved = at_most(1.0) * (radius + float(np.linalg.norm(Phi, axis=0).max(initial=0.0)) * residual_radius)
    e = pairs[0]
    magnitudes = csr_array((np.abs(a.data), a.indices, a.indptr), shape=a.shape)
    sizes = np.asarray(magnitudes.sum(axis=1)).ravel()
    aligned = _pair_products(a, c) - nu * np.asarray(a.sum(axis=1)).ravel()
    # where correlations exceed zeta by x, ||f - f*||^2 <= zeta |a|_1 - (c - nu)'a + x |a*|_1, and
    # zeta |a*|_1 <= zeta |a|_1 + ||e|| ||f - f*||
    excess = np.maximum(np.abs(c - nu[:, None]).max(axis=1) - zeta, 0.0)
    lengths = np.linalg.norm(e, axis=1)
    # rounding: of correlations, and of their products with a; and a sum of a that is not zero
    count, n = float(np.diff(a.indptr).max(initial=0)), float(y.size)
    steepest, largest = float(np.linalg.norm(Phi, axis=0).max(initial=0.0)), np.abs(c).max(axis=1)
    excess = excess + moved + relative_rounding(4.0) * (largest + np.abs(nu) + zeta)
    sums = np.array([abs(math.fsum(a.data[start:stop])) for start, stop in pairwise(a.indptr.tolist())])
    spread = float(np.linalg.norm(y - y.mean()))
    unbalanced = sums * at_most(1.0) * (np.abs(nu) + zeta + steepest * spread)
    each = moved + relative_rounding(count + 8.0) * (largest + np.abs(nu) + zeta)
    gaps = np.maximum(zeta * sizes - aligned, 0.0) + excess * sizes + at_most(1.0) * (each * sizes) + unbalanced
    crosses = (
        zeta[:-1] * sizes[1:]
        + zeta[1:] * sizes[:-1]
        - (_pair_products(a[:-1], c[1:]) + _pair_products(a[1:], c[:-1]))
        + (nu[1:] * np.asarray(a[:-1].sum(axis=1)).ravel() + nu[:-1] * np.asarray(a[1:].sum(axis=1)).ravel())
        + (excess[:-1] * sizes[1:] + excess[1:] * sizes[:-1])
        + at_most(1.0) * (each[:-1] * sizes[1:] + each[1:] * sizes[:-1])
        + 2.0 * np.maximum(unbalanced[:-1], unbalanced[1:])
    )
    gaps, crosses = _with_excess(zeta, gaps, crosses, excess, lengths)
    centred = below - Phi.mean(axis=0)
    errors = y_val - y.mean() - a @ centred.T
    added = np.linalg.norm(magnitudes @ (np.abs(below) + np.abs(Phi).mean(axis=0)).T, axis=1)
    added = added + float(np.linalg.norm(np.abs(y_val) + np.abs(y).mean()))
    error_radii = at_most(1.0) * (relative_rounding(count + n + 8.0) * added)
    worst = np.sqrt(np.maximum(gaps[:-1], gaps[1:]) + 0.25 * np.maximum(crosses, 0.0))
    beyond = np.maximum(lengths[:-1], lengths[1:]) * worst
    distances = 2.0 * np.maximum(sizes[:-1], sizes[1:])
    # at zeta = 0 the 1-norm of the optimum is not bounded
    distances += np.divide(beyond, zeta[:-1], out=np.full_like(beyond, np.inf), where=zeta[:-1] > 0.0)
    sigma, floors = with_error_radii(*_way_to_predictions(Phi, centred, worst, distances), error_radii)
    return Track(values=zeta, errors=np.asarray(errors), gaps=gaps, crosses=crosses, sigma=sigma, floors=floors)


def _centred_errors(Phi: Array, y: Array, a: Any) -> tuple[Pair, Array]:
    """Return y - Phi a less its mean, one row per knot, as pairs, and how far each row may be off, as a length.

    The terms of Phi a may be far larger than their sum, so that they are added in doubled precision.
    """
    product, radius = SlicedMatrix(Phi).times(a.toarray().T)
    zero = np.zeros_like(product[0])
    e = add((np.broadcast_to(y[:, None], zero.shape), zero), minus(product))
    n, total = y.size, (np.zeros(zero.shape[1]), np.zeros(zero.shape[1]))
    for high, low in zip(*e, strict=True):
        total = add(total, (high, low))
    mean = total[0] / n
    rest = add(total, minus(multiply(mean, np.full_like(mean, float(n)))))[0] / n
    e = add(e, minus((mean + zero, rest + zero)))
    sizes = np.linalg.norm(product[0], axis=0) + float(np.linalg.norm(y))
    off = 2.0 * n * OF_PAIRS * sizes
    return (e[0].T, e[1].T), at_most(1.0) * (off + np.linalg.norm(radius, axis=0))


def _correlations(Phi: Array, e: Pair) -> tuple[Array, Array]:
    """Return Phi'e for every knot, and how far its entries may be off at most."""
    product, radius = SlicedMatrix(np.ascontiguousarray(Phi.T)).times(np.ascontiguousarray(e[0].T))
    low = Phi.T @ e[1].T
    c = (product[0] + (product[1] + low)).T
    steepest = float(np.linalg.norm(Phi, axis=0).max(initial=0.0))
    lost = relative_rounding(Phi.shape[0] + 4.0) * steepest * np.linalg.norm(e[1], axis=1)
    rounded = relative_rounding(4.0) * np.abs(c).max(axis=1, initial=0.0)
    return np.asarray(c), at_most(1.0) * (lost + rounded + radius.max(axis=0, initial=0.0))


def with_error_radii(sigma: Any, floors: Array | None, radii: Array) -> tuple[Any, Array]:
    """Return sigma and floors, which are one per interval, that cover radii of the errors of the knots too.

    :math:`(x + y)^2 \\le (1 + s) x^2 + (1 + 1/s) y^2`.
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


def _pair_products(a: Any, c: Array) -> Array:
    """Return a_k'c_k for every knot."""
    return np.asarray(a.multiply(c).sum(axis=1)).ravel()


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
    left = float(np.linalg.norm(centre - (U * s) @ Vt)) + relative_rounding(n + 8.0) * float(np.linalg.norm(Phi))
    left = at_most(left + relative_rounding(n + 8.0) * float(s.sum()) + skew * float(s[0]))
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
        remainder = float(np.linalg.norm(E, axis=0).max()) + size * left + at_most(products) + 2.0 * rounded
        better = size * radii + remainder * distances < best
        best[better] = (size * radii + remainder * distances)[better]
        # (x + y)^2 <= 2 x^2 + 2 y^2
        sigma[better], floors[better] = np.sqrt(2.0) * size, 2.0 * (remainder * distances[better]) ** 2
    return sigma, floors
