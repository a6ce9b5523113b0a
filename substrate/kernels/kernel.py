r"""Kernels as frozen values, and the operations that keep them positive semi-definite.

Sums, products, non-negative multiples, the restriction to columns, and the even or the odd part are nodes:
``k1 * k2 + k3`` is evaluated and printed as written. A node has one formula, ``combine``, for values in whatever
arithmetic: arrays of any library, balls, nodes of a graph.

The scales of a kernel are its positive parameters by name. A search over them needs the slope of a criterion
:math:`c(\Omega)` of the kernel matrix,

.. math:: \frac{\partial c}{\partial \log s} = \sum_{ij} W_{ij} \, \frac{\partial k(x_i, z_j)}{\partial \log s},
          \qquad W_{ij} = \frac{\partial c}{\partial \Omega_{ij}},

for all of them at once.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import (
    Array,
    blas_threads,
    blocks_beside,
    device_blocks,
    diagonal_set,
    is_device_array,
    namespace_of,
    non_negative,
    positive,
    real_array,
    real_points,
    room_on_device,
    same_home,
    strips,
    take_columns,
    to_dense,
    to_numpy,
    zeros_beside,
)
from substrate.errors import DataError, DeclarationError
from substrate.kernels.derivatives import Orders, Plain, checked_orders, differentiate_formula
from substrate.numbers import ROUNDED_ONCE, Double, at_most, block_length, relative_rounding
from substrate.values import Value

__all__ = [
    "LEAST_DIAGONAL",
    "Composite",
    "Formula",
    "Kernel",
    "Number",
    "Product",
    "Restricted",
    "Scaled",
    "Sum",
    "Symmetric",
    "checked_boxes",
    "column_tuple",
    "paired_values",
    "refuse_overflow",
    "symmetric_matrix",
    "volumes",
]

#: Makes a number of an exact arithmetic from a plain one; such numbers have ``exp`` and ``sqrt`` besides the operators.
Number = Callable[[float], Any]
#: A kernel as a function of two points, each a sequence of such numbers.
Formula = Callable[[Sequence[Any], Sequence[Any]], Any]
#: Rows of a strip of a symmetric matrix: the squares on its diagonal, computed twice, stay small (measured).
_STRIP = 128
#: Below this k(x, x) may have lost digits to underflow; as a floor it keeps bounds valid at no cost.
LEAST_DIAGONAL = 1e-290
#: A factor above which digits that k(x, x) lost to underflow may show.
_LARGE = 1e10
#: Factors beyond which values may overflow, also in single precision.
_HUGE = 1e30
#: Parameters that select a formula rather than a scale.
_FIXED = ("center", "degree", "matrix", "mixing", "nu", "p", "q")
#: Rows of a block of slopes in the scales: small enough for its entries to stay in a core's cache.
_ROWS = 128


@dataclass(frozen=True)
class Kernel(Value, ABC):
    """A positive semi-definite kernel k(x, z), with its operators.

    ``kernel(X, Z)`` is the matrix of all k(x_i, z_j), ``kernel(X)`` the symmetric one, ``kernel.diag(X)`` its
    diagonal without the rest. ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels again; ``k.on(0, 2)`` uses columns 0
    and 2 only. What is not defined by a kernel that is made of others follows from them.
    """

    #: Precedence of the printed formula: 1 for a sum, 2 for a product, 3 for a name.
    binding: ClassVar[int] = 3

    # numpy must defer ``np.float64(2) * kernel`` to this class instead of making an array of kernels
    __array_ufunc__ = None

    @abstractmethod
    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return a new array of all k(x_i, z_j) of two checked point sets, in their namespace and this precision.

        The points themselves are float64. The second may be None if the first has the rows of a precomputed matrix.
        """

    def diag(self, X: Any) -> Any:
        """Return the values k(x_i, x_i)."""
        return paired_values(self, X, X)

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

    def value_rounding(self, X: Any) -> float:
        """Return the rounding of a kernel value as a share of the envelope's diagonal: of another envelope, twice its
        rounding.
        """
        return self.envelope.rounding(X) * (1.0 if self.envelope is self else 2.0)

    def values(self, X: Any, Z: Any) -> Array:
        """Return all k(x_i, z_j) of two checked point sets in numpy, in double precision."""
        return np.asarray(self.evaluate(X, Z, np.float64))

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the values into ``out``."""
        out[...] = self.values(X, Z)

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return all k(x_i, z_j) of rows of one point set, each with a radius; the values of a user are exact."""
        roots = [np.sqrt(np.maximum(to_numpy(self.envelope.diag(points)), LEAST_DIAGONAL)) for points in (X, Z)]
        share = max(self.value_rounding(X), self.value_rounding(Z))
        return Double(self.values(X, Z), share * np.multiply.outer(*roots) if share else 0.0)

    @property
    def inside(self) -> tuple[Any, ...]:
        """The kernels that this one is made of."""
        kernels: list[Any] = []
        for field in fields(self):
            value = getattr(self, field.name)
            kernels.extend(value if isinstance(value, tuple) else (value,))
        return tuple(value for value in kernels if isinstance(value, Kernel))

    @property
    def envelope(self) -> "Kernel":
        """The kernel whose diagonal is nowhere smaller, and twice whose rounding bounds the rounding of this one.

        It differs from this kernel where cancellation may leave values of almost zero.
        """
        return self

    def rank(self, n_features: int) -> int | None:
        """Return the dimension of the space of its functions; None if it is not finite, or not known."""
        return None

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
        """Return whether "points" are rows of a precomputed kernel matrix."""
        return any(kernel.pairwise for kernel in self.inside)

    @property
    def trusted(self) -> bool:
        """Return whether positive semi-definiteness follows from the formula and is not merely claimed by the user."""
        return all(kernel.trusted for kernel in self.inside)

    @property
    def decays(self) -> bool:
        """Return whether the kernel falls from one to zero with the distance, at a rate that a width sets."""
        return bool(self.inside) and all(kernel.decays for kernel in self.inside)

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

    @property
    def not_smooth(self) -> str:
        """Why the kernel has no derivatives, and what to do instead; empty if it has."""
        if not self.inside:
            return (
                "their formula is not known; take RBF, Linear, Polynomial or Matern(nu > 1), or differences of values"
            )
        return next((kernel.not_smooth for kernel in self.inside if kernel.not_smooth), "")

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the largest order of a derivative in these inputs that is a bounded functional of w; infinity for
        all.
        """
        if self.not_smooth:
            return 0.0
        orders = (kernel.largest_order([column]) for kernel in self.inside for column in columns)
        return float(min(orders, default=math.inf))

    def derivative(self, X: Any, Z: Any, left: Any, right: Any = None) -> Array:
        """Return the derivatives of k(x_i, z_j), of orders ``left`` in the inputs of x_i and ``right`` in z_j.

        Orders are mappings from columns: ``kernel.derivative(X, Z, {0: 2}, {1: 1})``.
        """
        rows, columns = _dense(X, "X"), _dense(Z, "Z")
        if rows.shape[1] != columns.shape[1]:
            raise DataError(f"X has {rows.shape[1]} columns and Z has {columns.shape[1]}; they must agree")
        a, b = (checked_orders(orders, rows.shape[1]) for orders in (left, {} if right is None else right))
        for orders in (a, b):
            self.refuse_orders(orders)
        return self._derivative(rows, columns, a, b)

    def refuse_orders(self, orders: Orders) -> None:
        """Raise with the reason where functions of the kernel have no derivatives of so high an order."""
        order, largest = sum(orders.values()), self.largest_order(orders.keys())
        if order <= largest:
            return
        if self.not_smooth:
            raise DeclarationError(f"{self!r} has no derivatives: {self.not_smooth}")
        raise DeclarationError(
            f"functions of {self!r} have derivatives up to order {largest:g} there, received order {order}; "
            "take a smoother kernel (Matern with a larger nu, or RBF)"
        )

    def _derivative(self, X: Array, Z: Array, left: Orders, right: Orders) -> Array:
        """Return the same as :meth:`derivative`, of two checked dense point sets: by the formula of the kernel."""
        x, z = Plain.of(X.T[:, :, None]), Plain.of(Z.T[:, None, :])
        formula = self.exact_formula(Plain.of, X.shape[1])
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            values = differentiate_formula(formula, list(x), list(z), left, right)
        return np.array(np.broadcast_to(refuse_overflow(np.asarray(values), self), (X.shape[0], Z.shape[0])))

    def integral(self, X: Any, boxes: Any, orders: Mapping[Any, int] | None = None) -> Array:
        """Return the integrals of k(x_i, z) over z in each box, differentiated in x by ``orders``, by column.

        A column of a box whose two ends are the same is taken at that point.
        """
        points = _dense(X, "X")
        checked = checked_orders(orders or {}, points.shape[1])
        flat = np.stack([points, points], axis=-1)
        return self._integral(flat, checked_boxes(boxes, points.shape[1], flat=True), checked)

    def double_integral(self, boxes: Any, others: Any) -> Array:
        """Return the integrals of k(x, z) over all x in one box and all z in another, for all pairs of boxes."""
        n_features = np.asarray(boxes).shape[-2]
        left, right = (checked_boxes(each, n_features, flat=True) for each in (boxes, others))
        return self._integral(left, right, {})

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the integrals over x in one box and z in another; ``orders`` belong to boxes that are points.

        A kernel without a closed form raises with what to do instead.
        """
        raise DeclarationError(
            f"{self!r} has no integrals over boxes in closed form: none is known; take RBF, Laplacian, a polynomial, "
            "Matern on one column each (Componentwise), or sum values with the weights of a quadrature rule"
        )

    def scales(self) -> dict[str, float]:
        """Return the positive parameters that set a scale, by the names of :meth:`get_params`.

        One width per column gives ``sigma[0]``, ``sigma[1]``, ..., a list of components ``kernel[0]__kernel__sigma``.
        Parameters that are zero, and those that select a formula (``degree``, ``nu``, ``p``, ``q``), are none.
        """
        by_name: dict[str, float] = {}
        self._map_scales(by_name.setdefault, "")
        return by_name

    def with_scales(self, values: Mapping[str, float]) -> Self:
        """Return the same kernel with some of its :meth:`scales` replaced."""
        present = self.scales()
        for name in values:
            if name not in present:
                raise DeclarationError(f"{self!r} has no scale {name!r}; it has {list(present)}")
        checked = {name: positive(value, name) for name, value in values.items()}
        return self._map_scales(lambda name, scale: checked.get(name, scale), "")

    def _map_scales(self, change: Callable[[str, float], float], start: str) -> Self:
        """Return the kernel with every scale changed, a function of its name after ``start`` and of its value."""

        def changed(name: str, value: Any) -> Any:
            if isinstance(value, Kernel):
                return value._map_scales(change, f"{name}__")
            if isinstance(value, tuple):
                return tuple(changed(f"{name}[{number}]", entry) for number, entry in enumerate(value))
            if isinstance(value, str) and value in ("median", "each"):
                raise DeclarationError(f"{self!r} depends on data; call kernel.resolved(X) first (estimators do)")
            return change(name, value) if isinstance(value, float) and value > 0.0 else value

        names = [field.name for field in fields(self) if field.name not in _FIXED]
        new = {name: changed(f"{start}{name}", getattr(self, name)) for name in names}
        is_same = all(value == getattr(self, name) for name, value in new.items())
        return self if is_same else replace(self, **new)

    def scale_gradient(self, X: Any, Z: Any, weights: Any) -> Array:
        """Return the sums of ``weights[i, j]`` times the derivative of k(x_i, z_j) in the logarithm of each scale.

        Parameters
        ----------
        X, Z
            Points, n x d and m x d.
        weights
            One number per pair, n x m; with the same array for X and Z, half of the pairs are evaluated.

        Returns
        -------
        array
            One number per entry of :meth:`scales`, in that order.
        """
        left = _dense(X, "X")
        right, W = left if Z is X else _dense(Z, "Z"), np.asarray(weights)
        total = np.zeros(len(self.scales()))
        symmetric = right is left and self.trusted  # of two pairs (i, j) and (j, i), one suffices
        for start in range(0, left.shape[0], _ROWS):
            rows = slice(start, min(start + _ROWS, left.shape[0]))
            if symmetric:
                beyond = np.hstack([W[rows, rows], W[rows, rows.stop :] + W[rows.stop :, rows].T])
                total += self._scale_gradient(left[rows], left[start:], beyond)
            else:
                total += self._scale_gradient(left[rows], right, W[rows])
        return total

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the same as :meth:`scale_gradient`, of two checked dense point sets."""
        if not self.scales():
            return np.zeros(0)
        raise DeclarationError(
            f"{self!r} has no derivatives in its scales: their formula is not known; take a kernel of this package, "
            "give its class a `_scale_gradient`, or search over a grid of widths"
        )

    def expansion_values(self, points: Any, a: Array, b: Any, X: Any, columns: Any = None) -> Array:
        """Return sum_i a_i k(x_i, x) + b for every row x of X, in memory that does not grow with the rows.

        ``a`` has one column per output, or none. ``points`` are the x_i. A precomputed kernel has none: its rows X hold
        kernel values, of the x_i in ``columns``. On the host sums are formed in blocks, too: less is lost than in one.
        """
        result: Array = zeros_beside(a, (X.shape[0], *a.shape[1:]))
        is_on_device, xp = is_device_array(X), namespace_of(a)
        if a.shape[0] == 0:  # only the bias is left
            result += b
            return result
        buffer = None if is_on_device else np.empty((256, a.shape[0]))
        with blas_threads(a.shape[0]):
            for rows in blocks_beside(a, X.shape[0], a.shape[0]):
                rows_of_X = X[rows, :]
                if self.pairwise and columns is not None:
                    rows_of_X = take_columns(rows_of_X, columns)
                if buffer is None:
                    columns_of_X = a if points is None else points  # of a matrix only the number of columns matters
                    result[rows, ...] = self.evaluate(rows_of_X, columns_of_X, xp.float64) @ a
                    continue
                block = buffer[: rows.stop - rows.start]
                self.fill(rows_of_X, points, block)
                for terms in strips(a.shape[0], block_length(a.shape[0])):
                    result[rows] += block[:, terms] @ a[terms]
        result += b
        return result

    def on(self, *columns: int) -> "Kernel":
        """Return this kernel restricted to the given columns of its input."""
        return Restricted(self, columns)

    def __add__(self, right: Any) -> "Kernel":
        return Sum(self, right) if isinstance(right, Kernel) else NotImplemented

    def __mul__(self, right: Any) -> "Kernel":
        return Product(self, right) if isinstance(right, Kernel) else self.__rmul__(right)

    def __rmul__(self, left: Any) -> "Kernel":
        return Scaled(left, self)


def _dense(points: Any, name: str) -> Array:
    if is_device_array(points):
        raise DeclarationError(
            f"derivatives and integrals are computed by numpy; pass a numpy array, {name}.cpu().numpy() or {name}.get()"
        )
    return np.asarray(to_dense(real_points(points, name)))


def checked_boxes(boxes: Any, n_features: int, *, flat: bool = False) -> Array:
    """Return boxes as an array of shape (m, n_features, 2), from one box (n_features, 2) or several.

    ``flat`` says whether the two ends of a column may be the same.
    """
    numbers = real_array(boxes, "box", ndim=(2, 3))
    stacked = numbers[None] if numbers.ndim == 2 else numbers
    if stacked.shape[1:] != (n_features, 2):
        raise DataError(
            f"a box has a lower and an upper end for each of the {n_features} columns: expected shape "
            f"({n_features}, 2), received {numbers.shape if numbers.ndim == 2 else numbers.shape[1:]}"
        )
    if not ((stacked[..., 0] < stacked[..., 1]) | (flat & (stacked[..., 0] == stacked[..., 1]))).all():
        raise DataError("every lower end of a box must be below its upper end")
    return stacked


def volumes(boxes: Array) -> Array:
    """Return the volumes of boxes; a column whose ends are the same is a point mass of one."""
    lengths = boxes[..., 1] - boxes[..., 0]
    return np.asarray(np.prod(np.where(lengths > 0.0, lengths, 1.0), axis=-1))


def refuse_overflow(values: Any, kernel: Kernel) -> Any:
    """Return the values; refuse them unless all are finite."""
    xp = namespace_of(values)
    if not bool(xp.all(xp.isfinite(values))):
        raise DataError(f"{kernel!r} overflows on these points; scale X first, for instance to unit variance")
    return values


def paired_values(kernel: Kernel, X: Any, Z: Any) -> Any:
    """Return k(x_i, z_i), in blocks of few rows, for kernels that have no formula for it."""
    xp = namespace_of(X)
    blocks = (kernel.evaluate(X[rows, :], Z[rows, :], xp.float64) for rows in strips(X.shape[0], 64))
    return xp.concat([xp.linalg.diagonal(block) for block in blocks])


def symmetric_matrix(kernel: Kernel, X: Any) -> Any:
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
    """Return an empty kernel matrix where its points are; refuse it before anything is allocated if there is no
    room.
    """
    shape = (X.shape[0], n_columns)
    room_on_device(X, 8.0 * shape[0] * shape[1], f"a {shape[0]} x {shape[1]} kernel matrix", "take fewer rows.")
    return zeros_beside(X, shape)


class Composite(Kernel):
    """A kernel made of others by a formula of their values: their sum unless it says otherwise."""

    #: Fields that are kernels.
    made_of: ClassVar[tuple[str, ...]] = ("kernel",)
    #: Why no part can be a precomputed matrix, where it cannot.
    no_matrix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name in self.made_of:
            if not isinstance(getattr(self, name), Kernel):
                raise DeclarationError(
                    f"{type(self).__name__} is made of other kernels, received {getattr(self, name)!r} as its {name}"
                )
        if self.no_matrix and self.pairwise:
            raise DeclarationError(self.no_matrix)

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the value from the values of all parts, in any arithmetic."""
        return reduce(operator.add, values)

    def parts(self, n_features: int) -> Sequence[Kernel]:
        """Return the kernels whose values are combined, for points with so many columns."""
        return self.inside

    def _points(self, X: Any) -> Any:
        """Return the points of the parts."""
        return X

    def enclose(self, X: Any, Z: Any) -> Double:
        """Return the combined values of the parts, each with a radius."""
        values: Double = self._combined(X, Z, lambda part, x, z: part.enclose(x, z))
        return values

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the combined values as a new array."""
        return self._combined(X, Z, lambda part, x, z: part.evaluate(x, z, dtype))

    def _combined(self, X: Any, Z: Any, read: Callable[[Kernel, Any, Any], Any]) -> Any:
        x, z = self._points(X), None if Z is None else self._points(Z)
        return self.combine(read(part, x, z) for part in self.parts(X.shape[1]))

    def diag(self, X: Any) -> Any:
        """Return the combined diagonals."""
        points = self._points(X)
        return self.combine(part.diag(points) for part in self.parts(X.shape[1]))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the combined formulas of the parts."""
        formulas = [part.exact_formula(number, n_features) for part in self.parts(n_features)]
        return lambda x, z: self.combine(formula(x, z) for formula in formulas)

    def _resolve(self, X: Any) -> Self:
        points = self._points(X)
        return replace(self, **{name: getattr(self, name).resolved(points) for name in self.made_of})

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the sum of the integrals of all parts."""
        return np.asarray(sum(term._integral(boxes, others, orders) for term in self.parts(boxes.shape[1])))

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the largest rounding of a part, plus the rounding of the sum: by Cauchy and Schwarz the bounds of all
        values add up to at most the bound of the sum.
        """
        points, parts = self._points(X), self.parts(X.shape[1])
        return max(part.rounding(points, by_differences) for part in parts) + relative_rounding(float(len(parts)))

    def rank(self, n_features: int) -> int | None:
        """Count the features of all parts."""
        ranks = [term.rank(n_features) for term in self.parts(n_features)]
        return None if None in ranks else sum(rank for rank in ranks if rank is not None)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of all parts."""
        x, z = self._points(X), self._points(Z)
        return np.concatenate([part._scale_gradient(x, z, weights) for part in self.parts(X.shape[1])])


def may_enlarge(values: Any, factors: Any) -> bool:
    """Return whether the smallest value may have lost digits to underflow that the largest factor would reveal."""
    lowest, highest = namespace_of(values).min(values), namespace_of(factors).max(factors)
    return bool(lowest < LEAST_DIAGONAL and highest > _LARGE)


def _columns_of(kernel: Kernel) -> set[int]:
    """Return the columns that a kernel depends on; none if they are not stated."""
    if isinstance(kernel, Restricted):
        return set(kernel.columns)
    inside = [_columns_of(part) for part in kernel.inside]
    return set[int]().union(*inside) if all(inside) else set()


@dataclass(frozen=True, repr=False)
class Sum(Composite):
    """k(x, z) = left(x, z) + right(x, z)."""

    left: Kernel
    right: Kernel
    binding: ClassVar[int] = 1
    made_of = ("left", "right")

    def __repr__(self) -> str:
        return f"{self.left._bracket(1)} + {self.right._bracket(2)}"


@dataclass(frozen=True, repr=False)
class Product(Composite):
    """k(x, z) = left(x, z) right(x, z), positive semi-definite by Schur's product theorem."""

    left: Kernel
    right: Kernel
    binding: ClassVar[int] = 2
    made_of = ("left", "right")

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the product."""
        left, right = values
        return left * right

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return both together; no bound is known where a value that underflows is enlarged by the other side."""
        left, right = (side.diag(X) for side in self.inside)
        if may_enlarge(left, right) or may_enlarge(right, left):
            return math.inf
        return at_most(sum(side.rounding(X, by_differences) for side in self.inside)) + ROUNDED_ONCE

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the product of the integrals of sides on different columns: each is times the lengths of the columns
        of the other, and of columns that no kernel depends on.
        """
        columns = [_columns_of(side) for side in self.inside]
        if not all(columns) or set.intersection(*columns):
            raise DeclarationError(
                f"{self!r} has no integrals over boxes in closed form: a product has them where "
                "its sides are on different columns, as k.on(0) * m.on(1); sum values in the place of this one, as "
                "s.integral(Measure.of_points(points, weights)) of a quadrature rule"
            )
        if not set(orders) <= set.union(*columns):
            return np.zeros((boxes.shape[0], others.shape[0]))
        left, right = (
            side._integral(boxes, others, {c: order for c, order in orders.items() if c in columns_of_side})
            for side, columns_of_side in zip(self.inside, columns, strict=True)
        )
        return np.asarray(left * right / np.multiply.outer(volumes(boxes), volumes(others)))

    def rank(self, n_features: int) -> int | None:
        """Return the number of products of two features."""
        left, right = (side.rank(n_features) for side in self.inside)
        return None if left is None or right is None else left * right

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the derivatives of both, each side weighted by the other's values."""
        k, m = self.left, self.right
        sides = (k._scale_gradient(X, Z, weights * m(X, Z)), m._scale_gradient(X, Z, weights * k(X, Z)))
        return np.concatenate(sides)

    def __repr__(self) -> str:
        return f"{self.left._bracket(2)} * {self.right._bracket(3)}"


