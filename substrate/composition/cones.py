r"""How far a vector is outside a cone, or outside its dual.

.. math::

    \mathcal{Q} = \{(t, u) : \|u\| \le t\} = \mathcal{Q}^*, \qquad
    \mathcal{E} = \overline{\{(u, v, w) : v e^{u/v} \le w, \; v > 0\}}, \qquad
    \mathcal{E}^* = \overline{\{(u, v, w) : -u e^{v/u} \le e\, w, \; u < 0\}}

([Boyd2004]_ sections 2.2 and 2.6).
"""

from collections.abc import Sequence

import numpy as np

from substrate.arrays import Array

__all__ = ["CONES", "dual_excess", "jordan_product", "misalignment", "primal_excess"]

#: The cones that are known here, by the names cvxpy gives them.
CONES = frozenset({"Zero", "NonNeg", "SOC", "ExpCone"})

_LARGEST_EXPONENT = 700.0


def primal_excess(kind: str, s: Array, sizes: Sequence[int]) -> float:
    """The largest violation among the cones of one known kind, of the given sizes, that s runs through."""
    if kind == "Zero":
        return float(np.abs(s).max(initial=0.0))
    if kind == "NonNeg":
        return float((-s).max(initial=0.0))
    if kind == "SOC":
        return max((float(np.linalg.norm(part[1:]) - part[0]) for part in _split(s, sizes)), default=0.0)
    return max((_exponential(*map(float, part)) for part in _split(s, sizes)), default=0.0)


def dual_excess(kind: str, z: Array, sizes: Sequence[int]) -> float:
    """The same for the dual cones: of zero it is everything, and only the exponential cone is not its own."""
    if kind == "Zero":
        return 0.0
    if kind == "ExpCone":
        return max((_exponential_dual(*map(float, part)) for part in _split(z, sizes)), default=0.0)
    return primal_excess(kind, z, sizes)


def misalignment(kind: str, s: Array, z: Array, sizes: Sequence[int]) -> float:
    """How far s and z are from complementary, to first order in an error of either.

    Entry by entry in the orthant; in the second-order cone by their Jordan product, since s'z alone feels a wrong angle
    between two vectors on the boundary by its square only.
    """
    if kind == "SOC":
        pairs = zip(_split(s, sizes), _split(z, sizes), strict=True)
        return max((float(np.abs(jordan_product(p, q)).max(initial=0.0)) for p, q in pairs), default=0.0)
    if kind == "NonNeg":
        return float(np.abs(s * z).sum())
    return 0.0 if kind == "Zero" else abs(float(s @ z))


def jordan_product(s: Array, z: Array) -> Array:
    """(s'z, s_0 z_1 + z_0 s_1): zero exactly for complementary vectors of the second-order cone."""
    return np.append(s[1:] * z[0] + s[0] * z[1:], s @ z)


def _split(s: Array, sizes: Sequence[int]) -> list[Array]:
    return np.split(s, np.cumsum(sizes)[:-1])


def _exponential(u: float, v: float, w: float) -> float:
    """v exp(u/v) - w, or, at the edge, what is above or below zero."""
    if v <= 0.0:
        return max(-v, u, -w)
    return float(v * np.exp(min(u / v, _LARGEST_EXPONENT)) - w)


def _exponential_dual(u: float, v: float, w: float) -> float:
    """-u exp(v/u - 1) - w, or, at the edge, what is above or below zero."""
    if u >= 0.0:
        return max(u, -v, -w)
    return float(-u * np.exp(min(v / u - 1.0, _LARGEST_EXPONENT)) - w)
