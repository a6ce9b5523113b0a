"""A kernel matrix in numbers with a radius, by products that state a bound on their error."""

from dataclasses import dataclass

import numpy as np

from substrate.certificates.enclosed import Double, Doubled, sum_rounding
from substrate.least_squares.kernel_products import KernelProducts, PlainProducts

__all__ = ["ComputedKernel"]


@dataclass(frozen=True)
class ComputedKernel:
    """K as a map of vectors, in working or in doubled precision; ``plain`` holds the matrix itself."""

    map: KernelProducts
    plain: PlainProducts

    def products(self, x: Doubled) -> Doubled:
        """Return K x: that of the first parts, that of the second ones in working precision, and what the radius adds.

        A product of n terms in working precision is known to n u of their sizes, and kernel values to p.
        """
        pair, radius = self.map(np.asarray(x.high))
        product, off = Doubled(*pair, radius=radius), x.radius
        if x.low is not None and np.any(x.low):
            product = product + self.plain.matrix @ x.low
            off = off + (sum_rounding(x.low.size) + self.plain.rounding) * np.abs(x.low)
        return product.absorb(self.small_products(Double(0.0, off))) if np.any(off) else product

    def small_products(self, x: Double) -> Double:
        """Return numbers about zero, with what K x may be for numbers of these sizes as the radius."""
        reach = self.map.sizes(np.broadcast_to(x.sizes, len(self.plain.matrix)))
        return Double(np.zeros_like(reach), reach)
