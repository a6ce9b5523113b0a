r"""The terms of machines as formulas: kernel expansions, weighted features and linear columns.

.. math:: f_k(x) = \sum_i \alpha_{ik}\, k(x, z_i), \qquad f_k(x) = \sum_j w_{jk} (\varphi_j(x) - c_j), \qquad
          f_k(x) = \sum_j \beta_{jk} (x_j - c_j)

with one formula per output k, of the coordinates of a row in the units of the machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse
from substrate.errors import DeclarationError
from substrate.formulas.derivatives import differentiate
from substrate.formulas.nodes import Node, Points, constant, kernel_formula, sum_of, total
from substrate.kernels import Kernel

__all__ = ["MOST_FEATURES", "add_outputs", "expand_kernel", "expand_linear", "weigh_features"]

#: Features that are written one by one; a kernel with more is no short formula of its inputs.
MOST_FEATURES = 5000


def add_outputs(left: Iterable[Node], right: Iterable[Any]) -> list[Node]:
    """Return the sums of two lists of outputs, nodes or numbers."""
    return [first + second for first, second in zip(left, right, strict=True)]


def expand_kernel(
    kernel: Kernel, points: Any, coefficients: Array, x: Sequence[Node], orders: Mapping[int, int] | None = None
) -> list[Node]:
    """Return the expansions on these points, one per column of the coefficients.

    With ``orders``, by column, those of the derivatives of the kernel at the points. Points that count in no output are
    left out.
    """
    (used,) = np.nonzero(np.any(coefficients != 0.0, axis=1))
    if not used.size:
        return [constant(0.0)] * coefficients.shape[1]
    z = Points(np.ascontiguousarray(points[used].toarray() if is_sparse(points) else points[used], dtype=np.float64))
    body = kernel_formula(kernel, x, z.coordinates())
    if orders:
        body = differentiate(body, z, orders)
    return [total(body, coefficients[used, column]) for column in range(coefficients.shape[1])]


def weigh_features(kernel: Kernel, center: Array, weights: Array, x: Sequence[Node]) -> list[Node]:
    """Return the weighted sums of the features of a kernel of finite rank, less their center."""
    if weights.shape[0] > MOST_FEATURES:
        raise DeclarationError(
            f"the machine has {weights.shape[0]} weights of the features of {kernel!r}, which are written one by one, "
            f"up to {MOST_FEATURES}; take a smaller degree or fewer columns"
        )
    features = [constant(value) - c for value, c in zip(kernel.exact_features(constant, x), center, strict=True)]
    return [
        sum_of(constant(w) * feature for w, feature in zip(weights[:, column], features, strict=True))
        for column in range(weights.shape[1])
    ]


def expand_linear(numbers: Sequence[int], center: Array, slopes: Array, x: Sequence[Node]) -> list[Node]:
    """Return the weighted sums of some columns, less their center."""
    columns = [x[number] - c for number, c in zip(numbers, center, strict=True)]
    return [
        sum_of(constant(beta) * column for beta, column in zip(slopes[:, output], columns, strict=True))
        for output in range(slopes.shape[1])
    ]
