r"""Clusters by the signs of weighted components: codes of rows, and the fit of lines that says how many there are.

With the weights :math:`v_i = 1/d_i`, :math:`d_i = \sum_j k(x_i, x_j)`, the support values of a component are constant
over a cluster where clusters do not touch each other, and the k clusters have k different patterns of signs over k - 1
components ([Alzate2010]_ section 4). The k patterns that most training rows have are the code book, and a new row
belongs to the code that differs from its own in the fewest signs.

There the scores of a cluster also lie on a line through the origin, :math:`e_i = \lambda d_i \alpha_i`. How much rows
that were left out are like that says whether kernel and number of clusters suit them,

.. math::

    \mathrm{BLF} = \eta \, \frac1k \sum_{p=1}^k \frac{m}{m - 1} \Big( \frac{\zeta_1^{(p)}}{\sum_l \zeta_l^{(p)}} -
    \frac1m \Big) + (1 - \eta) \, \frac{\min_p n_p}{\max_p n_p} ,

with :math:`\zeta^{(p)}` the eigenvalues of the second moment of the m = k - 1 scores of cluster p, of the score and the
degree where k is two, and :math:`n_p` the number of its rows. It is one for lines and clusters of one size.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.errors import DataError
from substrate.kernels import Kernel

__all__ = ["CodeBook", "Degrees", "balanced_line_fit", "check_degrees"]


@dataclass(frozen=True, slots=True)
class Degrees:
    """The sums of the kernel values of every row, and a bound on their relative errors."""

    values: Array
    relative: float

    @property
    def weights(self) -> Array:
        """The inverse degrees."""
        return np.asarray(1.0 / self.values)

    @property
    def matrix_error(self) -> float:
        """A bound on what their errors change in the norm of the centred and weighted matrix.

        A relative error r of the weights changes scaling by r/2 on either side and the direction that is projected out
        by r, of a matrix whose norm is one: its entries are not negative, and the row sums of :math:`D^{-1} K` are one.
        """
        return at_most(6.0 * self.relative)


def check_degrees(sums: Array, kernel: Kernel, X: Any) -> Degrees:
    """Return the degrees, refused where a sum of kernel values is not positive."""
    values = np.asarray(sums, dtype=np.float64)
    if not (values > 0.0).all() or not np.isfinite(values).all():
        worst = int(np.argmin(values))
        raise DataError(
            f"clustering weighs rows by their inverse degrees, and the kernel values of row {worst} sum to "
            f"{values[worst]:.3g}; use a kernel without negative values, for instance an RBF"
        )
    n = values.size
    error = relative_rounding(n + 4.0)
    if not kernel.pairwise:
        heights = np.sqrt(np.abs(np.asarray(kernel.diag(X))))
        error += kernel.rounding(X) * float(np.max(heights * heights.sum() / values))
    return Degrees(values, at_most(error))


@dataclass(frozen=True, slots=True)
class CodeBook:
    """The codes of the clusters, one row of signs each, those of more training rows first."""

    codes: Array

    @classmethod
    def of(cls, scores: Array, clusters: int) -> "CodeBook":
        """Return the codes that most rows have; fewer than ``clusters`` where there are no more.

        :place [Alzate2010]_ code book: the most frequent sign patterns of the training scores
        """
        codes, counts = np.unique(signs_of(scores), axis=0, return_counts=True)
        order = np.lexsort((np.arange(counts.size), -counts))
        return cls(codes[order[:clusters]])

    def assign(self, scores: Array) -> Array:
        """Return the number of the nearest code of every row; of equally near ones, that of more training rows.

        :place [Alzate2010]_ out-of-sample extension: the code at the smallest Hamming distance
        """
        signs = signs_of(scores)
        distances = (signs[:, None, :] != self.codes[None, :, :]).sum(axis=2)
        return np.asarray(distances.argmin(axis=1))


def signs_of(scores: Array) -> Array:
    """Return 1.0 and -1.0; zero counts as positive."""
    return np.where(np.asarray(scores) < 0.0, -1.0, 1.0)


def balanced_line_fit(scores: Array, degrees: Array, labels: Array, clusters: int, line_weight: float) -> float:
    """Return the criterion of left-out rows: line fit times ``line_weight``, and balance times the rest.

    A cluster without a row has a line fit of zero, and makes the balance zero.

    :place [Alzate2010]_ balanced line fit: collinearity of the scores of clusters, and their balance
    """
    columns = np.column_stack([scores[:, 0], degrees]) if clusters == 2 else scores
    sizes = np.bincount(labels, minlength=clusters)
    scale = np.abs(columns).max(axis=0)
    columns = columns / np.where(scale > 0.0, scale, 1.0) if clusters == 2 else columns
    m, fits = columns.shape[1], np.zeros(clusters)
    for p in range(clusters):
        rows = columns[labels == p]
        if rows.shape[0]:
            zeta = np.square(np.linalg.svd(rows, compute_uv=False))
            total = float(zeta.sum())
            fits[p] = m / (m - 1.0) * (float(zeta[0]) / total - 1.0 / m) if total > 0.0 else 0.0
    balance = float(sizes.min()) / max(float(sizes.max()), 1.0)
    return float(line_weight * fits.mean() + (1.0 - line_weight) * balance)
