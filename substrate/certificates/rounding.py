r"""The rounding of plain double precision, for bounds and thresholds that are not formulas over enclosed numbers.

The unit roundoff is u, half the distance from one to the next number, EPS = 2 u. An operation returns the exact result
times :math:`1 + \delta`, :math:`|\delta| \le u`, and k of them in a row the exact one times :math:`1 + \theta_k`,

.. math:: |\theta_k| \le \gamma_k = \frac{k u}{1 - k u} \le 2 k u \quad\text{for } k u \le \tfrac12

([Higham2002]_ lemma 3.1). A sum of k products, in whatever order it is formed, is right to :math:`\gamma_k` times the
sum of their sizes ([Higham2002]_ section 3.1), whatever cancels.

Every function states its share of what it is multiplied by, and takes the counts that its theory needs: operations,
terms, the size of a matrix. This file, :mod:`~substrate.certificates.enclosed`, where bounds are formulas that count
for themselves, and :mod:`~substrate.certificates.rows`, whose tolerances are LAPACK's, are where EPS is written.
"""

import math
from typing import TypeVar

from substrate.arrays import EPS, Array

__all__ = [
    "ROUNDED_ONCE",
    "UNIT",
    "add_roundings",
    "at_most",
    "bessel_rounding",
    "block_length",
    "cholesky_rounding",
    "dependence_cutoff",
    "eigenvalue_rounding",
    "eigenvalue_shift",
    "exponential_rounding",
    "is_singular",
    "lost_beside",
    "matrix_noise",
    "random_rounding",
    "rank_cutoff",
    "relative_rounding",
    "single_rounding",
    "subtract_below",
    "sum_rounding",
    "target_rounding",
]

#: The unit roundoff u.
UNIT = EPS / 2.0
_Number = TypeVar("_Number", float, Array)

#: The distance from one to the next number of single precision.
_SINGLE_EPS = 2.0**-23

#: An upper bound on t exp(-t), whose largest value is 1/e.
_LARGEST_DAMPED = 0.37
#: Terms that are always added up at once where sums are formed in blocks: shorter products cost more (measured).
_SHORT = 256
#: Margin for the rounding of the bounds themselves, and for products of shares that are left out.
_ROOM = 1.01


def at_most(bound: float) -> float:
    """Return a number that is not below the exact value of a bound, computed from numbers that are not negative.

    Nothing cancels there, so that k operations change a share of 2 k u: a hundredth is more than that of 1e13.
    """
    return _ROOM * bound


def relative_rounding(operations: float) -> float:
    """Return the share that so many operations in a row may change: k u / (1 - k u), at most 2 k u below k u = 1/2.

    A sum of k products is such a row of k operations, in whatever order it is formed, on the sum of their sizes.
    """
    return operations * EPS


def single_rounding(operations: float) -> float:
    """Return the same in single precision, whose unit roundoff is 2^-24."""
    return operations * _SINGLE_EPS


#: The share of a number that is right up to one operation, or a few of which none can add to it.
ROUNDED_ONCE = relative_rounding(1.0)


def sum_rounding(terms: float) -> float:
    r"""Return the share k u of the sum of sizes that a sum of so many products may lose, in whatever order.

    This is the first order of :math:`\gamma_k`, and a bound by itself for sums and inner products [Jeannerod2013]_; of
    other rows of operations :func:`at_most` covers the rest.
    """
    return terms * UNIT


def block_length(terms: int) -> int:
    """Return how many of so many terms are added up at a time where a sum is formed in blocks."""
    return max(_SHORT, math.isqrt(terms) + 1)


def add_roundings(left: float, right: float, operations: float = 1.0) -> float:
    r"""Return the share that a product may be off by, from those of its factors and its own operations.

    .. math:: (1 + p)(1 + q) - 1 = p + q + p q \le 1.01\, (p + q) \quad\text{for } p, q \le 0.02
    """
    return at_most(left + right) + relative_rounding(operations)


