r"""Maximal variation on a reduced basis, with bounds at all rows: violated rows are added until none is left.

.. math::

    \min_{u, b, t} \; \tfrac12 \sum_{i=1}^N v_i \Big( y_i - \sum_l f^l(x_i) - b \Big)^2
        + \tfrac{\tau}{2} \sum_l w_l^T w_l + \rho \sum_l t_l \quad \text{s.t.} \quad |f^l(x_i)| \le t_l \; \forall i, l

([Pelckmans2005]_ eq. (13)-(14), (24)-(27), with one expansion per component in the basis of [Cawley2004]_ eq. (2)). The
weights :math:`v_i` of the errors are one unless rows have others; the bounds hold at every row, whatever its weight.
With the features z of :mod:`~substrate.penalized.variation.component_features`, the errors need one pass,
:math:`R^T R = \sum_i v_i \tilde z_i \tilde z_i^T + \tau I` and :math:`\tilde y = R^{-T} \sum_i v_i \tilde z_i y_i`,
after which

.. math:: \min_v \; \tfrac12 \| R v - \tilde y \|^2 + \rho \sum_l \max_{i \in W} |z^{lT}_i v^l|

is solved for few rows W by :func:`~substrate.penalized.variation.active_rows.solve_on_rows`. A pass then finds the rows
furthest above :math:`t_l`, a few for each component and each sign; they are added to W, and when there is none the
solution is that of all rows. The multipliers :math:`\xi` of the rows in W are the certificate: with
:math:`q = R^{-T} \sum_l \sum_{i \in W} \xi^l_i z^l_i` and :math:`\|\xi^l\|_1 \le \rho` the dual objective is
:math:`\tfrac12 \|y - \bar y\|^2 - \tfrac12 \|\tilde y - q\|^2`, and the gap to the primal one, computed from all rows,
bounds the distance from the minimum.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rows import ACCURATE, unpolished_tolerance
from substrate.errors import SolverError
from substrate.ingredients.component_bounds import variation_rows
from substrate.penalized.variation.accuracy_on_a_basis import VariationBound
from substrate.penalized.variation.active_rows import PointOnRows, solve_on_rows
from substrate.penalized.variation.component_features import ComponentFeatures
from substrate.penalized.variation.polish import VariationPoint
from substrate.reduced.moments import MomentsOfLeaf, Origin
from substrate.streaming.passes import OpenPasses
from substrate.streaming.source import Block, Source
from substrate.streaming.survey import TargetSummary
from substrate.streaming.tally import Tally, join

__all__ = ["ReducedVariation", "VariationRows", "VariationSweep", "solve_reduced_variation"]


@dataclass(frozen=True, slots=True)
class RowsAbove:
    """Rows above their bounds, at most ``most`` per place, those furthest above: by how much, number, features.

    ``place`` is the number of the component, plus that of all components where the value is negative.
    """

    place: NDArray[np.int64]
    excess: Array
    number: NDArray[np.int64]
    features: Array
    most: int

    def __add__(self, other: "RowsAbove") -> "RowsAbove":
        return RowsAbove(
            place=join(self.place, other.place),
            excess=join(self.excess, other.excess),
            number=join(self.number, other.number),
            features=join(self.features, other.features),
            most=self.most,
        ).furthest()

    def furthest(self) -> "RowsAbove":
        """Return the rows furthest above, at most ``most`` per place, among equal ones the first."""
        order = np.lexsort((self.number, -self.excess, self.place))
        begins = np.searchsorted(self.place[order], self.place[order], side="left")
        kept = order[np.arange(order.size) - begins < self.most]
        return RowsAbove(
            place=self.place[kept],
            excess=self.excess[kept],
            number=self.number[kept],
            features=self.features[kept],
            most=self.most,
        )


@dataclass(frozen=True, slots=True)
class Swept(Tally):
    """Z'e, 1'e, e'e, t't and ``max |f^l|`` over rows, and the rows above their bounds.

    Sums are weighted where rows have weights, and ``mass`` is that of all rows.
    """

    mass: float
    slope: Array
    total: float
    squares: float
    targets: float
    largest: Annotated[Array, np.maximum]
    above: RowsAbove


@dataclass(frozen=True, slots=True)
class VariationSweep:
    """The machine f = Z v + b and the bounds of the sweep, in units of the targets."""

    values: ComponentFeatures
    unit: float
    v: Array
    bias: float
    bounds: Array
    most: int

    def __call__(self, blocks: Iterable[Block]) -> Swept:
        """Accumulate over the micro-blocks of a leaf."""
        swept = self._nothing()
        for block, rows, tile in self.values.walk(blocks):
            light = None if block.weights is None else block.weights[rows]
            swept = swept + self._of_tile(tile, block.Y[rows, 0] / self.unit, light, block.start + rows.start)
        return swept

    def _of_tile(self, tile: Array, targets: Array, light: Array | None, first: int) -> Swept:
        d = len(self.values.slices)
        values = np.column_stack([tile[:, place] @ self.v[place] for place in self.values.slices])
        errors = targets - values.sum(axis=1) - self.bias
        above = np.concatenate([values - self.bounds, -values - self.bounds], axis=1)
        # only the rows furthest above per place: the others of this tile cannot be among the first
        step = max(above.shape[0] - self.most, 0)
        floor = np.partition(above, step, axis=0)[step] if step else np.full(2 * d, -np.inf)
        row, place = np.nonzero((above > 0.0) & (above >= floor))
        rows = RowsAbove(
            place=place.astype(np.int64),
            excess=above[row, place],
            number=row.astype(np.int64) + first,
            features=tile[row],
            most=self.most,
        )
        pulled = errors if light is None else light * errors
        return Swept(
            mass=float(targets.size if light is None else light.sum()),
            slope=tile.T @ pulled,
            total=float(pulled.sum()),
            squares=float(pulled @ errors),
            targets=float(targets @ (targets if light is None else light * targets)),
            largest=np.abs(values).max(axis=0),
            above=rows.furthest(),
        )

    def _nothing(self) -> Swept:
        r, d = self.v.size, len(self.values.slices)
        none = np.zeros(0, dtype=np.int64)
        above = RowsAbove(place=none, excess=np.zeros(0), number=none, features=np.zeros((0, r)), most=self.most)
        return Swept(mass=0.0, slope=np.zeros(r), total=0.0, squares=0.0, targets=0.0, largest=np.zeros(d), above=above)


#: Number of rows added to a component at either end in one round, and largest number of rounds.
_JOIN, _ROUNDS = 8, 100
#: A row counts as violated beyond this share of the largest component value.
_VIOLATED = 1e-9
#: Size of a centred target, relative to the target, below which there is nothing to fit.
_NOTHING = 1e-14
_REMEDY = "use a larger ridge, a larger cutoff, or weights that are closer together"
#: A component below this share of the largest target is zero, where the active rows settled.
_ZERO = 1e-12


@dataclass(frozen=True, slots=True)
class VariationRows:
    """All rows: their features, their source, the settings of passes, and a summary of the targets."""

    values: ComponentFeatures
    source: Source
    passes: OpenPasses
    targets: TargetSummary
    unit: float
    anchor: Any

    def sums(self) -> "FeatureSums":
        """Return the sums over all rows, of one pass."""
        near = self.values.matrix(self.anchor).mean(axis=0)  # subtracted before squaring
        origin = Origin(near, self.targets.means_in(self.unit), self.unit)
        function = MomentsOfLeaf(self.values, origin)
        total, _ = self.passes.sums(self.source, function, "sums of component features").moments()
        mean, target = total.first / total.mass, total.targets / total.mass
        centred = total.shift_to(mean, target)
        target_mean = float(target[0] + origin.targets[0])
        return FeatureSums(
            scatter=centred.second,
            correlation=centred.cross[:, 0],
            mean=mean + near,
            target_mean=target_mean,
            target_squares=float(centred.squares[0]),
        )

    def spread(self) -> dict[int, Array]:
        """Return numbers of rows spread over all of them, enough for every direction of a component."""
        wanted = min(2 * max(self.values.ranks), self.source.n_rows)
        numbers = np.unique(np.linspace(0, self.source.n_rows - 1, wanted).astype(np.intp))
        return dict(zip(numbers.tolist(), self.values.matrix(self.source.take_rows(numbers)), strict=True))

    def sweep(self, v: Array, bias: float, bounds: Array) -> Swept:
        """Make one pass with the machine v, b."""
        sweep = VariationSweep(values=self.values, unit=self.unit, v=v, bias=bias, bounds=bounds, most=_JOIN)
        swept: Swept = self.passes.sums(self.source, sweep, "rows above their bounds")
        return swept


class FeatureSums(NamedTuple):
    """Sums over all rows: scatter and correlation of the centred features, their mean, and those of the targets."""

    scatter: Array
    correlation: Array
    mean: Array
    target_mean: float
    target_squares: float


@dataclass(frozen=True, slots=True)
class ReducedVariation:
    """v, b and t in the units of y; certificate rows; passes, rows bounded, and whether zeros are exact."""

    v: Array
    bias: float
    maximal_variation: Array
    rows: tuple[Row, ...]
    rounds: int
    bounded: int
    exact: bool
    numbers: tuple[int, ...]
    xi: Array
    scatter: Array
    mean: Array

    def judge(self, rows: VariationRows, rho: float, ridge: float, share: float = ACCURATE) -> VariationBound:
        """Return the judge of any coefficients, with the multipliers found here as the dual point.

        ``share`` is what is permitted of a polished point, relative to the spread of the user's y.
        """
        numbers = np.array(self.numbers, dtype=np.intp)
        order = np.argsort(numbers)
        return VariationBound(
            values=rows.values,
            source=rows.source,
            passes=rows.passes,
            targets=rows.targets,
            unit=rows.unit,
            scatter=self.scatter,
            mean=self.mean,
            rho=rho / rows.unit,
            ridge=ridge,
            bounded=rows.source.take_rows(numbers[order]) if numbers.size else None,
            xi=self.xi[:, order] if numbers.size else self.xi,
            share=share if self.exact else unpolished_tolerance(share),
        )


def solve_reduced_variation(rows: VariationRows, rho: float, ridge: float, tolerance: float) -> ReducedVariation:
    """Solve for one rho and ridge, both positive, in the units of y."""
    inside = rho / rows.unit
    totals = rows.sums()
    scatter, cross, mean = totals.scatter, totals.correlation, totals.mean
    target_mean, squares = totals.target_mean, totals.target_squares
    try:
        R: Array = np.asarray(np.linalg.cholesky(scatter + ridge * np.eye(cross.size)).T, dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise SolverError(f"ridge = {ridge:g} is below the rounding of the sums over all rows; {_REMEDY}") from error
    goal = solve_triangular(R, cross, trans="T")
    d = len(rows.values.ranks)
    is_negligible = float(np.linalg.norm(goal)) <= _NOTHING * max(np.sqrt(squares), abs(target_mean))
    v = np.zeros(cross.size) if is_negligible else solve_triangular(R, goal)
    swept, bounded = rows.sweep(v, target_mean - float(mean @ v), np.zeros(d)), {} if is_negligible else rows.spread()
    solution = PointOnRows(VariationPoint(np.zeros(cross.size), np.zeros((d, 0))), 0, 0, True)
    t, rounds, largest = np.zeros(d), 0, float(np.abs(rows.targets.extremes).max()) / rows.unit
    joining = {} if is_negligible else _join_rows(bounded, swept)
    while not is_negligible and (joining or not rounds):
        if rounds == _ROUNDS:
            raise SolverError(
                f"rows still exceeded their bounds after {_ROUNDS} rounds; use a larger ridge, or a larger cutoff"
            )
        bounded |= joining
        components = rows.values.split(np.array(list(bounded.values())))
        solution = solve_on_rows(components, R, goal, inside)
        v = solve_triangular(R, solution.point.u)
        t = np.abs(components @ v).max(axis=1)
        if solution.exact:
            t[t <= max(_VIOLATED * float(t.max()), _ZERO * largest)] = 0.0
        swept = rows.sweep(v, target_mean - float(mean @ v), t + _VIOLATED * float(t.max()))
        joining = _join_rows(bounded, swept)  # a bounded row that exceeds its bound does so by rounding
        rounds += 1
    components = rows.values.split(np.array(list(bounded.values())).reshape(len(bounded), cross.size))
    state = _OptimalityData(R=R, goal=goal, mean=mean, cross=cross, squares=squares, rho=inside, ridge=ridge)
    checks = state.checks(components, v, t, solution.point.xi, swept, tolerance)
    unit, bias = rows.unit, target_mean - float(mean @ v)
    return ReducedVariation(
        v=unit * v,
        bias=unit * bias,
        maximal_variation=unit * t,
        rows=checks,
        rounds=rounds,
        bounded=len(bounded),
        exact=solution.exact,
        numbers=tuple(bounded),
        xi=solution.point.xi,
        scatter=scatter,
        mean=mean,
    )


def _join_rows(bounded: dict[int, Array], swept: Swept) -> dict[int, Array]:
    """Return rows above their bounds that are not bounded yet, by number."""
    above = swept.above
    return {k: row for k, row in zip(above.number.tolist(), above.features, strict=True) if k not in bounded}


@dataclass(frozen=True, slots=True)
class _OptimalityData:
    """The data of the optimality conditions."""

    R: Array
    goal: Array
    mean: Array
    cross: Array
    squares: float
    rho: float
    ridge: float

    def checks(
        self, components: Array, v: Array, t: Array, xi: Array, swept: Swept, tolerance: float
    ) -> tuple[Row, ...]:
        """Return the conditions (27) and the duality gap, with errors and bounds of all rows."""
        pull, rho = np.tensordot(xi, components, 2), self.rho
        gradient = self.ridge * v - (swept.slope - self.mean * swept.total) + pull
        size = float(np.linalg.norm(self.cross) + np.linalg.norm(pull) + self.ridge * np.linalg.norm(v))
        # where nothing is fitted, a millionth of the largest possible correlation of features and targets
        norm = np.linalg.norm(self.R) + np.sqrt(swept.mass) * np.linalg.norm(self.mean)
        size += 1e-6 * float(norm * np.sqrt(swept.targets))
        cost = 0.5 * self.squares + 0.5e-6 * swept.targets
        length = float(np.sqrt(swept.targets / swept.mass))
        unit = max(float(np.sqrt(self.squares / swept.mass)), 1e-6 * length) or 1.0
        # the difference of rho and the net multipliers is divided between both sides, over the bounded rows
        spare = np.maximum(rho - np.abs(xi).sum(axis=1), 0.0)[:, None] / (2.0 * max(xi.shape[1], 1))
        minus, plus = np.maximum(-xi, 0.0) + spare, np.maximum(xi, 0.0) + spare
        named = variation_rows(components @ v, t, minus, plus, rho, cost, unit, tolerance) if xi.shape[1] else ()
        excess = float(np.max(swept.largest - t, initial=0.0))
        primal = 0.5 * (swept.squares - swept.total**2 / swept.mass) + 0.5 * self.ridge * float(v @ v)
        primal += rho * float(swept.largest.sum())
        ball = np.minimum(1.0, rho / np.maximum(np.abs(xi).sum(axis=1), rho))
        q = solve_triangular(self.R, np.tensordot(ball[:, None] * xi, components, 2), trans="T")
        dual = 0.5 * self.squares - 0.5 * float(np.sum((self.goal - q) ** 2))
        scale = cost + rho * (float(t.sum()) + 1e-6 * unit)
        return (
            Row(
                name="(27a) stationarity",
                value=float(np.linalg.norm(gradient)),
                scale=size,
                tolerance=tolerance,
                formula="||tau v - Z'e + Z'xi||",
            ),
            *(row for row in named if not row.name.startswith("(27d)")),
            Row(
                name="(27d) bounds at all rows",
                value=excess,
                scale=unit,
                tolerance=tolerance,
                formula="max (|f^l| - t_l)",
            ),
            Row(
                name="1'e = 0",
                value=swept.total,
                scale=np.sqrt(swept.mass * swept.targets) or 1.0,
                tolerance=tolerance,
                formula="|1'e|",
            ),
            Row(
                name="duality gap over all rows",
                value=primal - dual,
                scale=scale,
                tolerance=tolerance,
                formula="primal - dual objective",
            ),
        )
