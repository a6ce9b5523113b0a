r"""A Newton method on active rows for machines with one loss per row.

.. math:: \min_{w, c} \; \tfrac\lambda2 \|w\|^2 + \sum_i \ell_i(f_i), \qquad f = \Phi w + Z c ,

with columns Z that are not penalised, a bias among them. On a kernel matrix :math:`w = \Phi^T a`, where at the optimum
:math:`\lambda a = -g` for slopes g of the losses, and :math:`Z^T a = 0`; on features w is found itself. With D the
curvature of the losses, a step takes

.. math:: f^+_i + \frac{\lambda}{D_i} a^+_i = f_i - \frac{g_i}{D_i} \quad (D_i > 0), \qquad a^+_i = -\frac{g_i}{\lambda}
    \quad (D_i = 0) ,

so that a linear system is solved in the rows with a curvature only: those at a kink, or on a curved piece. The
objective is minimised on the line to that point, where its slope is monotone: Newton's method with exact line searches
([Madsen1990]_, [Keerthi2005]_) ends after finitely many steps where the losses are quadratic by pieces.

Losses with kinks are replaced by their Moreau envelopes about a shift by the latest g, the method of multipliers
[Rockafellar1976]_; each subproblem has a slope that is linear by pieces [Li2018]_. It begins where an interior-point
method [Mehrotra1992]_ ends. The point is not trusted: :mod:`substrate.bounds.rows` bounds its distance from the
optimum.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf

from substrate.arrays import Array
from substrate.errors import SolverError
from substrate.losses import PieceLoss, RowLoss, balance_bias, rising_root
from substrate.numbers import ROUNDED_ONCE, Double
from substrate.operators.gram import Gram

__all__ = ["FeatureRows", "GramRows", "RowPoint", "solve_losses", "solve_rows"]

_OUTER, _INNER = 30, 40
#: Steps of one line search, and the share of its slope at which it ends.
_LINE, _FLAT = 40, 1e-3
#: The first weight of the envelopes, in units of the spread over the slopes, its factor in a round, and its end.
_FIRST, _FACTOR, _LEAST = 1e-1, 0.1, 1e-7
#: The first weight near a solution.
_NEAR = 1e-5
#: Relative gap at which the interior-point iteration ends, and the share of the way to the boundary of its steps.
_CENTRAL, _SHARE = 1e-7, 0.99
#: Curvature, in units of lambda over the largest diagonal entry, below which an interior-point step leaves a row out.
_NEGLIGIBLE = 1e-2
#: Share of the size of the values that counts as an error where all losses vanish at the optimum.
_SHARE_OF_SIZE = 1e-6
#: Rows from which the interior-point iteration is for a matrix of fewer columns, the share of the largest diagonal
#: entry at which its factor ends, and the relative gap and the first weight behind it then.
_MANY, _COARSE, _CENTRAL_COARSE, _NEAR_COARSE = 300, 1e-3, 1e-3, 1e-2
#: Share of the pivots of every other row beyond which no half of the columns is expected to be enough.
_MOST_OF_HALF = 0.8
#: Roundings of the values up to which a step leaves them where they are.
_STILL = 4.0
#: Share of the sizes of its terms at which the slope of a subproblem counts as zero.
_STATIONARY = 1e-12
#: Relative gap at which the iteration ends, the weight of the residual against it, and the gap of a poor point.
_GAP, _RESIDUAL, _POOR = 1e-13, 1e-2, 1e-9
#: Share of the slopes from which on Newton's method has not settled.
_UNSETTLED = 1e-9
#: Ridge of a system that is singular to rounding, relative to its diagonal.
_SINGULAR = 1e-14
#: Share of the slopes up to which support values are right.
_SETTLED = 1e-6


@dataclass
class GramRows:
    """Functions K a of a kernel matrix."""

    K: Array
    lam: float
    Z: Array

    @property
    def size(self) -> int:
        """Return the number of rows."""
        return int(self.K.shape[0])

    @property
    def largest(self) -> float:
        """The largest diagonal entry of the kernel matrix."""
        return float(self.K.diagonal().max(initial=0.0)) or 1.0

    def values(self, u: Array) -> Array:
        """Return K a."""
        return np.asarray(self.K @ u)

    def inner(self, u: Array, v: Array, values: Array) -> float:
        """Return a'K a."""
        return float(u @ values)

    def rounding(self, u: Array) -> float:
        """Return the size of the rounding of K a: no entry is larger than the largest on the diagonal."""
        return ROUNDED_ONCE * self.largest * float(np.abs(u).sum())

    def step(self, D: Array) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
        """Factor the system of the rows with a curvature."""
        rows = np.flatnonzero(D > 0.0)
        K = self.K if rows.size == D.size else self.K[rows]
        system = np.array(K if rows.size == D.size else K[:, rows], order="F")
        diagonal = np.arange(rows.size)
        system[diagonal, diagonal] += self.lam / D[rows]
        factor, Z = _factor_definite(system) if rows.size else system, self.Z[rows]
        of_border = _solve(factor, Z)
        schur = _Border(Z.T @ of_border)

        def full_step(f: Array, g: Array, c: Array) -> tuple[Array, Array]:
            a = -g / self.lam
            a[rows] = 0.0
            if not rows.size:
                return a, c
            solved = _solve(factor, f[rows] - g[rows] / D[rows] - K @ a)
            c = schur.solve(Z.T @ solved + self.Z.T @ a, c)
            a[rows] = solved - of_border @ c
            return a, c

        return full_step

    def residual(self, u: Array, g: Array) -> float:
        """Return the largest entry of lam a + g."""
        return float(np.abs(self.lam * u + g).max())

    def refine_slopes(self, u: Array, g: Array, is_curved: Array) -> Array:
        """Return -lam a where there is a curvature: on straight pieces the slope is exact, elsewhere a is."""
        return np.where(is_curved, -self.lam * u, g)

    def coefficients(self, g: Array) -> Array:
        """Return -g/lam."""
        return -g / self.lam

    def pivot(self) -> "FeatureRows | None":
        """Return features of a nearby matrix, fewer than half of the rows; None if that takes more."""
        n, least = self.K.shape[0], _COARSE * self.largest
        half = self.K[::2, ::2]
        if dpstrf(half, tol=least, lower=1)[2] > _MOST_OF_HALF * half.shape[0]:
            return None
        packed, pivots, rank, _ = dpstrf(self.K, tol=least, lower=1)
        if not 0 < rank <= n // 2:
            return None
        L = np.empty((n, rank))
        L[pivots - 1] = np.tril(packed[:, :rank])
        return FeatureRows(L, self.lam, self.Z)


