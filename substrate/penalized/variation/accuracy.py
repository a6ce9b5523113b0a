r"""How far the fitted values of a machine of maximal variation are from those of the exact optimum.

In coordinates (:mod:`substrate.penalized.variation.component_coordinates`) the machine is

.. math:: \min_{v, b} \; \tfrac12 \|y - F v - b 1\|^2 + \tfrac{\tau}{2} \|W v\|^2 + \sum_l \rho_l \|C^l v\|_\infty,
          \qquad F = \sum_l C^l ,

whose dual has :math:`\theta` with :math:`1^T \theta = 0`, multipliers :math:`\|\xi^l\|_1 \le \rho_l` and some z with
:math:`F^T \theta = \sum_l C^{lT} \xi^l + \tau W^T W z`. For feasible points with errors e

.. math:: P - Q = \tfrac12 \|e - \theta\|^2 + \tfrac{\tau}{2} \|W (v - z)\|^2
          + \sum_l \big(\rho_l \|C^l v\|_\infty - \xi^{lT} C^l v\big) ,

a sum of non-negative terms. The multipliers are those that a solver found, shrunk into their balls; e and
v then violate the equation by :math:`q = F^T e - \sum_l C^{lT} \xi^l - \tau W^T W v`, and the nearest
:math:`(\theta, z)` that satisfies it adds :math:`\tfrac12 q^T H^{-1} q`, :math:`H = F^T P F + \tau W^T W`. Errors that
are known up to :math:`\delta` add :math:`\|\delta\|` to the root of that, whatever the condition of H. With a row
:math:`top` of the largest value, and :math:`\varepsilon` what others may exceed it by, the last term is

.. math:: \rho \|C v\|_\infty - \xi^T C v \le (\rho - \|\xi\|_1)\, (|C_{top} v| + \varepsilon)
          + \sum_i |\xi_i| \big(|C_{top} v| - \operatorname{sign}(\xi_i)\, C_i v + \varepsilon\big) ,

in which the row itself contributes zero, not the difference of two numbers that are known to rounding.
:func:`bound_variation` is this, over numbers with a radius (:mod:`~substrate.certificates.enclosed`): in doubled
precision the certificate, in balls the proof (:mod:`substrate.proof.variation`).

The directions that the cut-off keeps are part of the model as double precision computes them: the bound does not cover
their choice. The values of the components along them are products of kernel values. For kernels of finite rank their
rounding is the radius of C. Columns far from zero need this: at an offset of 1e8 what is left of the values of a linear
kernel without their mean is rounding. The distance of what ``predict`` returns from the feasible point is added, and
its distance from the stored expansion in exact kernel values where C counts as exact.

The optimality conditions as certificate rows, for either expansion of the components, are

.. math:: F^T(f - y) + \tau \, \partial(\tfrac12 w^T w) + \nu 1 = \sum_l C^{lT} (\xi^{-l} - \xi^{+l})

with :math:`C^l = \Omega^l` in the coordinates of [Pelckmans2005]_ eq. (27a), whose right-hand side lacks that matrix in
print; the other conditions are rows of :mod:`substrate.ingredients.component_bounds`.

The gap of an exact point is :math:`\sum_l \sum_i |\xi^l_i| (t_l - s_i C^l_i v)`, first order in the rounding of the
differences between rows that share a bound, and the fitted values are known to its root only. These differences are
therefore computed in doubled precision and removed by the shortest step in :math:`u = R v`,

.. math:: \min_{\delta} \|R \delta\| \quad \text{s.t.} \quad
          (s_i C^l_i - s_{ref} C^l_{ref})\, \delta = s_{ref} C^l_{ref} v - s_i C^l_i v .
"""

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.doubled_precision import exact_product
from substrate.certificates.enclosed import Double, Doubled, Enclosed, GramFactor
from substrate.certificates.rows import Accuracy, power_of_two
from substrate.certificates.tolerance import Tolerance
from substrate.ingredients.component_bounds import variation_rows
from substrate.ingredients.component_weights import Weights, each_weight, per_row
from substrate.penalized.variation.active_rows import VariationSolution
from substrate.penalized.variation.component_coordinates import ComponentCoordinates, center

