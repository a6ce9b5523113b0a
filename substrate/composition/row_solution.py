r"""A Newton method on active rows for machines with one loss per row.

.. math:: \min_{w, b} \; p\, w^T w + \sum_i \ell_i(f_i), \qquad f = \Phi w + b 1 ,

has :math:`w = \Phi^T a` with :math:`2 p\, a = -g`, g a subgradient of the losses at f, and :math:`1^T a = 0` where
there is a bias (:mod:`substrate.composition.row_losses`). Losses with kinks are replaced by their Moreau envelopes
about a shift by the latest g, the method of multipliers [Rockafellar1976]_; each subproblem has a slope that is linear
by pieces and is solved by Newton steps with a line search [Li2018]_. With D the rise of the slopes, a step takes

.. math:: f^+_i + \frac{2 p}{D_i} a^+_i = f_i - \frac{g_i}{D_i} \quad (D_i > 0), \qquad a^+_i = -\frac{g_i}{2 p}
    \quad (D_i = 0) ,

so that a linear system is solved in the rows with a rise only: those at a kink, or on a curved piece. The point is not
trusted: :mod:`substrate.composition.row_check` bounds its distance from the optimum from the data.
"""

import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs, dpstrf

from substrate.arrays import Array
from substrate.composition.definite_factor import factor_definite
from substrate.composition.row_losses import RowLosses
from substrate.solver_call import OUT_OF_TIME

__all__ = ["RowPoint", "solve_rows"]

_FAILED = "failed (no convergence)"
_OUTER, _INNER, _HALVINGS = 30, 40, 40
#: The first weight of the envelopes, in units of the spread over the slopes, its factor in a round, and its end.
_FIRST, _FACTOR, _LEAST = 1e-1, 0.1, 1e-7
#: The first weight near a solution.
_NEAR = 1e-5
#: Relative gap at which the interior-point iteration ends, and the share of the way to the boundary of its steps.
_CENTRAL, _SHARE = 1e-7, 0.99
#: Rows from which the interior-point iteration is for a matrix of fewer columns, the share of the largest diagonal
#: entry at which its factor ends, and the relative gap and the first weight behind it then.
_MANY, _COARSE, _CENTRAL_COARSE, _NEAR_COARSE = 300, 1e-3, 1e-3, 1e-2
#: Share of the sizes of its terms at which the slope of a subproblem counts as zero.
_STATIONARY = 1e-12
#: Relative gap at which the iteration ends, the weight of the residual beside it, and the gap of a poor point.
_GAP, _RESIDUAL, _POOR = 1e-13, 1e-2, 1e-9
_ARMIJO = 1e-4


@dataclass(frozen=True, slots=True)
class RowPoint:
    """Coefficients, bias, subgradients of the rows and fitted values; ``steps`` is the number of linear systems."""

    a: Array
    b: float
    g: Array
    f: Array
    steps: int


class _Rows:
    """The machine, and the state of an iteration: a, b and f = K a + b."""

    def __init__(self, K: Array, losses: RowLosses, p: float, bias: bool) -> None:
        self.K, self.losses, self.p, self.bias = K, losses, p, bias
        self.a, self.b, self.Ka = np.zeros(losses.n), 0.0, np.zeros(losses.n)
        self.rises = np.zeros(losses.n, dtype=bool)
        self.steps = 0

    @property
    def f(self) -> Array:
        return self.Ka + self.b

    def move(self, a: Array, b: float, Ka: Array) -> None:
        self.a, self.b, self.Ka = a, b, Ka

    def newton(self, f: Array, g: Array, D: Array) -> tuple[Array, float]:
        """Return the point of a full step."""
        return _Step(self, D).solve(f, g)


class _Step:
    """The linear system of a step, factored, for one rise of the slopes."""

    def __init__(self, machine: _Rows, D: Array) -> None:
        machine.steps += 1
        machine.rises = D > 0.0
        self._machine = machine
        self._rows = rows = np.flatnonzero(machine.rises)
        self._D = D[rows]
        self._K = machine.K if rows.size == D.size else machine.K[rows]
        if not rows.size:
            return
        system = np.array(self._K if rows.size == D.size else self._K[:, rows], order="F")
        diagonal = np.arange(rows.size)
        system[diagonal, diagonal] += 2.0 * machine.p / self._D
        self._factor = factor_definite(system)
        self._of_ones = np.asarray(dpotrs(self._factor, np.ones(rows.size), lower=1)[0])

    def solve(self, f: Array, g: Array) -> tuple[Array, float]:
        """Return coefficients and bias of a full step from slopes g at values f."""
        machine, rows = self._machine, self._rows
        a = -g / (2.0 * machine.p)
        if not rows.size:
            return a, machine.b
        a[rows] = 0.0
        right = f[rows] - g[rows] / self._D
        if rows.size < a.size:
            right -= self._K @ a
        solved, _ = dpotrs(self._factor, right, lower=1)
        b = 0.0
        if machine.bias:
            b = (float(solved.sum()) + float(a.sum())) / float(self._of_ones.sum())
            solved = solved - b * self._of_ones
        a[rows] = solved
        return a, b


