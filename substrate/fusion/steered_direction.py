r"""The direction in which validation errors are bounded over a simplex, steered away from what is poorly determined.

For every u with :math:`\|u\| \le 1` the bound of :mod:`substrate.fusion.simplex_bound` is

.. math:: \beta(u) = \min_t \; u^T V(t) - \sqrt{g(t)} \, \|u\|_S , \qquad \|u\|_S^2 = u^T S u ,

a concave function of u. At the place t where the minimum is attained, the best direction is the residual of the
smallest error that can be reached from V(t) within the radius,

.. math::

    u \propto (\rho I + g S)^{-1} V(t), \qquad \sum_k \frac{\lambda_k y_k^2}{(\rho + \lambda_k)^2} = 1 ,

with the eigenvalues :math:`\lambda_k` of g S and the coordinates :math:`y_k` of V(t): a trust-region step [More1983]_.
It is that of the smallest error where g = 0. Place and direction are found in turn.

Every direction gives a bound, so nothing here is trusted.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from substrate.arrays import Array

__all__ = ["Spectrum", "residual_direction", "spectrum_of", "worst_place"]

#: Steps of the grid of a simplex, by the number of vertices.
_STEPS = {2: 20, 3: 12, 4: 8}
#: Rounds of the search for rho, candidates in each, and its smallest share of the largest eigenvalue.
_ROUNDS, _CANDIDATES, _SMALLEST = 2, 13, 1e-9
_SHARES = np.linspace(0.0, 1.0, _CANDIDATES)


class Spectrum(NamedTuple):
    """Eigenvalues and eigenvectors of S, of one fold, in units of y squared."""

    values: Array
    vectors: Array


def spectrum_of(S: Array) -> Spectrum | None:
    """Return the spectrum of S; None where there is none."""
    if not np.isfinite(S).all():
        return None
    values, vectors = np.linalg.eigh(S)
    return Spectrum(values, vectors)


@lru_cache(maxsize=8)
def _grid(n: int) -> Array:
    steps = _STEPS[n]
    return np.array([at for at in product(range(steps + 1), repeat=n) if sum(at) == steps]) / steps


def worst_place(a: Array, Q: Array) -> Array:
    """Return where a't - sqrt(t'Qt) is smallest on a grid of the simplex."""
    T = _grid(a.size)
    values = T @ a - np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", T, Q, T), 0.0))
    return np.asarray(T[int(values.argmin())])


def residual_direction(v: Array, scales: Sequence[float], spectra: Sequence[Spectrum]) -> Array | None:
    """Return the direction, not scaled, for errors v and the squared radii of all folds; None where v is in reach."""
    coordinates, eigenvalues, start = [], [], 0
    for scale, (values, vectors) in zip(scales, spectra, strict=True):
        coordinates.append(vectors.T @ v[start : start + values.size])
        eigenvalues.append(scale * values)
        start += values.size
    y, lam = np.concatenate(coordinates), np.maximum(np.concatenate(eigenvalues), 0.0)
    largest = float(lam.max(initial=0.0))
    if not 0.0 < largest < np.inf:
        return None

    # a large rho is a step inside the radius: the root is below the norm of v times that of the matrix
    low, high = _SMALLEST * largest, max(np.sqrt(largest) * float(np.linalg.norm(y)), 2.0 * _SMALLEST * largest)
    for _ in range(_ROUNDS):
        rhos = low * (high / low) ** _SHARES
        inside = np.sum(lam * (y / (rhos[:, None] + lam)) ** 2, axis=1) <= 1.0
        if inside[0]:
            return None
        first = int(inside.argmax()) if inside.any() else _CANDIDATES - 1
        low, high = float(rhos[first - 1]), float(rhos[first])
    scaled, parts, start = y / (high + lam), [], 0
    for values, vectors in spectra:
        parts.append(vectors @ scaled[start : start + values.size])
        start += values.size
    return np.concatenate(parts)
