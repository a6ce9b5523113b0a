r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) Solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.closed_form.reduced_spectrum`. A
second pass over the rows computes the errors of the machine as it will predict, from beta, and with them the gradient;
where that is not down to rounding, one Newton step from the sums at hand mends it, as iterative refinement does.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.reduced_certificate import Residuals, reduced_rows
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.streaming.source import Block

__all__ = ["ReducedSolution", "ResidualsOfLeaf", "residual_pass", "solve_reduced"]

_MOST_REFINEMENTS = 3
#: Relative error of what the sums say up to which nothing is refined without need.
_KNOWN = 1e-8


@dataclass(frozen=True, slots=True)
class ReducedSolution:
    """Beta and b, a column an output, in the units of y; certificate rows; passes of refinement."""

    coefficients: Array
    bias: Array
    rows: tuple[Row, ...]
    refinements: int


@dataclass(frozen=True, slots=True)
class ResidualsOfLeaf:
    """The errors e = t - f of the rows of a leaf, in sums: with kernel values, alone, and squared."""

    values: KernelValues
    unit: float
    coefficients: Array
    bias: Array

    def __call__(self, blocks: Iterable[Block]) -> Residuals:
        """Over the micro-blocks of a leaf."""
        slope, total = np.zeros(self.coefficients.shape), np.zeros(self.bias.size)
        squares, targets, norm, count = np.zeros(self.bias.size), np.zeros(self.bias.size), 0.0, 0
        buffer = self.values.buffer()
        for block in blocks:
            count += int(block.X.shape[0])
            for rows, tile in self.values.tiles(block, buffer):
                known = block.Y[rows] / self.unit
                errors = known - (tile @ self.coefficients + self.bias)
                slope += tile.T @ errors
                total += errors.sum(axis=0)
                squares += np.square(errors).sum(axis=0)
                targets += np.square(known).sum(axis=0)
                norm += float(np.vdot(tile, tile))
        return Residuals(count, slope, total, squares, targets, norm)


def residual_pass(rows: KernelRows, unit: float, coefficients: Array, bias: Array) -> Residuals:
    """The errors of all rows, in sums."""
    function = ResidualsOfLeaf(rows.values, unit, coefficients, bias)
    sums: Residuals = rows.sums(function, "errors of all rows")
    return sums


def solve_reduced(
    rows: KernelRows, spectrum: ReducedSpectrum, lam: float, K_basis: Array, most: int = _MOST_REFINEMENTS
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of the targets, refine while it helps, and certify.

    :equation [Cawley2002]_ (beta): the system in beta and b, errors of all rows
    :equation [Cawley2004]_ (3), (A.3): the normal equations of the sparse LS-SVM, solved in eigen-features
    """
    features, unit = spectrum.features, spectrum.origin.unit
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    # where sums know the machine to fewer digits than its rows do, it is refined although every check passes
    least = min(2, most) if spectrum.decomposition_error(lam) > _KNOWN else 0
    while True:
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, unit, beta, bias)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, bias, lam)
        passes = all(row.passes for output in checks for row in output)
        if refinements >= (least if passes else most):
            return ReducedSolution(unit * beta, unit * bias, worst_rows(checks), refinements)
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, residuals.total, lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1