@dataclass
class FeatureRows:
    """Functions Phi w of explicit features, one row each."""

    features: Array
    lam: float
    Z: Array

    @property
    def size(self) -> int:
        """Return the number of features."""
        return int(self.features.shape[1])

    @property
    def largest(self) -> float:
        """The largest diagonal entry of the kernel matrix."""
        return float(np.square(self.features).sum(axis=1).max(initial=0.0)) or 1.0

    def values(self, u: Array) -> Array:
        """Return Phi w."""
        return np.asarray(self.features @ u)

    def inner(self, u: Array, v: Array, values: Array) -> float:
        """Return the product of the weights."""
        return float(u @ v)

    def rounding(self, u: Array) -> float:
        """Return zero: where weights change, so does the objective."""
        return 0.0

    def step(self, D: Array) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
        """Factor the normal equations lam I + Phi'D Phi."""
        scaled = self.features * np.sqrt(D)[:, None]
        system = np.asfortranarray(scaled.T @ scaled)
        system[np.diag_indices(self.size)] += self.lam
        factor, DZ = _factor_definite(system) if self.size else system, D[:, None] * self.Z
        of_border = _solve(factor, self.features.T @ DZ)
        schur = _Border(self.Z.T @ DZ - DZ.T @ self.features @ of_border)

        def full_step(f: Array, g: Array, c: Array) -> tuple[Array, Array]:
            right = D * f - g
            solved = _solve(factor, self.features.T @ right)
            c = schur.solve(self.Z.T @ right - DZ.T @ (self.features @ solved), c)
            return solved - of_border @ c, c

        return full_step

    def residual(self, u: Array, g: Array) -> float:
        """Return the largest entry of lam w + Phi'g over the largest length of a feature."""
        largest = float(np.linalg.norm(self.features, axis=0).max(initial=0.0)) or 1.0
        return float(np.abs(self.lam * u + self.features.T @ g).max(initial=0.0)) / largest

    def refine_slopes(self, u: Array, g: Array, is_curved: Array) -> Array:
        """Return the slopes with the least change where there is a curvature after which they belong to w."""
        columns = np.concatenate([self.features, self.Z], axis=1)
        missing = -columns.T @ g
        missing[: self.size] -= self.lam * u
        refined = g.copy()
        refined[is_curved] += np.linalg.lstsq(columns[is_curved].T, missing, rcond=None)[0]
        return refined

    def coefficients(self, g: Array) -> Array:
        """Return -Phi'g/lam."""
        return -self.features.T @ g / self.lam


