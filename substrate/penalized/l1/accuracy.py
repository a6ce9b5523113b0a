r"""How far the fitted values of an L1 substrate are from those of the exact optimum.

With columns K of kernel values, all of a symmetric matrix or some on a reduced basis, and weights v of the rows,

.. math:: \min_{a, b} \; \tfrac12 \|y - K a - b 1\|_v^2 + \tfrac{\tau}{2} a^T K a + \zeta \|a\|_1
          \qquad \big(\text{s.t. } 1^T a = 0 \text{ where every row has a column}\big)

has dual points :math:`\theta` with :math:`1^T V \theta = 0` and z with :math:`|g_i| \le \zeta`,
:math:`g = K^T V \theta - \tau K z - \nu 1`; without the constraint :math:`\nu = 0`, and without a ridge there is no z.
For feasible points with errors e

.. math:: P - Q = \tfrac12 \|e - \theta\|_v^2 + \tfrac{\tau}{2} (a - z)^T K (a - z)
          + \sum_i \big(\zeta |a_i| - a_i g_i\big) ,

a sum of non-negative terms, and :math:`\tfrac12 \|f - f^\star\|_v^2 \le P - Q` since the objective is strongly convex
in the fitted values. Without a ridge K may be any matrix; with one it is positive semi-definite.

The first dual point is :math:`t\,(\theta, z) = t\,(e, a)`, shrunk by what the correlations exceed zeta:
:math:`t = \zeta / (\zeta + x)` with the largest excess x, :math:`\nu` midway between their extremes. Rounding of the
correlations contributes a number of its own size to that gap, and its root to the bound on the answer.

**One step in the columns in use** leads to a nearer dual point. Let A be these columns, or those and the ones whose
correlations are at their limit, with signs s; :math:`C = [k_j - \bar k_j]_{j \in A}`. The point

.. math:: \theta = e - C x, \quad z = a + x, \qquad H x = \delta, \quad H = C^T V C + \tau K_{AA}, \quad
          \delta = g_A - \nu 1 - \zeta s

has the correlations :math:`\nu + \zeta s` on A exactly, so the gap is reduced to half of
:math:`\delta^T H^{-1} \delta`, rounding squared, as long as no other column exceeds its limit; otherwise the point is
shrunk by the excess. A :math:`\theta` that is known up to a vector of norm :math:`\mu` adds :math:`\mu` to the distance
from e. The point is not computed, only its distance is bounded, and what it changes in the correlations: in balls by
the solution x, in double by Cauchy-Schwarz with the norms of the columns.

:func:`bound_by_duality` is this, over numbers with a radius (:mod:`~substrate.certificates.enclosed`), and
:func:`bound_l1` makes the points from columns in memory: in doubled precision that is the certificate of a dense
machine, in balls the proof of a dense one and of one on a basis (:mod:`substrate.proof.duality`); the certificate on a
basis (:func:`l1_accuracy_of_sums`) has the points from sums over its rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, Protocol, TypeVar

import numpy as np

from substrate.arrays import Array
from substrate.certificates.enclosed import Double, Doubled, Enclosed, GramFactor, at_most, sum_rounding
from substrate.certificates.rows import Accuracy, power_of_two
from substrate.certificates.tolerance import Tolerance
from substrate.least_squares.kernel_products import CarefulProducts
from substrate.penalized.computed_kernel import ComputedKernel
from substrate.reduced.certificate import ErrorsRounded, Residuals
from substrate.reduced.curvature import Curvature
from substrate.reduced.features import EigenFeatures
from substrate.threads import blas_threads

__all__ = [
    "ComputedColumns",
    "DualPoint",
    "L1Columns",
    "SparseAnswer",
    "StepColumns",
    "SummedColumns",
    "bound_by_duality",
    "bound_l1",
    "l1_accuracy",
    "l1_accuracy_of_sums",
]

N = TypeVar("N", bound=Enclosed)

#: Relative distance from their limit at which columns are taken to be at it; any choice gives a bound.
_NEAR = 1e-6

FORMULA = "sqrt(|e - theta|^2 + 2 sum(zeta|a| - a g)) + rounding"
SUMS_FORMULA = "sqrt(2 (primal - dual objective)) + |1'e| / sqrt(1'v) + rounding"


@dataclass(frozen=True, slots=True)
class SparseAnswer:
    """One stored output: one coefficient per column, and the values that predict returns.

    ``weights`` are those of the squared errors, one where they are None; ``zero_sum`` is whether the coefficients sum
    to zero.
    """

    y: Array
    zeta: float
    a: Array
    b: float
    fitted: Array
    ridge: float = 0.0
    weights: Array | None = None
    zero_sum: bool = True

    @property
    def finite(self) -> bool:
        """Whether all stored numbers are finite."""
        return all(bool(np.isfinite(numbers).all()) for numbers in (self.a, self.fitted, self.b))

    def divide(self, unit: float) -> "SparseAnswer":
        """Return the machine in another unit of y, in which the ridge is the same number."""
        return replace(
            self,
            y=self.y / unit,
            zeta=self.zeta / unit,
            a=self.a / unit,
            b=self.b / unit,
            fitted=self.fitted / unit,
        )


@dataclass(frozen=True, slots=True)
class DualPoint:
    """Enclosed numbers of which dual points are made.

    ``a`` are the coefficients of the feasible point, ``g`` the correlations of theta, and of z where there is a ridge;
    ``length`` bounds the norm of both, ``moved`` the distance of theta from the errors of the feasible point.
    ``zeta`` is the limit, and nu is free where ``zero_sum``.
    """

    a: Any
    g: Any
    length: Any
    moved: Any
    zeta: float
    ridge: float = 0.0
    zero_sum: bool = True


class StepColumns(Protocol):
    """The columns of a machine, for steps of a dual point."""

    def groups(self, some: Any) -> Any:
        """Return a number per given column, the same for equal columns."""

    def step(self, some: Any, left: Any, point: DualPoint) -> "tuple[Any, Any, Any] | None":
        """Return nu, a bound on the root of d'H^-1 d for d = left - nu, and what correlations change; None if unknown.

        ``nu`` is zero unless ``point.zero_sum``; it should make the second number small, and any does.
        """


def bound_by_duality(point: DualPoint, columns: StepColumns) -> Any:
    """Bound sqrt(2 (P - Q)) at the nearest of the dual points: shrunk, or after a step with or without columns near."""
    bound = _bound_shrunk(point)
    for chosen, signs in _columns_at_limit(point):
        stepped = _bound_stepped(point, columns, chosen, signs)
        if stepped is not None and math.isfinite(stepped.upper()):
            bound = bound.minimum(stepped)
    return bound


def _bound_shrunk(point: DualPoint) -> Any:
    """Bound the root at t (theta, z)."""
    nu: Any = 0.0
    if point.zero_sum:
        top, bottom = (correlations.upper_ends().largest() for correlations in (point.g, -point.g))
        nu = ((top - bottom) * 0.5).without_radius()
    c = point.g - nu
    lost = _shrink(abs(c) - point.zeta, point.zeta)
    slack = (abs(point.a) * point.zeta - point.a * (c * (1.0 - lost))).positive_part().sum()
    missed = point.moved + lost * point.length
    return (missed * missed + slack * 2.0).bound_root()


def _shrink(above: Any, zeta: float) -> Any:
    """Return 1 - t, of the t that takes the largest excess off, whatever it is within its radius."""
    excess = above.upper_ends().positive_part().largest()
    return excess / (excess + zeta)


def _columns_at_limit(point: DualPoint) -> list[tuple[Any, Array]]:
    """Choose columns that a step takes to their limits, with signs: those in use, and with these all that are near."""
    a, g = point.a.midpoint, point.g.midpoint
    used = a != 0.0
    if not used.any() or not np.isfinite(g).all():
        return []
    center = float((g - point.zeta * np.sign(a))[used].mean()) if point.zero_sum else 0.0
    near = used | (np.abs(np.abs(g - center) - point.zeta) <= _NEAR * point.zeta)
    signs = np.where(used, np.sign(a), np.sign(g - center))
    return [(chosen, signs) for chosen in ([used] if np.array_equal(used, near) else [used, near])]


def _bound_stepped(point: DualPoint, columns: StepColumns, some: Any, signs: Array) -> Any:
    """Bound the root at the point after a step among some columns; None where no step is known."""
    (at_limit,) = np.nonzero(some)
    # equal columns have equal correlations: one represents all
    groups = columns.groups(at_limit)
    _, first, every = np.unique(groups, return_index=True, return_inverse=True)
    chosen = at_limit[first]
    if np.any(signs[at_limit] != signs[chosen][every]):
        return None
    step = columns.step(chosen, point.g.take(chosen) - point.zeta * signs[chosen], point)
    if step is None:
        return None
    nu, size, change = step
    lost = size * 0.0
    if not some.all():
        reached = abs(point.g - nu - change).take(~some)
        lost = _shrink(reached - point.zeta, point.zeta)
    # a coefficient whose sign is not certain may have the other one, with which its term is twice as large
    beyond = (point.a * -signs).take(some).positive_part().sum()
    slack = (lost * abs(point.a).sum() + beyond * 2.0) * point.zeta
    missed = point.moved + size + lost * (point.length + size)
    return (missed * missed + slack * 2.0).bound_root()


class L1Columns(StepColumns, Protocol):
    """All columns in memory, in enclosed numbers."""

    def products(self, x: Any) -> Any:
        """Return K x."""

    def adjoint(self, z: Any) -> Any:
        """Return K'z."""


