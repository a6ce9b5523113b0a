r"""How far a machine is from its exact optimum: one inequality for every loss, in double precision and in balls.

For :math:`F(w, c) = \tfrac\lambda2 \|w\|^2 + \sum_i \ell_i(f_i)`, :math:`f = \Phi w + Z c`, and any g with
:math:`Z^T g = 0`, the dual value :math:`D(g) = -\tfrac{1}{2\lambda} g^T K g - \sum_i \ell_i^*(g_i)` is a lower bound of
F, and

.. math:: F(w, c) - D(g) = \sum_i \big(\ell_i(f_i) + \ell_i^*(g_i) - f_i g_i\big)
          + \tfrac\lambda2 \big\|w + \tfrac1\lambda \Phi^T g\big\|^2 =: \varepsilon ,

a sum of terms that are not negative and that need no difference of large numbers (:mod:`substrate.losses`). The optimum
has the same g in its own gap, so that all of these hold at once, with :math:`h_i` the values to which :math:`g_i`
belongs:

.. math::

    \tfrac\lambda2 \|w - w^\star\|^2 \le \varepsilon, \qquad
    \tfrac12 \sum_{i \in Q} m_i (f_i - f_i^\star)^2 \le \varepsilon, \qquad
    \ell_i(f_i^\star) + \ell_i^*(g_i) - f_i^\star g_i \le \varepsilon .

Q are the rows whose losses have a curvature of at least :math:`m_i` wherever the third inequality lets
:math:`f_i^\star` be. A row at a kink is confined by the third. These rows tie the border to the targets: any other row
i, with :math:`Z_i = \sum_j r_j Z_j` over tied rows j, is bounded by

.. math:: |f_i - f_i^\star| \le \Big|\sum_j r_j (f_j - f_j^\star)\Big|
          + \sqrt{2 \varepsilon / \lambda}\; \Big\|\varphi(x_i) - \sum_j r_j \varphi(x_j)\Big\| .

Without tied rows the border may be free, and the bound is about the fitted values less their mean.

A kernel matrix from elsewhere, which is known to be semi-definite up to rounding :math:`\nu` only, is bounded with
:math:`K + \nu I` in its place, as the first line of a certificate says.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from substrate.arrays import Array, strips
from substrate.certificate import Accuracy, Row, Tolerance
from substrate.losses import RowLoss, balance_bias
from substrate.numbers import Double, at_most, root_mean_square
from substrate.operators.border import ONES, Border

__all__ = [
    "ABOUT_MEAN",
    "FORMULA",
    "BasisPoint",
    "EnclosedFeatures",
    "EnclosedKernel",
    "ExpansionPoint",
    "Point",
    "RowBound",
    "RowMachine",
    "bound_declared",
    "bound_rows",
    "optimality_rows",
]

ABOUT_MEAN = "fitted values about their mean"
FORMULA = "duality gap, a sum over the rows, by curvature and ||K||; with rounding"
#: Share of the largest curvature below which a row counts as flat.
_FLAT = 1e-2
#: The ridge of weights that relate a row to tied ones, in units of their curvature.
_RELATED = 16.0
#: Tied rows that others are related to, at most, and numbers of a matrix of weights.
_MOST_TIED, _WEIGHTS = 2000, 1 << 22


@dataclass(frozen=True)
class RowMachine:
    """A machine to be bounded: losses, lambda, border and coefficients, weights of rows, and what predict returns."""

    losses: RowLoss
    lam: float
    border: Border
    weights: Array
    bias: float
    fitted: Array
    slopes: Array | None = None


class RowBound(NamedTuple):
    """A bound on the root mean square distance of the fitted values, what it is about, and the gap."""

    radius: float
    about: str
    gap: float


@dataclass(frozen=True)
class EnclosedKernel:
    """A kernel matrix in numbers with a radius."""

    matrix: Any

    @property
    def numbers(self) -> type[Any]:
        """Return the class of the numbers."""
        return type(self.matrix)

    def products(self, x: Any) -> Any:
        """Return K x."""
        return self.matrix @ x

    def block(self, rows: Any, columns: Any) -> Any:
        """Return a part of K."""
        return self.matrix.take(np.ix_(rows, columns))

    def diagonal(self) -> Any:
        """Return the diagonal of K."""
        every = np.arange(self.matrix.midpoint.shape[0])
        return self.matrix.take((every, every))

    def bound_norm(self) -> float:
        """Bound the norm of K by the root of the sum of squares of the entries."""
        return at_most(float(np.linalg.norm(abs(self.matrix).upper_ends().midpoint)))


@dataclass(frozen=True)
class EnclosedFeatures:
    """The kernel matrix R R' of enclosed features R."""

    features: Any

    @property
    def numbers(self) -> type[Any]:
        """Return the class of the numbers."""
        return type(self.features)

    def products(self, x: Any) -> Any:
        """Return R R'x."""
        return self.features @ (self.features.T @ x)

    def block(self, rows: Any, columns: Any) -> Any:
        """Return a part of the matrix."""
        return self.features.take(rows) @ self.features.take(columns).T

    def diagonal(self) -> Any:
        """Return the squares of the lengths of the features."""
        return (self.features * self.features) @ self.numbers.exact(np.ones(self.features.midpoint.shape[1]))

    def bound_norm(self) -> float:
        """Bound the norm by the norm of R'R."""
        return at_most(float(np.linalg.norm(abs(self.features.T @ self.features).upper_ends().midpoint)))


