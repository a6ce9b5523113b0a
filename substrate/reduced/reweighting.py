r"""Robust reweighting on a reduced basis, in passes over the rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l v_i \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2,
    \qquad v_i = v(e_i^0 / \hat s)

([Suykens2002]_ eq. (10), (14)-(15) and Algorithm 1 with the expansion of [Cawley2004]_ eq. (2).) The errors :math:`e^0`
of the previous fit are one number per row, as weights are, and in memory; the rows need not be.
"""

from dataclasses import replace

import numpy as np

from substrate.arrays import Array
from substrate.namespaces import to_numpy
from substrate.reduced.left_out import outputs_of_block
from substrate.reduced.rows import KernelRows, KernelValues
from substrate.streaming.rows import ArraySource, Block, ReadSource

__all__ = ["errors_of_rows", "reweigh"]


def errors_of_rows(rows: KernelRows, beta: Array, bias: float) -> Array:
    """Return the error of every row, in one pass."""
    return np.concatenate(list(rows.each(_errors_of_block, beta[:, None], np.array([bias]))))


def _errors_of_block(values: KernelValues, beta: Array, bias: Array, block: Block) -> Array:
    return np.asarray((block.Y - outputs_of_block(values, beta, bias, block))[:, 0])


def reweigh(rows: KernelRows, weights: Array) -> KernelRows:
    """Return the rows with these weights multiplied into those given."""
    given = np.ones(rows.n_rows) if rows.weights is None else to_numpy(rows.weights)
    source = rows.source
    if not isinstance(source, (ArraySource, ReadSource)):
        raise TypeError(f"rows of a {type(source).__name__} have no weights of their own")
    return replace(rows, source=replace(source, weights=source.beside(given * weights)))
