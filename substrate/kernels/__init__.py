"""Kernels as values: frozen, comparable, hashable, printed as the formula that made them.

Calling a kernel on two point sets returns a matrix and nothing else; storing, factoring and repairing that
matrix is the business of :class:`substrate.operators.gram.Gram`.
"""

from collections.abc import Callable
from typing import Any

from substrate.errors import DeclarationError
from substrate.kernels.componentwise import Componentwise
from substrate.kernels.foreign import Foreign, Precomputed
from substrate.kernels.kernel import Kernel, Product, Restricted, Scaled, Sum, Symmetric
from substrate.kernels.of_distance import RBF, Categorical, Laplacian, Matern, PowerExponential
from substrate.kernels.polynomial import Linear, Polynomial
from substrate.kernels.vector_valued import CurlFree, DivergenceFree, Separable, component_rows

__all__ = [
    "RBF",
    "Categorical",
    "Componentwise",
    "CurlFree",
    "DivergenceFree",
    "Foreign",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "PowerExponential",
    "Precomputed",
    "Product",
    "Restricted",
    "Scaled",
    "Separable",
    "Sum",
    "Symmetric",
    "as_kernel",
    "component_rows",
]

_NAMED: dict[str, Callable[[], Kernel]] = {
    "rbf": RBF,
    "linear": Linear,
    "polynomial": Polynomial,
    "laplacian": Laplacian,
    "matern": Matern,
    "precomputed": Precomputed,
}


def as_kernel(kernel: Any) -> Kernel:
    """Return the kernel given as a Kernel, a name, a callable, or a scikit-learn kernel object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in _NAMED:
            raise DeclarationError(
                f"unknown kernel name {kernel!r}; known are {sorted(_NAMED)}, or pass a Kernel object"
            )
        return _NAMED[kernel]()
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise DeclarationError(f"pass an instance of the kernel, {kernel.__name__}(...), not the class")
    if callable(kernel):
        return Foreign(kernel)
    raise DeclarationError(
        f"kernel must be a Kernel, one of {sorted(_NAMED)}, or a callable of two point sets; received {kernel!r}"
    )
