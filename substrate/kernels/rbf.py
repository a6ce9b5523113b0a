r"""The radial basis function kernel.

.. math:: k(x, z) = \exp\!\left(-\frac{\|x - z\|^2}{\sigma^2}\right)

This is the form all five source papers use ([Pelckmans2005]_ after eq. (3), [Suykens2002]_ after eq. (9));
scikit-learn's ``gamma`` is 1/sigma^2.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from substrate.arrays import EPS, Array
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number, ones, width
from substrate.kernels.distances import (
    differences,
    exact_squared_distance,
    median_distance,
    metric_distances,
    needs_number,
    scaled_squared_distances,
    squared_distance_error,
)
from substrate.kernels.on_device import negative_squared_distances
from substrate.namespaces import namespace_of

__all__ = ["RBF"]

_ROOT_LOG2_E = 1.4426950408889634**0.5


@dataclass(frozen=True, repr=False)
class RBF(Kernel):
    """exp(-||x - z||^2 / sigma^2); ``sigma="median"`` takes the median distance of the training points."""

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
        return replace(self, sigma=median_distance(X)) if isinstance(self.sigma, str) else self

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        sigma = needs_number(self, self.sigma)
        # 2^(x log2 e) is e^x, and a power of two is a tenth cheaper than the exponential
        scaled_squared_distances(X, Z, _ROOT_LOG2_E / sigma, -1.0, out)
        np.exp2(out, out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The kernel values as a new array in the namespace of the points."""
        xp = namespace_of(X)
        values = negative_squared_distances(X, Z, 1.0 / needs_number(self, self.sigma), dtype)
        if dtype != X.dtype:
            values = xp.clip(values, max=0.0)  # rounding may exceed zero where the kernel is one
        return xp.exp(values)

    @property
    def not_smooth(self) -> str:
        """Empty: it has derivatives of all orders."""
        return ""

    def _gradient(self, X: Array, Z: Array, column: int) -> Array:
        """-2 (x_c - z_c)/sigma^2 k(x, z)."""
        sigma = needs_number(self, self.sigma)
        return np.asarray(-2.0 / sigma * (differences(X, Z, column) / sigma) * self(X, Z))

    def _mixed_derivative(self, X: Array, Z: Array, column: int, other: int) -> Array:
        """(2 [c = d] - 4 (x_c - z_c)(x_d - z_d)/sigma^2) k(x, z)/sigma^2."""
        sigma = needs_number(self, self.sigma)
        pulls = 4.0 * (differences(X, Z, column) / sigma) * (differences(X, Z, other) / sigma)
        return np.asarray((2.0 * (column == other) - pulls) * self(X, Z) / sigma / sigma)

    def rounding(self, X: Any) -> float:
        """The absolute error of the exponent, and that of the exponential."""
        error = squared_distance_error(X, 1.0 / needs_number(self, self.sigma))
        return float(error + (X.shape[1] + 10.0) * EPS)

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """By plain differences."""
        metric_distances(X, Z, "euclidean", needs_number(self, self.sigma), out)
        with np.errstate(over="ignore"):
            np.square(out, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def careful_rounding(self, X: Any) -> float:
        """t exp(-t) is at most 1/e, and differences are right to a few units in the last place."""
        return float(0.37 * (X.shape[1] + 8.0) + 3.0) * EPS / 2.0

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """The formula above."""
        scale = -1 / number(needs_number(self, self.sigma)) ** 2
        return lambda x, z: (exact_squared_distance(x, z) * scale).exp()

    def diag(self, X: Any) -> Any:
        """Ones."""
        return ones(X)
