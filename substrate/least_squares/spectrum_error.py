r"""The measured distance of a computed decomposition from its matrix.

LAPACK guarantees :math:`P K P = U S U^T + E` with a norm of E of "a modest multiple" of :math:`\epsilon \|K\|`. A bound
needs a number. With independent Gaussian vectors :math:`\omega_1 \dots \omega_k`

.. math::

    \Pr\Big[\, \|E\|^m > \alpha \sqrt{2/\pi} \, \max_i \|E^m \omega_i\| \,\Big] \le \alpha^{-k}

([Halko2011]_ lemma 4.1, for the symmetric :math:`E^m`): :math:`\alpha = 4` and twenty vectors leave a probability below
1e-12, and m = 3 makes the bound tight, at the cost of a few products. Rounding of those products is of the size of E
and independent of it, so it only enlarges the measured value. The loss of orthogonality :math:`\delta = \|U^T U - I\|`
is measured with m = 1: it is multiplied by lambda alone, and need not be tight. With :math:`G = (S + \lambda)^{-1}` and
:math:`V = U (U^T U)^{-1}` the computed :math:`U G U^T` is the exact inverse of :math:`V (S + \lambda) V^T`, which
differs from :math:`P K P + \lambda P` by at most

.. math:: \|P K P - V S V^T\| + 2 \delta \lambda + \text{rounding of the kernel values},

and the first term is measured; or it is bounded by :math:`\|P K P - U S U^T\| + 2 \|(U^T U - I) S\|`, which takes fewer
products, where that is small beside the rounding of the kernel values. Divided by lambda this is the number q, the
relative error of everything computed at lambda.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import lost_beside
from substrate.namespaces import namespace_of, on_device_of

__all__ = ["DecompositionError", "measure_error"]

_PROBES = 20
_POWER = 3
_FACTOR = 4.0 * math.sqrt(2.0 / math.pi)
#: Share of the error by which a coarse bound may exceed it.
_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class DecompositionError:
    """``error``: norm of the difference of the matrices; ``skew``: its part relative to lambda."""

    error: float
    skew: float


def measure_error(
    K: Any,
    basis: Any,
    values: Any,
    lift: float,
    norm: float,
    kernel_rounding: float,
    direction: Any = None,
    coarse: bool = False,
) -> DecompositionError:
    """Measure a decomposition; ``kernel_rounding`` bounds the norm of the error of K itself.

    ``direction`` is the unit vector that is projected out, or orthonormal columns; the direction 1 by default.
    ``coarse`` may add a fifth to the error, for half of the work.
    """
    xp, n = namespace_of(basis), int(basis.shape[0])
    probes = on_device_of(basis, np.random.default_rng(n).standard_normal((n, _PROBES)))

    def project(vectors: Any) -> Any:
        if direction is None:
            return vectors - xp.mean(vectors, axis=0)
        if direction.ndim == 2:
            return vectors - direction @ (direction.T @ vectors)
        return vectors - direction[:, None] * (direction @ vectors)[None, :]

    def stack(coordinates: Any) -> Any:
        """Return coordinates, and the values times them, side by side."""
        return xp.concat([coordinates, values[:, None] * coordinates], axis=1)

    def multiply(vectors: Any) -> Any:
        centred = project(vectors)
        return project(K @ centred) + lift * centred

    def difference(vectors: Any, exact: bool = True) -> Any:
        stacked = stack(basis.T @ vectors)
        inside = stacked[:, _PROBES:]
        if exact:  # V S V' is U (S - dS - Sd) U', d = U'U - I, to second order in d
            skew = basis.T @ (basis @ stacked) - stacked
            inside = inside - skew[:, _PROBES:] - values[:, None] * skew[:, :_PROBES]
        return multiply(vectors) - basis @ inside

    # coordinates of Gaussian vectors are Gaussian, so one product bounds the norms of d and of d S
    stacked = stack(basis.T @ probes)
    images = basis @ stacked
    skew = basis.T @ images - stacked
    along = math.sqrt(n) * xp.mean(basis, axis=0) if direction is None else direction.T @ basis
    tilt = math.sqrt(float(xp.sum(along**2)))
    delta = _FACTOR * _longest(skew[:, :_PROBES]) + tilt
    other_errors = 2.2 * tilt * float(xp.max(values)) + lost_beside(norm) + kernel_rounding
    if coarse:
        off_orthogonality = 2.02 * _FACTOR * _longest(skew[:, _PROBES:])
        # what the products above have of the first power is not computed again
        first = multiply(probes) - images[:, _PROBES:]
        for error in _norms(lambda vectors: difference(vectors, exact=False), probes, first):
            if error + off_orthogonality <= _SHARE * other_errors:
                return DecompositionError(error + off_orthogonality + other_errors, 2.2 * delta)
        if off_orthogonality <= _SHARE * (error + other_errors):
            return DecompositionError(error + off_orthogonality + other_errors, 2.2 * delta)
    *_, error = _norms(difference, probes)
    return DecompositionError(error + other_errors, 2.2 * delta)


def _norms(apply: Callable[[Any], Any], vectors: Any, first: Any = None) -> Iterator[float]:
    """Yield bounds on the norm of a symmetric operator, from its first power, its second and so on.

    ``first`` is what it makes of the vectors, if that is known.
    """
    logarithm = math.log(_FACTOR)
    for power in range(1, _POWER + 1):
        # in units of the largest entry: kernel values may be near underflow or overflow
        largest = float(namespace_of(vectors).max(namespace_of(vectors).abs(vectors)))
        if largest == 0.0 or not math.isfinite(largest):
            yield largest
            return
        logarithm += math.log(largest)
        vectors = first / largest if power == 1 and first is not None else apply(vectors / largest)
        longest = _longest(vectors)
        if longest == 0.0 or not math.isfinite(longest):
            yield longest
            return
        yield math.exp((logarithm + math.log(longest)) / power)


def _longest(vectors: Any) -> float:
    """Return the length of the longest column."""
    xp = namespace_of(vectors)
    largest = float(xp.max(xp.abs(vectors)))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled: Array = vectors / largest
    return largest * math.sqrt(float(xp.max(xp.sum(scaled**2, axis=0))))
