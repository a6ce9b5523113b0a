r"""The polynomial kernel :math:`k(x, z) = (x^T z + \tau)^p` with offset :math:`\tau \ge 0`."""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, non_negative
from substrate.errors import DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.linear import inner_products, new_inner_products, refuse_overflow, squared_lengths
from substrate.namespaces import is_device_array

__all__ = ["Polynomial"]


@dataclass(frozen=True, repr=False)
class Polynomial(Kernel):
    """(x'z + offset)^degree; a negative offset would not be positive semi-definite and is refused."""

    degree: int = 3
    offset: float = 1.0

    def __post_init__(self) -> None:
        try:
            degree = operator.index(self.degree)
        except TypeError as error:
            raise DeclarationError(f"degree must be an integer >= 1, received {self.degree!r}") from error
        if degree < 1 or isinstance(self.degree, bool):
            raise DeclarationError(f"degree must be an integer >= 1, received {self.degree!r}")
        object.__setattr__(self, "degree", degree)
        object.__setattr__(self, "offset", non_negative(self.offset, "offset"))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        inner_products(X, Z, out, self)
        self._power(out)

    @np.errstate(over="ignore", invalid="ignore")
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """The same as a new array in the namespace of the points."""
        return refuse_overflow((new_inner_products(X, Z, dtype, self) + self.offset) ** self.degree, self)

    def diag(self, X: Any) -> Any:
        """Powers of the squared lengths."""
        lengths = squared_lengths(X)
        if is_device_array(X):
            return refuse_overflow((lengths + self.offset) ** self.degree, self)
        self._power(lengths)
        return lengths

    def _power(self, values: Array) -> None:
        values += self.offset
        with np.errstate(over="ignore"):
            np.power(values, self.degree, out=values)
        refuse_overflow(values, self)
