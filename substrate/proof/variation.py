r"""The bounds of machines of maximal variation in ball arithmetic, on all rows and on a reduced basis.

On all rows, from a point and multipliers in the directions :math:`A^l` that the cut-off keeps, as in
:mod:`~substrate.penalized.variation.accuracy`,

.. math:: P - Q = \tfrac12 q^T H^{-1} q + \sum_l \big(\rho_l \|C^l v\|_\infty - \xi^{lT} C^l v\big),
          \qquad C^l = \Omega^l A^l, \quad w^T w = v^T \sum_l A^{lT} C^l v .

The directions are plain numbers, as double precision computed them; the kernel values :math:`\Omega^l` are exact.
What ``predict`` returned is compared with the point, and with the stored expansion in exact kernel values.

On a reduced basis, from the stored numbers and any dual point, with features :math:`z^l(x) = T_l^T k^l_S(x)` and
weights v of the stored expansions, as in :mod:`~substrate.penalized.variation.accuracy_on_a_basis`,

.. math:: \tfrac12 \|f - f^\star\|^2 \le \tfrac12 g^T H^{-1} g
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big) .
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import ACCURATE
from substrate.ingredients.component_weights import Weights, each_weight
from substrate.kernels import Componentwise, Kernel
from substrate.penalized.variation.accuracy import VariationWitness, shrunk
from substrate.penalized.variation.component_coordinates import ComponentCoordinates
from substrate.proof import Proof, ball, balls, flint, precision
from substrate.proof.duality import centred, gap_root, largest
from substrate.proof.least_squares import proof_of, root_of, weighted_root
from substrate.proof.reduced import BasisRows

__all__ = ["prove_reduced_variation", "prove_variation"]

_BITS = 160


def prove_variation(
    coordinates: ComponentCoordinates,
    y: Array,
    rho: Weights,
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
        parts = [_table(BasisRows(part, X, X).matrix()) for part in kernel.components(X.shape[1])]
        gap, values = _gap(parts, coordinates, y, rho, witness)
        ones, returned = [ball(1.0) for _ in y], balls(fitted)
        bound = gap_root(gap, ball(float(y.size)))
        bound += weighted_root([f - g for f, g in zip(returned, values, strict=True)], ones)
        exact = [ball(b) for _ in y]
        for number, part in enumerate(parts):
            column = balls(a if a.ndim == 1 else np.ascontiguousarray(a[:, number]))
            products = (part * flint().arb_mat(y.size, 1, column)).entries()
            exact = [one + other for one, other in zip(exact, products, strict=True)]
        bound += weighted_root([f - g for f, g in zip(returned, exact, strict=True)], ones)
        return proof_of(bound, y, ones, tolerance, bits)


def _table(rows: Sequence[Sequence[Any]]) -> Any:
    return flint().arb_mat(len(rows), len(rows[0]), [value for row in rows for value in row])


def _gap(
    matrices: Sequence[Any], coordinates: ComponentCoordinates, y: Array, rho: Weights, witness: VariationWitness
) -> tuple[Any, list[Any]]:
    """The gap, and the fitted values of the point with its best bias."""
    mat = flint().arb_mat
    d, n, r = coordinates.parts.shape
    shared = coordinates.coefficients
    A = [mat(n, r, balls((shared[part] if coordinates.decoupled else shared).ravel())) for part in range(d)]
    C = [matrix * columns for matrix, columns in zip(matrices, A, strict=True)]
    v = mat(r, 1, balls(witness.v))
    xi = shrunk(witness.xi, rho * (1.0 - 1e-15))  # a margin for the rounding of the ball
    F = C[0]
    for part in C[1:]:
        F = F + part
    values = [(part * v).entries() for part in C]
    whole = [sum(column, ball(0.0)) for column in zip(*values, strict=True)]
    errors = centred([t - f for t, f in zip(balls(y), whole, strict=True)])
    q, gap = F.transpose() * mat(n, 1, errors), ball(0.0)
    for part, value, weights, weight in zip(C, values, xi, each_weight(rho, d), strict=True):
        pulls = balls(weights)
        q = q - part.transpose() * mat(n, 1, pulls)
        gap += ball(weight) * largest([abs(one) for one in value])
        gap -= sum((pull * one for pull, one in zip(pulls, value, strict=True)), ball(0.0))
    means = mat(1, r, [sum(F[i, j] for i in range(n)) / n for j in range(r)])
    H = F.transpose() * F - means.transpose() * means * ball(float(n))
    if coordinates.ridge > 0.0:
        for columns, part in zip(A, C, strict=True):
            G = columns.transpose() * part * ball(coordinates.ridge)
            q, H = q - G * v, H + G
    if not any(one != 0 for one in H.entries()):  # nothing is fitted
        H = mat(r, r, [ball(float(i == j)) for i in range(r) for j in range(r)])
    try:
        gap += (q.transpose() * H.solve(q))[0, 0] / 2
    except ZeroDivisionError:  # singular to this number of bits
        gap = ball(float("inf"))
    return gap, [t - e for t, e in zip(balls(y), errors, strict=True)]


_REDUCED_BITS = 200


def prove_reduced_variation(
    parts: Sequence[Kernel],
    X: Any,
    points: Any,
    transforms: Sequence[Array],
    y: Array,
    coefficients: Array,
    fitted: Array,
    rho: float,
    ridge: float,
    numbers: Sequence[int],
    xi: Array,
    row_weights: Array,
    *,
    tolerance: float = ACCURATE,
    bits: int = _REDUCED_BITS,
) -> Proof:
    """The proof for stored coefficients, one column per component; ``xi`` has one row per component, of any numbers."""
    library, n = flint(), y.size
    with precision(bits):
        zero, limit, targets = ball(0.0), ball(rho), balls(y)
        columns: list[Any] = []
        outputs = [zero] * n
        gap = zero
        weights: list[Any] = []
        pulls: list[Any] = []
        for k, (part, T) in enumerate(zip(parts, transforms, strict=True)):
            r = T.shape[1]
            if not r:
                continue
            squares = np.square(T).sum(axis=0)
            v = balls(np.where(squares > 0.0, (T.T @ coefficients[:, k]) / np.where(squares > 0.0, squares, 1.0), 0.0))
            K = [value for row in BasisRows(part, X, points).matrix(X) for value in row]
            Z = library.arb_mat(n, T.shape[0], K) * library.arb_mat(*T.shape, [t for row in T for t in balls(row)])
            values = Z * library.arb_mat(r, 1, v)
            largest = zero
            for i in range(n):
                largest = largest.max(abs(values[i, 0]))
                outputs[i] = outputs[i] + values[i, 0]
            multipliers = balls(xi[k]) if len(numbers) else []
            size = sum((abs(one) for one in multipliers), zero)
            if not size <= limit:
                multipliers = [one * limit / size.max(limit) for one in multipliers]
            reached = sum((one * values[i, 0] for one, i in zip(multipliers, numbers, strict=True)), zero)
            gap += limit * largest - reached
            weights += v
            columns += [[Z[i, j] for i in range(n)] for j in range(r)]
            pulls += [sum((one * Z[i, j] for one, i in zip(multipliers, numbers, strict=True)), zero) for j in range(r)]
        rest = [t - f for t, f in zip(targets, outputs, strict=True)]
        light = balls(row_weights)
        mass = sum(light, zero)
        mean = sum((p * one for p, one in zip(light, rest, strict=True)), zero) / mass
        errors = [one - mean for one in rest]
        size = len(columns)
        if size:
            means = [sum((p * z for p, z in zip(light, column, strict=True)), zero) / mass for column in columns]
            Z = library.arb_mat(n, size, [columns[j][i] - means[j] for i in range(n) for j in range(size)])
            pulled = library.arb_mat(n, size, [light[i] * Z[i, j] for i in range(n) for j in range(size)]).transpose()
            H = pulled * Z
            slopes = pulled * library.arb_mat(n, 1, errors)
            for j in range(size):
                H[j, j] += ball(ridge)
            g = library.arb_mat(size, 1, [ball(ridge) * weights[j] - slopes[j, 0] + pulls[j] for j in range(size)])
            gap += (g.transpose() * H.solve(g))[0, 0] / 2
        apart = [ball(f) - value - mean for f, value in zip(fitted.tolist(), outputs, strict=True)]
        return proof_of(root_of(2 * gap / mass) + weighted_root(apart, light), y, light, tolerance, bits)
