r"""Fusion over a weight of a least-squares machine whose shape holds everywhere.

The functions that have the shape do not depend on the weight, so that what is proved of one machine serves at all
values. At every vertex the machine is solved to a narrow bracket (:mod:`substrate.composition.shaped_machine`), and
between two of them the chord of :mod:`substrate.fusion.shaped_chord` bounds the validation error of the machine of the
infinite problem. What the brackets of the ends lose does not shrink with the cell: where they lose too much, the ends
are solved to narrower ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from substrate.composition import Machine
from substrate.composition.cut_least_squares import SquaredWeights, read_weights
from substrate.composition.shaped_machine import ShapedResult, expanded_function
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.cell_search import starting_levels
from substrate.fusion.result import FusedPath, Fusion
from substrate.fusion.shaped_chord import ShapedKnot, ShapedKnots
from substrate.fusion.validated_machine import (
    MARGIN,
    ValidatedMachine,
    certify_search,
    compare_bound,
    end_of_search,
    least_error,
)
from substrate.fusion.validation import ValidationSet
from substrate.fusion.validation_loss import SQUARED
from substrate.search.best_first import BestFirst, Limits, Progress, describe_met

__all__ = ["fuse_shaped"]

#: Relative widths of the brackets of a vertex: the first, the narrowest, and the ratio of one to the next.
_WIDTH, _NARROWEST, _NARROWER = 1e-6, 1e-10, 1e-2
#: Share of the gap that the brackets of the ends may lose.
_SHARE = 0.3
#: Ratio of the ends of a cell that is not cut.
_SHORTEST = 1.0 + 1e-6
_ADVICE = (
    "; with a shape that holds everywhere fuse proves machines of one substrate that minimise s.squared_norm and "
    "cp.sum_squares(s.e), with weights and the parameter as a factor, and have no other constraints. For others give "
    "points in place of everywhere"
)
_AGREEMENT = (1e-3, 0.0)
#: How far weights may be from a line, relative.
_AFFINE = 1e-12


class ShapedFold(ShapedKnots):
    """One machine, its validation rows, and the knots that were solved."""

    def __init__(self, machine: Machine, name: str, rows: ValidationSet) -> None:
        if machine.shapes is None:
            raise DeclarationError(f"the machine of a fold has no shape, and others have{_ADVICE}")
        super().__init__(machine.shapes.plans, rows)
        self.machine, self.name = machine, name
        self.results: dict[float, ShapedResult] = {}
        self.widths: dict[float, float] = {}
        self.solves = 0
        self._refuse()

    def _refuse(self) -> None:
        """Raise where the machine is not one that the chord is for."""
        if len(self.machine.substrates) != 1 or self.machine._given or self.machine.own_variables():
            raise DeclarationError(f"the machine has several substrates, variables or constraints at points{_ADVICE}")
        s = self.machine.substrates[0]
        if s.observed is not None or s.basis is not None or s.kernel.pairwise:
            raise DeclarationError(f"the machine has observations of another kind, a basis or a matrix{_ADVICE}")
        if any(term.part is not None for plan in self.plans for term in plan.constraint.terms):
            raise DeclarationError(f"a shape is of a component{_ADVICE}")
        if not all(len(terms) == 1 and terms[0] is s for terms in self.machine.outputs.terms.values()):
            raise DeclarationError(f"the machine predicts something else than its substrate{_ADVICE}")

    def weights_at(self, theta: float) -> SquaredWeights:
        """c and g at a value of the parameter."""
        s, objective = self.machine.substrates[0], self.machine._objective
        values = {p.name(): p.value for p in objective.parameters()} | {self.name: theta}
        missing = sorted(name for name, value in values.items() if value is None)
        if missing:
            raise DeclarationError(f"parameters {missing} have no value; give them one before fusing over {self.name}")
        try:
            return read_weights(s, objective, values)
        except DeclarationError as error:
            raise DeclarationError(f"{str(error).split(';')[0]}{_ADVICE}") from error

    def refuse_other_weights(self, low: float, high: float) -> None:
        """Raise where the weights are not affine in the parameter: squares of it, as in sum_squares(C * e)."""
        first, middle, last = (self.weights_at(theta) for theta in (low, 0.5 * (low + high), high))
        for a, b, c in ((first.c, middle.c, last.c), (first.g, middle.g, last.g)):
            if (np.abs(0.5 * (np.asarray(a) + c) - b) > _AFFINE * (np.abs(a) + np.abs(c))).any():
                raise DeclarationError(f"{self.name!r} must be a factor of squares, not inside one{_ADVICE}")

    def solve(self, theta: float, width: float) -> ShapedKnot:
        """Solve a vertex to a bracket of this width, from the points of the nearest one."""
        nearest = min(self.knots, key=lambda known: abs(math.log(known / theta)), default=None)
        start = None if nearest is None else self.results[nearest]
        given: dict[str, Any] = {self.name: theta}
        result: ShapedResult = self.machine.solve_with_shapes(width, start, **given)
        self.solves += 1
        if not all(report.slack >= 0.0 for report in result.shapes):
            reason = dict(result.certificate.record).get("no machine that holds everywhere", "it is not proved")
            raise SolverError(f"at {self.name} = {theta:g} no machine was found whose shape holds everywhere: {reason}")
        function = expanded_function(result.expansions[0])
        knot = self.keep(theta, self.weights_at(theta), function, result.multipliers)
        self.results[theta], self.widths[theta] = result, width
        return knot


@dataclass(slots=True, eq=False)
class _Interval:
    """Two neighbouring vertices, the bound between them, and what their brackets lose.

    ``source`` are the vertices whose chord has that bound: these, or those of an interval that it was cut from.
    """

    low: float
    high: float
    bound: float
    limit: float
    source: tuple[float, float]


@dataclass(eq=False)
class _Intervals:
    """The space of the search: intervals of the weight."""

    folds: Sequence[ShapedFold]
    box: tuple[float, float]
    gap: float
    least: float
    limits: Limits
    collapsed: str = "the brackets of the vertices are as narrow as they get, and the gap is not met"
    goes_on: bool = False
    usual: float = 4.0
    errors: dict[float, float] = field(default_factory=dict)

    @property
    def solves(self) -> int:
        """Return how many machines were solved."""
        return sum(fold.solves for fold in self.folds)

    @property
    def best(self) -> float:
        """Return the smallest sum of squares at a vertex."""
        return min(self.errors.values(), default=math.inf)

    def target(self) -> float:
        """Return what the bound of an interval must reach."""
        return self.best - (1.0 - MARGIN) * self.gap * max(self.best, self.least)

    def cover(self) -> Sequence[_Interval]:
        """Solve the vertices of the first intervals."""
        levels = [float(level) for level in starting_levels(*self.box, False)]
        for theta in levels:
            self._solve(theta)
        return [self._bounded(low, high) for low, high in pairwise(levels)]

    def priority(self, cell: _Interval) -> float:
        """The lowest bound first."""
        return cell.bound

    def refine(self, cell: _Interval, target: float) -> Sequence[_Interval]:
        """Return the interval with ends of narrower brackets where these lose too much, its halves elsewhere."""
        allowed = _SHARE * self.gap * max(self.best, self.least)
        while cell.limit > allowed:
            wide = [theta for theta in (cell.low, cell.high) if self._width(theta) > _NARROWEST]
            if not wide:
                break
            for theta in wide:
                self._solve(theta, max(_NARROWER * self._width(theta), _NARROWEST))
            kept = cell.limit
            cell = self._bounded(cell.low, cell.high, cell)
            if cell.bound >= self.target():
                return [cell]
            if cell.limit > 0.5 * kept:
                break
        # an interval whose ends alone lose more than the gap is not settled by its halves
        ends = min(self.errors[cell.low], self.errors[cell.high])
        if ends - cell.limit < self.target() and cell.bound > 0.0 and cell.high < 1.01 * cell.low:
            return []
        middle = math.sqrt(cell.low * cell.high) if cell.low > 0.0 else 0.5 * cell.high
        if cell.high <= _SHORTEST * cell.low or not cell.low < middle < cell.high:
            return []
        self._solve(middle)
        return [self._bounded(cell.low, middle, cell), self._bounded(middle, cell.high, cell)]

    def _width(self, theta: float) -> float:
        return max(fold.widths[theta] for fold in self.folds)

    def _solve(self, theta: float, width: float = _WIDTH) -> None:
        if self.errors:  # the first one is solved whatever the budget
            self.limits.check(self.solves, len(self.folds))
        self.errors[theta] = sum(fold.solve(theta, width).validation for fold in self.folds)

    def _bounded(self, low: float, high: float, around: _Interval | None = None) -> _Interval:
        """Return an interval with the larger one of its bound and of that of one around it."""
        bounds = [fold.bound(low, high) for fold in self.folds]
        total, limit = (math.fsum(numbers) for numbers in zip(*bounds, strict=True))
        bound, source = total, (low, high)
        if around is not None and around.bound > total:
            bound, source = around.bound, around.source
        return _Interval(low=low, high=high, bound=bound, limit=limit, source=source)


def fuse_shaped(
    machines: Sequence[Machine],
    sets: Sequence[ValidationSet],
    final: Machine,
    name: str,
    box: tuple[float, float],
    gap: float,
    limits: Limits,
    progress: Progress,
) -> Fusion:
    """Choose the weight whose machine with its shape validates best, and bound what all others in a range could do."""
    if sets[0].loss != SQUARED:
        raise DeclarationError(f"with a shape that holds everywhere the loss is 'squared'{_ADVICE}")
    low, high = box
    if not 0.0 < low < high < math.inf:
        raise DeclarationError(f"the range of {name!r} must have 0 < low < high, received {box!r}")
    folds = [ShapedFold(machine, name, rows) for machine, rows in zip(machines, sets, strict=True)]
    for fold in folds:
        fold.refuse_other_weights(low, high)
    weight = sum(rows.weight for rows in sets)
    least = least_error(sets)
    space = _Intervals(folds, (low, high), gap, least * weight, limits)
    search: BestFirst[_Interval] = BestFirst(space, limits, progress, describe_met(gap), floor=0.0)
    search.run()
    value = min(space.errors, key=lambda theta: space.errors[theta])
    chosen = _choose(folds, machines, final, name, value)
    error = chosen.total / weight
    lower = min(search.lower_bound / weight, error)
    where = f"{name} from {low:g} to {high:g}"
    formula = f"validation error - lower bound over {where}"
    row = compare_bound(f"gap of {name}", formula, error, lower, gap, sets)
    stop = end_of_search(search.stop, chosen, row)
    facts = [
        ("fused over", where),
        ("search", f"{space.solves} solves, {len(space.errors)} vertices, {len(search.cells)} cells; {stop}"),
        ("shapes", "the bound is of the machines of the infinite problem, whose shapes hold at all points of the box"),
    ]
    if value in box:
        facts.append(("choice", f"{name} at {value:g}, an end of its range; box= looks further"))
    title = f"Fusion over {name}"
    certificate = certify_search(title, chosen, row, sets, _AGREEMENT, facts, len(space.errors))
    thetas = sorted(space.errors)
    path = FusedPath(
        parameter=name,
        values=np.array(thetas),
        validation_errors=np.array([space.errors[theta] for theta in thetas]) / weight,
        knots=tuple(tuple(fold.knots[theta] for theta in thetas if theta in fold.knots) for fold in folds),
        coverage=(low, high),
        holes=(),
        stop=stop,
    )
    return Fusion(
        values=chosen.values,
        validation_error=error,
        lower_bound=lower,
        proved_on={name: (low, high)},
        result=chosen.result,
        path=path,
        certificate=certificate,
        loss=SQUARED.words,
        least=least,
        folds=chosen.folds,
        estimate=limits.estimate,
    )


def _choose(
    folds: Sequence[ShapedFold], machines: Sequence[Machine], final: Machine, name: str, value: float
) -> ValidatedMachine:
    """Return the machines at the chosen value: those of the vertex, and that of all rows."""
    knots, results = [fold.knots[value] for fold in folds], [fold.results[value] for fold in folds]
    errors = np.concatenate([knot.errors for knot in knots])
    given: dict[str, Any] = {name: value}
    single = len(machines) == 1 and machines[0] is final
    result = results[0] if single else final.solve(**given)
    return ValidatedMachine(
        values={name: value},
        result=result,
        errors=errors,
        knot=errors,
        total=float(errors @ errors),
        folds=() if single else tuple(results),
    )
