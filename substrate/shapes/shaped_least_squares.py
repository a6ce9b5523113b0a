r"""The least-squares machine with shapes, from its stored numbers: how far it is from the optimum, and what is proved.

.. math:: J(f) = \tfrac12 w^T w + \tfrac{\gamma}{2} \sum_i v_i (y_i - f(x_i))^2 , \qquad
          f = \sum_i a_i k(x_i, \cdot) + \sum_j c_j \, (D_j)_z k(z_j, \cdot) + b ,

under :math:`\sigma_j D_j f \ge d_j` everywhere in a box. Every :math:`\lambda_j` of the right sign and every
:math:`\alpha` with :math:`1^T \alpha + \sum_{D_j = 1} \lambda_j = 0` are a point of the dual of the infinite problem,
whose value is below J(f) by

.. math:: J(f) - D(\alpha, \lambda) = \tfrac12 \|w - w_{\alpha, \lambda}\|^2
          + \sum_i \tfrac{\gamma v_i}{2} \Big( e_i - \frac{\alpha_i}{\gamma v_i} \Big)^2
          + \sum_j \big( \lambda_j D_j f(z_j) - |\lambda_j| d_j \big) ,

without cancellation, with :math:`\alpha_i = \gamma v_i e_i` less a multiple of :math:`v_i` that makes the sum zero. The
same formula is evaluated in double precision, for a certificate, and in balls, for a proof; the shapes are proved by
:mod:`substrate.shapes.shape_oracle` in the same numbers. Multipliers of Hessians are matrices, which count where
they have no negative eigenvalue.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from substrate.arrays import Array, row_blocks
from substrate.balls import Balls, above, precision
from substrate.bounds.proof import Proof, ball_derivatives, prove_bound, tolerance_in_balls
from substrate.certificate import Row, Tolerance, spread_of
from substrate.declare.level import Substrate
from substrate.declare.linear_operators import (
    VALUE,
    LinearOperator,
    inner_product_matrix,
)
from substrate.declare.span import Further
from substrate.kernels.kernel import Kernel
from substrate.numbers import relative_rounding
from substrate.shapes.everywhere import Everywhere
from substrate.shapes.shape_oracle import EvaluatedTerms, ExpandedFunction, ShapeConstraint, ShapeReport
from substrate.shapes.shaped_machine import BRACKET, distance_row

__all__ = ["ShapeParameters", "ShapedExpansion", "ShapedLeastSquares"]

_BITS = 128


class BallTerms(EvaluatedTerms):
    """An expansion in one kernel in ball arithmetic of the present precision."""

    numbers = Balls

    def _prepare(self, readings: Sequence[tuple[Any, Array]]) -> None:
        rows = [self._against(points, _orders_of(operator)).values for operator, points in readings]
        self._matrix = Balls(np.vstack(rows))

    def multiply(self, c: Any) -> Any:
        """Return the readings of the terms of the expansion with other coefficients."""
        return self._matrix @ c

    def _against(self, points: Array, orders: dict[int, int]) -> Balls:
        blocks = [
            ball_derivatives(self.kernel, points, term.points, orders, _orders_of(term.operator)).values
            for term in self.terms
        ]
        return Balls(np.hstack(blocks))

    def evaluate(self, points: Array, every: Sequence[dict[int, int]]) -> list[tuple[Array, Array]]:
        """Return derivatives of these orders at points, and how far the exact ones may be."""
        sums = [self._against(points, orders) @ self.coefficients for orders in every]
        away = [abs(total - total.midpoint) for total in sums]
        return [
            (total.midpoint, np.array(list(map(above, difference.values))))
            for total, difference in zip(sums, away, strict=True)
        ]


def _orders_of(operator: Any) -> dict[int, int]:
    """Return the orders of an operator that is one derivative at the point itself."""
    return dict(operator.terms[0].orders) if isinstance(operator, LinearOperator) else {}


@dataclass(frozen=True, slots=True)
class ShapeParameters:
    """Shapes by column number: signs of slopes and of curvatures, joint convexity, and bounds of f."""

    monotone: Mapping[int, int]
    convex: Mapping[int, int]
    jointly: bool
    bounds: tuple[float | None, float | None]
    names: tuple[str, ...] = ()

    def constraints(self, s: Substrate, box: Array) -> list[ShapeConstraint]:
        """Return the constraints on a substrate."""
        everywhere = Everywhere(box)
        s.column_names = self.names
        shapes: list[Any] = []
        for orders, signs in ((1, self.monotone), (2, self.convex)):
            for column, sign in signs.items():
                values = s.derivative(everywhere, {column: orders})
                shapes.append(values >= 0.0 if sign > 0 else values <= 0.0)
        if self.jointly:
            shapes.append(s.hessian(everywhere) >= 0.0)
        lower, upper = self.bounds
        if lower is not None:
            shapes.append(s.f(everywhere) >= lower)
        if upper is not None:
            shapes.append(s.f(everywhere) <= upper)
        return shapes


@dataclass(frozen=True, slots=True, eq=False)
class ShapedExpansion:
    """The coefficients in addition to the rows': points, the orders of a derivative in every column, and numbers."""

    points: Array
    orders: Array
    coefficients: Array
    #: The multipliers of the shapes there, with the sign of the representer.
    multipliers: Array

    @classmethod
    def of(cls, result: Any, constraints: Sequence[ShapeConstraint]) -> "ShapedExpansion":
        """Return the further terms of a result of one substrate, and the multipliers of its shapes."""
        d = result.expansions[0].substrate.X.shape[1]
        tables = [np.zeros((0, 2 * d + 2))]
        for further in result.expansions[0].further:
            orders = dict(further.operator.terms[0].orders) if isinstance(further.operator, LinearOperator) else {}
            tables.append(_table(further.points, orders, coefficients=further.coefficients))
        for constraint, carried in zip(constraints, result.multipliers, strict=True):
            term = constraint.terms[0]
            pairs = [(i, j) for i in constraint.hessian for j in constraint.hessian if i <= j]
            if not constraint.hessian:
                tables.append(_table(carried.points, dict(term.orders), multipliers=term.factor * carried.values))
            for i, j in pairs:
                weights = term.factor * (1.0 if i == j else 2.0) * carried.directions[:, i] * carried.directions[:, j]
                orders = {i: 2} if i == j else {i: 1, j: 1}
                tables.append(_table(carried.points, orders, multipliers=weights * carried.values))
        every = np.vstack(tables)
        places, which = np.unique(every[:, : 2 * d], axis=0, return_inverse=True)
        totals = np.zeros((places.shape[0], 2))
        np.add.at(totals, np.ravel(which), every[:, 2 * d :])
        used = totals.any(axis=1)
        return cls(places[used, d:], places[used, :d].astype(np.int64), *totals[used].T)

    def kinds(self) -> list[tuple[dict[int, int], slice]]:
        """Return the orders by column of every derivative, and where its terms are, which follow each other."""
        edges = np.flatnonzero(np.diff(self.orders, axis=0, prepend=-1, append=-1).any(axis=1))
        return [
            ({c: int(order) for c, order in enumerate(self.orders[start]) if order}, slice(start, stop))
            for start, stop in pairwise(edges)
        ]

    def terms(self) -> tuple[Further, ...]:
        """Return the terms for the oracle."""
        return tuple(
            Further(self.points[at], self.coefficients[at], None, LinearOperator.derivative(orders) if orders else None)
            for orders, at in self.kinds()
        )

    def values(self, kernel: Kernel, X: Array) -> Array:
        """Return the contribution of the terms to f at the rows of X."""
        total = np.zeros(X.shape[0])
        for term in self.terms():
            for rows in row_blocks(X.shape[0], term.points.shape[0]):
                matrix = inner_product_matrix(kernel, VALUE, X[rows], term.operator or VALUE, term.points)
                total[rows] += matrix @ term.coefficients
        return total


