r"""The weight of the squared errors, in the forms in which formulas have it.

.. math:: \lambda = \frac1\gamma, \qquad d_i = \frac{1}{\gamma v_i}, \qquad t = \log(\lambda - \mathrm{lift})

gamma is what users give; lambda is what is added to the spectrum of K; the ridge d is the diagonal that the errors of
rows with weights v add to K; searches move t. Where rounding makes K indefinite, its spectrum is lifted by the size of
the most negative eigenvalue, and lambda is counted from there on: K + lambda is positive definite only above the lift.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from substrate.arrays import Array, namespace_of
from substrate.errors import DataError

__all__ = ["Regularization"]

#: One weight, or an array of one per output.
Weight = TypeVar("Weight", float, Array)


@dataclass(frozen=True, slots=True)
class Regularization(Generic[Weight]):
    """Weight gamma of the squared errors; ``given_lambda`` is 1/gamma where that was given: 1/(1/x) may not be x."""

    gamma: Weight
    given_lambda: Weight | None = None

    @classmethod
    def from_lambda(cls, lam: Weight) -> "Regularization[Weight]":
        """Return the weight of this lambda, which is kept as it was given."""
        return cls(1.0 / lam, lam)

    @classmethod
    def from_log_lambda(cls, t: Weight, lift: float = 0.0) -> "Regularization[Weight]":
        """Return the weight at a point t of a search, which counts lambda from the lift on."""
        return cls.from_lambda(np.exp(t) + lift)

    @property
    def lam(self) -> Weight:
        """Lambda, 1/gamma."""
        return 1.0 / self.gamma if self.given_lambda is None else self.given_lambda

    def log_lambda(self, lift: float = 0.0) -> Weight:
        """Return t, the logarithm of lambda counted from the lift on."""
        return np.log(self.lam - lift)  # type: ignore[no-any-return]

    def ridge(self, weights: Array) -> Array:
        """Return the diagonal 1/(gamma v) that the errors of rows with these weights add to K.

        :equation [Suykens2002]_ (13): the diagonal 1/(gamma v)
        """
        xp = namespace_of(weights)
        with np.errstate(over="ignore", divide="ignore"):
            ridge: Array = 1.0 / (self.gamma * weights)
        if not bool(xp.all(xp.isfinite(ridge) & (ridge > 0.0))):
            raise DataError(
                f"1/(gamma v) leaves the range of floating point: gamma = {self.gamma:g}, weights between "
                f"{float(xp.min(weights)):g} and {float(xp.max(weights)):g}; rescale the weights or gamma"
            )
        return ridge
