r"""The power function: how far a function can be at a point from the one of least norm with the same observations.

With the representers :math:`r_i` of what was observed, :math:`\ell_i f = \langle w, r_i \rangle`, let

.. math:: P(x) = \min_a \Big\| \varphi(x) - \sum_i a_i r_i \Big\| .

A function u with :math:`\ell_i u = y_i` and :math:`\|u\| \le R` differs from the function f of least norm that has
the same observations, which is its projection, by

.. math:: |u(x) - f(x)| \le P(x) \sqrt{R^2 - \|f\|^2}

([Wendland2004]_ chapters 11 and, for derivatives, 16). Every a is an upper bound of the minimum, so that the
coefficients may be those of a system that is cut where it is ill conditioned; the squared norm
:math:`k(x, x) - 2 a^T r(x) + a^T G a` is evaluated with its rounding added, and the smallest over a few cuts is taken.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array, real_points
from substrate.certificates.rounding import relative_rounding
from substrate.composition.level import Substrate
from substrate.composition.linear_operators import VALUE, Functional, add_lengths, bound_rounding, inner_product_matrix
from substrate.errors import DeclarationError

__all__ = ["bound_power"]

#: Shares of the largest eigenvalue below which directions are left out, one after another.
_CUTS = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)


def bound_power(substrate: Substrate, X: Any) -> Array:
    """Return upper bounds of the power function of a substrate's observations at the rows of X."""
    if substrate.bias:
        raise DeclarationError(
            "a bias is bounded by no norm, so that nothing is known off the observations; declare the substrate with "
            "bias=False"
        )
    kernel, points = substrate.kernel, np.asarray(real_points(X))
    observed = _list_observations(substrate)
    G = np.block([[inner_product_matrix(kernel, *left, *right) for right in observed] for left in observed])
    c = np.vstack([inner_product_matrix(kernel, *reading, VALUE, points) for reading in observed])
    lengths = np.concatenate([add_lengths(kernel, *reading) for reading in observed])
    own = np.asarray(kernel.diag(points))
    relative = bound_rounding(kernel, [*observed, (VALUE, points)]) + relative_rounding(2.0 * lengths.size + 8.0)
    scaled = G / lengths / lengths[:, None]
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2.0)
    along = vectors.T @ (c / lengths[:, None])
    best = own * (1.0 + relative)
    for cut in _CUTS:
        kept = values > cut * values[-1]
        a = (vectors[:, kept] @ (along[kept] / values[kept, None])) / lengths[:, None]
        square = own - 2.0 * np.einsum("ij,ij->j", a, c) + np.einsum("ij,ij->j", a, G @ a)
        size = np.sqrt(own) + lengths @ np.abs(a)
        best = np.minimum(best, np.maximum(square, 0.0) + relative * size**2)
    return np.asarray(np.sqrt(best) * (1.0 + relative_rounding(4.0)))


def _list_observations(substrate: Substrate) -> list[tuple[Functional, Array]]:
    """Return what reads each block of observations, and where."""
    if substrate.observed is None:
        return [(VALUE, np.asarray(substrate.X))]
    found: list[tuple[Functional, Array]] = []
    for block in substrate.observed.blocks:
        if block.kind == "integral":
            found.append(substrate.resolve_integral(block.at))
        else:
            operator = VALUE if block.has_values else substrate.resolve_operator(block.kind)
            found.append((operator, np.asarray(block.at)))
    return found
