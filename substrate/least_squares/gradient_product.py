r"""The average gradient outer product of a kernel expansion: along which inputs, and directions, a function changes.

For :math:`f(x) = \sum_j \alpha_j k(x, x_j) + b`, one column of :math:`\alpha` per output, and weights v of the rows,

.. math:: M = \frac{\sum_i v_i \sum_o \nabla f_o(x_i) \nabla f_o(x_i)^T}{\sum_i v_i}, \qquad
          \nabla f_o(x) = \sum_j \alpha_{jo} \nabla_x k(x, x_j) ,

in closed form from derivatives of the kernel. A machine that measures distances by
:math:`(x - z)^T M (x - z)` is one step of a recursive feature machine ([Radhakrishnan2024]_ eq. (2)); the diagonal of M
has one number for every input, the squared derivative along it, and :math:`M_{cc}^{-1/2}` is a width for it.
"""

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.kernels import Kernel

__all__ = ["average_gradient_product", "widths_by_gradients"]

#: Smallest share of the mean square derivative that an input is taken to have, so that no width is infinite.
_LEAST_SHARE = 1e-3


def average_gradient_product(
    kernel: Kernel, X: Array, centres: Array, support_values: Array, weights: Array | None = None
) -> Array:
    """Return M at the rows of X, for an expansion on ``centres`` with one column of support values per output.

    A kernel without first derivatives is refused.
    """
    alpha = np.reshape(support_values, (centres.shape[0], -1))
    d, v = X.shape[1], np.ones(X.shape[0]) if weights is None else np.asarray(weights)
    if v.shape != (X.shape[0],):
        raise DataError(f"weights must have one number per row, {X.shape[0]}, received shape {v.shape}")
    for column in range(d):
        kernel.refuse_orders({column: 1})
    inputs, product, shares = [{column: 1} for column in range(d)], np.zeros((d, d)), v / v.sum()
    for coefficients in alpha.T:
        gradients = np.column_stack(kernel.derivative_sums(X, centres, inputs, {}, coefficients))
        product += (gradients * shares[:, None]).T @ gradients
    return product


def widths_by_gradients(product: Array, widths: Array) -> Array:
    """Return widths in the ratios of the diagonal of M, as large as given ones by the mean of their inverse squares.

    An input along which the function hardly changes keeps a share of a thousandth. Where it changes along none, the
    given widths are returned.
    """
    squares = np.maximum(np.diagonal(product), 0.0) * np.square(widths)
    total = float(squares.sum())
    if not (np.isfinite(total) and total > 0.0):
        return np.asarray(widths)
    shares = np.maximum(squares * (widths.size / total), _LEAST_SHARE)
    return np.asarray(widths / np.sqrt(shares * (widths.size / shares.sum())))
