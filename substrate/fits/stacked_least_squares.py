r"""Least squares on stacked rows of kernel values, with a free bias and coefficients that sum to zero.

.. math:: \min_{a, b} \; \|t - \Phi a - b 1\|^2 \quad \text{s.t.} \quad 1^T a = 0

[Pelckmans2005]_ eq. (22). With P the centring projections of rows and coefficients, :math:`P \Phi P = Q \Sigma V^T`
gives orthonormal coordinates :math:`z = \Sigma V^T a` of the values, orthogonal to the constant of the bias;
directions below the cut-off are left out, and :math:`a = V \Sigma^{-1} z` is the shortest vector of
coefficients with those values. The solution is then a projection: :math:`z = Q^T t`.

A Householder reflection takes the direction 1 to the first axis. Sums to zero and free constants both mean "orthogonal
to 1". After the reflection, that is exactly "without the first entry"; a projection :math:`I - 11^T/N` instead leaves
rounding errors that a division by small singular values then magnifies.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array, blas_threads, positive
from substrate.certificate import Accuracy, Row, Tolerance, roundoff
from substrate.ingredients import zero_sum_row
from substrate.numbers import ROUNDED_ONCE, at_most, relative_rounding

__all__ = ["CUTOFF", "StackedBasis", "off_ones", "reflect", "solve_stacked", "stacked_accuracy", "stacked_rows"]


def reflect(V: Array) -> Array:
    """Apply the reflection, its own inverse, to the columns of V."""
    n = V.shape[0]
    v = np.full(n, 1.0 / np.sqrt(n))
    v[0] -= 1.0
    length = float(np.linalg.norm(v))
    if length == 0.0:  # one row: 1 is the first axis already
        return V.copy()
    v /= length
    return V - np.outer(2.0 * v, v @ V)


def off_ones(V: Array) -> Array:
    """Return columns of n entries that sum to zero, from their n - 1 reflected coordinates."""
    return reflect(np.vstack([np.zeros((1, V.shape[1])), V]))


#: Relative size of the directions left out.
CUTOFF = 1e-10


@dataclass(frozen=True, slots=True)
class StackedBasis:
    """Q, the orthonormal coordinates of the values; ``coefficients`` takes them back to a."""

    values: Array
    coefficients: Array
    mean: Array

    @property
    def rank(self) -> int:
        """The number of directions kept; at least one, which may be zero."""
        return int(self.values.shape[1])

    @classmethod
    def of(cls, Phi: Array, cutoff: float) -> "StackedBasis":
        """Decompose the centred rows."""
        relative, mean = positive(cutoff, "cutoff"), Phi.mean(axis=0)
        inner = reflect(reflect(Phi).T)[1:, 1:].T  # orthogonal to the constant on both sides
        noise = roundoff(max(Phi.shape), factor=1.0) * float(np.linalg.norm(Phi))
        if inner.size == 0 or float(np.linalg.norm(inner)) <= noise:
            return cls(np.zeros((Phi.shape[0], 1)), np.zeros((Phi.shape[1], 1)), mean)
        with blas_threads(Phi.shape[1]):
            Q, s, Vt = np.linalg.svd(inner, full_matrices=False)
        keep = s > max(relative * s[0], noise)
        keep[0] = True
        return cls(off_ones(Q[:, keep]), off_ones(Vt[keep].T / s[keep]), mean)


def solve_stacked(Phi: Array, t: Array, cutoff: float = CUTOFF) -> tuple[Array, float, Array]:
    """Return coefficients, bias and the errors of all rows: the projection onto the kept values and the constant.

    :equation [Pelckmans2005]_ (22): the same with e, c and the validation errors eliminated
    """
    basis = StackedBasis.of(Phi, cutoff)
    # a mean of equal numbers may have a rounding error
    centred = t - t.mean() if np.ptp(t) > 0.0 else np.zeros(t.size)
    z = basis.values.T @ centred
    a = basis.coefficients @ z
    return a, float(t.mean() - basis.mean @ a), centred - basis.values @ z


def stacked_rows(basis: StackedBasis, t: Array, e: Array, tolerance: float) -> tuple[Row, ...]:
    """Check that the errors are orthogonal to the constant and to every direction of values: optimality of least
    squares.
    """
    scale = float(np.linalg.norm(t))
    return (
        zero_sum_row(e, tolerance, t, of="e"),
        Row(
            name="errors orthogonal to f",
            value=float(np.linalg.norm(basis.values.T @ e)),
            scale=scale,
            tolerance=tolerance,
            formula="||Q'e||",
        ),
    )


def stacked_accuracy(F: Array, y: Array, fitted: Array, tolerance: Tolerance) -> Accuracy:
    """Return the accuracy for ||y - F z - b 1||^2, with columns F orthonormal off the direction 1, or nearly so."""
    offset = float(y.mean())
    Q, _ = np.linalg.qr(F - F.mean(axis=0))
    centred_targets = y - offset
    exact = offset + Q @ (Q.T @ centred_targets)
    rounding = relative_rounding(8.0 * F.shape[0]) * float(np.linalg.norm(centred_targets)) + ROUNDED_ONCE * float(
        np.linalg.norm(y)
    )
    formula = "||f - projection of y|| + rounding"
    norm = float(np.linalg.norm(fitted - exact)) + rounding
    return tolerance.row(at_most(norm) / math.sqrt(y.size), formula)