EnclosedMatrix = EnclosedKernel | EnclosedFeatures


@dataclass(frozen=True)
class ExpansionPoint:
    """The function K a."""

    kernel: EnclosedKernel
    a: Array

    def values(self) -> Any:
        """Return K a."""
        return self.kernel.products(self.kernel.numbers.exact(self.a))

    def bound_residual(self, g: Any, lam: float, enough: float) -> float:
        """Bound ||Phi'd|| for d = a + g/lam by the lengths of the features, or by d'K d."""
        d = self.kernel.numbers.exact(self.a) + g / lam
        lengths = np.sqrt(abs(self.kernel.diagonal()).upper_ends().midpoint)
        length = at_most(float(lengths @ np.broadcast_to(abs(d).upper_ends().midpoint, lengths.shape)))
        if length <= enough:
            return length
        square = (d * self.kernel.products(d)).total()
        return min(length, float(square.bound_root().upper()))


@dataclass(frozen=True)
class BasisPoint:
    r"""The function :math:`\sum_j \beta_j k(x, s_j)` of the vectors of a basis, w in their span.

    With :math:`r = K_{SS} \beta + \tfrac1\lambda K_{XS}^T g`, P the projection on the span, and any T that makes
    :math:`E = T^T K_{SS} T - I` smaller than one,

    .. math:: \big\|w + \tfrac1\lambda P \Phi^T g\big\|^2 = r^T K_{SS}^{-1} r \le \frac{\|T^T r\|^2}{1 - \|E\|} ,

    and the distances of the :math:`P \varphi(x_i)` are the distances of the features :math:`K_{XS} T`, up to the same
    factor.

    Parameters
    ----------
    rows, basis
        :math:`K_{XS}` and :math:`K_{SS}` in enclosed numbers.
    transform, beta
        T, with lines of zeros for vectors that the machine leaves out, and the coefficients.
    """

    rows: Any
    basis: Any
    transform: Array
    beta: Array

    @cached_property
    def stretch(self) -> float:
        """Bound the root of 1/(1 - ||E||)."""
        T = type(self.basis).exact(self.transform)
        off = T.T @ (self.basis @ T) - np.eye(self.transform.shape[1])
        deviation = at_most(float(np.linalg.norm(abs(off).upper_ends().midpoint)))
        left_out = self.beta[~self.transform.any(axis=1)].any()
        return math.inf if left_out or not deviation < 1.0 else at_most(1.0 / math.sqrt(1.0 - deviation))

    @cached_property
    def kernel(self) -> EnclosedFeatures:
        """Return the kernel matrix of its rows, in features."""
        features = self.rows @ type(self.rows).exact(self.transform)
        return EnclosedFeatures(features * self.stretch if math.isfinite(self.stretch) else features)

    def values(self) -> Any:
        """Return the values at the rows."""
        return self.rows @ type(self.rows).exact(self.beta)

    def bound_residual(self, g: Any, lam: float, enough: float) -> float:
        """Bound ||w + P Phi'g/lam||."""
        numbers, r = type(self.rows), self.transform.shape[1]
        residual = self.basis @ numbers.exact(self.beta) + self.rows.T @ g / lam
        turned = numbers.exact(self.transform.T) @ residual
        return self.stretch * math.sqrt(r) * float(turned.bound_norm(np.ones(r)).upper())


