"""One pass over all rows for a machine of components as it is stored: its errors, its components, and their rounding.

The coefficients are those that ``predict`` uses, one column per component, so that what the fit left elsewhere has no
say. With care, kernel values are filled in the slow way and products are summed in doubled precision
(:mod:`~substrate.certificates.doubled_precision`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array, is_sparse
from substrate.certificates.doubled_precision import Pair, add, exact_product, minus
from substrate.closed_form.kernel_rows import KernelValues
from substrate.streaming.source import Block

__all__ = ["VariationErrors", "VariationErrorsOfLeaf"]

_HALF = EPS / 2.0
_ROWS = 512
_LARGEST = ("largest", "longest", "rounding")


@dataclass(frozen=True, slots=True)
class VariationErrors:
    """Sums over rows: e, its squares, those of targets (about a centre), of what e may be off, of what predict says.

    One number per component: ``slopes`` K_l'e (a column each), ``diagonal`` the sum of k_l(x, x); and the largest
    ``abs(f^l)`` with its rounding, k_l(x, x), and relative error of a kernel value.
    """

    count: int
    total: float
    squares: float
    shifts: float
    spreads: float
    unsure: float
    apart: float
    slopes: Array
    diagonal: Array
    largest: Array
    longest: Array
    rounding: Array

    def __add__(self, other: "VariationErrors") -> "VariationErrors":
        parts: dict[str, Any] = {}
        for field in fields(self):
            one, another = getattr(self, field.name), getattr(other, field.name)
            parts[field.name] = np.maximum(one, another) if field.name in _LARGEST else one + another
        return VariationErrors(**parts)


@dataclass(frozen=True, slots=True)
class VariationErrorsOfLeaf:
    """The machine in units of the targets: an expansion for each component over the same basis vectors."""

    components: tuple[KernelValues, ...]
    unit: float
    coefficients: Array
    bias: float
    sizes: Array
    centre: float
    careful: bool

    def __call__(self, blocks: Iterable[Block]) -> VariationErrors:
        """Over the micro-blocks of a leaf."""
        m, d = self.coefficients.shape
        none = np.zeros(d)
        total = VariationErrors(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, np.zeros((m, d)), none, none, none, none)
        for block in blocks:
            p = np.array([self._rounding(values, block.X) for values in self.components])
            for first in range(0, block.X.shape[0], _ROWS):
                some = slice(first, min(first + _ROWS, block.X.shape[0]))
                total = total + self._of_rows(block.X[some], block.Y[some, 0] / self.unit, p)
        return total

    def values(self, X: Any) -> tuple[Array, Array]:
        """f^l of rows at hand, one column per component, and what they may be off."""
        p = np.array([self._rounding(values, X) for values in self.components])
        f, unsure, _ = self._values([self._filled(values, X) for values in self.components], X, p)
        return f[0] + f[1], unsure

    def pulled(self, X: Any, multipliers: Array) -> Array:
        """K_l'xi_l of rows at hand, one column per component."""
        pulls = [self._filled(values, X).T @ xi for values, xi in zip(self.components, multipliers, strict=True)]
        return np.column_stack(pulls)

    def _of_rows(self, X: Any, known: Array, p: Array) -> VariationErrors:
        tiles, zero = [self._filled(values, X) for values in self.components], np.zeros_like(known)
        (high, low), unsure, lengths = self._values(tiles, X, p)
        rest: Pair = add((known, zero), (np.full_like(known, -self.bias), zero))
        for k in range(p.size):
            rest = add(rest, minus((high[:, k], low[:, k])))
        e = rest[0] + rest[1]
        off = unsure.sum(axis=1) + EPS * np.abs(e) + EPS**1.9 * (np.abs(known) + np.abs(high).sum(axis=1))
        said = sum((self._plain(values, X) @ self.coefficients[:, k] for k, values in enumerate(self.components)), zero)
        about = known - self.centre
        slopes = np.column_stack([self._slope(tile, e) for tile in tiles])
        apart = known - e - (said + self.bias)
        squared = np.square(lengths)
        return VariationErrors(
            known.size, float(e.sum()), float(e @ e), float(about.sum()), float(about @ about), float(off @ off),
            float(apart @ apart), slopes, squared.sum(axis=0), (np.abs(high + low) + unsure).max(axis=0),
            squared.max(axis=0), p,
        )  # fmt: skip

    def _values(self, tiles: list[Array], X: Any, p: Array) -> tuple[Pair, Array, Array]:
        n, (m, d) = tiles[0].shape[0], self.coefficients.shape
        high, low, unsure, lengths = (np.zeros((n, d)) for _ in range(4))
        for k, (values, tile) in enumerate(zip(self.components, tiles, strict=True)):
            beta = self.coefficients[:, k]
            diagonal = values.kernel.diag(X) if values.kernel is not None else np.ones(n)
            lengths[:, k] = np.sqrt(np.maximum(diagonal, 0.0))
            size = lengths[:, k] * float(self.sizes[:, k] @ np.abs(beta))
            if self.careful:
                (high[:, k], low[:, k]), check = exact_product(tile, beta)
                unsure[:, k] = check + p[k] * size
            else:
                high[:, k] = tile @ beta
                unsure[:, k] = (p[k] + (m + 4.0) * _HALF) * size
        return (high, low), unsure, lengths

    def _slope(self, tile: Array, e: Array) -> Array:
        if not self.careful:
            return np.asarray(tile.T @ e)
        (high, low), _ = exact_product(np.ascontiguousarray(tile.T), e)
        return high + low

    def _rounding(self, values: KernelValues, X: Any) -> float:
        kernel = values.kernel
        if kernel is None or not self.careful or is_sparse(X) or is_sparse(values.points):
            return values.rounding(X)
        return kernel.careful_rounding(np.concatenate([X, values.points]))

    def _filled(self, values: KernelValues, X: Any) -> Array:
        if values.kernel is None or not self.careful or is_sparse(X) or is_sparse(values.points):
            return self._plain(values, X)
        out = np.empty((X.shape[0], values.n_basis))
        values.kernel.fill_carefully(X, values.points, out)
        return out

    def _plain(self, values: KernelValues, X: Any) -> Array:
        out = np.empty((X.shape[0], values.n_basis))
        values.fill(X, out)
        return out
