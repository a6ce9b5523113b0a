r"""A lower bound on the optimal value of a program, by multipliers, over all w.

With multipliers :math:`z \in \mathcal{K}^*` and rows :math:`s = A x + B t(w) + b`, where w enters by its readings
:math:`t_j = \langle w, r_j \rangle` and by :math:`\tfrac{c}{2} w^T w` (:mod:`substrate.composition.whole_space`), the
objective is at least the Lagrangian, whose minimum over w is known with the full matrix G of inner products, and not
in coordinates that leave directions out:

.. math::

    p^\star \ge -z^T b - \frac{1}{2c} u^T G u + \min_x \Big( \tfrac12 x^T P x + (q - A^T z)^T x \Big) , \qquad
    u = B^T z - q_t .

For a column whose only entry of P is its diagonal p, the minimum is :math:`-(q - A^T z)_j^2/(2 p)`; for the others,
with any point :math:`\tilde x` and :math:`r = P \tilde x + q - A^T z`, it is at least

.. math:: -\tfrac12 \tilde x^T P \tilde x + r^T \tilde x - |r|^T R , \qquad |x^\star_j - \tilde x_j| \le R_j ,

R as in :mod:`substrate.composition.nearness` ([Boyd2004]_ section 5.1.3). Rounding is included in every term.
"""

import math

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.composition.cone_program import ConeProgram
from substrate.composition.nearness import in_dual_cone

__all__ = ["dual_value"]


def dual_value(program: ConeProgram, x: Array, z: Array, radius: Array) -> float:
    """Return a lower bound on the optimal value in the units of the program, by multipliers z near a point x."""
    z = in_dual_cone(program, z)
    products = z * program.b
    terms = [-float(products.sum())]
    lost = relative_rounding(products.size + 2.0) * float(np.abs(products).sum())
    rest = np.ones(program.q.size, dtype=bool)
    for term, loss in _of_functions(program, z, rest):
        terms.append(term)
        lost += loss
    # columns with a diagonal entry alone: the exact minimum
    pull, error = program.slope(np.zeros_like(x), z)
    single = rest & (program.alone > 0.0)
    steep = np.abs(pull[single]) + error[single]
    squares = np.square(steep) / (2.0 * program.alone[single])
    terms.append(-float(squares.sum()))
    lost += relative_rounding(squares.size + 8.0) * float(squares.sum())
    others = np.flatnonzero(rest & ~single)
    if others.size:
        base = np.zeros_like(x)
        base[others] = x[others]
        slope, slope_error = program.slope(base, z)
        P = program.P[others][:, others]
        quadratic = float(x[others] @ (P @ x[others]))
        linear = slope[others] * x[others]
        terms += [-0.5 * quadratic, float(linear.sum())]
        lost += float((np.abs(slope[others]) + slope_error[others]) @ radius[others])
        lost += float(slope_error[others] @ np.abs(x[others]))
        size = float(np.abs(x[others]) @ (abs(P) @ np.abs(x[others]))) + float(np.abs(linear).sum())
        lost += relative_rounding(others.size + 8.0) * size
    lost += relative_rounding(8.0) * math.fsum(map(abs, terms))
    value = math.fsum(terms) - lost
    return value if math.isfinite(value) else -math.inf


def _of_functions(program: ConeProgram, z: Array, rest: Array) -> list[tuple[float, float]]:
    """-u'Gu/(2c) of every function, and its rounding; ``rest`` loses the columns of their coordinates."""
    if program.whole is None:
        return []
    shifted, sizes = program.whole.shifted, program.whole.sizes
    pulls = shifted.B.T @ z - shifted.q
    counts = np.bincount(sizes.indices, minlength=sizes.shape[1]) + 2.0
    loss = relative_rounding(1.0) * counts * (sizes.T @ np.abs(z) + np.abs(shifted.q))
    found = []
    for substrate in program.whole.substrates:
        rest[substrate.z] = False
        gap = substrate.gap
        pull, doubt = np.zeros(gap.lengths.size), np.zeros(gap.lengths.size)
        np.add.at(pull, substrate.places, pulls[substrate.shifts])
        np.add.at(doubt, substrate.places, loss[substrate.shifts])
        a = gap.coefficients(pull)
        values, radius = gap.readings(a)
        square = max(float(a @ values), 0.0) + float(np.abs(a) @ radius)
        square += relative_rounding(a.size + 4.0) * float(np.abs(a) @ np.abs(values))
        # what rounding may change in the pulls acts on w by the lengths of the representers
        spread = 2.0 * float(
            gap.lengths @ (doubt + relative_rounding(gap.values + 4.0) * np.abs(pull).max(initial=0.0))
        )
        length = math.sqrt(square) + spread
        found.append((-length * length / (2.0 * substrate.weight), 0.0))
    return found
