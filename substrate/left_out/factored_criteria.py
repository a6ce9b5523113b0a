r"""Criteria of model selection at one kernel and one gamma, with slopes in the kernel values, by a Cholesky factor.

A search that moves a kernel and its gamma together needs no criterion at any other gamma, and so no spectrum: with P
the projection off 1,

.. math:: A = P K P + \mu\, \tfrac1N 1 1^T + \lambda I, \qquad
          B = (P K P + \lambda P)^+ = A^{-1} - \tfrac{1}{N (\mu + \lambda)} 1 1^T, \qquad \alpha = B y,

is :math:`N^3` operations where a decomposition takes about ten times as many. :math:`\mu`, the mean eigenvalue of
:math:`P K P`, keeps the constant direction among the others, so that it costs no digits. All values follow:

- leave-one-out :math:`\frac1N \sum_i r_i^2`, :math:`r_i = \alpha_i / B_{ii}`, or with blocks of rows in the place of
  single ones, :math:`r_S = B_{SS}^{-1} \alpha_S`;
- generalised cross-validation :math:`N \|\alpha\|^2 / (\operatorname{tr} V B)^2`;
- the evidence :math:`F = \frac{y^T \alpha}{N - 1} \big( \det A / (\mu + \lambda) \big)^{1/(N-1)}`.

A change of K gives :math:`dB = -B\, dK\, B` and :math:`d\alpha = -B\, dK\, \alpha`. So, sym the symmetric part and
:math:`:` the sum of the products of all entries, :math:`dF = W : dK` is

.. math:: dF = p^T d\alpha - M : dB + c\, d \log \det (K + \lambda), \qquad
          W = B M B + c B - \operatorname{sym}(B p\, \alpha^T) ,

- leave-one-out: :math:`p_i = \frac2N r_i / B_{ii}`, :math:`M = \operatorname{diag}(p_i r_i)`;
- blocks: :math:`p = \sum_S q_S` with :math:`q_S = \frac2N B_{SS}^{-1} r_C`, r at the rows C of S that count and zero at
  the others, and :math:`M = \sum_S \operatorname{sym}(q_S r_S^T)`;
- generalised cross-validation: :math:`p = 2 F \alpha / \|\alpha\|^2` and :math:`M = 2 F V / \operatorname{tr} V B` with
  V the weights of the rows, of mean one;
- the evidence: :math:`p = F y / Q` and :math:`c = F / (N - 1)`, [Rasmussen2006]_ eq. (5.9) with the variance of the
  noise eliminated.

With weights of the rows it is :math:`V^{1/2} K V^{1/2}`, and :math:`V^{1/2} 1` in place of 1, as in
:mod:`~substrate.operators.spectrum`. All derivatives in the parameters of a kernel follow from W by sums
(``Kernel.scale_gradient``), and :math:`\partial F / \partial \lambda = \operatorname{tr} V^{-1} W`. Nothing here is
bounded: these values guide a search, and what it ends with is judged by a spectrum
(:mod:`~substrate.select.gamma_search`).
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from substrate.arrays import Array, row_blocks
from substrate.left_out.leave_one_out import LeftOutBlocks

__all__ = ["FactoredCriterion"]


class ValueAndSlope(NamedTuple):
    """F, and the symmetric dF/dK."""

    value: float
    slope: Array


@dataclass(frozen=True, slots=True)
class FactoredCriterion:
    """A criterion of rows and targets, as a function of their kernel matrix and lambda.

    ``kind`` is "loo", "blocks", "gcv" or "evidence", and ``blocks`` has the blocks of "blocks". ``Y``, one column per
    output, is centred and multiplied by ``root``, the roots of the weights of the rows; None: equal weights.
    """

    kind: str
    Y: Array
    root: Array | None = None
    blocks: LeftOutBlocks | None = None

    @classmethod
    def of(cls, kind: str, Y: Array, weights: Array | None = None, blocks: LeftOutBlocks | None = None) -> Self:
        """Build the criterion from targets in their unit, one column per output."""
        shares = np.full(Y.shape[0], 1.0 / Y.shape[0]) if weights is None else weights / weights.sum()
        mean = np.clip(shares @ Y, Y.min(axis=0), Y.max(axis=0))  # exact where y is constant
        centred, root = (Y - mean) - shares @ (Y - mean), None if weights is None else np.sqrt(weights)
        return cls(kind, centred if root is None else root[:, None] * centred, root, blocks)

    def value_and_slope(self, K: Array, lam: float) -> ValueAndSlope | None:
        """Return the criterion of a kernel matrix, overwritten, at one lambda, and its slope in it.

        None if the matrix is not positive definite.
        """
        factored = _Factored.of(K, lam, self.root)
        B = None if factored is None else factored.inverse()
        if factored is None or B is None:
            return None
        alpha = B @ self.Y
        value, pulls, spread, volume = self._response(B, alpha, factored.mean_log)
        slope = -_symmetric_product(B @ pulls, alpha)
        if spread is not None and spread.ndim == 2:
            slope += B @ (spread @ B)
        elif spread is not None:
            half = B * np.sqrt(spread)
            slope += half @ half.T
        if volume != 0.0:
            slope += volume * B
        if self.root is not None:
            slope *= self.root
            slope *= self.root[:, None]
        return ValueAndSlope(value, slope)

    def _response(self, B: Array, alpha: Array, mean_log: float) -> tuple[float, Array, Array | None, float]:
        """Return the criterion, p, M, by its diagonal where it has no other entries (None: M is zero), and c."""
        n, outputs = self.Y.shape
        factor, diagonal = 2.0 / (n * outputs), B.diagonal()
        if self.kind == "evidence":
            factor = float(np.exp(mean_log)) / ((n - 1) * outputs)
            value = factor * float(np.vdot(self.Y, alpha))
            return value, factor * self.Y, None, value / (n - 1)
        if self.kind == "gcv":
            v = np.ones(n) if self.root is None else self.root**2 * (n / float(self.root @ self.root))
            trace, squares = float(v @ diagonal), float(np.square(alpha).sum())
            factor = 2.0 * n / trace**2 / outputs
            return 0.5 * factor * squares, factor * alpha, factor * squares / trace * v, 0.0
        if self.blocks is None:
            residuals = alpha / diagonal[:, None]
            pulls = factor * residuals / diagonal[:, None]
            return 0.5 * factor * float(np.square(residuals).sum()), pulls, (residuals * pulls).sum(axis=1), 0.0
        squares, pulls, spread = 0.0, np.zeros_like(alpha), np.zeros_like(B)
        for block, counted in zip(self.blocks.rows, self.blocks.counted, strict=True):
            place = np.ix_(block, block)
            inverse = np.linalg.inv(B[place])
            residuals = inverse @ alpha[block]
            squares += float(np.square(residuals[counted]).sum())
            pull = factor * (inverse[:, counted] @ residuals[counted])
            pulls[block] += pull
            spread[place] += _symmetric_product(pull, residuals)
        return 0.5 * factor * squares, pulls, spread, 0.0


def _symmetric_product(left: Array, right: Array) -> Array:
    """Return the symmetric part of A B', by one product and no transposition."""
    return np.asarray(np.hstack([left, right]) @ np.hstack([0.5 * right, 0.5 * left]).T)


