r"""The kernel of categories: columns hold codes, and two points are near where few of their codes differ,

.. math:: k(x, z) = \exp\!\Big(-\sum_c \frac{[x_c \ne z_c]}{\sigma_c}\Big)
          = \prod_c \big( \rho_c + (1 - \rho_c) [x_c = z_c] \big), \qquad \rho_c = e^{-1/\sigma_c} .

Every factor is a convex combination of the constant kernel and of the identity, so that the product is positive
semi-definite. A code is a name: neither its size nor its order matters. It is the Laplacian kernel of width
:math:`2 \sigma_c` on 0-1 columns, one per category, with one column and one width per variable; for mixed columns
multiply, ``RBF(1.0).on(0, 1) * Categorical(1.0).on(2, 3)``.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import exponential_rounding
from substrate.kernels.base import Formula, Number
from substrate.kernels.distances import Units
from substrate.kernels.widths import KernelOfDistance, one_of
from substrate.namespaces import namespace_of, to_numpy

__all__ = ["Categorical"]

#: Distinct rows from which a width is taken, evenly spaced where there are more.
_MOST_ROWS = 1000
#: Differences over widths beyond which the kernel is zero; infinity times zero would be NaN.
_ZERO_BEYOND = 1e3


@dataclass(frozen=True, repr=False)
class Categorical(KernelOfDistance):
    """exp(-number of codes that differ / sigma), or one width per column.

    ``sigma="median"`` takes the median number of codes in which two distinct training points differ, ``sigma="each"``
    the same for each column.
    """

    metric: ClassVar[str] = "hamming"

    def compared_columns(self, n_features: int) -> tuple[tuple[int, ...], ...]:
        """Return none: codes have no scale."""
        return ()

    @property
    def has_steady_decay(self) -> bool:
        """False: it does not fall with the distance."""
        return False

    @property
    def not_smooth(self) -> str:
        """It jumps."""
        return "it jumps where two codes differ; take derivatives in the other columns"

    @property
    def no_integral(self) -> str:
        """Codes have no volume."""
        return "its columns are codes of categories, which have no boxes; integrate over the other columns"

    def _resolve(self, X: Any) -> Self:
        if not isinstance(self.sigma, str):
            self._widths(X.shape[1])
            return self
        typical = _median_mismatch(X)
        return replace(self, sigma=(typical,) * int(X.shape[1]) if self.sigma == "each" else typical)

    def relevances(self, spreads: Array) -> Array:
        """Return the inverse widths of the columns that vary: a code has no unit."""
        return np.where(spreads > 0.0, self._inverse(spreads.size), 0.0)

    def fill(self, X: Any, Z: Any, out: Array) -> None:
        """Write the kernel values into ``out``."""
        _sum_mismatches(X, Z, self._widths(X.shape[1]), out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    def evaluate(self, X: Any, Z: Any, dtype: Any) -> Any:
        """Return the kernel values as a new array in the namespace of the points."""
        xp, widths = namespace_of(X), self._widths(X.shape[1])
        total = xp.zeros((X.shape[0], Z.shape[0]), dtype=dtype, device=X.device)
        for c in range(X.shape[1]):
            differ = xp.astype(X[:, c][:, None] != Z[:, c][None, :], dtype)
            total += differ * min(1.0 / one_of(widths, c), _ZERO_BEYOND)
        return xp.exp(-total)

    def _scale_gradient(self, X: Array, Z: Array, weights: Array) -> Array:
        """Return [x_c != z_c]/sigma_c k(x, z), weighted and added up; of one width, the sum over the columns."""
        widths, sums = self._widths(X.shape[1]), np.empty(weights.shape)
        _sum_mismatches(X, Z, widths, sums)
        slopes = weights * np.exp(-sums)
        if isinstance(widths, float):
            return np.array([np.vdot(slopes, sums)])
        inverse = np.minimum(self._inverse(X.shape[1]), _ZERO_BEYOND)
        return np.array(
            [
                float(one_of(inverse, c)) * float(np.sum(slopes, where=X[:, c, None] != Z[None, :, c]))
                for c in range(X.shape[1])
            ]
        )

    def rounding(self, X: Any) -> float:
        """Bound the rounding: d inverse widths, right to one rounding each, are added; t exp(-t) is at most 1/e."""
        return exponential_rounding(X.shape[1] + 6.0, 4.0)

    def exact_formula(self, number: Number, n_features: int) -> Formula:
        """Return the formula above; whether two codes are the same is decided by the numbers themselves."""
        widths = self._widths(n_features)
        inverse = [1 / number(one_of(widths, c)) for c in range(n_features)]

        def formula(x: Any, z: Any) -> Any:
            return (-sum(w * (a != b) for a, b, w in zip(x, z, inverse, strict=True))).exp()

        return formula

    def _exact(self, number: Number, sigma: float) -> Formula:
        """Return the formula of one width for every column."""
        return lambda x, z: replace(self, sigma=sigma).exact_formula(number, len(x))(x, z)


def _sum_mismatches(X: Any, Z: Any, widths: Units, out: Array) -> None:
    """Write the sums over the columns of [x_c != z_c] / sigma_c into ``out``, each no more than makes the kernel
    zero.
    """
    left, right = (points.toarray() if is_sparse(points) else points for points in (X, Z))
    out[...] = 0.0
    for c in range(left.shape[1]):
        np.add(out, min(1.0 / one_of(widths, c), _ZERO_BEYOND), out=out, where=left[:, c, None] != right[None, :, c])


def _median_mismatch(X: Any) -> float:
    """Return the median number of codes in which two distinct rows differ; 1 where all rows are the same."""
    points = to_numpy(X)
    points = np.unique(points.toarray() if is_sparse(points) else points, axis=0)
    n, d = points.shape
    points = points[np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.intp)]
    counts = np.zeros((points.shape[0], points.shape[0]), dtype=np.intp)
    for c in range(d):
        counts += points[:, c, None] != points[None, :, c]
    above = counts[np.triu_indices(points.shape[0], 1)]
    return float(np.median(above)) if above.size else 1.0