def bound_l1(machine: SparseAnswer, numbers: type[N], columns: L1Columns) -> Any:
    """Bound the distance of ``machine.fitted`` from the fitted values of the exact optimum, root mean square.

    A nonzero sum of the coefficients is subtracted from the largest one where it must be zero, and the bias is the best
    one for the coefficients; the effect of both is counted, and so is the distance of what ``predict`` returned.

    Parameters
    ----------
    machine
        What is stored.
    numbers
        The arithmetic: doubled precision or balls.
    columns
        K in these numbers.
    """
    y, tau, a = machine.y, machine.ridge, numbers.exact(machine.a)
    v = np.ones(y.size) if machine.weights is None else machine.weights
    mass = numbers.exact(v).total()
    root = mass.sqrt()

    def center(errors: Any) -> Any:
        return errors - (errors if machine.weights is None else errors * v).total() / mass

    errors_before = []
    if machine.zero_sum and machine.a.any():
        largest, total = np.array([int(np.abs(machine.a).argmax())]), float(a.total().midpoint)
        if abs(total) > sum_rounding(4) * float(np.abs(machine.a).sum()):
            errors_before.append(center(y - columns.products(a) - machine.b))
        feasible = machine.a.copy()
        feasible[largest] -= total
        a = numbers.exact(feasible)
        a = a.absorb(a.total().place(largest, y.size))  # what is left of the sum is rounding
    f = columns.products(a)
    errors = center(y - f - machine.b)
    energy = (a * f).total() * tau if tau > 0.0 else None
    bounds = []
    # coefficients that did not sum to zero may have had errors that are nearer to those of a dual point
    for candidate in (errors, *errors_before):
        theta = center(candidate.round().without_radius().careful())
        pulled, length = theta if machine.weights is None else theta * v, theta.bound_norm(v) * root
        if energy is not None:
            pulled, length = pulled - a * tau, (length * length + energy).bound_root()
        distance = (errors - theta).bound_norm(v) * root
        g = columns.adjoint(pulled).round()
        point = DualPoint(
            a=a.round(), g=g, length=length, moved=distance, zeta=machine.zeta, ridge=tau, zero_sum=machine.zero_sum
        )
        bounds.append(bound_by_duality(point, columns))
    returned = (numbers.exact(machine.fitted) - (y - errors)).bound_norm(v)
    return reduce(lambda one, other: one.minimum(other), bounds) / root + returned