#: A function Phi w in enclosed numbers.
Point = ExpansionPoint | BasisPoint


def optimality_rows(machine: RowMachine, a: Array, f: Array, gap: float, y: Array, tolerance: float) -> tuple[Row, ...]:
    """Return the duality gap and the conditions of optimality of coefficients a with values f on targets y."""
    losses, lam = machine.losses, machine.lam
    linear = machine.bias + np.asarray(machine.border.slope_values(machine.slopes))
    norm, costs = 0.5 * lam * float(a @ (f - linear)), losses.values(f)
    # a gap is measured by the terms that it is the difference of, by what the constant machine costs, and, where all
    # that vanishes, by a millionth of what a change of the size of the targets costs
    largest = float(np.abs(y).max())
    level, unit = float(np.mean(y)) if machine.border.constant else 0.0, largest or 1.0
    least, unit_cost = (float(np.abs(losses.values(np.full(f.size, at))).sum()) for at in (level, level + unit))
    return (
        Row(
            name="duality gap",
            value=gap,
            scale=abs(norm) + float(np.abs(costs).sum()) + least + 1e-6 * unit_cost,
            tolerance=tolerance,
            formula="F - D, a sum over the rows",
        ),
        Row(
            name="stationarity",
            value=losses.tension(f, -lam * a, largest),
            scale=1.0,
            tolerance=tolerance,
            formula="share by which -lam a misses the slopes at f, or f their values",
        ),
    )


def bound_declared(R: Array, losses: RowLoss, w: Array, fitted: Array, tolerance: Tolerance) -> Accuracy:
    """Return the row of a declared problem on K = R R' with lambda = 1 and a bias, from its w and its fitted values.

    The bias is free: it is the one with which the slopes sum to zero.
    """
    values = R @ w
    spread = float(np.ptp(losses.centre - values)) or 1.0
    bias = balance_bias(losses, values, spread)
    machine = RowMachine(losses, 1.0, ONES, np.ones(losses.n), bias, fitted)
    point = BasisPoint(Double(R), Double(np.eye(w.size)), np.eye(w.size), w)
    bound = bound_rows(machine, point, losses.slopes(values + bias))
    return tolerance.row(bound.radius, FORMULA, bound.about)


@np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
def bound_rows(machine: RowMachine, point: Point, g: Array, enough: float = 0.0) -> RowBound:
    """Bound the distance of the fitted values from the exact optimum, by any slopes g.

    Parameters
    ----------
    machine, point
        The machine and its function.
    g
        Slopes of the losses near those at the optimum; they are made feasible.
    enough
        A radius at which no closer bound is looked for.
    """
    numbers, losses, lam, v = point.kernel.numbers, machine.losses, machine.lam, machine.weights
    nothing = RowBound(math.inf, ABOUT_MEAN, math.inf)
    Z = machine.border.enclose(numbers, losses.n)
    dual = _make_feasible(losses, Z, g)
    f = point.values() + machine.bias
    if machine.slopes is not None and machine.border.slopes:
        f = f + machine.border.enclose_values(numbers, machine.slopes)
    if dual is None or not np.isfinite(f.midpoint).all():
        return nothing
    distances = losses.distance_to_values(f, dual)
    gap = at_most(float(np.sum(losses.fenchel_young(f, dual).upper_ends().midpoint)))
    residual = point.bound_residual(dual, lam, math.sqrt(gap / lam))
    gap = at_most(gap + 0.5 * lam * residual**2)
    if not math.isfinite(gap):
        return nothing
    distance = float((machine.fitted - f).bound_norm(v).upper())
    confined = _Confined.of(losses, f, np.asarray(dual.midpoint), distances, gap)
    enough -= distance
    radius, about = _bound_values(machine, point.kernel, Z, confined, gap, enough)
    if radius > enough:  # rows that are hardly curved are better related to others
        alternative = _bound_values(machine, point.kernel, Z, confined.drop_flat(v), gap, enough)
        radius, about = min((radius, about), alternative)
    return RowBound(at_most(radius) + distance, about, gap)