def _table(
    points: Any, orders: Mapping[int, int], coefficients: Array | float = 0.0, multipliers: Array | float = 0.0
) -> Array:
    """Return one row per point: orders, point, coefficient and multiplier."""
    n, d = np.shape(points)
    every = np.tile([float(orders.get(c, 0)) for c in range(d)], (n, 1))
    numbers = [np.broadcast_to(values, n)[:, None] for values in (coefficients, multipliers)]
    return np.hstack([every, np.asarray(points) + 0.0, *numbers])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShapedLeastSquares:
    """The stored machine on the rows of its fit, its terms by kind; ``fitted`` is what ``predict`` returns for them."""

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

    def certify(self) -> tuple[tuple[Row, ...], tuple[tuple[str, str], ...]]:
        """Return the rows of a certificate, accuracy, every shape, the bracket and the expansion, and no facts."""
        gap, exact, value = self._bracket(EvaluatedTerms(self.kernel, self._function().terms))
        excess, spread_rounding = float(gap.upper()), spread_of(self.y, self.weights)
        distance = self._distance(gap, exact).upper()
        formula = "sqrt(2 (v - p)/(gamma sum v)) + ||f - predict(X)||, v the value of the machine, p a dual value"
        tolerance = math.sqrt(2.0 * BRACKET)
        # constant targets leave nothing but rounding, which needs no bracket
        radius = relative_rounding(16.0) * (np.abs(self.y) + np.abs(self.fitted))
        rounding = max(spread_rounding[1], 4.0 * float(np.sqrt(np.mean(np.square(radius)))) / tolerance)
        lost = 0.5 * self.gamma * float(self.weights @ np.square(4.0 * radius)) / BRACKET
        rows = (
            Tolerance(tolerance, spread_rounding[0], rounding).row(distance, formula),
            *(report.row() for report in self._reports(EvaluatedTerms)),
            distance_row(excess, value - excess, value, max(abs(value), lost)),
            Row(
                name="kernel expansion",
                value=float(np.linalg.norm(exact.midpoint - self.fitted)),
                scale=float(np.linalg.norm(exact.midpoint) + np.linalg.norm(self.y)),
                tolerance=1e-9,
                formula="||f - predict(X)||",
            ),
        )
        return rows, ()

    def prove(self, bits: int = _BITS) -> Proof:
        """Prove the distance of the fitted values from the optimum of the infinite problem, and every shape.

        Where a shape is not proved, the proof has the reason and no bound.
        """
        tolerance = tolerance_in_balls(self.y, self.weights, math.sqrt(2.0 * BRACKET))
        with precision(bits):
            failed = [report for report in self._reports(BallTerms) if not report.slack >= 0.0]
        if failed:
            reason = f"{failed[0].description} is not proved everywhere: the bound misses by {-failed[0].slack:.1e}"
            return Proof.of(math.inf, tolerance, bits, reason)

        def bound() -> Any:
            gap, exact, _ = self._bracket(BallTerms(self.kernel, self._function().terms))
            return self._distance(gap, exact)

        proof = prove_bound(bound, tolerance, bits)
        return replace(proof, about="fitted values, of a machine whose shape is proved everywhere,")

    def _function(self) -> ExpandedFunction:
        s = Substrate(self.kernel, self.X, self.y)
        return ExpandedFunction(s, (Further(self.X, self.a), *self.further.terms()), self.b)

    def _reports(self, numbers: Any) -> list[ShapeReport]:
        function = self._function()
        constraints = self.shapes.constraints(function.substrate, self.box)
        return [_prove_shape(constraint, function, numbers) for constraint in constraints]

    def _bracket(self, terms: Any) -> tuple[Any, Any, float]:
        """Return J less a dual value, the values of f at the rows, and the computed value of J."""
        numbers, stored = terms.numbers, terms.coefficients
        n, plain = self.y.size, ~self.further.orders.any(axis=1)
        kept, levels = self._multipliers()
        v = numbers.exact(self.weights) * self.gamma
        readings = terms.multiply(stored)
        f = readings.take(slice(n)) + self.b
        beyond = readings.take(slice(n, None)) + self.b * plain
        pulls = numbers.exact(self.gamma * self.weights * (self.y - self.fitted))
        alpha = pulls - v * ((pulls.total() + numbers.exact(kept[plain]).total()) / v.total())
        dual = alpha.place(np.arange(n), n + kept.size) + np.append(np.zeros(n), kept)
        away, rows, e = dual - stored, (self.y - f) - alpha / v, self.y - f
        gap = (away * terms.multiply(away)).total() / 2.0 + (v * rows * rows).total() / 2.0
        gap = gap + (numbers.exact(kept) * beyond).total()
        for multipliers, bound in levels:
            gap = gap - (numbers.exact(multipliers) * bound).total()
        value = (stored * readings).total() / 2.0 + (v * e * e).total() / 2.0
        return gap, f, float(value.midpoint)

    def _distance(self, gap: Any, f: Any) -> Any:
        total = (type(gap).exact(self.weights) * self.gamma).total()
        return (2.0 * gap / total).bound_root() + (f - self.fitted).bound_norm(self.weights)

    def _multipliers(self) -> tuple[Array, list[tuple[Array, float]]]:
        """Return the multipliers with the sign that a shape allows, zero otherwise, and the parts with each bound."""
        points, orders = self.further.points, self.further.orders
        inside = ((points >= self.box[:, 0]) & (points <= self.box[:, 1])).all(axis=1)
        multipliers = np.where(inside, self.further.multipliers, 0.0)  # nothing is asked for outside the box
        kept, levels = np.zeros_like(multipliers), list[tuple[Array, float]]()
        for constraint in self.shapes.constraints(Substrate(self.kernel, self.X, self.y), self.box):
            (term,) = constraint.terms
            if constraint.hessian:
                self._keep_matrices(kept, multipliers)
                continue
            asked = np.zeros(points.shape[1], dtype=np.int64)
            for column, order in term.orders:
                asked[column] = order
            part = np.where((orders == asked).all(axis=1), np.maximum(term.factor * multipliers, 0.0), 0.0)
            kept += term.factor * part
            levels.append((part, constraint.bound))
        return kept, levels

    def _keep_matrices(self, kept: Array, multipliers: Array) -> None:
        """Keep the multipliers of second derivatives at a point where their matrix has no negative eigenvalue."""
        second = np.flatnonzero(self.further.orders.sum(axis=1) == 2)
        points, which = np.unique(self.further.points[second], axis=0, return_inverse=True)
        d = self.further.points.shape[1]
        for k in range(len(points)):
            at = second[np.ravel(which) == k]
            ends = [(np.flatnonzero(row)[0], np.flatnonzero(row)[-1]) for row in self.further.orders[at]]
            M = np.zeros((d, d))
            for (i, j), value in zip(ends, multipliers[at], strict=True):
                M[i, j] = M[j, i] = value / (1.0 if i == j else 2.0)
            eigenvalues, vectors = np.linalg.eigh(M)
            scale = float(np.abs(eigenvalues).max())
            if scale > 0.0:
                # lifted by what rounding may hide, so that the kept matrix has no negative eigenvalue
                lifted = np.maximum(eigenvalues, 0.0) + relative_rounding(64.0 * d) * scale
                M = (vectors * lifted) @ vectors.T
                kept[at] += [M[i, j] * (1.0 if i == j else 2.0) for i, j in ends]


def _prove_shape(constraint: ShapeConstraint, function: ExpandedFunction, numbers: Any) -> ShapeReport:
    shape, bound = constraint.bind([function]), constraint.bound
    scale = max(shape.scale(), abs(bound))
    least = float(shape.values(np.array(shape.minimisers(math.inf, 4))).min()) if constraint.groups else shape.constant
    # half of the slack that a grid sees, so that cells are no smaller than they need to be
    gap = max(0.25 * (least - bound), 1e-8 * scale)
    return ShapeReport.of(constraint, constraint.bind([function], numbers).proof(gap, bound), scale)