__all__ = [
    "ComponentValues",
    "DoubledComponents",
    "EqualRows",
    "VariationWitness",
    "bound_slack_below",
    "bound_variation",
    "refined_witness",
    "shrink",
    "solution_rows",
    "stationarity_row",
    "sum_of",
    "trivial_cost",
    "variation_accuracy",
    "variation_unit",
]

N = TypeVar("N", bound=Enclosed)
E = TypeVar("E", bound=Enclosed)

#: Share of rho above which a multiplier implies that its row is at its bound.
_ACTIVE = 1e-9
#: Share of the largest below which values and coordinates count as zero when rows are tied; any choice gives a bound.
_VANISHED = 1e-13

FORMULA = "sqrt(|R^-T q|^2 + 2 sum(rho |C v|_max - xi'C v)) + rounding"


@dataclass(frozen=True, slots=True)
class VariationWitness:
    """A point in coordinates and net multipliers xi^+ - xi^- (one row per component), from any method."""

    v: Array
    xi: Array


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Rows that share the largest value of a component, with signs; the first of a component is its reference."""

    component: Any
    row: Any
    sign: Array
    reference: Any

    @classmethod
    def of(cls, xi: Array, rho: Weights, sizes: Array) -> "EqualRows":
        """Return the rows with sizable multipliers, the largest one first, of components whose sizes are not zero."""
        component: list[int] = []
        row: list[int] = []
        reference: list[int] = []
        for number, active in enumerate(np.abs(xi) > _ACTIVE * per_row(rho)):
            (rows,) = np.nonzero(active & (sizes[number] > _VANISHED * sizes.max()))
            order = rows[np.argsort(-np.abs(xi[number, rows]), kind="stable")]
            reference += [len(row)] * rows.size
            component += [number] * rows.size
            row += order.tolist()
        places = (np.array(component, dtype=int), np.array(row, dtype=int))
        return cls(*places, np.sign(xi[places]), np.array(reference, dtype=int))

    @property
    def signed_places(self) -> Iterator[tuple[int, int, float]]:
        """Component, row and sign of each."""
        return zip(self.component.tolist(), self.row.tolist(), self.sign.tolist(), strict=True)

    @property
    def others(self) -> Any:
        """Numbers of the rows beside the references."""
        return np.flatnonzero(self.reference != np.arange(self.row.size))

    def differences(self, values: Sequence[Any]) -> Any:
        """Return the value of its reference less that of every other row, of components with these values."""
        numbers, differences = self.others, []
        for number in np.unique(self.component[numbers]):
            places = np.flatnonzero(self.component[numbers] == number)
            rows, first = numbers[places], self.reference[numbers[places[0]]]
            largest = values[number].take(int(self.row[first])) * float(self.sign[first])
            difference = largest - values[number].take(self.row[rows]) * self.sign[rows]
            differences.append(difference.place(places, numbers.size))
        return sum_of(differences)


class ComponentValues(Protocol):
    """The matrices C^l of a machine at a point v, in enclosed numbers."""

    @property
    def bias(self) -> bool:
        """Whether there is a bias."""

    def values(self, v: Array) -> Sequence[Any]:
        """Return C^l v of every component."""

    def adjoint(self, pulls: Sequence[Any]) -> Any:
        """Return the sum of C^l' z^l over the components."""

    def ridge_pull(self, v: Array) -> Any:
        """Return tau W'W v; zero without a ridge."""

    def inverse_norm(self, q: Any) -> Any:
        """Bound sqrt(q' H^-1 q)."""

    def bound_step(self, ties: EqualRows, change: Any, free: Any) -> Any:
        """Bound sqrt(d'H d) of the smallest d, of free coordinates, by which differences of tied rows change so."""

    def reach(self, number: int, free: Any) -> Any:
        """Bound what any row of one component can change by such a d of norm one."""


