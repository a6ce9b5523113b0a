r"""Points whose features are near given ones: pre-images of scores, by ridge regression and by a fixed point.

The scores z of a component analysis stand for the feature :math:`\hat\varphi = \sum_i c_i \varphi(x_i)` with
:math:`c = \alpha z + v / 1^T v`, which is mostly that of no point x. Two ways to a point near it:

- **ridge**: an LS-SVM from the scores of the training rows to the rows themselves, gamma the best of a grid by exact
  leave-one-out errors over all columns, a kernel of the scores whose width is chosen with it ([Bakir2004]_);
- **fixed point**, for the kernel :math:`k(x, z) = \exp(-\|x - z\|^2/\sigma^2)`: the point nearest to
  :math:`\hat\varphi` in feature space maximises :math:`f(x) = \sum_i c_i k(x, x_i)`, and where its gradient vanishes

  .. math:: x = \frac{\sum_i c_i k(x, x_i)\, x_i}{\sum_i c_i k(x, x_i)}

  ([Mika1999]_). The iteration by itself may leave the data where the denominator is small. Here a step is
  taken only where f increases, halved where it does not, so that the answer is never worse than where it starts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError
from substrate.gram import Gram
from substrate.kernels import RBF, Kernel
from substrate.kernels.base import row_blocks
from substrate.least_squares.kernel_products import expansion_values
from substrate.least_squares.spectrum import centred_spectrum

__all__ = ["PreImageMap", "fit_pre_images", "follow_fixed_point", "refuse_other_kernels"]

#: Widths that are tried, in units of the median distance of the scores.
_WIDTHS = (1.0, 2.0, 4.0)
#: Values of lambda that are tried, in units of the mean eigenvalue.
_LAMBDAS = np.geomspace(1e-10, 1e2, 25)
#: Steps of the fixed point at most, and the change, as a share of the spread of the rows, at which it ends.
_STEPS, _ENOUGH = 200, 1e-10
#: How often a step that is not an improvement is halved.
_HALVINGS = 6


@dataclass(frozen=True, slots=True)
class PreImageMap:
    """A function from scores to points: an expansion of a kernel at the scores of the training rows.

    ``left_out`` is the root of the mean squared error of an entry of a row that is left out.
    """

    kernel: Kernel
    scores: Array
    coefficients: Array
    bias: Array
    left_out: float

    def __call__(self, Z: Array) -> Array:
        """Return one point for every row of scores."""
        return expansion_values(self.kernel, self.scores, self.coefficients, self.bias, Z)


def fit_pre_images(scores: Array, X: Array) -> PreImageMap:
    """Fit the function from scores to rows, with width and gamma of the smallest leave-one-out error."""
    best: PreImageMap | None = None
    unit = _unit(X)
    width = RBF("median").resolved(scores).sigma
    median = width if isinstance(width, float) else 1.0
    for factor in _WIDTHS:
        kernel = RBF(factor * median)
        candidate = _best_gamma(kernel, scores, X / unit)
        if best is None or candidate.left_out < best.left_out:
            best = candidate
    if best is None:
        raise TypeError("there are no widths to try")
    return PreImageMap(
        kernel=best.kernel,
        scores=scores,
        coefficients=unit * best.coefficients,
        bias=unit * best.bias,
        left_out=unit * best.left_out,
    )


def _unit(X: Array) -> float:
    size = float(np.abs(X).max(initial=0.0))
    return size if size > 0.0 else 1.0


def _best_gamma(kernel: Kernel, scores: Array, X: Array) -> PreImageMap:
    spectrum = centred_spectrum(Gram.of(kernel, scores), coarse=True)
    targets = spectrum.targets(X)
    scale = max(spectrum.trace / max(spectrum.n - 1, 1), np.finfo(float).tiny)
    lambdas = spectrum.lift + scale * _LAMBDAS
    leverages = np.asarray(spectrum.leverages(lambdas))
    errors = np.empty(lambdas.size)
    for k, lam in enumerate(lambdas):
        alpha = np.asarray(spectrum.support_values(targets, np.array([lam])))[:, 0, :]
        errors[k] = float(np.mean(np.square(alpha / leverages[:, k : k + 1])))
    errors = np.where(np.isfinite(errors), errors, np.inf)
    best = int(np.argmin(errors))
    alpha = np.asarray(spectrum.support_values(targets, lambdas[[best]]))
    bias = np.asarray(spectrum.bias(targets, alpha))[0]
    return PreImageMap(
        kernel=kernel, scores=scores, coefficients=alpha[:, 0, :], bias=bias, left_out=float(np.sqrt(errors[best]))
    )


def refuse_other_kernels(kernel: Kernel) -> None:
    """Raise for a kernel that has no such fixed point."""
    if not isinstance(kernel, RBF):
        raise DeclarationError(
            f"the fixed point of a pre-image is that of an RBF kernel, received {kernel!r}; use pre_image='ridge'"
        )


def follow_fixed_point(kernel: Kernel, points: Array, coefficients: Array, start: Array) -> Array:
    """Return the points at which the iteration ends, one for each row of ``coefficients`` and ``start``.

    :place [Mika1999]_ fixed-point iteration: the fixed point of a pre-image, with steps that are improvements only
    """
    refuse_other_kernels(kernel)
    answers = np.array(start, dtype=np.float64)
    spread = float(np.sqrt(np.mean(points.var(axis=0)))) or 1.0
    for rows in row_blocks(answers.shape[0], points.shape[0]):
        answers[rows] = _follow(kernel, points, coefficients[rows], answers[rows], _ENOUGH * spread)
    return answers


def _follow(kernel: Kernel, points: Array, coefficients: Array, x: Array, enough: float) -> Array:
    weighted = _weigh(kernel, points, coefficients, x)
    values, moving = weighted.sum(axis=1), np.arange(x.shape[0])
    for _ in range(_STEPS):
        sums = weighted.sum(axis=1)
        usable = sums > 1e-12 * np.abs(weighted).sum(axis=1)
        moving, weighted, sums = moving[usable], weighted[usable], sums[usable]
        if moving.size == 0:
            break
        step = weighted @ points / sums[:, None] - x[moving]
        moved, kept = np.zeros(moving.size, dtype=bool), np.zeros_like(weighted)
        for _ in range(_HALVINGS):
            (trying,) = np.nonzero(~moved)
            tried = _weigh(kernel, points, coefficients[moving[trying]], x[moving[trying]] + step[trying])
            better = tried.sum(axis=1) > values[moving[trying]]
            places = trying[better]
            x[moving[places]] += step[places]
            values[moving[places]] = tried.sum(axis=1)[better]
            kept[places], moved[places] = tried[better], True
            step[trying[~better]] *= 0.5
            if moved.all():
                break
        going = moved & (np.abs(step).max(axis=1) > enough)
        moving, weighted = moving[going], kept[going]
    return x


def _weigh(kernel: Kernel, points: Any, coefficients: Array, x: Array) -> Array:
    out = np.empty((x.shape[0], points.shape[0]))
    kernel.fill(x, points, out)
    out *= coefficients
    return out