#: The functions Phi w as a map of coefficients u.
RowSpace = GramRows | FeatureRows


class _Border:
    """The Schur complement of the border, which has no inverse where no row has a curvature."""

    def __init__(self, matrix: Array) -> None:
        sizes = np.sqrt(np.abs(np.diagonal(matrix)))
        self._is_regular = bool(np.isfinite(matrix).all() and (sizes > 0.0).all())
        self._sizes = sizes
        self._factor = lu_factor(matrix / sizes / sizes[:, None]) if self._is_regular and sizes.size else None

    def solve(self, right: Array, otherwise: Array) -> Array:
        """Return the solution, or the given coefficients if there is no solution."""
        if self._factor is None:
            return otherwise
        return np.asarray(lu_solve(self._factor, right / self._sizes) / self._sizes)


def _factor_definite(system: Array) -> Array:
    """Return the lower factor of a symmetric matrix in Fortran's order, with a small ridge where it needs one."""
    diagonal = np.arange(system.shape[0])
    kept = system[diagonal, diagonal].copy()
    for ridge in (0.0, _SINGULAR, 1e3 * _SINGULAR, 1e6 * _SINGULAR):
        system[diagonal, diagonal] = kept * (1.0 + ridge)
        factor, info = dpotrf(system, lower=1, clean=0)
        if info == 0:
            return np.asarray(factor)
    raise np.linalg.LinAlgError("the matrix of active rows is singular")


def _solve(factor: Array, right: Array) -> Array:
    if not right.size:
        return right
    return np.asarray(dpotrs(factor, right, lower=1)[0])


@dataclass(frozen=True, slots=True)
class RowPoint:
    """Coefficients, coefficients of the border, slopes and fitted values; ``steps`` is the number of linear systems."""

    u: Array
    c: Array
    g: Array
    f: Array
    steps: int


