r"""A test, row by row, of whether rows are exchangeable: smoothed conformal p-values, and a martingale of bets on them.

With studentised scores (:mod:`~substrate.uncertainty.studentised`) of the rows and of a new one, the new row included,

.. math:: p = \frac{\#\{|s_i| > |s_{new}|\} + \tau\, \#\{|s_i| = |s_{new}|\}}{n + 1}, \qquad \tau \sim U(0, 1),

are independent and uniform over the rows that come one after another, if these are exchangeable ([Vovk2005]_ section
8.1): strange rows have small p. A bet on them, the simple mixture ([Vovk2003]_),

.. math:: M = \int_0^1 \prod_i \epsilon\, p_i^{\epsilon - 1} \, d\epsilon
            = e^{z} z^{-(k+1)} \int_0^z u^k e^{-u} du, \qquad z = - \sum_{i \le k} \log p_i ,

is then a martingale that starts at one: it ever reaches 1/d with probability d at most (Ville), however long one looks.
"""

import math
from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array

__all__ = ["Exchangeability", "smoothed_p_value"]


def smoothed_p_value(scores: Array, score: float, tau: float) -> float:
    """Return the p-value of a new row from the sizes of the scores of the others and its own; above zero.

    :place [Vovk2003]_ smoothed p-values: ties are drawn evenly
    """
    above, equal = int((scores > score).sum()), 1 + int((scores == score).sum())
    return max((above + tau * equal) / (scores.size + 1), float(np.finfo(np.float64).tiny))


@dataclass(frozen=True, slots=True)
class Exchangeability:
    """The p-values of rows that were learned one by one."""

    p_values: Array

    @property
    def log_martingale(self) -> float:
        """The natural logarithm of the martingale now.

        :place [Vovk2003]_ simple mixture: the martingale from p-values
        """
        return _log_mixture(self.p_values.size, -float(np.log(self.p_values).sum()))

    @property
    def largest_log_martingale(self) -> float:
        """The largest logarithm so far, at least zero: where it began."""
        sums = -np.cumsum(np.log(self.p_values))
        return max([0.0, *(_log_mixture(k + 1, float(z)) for k, z in enumerate(sums))])

    @property
    def p_value(self) -> float:
        """The probability, at most, with which exchangeable rows would ever look as strange as these did."""
        return math.exp(-self.largest_log_martingale)

    def __str__(self) -> str:
        return (
            f"{self.p_values.size} rows learned; exchangeable rows look as strange as these at some time with "
            f"probability {self.p_value:.2g} at most"
        )


def _log_mixture(k: int, z: float) -> float:
    """Return log of the mixture of k p-values, z minus the sum of their logarithms."""
    from scipy.special import gammainc, gammaln

    if z <= 0.0:
        return -math.log(k + 1.0)
    share = float(gammainc(k + 1.0, z))
    if share > 1e-280:
        return z - (k + 1.0) * math.log(z) + float(gammaln(k + 1.0)) + math.log(share)
    # z is far below k: the incomplete gamma function is z^(k+1) e^-z / (k+1) times a series in z / (k + 2)
    term = total = 1.0
    for j in range(1, 500):
        term *= z / (k + 1.0 + j)
        total += term
        if term < 1e-17 * total:
            break
    return math.log(total / (k + 1.0))
