"""The base class of kernels: a frozen value that maps two point sets to a matrix.

The operations between kernels are in :mod:`substrate.kernels.algebra`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    Array,
    blocks_beside,
    device_blocks,
    diagonal_set,
    is_device_array,
    namespace_of,
    real_points,
    room_on_device,
    same_home,
    strips,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Derivatives
from substrate.kernels.distances import to_dense
from substrate.kernels.integrals import Integrals
from substrate.kernels.scales import Scales
from substrate.numbers import Double
from substrate.values import Value

__all__ = [
    "LEAST_DIAGONAL",
    "BaseKernel",
    "Formula",
    "Number",
    "SumOfProducts",
    "paired_values",
    "refuse_overflow",
    "symmetric_matrix",
]

#: Makes a number of an exact arithmetic from a plain one; such numbers have ``exp`` and ``sqrt`` besides the operators.
Number = Callable[[float], Any]
#: A kernel as a function of two points, each a sequence of such numbers.
Formula = Callable[[Sequence[Any], Sequence[Any]], Any]
#: Rows of a strip of a symmetric matrix: the squares on its diagonal, computed twice, stay small (measured).
_STRIP = 128
#: Below this k(x, x) may have lost digits to underflow; as a floor it keeps bounds valid at no cost.
LEAST_DIAGONAL = 1e-290


class _Real(float):
    """A plain number with the methods of an exact one."""

    def sqrt(self) -> float:
        """Return the root."""
        return math.sqrt(self)


@dataclass(frozen=True)
class SumOfProducts:
    r"""A kernel as :math:`\sum_t f_t \prod_m k_{tm}`, with the operators of its formula.

    ``products`` are the factors and the kernels of its terms. Evaluated as it was written, a value has gone through at
    most so many ``operations``.
    """

    products: tuple[tuple[float, tuple[Any, ...]], ...]
    operations: int = 0

    def __add__(self, other: "SumOfProducts") -> "SumOfProducts":
        return SumOfProducts(self.products + other.products, self.operations + other.operations + 1)

    def __mul__(self, other: "SumOfProducts") -> "SumOfProducts":
        pairs = tuple((f * g, k + m) for f, k in self.products for g, m in other.products)
        return SumOfProducts(pairs, self.operations + other.operations + 1)

    def __rmul__(self, factor: float) -> "SumOfProducts":
        return SumOfProducts(tuple((factor * f, kernels) for f, kernels in self.products), self.operations + 1)


@dataclass(frozen=True)
class BaseKernel(Value, Derivatives, Integrals, Scales, ABC):
    """A positive semi-definite kernel k(x, z).

    ``kernel(X, Z)`` is the matrix of all k(x_i, z_j), ``kernel(X)`` the symmetric one, ``kernel.diag(X)`` its
    diagonal without the rest. What is not defined by a kernel that is made of others follows from them.
    """

    #: Precedence of the printed formula: 1 for a sum, 2 for a product, 3 for a name.
    binding: ClassVar[int] = 3

    # numpy must defer ``np.float64(2) * kernel`` to this class instead of making an array of kernels
    __array_ufunc__ = None

    @abstractmethod
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return a new array of all k(x_i, z_j) of two checked point sets, in their namespace and this precision.

        The points themselves are float64. The second may be None where the first has the rows of a precomputed matrix.
        """

    @abstractmethod
    def diag(self, X: Any) -> Any:
        """Return the values k(x_i, x_i)."""

    def __call__(self, X: Any, Z: Any = None) -> Any:
        """Return the matrix of all k(x_i, z_j); with X alone, the symmetric matrix of all k(x_i, x_j).

        Tensors of torch and arrays of CuPy stay on their device, and the matrix is of the same library.
        """
        X = real_points(X, "X")
        if Z is None:
            return symmetric_matrix(self, X)
        Z = real_points(Z, "Z")
        same_home(X=X, Z=Z)
        if X.shape[1] != Z.shape[1] and not self.pairwise:
            raise DataError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; they must agree")
        out = _new_matrix(X, Z.shape[0])
        for rows in blocks_beside(X, *out.shape):
            out[rows, :] = self.evaluate(X[rows, :], Z, out.dtype)
        return out

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return p such that a computed k(x, z) is within p sqrt(k(x, x) k(z, z)) of the true one, for all rows of X.

        Zero where the kernel is defined by its values: a precomputed matrix or a user's function. The midpoints of
        :meth:`enclose` are computed ``by_differences``, which may lose fewer digits.
        """
        return 0.0

    def values(self, X: Any, Z: Any) -> Array:
        """Return all k(x_i, z_j) of two checked point sets in numpy, in double precision."""
        return np.asarray(self.evaluate(X, Z, np.float64))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the values into ``out``."""
        out[...] = self.values(X, Z)

    def expand(self, n_features: int) -> SumOfProducts:
        """Return the kernel as a sum of products of kernels that are neither, for points with so many columns."""
        return SumOfProducts(((1.0, (self,)),))

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return all k(x_i, z_j) of rows of one point set, each with a radius; the values of a user are exact."""
        roots = [np.sqrt(np.maximum(to_numpy(self.envelope.diag(points)), LEAST_DIAGONAL)) for points in (X, Z)]
        share = (1.0 if self.envelope is self else 2.0) * max(self.envelope.rounding(X), self.envelope.rounding(Z))
        return Double(self.values(X, Z), share * np.multiply.outer(*roots) if share else 0.0)

    @property
    def inside(self) -> tuple[Any, ...]:
        """The kernels that this one is made of."""
        found: list[Any] = []
        for field in fields(self):
            value = getattr(self, field.name)
            found.extend(value if isinstance(value, tuple) else (value,))
        return tuple(value for value in found if isinstance(value, BaseKernel))

    @property
    def envelope(self) -> "BaseKernel":
        """A kernel that is nowhere smaller on the diagonal, and of which twice the rounding bounds that of this one.

        Another kernel than this one where this one is what cancellation leaves, and may be all but zero.
        """
        return self

    def cost(self, n_features: int) -> int:
        """Return how many kernels without parts are evaluated for one value k(x, z) of points with so many columns.

        A kernel of several parts adds up theirs; one that is evaluated at several points counts once for each.
        """
        return max(1, sum(int(kernel.cost(n_features)) for kernel in self.inside))

    def rank(self, n_features: int) -> int | None:
        """Return how many features :meth:`features` has; None where no finite number suffices."""
        return None

    def features(self, X: Any) -> Array:
        """Return phi(x) for every row x of a dense X, with k(x, z) = phi(x)'phi(z), for kernels of finite
        :meth:`rank`.
        """
        rank = self.rank(X.shape[1])
        if rank is None:
            raise DeclarationError(f"{self!r} has no finite number of features")
        values = np.empty((X.shape[0], rank))
        for number, feature in enumerate(self.exact_features(_Real, [X[:, k] for k in range(X.shape[1])])):
            values[:, number] = feature
        return np.asarray(refuse_overflow(values, self))

    def exact_features(self, number: Number, x: Sequence[Any]) -> Iterable[Any]:
        """Return the same as :meth:`features`, of one point in an exact arithmetic, or of columns of points."""
        raise DataError(f"{self!r} has no features in ball arithmetic")

    def feature_rounding(self) -> float:
        """Return the relative error of a computed feature."""
        return float(max((kernel.feature_rounding() for kernel in self.inside), default=0.0))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the kernel as a function of two points in an exact arithmetic, for proofs."""
        raise DataError(
            f"{self!r} has no formula in ball arithmetic; proofs need kernels of this package, in double precision"
        )

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return groups of columns that are measured by one width, so that their scales should agree."""
        groups = (group for kernel in self.inside for group in kernel.compared_columns(n_features))
        return tuple(dict.fromkeys(groups))

    @property
    def pairwise(self) -> bool:
        """Whether "points" are rows of a precomputed kernel matrix."""
        return any(kernel.pairwise for kernel in self.inside)

    @property
    def trusted(self) -> bool:
        """Whether positive semi-definiteness is known from the formula, not merely claimed by the user."""
        return all(kernel.trusted for kernel in self.inside)

    @property
    def decays(self) -> bool:
        """Whether the kernel falls from one to zero with the distance, at a rate that a width sets."""
        return bool(self.inside) and all(kernel.decays for kernel in self.inside)

    def mirrors(self, X: Any) -> bool:
        """Return whether k(-x, -z) = k(x, z): by the formula, or for a function from elsewhere on some points."""
        if self.trusted:
            return True
        sample = X[:: -(-X.shape[0] // 500), :]
        K, mirrored = to_numpy(self(sample)), to_numpy(self(-sample))
        return bool(np.abs(K - mirrored).max() <= 1e-8 * np.abs(K).max())

    def resolved(self, X: Any) -> Self:
        """Return the same kernel with every data-dependent width replaced by its number for X."""
        return self._resolve(X if is_device_array(X) else real_points(X))

    def _resolve(self, X: Any) -> Self:
        return self

    def __repr__(self) -> str:
        inside = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{type(self).__name__}({inside})"

    def _bracket(self, binding: int) -> str:
        return repr(self) if self.binding >= binding else f"({self!r})"


def refuse_overflow(values: Any, kernel: BaseKernel) -> Any:
    """Return the values; refuse them unless all are finite."""
    xp = namespace_of(values)
    if not bool(xp.all(xp.isfinite(values))):
        raise DataError(f"{kernel!r} overflows on these points; scale X first, for instance to unit variance")
    return values


def paired_values(kernel: BaseKernel, X: Any, Z: Any) -> Any:
    """Return k(x_i, z_i), in blocks of few rows, for kernels that have no formula for it."""
    xp = namespace_of(X)
    blocks = (kernel.evaluate(X[rows, :], Z[rows, :], xp.float64) for rows in strips(X.shape[0], 64))
    return xp.concat([xp.linalg.diagonal(block) for block in blocks])


def symmetric_matrix(kernel: BaseKernel, X: Any) -> Any:
    """Return all k(x_i, x_j) in one array: the upper blocks are computed, the lower ones mirrored."""
    n, xp = X.shape[0], namespace_of(X)
    if kernel.pairwise:
        K, points = kernel.evaluate(X, X, xp.float64), to_dense(X)
        # a product with another kernel may round differently on either side of the diagonal
        return (K + K.T) / 2.0 if X.shape[0] == X.shape[1] and bool(xp.all(points == points.T)) else K
    K = _new_matrix(X, n)
    for rows in device_blocks(n, n) if is_device_array(X) else strips(n, _STRIP):
        block = kernel.evaluate(X[rows, :], X[rows.start :, :], K.dtype)
        size = rows.stop - rows.start
        K[rows, rows.start :] = block
        K[rows.stop :, rows] = block[:, size:].T
        square = block[:, :size]  # each of its triangles has its own rounding
        K[rows, rows] = xp.triu(square) + xp.triu(square, k=1).T
    diagonal_set(K, kernel.diag(X))
    return K


def _new_matrix(X: Any, n_columns: int) -> Any:
    """Return room for a kernel matrix beside its points, refused before anything is allocated."""
    shape = (X.shape[0], n_columns)
    if not is_device_array(X):
        return np.empty(shape)
    what = f"a {shape[0]} x {shape[1]} kernel matrix"
    room_on_device(X, 8.0 * shape[0] * shape[1], what, "take a reduced set of rows.")
    return zeros_beside(X, shape)
