r"""The spread of a machine's errors as a function of the inputs and of the prediction, in closed form.

With left-out residuals :math:`r_j` of rows, left-out predictions :math:`h_j = y_j - r_j` and u the largest
:math:`|r_j|`, a second machine of least squares is fitted to

.. math:: t_j = |r_j / u|^{2/3}, \qquad s(x) = u \, \max(g(x, f(x)), \tau \bar t)^{3/2}, \qquad \tau = 0.1 .

The cube root of a squared normal number is nearly normal ([Wilson1931]_), so that least squares loses little to the
likelihood, and one wild residual does not decide. The kernel of g is the sum of two, each over the mean of its centred
diagonal: the kernel of the machine, by which the spread may change from place to place, and
:math:`\exp(-(h - h')^2 / 2)` of predictions in units of their deviation, by which it follows the level, whatever the
number of inputs. The weight of its penalty is chosen from a few for the smallest left-out error of the :math:`t_j`, by
one decomposition (:mod:`substrate.operators.spectrum`); the largest of them gives a constant spread.

Left-out errors over the spread at their rows, which are left out there too, are nonconformity scores.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from substrate.arrays import Array
from substrate.operators.gram import Gram
from substrate.operators.spectrum import centred_spectrum
from substrate.values import Record

__all__ = ["Spread"]

#: The power of absolute residuals that is nearly normal.
_POWER = 2.0 / 3.0
#: Weights of the penalty, per row, in units of the kernel: from all but constant on.
_PENALTIES = (1e3, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
#: Least share of the mean of t that a spread has.
_LEAST = 0.1
#: Rows below which a spread is a constant.
_FEWEST = 4


@dataclass(frozen=True, slots=True, eq=False)
class Spread(Record):
    """The machine g of one output.

    Parameters
    ----------
    levels, coefficients
        Left-out predictions of the rows in units of their deviation, and the coefficients of the expansion on them.
    bias, floor, unit
        The constant of g, the least value it is given, and u.
    center, deviation
        Mean and deviation of left-out predictions.
    scores
        The absolute left-out residuals over the spread at their rows, which is left out there too.
    sizes
        The numbers by which the kernel of the machine and the kernel of predictions are divided; infinite for a
        constant one.
    """

    levels: Array
    coefficients: Array
    bias: float
    floor: float
    unit: float
    center: float
    deviation: float
    scores: Array
    sizes: Array

    @classmethod
    def of(cls, K: Array, residuals: Array, predictions: Array) -> Self:
        """Fit to the left-out residuals of rows with the kernel matrix K, and their left-out predictions."""
        n, size = residuals.size, np.abs(residuals)
        unit = float(size.max(initial=0.0))
        center, deviation = float(predictions.mean()), float(predictions.std())
        if not (np.isfinite(deviation) and deviation > 0.0):
            center, deviation = 0.0, 1.0
        levels = (predictions - center) / deviation
        if n < _FEWEST or not (np.isfinite(unit) and unit > 0.0):
            unit = unit if np.isfinite(unit) and unit > 0.0 else 1.0
            return cls(
                levels=levels,
                coefficients=np.zeros(n),
                bias=1.0,
                floor=1.0,
                unit=unit,
                center=center,
                deviation=deviation,
                scores=size / unit,
                sizes=np.full(2, np.inf),
            )
        targets = (size / unit) ** _POWER
        sizes = np.array([_centred_size(K), _centred_size(_level_kernel(levels, levels))])
        spectrum = centred_spectrum(Gram(_joined(K, levels, levels, sizes)))
        lambdas = n * np.array(_PENALTIES) + spectrum.lift
        coordinates = spectrum.targets(targets)
        g = 1.0 / (spectrum.values[:, None] + lambdas - spectrum.lift)
        errors = spectrum.support_values(coordinates, lambdas)[:, :, 0] / (np.square(spectrum.basis) @ g)
        place = int(np.argmin(np.square(errors).mean(axis=0)))  # the first, the largest, where some are equal
        best, floor = lambdas[[place]], _LEAST * float(targets.mean())
        spread_of_rows = unit * np.maximum(targets - errors[:, place], floor) ** (1.0 / _POWER)
        alpha = spectrum.support_values(coordinates, best)
        return cls(
            levels=levels,
            coefficients=np.ascontiguousarray(alpha[:, 0, 0]),
            bias=float(spectrum.bias(coordinates, alpha)[0, 0]),
            floor=floor,
            unit=unit,
            center=center,
            deviation=deviation,
            scores=size / spread_of_rows,
            sizes=sizes,
        )

    def at(self, kernel_values: Array, predictions: Array) -> Array:
        """Return s at points with these kernel values with the rows, one line each, and these predictions."""
        levels = (predictions - self.center) / self.deviation
        g = _joined(kernel_values, levels, self.levels, self.sizes) @ self.coefficients + self.bias
        return np.asarray(self.unit * np.maximum(g, self.floor) ** (1.0 / _POWER))


def _level_kernel(levels: Array, centres: Array) -> Array:
    return np.asarray(np.exp(-0.5 * np.square(levels[:, None] - centres[None, :])))


def _centred_size(K: Array) -> float:
    """Return the mean of the diagonal of the centred matrix; infinite where it is rounding."""
    diagonal, mean = float(np.mean(np.diagonal(K))), float(np.mean(K))
    size = diagonal - mean
    return size if size > 1e-9 * max(abs(diagonal), abs(mean)) else np.inf


def _joined(kernel_values: Any, levels: Array, centres: Array, sizes: Array) -> Array:
    return np.asarray(np.asarray(kernel_values) / sizes[0] + _level_kernel(levels, centres) / sizes[1])
