r"""Rules of Gauss in the place of integrals over boxes, for smooth kernels without a closed form, with their error.

On an interval of half-width h the rule with n points misses the integral of g by at most

.. math::

    h^{2n+1} \gamma_n \max |g^{(2n)}| , \qquad \gamma_n = \frac{2^{2n+1} (n!)^4}{(2n+1) \, ((2n)!)^3} ,

and :math:`|\partial_c^{2n} f(x)| \le \|w\| \, \|\partial_c^{2n} \varphi(x)\|`, which
:mod:`substrate.composition.derivative_bounds` bounds over the box. A column that is divided into p intervals misses
:math:`p^{-2n}` times as much; the products of the rules of all columns miss the sum of what each misses, times the
lengths of the others. That is a bound, not an estimate: it is what the sum may miss, times the norm of w, with the
rounding of points and weights.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import at_most, relative_rounding
from substrate.composition.derivative_bounds import bound_derivative
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel
from substrate.kernels.integrals import QuadratureRule, volumes

__all__ = ["gauss_rule"]

#: The most columns of a box that are divided, and the most points of a rule on it.
_MOST_COLUMNS, _MOST_POINTS = 3, 4_096
#: Points on one interval that are tried.
_COUNTS = (4, 6, 8, 12, 16)
#: What the rule of one column may miss, in units of the volume times the largest length of a feature.
_MISSED = 1e-13
#: The largest power of a half-width, so that derivatives which underflow hide no more than the second number.
_LARGEST, _HIDDEN = 1e50, 1e-60
#: Points and weights are rounded like the result of so many operations.
_OPERATIONS = 64.0


def gauss_rule(kernel: Kernel, box: Array, reason: str) -> QuadratureRule:
    """Return the rule with the fewest points that misses nearly nothing.

    A kernel without all derivatives, or without known bounds of them, and a box that is wide in many columns or needs
    too many points are refused; ``reason`` is why there is no closed form.
    """
    lower, upper = box[None, :, 0], box[None, :, 1]
    is_smooth = kernel.largest_order(range(box.shape[0])) == math.inf
    if not is_smooth or np.count_nonzero(lower < upper) > _MOST_COLUMNS:
        raise DeclarationError(reason)
    try:
        length = float(bound_derivative(kernel, {}, lower, upper)[0])
    except DeclarationError:
        raise DeclarationError(reason) from None
    radius = relative_rounding(_OPERATIONS) * length + _HIDDEN
    axes, masses = [], []
    for column in range(box.shape[0]):
        low, high = box[column]
        if low == high:
            axes.append(np.array([low]))
            masses.append(np.ones(1))
            continue
        points, count, missed = min(_divide(kernel, column, box, count, length) for count in _COUNTS)
        if not math.isfinite(points) or points * math.prod(axis.size for axis in axes) > _MOST_POINTS:
            raise DeclarationError(
                f"{reason}. A rule of Gauss that misses nearly nothing of the integral over {box.tolist()} has more "
                f"than {_MOST_POINTS} points; smaller boxes or other units may need fewer"
            )
        pieces = round(points) // count
        half = 0.5 * (high - low) / pieces
        nodes, weights = np.polynomial.legendre.leggauss(count)
        middles = low + half * (2.0 * np.arange(pieces) + 1.0)
        axes.append((middles[:, None] + half * nodes).ravel())
        masses.append(np.tile(half * weights, pieces))
        shift = relative_rounding(_OPERATIONS) * max(abs(low), abs(high))
        radius += missed + shift * float(bound_derivative(kernel, {column: 1}, lower, upper)[0])
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, box.shape[0])
    products = np.prod(np.stack(np.meshgrid(*masses, indexing="ij"), axis=-1), axis=-1).ravel()
    return QuadratureRule(places, products, at_most(radius * float(volumes(box))))


def _divide(kernel: Kernel, column: int, box: Array, count: int, length: float) -> tuple[float, int, float]:
    """Return how many points a column needs with ``count`` of them on one interval, this number, and what they miss."""
    n, half = 2 * count, 0.5 * float(box[column, 1] - box[column, 0])
    if n * math.log(half) > math.log(_LARGEST):
        return math.inf, count, math.inf
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            largest = float(bound_derivative(kernel, {column: n}, box[None, :, 0], box[None, :, 1])[0])
    except DataError:  # it overflows
        largest = math.inf
    constant = 2 ** (n + 1) * math.factorial(count) ** 4 / ((n + 1) * math.factorial(n) ** 3)
    missed = at_most(0.5 * constant * half**n * largest)
    if not math.isfinite(missed):
        return math.inf, count, math.inf
    pieces = max(math.ceil((missed / (_MISSED * length)) ** (1.0 / n)), 1) if missed else 1
    return float(count * pieces), count, missed / float(pieces) ** n
