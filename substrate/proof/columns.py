r"""The bound of least squares on some columns of the LS-SVM's system in ball arithmetic, from the stored numbers.

With :math:`C = A_S`, :math:`x = (b, \alpha_S)`, :math:`e = B - C x` and :math:`\delta = (C^T C)^{-1} C^T e`, the exact
solution is :math:`x + \delta`, and its fitted values are those of the machine with these coefficients:

.. math:: f^\star = K_S (\alpha + \delta_\alpha) + (b + \delta_b) 1 .

See :mod:`substrate.closed_form.column_accuracy` for the same in double precision.
"""

import math
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.accuracy import ACCURATE, spread_of
from substrate.kernels import Foreign, Kernel
from substrate.proof.balls import ball, balls, flint, precision
from substrate.proof.kernel_balls import formula_of
from substrate.proof.least_squares import given_values, points_of, proof_of, weighted_root
from substrate.proof.record import Proof

__all__ = ["prove_kept_columns"]

_BITS = 256


def prove_kept_columns(
    kernel: Kernel, X: Any, y: Array, gamma: float, columns: Any, a: Array, b: float, fitted: Array,
    *, tolerance: float = ACCURATE, bits: int = _BITS,
) -> Proof:  # fmt: skip
    """The proof for one machine of the rows X; ``fitted`` is what predict returned for them."""
    library = flint()
    n, m = y.size, a.size
    with precision(bits):
        values = _values(kernel, X, columns)
        alpha, targets, said, ones = balls(a), balls(y), balls(fitted), balls(np.ones(n))
        d = 1 / ball(gamma)
        C = library.arb_mat(
            n + 1, m + 1, [ball(0.0)] + [ball(1.0)] * m + [k for row in values for k in (ball(1.0), *row)]
        )
        for place, row in enumerate(columns.tolist()):
            C[row + 1, place + 1] += d
        x = library.arb_mat(m + 1, 1, [ball(b), *alpha])
        B = library.arb_mat(n + 1, 1, [ball(0.0), *targets])
        across = C.transpose()
        try:
            step = (across * C).solve(across * (B - C * x))
        except ZeroDivisionError:  # what python-flint says where no enclosure of an inverse is found
            spread, rounding = spread_of(y, np.ones(n))
            return Proof(math.inf, spread, tolerance, rounding, bits, f"{bits} bits cannot tell the columns apart")
        exact = [
            sum((k * (x[j + 1, 0] + step[j + 1, 0]) for j, k in enumerate(row)), x[0, 0] + step[0, 0]) for row in values
        ]
        apart = [one - other for one, other in zip(said, exact, strict=True)]
        return proof_of(weighted_root(apart, ones), y, targets, ones, tolerance, bits)


def _values(kernel: Kernel, X: Any, columns: Any) -> list[list[Any]]:
    """Kernel values of all rows against the kept ones; a matrix or a function counts as the values it gives."""
    if kernel.pairwise or isinstance(kernel, Foreign):
        return [balls(row) for row in given_values(kernel, X)[:, columns]]
    points = points_of(X)
    formula = formula_of(kernel, len(points[0]))
    return [[formula(x, points[j]) for j in columns.tolist()] for x in points]
