r"""The derivative of a criterion in every kernel value, :math:`W_{ij} = \partial F / \partial K_{ij}`, at one gamma.

With :math:`B = U \operatorname{diag}(g) U^T`, :math:`g_k = 1/(s_k + \lambda)`, the inverse of the centred matrix plus
:math:`\lambda` (:mod:`~substrate.least_squares.spectrum`), a change of K gives :math:`dB = -B\, dK\, B` and
:math:`d\alpha = -B\, dK\, \alpha`. So, with :math:`r_i = \alpha_i / B_{ii}`, sym the symmetric part, and :math:`:` the
sum of the products of all entries, :math:`dF = W : dK` is

.. math:: dF = p^T d\alpha - \sum_i m_i\, dB_{ii} + c\, d \log \det (K + \lambda), \qquad
          W = B \operatorname{diag}(m) B + c B - \operatorname{sym}(B p\, \alpha^T) .

A criterion is known by these three numbers, its :class:`Response`:

- leave-one-out: :math:`p_i = \frac2N r_i / B_{ii}` and :math:`m_i = \frac2N r_i^2 / B_{ii}`;
- blocks S left out: :math:`p = \sum_S q_S` with :math:`q_S = \frac2N B_{SS}^{-1} r_C`, r at the rows C of S that count
  and zero at the others, and a matrix :math:`M = \sum_S \operatorname{sym}(q_S r_S^T)` in the place of
  :math:`\operatorname{diag}(m)`;
- generalised cross-validation: :math:`p = 2 F \alpha / \|\alpha\|^2` and :math:`m = 2 F v / \operatorname{tr} V B` with
  V the weights of the rows, of mean one;
- the evidence: :math:`p = F y / Q` and :math:`c = F / (N - 1)`, [Rasmussen2006]_ eq. (5.9) with the variance of the
  noise eliminated;
- n validation rows with the errors e and the centred kernel rows C: :math:`p = -\frac2n C^T e`; these rows and the mean
  row change with K as well, so :math:`W = \frac2n \operatorname{sym} \big( (B C^T e + \frac{1^T e}{N} 1)\, \alpha^T
  \big)`, and :math:`-\frac2n e \alpha^T` in the values between them and the training rows.

On a reduced basis the same responses are those of rows (:mod:`substrate.reduced.kernel_slope`). These are a product or
two of N x N matrices, less than the decomposition costs, and all derivatives in the parameters of a kernel follow from
W by sums (``Kernel.scale_gradient``). Outputs that share one gamma share B, and their mean is differentiated. With
weights of the rows, everything is that of :math:`V^{1/2} K V^{1/2}`, and W is multiplied by the roots at the end.

F does not change when K and :math:`\lambda` are multiplied by the same number, so :math:`\lambda\, \partial F /
\partial \lambda = -W : K`, which vanishes at the best gamma inside a range.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.left_out_blocks import LeftOutBlocks

__all__ = [
    "Response",
    "Slope",
    "block_response",
    "evidence_response",
    "gcv_response",
    "left_out_response",
    "mean_one",
    "validation_slope",
]


@dataclass(frozen=True, slots=True)
class Slope:
    """dF/dK: ``within`` the training rows, symmetric, and ``below``, validation rows against training rows, if any."""

    within: Array
    below: Array | None = None

    def scale(self, factor: float) -> "Slope":
        """Return the slope of a multiple of F."""
        if factor == 1.0:
            return self
        return Slope(factor * self.within, None if self.below is None else factor * self.below)

    def __add__(self, other: "Slope") -> "Slope":
        if self.below is None or other.below is None:
            return Slope(self.within + other.within)
        return Slope(self.within + other.within, self.below + other.below)

    def with_weights(self, root: Array | None) -> "Slope":
        """Return the slope in the entries of K, from that of V^(1/2) K V^(1/2); ``root`` is the diagonal of V^(1/2)."""
        if root is None:
            return self
        below = None if self.below is None else self.below * root
        return Slope(root[:, None] * self.within * root, below)


@dataclass(frozen=True, slots=True)
class Response:
    """A criterion at one gamma, ``value``, and its derivatives: p in the ``support`` values, one column per output.

    ``diagonal`` is m, minus those in B_ii, nowhere negative, a single number where all are equal, or the symmetric
    matrix M where there are some in other entries of B; None where there are none. ``volume`` is c, that in the
    logarithm of the determinant.
    """

    value: float
    support: Array
    diagonal: Array | None = None
    volume: float = 0.0

    def slope(self, B: Array, alpha: Array) -> Slope:
        """Return W, from B and the support values."""
        return self._slope(B, B @ self.support, alpha)

    def spectral_slope(self, basis: Array, g: Array, alpha: Array) -> Slope:
        """Return W, by B = U diag(g) U'."""
        pulled = basis @ (g[:, None] * (basis.T @ self.support))
        if self.diagonal is not None and self.diagonal.size == 1 and self.volume == 0.0:  # B B without B
            return Slope(float(self.diagonal[0]) * _product(basis * g) - _symmetric_product(pulled, alpha))
        return self._slope(_product(basis * np.sqrt(g)), pulled, alpha)

    def _slope(self, B: Array, pulled: Array, alpha: Array) -> Slope:
        within = -_symmetric_product(pulled, alpha)
        if self.diagonal is not None and self.diagonal.ndim == 2:
            within += B @ (self.diagonal @ B)
        elif self.diagonal is not None:
            within += _product(B * np.sqrt(self.diagonal))
        if self.volume != 0.0:
            within += self.volume * B
        return Slope(within)


