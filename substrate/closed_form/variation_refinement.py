r"""A settled point of maximal variation with its rows at their bounds to the last bits of v.

The gap of an exact point is :math:`\sum_l \sum_i |\xi^l_i| (t_l - s_i C^l_i v)`, first order in what rounding leaves
between rows that share a bound, and the fitted values are known to its root only. The differences between such rows
are computed in doubled precision and taken out by the shortest step in :math:`u = R v`,

.. math:: \min_{\delta} \|R \delta\| \quad \text{s.t.} \quad
          (s_i C^l_i - s_{ref} C^l_{ref})\, \delta = s_{ref} C^l_{ref} v - s_i C^l_i v .
"""

import numpy as np
from scipy.linalg import solve_triangular

from substrate.arrays import Array
from substrate.certificates.doubled_precision import exact_product
from substrate.closed_form.component_coordinates import ComponentCoordinates
from substrate.closed_form.variation_accuracy import VariationWitness

__all__ = ["refined_witness"]

_STEPS = 3
#: Share of rho from which a multiplier says that its row is at its bound.
_ACTIVE = 1e-9
#: Relative size of directions of the rows that are left as they are.
_DEPENDENT = 1e-12


def refined_witness(coordinates: ComponentCoordinates, witness: VariationWitness, rho: float) -> VariationWitness:
    """The same multipliers with a point whose active rows agree more closely."""
    parts, R, xi = coordinates.parts, coordinates.metric, witness.xi
    rows: list[Array] = []
    signs: list[float] = []
    references: list[int] = []
    for part in range(parts.shape[0]):
        (active,) = np.nonzero(np.abs(xi[part]) > _ACTIVE * rho)
        if active.size > 1:
            start = len(rows)
            order = active[np.argsort(-np.abs(xi[part, active]), kind="stable")]
            rows += [parts[part, row] for row in order]
            signs += np.sign(xi[part, order]).tolist()
            references += [start] * order.size
    if not rows:
        return witness
    signed = np.array(signs)[:, None] * np.array(rows)
    reference = np.array(references)
    (others,) = np.nonzero(reference != np.arange(reference.size))
    differences = signed[others] - signed[reference[others]]
    along = np.asarray(solve_triangular(R, differences.T, trans="T").T)
    v = witness.v
    for _ in range(_STEPS):
        (high, low), _ = exact_product(signed, v)
        apart = (high[reference[others]] - high[others]) + (low[reference[others]] - low[others])
        if not np.isfinite(apart).all() or not apart.any():
            break
        step: Array = np.linalg.lstsq(along, apart, rcond=_DEPENDENT)[0]
        v = v + np.asarray(solve_triangular(R, step))
    return VariationWitness(v, xi)
