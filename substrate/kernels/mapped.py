r"""A kernel of the distance after a linear map of the inputs.

.. math:: k(x, z) = k_0(A (x - c),\; A (z - c)) ,

with :math:`k_0` an RBF, Laplacian or Matérn kernel, so that c, near the points, changes no value and only saves digits.
With an orthogonal A widths are along directions in place of inputs: those of the average gradient outer product
(:mod:`substrate.least_squares.gradient_product`), in which a function of few directions has few short widths
([Radhakrishnan2024]_).

Mapped coordinates are computed in twice the working precision and rounded once, to :math:`\epsilon |t|`. These kernels
change by no more than the distance changes in units of their widths (of coordinates, their sum), so that the values are
off by :math:`2 \epsilon \sum_j \max_i |t_{ij}| / \sigma_j` besides what :math:`k_0` is off.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.doubled_precision import add, multiply
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DataError, DeclarationError
from substrate.kernels.algebra import Kernel
from substrate.kernels.base import Formula, Number, ones
from substrate.kernels.laplacian import Laplacian
from substrate.kernels.matern import Matern
from substrate.kernels.nested import Nested
from substrate.kernels.rbf import RBF
from substrate.namespaces import is_device_array

__all__ = ["Mapped"]

#: Smoothness of Matérn kernels whose slope in the distance, in units of the width, is known to be at most one.
_SLOPED = (0.5, 1.5, 2.5)
#: What sums in twice the precision are off, as a share of the sum of absolute terms: far more than 2^-100 of them.
_DOUBLED = 2.0**-90


@dataclass(frozen=True, repr=False)
class Mapped(Nested):
    """``kernel`` of the points A (x - c): ``Mapped(RBF(1.0), matrix=((0.6, 0.8), (-0.8, 0.6)))``.

    Parameters
    ----------
    kernel
        An RBF, Laplacian or Matérn kernel (of smoothness 1/2, 3/2 or 5/2).
    matrix
        The rows of A, one for every coordinate of the mapped points.
    center
        c, one number per input; empty: zero.
    """

    kernel: Kernel
    matrix: tuple[tuple[float, ...], ...]
    center: tuple[float, ...] = ()
    no_matrix = "a precomputed matrix has no inputs to be mapped; pass X and the kernel itself"

    def __post_init__(self) -> None:
        super().__post_init__()
        sloped = isinstance(self.kernel, (RBF, Laplacian)) or (
            isinstance(self.kernel, Matern) and self.kernel.nu in _SLOPED
        )
        if not sloped:
            raise DeclarationError(
                f"Mapped is made of an RBF, a Laplacian or a Matern kernel of smoothness {_SLOPED}, received "
                f"{self.kernel!r}"
            )
        matrix = np.array(self.matrix, dtype=np.float64, ndmin=2)
        center = np.array(self.center, dtype=np.float64, ndmin=1)
        shapes = matrix.ndim == 2 and matrix.size > 0 and center.shape in ((0,), (matrix.shape[1],))
        if not (shapes and np.isfinite(matrix).all() and np.isfinite(center).all()):
            raise DeclarationError(
                "the matrix of a mapped kernel has finite rows of one length, and its center one number per input: "
                f"received shapes {matrix.shape} and {center.shape}"
            )
        object.__setattr__(self, "matrix", tuple(tuple(float(entry) for entry in row) for row in matrix))
        object.__setattr__(self, "center", tuple(float(entry) for entry in center))

    def map_points(self, X: Any) -> Array:
        """Return A (x - c) of every row, rounded once."""
        if is_device_array(X):
            raise DeclarationError(f"{type(self).__name__} is computed by numpy; pass numpy arrays (X.cpu().numpy())")
        points = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        d = len(self.matrix[0])
        if points.shape[1] != d:
            raise DataError(f"the map of this kernel is of {d} inputs, the points have {points.shape[1]} columns")
        none = np.zeros(points.shape[0])
        zero = np.zeros((points.shape[0], len(self.matrix)))
        total = (zero, zero)
        for c, entries in enumerate(np.array(self.matrix).T):
            center = self.center[c] if self.center else 0.0
            high, low = add((points[:, c], none), (none - center, none))
            product, error = multiply(high[:, None], entries[None, :])
            total = add(total, (product, error + low[:, None] * entries))
        return np.asarray(total[0] + total[1])

    def _map_rounding(self, X: Any, mapped: Array) -> float:
        """Bound what the rounding of mapped coordinates changes of a value."""
        points = np.asarray(X.toarray() if is_sparse(X) else X, dtype=np.float64)
        sizes = np.abs(points - (np.array(self.center) if self.center else 0.0)) @ np.abs(np.array(self.matrix)).T
        errors = relative_rounding(1.0) * np.abs(mapped).max(axis=0) + _DOUBLED * sizes.max(axis=0)
        inverse = self.kernel.relevances(np.ones(len(self.matrix)))  # one over the widths
        with np.errstate(over="ignore", invalid="ignore"):
            change = 2.0 * float(np.sum(errors * inverse)) * (1.0 + relative_rounding(4.0 * errors.size))
        return change if np.isfinite(change) else float("inf")

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return nothing: the map sets the scales of the inputs."""
        return ()

    def code_columns(self, n_features: int) -> tuple[int, ...]:
        """Return nothing: the map adds inputs up, and a sum is no name."""
        return ()

    @property
    def not_smooth(self) -> str:
        """Derivatives in the inputs are not computed."""
        return "derivatives of a mapped kernel are not computed; take the kernel of mapped inputs"

    def _resolve(self, X: Any) -> Self:
        return type(self)(self.kernel.resolved(self.map_points(X)), self.matrix, self.center)

    def relevances(self, spreads: Array) -> Array:
        """Return, for every input, its spread times the length of its column of A in units of the widths."""
        inverse = self.kernel.relevances(np.ones(len(self.matrix)))
        return np.asarray(spreads * np.linalg.norm(np.array(self.matrix) * inverse[:, None], axis=0))

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return those of the inner kernel at mapped points."""
        left = self.map_points(X)
        return self.kernel._scale_gradient(left, left if Z is X else self.map_points(Z), weights)

    def rank(self, n_features: int) -> int | None:
        """Return None: no finite number suffices."""
        return None

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the inner kernel's values at mapped points into ``out``."""
        left = self.map_points(X)
        self.kernel.fill(left, left if Z is X else self.map_points(Z), out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Refuse arrays of other libraries."""
        self.map_points(X)
        return np.asarray(self(X, Z)).astype(dtype)

    def rounding(self, X: Any) -> float:
        """Return that of the inner kernel at mapped points, and what their own rounding changes."""
        mapped = self.map_points(X)
        return self.kernel.rounding(mapped) + self._map_rounding(X, mapped)

    def fill_carefully(self, X: Any, Z: Any, out: Array) -> None:
        """Fill in the inner kernel's accurate values at mapped points."""
        self.kernel.fill_carefully(self.map_points(X), self.map_points(Z), out)

    def careful_rounding(self, X: Any) -> float:
        """Return the same as :meth:`rounding`, for the accurate values."""
        mapped = self.map_points(X)
        return self.kernel.careful_rounding(mapped) + self._map_rounding(X, mapped)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the inner kernel's formula of mapped points."""
        inner = self.kernel.exact_formula(number, len(self.matrix))
        matrix = [[number(entry) for entry in row] for row in self.matrix]

        def mapped(x: Any) -> list[Any]:
            # of differences of two points the center is gone
            return [sum((entry * value for entry, value in zip(row, x, strict=True)), number(0.0)) for row in matrix]

        return lambda x, z: inner(mapped(x), mapped(z))

    def diag(self, X: Any) -> Any:
        """Return one everywhere; a width that is not known is refused."""
        self.kernel.relevances(np.ones(len(self.matrix)))
        return ones(X)
