r"""A long zone of widths bounded from below by the matrix at its widest end: for kernels that no few directions carry.

With the densities of :mod:`~substrate.search.width_bounds` a narrower kernel has at least
:math:`e^{-d (b - t)}` times that of a wider one, everywhere. So in the Loewner order, for all t of a zone that ends at
its widest kernel b and has the half-length h,

.. math:: K(t) \succeq e^{-2dh} K(b), \qquad \log\det (K(t) + \lambda) \ge \log\det (e^{-2dh} K(b) + \lambda) ,

whatever :math:`\lambda` is, and from one decomposition. For any zero-sum u

.. math:: y^T A^{-1} y \ge \frac{(y^T u)^2}{u^T K(t) u + \lambda u^T u}, \qquad
          u^T K(t) u \le u^T K_0 u + h |u^T K_1 u| + \tfrac12 h^2 u^T U u ,

for which products of vectors with matrices suffice; u is the solution at b. The determinant is bounded to first order
in h only: enough where the criterion is far above its best value, and no norm has to be below one for it. Within an
interval of :math:`\lambda` the rising determinant is taken at the lower end, and the falling quotient at the upper end,
of each of many parts.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.gram import Gram
from substrate.least_squares.spectrum import centred_spectrum
from substrate.namespaces import on_device_of, to_numpy
from substrate.search.width_bounds import WidthFamily, remainder_bounds
from substrate.threads import blas_threads

__all__ = ["MonotoneZone"]

#: Parts of an interval of lambda.
_PARTS = 16


class MonotoneZone:
    """All widths within ``half`` of ``t``; ``target`` are the centred targets, ``weights`` have the mean one."""

    def __init__(self, family: WidthFamily, t: float, half: float, target: Array, weights: Array | None = None) -> None:
        h = half * (1.0 + 1e-9) + 1e-13 * (1.0 + abs(t))
        self.half, self.n, self.target = h, int(family.distances.shape[0]), target
        self.family, self.root = family, None if weights is None else np.sqrt(weights)
        with np.errstate(over="ignore"):
            self.shrink = math.exp(-2.0 * family.dimension * h)
        with blas_threads(self.n):
            wide = np.array(to_numpy(family.derivatives(t + h)[0]))
            self.spectrum = centred_spectrum(Gram(wide), family.rounding, weights)
            low, whole, self.terms = remainder_bounds(family.dimension, h, *family.derivatives(t - h))
            self.middle, self.slope, _ = family.derivatives(t)
            self.bend = whole - low
        spread = self.spectrum.error + self.spectrum.lift
        self.least = np.maximum(self.spectrum.values - spread, 0.0) * self.shrink * (1.0 - relative_rounding(8.0))

    def lower_bounds(self, cells: Array) -> Array:
        """Return a bound of the criterion for every cell, given as logarithms of lambda, start and stop."""
        basis, values, free, n = self.spectrum.basis, self.spectrum.values, self.spectrum.values.size, self.n
        z = basis.T @ self.target
        lambdas = np.exp(cells.mean(axis=1))
        outputs = z.shape[1]
        with blas_threads(n):
            u = basis @ (z[:, None, :] / (values[:, None, None] + lambdas[None, :, None])).reshape(free, -1)
            forms = [self._forms(matrix, u) for matrix in (self.middle, self.slope, self.bend)]
        squares = np.square(u).sum(axis=0) * (1.0 + relative_rounding(2.0 * n + 16.0))
        h, unit = self.half, relative_rounding(4.0 * n + 60.0) + self.family.rounding
        # entries of K and of its derivative are at most one, those of the remainder sums of terms of known size
        rounding = 8.0 * unit * (n * (1.0 + h) + 0.5 * h**2 * self.terms) * squares
        kernel = np.maximum(forms[0] + h * np.abs(forms[1]) + 0.5 * h**2 * np.maximum(forms[2], 0.0) + rounding, 0.0)
        along = np.einsum("ik,ik->k", np.tile(self.target, (1, lambdas.size)), u)
        lengths = np.sqrt(squares) * np.tile(np.linalg.norm(self.target, axis=0), lambdas.size)
        along = np.maximum(along - relative_rounding(2.0 * n + 8.0) * lengths, 0.0)
        edges = np.exp(np.linspace(cells[:, 0], cells[:, 1], _PARTS + 1))
        bounds = np.full(len(cells), np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            for start, stop in zip(edges[:-1] * (1.0 - 1e-12), edges[1:] * (1.0 + 1e-12), strict=True):
                quotients = np.square(along) / (kernel + np.repeat(stop, outputs) * squares)
                quadratic = np.nan_to_num(quotients).reshape(len(cells), outputs).mean(axis=1)
                logs = np.log(self.least[:, None] + start).mean(axis=0)
                sizes = np.abs(np.log(self.least[:, None] + start)).mean(axis=0)
                slack = relative_rounding(4.0 * (free + 16.0)) * (1.0 + sizes)
                bounds = np.minimum(bounds, quadratic / free * np.exp(logs - slack))
        return np.where(np.isfinite(bounds), bounds * (1.0 - relative_rounding(64.0)), 0.0)

    def _forms(self, matrix: Any, u: Array) -> Array:
        """Return u'M u for every column, of the scaled matrix."""
        scaled = u if self.root is None else self.root[:, None] * u
        product = np.asarray(to_numpy(matrix @ on_device_of(matrix, scaled)))
        return np.asarray(np.einsum("ik,ik->k", scaled, product))