def bound_variation(
    values: ComponentValues,
    numbers: type[N],
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    fitted: Array,
    stored: Any = None,
    row_weights: Array | None = None,
) -> Any:
    r"""Bound the distance of ``fitted`` from the fitted values of the exact optimum, root mean square.

    With weights p of the squared errors, means and norms are weighted, and C' p e takes the place of C'e.

    Parameters
    ----------
    values
        The components in these numbers.
    numbers
        The arithmetic: doubled precision or balls.
    y, rho
        Targets, and one weight or one for each component.
    witness
        A point and multipliers, found in whatever way.
    fitted
        What ``predict`` returns for the rows.
    stored
        The values of the stored expansion in exact kernel values, where they are to be compared with ``fitted``.
    row_weights
        Weights of the squared errors, where they are not one; H is that of ``values`` with the same weights.
    """
    xi, p = shrink(witness.xi, rho), np.ones(y.size) if row_weights is None else row_weights
    mass = numbers.exact(p).total()
    root = mass.sqrt()
    values_of_components, weights = values.values(witness.v), list(each_weight(rho, len(xi)))
    errors = numbers.exact(y) - sum_of(values_of_components)
    if values.bias:
        errors = errors - float((errors * p).total().midpoint) / p.sum()  # so that the rest is a small number
        errors = errors - (errors * p).total() / mass
    near = errors.round()
    theta = near.without_radius().careful()
    if values.bias:
        theta = theta - (theta * p).total() / mass
    pulled = theta if row_weights is None else theta * p
    q = values.adjoint([pulled - pulls for pulls in xi]) - values.ridge_pull(witness.v)
    missed = values.inverse_norm(q) / root + near.error().bound_norm(p)
    between = [_bound_slack(numbers, *arguments) for arguments in zip(values_of_components, xi, weights, strict=True)]
    bound = (missed * missed + sum_of(between) * 2.0 / mass).bound_root()
    ties = EqualRows.of(
        xi, rho, np.array([np.abs(values_of_component.midpoint).max() for values_of_component in values_of_components])
    )
    # a component of its own coordinates that vanishes is left at zero
    free = np.flatnonzero(np.abs(witness.v) > _VANISHED * np.abs(witness.v).max(initial=0.0))
    step = (
        values.bound_step(ties, ties.differences(values_of_components), free)
        if ties.others.size and free.size
        else None
    )
    if step is not None and math.isfinite(step.upper()):
        between = [
            _bound_slack(numbers, *arguments, ties.row[ties.component == k], values.reach(k, free) * step)
            for k, arguments in enumerate(zip(values_of_components, xi, weights, strict=True))
        ]
        step_distance = step / root
        distance = missed + step_distance
        bound = bound.minimum((distance * distance + sum_of(between) * 2.0 / mass).bound_root() + step_distance)
    returned = numbers.exact(fitted)
    bound = bound + (returned - (y - errors)).bound_norm(p)
    return bound if stored is None else bound + (returned - stored).bound_norm(p)


