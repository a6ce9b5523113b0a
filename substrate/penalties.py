r"""Least squares with a norm as penalty: how far fitted values are from the exact optimum.

A machine :math:`f = F x + b 1` with a penalty p, which is the 1-norm or maximal variation, minimises

.. math:: \tfrac12 \|y - F x - b 1\|_v^2 + \tfrac{\tau}{2} x^T E x + p(x) ,

with weights v of the rows and a positive semi-definite E. Its dual points are :math:`\theta` with
:math:`1^T V \theta = 0` (where there is a bias) and z; with :math:`c = F^T V \theta - \tau E z` and the conjugate
:math:`p^*(c) = 0`, the duality gap at errors e is a sum of terms that are not negative,

.. math:: P - Q = \tfrac12 \|e - \theta\|_v^2 + \tfrac{\tau}{2} (x - z)^T E (x - z) + p(x) - x^T c ,

and :math:`\|f - f^\star\|_v^2 \le 2 (P - Q)`, since the squared loss is strongly convex. For any method that computed x
this is the whole proof; all that is left is to find a good dual point.

**A step.** The errors themselves have :math:`g = F^T V e - \tau E x`. The nearest point that has given numbers s in
some coordinates A in place of :math:`g_A` is at the distance

.. math:: \sigma = \sqrt{q^T H^{-1} q}, \qquad q = (g - s)_A, \qquad
          H = (F^T V (I - 11^T V / 1^T V 1) F + \tau E)_{AA} ,

and in any other coordinate :math:`c_j - s_k` differs from :math:`g_j - g_k` by at most :math:`\sigma` times the
distance of column j from any column k of A. The point is not
computed. Where :math:`p^*(c) = 0` fails, it is scaled by :math:`1 - \lambda`, which adds :math:`\lambda` times its
length to the distance.

:class:`OneNorm`
    :math:`p = \zeta \|x\|_1` has :math:`|c| \le \zeta`, or :math:`|c - \nu| \le \zeta` for some :math:`\nu` where
    :math:`1^T x = 0` is required. The step leads to :math:`\nu + \zeta \operatorname{sign}(x)` in the columns in use,
    and in those whose c is at its limit. Differences to the first of these columns have no :math:`\nu`.
:class:`MaximalVariation`
    :math:`p = \sum_l \rho_l \|C^l x\|_\infty` has :math:`c = \sum_l C^{lT} \xi^l` with
    :math:`\|\xi^l\|_1 \le \rho_l`. The step leads to these numbers in all coordinates, for the multipliers of a solver
    shrunk into their balls.

Everything is a formula over numbers with a radius (:mod:`~substrate.numbers`): in double precision it is
the certificate, in balls the proof. [Pelckmans2005]_ eq. (16), (24)-(27).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.certificate import Accuracy, Tolerance, power_of_two
from substrate.ingredients import Weights
from substrate.kernels.kernel import Kernel
from substrate.numbers import Double

__all__ = [
    "Columns",
    "MaximalVariation",
    "OneNorm",
    "Penalty",
    "VariationMachine",
    "accuracy_of",
    "bound_by_duality",
    "bound_distance",
    "into_balls",
]

#: Relative distance from their limit at which correlations are taken to be at it; any choice gives a bound.
_NEAR = 1e-6

FORMULA = "sqrt(|e - theta|^2 + 2 (p(x) - x'c)) + rounding"


#: A dual point: its step from the errors, the share by which it is scaled down, and p(x) - x'c there.
DualPoint = tuple[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """F, E and the weights v of a machine, in numbers of one kind; E is None without a ridge."""

    matrix: Any
    weights: Array
    bias: bool = True
    ridge: float = 0.0
    quadratic: Any = None

    @classmethod
    def of_kernel(
        cls,
        kernel: Kernel,
        X: Any,
        matrix: Array,
        ridge: float = 0.0,
        *,
        weights: Array | None = None,
        points: Any = None,
        energy: Array | None = None,
    ) -> Self:
        """Return a kernel matrix between points, by values of little rounding; a given one is exact.

        ``points`` are the points of a basis, with their kernel matrix as ``energy``; the rows X themselves unless
        given.
        """
        Z, v = X if points is None else points, np.ones(len(matrix)) if weights is None else weights
        K = _enclose_kernel(kernel, X, Z, matrix)
        E = K if energy is None or ridge == 0.0 else _enclose_kernel(kernel, Z, Z, energy)
        return cls(K, v, True, ridge, E if ridge > 0.0 else None)

    @property
    def numbers(self) -> type[Any]:
        """The kind of the numbers."""
        return type(self.matrix)

    def values(self, x: Any) -> Any:
        """Return F x."""
        return self.matrix @ x

    def energy(self, x: Any) -> Any:
        """Return E x."""
        return 0.0 if self.quadratic is None else self.quadratic @ x

    def distinct(self, subset: Any) -> Any:
        """Return the numbers of columns that differ from each other, of a subset."""
        return subset[np.sort(np.unique(self.matrix.midpoint[:, subset], axis=1, return_index=True)[1])]

    def neighbours(self, subset: Any) -> tuple[Any, Any]:
        """Return the place in the subset of a column near each, and bounds on the distances in the norm of H."""
        F = self.centered(slice(None))
        H, squares = F.T @ F.take((slice(None), subset)), (F * F).T.add_up()
        if self.quadratic is not None and self.ridge > 0.0:
            E = self.quadratic * self.ridge
            H, squares = H + E.take((slice(None), subset)), squares + E.apply(np.diagonal)
        distances = squares.take((slice(None), None)) + squares.take(subset) - H * 2.0
        nearest = distances.midpoint.argmin(axis=1)
        return nearest, distances.take((np.arange(nearest.size), nearest)).bound_root()

    def centered(self, subset: Any) -> Any:
        """Return some columns of V^1/2 F, without their means where there is a bias."""
        F, v = self.matrix.take((slice(None), subset)), self.numbers.exact(self.weights)
        if self.bias:
            F = F - (v / v.total()).take((None, slice(None))) @ F
        return F if (self.weights == 1.0).all() else F * v.sqrt().take((slice(None), None))

    def bound_step(self, q: Any, subset: Any, differences: bool) -> Any:
        """Bound sqrt(q'H^-1 q) in some coordinates, or of differences to the first one; infinite where unknown."""
        tall, added = self.centered(subset), None
        if self.quadratic is not None and self.ridge > 0.0:
            added = self.quadratic.take(np.ix_(subset, subset)) * self.ridge
        if differences:
            tall, q = _from_first(tall.T).T, _from_first(q)
            added = None if added is None else _from_first(_from_first(added).T).T
        return tall.bound_inverse(q, added)[0] if q.midpoint.size else self.numbers.exact(0.0)


def bound_distance(columns: Columns, penalty: "Penalty", y: Array, x: Array, fitted: Array) -> Any:
    """Bound the distance of the fitted values from the exact optimum, root mean square by the weights.

    Parameters
    ----------
    columns, penalty
        The machine.
    y, x
        Targets and stored coefficients.
    fitted
        The values that ``predict`` returns.
    """
    numbers, v = columns.numbers, columns.weights
    mass = numbers.exact(v).total()
    root, point = mass.sqrt(), penalty.feasible(x, numbers)
    errors = numbers.exact(y) - columns.values(point)
    if columns.bias:
        errors = errors - float(errors.midpoint @ v) / float(v.sum())  # what is left is small
        errors = errors - (errors * v).total() / mass
    theta = errors.without_radius()
    if columns.bias:
        theta = theta - (theta * v).total() / mass
    offset, size = (errors - theta).bound_norm(v) * root, theta.bound_norm(v) * root
    g = columns.matrix.T @ (theta * v)
    if columns.ridge > 0.0:
        pull = columns.energy(point) * columns.ridge
        g, size = g - pull, (size * size + (point * pull).total()).bound_root()
    bound = bound_by_duality(columns, penalty, point, g, size, offset) / root
    return bound + (numbers.exact(fitted) - y + errors).bound_norm(v)


def bound_by_duality(columns: Columns, penalty: "Penalty", point: Any, g: Any, size: Any, offset: Any) -> Any:
    """Bound the norm of the distance of a feasible point from the optimum: the root of twice the smallest gap.

    ``g`` are the correlations of a dual point of length ``size`` that is at a distance ``offset`` from its errors.
    """
    bounds = []
    for step, scaled, slack in penalty.dual_points(columns, point, g):
        distance = offset + step + scaled * (size + step)
        bounds.append((distance * distance + slack * 2.0).bound_root())
    return min(bounds, key=lambda bound: bound.upper())


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def accuracy_of(
    columns: Columns, penalty: "Penalty", y: Array, x: Array, fitted: Array, tolerance: Tolerance, more: float = 0.0
) -> Accuracy:
    """Return the row of a certificate, by a bound in double precision; ``more`` is added to it."""
    bound, unit = math.inf, power_of_two(float(np.ptp(y)))
    if np.isfinite(fitted).all() and np.isfinite(x).all():
        bound = bound_distance(columns, penalty.divide(unit), y / unit, x / unit, fitted / unit).upper()
    return tolerance.row(unit * bound + more, FORMULA)


@dataclass(frozen=True, slots=True)
class OneNorm:
    """zeta times the 1-norm, of coefficients that sum to zero where ``zero_sum``."""

    zeta: float
    zero_sum: bool = True

    def divide(self, unit: float) -> Self:
        """Return the same penalty for targets in another unit."""
        return replace(self, zeta=self.zeta / unit)

    def feasible(self, x: Array, numbers: type[Any]) -> Any:
        """Return coefficients moved to a sum of zero, if it is required, by a change of the largest one."""
        point = numbers.exact(x)
        if not (self.zero_sum and x.any()):
            return point
        return point - point.total().place(np.array([int(np.abs(x).argmax())]), x.size)

    def dual_points(self, columns: Columns, x: Any, g: Any) -> Iterator[DualPoint]:
        """Yield the dual point of the errors, then the one after a step in the columns in use and in those near their
        limits.
        """
        numbers, used, middle = columns.numbers, x.midpoint != 0.0, g.midpoint
        nothing, none = numbers.exact(0.0), np.zeros(used.size, dtype=bool)
        nu: Any = 0.0
        if self.zero_sum:
            nu = ((g.upper_ends().largest() - (-g).upper_ends().largest()) * 0.5).without_radius()
        yield self._scale(x, g - nu, g * 0.0, none, np.zeros(used.size), nothing)
        if not used.any() or not np.isfinite(middle).all():
            return
        signs = np.sign(x.midpoint)
        center = float((middle - self.zeta * signs)[used].mean()) if self.zero_sum else 0.0
        near = used | (np.abs(np.abs(middle - center) - self.zeta) <= _NEAR * self.zeta)
        signs = np.where(used, signs, np.sign(middle - center))
        subset = columns.distinct(np.flatnonzero(near))
        step = columns.bound_step(g.take(subset) - self.zeta * signs[subset], subset, self.zero_sum)
        if not math.isfinite(step.upper()):
            return
        on, (nearest, distances) = none.copy(), columns.neighbours(subset)
        on[subset] = True
        c = g - g.take(subset[nearest]) + self.zeta * signs[subset[nearest]]
        yield self._scale(x, c, distances * step, on, signs, step)

    def _scale(self, x: Any, c: Any, change: Any, on: Any, signs: Array, step: Any) -> DualPoint:
        """Return the point scaled until no correlation, c up to a change, exceeds zeta; it is zeta where ``on``."""
        excess = (abs(c) + change - self.zeta).select(~on, c * 0.0).upper_ends().positive_part().largest()
        scaled, sizes = excess / (excess + self.zeta), abs(x)
        beside = (sizes * self.zeta - x * c * (1.0 - scaled) + sizes * change).positive_part()
        along = scaled * sizes * self.zeta + (x * -signs).positive_part() * (2.0 * self.zeta)
        return step, scaled, along.select(on, beside).total()


@dataclass(frozen=True, slots=True)
class MaximalVariation:
    """The sum of rho_l max|C^l x|, with multipliers (one row per component) that any method found."""

    components: Sequence[Any]
    rho: Weights
    multipliers: Array

    def divide(self, unit: float) -> Self:
        """Return the same penalty for targets in another unit."""
        return replace(self, rho=self.rho / unit, multipliers=self.multipliers / unit)

    def feasible(self, x: Array, numbers: type[Any]) -> Any:
        """Return the coefficients."""
        return numbers.exact(x)

    def dual_points(self, columns: Columns, x: Any, g: Any) -> Iterator[DualPoint]:
        """Yield the one that the multipliers determine."""
        numbers, xi = columns.numbers, into_balls(self.multipliers, self.rho)
        values = [component @ x for component in self.components]
        c = reduce(add, [component.T @ row for component, row in zip(self.components, xi, strict=True)])
        step = columns.bound_step(g - c, np.arange(x.midpoint.size), False)
        slack = []
        for f, row, weight in zip(values, xi, np.broadcast_to(self.rho, len(xi)), strict=True):
            top = abs(f).upper_ends().largest()
            spare, (used,) = numbers.exact(np.append(weight, -np.abs(row))).total(), np.nonzero(row)
            slack.append(spare * top)
            if used.size:
                behind = top - f.take(used) * np.sign(row[used])
                slack.append((behind.positive_part() * np.abs(row[used])).total())
        yield step, numbers.exact(0.0), reduce(add, slack)


#: A norm as a penalty.
Penalty = OneNorm | MaximalVariation


def into_balls(xi: Array, rho: Weights) -> Array:
    """Return the multipliers of every component, shrunk where their 1-norm exceeds its weight."""
    out = np.array(xi, dtype=np.float64)
    for row, multipliers, weight in zip(out, xi, np.broadcast_to(rho, len(out)), strict=True):
        factor = 1.0
        while math.fsum(np.append(np.abs(row), -weight)) > 0.0:  # rounded once, so that its sign is right
            factor = min(weight / math.fsum(np.abs(multipliers)), math.nextafter(factor, 0.0))
            row[:] = factor * multipliers
    return out


def _enclose_kernel(kernel: Kernel, X: Any, Z: Any, matrix: Array) -> Double:
    """Return kernel values from differences, each with a radius; a given matrix is exact."""
    return kernel.enclose(X, Z) if kernel.trusted and not kernel.pairwise else Double(matrix)


def _from_first(rows: Any) -> Any:
    """Return the differences of all rows but the first to the first one."""
    return rows.take(slice(1, None)) - rows.take(slice(0, 1))


@dataclass(frozen=True, slots=True)
class VariationMachine:
    """A machine of maximal variation at a point: plain numbers, in the directions of its coordinates.

    Parameters
    ----------
    components
        The matrices C^l of all rows.
    root
        W with w'w = ||W v||^2.
    weights, bias, ridge, rho
        Weights of the rows, whether there is a bias, and the weights of w'w / 2 and of the components.
    v, xi
        Coordinates of the point, and the multipliers, one row per component.
    """

    components: Array
    root: Array
    weights: Array
    bias: bool
    ridge: float
    rho: Weights
    v: Array
    xi: Array

    def penalty(self, components: Sequence[Any]) -> MaximalVariation:
        """Return the penalty for the components in some numbers."""
        return MaximalVariation(components, self.rho, self.xi)

    def accuracy(
        self,
        kernels: Sequence[Kernel],
        X: Any,
        points: Any,
        y: Array,
        coefficients: Sequence[Array],
        bias: float,
        fitted: Array,
        tolerance: Tolerance,
    ) -> Accuracy:
        """Return the row of the answer, with the stored coefficients of every component in exact kernel values."""
        matrices = [Double(component) for component in self.components]
        F, W = reduce(add, matrices), Double(self.root)
        columns = Columns(F, self.weights, self.bias, self.ridge, W.T @ W if self.ridge > 0.0 else None)
        expansions = [kernel.enclose(X, points) @ a for kernel, a in zip(kernels, coefficients, strict=True)]
        stored = reduce(add, expansions) + bias
        more = (stored - fitted).bound_norm(self.weights).upper()
        return accuracy_of(columns, self.penalty(matrices), y, self.v, fitted, tolerance, more)
