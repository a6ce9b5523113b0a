r"""The error of a stack of machines at rows that neither its machines nor its weights have seen, without a refit.

Weights u that minimise the left-out errors of the rows have seen the row whose error they combine, and the mean square
of that combination is too small. With the lower block B of the inverse of the bordered matrix, the left-out residual of
row j in the machine without row i is exact too, for a kernel and a gamma that are held,

.. math:: r_j^{(-i)} = \frac{\alpha_j - B_{ji} \alpha_i / B_{ii}}{B_{jj} - B_{ij}^2 / B_{ii}} .

So the weights :math:`u^{(-i)}` of all rows but i follow from one small problem
(:mod:`substrate.least_squares.simplex_weights`) per row, and :math:`\sum_m u^{(-i)}_m r_{im}` is the error of the whole
stack, weights included, at row i. The entries of B are those of the inverse that a kernel machine has
(:mod:`~substrate.uncertainty.influence`); of others they follow from the influence at the rows themselves,
:math:`B_{ji} = -c_j(x_i) / D_{ii}` for :math:`j \ne i`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.log_loss_weights import left_out_probabilities, weigh_by_log_loss
from substrate.least_squares.simplex_weights import weigh_by_products
from substrate.namespaces import to_numpy
from substrate.uncertainty.influence import KernelInfluence, LeftOutMachines

__all__ = ["nested_log_loss_weights", "nested_stack_weights", "pair_residuals"]

#: Share of B_jj below which what is left of it without row i is rounding: row j is then determined by row i alone.
_LOST = 1e-11
#: Numbers that are worked on at a time, by which rows are gone through in blocks.
_HELD = 2**22


def pair_residuals(outputs: Sequence[LeftOutMachines], X: Any, diagonal: Array, rows: Any) -> Array:
    """Return the residual of every row without itself and one of ``rows``: a line for each of these, then one for every
    row, and a column for each output.

    X are the rows of the fit and ``diagonal`` their k(x, x). NaN for the row itself, and where row i alone determines
    what is left of row j. Outputs of one gamma share their influence.
    """
    lines: dict[int, Array] = {}
    for machines in outputs:
        if id(machines.influence) not in lines:
            lines[id(machines.influence)] = _lines(machines, X, diagonal, rows)
    return np.stack([_pairs(machines, lines[id(machines.influence)], rows) for machines in outputs], axis=2)


def _lines(machines: LeftOutMachines, X: Any, diagonal: Array, rows: Any) -> Array:
    """Return the lines of B of some rows, but for the entries of these rows themselves: of the inverse where there is
    one, otherwise from the influence at the rows.
    """
    influence = machines.influence
    lines = influence.lines(rows) if isinstance(influence, KernelInfluence) else None
    if lines is not None:
        return lines
    if machines.ridge is None:
        raise TypeError("pairs of rows need the diagonal of the system")
    changes = to_numpy(influence.at(influence.represent(X[rows, :]), diagonal[rows])[0])
    return np.asarray(-changes / to_numpy(machines.ridge)[rows][:, None])


def _pairs(machines: LeftOutMachines, below: Array, rows: Any) -> Array:
    alpha, B = to_numpy(machines.support_values), to_numpy(machines.diagonal)
    share = below / B[rows][:, None]
    left = B[None, :] - below * share
    is_known = left > _LOST * B[None, :]
    is_known[np.arange(len(rows)), rows] = False
    residuals = (alpha[None, :] - share * alpha[rows][:, None]) / np.where(is_known, left, 1.0)
    return np.asarray(np.where(is_known, residuals, np.nan))


def nested_stack_weights(left_out: Array, pairs: Array, weights: Array, pooled: bool = False) -> Array:
    r"""Return :math:`u^{(-i)}`, the weights of machines that have not seen row i, for each row of ``pairs``: a line for
    every output, and a column for each machine.

    ``pairs`` are those of :func:`pair_residuals`, machines in the last axis, ``weights`` those of the rows, and
    ``left_out`` the left-out residuals of all rows, by output and machine, which give the unit. Where ``pooled``, all
    outputs have the same weights of machines. There have to be three rows: of two, none is left when both are out.
    """
    n, n_outputs, M = left_out.shape
    if n < 3:
        raise DataError(f"the error of a stack needs three rows, of which two are left out; received {n}")
    sizes = np.abs(left_out).max(axis=(0, 2))
    sizes = np.where(sizes > 0.0, sizes, 1.0) if not pooled else np.full(n_outputs, float(sizes.max()) or 1.0)
    u, step = np.empty((pairs.shape[0], n_outputs, M)), max(1, _HELD // (n * M * n_outputs))
    for first in range(0, pairs.shape[0], step):
        some = pairs[first : first + step]
        is_known = np.asarray(np.isfinite(some).all(axis=3))[..., None]
        scaled = np.where(is_known, some, 0.0) / sizes[None, None, :, None]
        scaled *= np.sqrt(weights / weights.max())[None, :, None, None]
        products = np.einsum("ijkm,ijkl->ikml", scaled, scaled, optimize=True)
        if pooled:
            u[first : first + step] = weigh_by_products(products.sum(axis=1))[:, None, :]
        else:
            joined = weigh_by_products(np.reshape(products, (-1, M, M)))
            u[first : first + step] = np.reshape(joined, (some.shape[0], n_outputs, M))
    return u


def nested_log_loss_weights(pairs: Array, codes: Array, weights: Array, u: Array) -> Array:
    """Return the weights of :func:`nested_stack_weights` by the log-loss of all codes together.

    ``codes`` are -1 and 1, one column per output, and ``u`` the weights that have seen all rows, to start from.
    """
    _, n, n_outputs, M = pairs.shape
    if n < 3:
        raise DataError(f"the error of a stack needs three rows, of which two are left out; received {n}")
    nested = np.empty((pairs.shape[0], n_outputs, M))
    for number, residuals in enumerate(pairs):
        is_known = np.isfinite(residuals).all(axis=(1, 2))
        probabilities = left_out_probabilities(residuals[is_known], codes[is_known])
        counted = np.repeat(weights[is_known], n_outputs)
        nested[number] = u if not is_known.any() else weigh_by_log_loss(np.reshape(probabilities, (-1, M)), counted, u)
    return nested