@dataclass(frozen=True, repr=False)
class Scaled(Composite):
    """k(x, z) = factor kernel(x, z) with factor >= 0."""

    factor: float
    kernel: Kernel
    binding: ClassVar[int] = 2

    def __post_init__(self) -> None:
        factor = non_negative(self.factor, "the factor of a kernel")
        super().__post_init__()
        object.__setattr__(self, "factor", factor)

    @property
    def decays(self) -> bool:
        """Return whether the kernel inside decays, and the factor is not zero."""
        return self.factor > 0.0 and self.kernel.decays

    @np.errstate(over="ignore", invalid="ignore")
    def combine(self, values: Iterator[Any]) -> Any:
        """Return the multiple."""
        multiple = self.factor * next(values)
        return refuse_overflow(multiple, self) if self.factor > _HUGE and hasattr(multiple, "dtype") else multiple

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of the kernel inside; none is known where values that underflow are enlarged."""
        diagonal, factor = self.kernel.diag(X), np.array([self.factor])
        if may_enlarge(diagonal, factor) or may_enlarge(factor, diagonal):
            return math.inf
        return self.kernel.rounding(X, by_differences) + ROUNDED_ONCE

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Return the multiple of the integral."""
        return self.factor * super()._integral(boxes, others, orders)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the value itself in the logarithm of the factor, and the multiple of the inner kernel's."""
        inside = self.kernel._scale_gradient(X, Z, self.factor * weights)
        return np.append(np.vdot(weights, self(X, Z)), inside) if self.factor > 0.0 else inside

    def __repr__(self) -> str:
        return f"{self.factor!r} * {self.kernel._bracket(3)}"