def left_out_response(diagonal: Array, alpha: Array, rows: int) -> Response:
    """Return the response of the mean square leave-one-out residual over the columns of alpha, from all rows or some of
    this many.

    ``diagonal`` are the B_ii. Both may be multiplied by lambda: p and m are then divided by it.
    """
    factor = 1.0 / (rows * alpha.shape[1])
    residuals = alpha / diagonal[:, None]
    pulls = 2.0 * factor * residuals / diagonal[:, None]
    return Response(factor * float(np.square(residuals).sum()), pulls, (residuals * pulls).sum(axis=1))


def block_response(B: Array, alpha: Array, blocks: LeftOutBlocks) -> Response:
    """Return the response of the mean square residual with blocks of rows left out, over the columns of alpha."""
    factor = 1.0 / (blocks.n * alpha.shape[1])
    value, pulls, matrix = 0.0, np.zeros_like(alpha), np.zeros_like(B)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        place = np.ix_(block, block)
        inverse = np.linalg.inv(B[place])
        residuals = inverse @ alpha[block]
        value += float(np.square(residuals[counted]).sum())
        pull = 2.0 * factor * (inverse[:, counted] @ residuals[counted])
        pulls[block] += pull
        matrix[place] += _symmetric_product(pull, residuals)
    return Response(factor * value, pulls, matrix)


def gcv_response(alpha: Array, squares: float, trace: float, rows: int, weights: Array) -> Response:
    """Return the response of generalised cross-validation, the mean over the columns of alpha, whose ``squares`` are
    summed.

    ``trace`` is tr VB, with the ``weights`` of the rows, of mean one. p is a multiple of alpha: from Z'alpha it is Z'p.
    """
    factor = 2.0 * rows / trace**2 / alpha.shape[1]
    return Response(0.5 * factor * squares, factor * alpha, factor * squares / trace * weights)


def evidence_response(Y: Array, quadratic: float, stretch: float, free: int) -> Response:
    """Return the response of the variance whose smallest value is at the largest evidence, for the mean over the
    columns of Y.

    ``quadratic`` is the sum of Q over them, ``stretch`` the mean factor of the determinant, and ``free`` the number of
    rows less that of the columns without a penalty. p is a multiple of y: from u = Z'B y it is Z'B p.
    """
    factor = stretch / free / Y.shape[1]
    return Response(factor * quadratic, factor * Y, volume=factor * quadratic / free)


def mean_one(root: Array | None) -> Array:
    """Return weights of mean one, from their roots; a single one where all are equal."""
    return np.ones(1) if root is None else np.square(root) * (root.size / float(root @ root))


def validation_slope(alpha: Array, errors: Array, pulled: Array, shares: Array, roots: Array | None) -> Slope:
    """Return the slope of the mean square error on validation rows, from alpha, the errors, and ``pulled`` = B C'e, by
    output.

    ``shares`` are those of the training rows in the mean row of K, times the roots of their weights, ``roots`` those of
    the weights of the validation rows, which errors and C are multiplied by.
    """
    weighted_errors = errors if roots is None else roots[:, None] * errors
    pulled = pulled + np.outer(shares, weighted_errors.sum(axis=0))
    factor = 2.0 / errors.size
    return Slope(factor * _symmetric_product(pulled, alpha), -factor * (weighted_errors @ alpha.T))


def _product(half: Array) -> Array:
    """Return A A', for which numpy computes one triangle only."""
    return np.asarray(half @ half.T)


def _symmetric_product(left: Array, right: Array) -> Array:
    """Return the symmetric part of A B', by one product and no transposition."""
    return np.asarray(np.hstack([left, right]) @ np.hstack([0.5 * right, 0.5 * left]).T)
