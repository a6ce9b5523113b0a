r"""The bound of maximal variation on a reduced basis in ball arithmetic, from the stored numbers and any dual point.

With features :math:`z^l(x) = T_l^T k^l_S(x)` and weights v of the stored expansions, as in
:mod:`~substrate.closed_form.reduced_variation_accuracy`,

.. math:: \tfrac12 \|f - f^\star\|^2 \le \tfrac12 g^T H^{-1} g
          + \sum_l \Big( \rho \max_i |f^l(x_i)| - \sum_{i \in W} \xi^l_i f^l(x_i) \Big) .
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.accuracy import ACCURATE
from substrate.kernels import Kernel
from substrate.proof.balls import above, ball, balls, below, flint, precision
from substrate.proof.record import Proof
from substrate.proof.reduced import BasisRows

__all__ = ["prove_variation"]

_BITS = 200


def prove_variation(
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
    *,
    tolerance: float = ACCURATE,
    bits: int = _BITS,
) -> Proof:
    """The proof for stored coefficients, one column per component; ``xi`` has a row per component, any numbers."""
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
        mean = sum(rest, zero) / n
        errors = [one - mean for one in rest]
        size = len(columns)
        if size:
            means = [sum(column, zero) / n for column in columns]
            Z = library.arb_mat(n, size, [columns[j][i] - means[j] for i in range(n) for j in range(size)])
            H = Z.transpose() * Z
            slopes = Z.transpose() * library.arb_mat(n, 1, errors)
            for j in range(size):
                H[j, j] += ball(ridge)
            g = library.arb_mat(size, 1, [ball(ridge) * weights[j] - slopes[j, 0] + pulls[j] for j in range(size)])
            gap += (g.transpose() * H.solve(g))[0, 0] / 2
        apart = [ball(f) - value - mean for f, value in zip(fitted.tolist(), outputs, strict=True)]
        bound = _root(2 * gap / n) + _root(sum((one * one for one in apart), zero) / n)
        middle = sum(targets, zero) / n
        spread = _root(sum(((t - middle) * (t - middle) for t in targets), zero) / n)
        accuracy = above(bound)
        reason = "" if np.isfinite(accuracy) else f"{bits} bits are not enough"
        rounding = n * EPS * float(np.abs(y).max(initial=0.0))
        return Proof(accuracy, max(below(spread), 0.0), tolerance, rounding, bits, reason)


def _root(value: Any) -> Any:
    if value > 0 or not value.is_finite():
        return value.sqrt()
    return ball(max(above(value), 0.0)).sqrt()
