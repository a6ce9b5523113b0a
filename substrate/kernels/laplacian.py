r"""The Laplacian kernel :math:`k(x, z) = \exp(-\|x - z\|_1 / \sigma)` (scikit-learn's gamma is 1/sigma)."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import width
from substrate.kernels.distances import metric_distances
from substrate.kernels.median import median_distance, needs_number

__all__ = ["Laplacian"]


@dataclass(frozen=True, repr=False)
class Laplacian(Kernel):
    """exp(-||x - z||_1 / sigma); ``sigma="median"`` takes the median L1 distance of the training points."""

    sigma: float | str = "median"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", width(self.sigma))

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """All of them."""
        return (tuple(range(n_features)),)

    @property
    def decays(self) -> bool:
        """Yes, at the rate that sigma sets."""
        return True

    def _resolved(self, X: Any) -> Self:
        return replace(self, sigma=median_distance(X, "cityblock")) if isinstance(self.sigma, str) else self

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        metric_distances(X, Z, "cityblock", needs_number(self, self.sigma), out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def diag(self, X: Any) -> Array:
        """Ones."""
        return np.ones(X.shape[0])
