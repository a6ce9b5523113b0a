"""The selector of an estimator: what chooses the parameters that its model does not take."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from substrate.arrays import Array
from substrate.kernels import Kernel

__all__ = ["Selector"]


@dataclass(frozen=True, eq=False, repr=False)
class Selector:
    """A choice of parameters on the rows of a fit; kinds of it search, and keep what they found."""

    estimator: Any

    @abstractmethod
    def check_rules(self) -> None:
        """Refuse parameters before any work."""

    @abstractmethod
    def candidates(self, X: Any) -> list[Kernel]:
        """Return the kernels to choose from, their widths as numbers."""

    def training_weights(self, weights: Array) -> Array:
        """Return the weights of rows that are given again: zero for those that a fit held out to validate."""
        return weights

    def mend_loaded(self) -> None:
        """Add what files of earlier releases did not hold."""
