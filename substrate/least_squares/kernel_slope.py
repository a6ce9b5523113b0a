r"""The derivative of a criterion in every kernel value, :math:`W_{ij} = \partial F / \partial K_{ij}`, at one gamma.

With :math:`B = U \operatorname{diag}(g) U^T`, :math:`g_k = 1/(s_k + \lambda)`, the inverse of the centred matrix plus
:math:`\lambda` (:mod:`~substrate.least_squares.spectrum`), a change of K gives :math:`dB = -B\, dK\, B` and
:math:`d\alpha = -B\, dK\, \alpha`. So, with :math:`r_i = \alpha_i / B_{ii}`, sym the symmetric part, and :math:`:` the
sum of the products of all entries, :math:`dF = W : dK` has

- leave-one-out: :math:`W = \frac2N \big( B \operatorname{diag}(r_i^2 / B_{ii}) B - \operatorname{sym}(B q\, \alpha^T)
  \big)` with :math:`q_i = r_i / B_{ii}`;
- generalised cross-validation: :math:`W = 2 F \big( B V B / \operatorname{tr} V B - \operatorname{sym}(B \alpha\,
  \alpha^T) / \|\alpha\|^2 \big)` with V the weights of the rows, the identity where they have none;
- the evidence: :math:`W = F \big( B / (N - 1) - \alpha \alpha^T / Q \big)`, [Rasmussen2006]_ eq. (5.9) with the
  variance of the noise eliminated;
- n validation rows with the errors e and the centred kernel rows C: :math:`W = \frac2n \operatorname{sym} \big( (B C^T
  e + \frac{1^T e}{N} 1)\, \alpha^T \big)`, and :math:`-\frac2n e \alpha^T` in the values between them and the training
  rows.

These are a product or two of N x N matrices, less than the decomposition costs, and all derivatives in the parameters
of a kernel follow from W by sums (``Kernel.scale_gradient``). Outputs that share one gamma share B, and their mean
is differentiated. With weights of the rows, everything is that of :math:`V^{1/2} K V^{1/2}`, and W is multiplied by
the roots at the end.

F does not change when K and :math:`\lambda` are multiplied by the same number, so :math:`\lambda\, \partial F /
\partial \lambda = -W : K`, which vanishes at the best gamma inside a range.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array

__all__ = [
    "Slope",
    "evidence_of_inverse",
    "evidence_slope",
    "gcv_freedom",
    "gcv_of_inverse",
    "gcv_slope",
    "leave_one_out_of_inverse",
    "leave_one_out_slope",
    "validation_of_inverse",
    "validation_slope",
]


@dataclass(frozen=True, slots=True)
class Slope:
    """dF/dK: ``within`` the training rows, symmetric, and ``below``, validation rows against training rows, if any."""

    within: Array
    below: Array | None = None

    def scaled(self, factor: float) -> "Slope":
        """The slope of a multiple of F."""
        return Slope(factor * self.within, None if self.below is None else factor * self.below)

    def __add__(self, other: "Slope") -> "Slope":
        if self.below is None or other.below is None:
            return Slope(self.within + other.within)
        return Slope(self.within + other.within, self.below + other.below)

    def weighted(self, root: Array | None) -> "Slope":
        """In the entries of K, from those of V^(1/2) K V^(1/2); ``root`` is the diagonal of V^(1/2)."""
        if root is None:
            return self
        below = None if self.below is None else self.below * root
        return Slope(root[:, None] * self.within * root, below)


def leave_one_out_slope(basis: Array, g: Array, z: Array) -> Slope:
    """Of the mean square leave-one-out residual over the columns of z."""
    return leave_one_out_of_inverse(_product(basis * np.sqrt(g)), basis @ (g[:, None] * z))


def leave_one_out_of_inverse(B: Array, alpha: Array) -> Slope:
    """The same from B and alpha, one column per output."""
    diagonal = B.diagonal()[:, None]
    residuals = alpha / diagonal
    pulls = residuals / diagonal
    roots = np.sqrt((residuals * pulls).sum(axis=1))
    within = _product(B * roots)
    within -= _symmetric_product(B @ pulls, alpha)
    within *= 2.0 / alpha.size
    return Slope(within)


def gcv_slope(basis: Array, g: Array, z: Array, root: Array | None = None) -> Slope:
    """Of generalised cross-validation, the mean over the columns of z; ``root`` are the roots of the weights."""
    columns = g[:, None] * z
    if root is None:
        total, inner = float(g.sum()), _product(basis * g)
    else:
        B, v = _product(basis * np.sqrt(g)), _masses(root)
        total, inner = float(v @ B.diagonal()), _product(B * np.sqrt(v))
    factor = basis.shape[0] / total**2 / z.shape[1]
    alpha, again = basis @ columns, basis @ (g[:, None] * columns)
    square = float(np.square(columns).sum()) / total * inner
    return Slope(2.0 * factor * (square - _symmetric(again @ alpha.T)))


def gcv_of_inverse(B: Array, alpha: Array, root: Array | None = None) -> Slope:
    """The same from B and alpha, one column per output."""
    total, inner = gcv_freedom(B, root), _product(B if root is None else B * np.sqrt(_masses(root)))
    square = float(np.square(alpha).sum()) / total * inner
    return Slope(2.0 * B.shape[0] / total**2 / alpha.shape[1] * (square - _symmetric_product(B @ alpha, alpha)))


def gcv_freedom(B: Array, root: Array | None = None) -> float:
    """The trace of B, by weight."""
    return float(B.trace() if root is None else _masses(root) @ B.diagonal())


def _masses(root: Array) -> Array:
    """Weights of mean one, from their roots."""
    return np.square(root) * (root.size / float(root @ root))


def evidence_slope(basis: Array, g: Array, z: Array) -> Slope:
    """Of the variance whose smallest value is at the largest evidence, for the mean over the columns of z."""
    factor = float(np.exp(-np.mean(np.log(g))))
    quadratic = float((g @ np.square(z)).sum())
    inverse = _product(basis * np.sqrt(g))
    return evidence_of_inverse(inverse, basis @ (g[:, None] * z), quadratic, factor, g.size)


def evidence_of_inverse(B: Array, alpha: Array, quadratic: float, factor: float, free: int | None = None) -> Slope:
    """The same from B and alpha, the sum of Q over the columns, and the mean factor of the determinant.

    ``free`` is N less the number of columns that are not penalised, by default a bias.
    """
    free = B.shape[0] - 1 if free is None else free
    return Slope(factor / free / alpha.shape[1] * (quadratic / free * B - alpha @ alpha.T))


def validation_slope(
    basis: Array, g: Array, z: Array, directions: Array, offsets: Array, shares: Array, roots: Array | None
) -> Slope:
    """Of the mean square error on validation rows, over the columns of z.

    ``shares`` are those of the training rows in the mean row of K, times the roots of their weights, ``roots`` those of
    the weights of the validation rows, which ``directions`` and ``offsets`` are multiplied by.
    """
    weights = g[:, None] * z
    alpha, errors = basis @ weights, offsets - directions @ weights
    pulled = basis @ (g[:, None] * (directions.T @ errors))
    return validation_of_inverse(alpha, errors, pulled, shares, roots)


def validation_of_inverse(alpha: Array, errors: Array, pulled: Array, shares: Array, roots: Array | None) -> Slope:
    """The same from alpha, the errors, and ``pulled`` = B C'e, one column per output."""
    own = errors if roots is None else roots[:, None] * errors
    pulled = pulled + np.outer(shares, own.sum(axis=0))
    factor = 2.0 / errors.size
    return Slope(factor * _symmetric(pulled @ alpha.T), -factor * (own @ alpha.T))


def _product(half: Array) -> Array:
    """A A', for which numpy computes one triangle only."""
    return np.asarray(half @ half.T)


def _symmetric_product(left: Array, right: Array) -> Array:
    """The symmetric part of A B', by one product and no transposition."""
    return np.asarray(np.hstack([left, right]) @ np.hstack([0.5 * right, 0.5 * left]).T)


def _symmetric(matrix: Array) -> Array:
    return np.asarray(0.5 * (matrix + matrix.T))