def _bound_slack(numbers: type[N], values: Any, xi: Array, rho: float, tied: Any = (), drift: Any = None) -> Any:
    """Bound rho max|C v| - xi'C v of one component.

    Where ``tied`` rows are given, it is that of another point, at which they are equal up to their signs, and at which
    every row differs by ``drift`` at most.
    """
    upward = values.select(values.midpoint >= 0.0, -values)
    if len(tied):
        largest, places = values.take(int(tied[0])) * float(np.sign(xi[tied[0]])), np.asarray(tied)
    else:
        first = int(upward.midpoint.argmax())
        first = int((upward - upward.take(first)).midpoint.argmax())  # of values that agree in double precision
        largest, places = upward.take(first), np.array([first])
    drift = numbers.exact(np.zeros(xi.size)).round() if drift is None else drift
    drift_of_row = drift.take(int(places[0]))
    beside = np.ones(xi.size, dtype=bool)
    beside[places] = False
    excess = (largest.round() * -2.0 + drift_of_row * 2.0).positive_part()
    if beside.any():
        above = (upward - largest).round().take(beside) + drift.take(beside) + drift_of_row
        excess = excess + above.positive_part().largest()
    (rows,) = np.nonzero(xi)
    sizes = np.abs(xi)
    is_same = ~beside[rows]
    if not len(tied):  # the row that is the largest is not behind, if its multiplier has its sign
        is_same &= np.sign(xi[rows]) == np.where(values.midpoint[rows] >= 0.0, 1.0, -1.0)
    slack = _spare(numbers, xi, rho) * (largest.round() + drift_of_row + excess) + excess * numbers.exact(sizes).sum()
    late = rows[~is_same]
    return slack + _bound_behind(values, xi, late, largest, drift.take(late) + drift_of_row) if late.size else slack


def bound_slack_below(numbers: type[N], values: Any, xi: Array, rho: float, top: Any) -> Any:
    """Bound rho max|C v| - xi'C v of one component, of which only the rows with multipliers are given.

    ``top`` is a number, without radius, that no size of a value exceeds, at whatever row.
    """
    (rows,) = np.nonzero(xi)
    slack = _spare(numbers, xi, rho) * top
    return slack + _bound_behind(values, xi, rows, top.careful(), 0.0) if rows.size else slack


def _spare(numbers: type[N], xi: Array, rho: float) -> Any:
    """Return rho less the sizes of the multipliers."""
    return numbers.exact(np.append(rho, -np.abs(xi[xi != 0.0]))).total()


def _bound_behind(values: Any, xi: Array, rows: Any, largest: Any, drift: Any) -> Any:
    """Bound the sum over some rows of what each is behind the largest value, times its multiplier."""
    chosen = values.take(rows)
    behind = (largest - chosen.select(xi[rows] > 0.0, -chosen)).round() + drift
    return (behind.positive_part() * np.abs(xi[rows])).sum()


def shrink(xi: Array, rho: Weights) -> Array:
    """Return the multipliers of every component, shrunk where they leave their ball."""
    out = np.array(xi, dtype=np.float64)
    for number, (pulls, weight) in enumerate(zip(xi, each_weight(rho, len(out)), strict=True)):
        factor = 1.0
        while math.fsum(np.append(np.abs(out[number]), -weight)) > 0.0:  # rounded once, so that its sign is right
            factor = min(weight / math.fsum(np.abs(pulls)), math.nextafter(factor, 0.0))
            out[number] = factor * pulls
    return out


