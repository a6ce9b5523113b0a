"""Kernels as values: frozen, comparable, hashable, printed as the formula that made them.

Calling a kernel on two point sets returns a matrix and nothing else; storing, factoring and repairing that
matrix is the business of :class:`substrate.gram.Gram`.
"""

from substrate.kernels.algebra import Kernel, Product, Restricted, Scaled, Sum, Symmetric
from substrate.kernels.componentwise import Componentwise
from substrate.kernels.foreign import Foreign, Precomputed, as_kernel
from substrate.kernels.matern import Matern
from substrate.kernels.of_distance import RBF, Categorical, Laplacian, PowerExponential
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