@dataclass(frozen=True, slots=True)
class _Factored:
    """U, the upper triangle of A = U'U, stored by columns, with what is needed of B.

    ``constant`` is mu + lambda, the eigenvalue of A in the direction 1, ``unit`` the direction V^(1/2) 1 that is in
    its place with weights, of length one; ``mean_log`` is the mean logarithm of the eigenvalues of PKP + lambda.
    """

    factor: Array
    constant: float
    unit: Array | None
    mean_log: float

    @classmethod
    def of(cls, K: Array, lam: float, root: Array | None) -> "_Factored | None":
        """Factor A; K is overwritten. None if it is not positive definite."""
        from scipy.linalg.lapack import dpotrf

        n = K.shape[0]
        if root is None:
            means = K.mean(axis=0)
            K -= means
            K -= means[:, None] - means.mean()
            unit: Array | None = None
        else:
            K *= root
            K *= root[:, None]
            unit = root / np.linalg.norm(root)
            means = K @ unit
            K -= np.outer(unit, means)
            K -= np.outer(means - float(unit @ means) * unit, unit)
        # in the constant direction an eigenvalue like the others
        mu = max(float(K.trace()), 0.0) / (n - 1)
        if unit is None:
            K += mu / n
        else:
            K += np.outer(mu * unit, unit)
        K.flat[:: n + 1] += lam
        factor, info = dpotrf(K.T, lower=0, clean=0, overwrite_a=1)
        if info != 0:
            return None
        logs = 2.0 * float(np.log(factor.diagonal()).sum()) - np.log(mu + lam)
        return cls(np.asarray(factor), mu + lam, unit, float(logs) / (n - 1))

    def inverse(self) -> Array | None:
        """Return B, in the memory of the factor."""
        from scipy.linalg.lapack import dpotri

        inverse, info = dpotri(self.factor, lower=0, overwrite_c=1)
        if info != 0:
            return None
        B = np.asarray(inverse.T)  # the lower triangle in numpy's order
        mirror_lower(B)
        if self.unit is None:
            B -= 1.0 / (B.shape[0] * self.constant)
        else:
            B -= np.outer(self.unit / self.constant, self.unit)
        return B


def mirror_lower(K: Array) -> None:
    """Copy the lower triangle of K onto its upper one, block by block."""
    n = K.shape[0]
    for rows in row_blocks(n, n):
        K[rows, rows.stop :] = K[rows.stop :, rows].T
        square = K[rows, rows]
        K[rows, rows] = np.tril(square) + np.tril(square, k=-1).T