def _make_feasible(losses: RowLoss, Z: Any, g: Array) -> Any:
    """Return slopes within their limits with Z'g = 0: rows with room take the remainder of the sums.

    None if no rows have room for it. Rows at a limit do not move.
    """
    numbers = type(Z)
    low, high = losses.slope_range()
    g = losses.limit_slopes(g)
    n, k = Z.midpoint.shape
    if not k:
        return numbers.exact(g)
    sums = [_sum_products(Z.T.take(j), numbers.exact(g)) for j in range(k)]
    if all(float(total.upper()) == 0.0 for total in sums):
        return numbers.exact(g)
    room = np.minimum(g - low, high - g)
    largest = max(float(room.max(where=np.isfinite(room), initial=0.0)), float(np.abs(g).max())) or 1.0
    room = np.minimum(room, largest)
    rows = _spanning_rows(Z, room)
    right = sums[-1].place(np.array([k - 1]), k)
    for j in range(k - 1):
        right = right + sums[j].place(np.array([j]), k)
    step = Z.take(rows).T.solve(right)
    if not (abs(step).upper_ends().midpoint * 2.0 < room[rows]).all():
        return None
    moves = np.isin(np.arange(n), rows)
    return (numbers.exact(g) - step.place(rows, n)).select(moves, numbers.exact(g))


def _sum_products(column: Any, g: Any) -> Any:
    """Return the sum of the products; with ones it is the sum, of which zero is exact."""
    if (column.midpoint == 1.0).all() and not column.error().upper_ends().midpoint.any():
        return g.total()
    return (column * g).total()


def _spanning_rows(Z: Any, sizes: Array) -> NDArray[np.intp]:
    """Return as many rows as there are columns, of large sizes and on which the columns differ."""
    if Z.midpoint.shape[1] == 1:
        return np.array([int(np.argmax(sizes * np.abs(Z.midpoint[:, 0])))])
    return np.asarray(qr((sizes[:, None] * Z.midpoint).T, mode="r", pivoting=True)[1][: Z.midpoint.shape[1]])


class _Confined(NamedTuple):
    """The consequences of the gap alone for the optimum.

    ``moduli`` are the curvatures of rows that are curved wherever the optimum may be, zero elsewhere; ``radii`` bound
    the distance of every single value, infinite without a bound.
    """

    moduli: Array
    radii: Array

    @classmethod
    def of(cls, losses: RowLoss, f: Any, g: Array, distances: Array, gap: float) -> "_Confined":
        """Return the consequences for these losses."""
        reach = losses.reach(g, gap)
        moduli = losses.bound_modulus(np.asarray(f.midpoint), g, reach + distances)
        curved = moduli > 0.0
        radii = np.where(curved, math.sqrt(2.0 * gap) / np.sqrt(np.where(curved, moduli, 1.0)), reach + distances)
        return cls(moduli, radii)

    def drop_flat(self, v: Array) -> "_Confined":
        """Return the same, with rows of small curvature for their weight as single ones."""
        shares = np.where(self.moduli > 0.0, self.moduli, 0.0) / v
        return self._replace(moduli=np.where(shares >= _FLAT * float(shares.max()), self.moduli, 0.0))

    def bound_shift(self, rows: NDArray[np.intp], weights: Array, gap: float) -> Array:
        """Bound the common shift of the values of some rows, for columns of non-negative weights of these rows."""
        moduli, radii = self.moduli[rows], self.radii[rows]
        curved = moduli > 0.0
        shift = np.sqrt(np.square(weights[curved]).T @ (1.0 / moduli[curved])) * math.sqrt(2.0 * gap)
        return np.asarray(shift + weights[~curved].T @ radii[~curved])