def _has_mirrored_part(kernel: Kernel) -> bool:
    return any(isinstance(part, Symmetric) or _has_mirrored_part(part) for part in kernel.inside)


def column_tuple(columns: Any) -> tuple[int, ...]:
    """Return column numbers as a tuple of distinct non-negative integers."""
    columns_given = columns if isinstance(columns, Iterable) and not isinstance(columns, str) else (columns,)
    try:
        numbers = tuple(operator.index(column) for column in columns_given)
    except TypeError as error:
        raise DeclarationError(f"columns are integers, received {columns!r}") from error
    if not numbers or min(numbers) < 0 or len(set(numbers)) != len(numbers):
        raise DeclarationError(f"columns must be distinct and non-negative, at least one; received {columns!r}")
    return numbers


@dataclass(frozen=True, repr=False)
class Restricted(Composite):
    """The kernel ``kernel`` on the columns ``columns``; written ``kernel.on(0, 2)``."""

    kernel: Kernel
    columns: tuple[int, ...]
    no_matrix = "a precomputed matrix has no input columns to be restricted to"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", column_tuple(self.columns))

    def _points(self, X: Any) -> Any:
        """Return the columns."""
        if max(self.columns) >= X.shape[1]:
            raise DataError(f"{self!r} asks for column {max(self.columns)}, the points have {X.shape[1]} columns")
        return take_columns(X, self.columns)

    def _orders(self, orders: Orders) -> Orders | None:
        """Return the orders in the columns of the kernel inside; None if one is in another column."""
        if not set(orders) <= set(self.columns):
            return None
        return {self.columns.index(column): order for column, order in orders.items()}

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return the groups of the kernel inside, as columns of the whole input."""
        inside = self.kernel.compared_columns(len(self.columns))
        return tuple(tuple(self.columns[column] for column in group) for group in inside)

    def _integral(self, boxes: Array, others: Array, orders: Orders) -> Array:
        """Multiply by the lengths of all other columns; a derivative in those is zero."""
        inside = self._orders(orders)
        if inside is None:
            return np.zeros((boxes.shape[0], others.shape[0]))
        left, right = (each[:, list(self.columns)] for each in (boxes, others))
        lengths = np.multiply.outer(volumes(boxes) / volumes(left), volumes(others) / volumes(right))
        return np.asarray(self.kernel._integral(left, right, inside) * lengths)

    def largest_order(self, columns: Collection[int]) -> float:
        """Return the order of the kernel inside; derivatives in any other column are zero, and all of them exist."""
        inside = self._orders(dict.fromkeys(columns, 1))
        return math.inf if inside is None else self.kernel.largest_order(list(inside))

    def rank(self, n_features: int) -> int | None:
        """Count the features of the kernel inside, on its columns."""
        return self.kernel.rank(len(self.columns))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the formula of the kernel inside, on its columns."""
        inner = self.kernel.exact_formula(number, len(self.columns))
        return lambda x, z: inner([x[k] for k in self.columns], [z[k] for k in self.columns])

    def __repr__(self) -> str:
        return f"{self.kernel._bracket(3)}.on({', '.join(map(str, self.columns))})"


