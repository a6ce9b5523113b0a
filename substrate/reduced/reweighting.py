r"""Robust reweighting on a reduced basis, in passes over the rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2,
    \qquad v_i = v(e_i^0 / \hat s)

([Suykens2002]_ eq. (10), (14)-(15) and Algorithm 1 with the expansion of [Cawley2004]_ eq. (2).) The errors :math:`e^0`
of the previous fit are one number per row, as weights are, and in memory; the rows need not be.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.robust_weights import robust_scale, robust_weights
from substrate.namespaces import to_numpy
from substrate.reduced.left_out import OutputsOfBlock
from substrate.reduced.rows import KernelRows
from substrate.reduced.solution import ReducedSolution
from substrate.streaming.rows import ArraySource, Block, ReadSource

__all__ = ["Reweighted", "errors_of_rows", "iterate_weights", "reweigh"]


@dataclass(frozen=True, slots=True)
class _ErrorsOfBlock:
    outputs: OutputsOfBlock

    def __call__(self, block: Block) -> Array:
        return np.asarray(block.Y[:, 0] - self.outputs(block)[:, 0])


def errors_of_rows(rows: KernelRows, beta: Array, bias: float) -> Array:
    """Return the error of every row, in one pass."""
    outputs = OutputsOfBlock(rows.values, beta[:, None], np.array([bias]))
    return np.concatenate(list(rows.each(_ErrorsOfBlock(outputs))))


def reweigh(rows: KernelRows, weights: Array) -> KernelRows:
    """Return the rows with these weights multiplied into those given."""
    given = np.ones(rows.n_rows) if rows.weights is None else to_numpy(rows.weights)
    source = rows.source
    if not isinstance(source, (ArraySource, ReadSource)):
        raise TypeError(f"rows of a {type(source).__name__} have no weights of their own")
    return replace(rows, source=replace(source, weights=source.beside(given * weights)))


@dataclass(frozen=True, slots=True)
class Reweighted:
    """One fit of the sequence in the units of y: its solution, the change of w, and the sum of its weights.

    ``weights`` are the robust ones alone, all ones in the first fit, and ``scale`` is the robust scale that they were
    computed from (0 for the first fit).
    """

    solution: ReducedSolution
    weights: Array
    scale: float
    mass: float
    change: float


#: Solves on rows with some weights.
Solve = Callable[[KernelRows], ReducedSolution]


def iterate_weights(
    rows: KernelRows, K_basis: Array, solve: Solve, weighting: str, scale: str, most: int, tolerance: float
) -> Iterator[Reweighted]:
    """Yield the plain fit and up to ``most`` weighted ones, until w changes by at most ``tolerance`` of its norm."""
    given = np.ones(rows.n_rows) if rows.weights is None else to_numpy(rows.weights)
    ones = np.ones(rows.n_rows)
    last = Reweighted(solve(rows), ones, 0.0, float(given.sum()), math.inf)
    yield last
    for _ in range(most):
        before = last.solution.coefficients[:, 0]
        errors = errors_of_rows(rows, before, float(last.solution.bias[0]))
        spread = robust_scale(errors, scale, None if rows.weights is None else given)
        weights = robust_weights(errors, spread, weighting)
        solution = solve(reweigh(rows, weights))
        after = solution.coefficients[:, 0]
        size = _norm(K_basis, after)
        change = _norm(K_basis, after - before) / size if size > 0.0 else 0.0
        last = Reweighted(solution, weights, spread, float(given @ weights), change)
        yield last
        if last.change <= tolerance:
            return


def _norm(K_basis: Array, beta: Array) -> float:
    """Return the norm of w."""
    return math.sqrt(max(float(beta @ K_basis @ beta), 0.0))