@dataclass(frozen=True)
class ComputedColumns(ComputedKernel):
    """A symmetric kernel matrix in working or in doubled precision; ``cache`` holds what both have in common."""

    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def adjoint(self, z: Doubled) -> Doubled:
        """Return K z: the matrix is symmetric."""
        return self.products(z)

    def groups(self, some: Any) -> Any:
        """Return numbers of equal columns, by points or by values."""
        return self.plain.groups(some)

    def step(self, some: Any, left: Double, point: DualPoint) -> tuple[Any, Any, Any] | None:
        """Bound the step by a factor of M with M'M = H, and the change of the correlations by the norms of columns.

        Where nu is free and M alone is not known to be regular, as with as many columns as rows, the differences of its
        columns to the first one may be: w = M x has the given products with these, and nu is what the first leaves.
        """
        lengths = self._recall("lengths", self._lengths)
        if point.ridge > 0.0:
            diagonal = Double(self._diagonal, self.plain.rounding * self._diagonal)
            lengths = (lengths * lengths + diagonal * point.ridge).bound_root()
        factor = self._recall((some.tobytes(), point.ridge), lambda: self._factor(some, point.ridge))
        nu: Any = 0.0
        if factor is not None:
            pulls = factor.T.T @ np.column_stack([left.middle, np.ones(some.size)])
            if point.zero_sum:
                nu = float(pulls[:, 0] @ pulls[:, 1]) / float(pulls[:, 1] @ pulls[:, 1])
            size = factor.bound_inverse_norm(left - nu)
        else:
            factor = self._recall(some.tobytes(), lambda: self._factor_of_differences(some, point))
            if factor is None:
                return None
            size = factor.bound_inverse_norm(left.take(slice(1, None)) - left.take(0))
            nu = left.take(0) + _about_zero(lengths.take(some[0]) * size)
        return nu, size, _about_zero(lengths * size)

    def _recall(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def _factor(self, some: Any, tau: float) -> GramFactor | None:
        """Return that of M = [C; sqrt(tau) R], K_AA = R'R up to a matrix whose norm is counted."""
        if some.size >= self._diagonal.size and tau == 0.0:  # centred columns, as many as rows
            return None
        K, C = self._center_columns(some)
        if tau == 0.0:
            return GramFactor.of(C)
        inner = K.take(some)
        try:
            values, vectors = np.linalg.eigh(inner.middle)
        except np.linalg.LinAlgError:
            return None
        R = Double(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T)
        factor = GramFactor.of(C.T.beside((Double(tau).sqrt() * R).T).T)
        return None if factor is None else factor.plus((inner - R.T @ R) * tau)

    def _factor_of_differences(self, some: Any, point: DualPoint) -> GramFactor | None:
        """Return that of the differences of centred columns to the first one."""
        if not 1 < some.size <= self._diagonal.size or point.ridge > 0.0 or not point.zero_sum:
            return None
        _, C = self._center_columns(some)
        return GramFactor.of((C.T.take(slice(1, None)) - C.T.take(slice(0, 1))).T)

    def _center_columns(self, some: Any) -> tuple[Double, Double]:
        """Return some columns, and without their means."""
        roots, n = np.sqrt(self._diagonal), self._diagonal.size
        radius = 0.0 if self.plain.rounding == 0.0 else self.plain.rounding * roots[:, None] * roots[some]
        K = Double(self.plain.matrix[:, some], radius)
        return K, K - (Double(np.ones((1, n))) @ K) / float(n)

    @cached_property
    def _diagonal(self) -> Array:
        return np.maximum(np.diagonal(self.plain.matrix), 0.0)

    def _lengths(self) -> Double:
        """Bound the norms of all centred columns.

        A kernel value is known to p s_i s_j, a mean to n u of the sizes in it, and a difference to u of itself: of a
        column of norm k in all p s_j |s| + (n + 2) u k.
        """
        matrix, roots = self.plain.matrix, np.sqrt(self._diagonal)
        off = self.plain.rounding * roots * float(np.linalg.norm(roots))
        off = off + sum_rounding(len(matrix) + 2) * np.linalg.norm(matrix, axis=0)
        return Double(np.linalg.norm(matrix - matrix.mean(axis=0), axis=0), off)


def _about_zero(sizes: Double) -> Double:
    """Return numbers of which only these sizes are known."""
    return Double(np.zeros_like(sizes.middle), sizes.sizes)


def l1_accuracy(machine: SparseAnswer, careful: CarefulProducts, tolerance: Tolerance) -> tuple[Accuracy, bool]:
    """Return the row for one output of a dense machine, and whether doubled precision was needed."""
    columns = ComputedColumns(careful.plain, careful.plain)
    plain = _row(machine, columns, FORMULA, tolerance)
    if plain.passes or not machine.finite:
        return plain, False
    careful_row = _row(machine, replace(columns, map=careful), f"{FORMULA}, in doubled precision", tolerance)
    return min(plain, careful_row, key=lambda row: row.value), True


def _row(machine: SparseAnswer, columns: ComputedColumns, formula: str, tolerance: Tolerance) -> Accuracy:
    bound, unit = math.inf, power_of_two(float(np.ptp(machine.y)))
    if machine.finite:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"), blas_threads(machine.y.size):
            bound = bound_l1(machine.divide(unit), Doubled, columns).upper() * unit
    return tolerance.row(bound, formula)


@dataclass(frozen=True, slots=True)
class SummedColumns:
    """Columns on a reduced basis, by sums over their rows.

    G, the means of the columns and those about the origin of the sums, the roots of k(z_j, z_j), terms of a sum; the
    mass of all rows, the relative error of a kernel value, and the root of the sum of all v k(x, x).

    A kernel value is known to p s_i s_j, so that a column is to p s_j times that root, in norm; the sums by which it is
    squared and centred add sequentially so many terms each, relative to the squares about the origin.
    """

    gram: Array
    means: Array
    offsets: Array
    sizes: Array
    terms: int
    mass: float
    rounding: float
    spread: float

    def groups(self, some: Any) -> Any:
        """Return different numbers: sums do not tell equal columns."""
        return some

    def step(self, some: Any, left: Double, point: DualPoint) -> tuple[Any, Any, Any] | None:
        """Bound the step by the curvature of these columns."""
        m = self.sizes.size
        chosen = EigenFeatures(np.eye(m)[:, some], np.ones(some.size))
        sums = (self.gram[np.ix_(some, some)], self.means[some], self.offsets[some], self.mass, self.sizes, self.terms)
        reach = Curvature(chosen, *sums, accumulated=False).at(0.0, self.rounding, self.spread)
        # the product with the inverse root rounds k terms of these sizes
        radius = left.place(some, m).error().sizes
        radius[some] += sum_rounding(some.size) * np.abs(left.middle)
        size = float(reach.of_gradient(left.middle[:, None])[0]) + float(reach.of_radius(radius[:, None])[0])
        return 0.0, Double(size), _about_zero(Double(self.lengths * at_most(size)))

    @property
    def rounded(self) -> Array:
        """What rounding of kernel values may change in a column, in norm."""
        return self.rounding * self.spread * self.sizes

    @property
    def lengths(self) -> Array:
        """Bounds on the norms of the centred columns."""
        squares = np.maximum(np.diagonal(self.gram), 0.0)
        summed = sum_rounding(3 * self.terms + 8) * (squares + self.mass * np.square(self.offsets))
        return np.asarray(at_most(1.0) * (np.sqrt(squares + summed) + self.rounded))

    @property
    def summed_lengths(self) -> Array:
        """Bounds on the norms of the columns as they were summed, and those of their means."""
        means = math.sqrt(self.mass) * np.abs(self.means)
        return np.asarray(at_most(1.0) * (np.hypot(self.lengths, means) + means))


def l1_accuracy_of_sums(
    residuals: Residuals,
    rounded: ErrorsRounded,
    columns: SummedColumns,
    zeta: float,
    coefficients: Array,
    unit: float,
    tolerances: Sequence[Tolerance],
) -> list[Accuracy]:
    r"""Return the row of every output on a reduced basis, in units of y, from sums over the errors of all rows.

    The dual point is made of the errors :math:`\hat e` as they were computed, less their mean, which are within
    ``rounded.errors`` of those of the machine. Their sums :math:`\hat K^T V \hat e` are accurate to the rounding of
    kernel values and of sums, relative to the norms of the columns and of :math:`\hat e`.
    """
    root = math.sqrt(residuals.mass)
    rows = []
    for k in range(coefficients.shape[1]):
        beta, total = coefficients[:, k], float(residuals.total[k])
        length = at_most(math.sqrt(float(residuals.squares[k])))
        # of kernel values in the sums and in the means, and of the sums themselves, of which the total is one
        radius = columns.rounded * (length + 4.0 * abs(total) / root) + columns.summed_lengths * rounded.slopes * length
        g = Double(residuals.slope[:, k], radius) - Double(columns.means) * total
        radius_of_errors = Double(float(rounded.errors[k]))
        point = DualPoint(a=Double(beta), g=g, length=Double(length), moved=radius_of_errors, zeta=zeta, zero_sum=False)
        with np.errstate(over="ignore", invalid="ignore"):
            distance = bound_by_duality(point, columns).upper()
        # predict has another mean, known to the rounding of its sum
        distance += at_most(abs(total) / root + rounded.slopes * length + float(rounded.distance[k]))
        rows.append(tolerances[k].row(unit * distance / root, SUMS_FORMULA))
    return rows