class _FactoredStep:
    r"""The same system for :math:`K = L L^T`, in all rows, by the formula of Woodbury: as many unknowns as columns."""

    def __init__(self, machine: _Rows, L: Array, D: Array) -> None:
        machine.steps += 1
        self._machine, self._L, self._d, self._D = machine, L, D / (2.0 * machine.p), D
        scaled = L * np.sqrt(self._d)[:, None]
        small = np.asfortranarray(scaled.T @ scaled)
        small[np.diag_indices(L.shape[1])] += 1.0
        self._factor = factor_definite(small)
        self._of_ones = self._invert(np.ones(D.size))

    def _invert(self, right: Array) -> Array:
        scaled = self._d * right
        inner, _ = dpotrs(self._factor, self._L.T @ scaled, lower=1)
        return np.asarray(scaled - self._d * (self._L @ inner))

    def solve(self, f: Array, g: Array) -> tuple[Array, float]:
        """Return coefficients and bias of a full step from slopes g at values f."""
        a, b = self._invert(f - g / self._D), 0.0
        if self._machine.bias:
            b = float(a.sum()) / float(self._of_ones.sum())
            a = a - b * self._of_ones
        return a, b


def _pivoted_columns(K: Array) -> Array | None:
    """Return L with K - L L' small, of fewer columns than half of the rows; None where there is none."""
    n = K.shape[0]
    packed, pivots, rank, _ = dpstrf(K, tol=_COARSE * float(K.diagonal().max()), lower=1)
    if not 0 < rank <= n // 2:
        return None
    L = np.empty((n, rank))
    L[pivots - 1] = np.tril(packed[:, :rank])
    return L


class _Envelope:
    """The losses with quadratic smoothing of the given weight about the shift ``weight * g``; none where it is zero."""

    def __init__(self, losses: RowLosses, weight: float, g: Array) -> None:
        self.losses, self.weight, self.g = losses, weight, g

    @property
    def is_exact(self) -> bool:
        """Return whether the slopes are linear by pieces, so that a Newton step on the right ones is exact."""
        return self.losses.smooth is None

    def at(self, f: Array) -> tuple[float, Array, Array]:
        """Return the value, the slopes and their rises."""
        losses, t = self.losses, self.weight
        if t == 0.0:
            return float(losses.values(f).sum()), losses.slopes(f), losses.curvatures(f)
        shifted = f + t * self.g
        v, g, rise = losses.nearest(shifted, t)
        value = losses.values(v) + (shifted - v) ** 2 / (2.0 * t)
        return float(value.sum()), g, (1.0 - rise) / t


def solve_rows(
    K: Array,
    losses: RowLosses,
    p: float,
    bias: bool,
    spread: float,
    deadline: float | None = None,
    start: RowPoint | None = None,
) -> RowPoint | str:
    """Return a point, to the accuracy that rounding allows; or the status of a method that failed.

    ``spread`` is the size of the values; ``start`` the point of a machine that is alike, to begin with.
    """
    rows = _Rows(K, losses, p, bias)
    with np.errstate(all="ignore"):
        try:
            if start is not None:
                rows.move(start.a, start.b, start.f - start.b)
            elif bias and not losses.is_nothing:
                rows.b = _central_value(losses, spread)
            if losses.has_kinks:
                return _by_multipliers(rows, spread, deadline, start)
            g = _minimise(rows, _Envelope(losses, 0.0, np.zeros(losses.n)), _INNER, deadline)
        except (np.linalg.LinAlgError, ZeroDivisionError) as error:
            return f"failed ({error})"
    return _point(rows, g) if isinstance(g, np.ndarray) else g


