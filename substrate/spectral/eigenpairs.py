r"""The leading eigenpairs of a symmetric operator: Lanczos with all vectors kept orthogonal, or all at once.

A start vector is multiplied, and every product made orthogonal to all vectors before it, twice ([Parlett1998]_ section
6.9), so that after m products the Ritz pairs of the space they span satisfy

.. math:: \|A u - \theta u\| = \beta_m |y_m| ,

y the coordinates of u. This is the fewest products with which leading eigenvectors can be found; with one triangle of K
in memory each of them reads half of the numbers that a product with K does. Products are kept, so that the residual
of the result is known without another one.

A start vector sees one direction of the space of a multiple eigenvalue. So once all pairs have converged, a random
vector orthogonal to all others is added, and the iteration goes on until no new Ritz value is among the wanted ones for
several products in a row. That is left out where the space leaves no room for another one as large
(:mod:`~substrate.spectral.remainder`). What is missed even so is found by the count of eigenvalues
(:mod:`~substrate.spectral.inertia`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.namespaces import is_device_array, namespace_of, on_device_of, to_numpy, zeros_beside
from substrate.spectral.centred_operator import CentredOperator, MeasuredOperator
from substrate.spectral.remainder import Remainder, bound_remainder
from substrate.threads import blas_threads

__all__ = ["DENSE_BELOW", "FURTHER", "Eigenpairs", "eigenpairs_of_matrix", "leading_eigenpairs"]

#: Number of rows up to which all eigenpairs are computed at once.
DENSE_BELOW = 700
#: Further pairs that are kept beside those that are wanted, for a gap behind them.
FURTHER = 5
#: Products after the last random vector before the iteration may end.
_AFTER_FRESH = 4
#: Residual, as a share of the largest eigenvalue, at which a pair has converged: what products leave of it anyway.
_CONVERGED = relative_rounding(16.0)
#: The same of further pairs.
_FURTHER_CONVERGED = 1e-14
#: Products at most, besides twenty for every pair.
_MOST = 250
#: Digits that a further product adds to all wanted pairs at most: one with few of them is not worth a decomposition.
_DIGITS_PER_PRODUCT = 4.0


@dataclass(frozen=True, slots=True)
class Eigenpairs:
    """Ritz values, largest first, their vectors, and the computed products of A with these; ``wanted`` of them count.

    ``following`` is an estimate of the largest eigenvalue that is not among them, NaN where there is none;
    ``product_error`` bounds the norm of the error of ``products``; ``steps`` counts products, zero for a dense method.
    ``remainder`` is what is proved of all other eigenvalues of A, whatever is made of these pairs.
    """

    values: Array
    vectors: Array
    products: Array
    wanted: int
    following: float
    product_error: float
    steps: int
    remainder: Remainder | None = None


def leading_eigenpairs(operator: CentredOperator, count: int, dense: bool | None = None) -> Eigenpairs:
    """Return the ``count`` leading eigenpairs; ``dense`` chooses the method, by the number of rows where it is None."""
    n = operator.n
    few = n <= DENSE_BELOW or 8 * count > n
    with blas_threads(n):
        if few if dense is None else dense:
            pairs = eigenpairs_of_matrix(operator, count)
            home = operator.kernel_matrix.diagonal
            if not is_device_array(home):
                return pairs
            U = on_device_of(home, pairs.vectors)
            return replace(pairs, vectors=U, products=operator.product(U))
        return _iterate(operator, count)


def eigenpairs_of_matrix(operator: MeasuredOperator, count: int) -> Eigenpairs:
    """Return the leading eigenpairs of a matrix that is formed, by one decomposition."""
    from scipy.linalg import eigh

    matrix = operator.dense()
    n = matrix.shape[0]
    kept = min(count + FURTHER, n)
    low = max(n - kept - 1, 0)
    values, vectors = eigh(matrix, subset_by_index=(low, n - 1), driver="evr", check_finite=False, lower=True)
    values, vectors = values[::-1], np.ascontiguousarray(vectors[:, ::-1])
    following = float(values[kept]) if values.size > kept else float("nan")
    U = vectors[:, :kept]
    return Eigenpairs(
        values=np.array(values[:kept]),
        vectors=U,
        products=matrix @ U,
        wanted=count,
        following=following,
        product_error=2.0 * operator.product_error * np.sqrt(kept),  # that of the matrix as formed, and of the product
        steps=0,
    )


class _Space:
    """Orthonormal rows, the products with A as rows, and the matrix of A on them."""

    def __init__(self, operator: CentredOperator, most: int) -> None:
        n, home = operator.n, operator.kernel_matrix.diagonal
        self.operator, self.size = operator, 0
        self.basis: Any = zeros_beside(home, (most + 1, n))
        self.products: Any = zeros_beside(home, (most, n))
        self.inner = np.zeros((most, most))
        self.generator = np.random.default_rng(n)

    def fresh(self) -> bool:
        """Put a random vector, orthogonal to all others, after them; False where they span everything."""
        home = self.operator.kernel_matrix.diagonal
        draw = on_device_of(home, self.generator.standard_normal(self.operator.n))
        vector = self.operator._centre(draw)
        length = _length(vector)
        vector = self._orthogonal(self._orthogonal(vector)[0])[0]
        if _length(vector) <= 1e-6 * length:
            return False
        vector = self._orthogonal(vector / _length(vector))[0]
        self.basis[self.size, :] = vector / _length(vector)
        return True

    def step(self) -> float:
        """Multiply the last vector, and put what is new in the product after it; return its length."""
        k = self.size
        product = self.operator.product(self.basis[k, :])
        self.products[k, :] = product
        self.size = k + 1
        remainder, first = self._orthogonal(product)
        remainder, second = self._orthogonal(remainder)
        column = np.asarray(to_numpy(first + second))
        self.inner[: k + 1, k] = self.inner[k, : k + 1] = column
        beta = _length(remainder)
        if beta > 0.0:
            self.basis[k + 1, :] = remainder / beta
        return beta

    def remainder(self) -> Remainder | None:
        """Bound what the vectors so far leave of A."""
        return bound_remainder(self.operator, self.basis[: self.size, :], self.products[: self.size, :])

    def _orthogonal(self, vector: Any) -> tuple[Any, Any]:
        spanned = self.basis[: self.size, :]
        along = spanned @ vector
        return vector - along @ spanned, along


def _length(vector: Any) -> float:
    return float(namespace_of(vector).linalg.vector_norm(vector))


def _iterate(operator: CentredOperator, count: int) -> Eigenpairs:
    most = min(operator.n - 1, _MOST + 20 * count)
    space = _Space(operator, most)
    space.fresh()
    after_fresh, checked = 0, False
    # a space of one start vector has one direction of every eigenvalue: it needs count of them, and some more
    next_look, top = min(count + 6, most), 0.0
    values, vectors = np.zeros(0), np.zeros((0, 0))
    while True:
        beta = space.step()
        m, after_fresh = space.size, after_fresh + 1
        at_end = m >= most
        # a decomposition of order m costs a small share of a product, and may save one
        looked = m >= next_look and (not checked or after_fresh >= _AFTER_FRESH)
        if not (at_end or looked or beta == 0.0):
            continue
        values, vectors = np.linalg.eigh(space.inner[:m, :m])
        top = max(float(np.abs(values).max()), 0.0)
        farthest = float(beta * np.abs(vectors[-1, -min(count, m) :]).max())
        converged = m >= count and farthest <= _CONVERGED * top
        ended = beta <= _CONVERGED * top
        if at_end or (converged and checked and (after_fresh >= _AFTER_FRESH or ended)):
            break
        if converged and not checked:
            remainder = space.remainder()
            if remainder is not None and remainder.above(count) < values[-count]:
                break
        if not converged and farthest > 0.0:
            next_look = m + max(1, int(math.log10(farthest / (_CONVERGED * top)) / _DIGITS_PER_PRODUCT))
        if ended or (converged and not checked):
            if not space.fresh():
                break
            checked, after_fresh = checked or converged, 0
            continue
    m = space.size
    order = np.argsort(values)[::-1]
    # further pairs that have converged, in order: behind a multiple eigenvalue they show where its space ends
    residuals = beta * np.abs(vectors[-1, order[: count + FURTHER]])
    wide = np.append(np.flatnonzero(residuals > _FURTHER_CONVERGED * top), residuals.size)
    kept = min(max(count, int(wide[0])), m)
    chosen = on_device_of(space.basis, np.ascontiguousarray(vectors[:, order[:kept]]))
    U = space.basis[:m, :].T @ chosen
    # errors of m products, combined by orthonormal columns, and the rounding of both combinations
    combined = 2.0 * operator.norm * relative_rounding(m + 2.0) * np.sqrt(kept * m)
    error = 1.01 * (operator.product_error * np.sqrt(m) + combined)
    return Eigenpairs(
        values=values[order[:kept]],
        vectors=U,
        products=space.products[:m, :].T @ chosen,
        wanted=count,
        following=float(values[order[kept]]) if m > kept else float("nan"),
        product_error=float(error),
        steps=m,
        remainder=space.remainder(),
    )
