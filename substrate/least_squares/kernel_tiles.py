r"""A kernel matrix of which nothing is stored, in two precisions: single for the steps of an iteration, double for the
residuals that decide, on the host or on a device.

What computed the support values does not matter for the bound of their answer
(:mod:`~substrate.least_squares.saddle_certificate`), so most of the work may be done with half the digits. With
:math:`\tilde K = K + E` in the place of K every run of conjugate gradients reduces the residual to about

.. math:: \|r\| \;\longrightarrow\; \|E A^{-1}\|\, \|r\|, \qquad A = K + D ,

after which it is computed anew and the next run begins: refinement, which contracts while
:math:`\|E A^{-1}\| < 1`. A preconditioner changes the number of steps and not this. Where it does not contract, all
products are computed in double precision from then on (:meth:`KernelTiles.use_accurate_products`).
"""

from functools import cached_property
from typing import Any

import numpy as np

from substrate.arrays import Array, is_device_array, is_sparse, namespace_of, on_device_of, take_rows, to_numpy
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.kernels.tiled_product import Precision, tiled_product
from substrate.operators import KernelOperator

__all__ = ["KernelTiles"]


class KernelTiles(KernelOperator):
    """The kernel matrix of points that may be on a device, for vectors on the host."""

    def __init__(self, kernel: Kernel, points: Any) -> None:
        self.kernel, self.points = kernel, points
        self._is_accurate = False

    @property
    def n(self) -> int:
        """Number of points."""
        return int(self.points.shape[0])

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return np.asarray(to_numpy(self.kernel.diag(self.points)))

    @cached_property
    def _has_single(self) -> bool:
        """Whether kernel values can be computed in single precision by a formula of this package."""
        if is_sparse(self.points) or self.kernel.pairwise or not self.kernel.trusted:
            return False
        row = self.points[:1, :]
        try:
            self.kernel.evaluate(row, row, namespace_of(row).float32)
        except (DataError, DeclarationError):  # values beyond it, or no formula
            return False
        return True

    @property
    def is_single(self) -> bool:
        """Whether the products of steps are computed in single precision."""
        return not self._is_accurate and self._has_single

    @property
    def precision(self) -> str:
        """The precision of the products at present, in words."""
        return "steps in single, residuals in double precision" if self.is_single else "double"

    def product(self, V: Array) -> Array:
        """Return K V for a step of an iteration."""
        if self.is_single:
            try:
                return self._tiled(V, "float32")
            except DataError:  # values beyond single precision
                self._is_accurate = True
        return self.accurate_product(V)

    def accurate_product(self, V: Array) -> Array:
        """Return K V with the rounding of double precision, which the bounds of an answer count."""
        return self._tiled(V, "float64")

    def use_accurate_products(self) -> bool:
        """Compute all products in double precision from now on; False where they are already."""
        changed, self._is_accurate = self.is_single, True
        return changed

    def block(self, rows: Any, columns: Any) -> Array:
        """Return the kernel values between two sets of points."""
        if 8 * len(columns) < len(rows):  # kernels work along rows: few long ones are cheaper than many short ones
            return np.ascontiguousarray(self.block(columns, rows).T)
        left, right = take_rows(self.points, rows), take_rows(self.points, columns)
        if is_device_array(left):
            return np.asarray(to_numpy(self.kernel(left, right)))
        return self.kernel.values(left, right)

    def _tiled(self, V: Array, precision: Precision) -> Array:
        vectors = on_device_of(self.points, np.ascontiguousarray(V))
        return np.asarray(to_numpy(tiled_product(self.kernel, self.points, vectors, precision)))