def _point(rows: _Rows, g: Array) -> RowPoint | str:
    if not (np.isfinite(rows.a).all() and np.isfinite(rows.b)):
        return _FAILED
    return RowPoint(a=rows.a, b=rows.b, g=g, f=rows.f, steps=rows.steps)


def _central_value(losses: RowLosses, spread: float) -> float:
    """Return the constant machine of least loss, nearly."""
    n, low, high = losses.n, -1.0, 1.0
    centre = float(np.median(losses.places)) if losses.places.size else 0.0
    for _ in range(60):
        if float(losses.slopes(np.full(n, centre + low * spread)).sum()) < 0.0:
            break
        low *= 2.0
    for _ in range(60):
        if float(losses.slopes(np.full(n, centre + high * spread)).sum()) > 0.0:
            break
        high *= 2.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if float(losses.slopes(np.full(n, centre + middle * spread)).sum()) > 0.0:
            high = middle
        else:
            low = middle
    return centre + 0.5 * (low + high) * spread


def _by_multipliers(
    rows: _Rows, spread: float, deadline: float | None, start: RowPoint | None, coarse: bool = True
) -> RowPoint | str:
    """Solve by the method of multipliers; ``coarse`` lets the first iteration use a matrix of fewer columns."""
    losses, first = rows.losses, (rows.a, rows.b, rows.Ka)
    g = np.zeros(losses.n) if start is None else start.g
    inner = start is None and not losses.ramps
    if inner:
        central = _interior(rows, spread, deadline, coarse)
        if isinstance(central, str):
            return central
        g = central
    low, high = losses.ends_of_slopes()
    reach = np.abs(np.concatenate([losses.below.ravel(), losses.above.ravel()])).max()
    unit = spread / float(reach)
    near = _NEAR_COARSE if start is not None or (coarse and losses.n >= _MANY) else _NEAR
    weight, least = (near if inner or start is not None else _FIRST) * unit, _LEAST * unit
    best: tuple[float, RowPoint] | None = None
    is_coarse = inner and coarse and losses.n >= _MANY
    for _ in range(_OUTER):
        steps = rows.steps
        solved = _minimise(rows, _Envelope(losses, weight, g), _INNER, deadline)
        if isinstance(solved, str):
            return solved
        if is_coarse and best is None and rows.steps - steps >= _INNER:
            break  # it began too far away
        # on straight pieces the slope is exact; elsewhere the coefficients are, and (f - place)/weight is rounded
        g = np.clip(np.where(rows.rises, -2.0 * rows.p * rows.a, solved), low, high)
        cost = rows.p * float(rows.a @ rows.Ka) + float(np.abs(losses.values(rows.f)).sum())
        gap = float(losses.young_gaps(rows.f, np.zeros(losses.n), g).sum()) / max(cost, 1e-300)
        # g must be that of w, and sum to zero
        residual = float(np.abs(2.0 * rows.p * rows.a + g).max()) + abs(float(g.sum())) * rows.bias
        gap = max(gap, _RESIDUAL * residual / float(reach))
        if best is None or gap < best[0]:
            point = _point(rows, g)
            if isinstance(point, str):
                return point
            improved = best is None or gap < 0.1 * best[0]
            best = (gap, point)
        else:
            improved = False
        if gap <= _GAP or (weight <= least and not improved):
            break
        weight = max(_FACTOR * weight, least)
    if is_coarse and (best is None or not best[0] <= _POOR):
        rows.move(*first)
        return _by_multipliers(rows, spread, deadline, start, coarse=False)
    return best[1] if best is not None else _FAILED


