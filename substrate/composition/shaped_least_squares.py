r"""The least-squares machine with shapes, from its stored numbers: its value, a dual value, and what is proved.

.. math:: J(f) = \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i (y_i - f(x_i))^2 , \qquad
          f = \sum_i a_i k(x_i, \cdot) + \sum_j \lambda_j \, (D_j)_z k(z_j, \cdot) + b ,

under :math:`\sigma_j D_j f \ge c_j` everywhere in a box. Every :math:`\lambda_j` of the right sign and a with
:math:`1^T a + \sum_{D_j = 1} \lambda_j = 0` are a point of the dual of the infinite problem,

.. math:: p^\star \ge -\tfrac12 w^T w + a^T y - \sum_i \frac{a_i^2}{2 \gamma v_i} + \sum_j |\lambda_j| c_j ,

With :math:`a_i = \gamma v_i e_i` and stored multipliers the machine carries both ends of the bracket: it is the
optimum, up to the small part of a strictly feasible machine, and the multipliers of both are mixed. What is left of the
sum above counts times a bound on b, from
:math:`J(f^\star) \le v`: the error of some row is at most :math:`\sqrt{2 v / (\gamma \sum v_i)}`, and
:math:`\|w^\star\| \le \sqrt{2 v}`. Coefficients of Hessians are matrices :math:`\lambda\, u u^T` at every
point, with no negative eigenvalue.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.certificates.rows import accuracy_row, spread_of
from substrate.composition.everywhere import Everywhere, ShapeConstraint
from substrate.composition.expanded_function import (
    ExpandedFunction,
    ExpansionTerm,
    inner_product_sum,
    square_rounding,
)
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import LinearOperator
from substrate.composition.machine import Machine
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import BRACKET, ShapedResult, expanded_function
from substrate.errors import DeclarationError
from substrate.kernels import Kernel

__all__ = ["ShapeParameters", "ShapedExpansion", "ShapedLeastSquares", "fit_shaped", "read_expansion"]

DISTANCE = "distance from the optimum over all functions"


@dataclass(frozen=True, slots=True)
class ShapeParameters:
    """Shapes by column number: signs of slopes and of curvatures, joint convexity (1, -1 or 0), and bounds of f."""

    monotone: Mapping[int, int]
    convex: Mapping[int, int]
    jointly: int
    bounds: tuple[float | None, float | None]
    names: tuple[str, ...] = ()

    def constraints(self, s: Substrate, box: Array) -> list[ShapeConstraint]:
        """The constraints on a substrate."""
        everywhere = Everywhere(box)
        s.column_names = self.names
        found: list[Any] = []
        for orders, signs in ((1, self.monotone), (2, self.convex)):
            for column, sign in signs.items():
                values = s.derivative(everywhere, {column: orders})
                found.append(values >= 0.0 if sign > 0 else values <= 0.0)
        if self.jointly:
            hessian = s.hessian(everywhere)
            found.append(hessian >= 0.0 if self.jointly > 0 else hessian <= 0.0)
        lower, upper = self.bounds
        if lower is not None:
            found.append(s.f(everywhere) >= lower)
        if upper is not None:
            found.append(s.f(everywhere) <= upper)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ShapedExpansion:
    """The coefficients beside those of the rows: points, the orders of a derivative in every column, and numbers."""

    points: Array
    orders: Array
    coefficients: Array
    #: The multipliers of the shapes there, with the sign of the representer.
    multipliers: Array

    @classmethod
    def of(cls, result: ShapedResult, constraints: Sequence[ShapeConstraint]) -> "ShapedExpansion":
        """The further terms of a result of one substrate, and the multipliers of its shapes."""
        d = result.expansions[0].substrate.X.shape[1]
        points, orders, coefficients = [np.zeros((0, d))], [np.zeros((0, d), dtype=np.int64)], [np.zeros(0)]
        for further in result.expansions[0].further:
            each = np.zeros(d, dtype=np.int64)
            if isinstance(further.operator, LinearOperator):
                for column, order in further.operator.terms[0].orders:
                    each[column] = order
            points.append(np.asarray(further.points))
            orders.append(np.repeat(each[None, :], len(further.coefficients), axis=0))
            coefficients.append(further.coefficients)
        found = cls(np.vstack(points), np.vstack(orders), np.concatenate(coefficients), np.zeros(0))
        return found.place_multipliers(result, constraints)

    def place_multipliers(self, result: ShapedResult, constraints: Sequence[ShapeConstraint]) -> "ShapedExpansion":
        """The expansion with the multipliers of a result; those at rows of the fit are terms without a coefficient."""
        pairs = enumerate(zip(self.orders, self.points, strict=True))
        places = {(tuple(map(int, o)), (p + 0.0).tobytes()): k for k, (o, p) in pairs}
        total, d = dict.fromkeys(range(self.coefficients.size), 0.0), self.points.shape[1]
        more: list[tuple[tuple[int, ...], Array]] = []
        for constraint, carried in zip(constraints, result.multipliers, strict=True):
            term = constraint.terms[0]
            for point, direction, value in zip(carried.points, carried.directions, carried.values, strict=True):
                if value == 0.0:
                    continue
                for orders, weight in _readings(constraint, direction, d):
                    key = (orders, (point + 0.0).tobytes())
                    if key not in places:
                        places[key] = len(total)
                        total[len(total)] = 0.0
                        more.append((orders, point))
                    total[places[key]] += term.factor * weight * value
        points = np.vstack([self.points, *(point[None, :] for _, point in more)])
        every = np.vstack([self.orders, *(np.array(orders, dtype=np.int64)[None, :] for orders, _ in more)])
        coefficients = np.append(self.coefficients, np.zeros(len(more)))
        return ShapedExpansion(points, every, coefficients, np.array(list(total.values())))

    def kinds(self) -> list[tuple[dict[int, int], NDArray[np.intp]]]:
        """The orders by column of every kind of derivative, and the numbers of its terms."""
        different, which = np.unique(self.orders, axis=0, return_inverse=True)
        which = np.ravel(which)
        return [
            ({c: int(order) for c, order in enumerate(row) if order}, np.flatnonzero(which == k))
            for k, row in enumerate(different)
        ]

    def terms(self) -> tuple[ExpansionTerm, ...]:
        """The terms for the oracle."""
        return tuple(
            ExpansionTerm(
                self.points[at], self.coefficients[at], None, LinearOperator.derivative(orders) if orders else None
            )
            for orders, at in self.kinds()
        )

    def values(self, kernel: Kernel, X: Array) -> Array:
        """What the terms add to f at the rows of X."""
        total = np.zeros(X.shape[0])
        for orders, at in self.kinds():
            points = self.points[at]
            for start in range(0, X.shape[0], max(1, 2_000_000 // max(at.size, 1))):
                rows = slice(start, start + max(1, 2_000_000 // max(at.size, 1)))
                matrix = kernel.derivative(X[rows], points, {}, orders) if orders else kernel(X[rows], points)
                total[rows] += matrix @ self.coefficients[at]
        return total


def fit_shaped(
    kernel: Kernel, X: Array, y: Array, gamma: float, weights: Array, shapes: ShapeParameters, box: Array
) -> tuple[ShapedResult, list[ShapeConstraint]]:
    """Solve the machine; return the result, which has the expansion and the facts of the solution, and its shapes."""
    s = Substrate(kernel, X, y)
    loss = cp.sum_squares(cp.multiply(np.sqrt(0.5 * gamma * weights), s.e))
    constraints = shapes.constraints(s, box)
    machine = Machine(s, minimize=loss + 0.5 * s.squared_norm, subject_to=constraints)
    result = machine.solve()
    assert isinstance(result, ShapedResult)
    return result, constraints


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShapedLeastSquares:
    """The stored machine on the rows of its fit; ``fitted`` is what ``predict`` returns for them."""

    kernel: Kernel
    X: Array
    y: Array
    gamma: float
    weights: Array
    a: Array
    b: float
    further: ShapedExpansion
    shapes: ShapeParameters
    box: Array
    fitted: Array

    def rows(self) -> tuple[Row, ...]:
        """The rows of a certificate: accuracy, every shape, the bracket, and the expansion."""
        s = Substrate(self.kernel, self.X, self.y)
        function = self._function(s)
        value, lower = self.bracket(s)
        excess = max(value - lower, 0.0)
        mass = float(self.weights.sum())
        spread, rounding = spread_of(self.y, self.weights)
        bound = at_most(math.sqrt(2.0 * excess / (self.gamma * mass))) if math.isfinite(excess) else math.inf
        formula = "sqrt(2 (v - p)/(gamma sum v)), v the value of the machine, p a dual value; with rounding"
        tolerance = math.sqrt(2.0 * BRACKET)
        # constant targets leave nothing but rounding, which needs no bracket
        radius = self._rounding()
        rounding = max(rounding, 4.0 * float(np.sqrt(np.mean(np.square(radius)))) / tolerance)
        lost = 0.5 * self.gamma * float(self.weights @ np.square(4.0 * radius)) / BRACKET
        rows: list[Row] = [accuracy_row(bound, spread, formula, tolerance=tolerance, rounding=rounding)]
        for constraint in self.shapes.constraints(s, self.box):
            rows.append(self._shape_row(constraint, function))
        rows.append(
            Row(
                name=DISTANCE,
                value=excess if math.isfinite(lower) else math.inf,
                scale=max(abs(value), lost),
                tolerance=BRACKET,
                formula=f"v - p: {lower:.8g} <= optimal value <= {value:.8g}",
            )
        )
        exact = np.asarray(self.kernel(self.X)) @ self.a + self.further.values(self.kernel, self.X) + self.b
        rows.append(
            Row(
                name="kernel expansion",
                value=float(np.linalg.norm(exact - self.fitted)),
                scale=float(np.linalg.norm(exact) + np.linalg.norm(self.y)),
                tolerance=1e-9,
                formula="||f - predict(X)||",
            )
        )
        return tuple(rows)

    def _function(self, s: Substrate) -> ExpandedFunction:
        return ExpandedFunction(s, (ExpansionTerm(self.X, self.a), *self.further.terms()), self.b)

    def _shape_row(self, constraint: ShapeConstraint, function: ExpandedFunction) -> Row:
        shape = ShapePlan.of(constraint).bind([function])
        targets = [shape.target(k) for k in range(len(shape.groups))]
        values = [target.values(target.grid(9)) for target in targets]
        scale = max(float(np.ptp(np.concatenate([np.zeros(1), *values]))), abs(constraint.bound)) or 1.0
        least = float(shape.values(np.array(shape.minimisers(math.inf, 4))).min()) if targets else shape.constant
        # half of the slack that a grid sees, so that cells are no smaller than they need to be
        gap = max(0.25 * (least - constraint.bound), 1e-8 * scale)
        proof = shape.proof(gap, constraint.bound)
        violation = constraint.bound - proof.lower
        return Row(
            name=f"holds everywhere: {constraint.description}",
            value=max(violation, 0.0) if math.isfinite(violation) else math.inf,
            scale=scale,
            tolerance=0.0,
            formula=f"violation, proved over the box; slack {-violation:.1e}, {proof.cells} cells",
        )

    def bracket(self, s: Substrate) -> tuple[float, float]:
        """The value of the machine rounded up, and a dual value of the infinite problem rounded down."""
        function = self._function(s)
        e, radius = np.abs(self.y - self.fitted), self._rounding()
        loss = 0.5 * self.gamma * float(self.weights @ np.square(e + radius))
        square = _square(self.kernel, function.terms)
        value = (0.5 * square + loss) * (1.0 + relative_rounding(self.y.size + 16.0))
        return value, self._dual(value)

    def _rounding(self) -> Array:
        """What rounding may change in the errors."""
        return np.asarray(relative_rounding(16.0) * (np.abs(self.y) + np.abs(self.fitted)))

    def _dual(self, value: float) -> float:
        coefficients, level = self._multipliers()
        further = replace(self.further, coefficients=coefficients)
        plain = ~self.further.orders.any(axis=1)
        weights = self.gamma * self.weights
        a = weights * (self.y - self.fitted)
        total = math.fsum([*a, *coefficients[plain]])
        a = a - total * weights / float(weights.sum())
        sizes = float(np.abs(a).sum() + np.abs(coefficients[plain]).sum())
        left = abs(math.fsum([*a, *coefficients[plain]])) + relative_rounding(1.0) * relative_rounding(1.0) * sizes
        diagonal = float(np.asarray(self.kernel.diag(self.X)).max())
        farthest = float(np.abs(self.y).max()) + math.sqrt(2.0 * value / float(weights.sum()))
        farthest += math.sqrt(2.0 * value * diagonal)
        square = _square(self.kernel, (ExpansionTerm(self.X, a), *further.terms()))
        gain, cost = a * self.y, np.square(a) / (2.0 * weights)
        lost = relative_rounding(8.0) * float(np.abs(gain).sum() + cost.sum() + np.abs(level).sum() + square)
        return math.fsum([-0.5 * square, *gain, *(-cost), *level, -at_most(left * farthest), -lost])

    def _multipliers(self) -> tuple[Array, Array]:
        """The coefficients with the sign that their shape allows, zero otherwise, and each times its bound."""
        points = self.further.points
        inside = ((points >= self.box[:, 0]) & (points <= self.box[:, 1])).all(axis=1)
        given = np.where(inside, self.further.multipliers, 0.0)  # nothing is asked for outside the box
        kept, level = np.zeros_like(given), np.zeros_like(given)
        lower, upper = self.shapes.bounds
        for orders, at in self.further.kinds():
            c = given[at]
            if not orders:
                up = np.maximum(c, 0.0) if lower is not None else np.zeros_like(c)
                down = np.minimum(c, 0.0) if upper is not None else np.zeros_like(c)
                kept[at], level[at] = up + down, up * (lower or 0.0) + down * (upper or 0.0)
                continue
            signs = [self.shapes.monotone, self.shapes.convex]
            (column, order), single = next(iter(orders.items())), len(orders) == 1
            sign = signs[order - 1].get(column, 0) if single and order in (1, 2) else 0
            if sign:
                kept[at] = np.maximum(sign * c, 0.0) * sign
        if self.shapes.jointly:
            self._keep_matrices(kept, given)
        return kept, level

    def _keep_matrices(self, kept: Array, given: Array) -> None:
        """Keep the coefficients of second derivatives at a point where their matrix has no negative eigenvalue."""
        second = np.flatnonzero(self.further.orders.sum(axis=1) == 2)
        points, which = np.unique(self.further.points[second], axis=0, return_inverse=True)
        d = self.further.points.shape[1]
        for k in range(len(points)):
            at = second[np.ravel(which) == k]
            M = np.zeros((d, d))
            for j in at:
                columns = np.flatnonzero(self.further.orders[j])
                first, last = columns[0], columns[-1]
                M[first, last] += given[j] / (1.0 if first == last else 2.0)
                M[last, first] = M[first, last]
            eigenvalues, vectors = np.linalg.eigh(self.shapes.jointly * M)
            scale = float(np.abs(eigenvalues).max())
            if scale == 0.0:
                continue
            # lifted by what rounding may hide, so that the kept matrix has no negative eigenvalue
            lifted = np.maximum(eigenvalues, 0.0) + relative_rounding(64.0 * d) * scale
            M = self.shapes.jointly * (vectors * lifted) @ vectors.T
            for j in at:
                columns = np.flatnonzero(self.further.orders[j])
                first, last = columns[0], columns[-1]
                kept[j] = M[first, last] * (1.0 if first == last else 2.0)


def _readings(constraint: ShapeConstraint, direction: Array, d: int) -> list[tuple[tuple[int, ...], float]]:
    """The derivatives that a constraint reads at a point, each by its orders in all columns, with their factors."""

    def whole(orders: dict[int, int]) -> tuple[int, ...]:
        return tuple(orders.get(c, 0) for c in range(d))

    if not constraint.hessian:
        return [(whole(dict(constraint.terms[0].orders)), 1.0)]
    pairs = [(i, j) for i in constraint.hessian for j in constraint.hessian if i <= j]
    return [
        (whole({i: 2} if i == j else {i: 1, j: 1}), (1.0 if i == j else 2.0) * float(direction[i] * direction[j]))
        for i, j in pairs
    ]


def _square(kernel: Kernel, terms: Sequence[ExpansionTerm]) -> float:
    """w'w of an expansion, rounded up."""
    return max(inner_product_sum(kernel, terms), 0.0) + square_rounding(kernel, terms)


def read_expansion(
    result: ShapedResult, constraints: Sequence[ShapeConstraint]
) -> tuple[Array, float, ShapedExpansion]:
    """Return the coefficients of the rows, the bias and the further terms of a result."""
    function = expanded_function(result.expansions[0])
    if any(term.part is not None for term in function.terms):
        raise DeclarationError("an expansion with terms of components is not that of an estimator")
    return function.terms[0].coefficients, function.bias, ShapedExpansion.of(result, constraints)