@dataclass(frozen=True, repr=False)
class Symmetric(Composite):
    r"""(kernel(x, z) + s kernel(-x, z)) / 2 with s = 1 for ``symmetry="even"`` and -1 for ``"odd"``.

    Where :math:`k(-x, -z) = k(x, z)` it has the features :math:`\tfrac12 (\varphi(x) + s\, \varphi(-x))`, so it is
    positive semi-definite, and every expansion in it is even or odd [Espinoza2005]_. All kernels of this package have
    that property; of a function it is checked on the training points, and a precomputed matrix, which has no points to
    mirror, is refused.
    """

    kernel: Kernel
    symmetry: str = "even"
    no_matrix = "a precomputed matrix has no mirrored points; pass X and the kernel itself"
    _integral = Kernel._integral

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.symmetry not in ("even", "odd"):
            raise DeclarationError(f"symmetry must be 'even' or 'odd', received {self.symmetry!r}")
        if _has_mirrored_part(self.kernel):
            raise DeclarationError(f"{self.kernel!r} has a mirrored part already; mirror every part once")

    @property
    def envelope(self) -> Kernel:
        """The envelope of the kernel inside, of whose values this one is the half sum or difference."""
        return self.kernel.envelope

    def _resolve(self, X: Any) -> Self:
        if not self.kernel.trusted:
            sample = X[:: -(-X.shape[0] // 500), :]
            K, mirrored = to_numpy(self.kernel(sample)), to_numpy(self.kernel(-sample))
            if not np.abs(K - mirrored).max() <= 1e-8 * np.abs(K).max():
                raise DataError(f"{self.kernel!r} does not have k(-x, -z) = k(x, z) on X; take a kernel that has")
        return super()._resolve(X)

    def combine(self, values: Iterator[Any]) -> Any:
        """Return the part, from a value and a mirrored one."""
        value, mirrored = values
        return 0.5 * (value + mirrored) if self.symmetry == "even" else 0.5 * (value - mirrored)

    def _combined(self, X: Any, Z: Any, read: Callable[[Kernel, Any, Any], Any]) -> Any:
        # a new array: a product of X with itself would round in another order than one with -X, and not cancel exactly
        mirrored = -X
        return self.combine(read(self.kernel, points, Z) for points in (-mirrored, mirrored))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return the part of both derivatives."""
        return np.asarray(self.combine(self.kernel._scale_gradient(points, Z, weights) for points in (X, -X)))

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the part of the formula."""
        inner = self.kernel.exact_formula(number, n_features)
        return lambda x, z: self.combine(inner(point, z) for point in (x, [-value for value in x]))

    def rounding(self, X: Any, by_differences: bool = False) -> float:
        """Return the rounding of the kernel inside over the least share that cancellation leaves of its diagonal."""
        diagonal, whole = to_numpy(self.diag(X)), to_numpy(self.kernel.diag(X))
        share = float(np.min(diagonal[whole > 0.0] / whole[whole > 0.0], initial=1.0))
        share -= self.kernel.rounding(X) + ROUNDED_ONCE
        return (self.kernel.rounding(X, by_differences) + ROUNDED_ONCE) / share if share > 0.0 else np.inf

    def diag(self, X: Any) -> Any:
        """Return the part of k(x, x), a squared length, which rounding must not leave below zero."""
        part = self.combine(iter((self.kernel.diag(X), paired_values(self.kernel, -X, X))))
        return namespace_of(part).where(part > 0.0, part, 0.0 * part)
