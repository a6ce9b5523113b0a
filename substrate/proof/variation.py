r"""The bound of a machine of maximal variation in ball arithmetic, from a point and multipliers.

As in :mod:`~substrate.closed_form.variation_accuracy`: in the coordinates that the cut-off keeps,

.. math:: P - Q = \tfrac12 q^T H^{-1} q + \sum_l \big(\rho \|C^l v\|_\infty - \xi^{lT} C^l v\big) .

What ``predict`` returned is compared with the point, and with the stored expansion in exact kernel values.
"""

from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.accuracy import ACCURATE
from substrate.closed_form.component_coordinates import ComponentCoordinates
from substrate.closed_form.variation_accuracy import VariationWitness, shrunk
from substrate.kernels import Componentwise
from substrate.proof.balls import ball, balls, flint, precision
from substrate.proof.duality import centred, gap_root, largest, proof_of
from substrate.proof.least_squares import kernel_products, weighted_root
from substrate.proof.record import Proof

__all__ = ["prove_variation"]

_BITS = 160


def prove_variation(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: float,
    witness: VariationWitness,
    fitted: Array,
    kernel: Componentwise,
    X: Any,
    a: Array,
    b: float,
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> Proof:
    """The proof for one machine; ``a`` and ``b`` are stored, with one column per component where decoupled."""
    if not (np.isfinite(fitted).all() and np.isfinite(witness.v).all() and np.isfinite(a).all()):
        return Proof(float("inf"), 0.0, tolerance, 0.0, bits, "the model holds numbers that are not finite")
    with precision(bits):
        gap, values = _gap(coordinates, y, rho, witness)
        ones, said = [ball(1.0) for _ in y], balls(fitted)
        bound = gap_root(gap, ball(float(y.size)))
        bound += weighted_root([f - g for f, g in zip(said, values, strict=True)], ones)
        exact = [ball(b) for _ in y]
        for number, part in enumerate(kernel.components(X.shape[1])):
            column = balls(a if a.ndim == 1 else np.ascontiguousarray(a[:, number]))
            exact = [one + other for one, other in zip(exact, kernel_products(part, X, column), strict=True)]
        bound += weighted_root([f - g for f, g in zip(said, exact, strict=True)], ones)
        return proof_of(bound, y, ones, tolerance, bits)


def _gap(coordinates: ComponentCoordinates, y: Array, rho: float, witness: VariationWitness) -> tuple[Any, list[Any]]:
    """The gap, and the fitted values of the point with its best bias."""
    mat = flint().arb_mat
    _, n, r = coordinates.parts.shape
    C = [mat(n, r, balls(part.ravel())) for part in coordinates.parts]
    v = mat(r, 1, balls(witness.v))
    xi = shrunk(witness.xi, rho * (1.0 - 1e-15))  # what rounding leaves of the ball is given away
    F = C[0]
    for part in C[1:]:
        F = F + part
    values = [(part * v).entries() for part in C]
    whole = [sum(column, ball(0.0)) for column in zip(*values, strict=True)]
    errors = centred([t - f for t, f in zip(balls(y), whole, strict=True)])
    q, gap = F.transpose() * mat(n, 1, errors), ball(0.0)
    for part, value, weights in zip(C, values, xi, strict=True):
        pulls = balls(weights)
        q = q - part.transpose() * mat(n, 1, pulls)
        gap += ball(rho) * largest([abs(one) for one in value])
        gap -= sum((pull * one for pull, one in zip(pulls, value, strict=True)), ball(0.0))
    means = mat(1, r, [sum(F[i, j] for i in range(n)) / n for j in range(r)])
    H = F.transpose() * F - means.transpose() * means * ball(float(n))
    if coordinates.ridge > 0.0:
        size = coordinates.weights.shape[0]
        W = mat(size, r, balls(coordinates.weights.ravel()))
        G = W.transpose() * W * ball(coordinates.ridge)
        q, H = q - G * v, H + G
    if not any(one != 0 for one in H.entries()):  # nothing is fitted
        H = mat(r, r, [ball(float(i == j)) for i in range(r) for j in range(r)])
    try:
        gap += (q.transpose() * H.solve(q))[0, 0] / 2
    except ZeroDivisionError:  # singular, as far as these bits tell
        gap = ball(float("inf"))
    return gap, [t - e for t, e in zip(balls(y), errors, strict=True)]