class _Iterate:
    """The state of an iteration: u, c and the values of both."""

    def __init__(self, space: RowSpace, losses: RowLoss, deadline: float | None) -> None:
        self.space, self.losses, self.deadline = space, losses, deadline
        self.u, self.c, self.products = np.zeros(space.size), np.zeros(space.Z.shape[1]), np.zeros(losses.n)
        self.steps = 0
        self.is_curved = np.zeros(losses.n, dtype=bool)

    @property
    def f(self) -> Array:
        """Return the fitted values."""
        return np.asarray(self.products + self.space.Z @ self.c)

    def move(self, u: Array, c: Array, products: Array | None = None) -> None:
        """Take another point."""
        self.u, self.c = u, c
        self.products = self.space.values(u) if products is None else products

    def factor(self, D: Array) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
        """Return the full step, factored; refuse to go on beyond the time limit."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeoutError
        self.steps += 1
        self.is_curved = D > 0.0
        return self.space.step(D)

    def cost(self, f: Array) -> float:
        """Return the size of the terms of the objective."""
        norm = self.space.inner(self.u, self.u, self.products)
        return 0.5 * self.space.lam * norm + float(np.abs(self.losses.values(f)).sum())

    def point(self, g: Array) -> RowPoint:
        """Return the present point; refuse one that is not finite."""
        if not (np.isfinite(self.u).all() and np.isfinite(self.c).all()):
            raise SolverError("the iteration left the finite numbers; use a smaller gamma, or scale the columns")
        return RowPoint(self.u, self.c, g, self.f, self.steps)


class _Envelope:
    """The losses with quadratic smoothing of the given weight about the shift ``weight * g``; none if it is zero."""

    def __init__(self, losses: RowLoss, weight: float, g: Array) -> None:
        self.losses, self.weight, self.g = losses, weight, g

    def at(self, f: Array) -> tuple[Array, Array]:
        """Return the slopes and the curvatures."""
        losses, t = self.losses, self.weight
        if t == 0.0 or not isinstance(losses, PieceLoss):
            return losses.slopes(f), losses.curvatures(f)
        _, g, rise = losses.nearest(f + t * self.g, t)
        return g, (1.0 - rise) / t


def solve_rows(
    space: RowSpace, losses: RowLoss, spread: float, deadline: float | None = None, start: RowPoint | None = None
) -> RowPoint:
    """Return a point, to the accuracy that rounding allows.

    :place [Cawley2004]_ section 4: the 2-norm SVM as an LS-SVM on its support rows

    Parameters
    ----------
    space
        The functions: a kernel matrix or features, with lambda and the border.
    losses
        The losses of the rows.
    spread
        The size of the values.
    deadline
        A time of the monotonic clock; TimeoutError is raised beyond it.
    start
        The point of a machine that is alike, to begin with where the losses have no kinks.
    """
    rows = _Iterate(space, losses, deadline)
    with np.errstate(all="ignore"):
        try:
            if space.Z.shape[1]:
                constant = balance_bias(losses, np.zeros(losses.n), spread)
                rows.c = np.linalg.lstsq(space.Z, np.full(losses.n, constant), rcond=None)[0]
            if losses.has_kinks and isinstance(losses, PieceLoss):
                return _solve_by_multipliers(rows, losses, spread)
            if start is not None:
                rows.move(start.u, start.c)
            point = rows.point(_minimise(rows, _Envelope(losses, 0.0, np.zeros(losses.n))))
            is_settled = space.residual(point.u, point.g) <= _UNSETTLED * float(np.abs(point.g).max())
            if is_settled or not isinstance(losses, PieceLoss):
                return point
            return _solve_by_multipliers(rows, losses, spread)  # pieces so narrow that they are nearly kinks
        except (np.linalg.LinAlgError, ZeroDivisionError) as error:
            raise SolverError(f"the linear systems of the active rows are singular ({error})") from error


def solve_losses(gram: Gram, losses: RowLoss, y: Array) -> RowPoint:
    """Return the machine with lambda = 1 and a bias on a kernel matrix, or raise an error where it is no optimum."""
    spread = float(np.ptp(y)) or float(np.abs(y).max()) or 1.0
    point = solve_rows(GramRows(np.asarray(gram.matrix), 1.0, np.ones((gram.n, 1))), losses, spread)
    tension = losses.tension(point.f, -point.u, spread)
    total, size = abs(float(point.u.sum())), float(np.abs(point.u).sum())
    if not (tension <= _SETTLED and total <= _SETTLED * size):
        raise SolverError(
            f"after {point.steps} systems the support values are not the slopes of the losses (up to {tension:.1e}); "
            "use a positive semi-definite kernel or a smaller gamma, or solve the declared problem"
        )
    return point


def _solve_by_multipliers(rows: _Iterate, losses: PieceLoss, spread: float, coarse: bool = True) -> RowPoint:
    """Solve by the method of multipliers; ``coarse`` lets the first iteration use a matrix of fewer columns."""
    first = rows.u, rows.c, rows.products
    begins_inside = bool((losses.curvature == losses.curvature[:, :1]).all())
    coarse = coarse and losses.n >= _MANY
    g = _begin_inside(rows, losses, spread, coarse) if begins_inside else np.zeros(losses.n)
    low, high = losses.slope_range()
    reach = float(max(np.abs(losses.below).max(), np.abs(losses.above).max()))
    unit = spread / (reach or 1.0)
    near = _NEAR_COARSE if coarse else _NEAR
    weight, least = (near if begins_inside else _FIRST) * unit, _LEAST * unit
    best: tuple[float, RowPoint] | None = None
    for _ in range(_OUTER):
        steps = rows.steps
        solved = _minimise(rows, _Envelope(losses, weight, g))
        if begins_inside and coarse and best is None and rows.steps - steps >= _INNER:
            break  # it began too far away
        g = np.clip(rows.space.refine_slopes(rows.u, solved, rows.is_curved), low, high)
        gap = float(np.sum(losses.fenchel_young(Double(rows.f), Double(g)).upper_ends().midpoint))
        gap /= max(rows.cost(rows.f), 1e-300)
        # g must be the slopes that belong to u, and orthogonal to the border
        residual = rows.space.residual(rows.u, g) + float(np.abs(rows.space.Z.T @ g).max(initial=0.0))
        gap = max(gap, _RESIDUAL * residual / (reach or 1.0))
        improved = best is None or gap < 0.1 * best[0]
        if best is None or gap < best[0]:
            best = gap, rows.point(g)
        if gap <= _GAP or (weight <= least and not improved):
            break
        weight = max(_FACTOR * weight, least)
    if begins_inside and coarse and (best is None or not best[0] <= _POOR):
        rows.move(*first)
        return _solve_by_multipliers(rows, losses, spread, coarse=False)
    if best is None:
        raise SolverError("the method of multipliers did not converge; use a smaller gamma, or scale the columns")
    return best[1]


def _begin_inside(rows: _Iterate, losses: PieceLoss, spread: float, coarse: bool) -> Array:
    """Bring the rows near a solution by an interior-point method, on fewer columns if there are many rows."""
    space = rows.space
    features = space.pivot() if coarse and isinstance(space, GramRows) else None
    if features is None:
        return _follow_centre(rows, losses, spread, _CENTRAL)
    inside = _Iterate(features, losses, rows.deadline)
    inside.c = rows.c
    g = _follow_centre(inside, losses, spread, _CENTRAL_COARSE)
    rows.steps += inside.steps
    rows.move(space.coefficients(g), inside.c)
    return g


def _follow_centre(rows: _Iterate, losses: PieceLoss, spread: float, enough: float) -> Array:
    r"""Follow the central path by a predictor-corrector method; return the slopes at its end.

    Every kink has a share :math:`0 < \beta < \delta` of its jump, and :math:`f - \tau = s^+ - s^-` with
    :math:`s^+ (\delta - \beta) = s^- \beta = \mu` on the way to zero [Mehrotra1992]_.
    """
    places, jumps, square = losses.places.T, (losses.above - losses.below).T, losses.curvature[:, 0]
    has = jumps > 0.0
    jumps = np.where(has, jumps, 1.0)
    f = rows.f
    share = 0.5 * jumps
    over, under = np.maximum(f - places, 0.0) + spread, np.maximum(places - f, 0.0) + spread
    count = 2.0 * float(has.sum())
    # where all losses vanish at the optimum, what counts is the cost of values that miss it by a share of their size
    least = _SHARE_OF_SIZE * spread * float(np.where(has, jumps, 0.0).sum())
    # a row whose lam/D is a hundred times the diagonal hardly moves its slope: the system is smaller without it
    flat = _NEGLIGIBLE * rows.space.lam / rows.space.largest if losses.n >= _MANY else 0.0

    def slopes(f: Array, share: Array) -> Array:
        straight = losses.below[:, 0] + square * (f - losses.places[:, 0])
        return np.asarray(straight + np.where(has, share, 0.0).sum(axis=0))

    for _ in range(_INNER):
        room, g = jumps - share, slopes(f, share)
        products = np.where(has, over * room, 0.0), np.where(has, under * share, 0.0)
        gap = float(products[0].sum() + products[1].sum())
        if gap <= enough * max(rows.cost(f), least):
            break
        theta = over / room + under / share
        D = square + np.where(has, 1.0 / theta, 0.0).sum(axis=0)
        moves = flat < D
        step = rows.factor(np.where(moves, D, 0.0))
        r_over, r_under = -products[0], -products[1]
        centre = gap / count
        length = 0.0
        for is_last in (False, True):
            offset = r_over / room - r_under / share
            u, c = step(f, g - np.where(has, offset / theta, 0.0).sum(axis=0), rows.c)
            values = rows.space.values(u)
            df = values + rows.space.Z @ c - f
            change = (df - offset) / theta
            d_over, d_under = (r_over + over * change) / room, (r_under - under * change) / share
            ratios = (d_over / over, d_under / under, change / share, -change / room)
            fall = max(-float(np.where(has, ratio, 0.0).min()) for ratio in ratios)
            length = min(_SHARE / fall if fall > 0.0 else 1.0, 1.0)
            if not is_last:
                after = np.where(has, (over + length * d_over) * (room - length * change), 0.0).sum()
                after += np.where(has, (under + length * d_under) * (share + length * change), 0.0).sum()
                target = centre * min(max(float(after) / gap, 0.0), 1.0) ** 3
                r_over = target - products[0] + d_over * change
                r_under = target - products[1] - d_under * change
        over, under, share = over + length * d_over, under + length * d_under, share + length * change
        rows.move(
            rows.u + length * (u - rows.u),
            rows.c + length * (c - rows.c),
            rows.products + length * (values - rows.products),
        )
        f = rows.f
    return slopes(f, share)


def _minimise(rows: _Iterate, envelope: _Envelope) -> Array:
    """Minimise the smoothed objective from the present point; return the slopes of the losses there."""
    space, is_smooth = rows.space, not isinstance(envelope.losses, PieceLoss)
    f = rows.f
    g, D = envelope.at(f)
    for _ in range(_INNER):
        tension = space.residual(rows.u, g) + float(np.abs(space.Z.T @ g).max(initial=0.0))
        if tension <= _STATIONARY * (float(np.abs(g).max()) + 1e-300):
            return g
        if not D.any() and rows.c.size:  # straight pieces alone are no direction unless their slopes sum to zero
            rows.c = _balance(envelope, space.Z, rows.products, rows.c)
            f = rows.f
            g, D = envelope.at(f)
        u, c = rows.factor(D)(f, g, rows.c)
        values = space.values(u)
        if not rows.is_curved.any() and c.size:
            c = _balance(envelope, space.Z, values, rows.c)
        du, products = u - rows.u, values - rows.products
        df = products + space.Z @ (c - rows.c)
        # values that stay where they are tell nothing of coefficients that change in the null space of the matrix
        total = float(D.sum())
        size = float(np.abs(f).max()) + (float(np.abs(g).sum()) / total if total > 0.0 else 0.0)
        noise = space.rounding(rows.u) + space.rounding(u) + ROUNDED_ONCE * size
        is_still = float(np.abs(df).max()) <= _STILL * noise <= _STATIONARY * size
        linear = space.lam * space.inner(rows.u, du, products)
        square = space.lam * space.inner(du, du, products)
        # a full step that lowers the objective by less than its rounding is the last one
        is_over = is_smooth and -ROUNDED_ONCE * rows.cost(f) <= linear + float(g @ df) <= 0.0
        step = 1.0 if is_over or is_still else _minimise_on_line(envelope, f, df, linear, square)
        if step == 0.0:
            return g
        is_full = step == 1.0
        rows.move(
            u if is_full else rows.u + step * du,
            c if is_full else rows.c + step * (c - rows.c),
            values if is_full else rows.products + step * products,
        )
        f = rows.f
        new_g, new_D = envelope.at(f)
        if is_full and not is_smooth:  # where it began, on the same pieces, it has solved a quadratic problem
            straight = D == 0.0
            is_over = np.array_equal(new_D, D) and np.array_equal(new_g[straight], g[straight])
        g, D = new_g, new_D
        if is_over:
            return g
    return g


def _minimise_on_line(envelope: _Envelope, f: Array, df: Array, linear: float, square: float) -> float:
    """Return where the objective is smallest on the line of a step: its slope there rises, and is found to be small."""

    def slope(t: float) -> float:
        return linear + t * square + float(envelope.at(f + t * df)[0] @ df)

    first = slope(0.0)
    if not first < 0.0:
        return 0.0 if not np.isfinite(first) or first > 0.0 else 1.0
    end = slope(1.0)
    if abs(end) <= -_FLAT * first:
        return 1.0
    low, high, at_low, at_high = 0.0, 1.0, first, end
    while at_high < 0.0 and high < 1e6:  # beyond a full step
        low, at_low, high = high, at_high, 2.0 * high
        at_high = slope(high)
    side = 0
    for _ in range(_LINE):
        t = low - at_low * (high - low) / (at_high - at_low) if np.isfinite(at_high) else 0.5 * (low + high)
        at = slope(t)
        if abs(at) <= -_FLAT * first or not low < t < high:
            return t
        if at < 0.0:  # of one end that stays the slope is halved, so that the other one moves
            low, at_low, at_high = t, at, at_high * (0.5 if side == -1 else 1.0)
            side = -1
        else:
            high, at_high, at_low = t, at, at_low * (0.5 if side == 1 else 1.0)
            side = 1
    return low


def _balance(envelope: _Envelope, Z: Array, values: Array, c: Array) -> Array:
    """Return the coefficients with another constant, where no slope rises: the slopes sum to zero then, nearly."""
    constant = np.linalg.lstsq(Z, np.ones(values.size), rcond=None)[0]
    line = Z @ constant

    def total(shift: float) -> float:
        return float(envelope.at(values + Z @ c + shift * line)[0] @ line)

    return np.asarray(c + rising_root(total, 0.0, max(float(np.ptp(values)), 1.0)) * constant)