def exponential_rounding(operations: float, after: float) -> float:
    r"""Return the share of one that exp(-t) may be off by, t > 0 being right to so many operations.

    .. math:: |e^{-t (1 + \theta)} - e^{-t}| \le |\theta|\, t\, e^{-t} \le |\theta| / e ,

    and ``after`` counts the roundings of the exponential itself, which is right to less than two units of the last
    place, and of what follows.
    """
    return sum_rounding(_LARGEST_DAMPED * operations + after)


def bessel_rounding(order: float) -> float:
    r"""Return the share that :math:`s^\nu K_\nu(s)` may be off by where logarithms and a Bessel function compute it.

    No theorem: the library that computes :math:`K_\nu` states no bound. Against 40 digits the normalised product was
    within :math:`4 \cdot 10^{-15} (1 + \nu)` for orders from 0.1 to 40; this is 250 times that.
    """
    return 1e-12 * (1.0 + order)


def random_rounding(count: float) -> float:
    r"""Return the share that so many roundings of random sign add up to, but for chance: :math:`4 \sqrt k\, \epsilon`.

    An estimate by which a cheaper formula is preferred, never a bound: independent errors of at most u have a sum of
    deviation :math:`\sqrt{k/3}\, u`, and this is fourteen of them.
    """
    return 4.0 * math.sqrt(count) * EPS


def target_rounding(count: int, largest: float) -> float:
    """Return n eps max|y|: what rounding y, and the mean of n of them, may change in units of y."""
    return relative_rounding(count) * largest


def rank_cutoff(size: int) -> float:
    """Return the share of the largest singular value that a backward stable decomposition of this size may lose.

    Singular values below n eps times the largest one cannot be told from zero: LAPACK's and numpy's rank threshold.
    """
    return size * EPS


def dependence_cutoff(rows: int) -> float:
    r"""Return the share of a column's length below which what a QR factorisation leaves of it is no direction.

    The computed factor of n rows and k columns is that of columns which differ by at most :math:`c\, n k u` of their
    lengths, c a small constant ([Higham2002]_ theorem 19.4). Below a hundred times n eps a column may be one of the
    span of the others, and its coefficient has no digit that is sure.
    """
    return 100.0 * rank_cutoff(rows)


def cholesky_rounding(size: int) -> float:
    r"""Return the share of the trace by which a matrix may be indefinite whose Cholesky factorisation succeeds.

    .. math:: \lambda_{\min}(A) \ge - \frac{\gamma_{n+1}}{1 - \gamma_{n+1}} \operatorname{tr} A

    [Rump2006]_.
    """
    return relative_rounding(size + 2.0)


def matrix_noise(size: float) -> float:
    r"""Return the share of its entries that the norm of a symmetric matrix of rounding errors is, but for chance.

    The semicircle of the eigenvalues of independent entries of deviation s ends at :math:`2 s \sqrt n` [Wigner1958]_,
    and roundings are at most u = eps/2: an estimate of noise, by which zeros are told from small numbers, and no bound.
    """
    return math.sqrt(size) * EPS


def eigenvalue_shift(size: int, entry: float) -> float:
    r"""Return how far eigenvalues may be from those of a matrix whose entries are off by ``entry``, with room for ten.

    By Weyl's inequality no eigenvalue is further away than the norm of the difference, which is at most n times its
    largest entry. What the decomposition adds is the rest.
    """
    return 10.0 * size * entry


def eigenvalue_rounding(size: int) -> float:
    r"""Return the share of the norm that computed eigenvalues may be off by: :math:`4 n \epsilon`.

    They are those of a matrix at the distance :math:`p(n)\, u \|A\|`, p a modest polynomial ([Golub2013]_ section
    8.3), in practice below n; by Weyl's inequality none is further away.
    """
    return relative_rounding(4.0 * size)


def lost_beside(size: float) -> float:
    """Return what is lost when it is added to a number of this size: half of it or less leaves no trace."""
    return size * EPS


def is_singular(condition: float) -> bool:
    """Return whether a system of this condition has no digit of its solution: 1/eps, and whatever is not a number."""
    return not condition <= 1.0 / EPS


def subtract_below(value: _Number, loss: _Number) -> _Number:
    """Return what is not above value - loss, where both are correct to a rounding of their own, a product included."""
    return value - loss - relative_rounding(4.0) * (abs(value) + abs(loss))
