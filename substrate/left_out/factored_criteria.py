r"""Criteria of model selection at one kernel and one gamma, with slopes in the kernel values, by a Cholesky factor.

A search that moves a kernel and its gamma together needs no criterion at any other gamma, and so no spectrum: with
weights v of the rows, of mean one, and the diagonal :math:`D = \lambda V^{-1}`,

.. math:: A = K + D, \qquad \eta = A^{-1} 1, \qquad B = A^{-1} - \frac{\eta \eta^T}{1^T \eta}, \qquad \alpha = B y,

is :math:`N^3` operations where a decomposition takes about ten times as many. All values follow:

- leave-one-out :math:`\frac1N \sum_i v_i r_i^2`, :math:`r_i = \alpha_i / B_{ii}`, or with blocks of rows in the place
  of single ones, :math:`r_S = B_{SS}^{-1} \alpha_S`;
- generalised cross-validation :math:`N \alpha^T V^{-1} \alpha / (\operatorname{tr} B)^2`;
- the evidence :math:`F = \frac{y^T \alpha}{N - 1} \big( \det(V A)\, 1^T \eta / \sum_i v_i \big)^{1/(N-1)}`.

A change of K gives :math:`dB = -B\, dK\, B` and :math:`d\alpha = -B\, dK\, \alpha`. So, sym the symmetric part and
:math:`:` the sum of the products of all entries, :math:`dF = W : dK` is

.. math:: dF = p^T d\alpha - M : dB + c\, d \log \det A, \qquad
          W = B M B + c B - \operatorname{sym}(B p\, \alpha^T) ,

- leave-one-out: :math:`p_i = \frac2N v_i r_i / B_{ii}`, :math:`M = \operatorname{diag}(p_i r_i)`;
- blocks: :math:`p = \sum_S q_S` with :math:`q_S = \frac2N B_{SS}^{-1} (V r)_C`, r at the rows C of S that count and
  zero at the others, and :math:`M = \sum_S \operatorname{sym}(q_S r_S^T)`;
- generalised cross-validation: :math:`p = 2 F V^{-1} \alpha / \alpha^T V^{-1} \alpha` and
  :math:`M = 2 F I / \operatorname{tr} B`;
- the evidence: :math:`p = F y / Q` and :math:`c = F / (N - 1)`, [Rasmussen2006]_ eq. (5.9) with the variance of the
  noise eliminated.

All derivatives in the parameters of a kernel follow from W by sums
(``Kernel.scale_gradient``), and :math:`\partial F / \partial \lambda = \operatorname{tr} V^{-1} W`. Nothing here is
bounded: these values guide a search, and what it ends with is judged by a spectrum
(:mod:`~substrate.select.gamma_search`).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from substrate.arrays import Array, row_blocks
from substrate.left_out.leave_one_out import LeftOutBlocks

__all__ = ["FactoredCriterion"]


@dataclass(frozen=True, slots=True)
class FactoredCriterion:
    """A criterion of rows and targets, as a function of their kernel matrix and lambda.

    ``kind`` is "loo", "blocks", "gcv" or "evidence", and ``blocks`` has the blocks of "blocks". ``Y``, one column per
    output, is centred by the ``weights`` of the rows, of mean one.
    """

    kind: str
    Y: Array
    weights: Array
    blocks: LeftOutBlocks | None = None

    @classmethod
    def of(cls, kind: str, Y: Array, weights: Array, blocks: LeftOutBlocks | None = None) -> Self:
        """Build the criterion from targets in their unit, one column per output."""
        shares = weights / weights.sum()
        mean = np.clip(shares @ Y, Y.min(axis=0), Y.max(axis=0))  # exact where y is constant
        return cls(kind, (Y - mean) - shares @ (Y - mean), weights, blocks)

    def value_and_slope(self, K: Array, lam: float) -> tuple[float, Array] | None:
        """Return the criterion of a kernel matrix, overwritten, at one lambda, and its symmetric slope in the matrix.

        None if the matrix is not positive definite.
        """
        from scipy.linalg.lapack import dpotrf, dpotri

        n = K.shape[0]
        K.flat[:: n + 1] += lam / self.weights
        factor, info = dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            return None
        log_volume = 2.0 * float(np.log(factor.diagonal()).sum())
        inverse, _ = dpotri(factor, lower=0, overwrite_c=1)
        B = np.asarray(inverse.T)  # the lower triangle in numpy's order
        mirror_lower(B)
        eta = B.sum(axis=1)
        total = float(eta.sum())
        B -= np.outer(eta / total, eta)
        log_volume += float(np.log(self.weights).sum()) + float(np.log(total / self.weights.sum()))
        alpha = B @ self.Y
        value, pulls, spread, volume = self._response(B, alpha, log_volume / (n - 1))
        slope = -_symmetric_product(B @ pulls, alpha)
        if spread is not None and spread.ndim == 2:
            slope += B @ (spread @ B)
        elif spread is not None:
            half = B * np.sqrt(spread)
            slope += half @ half.T
        if volume != 0.0:
            slope += volume * B
        return value, slope

    def _response(self, B: Array, alpha: Array, mean_log: float) -> tuple[float, Array, Array | None, float]:
        """Return the criterion, p, M, by its diagonal where it has no other entries (None: M is zero), and c."""
        (n, outputs), v = self.Y.shape, self.weights[:, None]
        factor, diagonal = 2.0 / (n * outputs), B.diagonal()
        if self.kind == "evidence":
            factor = float(np.exp(mean_log)) / ((n - 1) * outputs)
            value = factor * float(np.vdot(self.Y, alpha))
            return value, factor * self.Y, None, value / (n - 1)
        if self.kind == "gcv":
            trace, squares = float(diagonal.sum()), float((np.square(alpha) / v).sum())
            factor = 2.0 * n / trace**2 / outputs
            return 0.5 * factor * squares, factor * alpha / v, np.full(n, factor * squares / trace), 0.0
        if self.blocks is None:
            residuals = alpha / diagonal[:, None]
            pulls = factor * v * residuals / diagonal[:, None]
            return 0.5 * factor * float((v * np.square(residuals)).sum()), pulls, (residuals * pulls).sum(axis=1), 0.0
        squares, pulls, spread = 0.0, np.zeros_like(alpha), np.zeros_like(B)
        for block, counted in zip(self.blocks.rows, self.blocks.counted, strict=True):
            place = np.ix_(block, block)
            inverse = np.linalg.inv(B[place])
            residuals = inverse @ alpha[block]
            weighted = v[block[counted]] * residuals[counted]
            squares += float(np.vdot(weighted, residuals[counted]))
            pull = factor * (inverse[:, counted] @ weighted)
            pulls[block] += pull
            spread[place] += _symmetric_product(pull, residuals)
        return 0.5 * factor * squares, pulls, spread, 0.0


def _symmetric_product(left: Array, right: Array) -> Array:
    """Return the symmetric part of A B', by one product and no transposition."""
    return np.asarray(np.hstack([left, right]) @ np.hstack([0.5 * right, 0.5 * left]).T)


def mirror_lower(K: Array) -> None:
    """Copy the lower triangle of K onto its upper one, block by block."""
    n = K.shape[0]
    for rows in row_blocks(n, n):
        K[rows, rows.stop :] = K[rows.stop :, rows].T
        square = K[rows, rows]
        K[rows, rows] = np.tril(square) + np.tril(square, k=-1).T
