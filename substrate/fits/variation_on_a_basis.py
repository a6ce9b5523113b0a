r"""Maximal variation on a reduced basis, with bounds at all rows: violated rows are added until none is left.

.. math::

    \min_{u, b, t} \; \tfrac12 \sum_{i=1}^N v_i \Big( y_i - \sum_l f^l(x_i) - b \Big)^2
        + \tfrac{\tau}{2} \sum_l w_l^T w_l + \rho \sum_l t_l \quad \text{s.t.} \quad |f^l(x_i)| \le t_l \; \forall i, l

([Pelckmans2005]_ eq. (13)-(14), (24)-(27), with one expansion per component in the basis of [Cawley2004]_ eq. (2)). The
weights :math:`v_i` of the errors are one unless rows have others; the bounds hold at every row, whatever its weight.
With the features z of :mod:`~substrate.fits.component_features`, the errors need one pass,
:math:`R^T R = \sum_i v_i \tilde z_i \tilde z_i^T + \tau I` and :math:`\tilde y = R^{-T} \sum_i v_i \tilde z_i y_i`,
after which

.. math:: \min_v \; \tfrac12 \| R v - \tilde y \|^2 + \rho \sum_l \max_{i \in W} |z^{lT}_i v^l|

is solved for few rows W by :func:`~substrate.fits.variation.solve_on_rows`. A pass then finds the rows
furthest above :math:`t_l`, a few for each component and each sign; they are added to W, and when there is none the
solution is that of all rows. The multipliers :math:`\xi` of the rows in W are a dual point, from which
:func:`substrate.penalties.bound_by_duality` bounds the answer.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.enclosed import Double, at_most, sum_rounding
from substrate.certificates.rows import Accuracy, with_cutoff
from substrate.certificates.tolerance import Tolerance
from substrate.errors import SolverError
from substrate.fits.component_features import ComponentFeatures
from substrate.fits.polish import VariationPoint
from substrate.fits.variation import PointOnRows, sides_of, solve_on_rows
from substrate.ingredients.component_bounds import variation_rows
from substrate.penalties import FORMULA, DoubleColumns, MaximalVariation, bound_by_duality
from substrate.reduced.moments import MomentsOfBlock, Origin
from substrate.streaming.passes import Tally, longest_sum, sum_blocks
from substrate.streaming.rows import BLOCK_ROWS, Block, Source
from substrate.streaming.survey import TargetSummary

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
            place=np.concatenate([self.place, other.place]),
            excess=np.concatenate([self.excess, other.excess]),
            number=np.concatenate([self.number, other.number]),
            features=np.concatenate([self.features, other.features]),
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

    Sums are weighted where rows have weights, and ``mass`` is that of all rows. ``longest`` are the largest squared
    lengths of features and ``diagonal`` the sums of k(x, x), one number per component.
    """

    combine: ClassVar[Mapping[str, Callable[[Any, Any], Any]]] = {"largest": np.maximum, "longest": np.maximum}

    mass: float
    slope: Array
    total: float
    squares: float
    targets: float
    largest: Array
    longest: Array
    diagonal: Array
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

    def __call__(self, block: Block) -> Swept:
        """Add up tile by tile."""
        swept = self._nothing()
        for rows, tile in self.values.tiles(block.X):
            light = None if block.weights is None else block.weights[rows]
            swept = swept + self._of_tile(
                tile, block.X[rows], block.Y[rows, 0] / self.unit, light, block.start + rows.start
            )
        return swept

    def _of_tile(self, tile: Array, X: Any, targets: Array, light: Array | None, first: int) -> Swept:
        d = len(self.values.slices)
        squares = np.column_stack([np.square(component.sizes(X)) for component in self.values.components])
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
            longest=np.array([np.square(tile[:, place]).sum(axis=1).max() for place in self.values.slices]),
            diagonal=squares.sum(axis=0) if light is None else light @ squares,
            above=rows.furthest(),
        )

    def _nothing(self) -> Swept:
        r, d = self.v.size, len(self.values.slices)
        none = np.zeros(0, dtype=np.int64)
        above = RowsAbove(place=none, excess=np.zeros(0), number=none, features=np.zeros((0, r)), most=self.most)
        zeros = np.zeros(d)
        return Swept(
            mass=0.0,
            slope=np.zeros(r),
            total=0.0,
            squares=0.0,
            targets=0.0,
            largest=zeros,
            longest=zeros,
            diagonal=zeros,
            above=above,
        )


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
    """All rows: their features, their source, and a summary of the targets."""

    values: ComponentFeatures
    source: Source
    targets: TargetSummary
    unit: float
    anchor: Any

    def sums(self) -> "FeatureSums":
        """Return the sums over all rows, of one pass."""
        near = self.values.matrix(self.anchor).mean(axis=0)  # subtracted before squaring
        origin = Origin(near, self.targets.means_in(self.unit), self.unit)
        function = MomentsOfBlock(self.values, origin)
        total, _ = sum_blocks(self.source, function).moments()
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
        swept: Swept = sum_blocks(self.source, sweep)
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
    """v, b and t in the units of y; certificate rows; passes, rows bounded, and whether zeros are exact.

    ``xi`` are the multipliers of the rows with these ``numbers``, one row of them per component, ``components`` their
    values along the features, and ``sums`` are the sums over all rows; in units of the targets.
    """

    v: Array
    bias: float
    maximal_variation: Array
    rows: tuple[Row, ...]
    rounds: int
    exact: bool
    numbers: tuple[int, ...]
    xi: Array
    components: Array
    sums: FeatureSums

    def accuracy(
        self, rows: VariationRows, rho: float, ridge: float, beta: Array, bias: float, share: float
    ) -> Accuracy:
        """Return the row of the answer for stored coefficients, one column per component, by a pass over the rows.

        The features are plain numbers as double precision computed them, so that the radii are of sums alone; how far
        ``predict`` is from the machine in features is added. ``share`` is what is permitted of the spread of y.
        """
        unit, sums, values = rows.unit, self.sums, rows.values
        v, remainders = values.weights(beta / unit)
        swept = rows.sweep(v, bias / unit, np.full(len(values.ranks), np.inf))
        root, length, total = math.sqrt(swept.mass), math.sqrt(swept.squares), abs(swept.total)
        # lengths of the columns of features, and how many terms a sum over all rows adds one after the other
        lengths = np.sqrt(np.maximum(np.diagonal(sums.scatter), 0.0) + swept.mass * np.square(sums.mean))
        summed = sum_rounding(4 * (values.step + BLOCK_ROWS // values.step + longest_sum(rows.source.n_rows)))
        off = summed * (float(lengths @ np.abs(v)) + math.sqrt(swept.targets) + root * abs(bias / unit))
        g = Double(swept.slope, summed * lengths * (length + total / root)) - Double(sums.mean) * swept.total
        R: Array = np.asarray(np.linalg.cholesky(sums.scatter + ridge * np.eye(v.size)).T, dtype=np.float64)
        missing = Double(R.T) @ Double(R) - sums.scatter - ridge * np.eye(v.size)
        deviation = at_most(1.0) * (missing.sizes + summed * np.outer(lengths, lengths))
        columns = DoubleColumns(Double(R), np.ones(v.size), bias=False, ridge=0.0, deviation=deviation)
        size = Double(math.sqrt(swept.squares + ridge * float(v @ v)))
        slices = values.slices
        drift = [math.sqrt(float(np.square(v[place]).sum())) for place in slices]
        largest = swept.largest + sum_rounding(2 * v.size + 8) * np.sqrt(swept.longest) * drift
        penalty = MaximalVariation([Double(component) for component in self.components], rho / unit, self.xi, largest)
        with np.errstate(over="ignore", invalid="ignore"):
            arguments = (Double(v), g - Double(v) * ridge, size, Double(off))
            bound = bound_by_duality(columns, penalty, *arguments).upper()
        for component, spread, remainder, a in zip(
            values.components, np.sqrt(swept.diagonal), remainders, beta.T, strict=True
        ):
            share_of_values = 2.0 * (component.rounding(component.points) + sum_rounding(a.size + 8))
            sizes = component.sizes(component.points)
            bound += at_most(float(spread) * float(sizes @ (remainder + share_of_values * np.abs(a / unit))))
        bound += at_most(total / root + off)
        largest_target = float(np.abs(rows.targets.extremes).max())
        numbers = (rows.source.n_rows, swept.mass, 0.0, sums.target_squares, largest_target, unit, share)
        row = Tolerance.of_sums(*numbers).row(unit * bound / root, FORMULA)
        return row if values.complete else with_cutoff(row)


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
    unit, bias = rows.unit, target_mean - float(mean @ v)
    return ReducedVariation(
        v=unit * v,
        bias=unit * bias,
        maximal_variation=unit * t,
        rows=_conditions(totals, components, v, t, solution.point.xi, swept, inside, ridge, tolerance),
        rounds=rounds,
        exact=solution.exact,
        numbers=tuple(bounded),
        xi=solution.point.xi,
        components=components,
        sums=totals,
    )


def _join_rows(bounded: dict[int, Array], swept: Swept) -> dict[int, Array]:
    """Return rows above their bounds that are not bounded yet, by number."""
    above = swept.above
    return {k: row for k, row in zip(above.number.tolist(), above.features, strict=True) if k not in bounded}


def _conditions(
    sums: FeatureSums,
    components: Array,
    v: Array,
    t: Array,
    xi: Array,
    swept: Swept,
    rho: float,
    ridge: float,
    tolerance: float,
) -> tuple[Row, ...]:
    """Return the conditions (27), with errors and bounds of all rows."""
    pull = np.tensordot(xi, components, 2)
    gradient = ridge * v - (swept.slope - sums.mean * swept.total) + pull
    size = float(np.linalg.norm(sums.correlation) + np.linalg.norm(pull) + ridge * np.linalg.norm(v))
    # where nothing is fitted, a millionth of the largest possible correlation of features and targets
    norm = math.sqrt(float(np.trace(sums.scatter)) + swept.mass * float(sums.mean @ sums.mean))
    size += 1e-6 * norm * math.sqrt(swept.targets)
    cost = 0.5 * sums.target_squares + 0.5e-6 * swept.targets
    length = math.sqrt(swept.targets / swept.mass)
    unit = max(math.sqrt(sums.target_squares / swept.mass), 1e-6 * length) or 1.0
    named = variation_rows(components @ v, t, *sides_of(xi, rho), rho, cost, unit, tolerance) if xi.shape[1] else ()
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
            value=float(np.max(swept.largest - t, initial=0.0)),
            scale=unit,
            tolerance=tolerance,
            formula="max (|f^l| - t_l)",
        ),
        Row(
            name="1'e = 0",
            value=swept.total,
            scale=math.sqrt(swept.mass * swept.targets) or 1.0,
            tolerance=tolerance,
            formula="|1'e|",
        ),
    )
