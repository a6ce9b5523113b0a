"""Kernels as values: frozen, comparable, hashable, printed as the formula that made them.

Calling a kernel on two point sets returns a matrix and nothing else; storing, factoring and repairing that
matrix is the business of :class:`substrate.gram.Gram`.
"""

from substrate.kernels.algebra import Kernel, Product, Sum
from substrate.kernels.categorical import Categorical
from substrate.kernels.componentwise import Componentwise
from substrate.kernels.directions import component_rows
from substrate.kernels.foreign import Foreign, Precomputed, as_kernel
from substrate.kernels.laplacian import Laplacian
from substrate.kernels.linear import Linear
from substrate.kernels.matern import Matern
from substrate.kernels.nested import Restricted, Scaled
from substrate.kernels.polynomial import Polynomial
from substrate.kernels.power_exponential import PowerExponential
from substrate.kernels.rbf import RBF
from substrate.kernels.separable import Separable
from substrate.kernels.single_precision import SinglePrecision
from substrate.kernels.symmetric import Symmetric
from substrate.kernels.vector_fields import CurlFree, DivergenceFree

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
    "SinglePrecision",
    "Sum",
    "Symmetric",
    "as_kernel",
    "component_rows",
]
