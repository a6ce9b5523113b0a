r"""The LS-SVM on a reduced basis, from sums over its rows.

.. math::

    \min_{\beta, b} \; \tfrac12 \beta^T K_{SS} \beta
        + \tfrac{\gamma}{2} \sum_{i=1}^l \Big( t_i - \sum_{j \in S} \beta_j k(x_i, z_j) - b \Big)^2

([Cawley2004]_ eq. (2)-(3), [Cawley2002]_ section 2, with our gamma.) Solved in the eigen-features of
:math:`K_{SS}`, where it is ridge regression with a free bias, by :mod:`~substrate.closed_form.reduced_spectrum`. A
second pass over the rows computes the errors of the machine as it will predict, from beta, and with them the gradient;
where that is not down to rounding, one Newton step from the sums at hand mends it, as iterative refinement does.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.closed_form.kernel_rows import KernelRows
from substrate.closed_form.reduced_certificate import Residuals, reduced_rows
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.closed_form.saddle_certificate import worst_rows
from substrate.namespaces import namespace_of, own_copy
from substrate.threads import blas_threads

__all__ = [
    "LeverageFactor",
    "ReducedSolution",
    "leave_rows_out_once",
    "leverage_factor",
    "residual_pass",
    "solve_reduced",
]

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
class LeverageFactor:
    """R and r with :math:`h(x) = 1/l + \\|R k_S(x) - r\\|^2`; R is upper triangular where the rank is full."""

    matrix: Array
    offset: Array
    n: int

    def leverages(self, block: Array) -> Array:
        """h of rows of kernel values; the block is overwritten where that saves a copy."""
        from scipy.linalg.blas import dtrmm

        if self.matrix.shape[0] == self.matrix.shape[1] and self.offset.size:
            product = dtrmm(1.0, self.matrix.T, block.T, lower=1, trans_a=1, overwrite_b=1).T
        else:
            product = block @ self.matrix.T
        product -= self.offset
        return np.asarray(1.0 / self.n + np.einsum("ij,ij->i", product, product))


def residual_pass(rows: KernelRows, Y: Array, unit: float, coefficients: Array, bias: Array) -> Residuals:
    """The errors e = t - f of all rows, in sums: with kernel values, alone, and squared."""
    slope, total = np.zeros(coefficients.shape), np.zeros(bias.size)
    squares, targets, norm = np.zeros(bias.size), np.zeros(bias.size), 0.0
    with blas_threads(rows.n_basis):
        for where, block in rows.blocks():
            known = Y[where] / unit
            errors = known - (block @ coefficients + bias)
            slope += block.T @ errors
            total += errors.sum(axis=0)
            squares += np.square(errors).sum(axis=0)
            targets += np.square(known).sum(axis=0)
            norm += float(np.vdot(block, block))
    return Residuals(rows.n_rows, slope, total, squares, targets, float(np.sqrt(norm)))


def solve_reduced(
    rows: KernelRows, Y: Array, spectrum: ReducedSpectrum, lam: float, K_basis: Array, most: int = _MOST_REFINEMENTS
) -> ReducedSolution:
    """Solve at one lambda = 1/gamma for every column of Y, refine while it helps, and certify."""
    features, unit = spectrum.features, spectrum.origin.unit
    weights = spectrum.weights(lam)
    bias, refinements = spectrum.bias(weights), 0
    # where sums know the machine to fewer digits than its rows do, it is refined although every check passes
    least = min(2, most) if spectrum.decomposition_error(lam) > _KNOWN else 0
    while True:
        beta = features.coefficients(weights)
        residuals = residual_pass(rows, Y, unit, beta, bias)
        checks = reduced_rows(residuals, features, K_basis, beta, weights, bias, lam)
        passes = all(row.passes for output in checks for row in output)
        if refinements >= (least if passes else most):
            return ReducedSolution(unit * beta, unit * bias, worst_rows(checks), refinements)
        slope = features.transform.T @ residuals.slope - lam * weights
        change, shift = spectrum.correction(slope, residuals.total, lam)
        weights, bias, refinements = weights + change, bias + shift, refinements + 1


def leverage_factor(spectrum: ReducedSpectrum, lam: float) -> LeverageFactor:
    """The factor of the leverages at one lambda; a QR factorisation halves the work of every row to come."""
    xp = namespace_of(spectrum.values)
    scale = 1.0 / xp.sqrt(spectrum.values + lam)
    W = (spectrum.directions * scale).T
    offset = scale * (spectrum.rotation.T @ spectrum.full_mean)
    with blas_threads(W.shape[1]):
        Q, R = xp.linalg.qr(W)
    return LeverageFactor(own_copy(R), Q.T @ offset, spectrum.n)


def leave_rows_out_once(
    rows: KernelRows, Y: Array, coefficients: Array, bias: Array, factor: LeverageFactor
) -> tuple[Array, Array, Array]:
    """Fitted values, leverages, and residuals e_i/(1 - h_ii), in one pass over the rows."""
    fitted, leverages = np.empty(Y.shape), np.empty(rows.n_rows)
    with blas_threads(rows.n_basis):
        for where, block in rows.blocks():
            fitted[where] = block @ coefficients + bias
            leverages[where] = factor.leverages(block)
    residuals = (Y - fitted) / (1.0 - leverages)[:, None]
    return fitted, leverages, residuals