@dataclass(frozen=True, slots=True)
class DoubledComponents:
    """Matrices as double precision computed them, in a unit of v; ``radii`` bound their errors where they count.

    ``point`` holds C^l v of every component where it is known more accurately than by the matrices.
    """

    coordinates: ComponentCoordinates
    radii: Array | None = None
    point: tuple[Doubled, ...] | None = None
    cache: dict[bytes, GramFactor | None] = field(default_factory=dict, repr=False)

    @property
    def bias(self) -> bool:
        """Whether there is a bias."""
        return self.coordinates.bias

    def values(self, v: Array) -> Sequence[Doubled]:
        """Return C^l v of every component."""
        if self.point is not None:
            return self.point
        return [Doubled(component, None, radius) @ v for component, radius in self._parts()]

    def adjoint(self, pulls: Sequence[Doubled]) -> Doubled:
        """Return the sum of C^l' z^l over the components."""
        components = (Doubled(component, None, radius).T for component, radius in self._parts())
        return sum_of([component @ z for component, z in zip(components, pulls, strict=True)])

    def ridge_pull(self, v: Array) -> Any:
        """Return tau W'W v."""
        tau, W = self.coordinates.ridge, Doubled(self.coordinates.weights)
        return W.T @ (W @ v * tau) if tau > 0.0 else 0.0

    def inverse_norm(self, q: Any) -> Double:
        """Bound the norm of a gradient."""
        factor = self._factor()
        return Double(math.inf) if factor is None else factor.bound_inverse_norm(q.round())

    def _factor(self, free: Any = None) -> GramFactor | None:
        """Return the factor of some columns of [P F; sqrt(tau) W], of which H is the product with itself."""
        key = b"" if free is None or free.size == self.coordinates.parts.shape[2] else free.tobytes()
        if key not in self.cache:
            matrix = self._tall()
            columns = slice(None) if free is None else free
            radius = np.broadcast_to(matrix.radius, matrix.middle.shape)[:, columns]
            self.cache[key] = GramFactor.of(Double(np.ascontiguousarray(matrix.middle[:, columns]), radius))
        return self.cache[key]

    def _tall(self) -> Double:
        F = sum_of([Double(component, radius) for component, radius in self._parts()])
        n, r = F.middle.shape
        tall = F - (Double(np.ones((1, n))) @ F) / float(n) if self.bias else F
        tau = self.coordinates.ridge
        more = Double(tau).sqrt() * self.coordinates.weights if tau > 0.0 else None
        if not F.sizes.any():  # nothing is fitted; any regular matrix suffices
            more = Double(np.eye(r))
        return tall if more is None else tall.T.beside(more.T).T

    def bound_step(self, ties: EqualRows, change: Any, free: Any) -> Double:
        """Bound the norm of the step that ties rows."""
        factor = self._factor(free)
        if factor is None:
            return Double(math.inf)
        tied_rows = self.coordinates.parts[ties.component, ties.row][:, free]
        radii = 0.0 if self.radii is None else self.radii[ties.component, ties.row][:, free]
        rows = Double(ties.sign[:, None] * tied_rows, radii)
        return factor.bound_step(rows.take(ties.others) - rows.take(ties.reference[ties.others]), change.round())

    def reach(self, number: int, free: Any) -> Double:
        """Bound the norms of the rows of one component."""
        factor, component = self._factor(free), self.coordinates.parts[number][:, free]
        if factor is None:
            return Double(np.full(len(component), math.inf))
        return factor.bound_row_norms(Double(component, 0.0 if self.radii is None else self.radii[number][:, free]))

    def _parts(self) -> Iterator[tuple[Array, Any]]:
        for number, component in enumerate(self.coordinates.parts):
            yield component, 0.0 if self.radii is None else self.radii[number]


def sum_of(terms: Sequence[E]) -> E:
    """Return the sum of enclosed numbers, in their order."""
    return reduce(operator.add, terms)


@np.errstate(over="ignore", invalid="ignore")
def variation_accuracy(
    values: DoubledComponents,
    y: Array,
    rho: Weights,
    witness: VariationWitness,
    fitted: Array,
    tolerance: Tolerance,
    stored: Doubled | None = None,
) -> Accuracy:
    """Return the row for one machine; the parameters are those of :func:`bound_variation`."""
    bound, unit = math.inf, power_of_two(float(np.ptp(y)))
    if np.isfinite(fitted).all() and np.isfinite(witness.v).all() and np.isfinite(witness.xi).all():
        point = VariationWitness(witness.v / unit, witness.xi / unit)
        scaled_point = None if values.point is None else tuple(array * (1.0 / unit) for array in values.point)
        scaled = replace(values, point=scaled_point)
        expansion = None if stored is None else stored * (1.0 / unit)
        bound = bound_variation(scaled, Doubled, y / unit, rho / unit, point, fitted / unit, expansion).upper()
    return tolerance.row(unit * bound, FORMULA)


def trivial_cost(y: Array, bias: bool) -> float:
    """Return half the squared errors of the machine without components, or a millionth of those of zero."""
    return 0.5 * float(np.sum(center(y, bias) ** 2)) + 0.5e-6 * float(y @ y)


