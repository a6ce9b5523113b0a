r"""The Laplacian kernel :math:`k(x, z) = \exp(-\|x - z\|_1 / \sigma)` (scikit-learn's gamma is 1/sigma)."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import EPS, Array
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number, ones, width
from substrate.kernels.distances import median_distance, metric_distances, needs_number
from substrate.kernels.on_device import manhattan_distances
from substrate.namespaces import namespace_of

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
        """True: the width is sigma."""
        return True

    def _resolved(self, X: Any) -> Self:
        return replace(self, sigma=median_distance(X, "cityblock")) if isinstance(self.sigma, str) else self

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        metric_distances(X, Z, "cityblock", needs_number(self, self.sigma), out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The kernel values as a new array in the namespace of the points."""
        distances = manhattan_distances(X, Z, needs_number(self, self.sigma), dtype)
        return namespace_of(X).exp(-distances)

    @property
    def not_smooth(self) -> str:
        """It has a kink."""
        return "it has a kink where x = z; take RBF or Matern(nu > 1)"

    def rounding(self, X: Any) -> float:
        """Distances are right to d + 4 roundings, t exp(-t) is at most 1/e, and the exponential to four."""
        return float(0.37 * (X.shape[1] + 6.0) + 4.0) * EPS / 2.0

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """The formula above."""
        scale = -1 / number(needs_number(self, self.sigma))
        return lambda x, z: (sum(abs(a - b) for a, b in zip(x, z, strict=True)) * scale).exp()

    def diag(self, X: Any) -> Any:
        """Ones."""
        return ones(X)