def _interior(rows: _Rows, spread: float, deadline: float | None, coarse: bool) -> Array | str:
    r"""Bring the rows near a solution, by a predictor-corrector method; return the slopes of the losses there.

    Every kink has a share :math:`0 < \beta < \delta` of its jump, and :math:`f - \tau = s^+ - s^-` with
    :math:`s^+ (\delta - \beta) = s^- \beta = \mu` on the way to zero [Mehrotra1992]_.
    """
    losses = rows.losses
    places = np.array([place for place, _ in losses.kinks])
    jumps = np.array([np.broadcast_to(jump, (losses.n,)) for _, jump in losses.kinks])
    has = jumps > 0.0
    jumps = np.where(has, jumps, 1.0)
    f = rows.f
    share = 0.5 * jumps
    over, under = np.maximum(f - places, 0.0) + spread, np.maximum(places - f, 0.0) + spread
    count = 2.0 * float(has.sum())
    L = _pivoted_columns(rows.K) if coarse and losses.n >= _MANY else None
    enough = _CENTRAL if L is None else _CENTRAL_COARSE
    for _ in range(_INNER):
        if deadline is not None and time.monotonic() > deadline:
            return OUT_OF_TIME
        room = jumps - share
        g = losses.slope + losses.square * f + np.where(has, share, 0.0).sum(axis=0)
        products = np.where(has, over * room, 0.0), np.where(has, under * share, 0.0)
        gap = float(products[0].sum() + products[1].sum())
        cost = rows.p * float(rows.a @ rows.Ka) + float(np.abs(losses.values(f)).sum())
        if gap <= enough * cost:
            break
        theta = over / room + under / share
        D = losses.square + np.where(has, 1.0 / theta, 0.0).sum(axis=0)
        step = _Step(rows, D) if L is None else _FactoredStep(rows, L, D)
        r_over, r_under = -products[0], -products[1]
        centre = gap / count
        length = 0.0
        for is_last in (False, True):
            offset = r_over / room - r_under / share
            a, b = step.solve(f, g - np.where(has, offset / theta, 0.0).sum(axis=0))
            Ka = rows.K @ a if L is None else L @ (L.T @ a)
            df = Ka + b - f
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
        rows.move(rows.a + length * (a - rows.a), rows.b + length * (b - rows.b), rows.Ka + length * (Ka - rows.Ka))
        f = rows.f
    if L is not None:
        rows.move(rows.a, rows.b, rows.K @ rows.a)
    return np.asarray(losses.slope + losses.square * f + np.where(has, share, 0.0).sum(axis=0))


def _minimise(rows: _Rows, envelope: _Envelope, iterations: int, deadline: float | None) -> Array | str:
    """Minimise the smoothed objective from the present point; return the slopes of the losses there."""
    p, K = rows.p, rows.K
    f = rows.f
    value, g, D = envelope.at(f)
    objective = p * float(rows.a @ rows.Ka) + value
    for _ in range(iterations):
        if deadline is not None and time.monotonic() > deadline:
            return OUT_OF_TIME
        residual = 2.0 * p * rows.a + g
        tension = float(np.abs(residual).max()) + (abs(float(g.sum())) if rows.bias else 0.0)
        if tension <= _STATIONARY * (float(np.abs(g).max()) + 1e-300):
            return g
        a, b = rows.newton(f, g, D)
        if rows.bias and not (D > 0.0).any():
            b = _balance(rows, envelope, a)
        da, db = a - rows.a, b - rows.b
        Kda = K @ da
        df = Kda + db
        slope = 2.0 * p * float(rows.Ka @ da) + float(g @ df)
        step, accepted = 1.0, False
        curvature = p * float(da @ Kda)
        linear = 2.0 * p * float(rows.Ka @ da)
        for _ in range(_HALVINGS):
            new_value, new_g, new_D = envelope.at(f + step * df)
            change = step * linear + step * step * curvature + (new_value - value)
            if change <= _ARMIJO * step * min(slope, 0.0) + 1e-15 * (abs(objective) + abs(value)):
                accepted = True
                break
            step *= 0.5
        if not accepted:
            return g
        move = rows.a + step * da if step < 1.0 else a
        rows.move(move, rows.b + step * db if step < 1.0 else b, rows.Ka + step * Kda)
        # a full step that ends on the pieces where it began has solved a subproblem that is quadratic on these
        same = step == 1.0 and envelope.is_exact and np.array_equal(new_D, D)
        is_over = same and np.array_equal(new_g[D == 0.0], g[D == 0.0])
        f = rows.f
        value, g, D = new_value, new_g, new_D
        objective = objective + change
        if is_over:
            return g
    return g


def _balance(rows: _Rows, envelope: _Envelope, a: Array) -> float:
    """Return a bias with which the slopes sum to zero, nearly, where none of them rises."""
    Ka, b = rows.K @ a, rows.b
    size = max(float(np.ptp(rows.f)), 1.0)
    low, high = b - size, b + size
    for _ in range(60):
        if float(envelope.at(Ka + low)[1].sum()) <= 0.0:
            break
        low -= size
        size *= 2.0
    for _ in range(60):
        if float(envelope.at(Ka + high)[1].sum()) >= 0.0:
            break
        high += size
        size *= 2.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(envelope.at(Ka + middle)[1].sum()) > 0.0:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)
