r"""The stored least-squares machine with shapes in ball arithmetic: its bracket, and its shapes cell by cell.

The numbers of :mod:`substrate.composition.shaped_least_squares` are computed again with rigorous enclosures, from the
formula of the kernel: with :math:`t_c = (x_c - z_c)/\sigma_c` and the polynomials :math:`H_k` of Hermite,

.. math:: D_x^a D_z^b \prod_c e^{-t_c^2} = \prod_c (-1)^{a_c} \sigma_c^{-a_c-b_c} H_{a_c+b_c}(t_c)\, e^{-t_c^2} , \qquad
          \|D^a \varphi\|^2 = \prod_c \frac{(2 a_c)!}{a_c!\, \sigma_c^{2 a_c}} .

The cells are those that the search in double precision ended with; each is bounded anew, so that nothing of that search
is trusted but that its cells cover the box, which halving a cover does. Sums, multiples and ``Componentwise`` of RBF
kernels have a proof, and shapes other than joint convexity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import above, ball, below, precision
from substrate.composition.derivative_bounds import add_orders, list_summands, multi_indices
from substrate.composition.everywhere import ShapeConstraint
from substrate.composition.level import Substrate
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_least_squares import ShapedLeastSquares
from substrate.composition.shaped_machine import BRACKET
from substrate.errors import DeclarationError
from substrate.kernels import RBF, Kernel, Restricted, Scaled
from substrate.proof import Proof, tolerance_in_balls

__all__ = ["prove_shaped"]

_BITS = 128
#: How often a cell is cut in half whose bound in balls is not enough.
_HALVINGS = 6


@dataclass(frozen=True, slots=True)
class _Gaussian:
    """A multiple of the RBF kernel on columns, with one width for each."""

    factor: float
    columns: tuple[int, ...]
    widths: tuple[float, ...]

    @classmethod
    def of(cls, kernel: Kernel, n_features: int) -> "_Gaussian":
        """The form of a summand, or an error."""
        factor, columns = 1.0, tuple(range(n_features))
        while isinstance(kernel, (Restricted, Scaled)):
            if isinstance(kernel, Restricted):
                columns = tuple(columns[c] for c in kernel.columns)
            elif factor != 1.0:
                break
            else:
                factor = kernel.factor
            kernel = kernel.kernel
        if not isinstance(kernel, RBF):
            raise DeclarationError(
                "a shape is proved in balls for RBF kernels, their sums, multiples and Componentwise, not for "
                f"{kernel!r}; the certificate counts all rounding in double precision"
            )
        widths = np.broadcast_to(np.asarray(kernel.sigma, dtype=np.float64), (len(columns),))
        return cls(factor, columns, tuple(float(width) for width in widths))

    def value(self, x: Sequence[Any], z: Sequence[Any], left: dict[int, int], right: dict[int, int]) -> Any:
        """D_x^left D_z^right k, in balls."""
        if not {*left, *right} <= set(self.columns):
            return ball(0.0)
        total, exponent = ball(self.factor), ball(0.0)
        for c, width in zip(self.columns, self.widths, strict=True):
            sigma = ball(width)
            t = (x[c] - z[c]) / sigma
            exponent -= t * t
            order = left.get(c, 0) + right.get(c, 0)
            if order:
                total *= _hermite(order, t) / sigma**order
            if left.get(c, 0) % 2:
                total = -total
        return total * exponent.exp()

    def length(self, orders: dict[int, int]) -> Any:
        """The norm of D^orders phi."""
        square = ball(self.factor)
        for c, order in orders.items():
            width = ball(self.widths[self.columns.index(c)])
            square *= ball(float(math.factorial(2 * order) // math.factorial(order))) / width ** (2 * order)
        return square.sqrt()


def _hermite(order: int, t: Any) -> Any:
    before, now = ball(1.0), 2 * t
    for k in range(1, order):
        before, now = now, 2 * t * now - 2 * k * before
    return now if order else before


@dataclass(frozen=True, slots=True)
class _Function:
    """An expansion in balls: points, orders and coefficients, and the kernels whose sum it is in."""

    kernels: tuple[_Gaussian, ...]
    points: list[list[Any]]
    orders: list[dict[int, int]]
    coefficients: list[Any]

    def read(self, x: Sequence[Any], orders: dict[int, int], kernels: Sequence[_Gaussian] | None = None) -> Any:
        """D^orders of the function at a point, without bias, in some of the kernels."""
        total = ball(0.0)
        for kernel in self.kernels if kernels is None else kernels:
            for z, own, c in zip(self.points, self.orders, self.coefficients, strict=True):
                total += c * kernel.value(x, z, orders, own)
        return total

    def square(self, kernels: Sequence[_Gaussian] | None = None) -> Any:
        """The squared norm, in some of the kernels."""
        readings = [self.read(z, own, kernels) for z, own in zip(self.points, self.orders, strict=True)]
        return sum((c * r for c, r in zip(self.coefficients, readings, strict=True)), ball(0.0))


def prove_shaped(machine: ShapedLeastSquares, bits: int = _BITS) -> Proof:
    """Prove the distance of the fitted values from those of the infinite problem, and every shape.

    Where a shape is not proved, the proof has the reason and no bound.
    """
    d = machine.X.shape[1]
    s = Substrate(machine.kernel, machine.X, machine.y)
    summands = list_summands(s.components, d)
    tolerance = tolerance_in_balls(machine.y, machine.weights, math.sqrt(2.0 * BRACKET))
    with precision(bits):
        kernels = tuple(_Gaussian.of(summand.kernel, d) for summand in summands)
        function = _expand(machine, kernels, machine.a, machine.further.coefficients)
        for constraint in machine.shapes.constraints(s, machine.box):
            slack = _prove_shape(machine, constraint, function, s)
            if not slack >= 0.0:
                reason = f"{constraint.description} is not proved everywhere: the bound misses by {-slack:.1e}"
                return Proof.of(math.inf, tolerance, bits, reason)
        accuracy = _prove_bracket(machine, function, kernels)
    return Proof.of(accuracy, tolerance, bits, about="fitted values, of a machine whose shape is proved everywhere,")


def _expand(machine: ShapedLeastSquares, kernels: tuple[_Gaussian, ...], a: Array, coefficients: Array) -> _Function:
    points = [[ball(float(v)) for v in row] for row in np.vstack([machine.X, machine.further.points])]
    orders: list[dict[int, int]] = [{} for _ in machine.X]
    orders += [{c: int(o) for c, o in enumerate(row) if o} for row in machine.further.orders]
    return _Function(kernels, points, orders, [ball(float(c)) for c in (*a, *coefficients)])


def _prove_bracket(machine: ShapedLeastSquares, function: _Function, kernels: tuple[_Gaussian, ...]) -> float:
    n = machine.y.size
    y, v = ([ball(float(value)) for value in values] for values in (machine.y, machine.weights))
    gamma, bias = ball(machine.gamma), ball(machine.b)
    fitted = [function.read(x, {}) + bias for x in function.points[:n]]
    loss = sum((v[i] * (y[i] - fitted[i]) ** 2 for i in range(n)), ball(0.0)) * gamma / 2
    value = function.square() / 2 + loss
    multipliers = machine._multipliers()[0]
    weights = machine.gamma * machine.weights
    a = weights * (machine.y - machine.fitted)
    plain = ~machine.further.orders.any(axis=1)
    a = a - math.fsum([*a, *multipliers[plain]]) * weights / float(weights.sum())
    dual = _expand(machine, kernels, a, multipliers)
    own = dual.coefficients[:n]
    left = sum(own, ball(0.0)) + sum((ball(float(m)) for m in multipliers[plain]), ball(0.0))
    mass = sum(v, ball(0.0)) * gamma
    diagonal = sum((kernel.length({}) ** 2 for kernel in kernels), ball(0.0))
    farthest = ball(float(np.abs(machine.y).max())) + (2 * value / mass).sqrt() + (2 * value * diagonal).sqrt()
    lower = -dual.square() / 2 - abs(left) * farthest
    lower += sum((own[i] * y[i] - own[i] ** 2 / (2 * gamma * v[i]) for i in range(n)), ball(0.0))
    lower += _levels(machine, multipliers)
    excess = value - lower
    moved = sum((v[i] * (ball(float(machine.fitted[i])) - fitted[i]) ** 2 for i in range(n)), ball(0.0))
    if not above(excess) >= 0.0:
        return math.inf
    distance = ball(max(above(2 * excess / mass), 0.0)).sqrt()
    total_weight = sum(v, ball(0.0))
    return above(distance + ball(max(above(moved / total_weight), 0.0)).sqrt())


def _levels(machine: ShapedLeastSquares, multipliers: Array) -> Any:
    """The multipliers times the bounds, in balls."""
    lower, upper = machine.shapes.bounds
    total = ball(0.0)
    for multiplier, orders in zip(multipliers, machine.further.orders, strict=True):
        if not orders.any() and multiplier:
            end = lower if multiplier > 0.0 else upper
            total += ball(float(multiplier)) * ball(float(end or 0.0))
    return total


def _prove_shape(machine: ShapedLeastSquares, constraint: ShapeConstraint, function: _Function, s: Substrate) -> float:
    """The slack of a shape, rounded down, on the cells that the search in double precision ends with."""
    if constraint.hessian:
        raise DeclarationError("joint convexity is proved in double precision only; convex=[...] has a proof")
    plan = ShapePlan.of(constraint)
    shape = plan.bind([machine._function(s)])
    term = constraint.terms[0]
    total = ball(term.factor) * ball(machine.b) if term.has_bias else ball(0.0)
    for number, group in enumerate(plan.groups):
        kernels = [_Gaussian.of(piece.summand.kernel, machine.X.shape[1]) for piece in group.pieces]
        norms = [_root(function.square([kernel])) for kernel in kernels]
        least, slack = math.inf, float(shape.values(np.array(shape.minimisers(math.inf, 4))).min()) - constraint.bound
        if slack <= 0.0:
            return slack if slack < 0.0 else -math.inf
        # one group alone has to reach what the constant leaves; the bound of a cell is wider than that of the search
        enough = above(ball(constraint.bound) - total) if len(plan.groups) == 1 else -math.inf
        cells = list(shape.final_cells(number, 0.25 * slack / len(plan.groups), constraint.bound))
        depths = [0] * len(cells)
        while cells:
            (lower, upper), depth = cells.pop(), depths.pop()
            value = below(_bound_cell(function, kernels, norms, group, plan, term.factor, lower, upper))
            if value < enough and depth < _HALVINGS:
                middle = np.where(np.arange(lower.size) == (upper - lower).argmax(), (lower + upper) / 2.0, upper)
                cells += [(lower, middle), (np.where(middle < upper, middle, lower), upper)]
                depths += [depth + 1] * 2
                continue
            least = min(least, value)
        total += ball(least)
    return below(total - ball(constraint.bound))


def _root(square: Any) -> Any:
    return ball(max(above(square), 0.0)).sqrt()


def _bound_cell(
    function: _Function,
    kernels: list[_Gaussian],
    norms: list[Any],
    group: Any,
    plan: ShapePlan,
    factor: float,
    lower: Array,
    upper: Array,
) -> Any:
    """A lower bound in one cell, as in double precision: a parabola in every column, and sizes of the others."""
    base = dict(plan.constraint.terms[0].orders)
    middle = (lower + upper) / 2.0
    x = [ball(float(value)) for value in plan.box.mean(axis=1)]
    for c in range(len(x)):
        if plan.box[c, 0] == plan.box[c, 1]:
            x[c] = ball(float(plan.box[c, 0]))
    half: dict[int, Any] = {}
    for k, c in enumerate(group.moving):
        x[c] = ball(float(middle[k]))
        ends = (ball(float(upper[k])) - x[c], x[c] - ball(float(lower[k])))
        half[c] = ball(max(above(end) for end in ends))

    def read(more: dict[int, int]) -> Any:
        return ball(factor) * function.read(x, add_orders(base, more), kernels)

    def power(more: dict[int, int]) -> Any:
        value = ball(1.0)
        for c, order in more.items():
            value *= half[c] ** order / math.factorial(order)
        return value

    total = read({})
    if group.order >= 2:
        curved = {c: read({c: 2}) if group.order >= 3 else ball(0.0) for c in group.moving}
        for i, c in enumerate(group.moving):
            for other in group.moving[:i] if group.order >= 3 else ():
                mixed = abs(read({other: 1, c: 1}))
                curved[c] -= mixed * half[other] / half[c]
                curved[other] -= mixed * half[c] / half[other]
        for c in group.moving:
            slope = ball(above(abs(read({c: 1}))))
            total += ball(_least(slope, ball(below(curved[c])), half[c]))
    for degree in range(3, group.order):
        for more in multi_indices(group.moving, degree):
            total -= abs(read(more)) * power(more)
    for more in multi_indices(group.moving, group.order):
        orders = add_orders(base, more)
        for kernel, norm in zip(kernels, norms, strict=True):
            if set(orders) <= set(kernel.columns):
                total -= abs(ball(factor)) * norm * kernel.length(orders) * power(more)
    return total


def _least(slope: Any, curvature: Any, half: Any) -> float:
    """The smallest value of g d + c d^2/2 for |d| <= h, rounded down."""
    ends = below(-slope * half + curvature * half * half / 2)
    if below(curvature) <= 0.0 or below(slope) >= above(curvature * half):
        return ends
    vertex = below(-slope * slope / (2 * curvature))
    return vertex if above(slope) < below(curvature * half) else min(ends, vertex)
