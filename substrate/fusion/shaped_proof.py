r"""The proof of a fusion with shapes that hold everywhere, as plain numbers.

The file has for every fold its rows, kernel and shapes, and at every knot the weights c and g, a function, and
multipliers :math:`\mu` of the shapes at finitely many points. The check computes from these

1. that every function has its shapes at all points of their boxes: the branch and bound of
   :mod:`substrate.composition.shape_oracle`, which evaluates the function and solves nothing;
2. that every :math:`\mu \ge 0` stands at a point of its box, so that it is a multiplier of the problem with all points;
3. that the weights are affine in the parameter;
4. what is left of the conditions at every knot, and the bound of every interval between two of them
   (:mod:`substrate.fusion.shaped_chord`);
5. that the intervals cover the range.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.cut_least_squares import SquaredWeights
from substrate.composition.everywhere import Everywhere, ShapeConstraint, ShapeTerm
from substrate.composition.expanded_function import ExpandedFunction, ExpansionTerm
from substrate.composition.linear_operators import LinearOperator
from substrate.composition.result_file import SavedSubstrate
from substrate.composition.shape_oracle import ShapePlan
from substrate.composition.shaped_machine import ShapeMultipliers
from substrate.encoding import Arrays, check_kernels, decode, encode
from substrate.errors import DataError
from substrate.fusion.saved_proof import SavedProof, UnprovedError, refuse_numbers
from substrate.fusion.shaped_chord import ShapedKnots
from substrate.fusion.validation import ValidationSet

__all__ = ["AFFINE", "ShapedProof"]

#: Share of a weight by which it may differ from one that is affine in the parameter.
AFFINE = 1e-12
#: How often a shape is bounded again by a smaller gap.
_ROUNDS = 6

Orders = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class SavedShape:
    """A shape: its box, factors and derivatives, what they are at least, and the columns of a Hessian."""

    box: Array
    terms: tuple[tuple[float, Orders], ...]
    bound: float
    hessian: tuple[int, ...]

    @classmethod
    def of(cls, plan: ShapePlan) -> "SavedShape":
        """Copy the numbers of a shape."""
        constraint = plan.constraint
        terms = tuple((float(term.factor), term.orders) for term in constraint.terms)
        return cls(plan.box, terms, float(constraint.bound), tuple(constraint.hessian))

    def plan(self, substrate: Any) -> ShapePlan:
        """Return how the shape of this substrate is proved."""
        terms = tuple(ShapeTerm(factor, substrate, orders) for factor, orders in self.terms)
        return ShapePlan.of(ShapeConstraint(Everywhere(self.box), terms, self.bound, self.hessian))

    def fit(self, width: int) -> bool:
        """Return whether the numbers fit together."""
        fits = self.box.shape == (width, 2) and bool(np.isfinite(self.box).all()) and bool(self.terms)
        fits = fits and bool((self.box[:, 0] <= self.box[:, 1]).all())
        fits = fits and all(_are_orders(orders, width) and np.isfinite(factor) for factor, orders in self.terms)
        fits = fits and all(type(c) is int and 0 <= c < width for c in self.hessian) and np.isfinite(self.bound)
        return fits and (not self.hessian or (len(self.terms) == 1 and not self.terms[0][1]))


@dataclass(frozen=True, slots=True, eq=False)
class SavedKnot:
    """The weights at one value of the parameter, a function as an expansion with its bias, and multipliers.

    Terms beside the first, which is that of the rows, have points, coefficients and the orders of a derivative.
    """

    c: float
    g: Array
    coefficients: Array
    bias: float
    terms: tuple[tuple[Array, Array, Orders], ...]
    multipliers: tuple[tuple[Array, Array, Array], ...]

    @classmethod
    def of(cls, knot: Any) -> "SavedKnot":
        """Copy the numbers of a :class:`~substrate.fusion.shaped_chord.ShapedKnot`."""
        first, *others = knot.point.function.terms
        terms = tuple((term.points, term.coefficients, _orders_of(term)) for term in others)
        multipliers = tuple((each.points, each.directions, each.values) for each in knot.multipliers)
        weights, bias = knot.point.weights, float(knot.point.function.bias)
        return cls(
            c=float(weights.c),
            g=weights.g,
            coefficients=first.coefficients,
            bias=bias,
            terms=terms,
            multipliers=multipliers,
        )

    def function(self, substrate: Any) -> ExpandedFunction:
        """Return the function of a substrate."""
        terms = [ExpansionTerm(substrate.X, self.coefficients)]
        for points, coefficients, orders in self.terms:
            terms.append(
                ExpansionTerm(points, coefficients, None, LinearOperator.derivative(dict(orders)) if orders else None)
            )
        return ExpandedFunction(substrate, tuple(terms), self.bias)

    def fit(self, n: int, width: int, shapes: Sequence[SavedShape]) -> bool:
        """Return whether the numbers fit together, and the multipliers are those of points of their boxes."""
        fits = self.g.shape == self.coefficients.shape == (n,) and bool((self.g > 0.0).all()) and self.c > 0.0
        fits = fits and _are_finite(self.g, self.coefficients, np.array([self.c, self.bias]))
        for points, coefficients, orders in self.terms:
            fits = fits and points.shape == (coefficients.size, width) and _are_finite(points, coefficients)
            fits = fits and _are_orders(orders, width)
        fits = fits and len(self.multipliers) == len(shapes)
        for (points, directions, values), shape in zip(self.multipliers, shapes, strict=False):
            fits = fits and points.shape == (values.size, width) and _are_finite(points, directions, values)
            fits = fits and (directions.shape == points.shape or (not shape.hessian and directions.size == 0))
            fits = fits and bool((values >= 0.0).all())
            fits = fits and bool(((points >= shape.box[:, 0]) & (points <= shape.box[:, 1])).all())
        return fits


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SavedFold:
    """One machine: rows and targets, kernel, whether it has a bias, validation rows, shapes and knots."""

    kernel: Any
    X: Array
    y: Array
    bias: bool
    X_val: Array
    y_val: Array
    weights_val: Array
    shapes: tuple[SavedShape, ...]
    knots: tuple[SavedKnot, ...]

    @classmethod
    def of(cls, fold: ShapedKnots, thetas: Sequence[float]) -> "SavedFold":
        """Copy the knots of a fold at these values of the parameter."""
        knots = [fold.knots[theta] for theta in thetas]
        function = knots[0].point.function
        s, rows = function.substrate, fold.rows
        return cls(
            kernel=s.kernel,
            X=function.terms[0].points,
            y=np.asarray(s.y, dtype=np.float64),
            bias=bool(s.bias),
            X_val=np.asarray(rows.X, dtype=np.float64),
            y_val=rows.stacked_targets,
            weights_val=np.zeros(0) if rows.weights is None else rows.weights,
            shapes=tuple(SavedShape.of(plan) for plan in fold.plans),
            knots=tuple(SavedKnot.of(knot) for knot in knots),
        )

    def fit(self) -> bool:
        """Return whether the numbers fit together."""
        n, width = self.X.shape
        fits = self.y.shape == (n,) and self.X_val.shape == (self.y_val.size, width) and isinstance(self.bias, bool)
        fits = fits and self.weights_val.shape in ((0,), self.y_val.shape) and bool((self.weights_val >= 0.0).all())
        fits = fits and _are_finite(self.X, self.y, self.X_val, self.y_val, self.weights_val)
        fits = fits and bool(self.shapes) and all(shape.fit(width) for shape in self.shapes)
        return fits and all(knot.fit(n, width, self.shapes) for knot in self.knots)

    def check_weights(self, thetas: Array) -> None:
        """Check that c and g are affine in the parameter: on the line through the first knot and the last."""
        weights = np.array([np.append(knot.c, knot.g) for knot in self.knots])
        share = ((thetas - thetas[0]) / (thetas[-1] - thetas[0]))[:, None]
        line = (1.0 - share) * weights[0] + share * weights[-1]
        if (np.abs(line - weights) > AFFINE * (weights[0] + weights[-1])).any():
            raise UnprovedError("the weights are not affine in the parameter")

    def recall(self, thetas: Array) -> ShapedKnots:
        """Return the knots with all that bounds need of them, computed again; raise where a shape does not hold."""
        self.check_weights(thetas)
        fields = {"kernel": self.kernel, "X": self.X, "y": self.y, "bias": self.bias}
        s = SavedSubstrate({**fields, "basis": None, "task": "regression", "name": None, "column_names": ()})
        plans = [shape.plan(s) for shape in self.shapes]
        weights = self.weights_val if self.weights_val.size else None
        knots = ShapedKnots(plans, ValidationSet(self.X_val, {None: self.y_val}, weights))
        for theta, saved in zip(thetas.tolist(), self.knots, strict=True):
            function = saved.function(s)
            for plan in plans:
                check_shape(plan, function)
            multipliers = [ShapeMultipliers(*numbers) for numbers in saved.multipliers]
            knots.keep(theta, SquaredWeights(saved.c, saved.g), function, multipliers)
        return knots


def check_shape(plan: ShapePlan, function: ExpandedFunction) -> None:
    """Check that a function has its shape at all points of the box."""
    shape, level = plan.bind([function]), plan.constraint.bound
    found = shape.proof(np.inf, level)
    for _ in range(_ROUNDS):
        if found.lower >= level:
            return
        if found.found <= level:
            break
        found = shape.proof(0.5 * (found.found - level), level)
    raise UnprovedError(f"{plan.constraint.description} is not proved everywhere at a knot: at least {found.lower:g}")


@dataclass(frozen=True, kw_only=True)
class ShapedProof(SavedProof):
    """The proof by chords of machines with shapes: knots, and the intervals between two of them."""

    kinds = ("proof of a fusion with shapes that hold everywhere",)

    thetas: Array
    cells: Any
    folds: tuple[SavedFold, ...]

    @classmethod
    def of(
        cls, folds: Sequence[ShapedKnots], cells: Sequence[tuple[float, float]], statement: Mapping[str, Any]
    ) -> "ShapedProof":
        """Copy the knots at the ends of the intervals of a search."""
        thetas = sorted({theta for cell in cells for theta in cell})
        number = {theta: k for k, theta in enumerate(thetas)}
        return cls(
            **statement,
            thetas=np.array(thetas),
            cells=np.array([[number[theta] for theta in cell] for cell in cells], dtype=np.int64),
            folds=tuple(SavedFold.of(fold, thetas) for fold in folds),
        )

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the machines, and all arrays."""
        arrays: Arrays = {"thetas": self.thetas, "cells": self.cells}
        folds = [encode(_fields(fold), f"fold{number}", arrays) for number, fold in enumerate(self.folds)]
        return {"folds": folds}, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "ShapedProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        arrays = archive.arrays
        thetas, cells = arrays["thetas"], arrays["cells"]
        folds = tuple(_read_fold(decode(fold, arrays)) for fold in archive.content["folds"])
        fits = thetas.ndim == 1 and thetas.size > 1 and bool((np.diff(thetas) > 0.0).all()) and _are_finite(thetas)
        fits = fits and cells.dtype.kind == "i" and cells.shape == (len(cells), 2) and cells.size > 0
        fits = fits and bool((cells[:, 0] < cells[:, 1]).all()) and cells.min() >= 0 and cells.max() < thetas.size
        fits = fits and bool(folds) and len(statement["names"]) == 1 and float(thetas[0]) > 0.0
        if not (fits and all(fold.fit() and len(fold.knots) == thetas.size for fold in folds)):
            refuse_numbers()
        return cls(**statement, thetas=thetas, cells=cells, folds=folds)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and of which machines it is."""
        shapes = len(self.folds[0].shapes)
        return (
            ("proof", f"{len(self.thetas)} knots, {len(self.cells)} intervals, {len(self.folds)} folds"),
            ("shapes", f"{shapes}, proved again at all points of their boxes for every knot"),
        )

    def bound(self) -> float:
        """Compute the bound on the sums of the folds again."""
        ends = self.thetas[self.cells]
        ((low, high),) = self.box
        place = low
        for start, stop in sorted(ends.tolist()):
            if start > place:
                raise UnprovedError(f"the intervals leave a hole from {place:g} to {start:g}")
            place = max(place, stop)
        if place < high:
            raise UnprovedError(f"the intervals end at {place:g}")
        try:
            folds = [fold.recall(self.thetas) for fold in self.folds]
        except DataError as error:
            raise UnprovedError(str(error)) from error
        bounds = [sum(fold.bound(start, stop)[0] for fold in folds) for start, stop in ends.tolist()]
        return min(bounds) * (1.0 - 1e-12)


def _are_finite(*arrays: Array) -> bool:
    return all(array.dtype.kind == "f" and bool(np.isfinite(array).all()) for array in arrays)


def _are_orders(orders: Orders, width: int) -> bool:
    """Return whether these are the orders of a derivative of so many columns, which is not of an absurd order."""
    fits = all(type(c) is int and type(k) is int and 0 <= c < width and 0 < k < 5 for c, k in orders)
    return fits and len({c for c, _ in orders}) == len(orders)


def _orders_of(term: ExpansionTerm) -> Orders:
    """Return the orders of the derivative that a term is of; those of representers are plain."""
    if term.operator is None:
        return ()
    assert isinstance(term.operator, LinearOperator)
    (only,) = term.operator.terms
    return tuple((int(c), int(k)) for c, k in only.orders)


def _fields(fold: SavedFold) -> dict[str, Any]:
    """Return the numbers of a fold in plain values, as a file has them."""
    names = ("kernel", "X", "y", "bias", "X_val", "y_val", "weights_val")
    values = {name: getattr(fold, name) for name in names}
    values["shapes"] = tuple((s.box, s.terms, s.bound, s.hessian) for s in fold.shapes)
    values["knots"] = tuple((k.c, k.g, k.coefficients, k.bias, k.terms, k.multipliers) for k in fold.knots)
    return values


def _read_fold(values: Any) -> SavedFold:
    check_kernels((values["kernel"],), values["X"].shape[1])
    shapes = tuple(SavedShape(*numbers) for numbers in values.pop("shapes"))
    knots = tuple(SavedKnot(*numbers) for numbers in values.pop("knots"))
    return SavedFold(**values, shapes=shapes, knots=knots)
