r"""The terms of a kernel that is a sum, their shares, and the inputs that they depend on.

.. math:: k = \sum_t f_t k_t, \qquad
          \text{share of } t = \frac{f_t d_t}{\sum_s f_s d_s}, \qquad
          d_t = \frac1N \Big( \sum_i k_t(x_i, x_i) - \frac1N \sum_{ij} k_t(x_i, x_j) \Big),

the mean of the diagonal of the centred matrix of a term: the mean square distance of its features from their mean. A
free bias takes up whatever is constant, so that a constant kernel has no share.

The relevance of an input is the inverse of its width in units of its spread, its standard deviation over the rows,
:math:`s_c / \sigma_c`, over the sum of all inputs. A kernel with one width for all columns has the relevance of the
spreads. In a product of kernels the squares add up, as the exponents of Gaussians do; in a sum the relevances of the
terms are added up by their shares. Of a linear term it is the size of the weights, :math:`|w_c| s_c`, which widths do
not exist for.
"""

import operator
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.certificates.rounding import relative_rounding
from substrate.errors import DeclarationError

__all__ = ["SumOfProducts", "Terms", "has_shared_width", "relevance_of", "spreads_of", "term_shares"]

#: Rows of a kernel matrix at a time.
_ROWS = 256


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


class Terms:
    """Terms and relevances."""

    @abstractmethod
    def expand(self, n_features: int) -> SumOfProducts:
        """Return the kernel as a sum of products of kernels that are neither."""

    def terms(self, n_features: int) -> tuple[tuple[float, Any], ...]:
        """Return the terms of the sum, each as its factor and the kernel without it; a kernel that is no sum is one
        term.
        """
        return tuple((factor, reduce(operator.mul, kernels)) for factor, kernels in self.expand(n_features).products)

    @property
    def linear(self) -> bool:
        """Whether it is x'z on its columns, so that a machine has one weight for each of them."""
        return False

    def relevances(self, spreads: Array) -> Array:
        """Return inverse widths in units of the columns' spreads, one per column."""
        raise DeclarationError(f"{self!r} has no widths")


def term_shares(kernel: Any, X: Any) -> Array:
    """Return the share of every term at the rows of X, in numpy; zero for all where nothing varies."""
    sizes = np.array([factor and factor * _centred_diagonal(term, X) for factor, term in kernel.terms(X.shape[1])])
    largest = float(sizes.max())
    return sizes / largest / (sizes / largest).sum() if largest > 0.0 else np.zeros(sizes.size)


def _centred_diagonal(term: Any, X: Any) -> float:
    n = int(X.shape[0])
    diagonal = np.asarray(term.diag(X), dtype=np.float64)
    total = 0.0
    for start in range(0, n, _ROWS):
        total += float(term(X[start : start + _ROWS], X).sum())
    size = float(diagonal.mean()) - total / n / n
    return size if size > relative_rounding(4.0 * n) * float(np.abs(diagonal).max()) else 0.0


def spreads_of(X: Any) -> Array:
    """Return the standard deviation of every column; exactly zero where it is constant."""
    if is_sparse(X):
        return _sparse_spreads(X.tocoo())
    halves = X / 2.0 - X[:1] / 2.0  # a difference of large numbers may overflow
    units = np.abs(halves).max(axis=0)
    safe = np.where(units > 0.0, units, 1.0)
    with np.errstate(over="ignore"):
        spread = np.minimum(2.0 * (halves / safe).std(axis=0) * safe, np.finfo(np.float64).max)
    return np.asarray(np.where(units > 0.0, spread, 0.0))


def _sparse_spreads(X: Any) -> Array:
    n, d = X.shape
    largest = np.zeros(d)
    np.maximum.at(largest, X.col, np.abs(X.data))
    units = np.where(largest > 0.0, largest, 1.0)
    values, stored = X.data / units[X.col], np.bincount(X.col, minlength=d)
    means = np.bincount(X.col, values, minlength=d) / n
    squares = np.bincount(X.col, np.square(values - means[X.col]), minlength=d) + (n - stored) * np.square(means)
    first = np.zeros(d)
    first[X.col] = X.data
    constant = np.bincount(X.col, X.data == first[X.col], minlength=d) == n
    return np.where(constant, 0.0, units * np.sqrt(squares / n))


def has_shared_width(kernel: Any, n_features: int) -> bool:
    """Return whether every term has one width for all of several columns; a linear term has weights instead."""
    terms = [term for _, term in kernel.terms(n_features)]
    if n_features < 2 or any(term.linear for term in terms):
        return False
    return all(np.ptp(term.relevances(np.ones(n_features))) == 0.0 for term in terms)


def relevance_of(kernel: Any, X: Any, slopes: Callable[[int], Array]) -> Array:
    """Return the relevance of every column, which sum to one; zero for all where nothing varies.

    ``slopes(t)`` are the weights of the linear term number t, one per column of X. A kernel without widths is refused.
    """
    spreads, terms = spreads_of(X), kernel.terms(X.shape[1])
    shares = np.ones(1) if len(terms) == 1 else term_shares(kernel, X)
    total = np.zeros(spreads.size)
    for number, (_, term) in enumerate(terms):
        if shares[number] > 0.0:
            relevance = _sizes(slopes(number)) * _sizes(spreads) if term.linear else _sizes(term.relevances(spreads))
            total += shares[number] * _parts(relevance)
    return _parts(total)


def _sizes(values: Array) -> Array:
    """Return the sizes in units of the largest, so that products and sums stay finite."""
    largest = float(np.abs(values).max())
    return np.abs(values) / largest if largest > 0.0 else np.zeros(values.size)


def _parts(values: Array) -> Array:
    total = float(values.sum())
    return values / total if total > 0.0 else values
