r"""Robust reweighting on a reduced basis, in passes over the rows.

The weights of robust reweighting are not stored, since any pass can recompute them:

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2,
    \qquad v_i = v(e_i^0 / \hat s)

([Suykens2002]_ eq. (10), (14)-(15) and Algorithm 1 with the expansion of [Cawley2004]_ eq. (2).) The errors :math:`e^0`
of the previous fit are a function of a row and of that fit's :math:`\beta^0, b^0`, and so are the weights: a round
consists of passes for the scale (:mod:`substrate.streaming.survey`, exact), one for the weighted sums, and one that
checks the weighted normal equations on all rows.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.robust_weights import quantile_ranks, robust_scale, robust_weights, scale_from
from substrate.reduced.rows import BasisValues, KernelRows
from substrate.reduced.solution import ReducedSolution
from substrate.streaming.source import Block
from substrate.streaming.survey import order_statistics

__all__ = ["ErrorsOfRows", "Reweighted", "WeightsOfRows", "iterate_weights", "scale_of_errors"]


@dataclass(frozen=True, slots=True)
class ErrorsOfRows:
    """t - f in units of the targets for the rows of a micro-block; with a centre, the distances from it."""

    values: BasisValues
    unit: float
    coefficients: Array
    bias: float
    centre: float | None = None

    def __call__(self, block: Block) -> Array:
        """Return one error per row."""
        errors: Array = block.Y[:, 0] / self.unit - (self.values.product(block.X, self.coefficients) + self.bias)
        return errors if self.centre is None else np.abs(errors - self.centre)


@dataclass(frozen=True, slots=True)
class WeightsOfRows:
    """v from the errors of an earlier fit, whose beta, b and scale are in units of the targets."""

    coefficients: Array
    bias: float
    scale: float
    weighting: str

    def __call__(self, tile: Array, targets: Array) -> Array:
        """Return weights of rows with these kernel values."""
        return robust_weights(targets[:, 0] - (tile @ self.coefficients + self.bias), self.scale, self.weighting)


@dataclass(frozen=True, slots=True)
class Reweighted:
    """One fit of the sequence in the units of y: its solution, its weights (None: all one), and the change of w.

    ``scale`` is the robust scale of the weights (0 for the first fit); ``mass`` is their sum.
    """

    solution: ReducedSolution
    weights: WeightsOfRows | None
    scale: float
    mass: float
    change: float


def scale_of_errors(rows: KernelRows, unit: float, coefficients: Array, bias: float, scale: str) -> float:
    """Return the exact robust scale of the errors of all rows, by counting passes; in units of the targets.

    Where rows have weights, of which one number per row is in memory already, so are the errors: quantiles are then
    those of the weights, in which a row of weight 2 counts as two rows.
    """
    if rows.weights is not None:
        blocks = list(rows.each(ErrorsOfRows(rows.values, unit, coefficients, bias), "scale of the errors"))
        return robust_scale(np.concatenate(blocks), scale, rows.weights)
    largest = 0.0

    def quantiles(levels: tuple[float, ...], centre: float | None) -> list[float]:
        nonlocal largest
        values = ErrorsOfRows(values=rows.values, unit=unit, coefficients=coefficients, bias=bias, centre=centre)
        ends = [quantile_ranks(level, rows.n_rows) for level in levels]
        wanted = [rank for pair in ends for rank in pair]
        statistics, size = order_statistics(lambda f: rows.sums(f, "scale of the errors"), values, rows.n_rows, wanted)
        largest = size if centre is None else largest
        return [0.5 * statistics[first] + 0.5 * statistics[last] for first, last in ends]

    return scale_from(quantiles, lambda: largest, scale)


#: Solves with the given weights (None: all one); returns the solution, in the units of y, and the sum of the weights.
Solve = Callable[[WeightsOfRows | None], tuple[ReducedSolution, float]]


def iterate_weights(
    rows: KernelRows, K_basis: Array, unit: float, solve: Solve, weighting: str, scale: str, most: int, tolerance: float
) -> Iterable[Reweighted]:
    """Yield the plain fit and up to ``most`` weighted ones, until w changes by at most ``tolerance`` of its norm."""
    solution, mass = solve(None)
    last = Reweighted(solution=solution, weights=None, scale=0.0, mass=mass, change=np.inf)
    yield last
    for _ in range(most):
        beta, bias = last.solution.coefficients[:, 0] / unit, float(last.solution.bias[0]) / unit
        spread = scale_of_errors(rows, unit, beta, bias, scale)
        weights = WeightsOfRows(beta, bias, spread, weighting)
        solution, mass = solve(weights)
        after = solution.coefficients[:, 0] / unit
        size = _norm(K_basis, after)
        change = _norm(K_basis, after - beta) / size if size > 0.0 else 0.0
        last = Reweighted(solution=solution, weights=weights, scale=unit * spread, mass=mass, change=change)
        yield last
        if last.change <= tolerance:
            return


def _norm(K_basis: Array, beta: Array) -> float:
    """Return the norm of w."""
    return math.sqrt(max(float(beta @ K_basis @ beta), 0.0))
