r"""How far a criterion on a reduced basis may be from that of the machine it speaks of, at every lambda.

A criterion is read off one decomposition of sums over the rows, and all of these are rounded: kernel values, features,
sums, eigenvalues and eigenvectors. With :math:`\hat u(\lambda) = Q\, c/(a + \lambda)` the gradient of the exact machine
at :math:`\hat u` is made of these roundings alone, and :mod:`~substrate.closed_form.reduced_curvature` says what it
does to the errors of the rows,

.. math:: \|\hat e - e\| \le \|Z H^{-1} T^T \delta\| \|\hat e\| + 3 p\, \|\sqrt{k}\|\, s^T |T \hat u|
          + \Big( c\, \epsilon\, \big\| |\hat H^{-1/2}| \sigma \big\| + \frac{r \epsilon \|A\|}{\sqrt\lambda} \Big)
            (\ldots) ,

and leverages :math:`z_i^T H^{-1} z_i` move by the same slopes. All grow as lambda falls. The root of a
criterion is a norm of errors over :math:`1 - h_{ii}`, so it is off by no more than that over the smallest of these,
plus its own share. A direction that is faint in a smooth kernel makes this large long before the criterion itself looks
strange: nearly noise-free targets have a criterion far below the size of y, to which the rounding belongs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from substrate.arrays import EPS, Array
from substrate.closed_form.kernel_rows import KernelRows, KernelValues
from substrate.closed_form.reduced_curvature import Reach
from substrate.closed_form.reduced_spectrum import ReducedSpectrum
from substrate.streaming.source import Block

__all__ = ["Doubt", "RowSizes", "sizes_of_rows"]

_HALF = EPS / 2.0
#: What lies between two points of a search: errors are monotone in lambda term by term, and lambda moves little.
_BETWEEN = 2.0


@dataclass(frozen=True, slots=True)
class RowSizes:
    """The sum of k(x, x) over rows, the largest of them, and the largest relative error of a kernel value."""

    diagonal: float
    largest: float
    rounding: float

    def __add__(self, other: "RowSizes") -> "RowSizes":
        return RowSizes(
            self.diagonal + other.diagonal,
            max(self.largest, other.largest),
            max(self.rounding, other.rounding),
        )


@dataclass(frozen=True, slots=True)
class RowSizesOfLeaf:
    """Of the rows of a leaf; no kernel value is computed."""

    values: KernelValues

    def __call__(self, blocks: Iterable[Block]) -> RowSizes:
        """Over its micro-blocks."""
        total = RowSizes(0.0, 0.0, 0.0)
        for block in blocks:
            diagonal = np.maximum(self.values.diagonal(block), 0.0)
            rounding = self.values.rounding(block.X)
            total = total + RowSizes(float(diagonal.sum()), float(diagonal.max(initial=0.0)), rounding)
        return total


def sizes_of_rows(rows: KernelRows) -> RowSizes:
    """In one light pass."""
    sizes: RowSizes = rows.sums(RowSizesOfLeaf(rows.values), "sizes of rows")
    return sizes


@dataclass(frozen=True, slots=True)
class Doubt:
    """One spectrum and the rows it is of; ``seen`` is the scatter of validation rows, where the criterion is theirs."""

    spectrum: ReducedSpectrum
    K_basis: Array
    sizes: RowSizes
    terms: int
    seen: Array | None = None
    count: int = 0

    def errors(self, lam: float) -> tuple[float, Array]:
        """By how much a leverage may be off, and the norm by which errors may be, one number per output."""
        s, sp = self.sizes, self.spectrum
        spread = math.sqrt(s.diagonal)
        curvature = sp.curvature(self.K_basis, self.terms)
        reach = curvature.at(lam, s.rounding, spread)
        r, c = sp.values.size, sp.cross
        decomposed = 4.0 * r * EPS * float(sp.values.max(initial=0.0)) / lam
        if not reach.known or decomposed >= 0.25:
            return 1.0, np.full(c.shape[1], math.inf)
        inverses = 1.0 / (sp.values + lam)
        weights = sp.rotation @ (c * inverses[:, None])
        left = np.maximum(sp.squares - ((inverses * (1.0 + lam * inverses)) @ c**2), 0.0)
        errors = np.sqrt(left + EPS * r * sp.squares)
        lever = reach.lever(self.seen)
        own = s.rounding + (curvature.features.n_basis + 8.0) * _HALF
        slopes = reach.of_slopes(own * spread, self.seen)
        moved = slopes * errors
        rows = spread if self.seen is None else math.sqrt(max(self.count, 1) * s.largest)
        moved += (
            (2.0 * lever * spread + rows) * own * (np.sqrt(self._diagonal()) @ np.abs(sp.features.transform @ weights))
        )
        summed = (self.terms + r + 8.0) * _HALF
        lengths = self._lengths(reach)
        pull = float(np.linalg.norm(np.abs(reach.root) @ lengths)) if r else 0.0
        moved += lever * 1.5 * summed * pull * (lengths @ np.abs(weights) + np.sqrt(sp.squares))
        moved += lever * decomposed * (math.sqrt(lam) * np.linalg.norm(weights, axis=0) + EPS * np.sqrt(sp.squares))
        # z'H^-1 z moves with z by the same slopes, once for the row itself and once for its part in H
        lifted = 4.0 * (slopes if self.seen is None else 0.0) + 2.0 * reach.eta**2 + 2.0 * decomposed
        lifted += 2.0 * summed * pull**2
        if curvature.accumulated:
            lifted += 2.0 * sp.error
            moved += lever * sp.error * (np.sqrt(sp.squares) + np.sqrt(sp.n) * np.abs(sp.target_mean))
        return lifted, _BETWEEN * np.asarray(moved)

    def _diagonal(self) -> Array:
        return np.maximum(self.K_basis.diagonal(), 0.0)

    def _lengths(self, reach: Reach) -> Array:
        return np.asarray(reach.lengths)
