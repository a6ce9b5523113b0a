r"""Error bars of a Gaussian process: the variance of a new target, and the noise variance from the evidence.

A least-squares machine is the posterior mean of a process with covariance :math:`\gamma s^2 k`, noise of variance
:math:`s^2 / v_i` and a flat prior on the bias ([Rasmussen2006]_ section 2.7). With p of
:mod:`~substrate.uncertainty.influence` a new target of weight one has the variance

.. math:: s^2 \, (\gamma\, p(x) + 1),

and the evidence of y, the bias integrated out, is largest at

.. math:: s^2 = \frac{y^T \alpha}{\gamma (n - 1)},

or with n - m in the place of n - 1 where m columns are not penalised (:mod:`~substrate.least_squares.border`).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.least_squares.border import ONES, Border
from substrate.least_squares.saddle_system import target_unit
from substrate.namespaces import namespace_of, to_numpy
from substrate.uncertainty.influence import LeftOutMachines
from substrate.uncertainty.levels import exact_level

__all__ = ["gaussian_deviations", "gaussian_ends", "noise_of_targets"]


def noise_of_targets(Y: Array, support_values: Array, gammas: Sequence[float], border: Border = ONES) -> Array:
    """Return the variance of the noise from y'alpha, one number per output; y up to Z c, since Z'alpha = 0."""
    Y, alpha = to_numpy(Y), to_numpy(support_values)
    unit = target_unit(Y)
    centred = border.shorten(Y / unit)
    with np.errstate(over="ignore"):
        scaled = np.einsum("ij,ij->j", centred, alpha / unit) / (np.asarray(gammas) * (Y.shape[0] - border.count))
        return np.asarray(np.maximum(scaled, 0.0) * unit * unit)


def gaussian_deviations(machines: LeftOutMachines, noise: float, X: Any, diagonal: Array) -> Array:
    """Return the standard deviation of a new target at every point."""
    p = machines.spread(X, diagonal)
    return namespace_of(p).sqrt(noise * (machines.gamma * p + 1.0))  # type: ignore[no-any-return]


def gaussian_ends(fitted: Array, deviations: Array, coverage: Any) -> Array:
    """Return f(x) plus and minus a normal quantile times the deviation."""
    from scipy.special import ndtri

    reach = float(ndtri(float((1 + exact_level(coverage)) * Fraction(1, 2)))) * deviations
    return namespace_of(fitted).stack([fitted - reach, fitted + reach], axis=-1)  # type: ignore[no-any-return]