def variation_unit(y: Array) -> float:
    """Return the size of the targets about their mean, or, where they are constant, of the targets."""
    deviation, largest = float(np.abs(y - y.mean()).max()), float(np.abs(y).max())
    return deviation if deviation > 1e-6 * largest else (largest or 1.0)


def stationarity_row(
    components: Array, ridge_gradient: Array, nu: float, y: Array, e: Array, difference: Array, tolerance: float
) -> Row:
    """Return the row of (27a) in the coordinates of ``parts``; ``difference`` is xi^- - xi^+, one row per component.

    :equation [Pelckmans2005]_ (27a): stationarity in alpha, corrected
    """
    fitted, bounded = components.sum(axis=0).T @ e, np.tensordot(difference, components, 2)
    residual = float(np.linalg.norm(ridge_gradient - fitted + nu - bounded))
    scale = float(
        np.linalg.norm(components.sum(axis=0).T @ y) + np.linalg.norm(bounded) + np.linalg.norm(ridge_gradient)
    )
    # where nothing is fitted, a millionth of the largest possible correlation of features and targets
    scale += 1e-6 * float(np.linalg.norm(components.sum(axis=0)) * np.linalg.norm(y))
    return Row(
        name="(27a) stationarity",
        value=residual,
        scale=scale,
        tolerance=tolerance,
        formula="||F'(f - y) + nu - sum_l C^l'(xi- - xi+)||",
    )


def solution_rows(
    coordinates: ComponentCoordinates, y: Array, rho: Weights, solved: VariationSolution, tolerance: float
) -> tuple[Row, ...]:
    """Return all conditions for a point of the fast path."""
    values = coordinates.parts @ solved.v
    e = y - values.sum(axis=0) - coordinates.bias_of(y, solved.v)
    difference = solved.xi_minus - solved.xi_plus
    cost, unit = trivial_cost(y, coordinates.bias), variation_unit(y)
    t, minus, plus = solved.maximal_variation, solved.xi_minus, solved.xi_plus
    return (
        stationarity_row(coordinates.parts, coordinates.ridge_gradient(solved.v), 0.0, y, e, difference, tolerance),
        *variation_rows(values, t, minus, plus, rho, cost, unit, tolerance),
    )


_STEPS = 3
#: Relative size of directions of the rows that are left unchanged.
_DEPENDENT = 1e-12


def refined_witness(coordinates: ComponentCoordinates, witness: VariationWitness, rho: Weights) -> VariationWitness:
    """Return the same multipliers with a point whose active rows agree more closely."""
    components, R, xi = coordinates.parts, coordinates.metric, witness.xi
    sizable = np.abs(xi) > _ACTIVE * per_row(rho)
    rows: list[Array] = []
    signs: list[float] = []
    references: list[int] = []
    for number in range(components.shape[0]):
        (active,) = np.nonzero(sizable[number])
        if active.size > 1:
            start = len(rows)
            order = active[np.argsort(-np.abs(xi[number, active]), kind="stable")]
            rows += [components[number, row] for row in order]
            signs += np.sign(xi[number, order]).tolist()
            references += [start] * order.size
    if not rows:
        return witness
    signed = np.array(signs)[:, None] * np.array(rows)
    reference = np.array(references)
    (followers,) = np.nonzero(reference != np.arange(reference.size))
    differences = signed[followers] - signed[reference[followers]]
    along = np.asarray(solve_triangular(R, differences.T, trans="T").T)
    v = witness.v
    for _ in range(_STEPS):
        (high, low), _ = exact_product(signed, v)
        difference = (high[reference[followers]] - high[followers]) + (low[reference[followers]] - low[followers])
        if not np.isfinite(difference).all() or not difference.any():
            break
        step: Array = np.linalg.lstsq(along, difference, rcond=_DEPENDENT)[0]
        v = v + np.asarray(solve_triangular(R, step))
    return VariationWitness(v, xi)