def _bound_values(
    machine: RowMachine,
    kernel: EnclosedMatrix,
    Z: Any,
    confined: _Confined,
    gap: float,
    enough: float,
) -> tuple[float, str]:
    """Bound the distance of the fitted values, given the consequences of the gap."""
    v, (n, k) = machine.weights, Z.midpoint.shape
    curved = confined.moduli > 0.0
    shares = v[curved] / float(v.sum()) / confined.moduli[curved]
    on_curved = math.sqrt(2.0 * gap * float(shares.max(initial=0.0)))
    if curved.all():
        return on_curved, "fitted values"
    weight_step = math.sqrt(2.0 * gap / machine.lam)
    spectral = weight_step * math.sqrt(kernel.bound_norm() * float(v.max() / v.sum()))
    bounds = np.where(curved, 0.0, confined.radii)

    def total() -> float:
        return math.hypot(on_curved, root_mean_square(bounds, v))

    if not k:  # nothing is free: w is all there is
        return min(spectral, total()), "fitted values"
    (tied,), (rows,) = np.nonzero(np.isfinite(confined.radii)), np.nonzero(bounds)
    if tied.size < k:
        return (spectral, ABOUT_MEAN) if not machine.border.slopes else (math.inf, ABOUT_MEAN)
    if k == 1 and not machine.border.slopes and total() > enough:  # the same weights relate all rows
        weights = 1.0 / np.maximum(confined.radii[tied], np.finfo(np.float64).tiny) ** 2
        each = _exact_weights(Z, tied, tied[:1], (weights / weights.sum())[:, None])
        shift = confined.bound_shift(tied, each.upper_ends().midpoint, gap)
        # the distance of the features of every row from a sum of features
        r = each.T.take(0).place(tied, n)
        product = kernel.products(r)
        squares = kernel.diagonal() - product * 2.0 + (r * product).total()
        distances = np.asarray(squares.bound_root().upper_ends().midpoint)
        bounds = np.where(curved, 0.0, np.minimum(bounds, shift + weight_step * distances))
    if total() > enough:
        tied = tied[np.argsort(confined.radii[tied], kind="stable")[:_MOST_TIED]]
        system = np.zeros((tied.size + k, tied.size + k))
        inside = kernel.block(tied, tied)
        moduli = np.where(curved, confined.moduli, 2.0 * gap / np.maximum(confined.radii, 1e-300) ** 2)[tied]
        system[: tied.size, : tied.size] = inside.midpoint + np.diag(_RELATED * machine.lam / moduli)
        system[: tied.size, tied.size :] = Z.midpoint[tied]
        system[tied.size :, : tied.size] = Z.midpoint[tied].T
        ones, diagonal = type(Z).exact(np.ones(tied.size)), kernel.diagonal()
        for strip in strips(rows.size, _WEIGHTS // tied.size):
            strip_rows = rows[strip]
            across = kernel.block(tied, strip_rows)
            try:
                solved = np.linalg.solve(system, np.vstack([across.midpoint, Z.midpoint[strip_rows].T]))[: tied.size]
            except np.linalg.LinAlgError:
                return total(), "fitted values"
            r = _exact_weights(Z, tied, strip_rows, solved)
            squares = diagonal.take(strip_rows) - ones @ (r * across) * 2.0 + ones @ (r * (inside @ r))
            shift = confined.bound_shift(tied, abs(r).upper_ends().midpoint, gap)
            closer = at_most(1.0) * (shift + weight_step * np.asarray(squares.bound_root().upper_ends().midpoint))
            bounds[strip_rows] = np.fmin(bounds[strip_rows], closer)
    radius = total()
    if machine.border.slopes or radius <= max(spectral, enough):
        return radius, "fitted values"
    return spectral, ABOUT_MEAN


def _exact_weights(Z: Any, tied: NDArray[np.intp], rows: NDArray[np.intp], weights: Array) -> Any:
    """Return enclosed weights near the given ones with Z_tied'r = Z_rows, by a change of as many as Z has columns."""
    numbers, k = type(Z), Z.midpoint.shape[1]
    r, corner = numbers.exact(weights), _spanning_rows(Z.take(tied), np.ones(tied.size))
    lacking = Z.take(rows).T - Z.take(tied).T @ r
    inverse = [Z.take(tied[corner]).T.solve(numbers.exact(unit)) for unit in np.eye(k)]
    for place, row in enumerate(corner):
        column = numbers.exact(np.zeros(rows.size))
        for j in range(k):
            column = column + lacking.take(j) * inverse[j].take(place)
        mask = np.arange(tied.size)[:, None] == row
        r = r + (numbers.exact(np.ones((tied.size, 1))) * column).select(mask, 0.0)
    return r
