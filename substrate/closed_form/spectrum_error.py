r"""The measured distance of a computed decomposition from its matrix.

LAPACK guarantees :math:`P K P = U S U^T + E` with a norm of E of "a modest multiple" of :math:`\epsilon \|K\|`. A bound
needs a number. With independent Gaussian vectors :math:`\omega_1 \dots \omega_k`

.. math::

    \Pr\Big[\, \|E\|^m > \alpha \sqrt{2/\pi} \, \max_i \|E^m \omega_i\| \,\Big] \le \alpha^{-k}

([Halko2011]_ lemma 4.1, for the symmetric :math:`E^m`): :math:`\alpha = 4` and twenty vectors leave a probability below
1e-12, and m = 3 makes the bound tight, at the cost of a few products. Rounding of those products is of the size of E
and independent of it, so it only enlarges the measured value. The loss of orthogonality :math:`\delta = \|U^T U - I\|`
is measured alike. With :math:`G = (S + \lambda)^{-1}` and :math:`V = U (U^T U)^{-1}` the computed :math:`U G U^T` is
the exact inverse of :math:`V (S + \lambda) V^T`, which differs from :math:`P K P + \lambda P` by at most

.. math:: \|P K P - V S V^T\| + 2 \delta \lambda + \text{rounding of the kernel values},

and the first term is measured. Divided by lambda this is the number q, the relative error of everything computed at
lambda.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.namespaces import namespace_of, on_device_of

__all__ = ["Measured", "measured_error"]

_PROBES = 20
_POWER = 3
_FACTOR = 4.0 * math.sqrt(2.0 / math.pi)


@dataclass(frozen=True, slots=True)
class Measured:
    """``error``: norm of the difference of the matrices; ``skew``: its part relative to lambda."""

    error: float
    skew: float


def measured_error(
    K: Any, basis: Any, values: Any, lift: float, norm: float, kernel_rounding: float, direction: Any = None
) -> Measured:
    """Measure a decomposition; ``kernel_rounding`` bounds the norm of the error of K itself.

    ``direction`` is the unit vector that is projected out; the direction 1 by default.
    """
    xp, n = namespace_of(basis), int(basis.shape[0])
    probes = on_device_of(basis, np.random.default_rng(n).standard_normal((n, _PROBES)))

    def projected(vectors: Any) -> Any:
        if direction is None:
            return vectors - xp.mean(vectors, axis=0)
        return vectors - direction[:, None] * (direction @ vectors)[None, :]

    def difference(vectors: Any) -> Any:
        centred = projected(vectors)
        product = projected(K @ centred) + lift * centred
        inside = values[:, None] * balanced(basis.T @ vectors)
        return product - basis @ balanced(inside)

    def balanced(coordinates: Any) -> Any:
        """(U'U)^-1, to second order in its difference from the identity."""
        return 2.0 * coordinates - basis.T @ (basis @ coordinates)

    def skewness(vectors: Any) -> Any:
        return basis.T @ (basis @ vectors) - vectors

    along = math.sqrt(n) * xp.mean(basis, axis=0) if direction is None else direction @ basis
    tilt = math.sqrt(float(xp.sum(along**2)))
    delta = _norm(skewness, probes[: basis.shape[1], :]) + tilt
    error = _norm(difference, probes) + 2.2 * tilt * float(xp.max(values)) + EPS * norm + kernel_rounding
    return Measured(error, 2.2 * delta)


def _norm(apply: Callable[[Any], Any], vectors: Any) -> float:
    """A bound on the norm of a symmetric operator, from its powers."""
    logarithm = math.log(_FACTOR)
    for _ in range(_POWER):
        # in units of the largest entry: kernel values may be near underflow or overflow
        largest = float(namespace_of(vectors).max(namespace_of(vectors).abs(vectors)))
        if largest == 0.0 or not math.isfinite(largest):
            return largest
        logarithm += math.log(largest)
        vectors = apply(vectors / largest)
    longest = _longest(vectors)
    return (
        longest if longest == 0.0 or not math.isfinite(longest) else math.exp((logarithm + math.log(longest)) / _POWER)
    )


def _longest(vectors: Any) -> float:
    """The length of the longest column."""
    xp = namespace_of(vectors)
    largest = float(xp.max(xp.abs(vectors)))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled: Array = vectors / largest
    return largest * math.sqrt(float(xp.max(xp.sum(scaled**2, axis=0))))
