r"""The LS-SVM saddle system, by one Cholesky factorisation and two triangular solves.

.. math::

    \begin{bmatrix} 0 & 1^T \\ 1 & K + D \end{bmatrix}
    \begin{bmatrix} b \\ \alpha \end{bmatrix} = \begin{bmatrix} 0 \\ y \end{bmatrix},
    \qquad D = \operatorname{diag}\!\left(\frac{1}{\gamma v_i}\right)

[Pelckmans2005]_ eq. (2), [Suykens2002]_ eq. (5) and, with weights v, (12). With :math:`A = K + D`,
:math:`\eta = A^{-1} 1` and :math:`\nu = A^{-1} y`,

.. math:: b = \frac{1^T \nu}{1^T \eta}, \qquad \alpha = \nu - \eta\, b .

The column of ones is the border of most machines; with others (:mod:`~substrate.operators.border`) Z is in its
place, and b is a vector.

Factoring the indefinite bordered matrix instead would cost about twice as much. Fixed-precision iterative
refinement reduces the backward error to LAPACK's level when gamma makes A nearly singular.

The linear system of the LS-SVM classifier, for methods that remove columns or rows from it, is

.. math::

    A X = B, \qquad A = \begin{bmatrix} 0 & Y^T \\ Y & \Omega + D \end{bmatrix}, \qquad
    X = \begin{bmatrix} b \\ \alpha \end{bmatrix}, \qquad B = \begin{bmatrix} 0 \\ 1 \end{bmatrix}

[Carvalho2006]_ eq. (4) with :math:`\Omega = Y Y^T \circ K` and :math:`D = I/\gamma`. Errata: its (3) adds
:math:`1/\gamma` to every entry where it belongs on the diagonal, and the :math:`-Y^T` of its (4) makes A non-symmetric
without changing the solution.

With :math:`S = \operatorname{diag}(1, Y)`, :math:`S A S` is the same matrix for labels +1, the matrix of regression,
and :math:`S B = (0, Y)`. S is orthogonal, so A has the same singular values, pivots and least squares whatever the
labels: machines that differ in their labels only share one matrix.

The certificate row of a solution is the normwise backward error of the bordered system, recomputed from the data,
which are the conditions of optimality [Suykens2002]_ (4) with w and :math:`e = \alpha/(\gamma v)` eliminated,

.. math:: \frac{\|(y - f - \alpha / (\gamma v), \; Z^T \alpha)\|}{\|M\| \|x\| + \|y\|} ,

with the columns Z that are not penalised, a column of ones among them.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array, check_memory, namespace_of, target_unit, to_numpy
from substrate.certificate import Row, roundoff
from substrate.errors import DataError
from substrate.numbers import random_rounding, relative_rounding
from substrate.operators.border import ONES, Border
from substrate.operators.gram import Gram

__all__ = [
    "SaddleSolution",
    "bordered_matrix",
    "bordered_system",
    "bordered_target",
    "noise_of_targets",
    "ridge_of",
    "saddle_row",
    "solve_saddle_system",
]

_MOST_REFINEMENTS = 5


class SaddleSolution(NamedTuple):
    """Support values and bias, with K alpha (for the certificate) and a record of the computation.

    ``slopes`` are the coefficients of further columns of the border in their own units, one column per output.
    ``steps`` counts the steps of the iteration, or one and the refinements of a closed form; ``reason`` states why an
    iteration ended too early.
    """

    support_values: Array
    bias: Array
    products: Array
    slopes: Array
    steps: int
    reason: str = ""


def ridge_of(gamma: Any, weights: Array) -> Array:
    """Return the diagonal 1/(gamma v) that the errors of rows with these weights add to K.

    :equation [Suykens2002]_ (13): the diagonal 1/(gamma v)
    """
    xp = namespace_of(weights)
    with np.errstate(over="ignore", divide="ignore"):
        ridge: Array = 1.0 / (gamma * weights)
    if not bool(xp.all(xp.isfinite(ridge) & (ridge > 0.0))):
        raise DataError(
            f"1/(gamma v) leaves the range of floating point: gamma = {gamma:g}, weights between "
            f"{float(xp.min(weights)):g} and {float(xp.max(weights)):g}; rescale the weights or gamma"
        )
    return ridge


def solve_saddle_system(gram: Gram, y: Array, ridge: Array, border: Border = ONES) -> SaddleSolution:
    """Solve for one right-hand side (a vector y) or for many at once (a matrix, one column per output).

    Matrix, targets, ridge and solution are on one device, or all numpy's. ``border`` holds the columns that are not
    penalised.

    :equation [Pelckmans2005]_ (2): the linear system of LS-SVM regression
    :equation [Suykens2002]_ (5): the linear system of LS-SVM regression
    :equation [Cawley2002]_ (2): the dense system, with 1/(2 gamma) on the diagonal
    """
    xp, unit = namespace_of(y), target_unit(y)
    Y = (y[:, None] if y.ndim == 1 else y) / unit
    gram.factorize(ridge)
    shares = xp.min(ridge) / ridge
    target, shift = border.take_up(Y, shares / xp.sum(shares))
    Z = border.matrix(target)
    solved = gram.solve(xp.concat([target, Z], axis=1))
    elimination = border.eliminate(xp.asarray(solved[:, Y.shape[1] :], copy=True))
    norm, error, refinements = xp.linalg.vector_norm, math.inf, -1
    better, better_c = elimination(solved[:, : Y.shape[1]], xp.zeros_like(shift))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while refinements < _MOST_REFINEMENTS:
            better_products = gram.product(better)
            residual, missing = target - better_products - ridge[:, None] * better - Z @ better_c, -(Z.T @ better)
            # lower bounds of the norm of K, by its action on alpha and by its diagonal, keep the test strict
            length = norm(better, axis=0)
            stretch = norm(better_products, axis=0) / length
            stretch = xp.where(xp.isfinite(stretch), stretch, xp.zeros_like(stretch))
            scale = (xp.clip(stretch, min=float(xp.max(gram.diagonal))) + xp.max(ridge)) * length
            scale = scale + norm(better_c, axis=0) * math.sqrt(gram.n) + norm(target, axis=0)
            size, positive = xp.hypot(norm(residual, axis=0), norm(missing, axis=0)), scale > 0.0
            # the normwise backward error of the bordered system, worst column
            relative = xp.where(positive, size / xp.where(positive, scale, xp.ones_like(scale)), xp.zeros_like(scale))
            better_error = float(xp.max(relative))
            if refinements >= 0 and not better_error < 0.5 * error:
                break
            alpha, c, products, error, refinements = better, better_c, better_products, better_error, refinements + 1
            if error <= random_rounding(gram.n):
                break
            step, step_c = elimination(gram.solve(residual), missing)
            better, better_c = alpha + step, c + step_c
    bias, slopes = border.split(unit * (c + shift))
    index = (slice(None), 0) if y.ndim == 1 else (slice(None), slice(None))
    return SaddleSolution(
        support_values=unit * alpha[index],
        bias=bias[0] if y.ndim == 1 else bias,
        products=unit * products[index],
        slopes=slopes[index],
        steps=1 + refinements,
    )


def bordered_matrix(K: Array, ridge: Array) -> Array:
    """Return [0 1'; 1 K + D], the matrix of (4) when every label is +1; symmetric, a new array."""
    n = K.shape[0]
    check_memory(
        8.0 * (n + 1) ** 2, f"the {n + 1} x {n + 1} matrix of the linear system", "Take a reduced set of rows."
    )
    M = np.empty((n + 1, n + 1))
    M[0, 0], M[0, 1:], M[1:, 0] = 0.0, 1.0, 1.0
    M[1:, 1:] = K
    M[np.arange(1, n + 1), np.arange(1, n + 1)] += ridge
    return M


def bordered_target(Y: Array) -> Array:
    """Return (0, Y): a zero for the row of the bias above the targets of every output."""
    return np.concatenate([np.zeros((1, *Y.shape[1:])), Y])


def bordered_system(K: Array, y: Array, ridge: Array) -> tuple[Array, Array]:
    """Return A and B of (4) for labels -1, +1.

    :equation [Carvalho2006]_ (4): the matrix A and the right-hand side B
    """
    signs = np.append(1.0, y)
    A: Array = signs[:, None] * bordered_matrix(K, ridge) * signs
    return A, np.append(0.0, np.ones(y.size))


@np.errstate(over="ignore", invalid="ignore")  # overflow is not finite, and its row fails
def saddle_row(
    products: Array,
    diagonal: Array,
    y: Array,
    ridge: Array,
    support_values: Array,
    bias: float,
    *,
    tolerance: float | None = None,
    border: Border = ONES,
    slopes: Array | None = None,
) -> Row:
    """Return the row of one output, in units of :func:`~substrate.arrays.target_unit`.

    :equation [Suykens2002]_ (4): the conditions for optimality, with w eliminated

    Parameters
    ----------
    products
        K alpha, computed from the alpha that is certified.
    diagonal
        The diagonal of K.
    y, ridge
        Target and the diagonal 1/(gamma v).
    support_values, bias
        The solution.
    tolerance
        LAPACK's threshold for a direct method unless given; an iterative method states its own.
    border, slopes
        The columns that are not penalised, and the coefficients of these columns besides the constant.
    """
    unit = target_unit(y)
    p, t, alpha, b = products / unit, y / unit, support_values / unit, float(bias) / unit
    tolerance = roundoff(y.size) if tolerance is None else tolerance
    # Without the mean of y, which the bias absorbs: an offset must not make the check easier or less accurate.
    root, center = float(np.sqrt(y.size)), float(np.mean(t))
    linear = border.slope_values(slopes) / unit
    sizes = np.abs(t)
    if border.slopes and slopes is not None:  # eps/2 of it for every term and every sum of the linear part
        sizes = sizes + (border.slopes + 3.0) * (np.abs(border.columns - border.center) @ np.abs(slopes / unit))
    rounded = relative_rounding(4.0) * float(sizes.max())
    # what the linear part fits is taken off the targets: the bias and the kernel fit the rest
    t, b = t - linear - center, b - center
    implied, Z = ridge * alpha, border.matrix(y[:, None])
    norm_alpha = float(np.linalg.norm(alpha))
    # A lower bound of ||K|| (its action on alpha, its diagonal): the scale is never too large.
    norm_k = max(float(np.linalg.norm(p)) / norm_alpha if norm_alpha > 0.0 else 0.0, float(diagonal.max()))
    # The border is part of the matrix, so the scale includes its norm times alpha, and the rounding of y.
    scale = (norm_k + float(np.linalg.norm(Z))) * norm_alpha + float(np.linalg.norm(implied))
    scale += float(np.linalg.norm(t)) + root * (abs(b) + rounded / tolerance)
    return Row(
        name="backward error",
        value=math.hypot(float(np.linalg.norm(t - p - b - implied)), float(np.linalg.norm(Z.T @ alpha))),
        scale=scale,
        tolerance=tolerance,
        formula="||(y - f - alpha/(gamma v), Z'alpha)|| / (||M|| ||x|| + ||y||)",
    )


def noise_of_targets(Y: Array, support_values: Array, gammas: Sequence[float], border: Border = ONES) -> Array:
    """Return the variance of the noise from y'alpha, one number per output; y up to Z c, since Z'alpha = 0."""
    Y, alpha = to_numpy(Y), to_numpy(support_values)
    unit = target_unit(Y)
    Z = border.matrix(Y)
    centred = Y / unit - Z @ np.linalg.lstsq(Z, Y / unit, rcond=None)[0]  # which has the same products with alpha
    with np.errstate(over="ignore"):
        scaled = np.einsum("ij,ij->j", centred, alpha / unit) / (np.asarray(gammas) * (Y.shape[0] - border.count))
        return np.asarray(np.maximum(scaled, 0.0) * unit * unit)
