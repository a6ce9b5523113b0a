r"""Huber's error term :math:`\gamma \sum_i v_i h_\delta(e_i)`, its stationarity, and its dual.

.. math::

    h_\delta(e) = \begin{cases} \tfrac12 e^2 & |e| \le \delta \\ \delta |e| - \tfrac12 \delta^2 & |e| > \delta
    \end{cases}, \qquad \alpha_i = \gamma v_i \, \mathrm{clip}(e_i, -\delta, \delta)

[Huber1964]_. No support value exceeds :math:`\gamma v_i \delta`, however large the error of its row. The conjugate of
the term is the conjugate of the squared errors with a bound, :math:`\sum_i \alpha_i^2 / (2 \gamma v_i)` where
:math:`|\alpha_i| \le \gamma v_i \delta`; in the shares :math:`a = \alpha / \gamma` the bound does not contain gamma.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row

__all__ = ["HuberConjugate", "HuberErrors", "huber_conjugate", "huber_errors", "huber_loss", "huber_rows"]


@dataclass(frozen=True, slots=True)
class HuberErrors:
    """The convex term, affine in its parameter gamma."""

    term: Any
    gamma: Any
    weights: Array
    delta: float
    e: Any

    def rows(self, support_values: Array, y: Array, tolerance: float) -> tuple[Row, ...]:
        """Return stationarity in e and the bound on the multipliers at the solver's point."""
        gamma_v = float(self.gamma.value) * self.weights
        return huber_rows(support_values, gamma_v, np.asarray(self.e.value), self.delta, tolerance, y)


@dataclass(frozen=True, slots=True)
class HuberConjugate:
    """The dual of the term over gamma, for shares a = alpha/gamma: a convex term and two labelled bounds."""

    term: Any
    constraints: list[Any]
    shares: Any


def huber_errors(e: Any, gamma: Any, weights: Array, delta: float) -> HuberErrors:
    """Build gamma sum v h(e); cvxpy's own atom is twice Huber's loss."""
    import cvxpy as cp

    return HuberErrors(
        term=0.5 * gamma * cp.sum(cp.multiply(weights, cp.huber(e, delta))),
        gamma=gamma,
        weights=weights,
        delta=delta,
        e=e,
    )


def huber_conjugate(shares: Any, weights: Array, delta: float) -> HuberConjugate:
    """Build 1/2 sum a^2/v under |a| <= v delta."""
    import cvxpy as cp

    bounds = [shares >= -delta * weights, shares <= delta * weights]
    for bound, label in zip(bounds, ("alpha >= -gamma v delta", "alpha <= gamma v delta"), strict=True):
        bound.set_label(label)
    return HuberConjugate(0.5 * cp.sum_squares(cp.multiply(weights**-0.5, shares)), bounds, shares)


def huber_loss(e: Array, delta: float) -> Array:
    """Return h_delta of each error."""
    size = np.abs(e)
    return np.asarray(np.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta)))


def huber_rows(
    support_values: Array,
    gamma_v: Array,
    e: Array,
    delta: float,
    tolerance: float,
    y: Array,
    scale: float | None = None,
    bound_scale: float | None = None,
) -> tuple[Row, ...]:
    """Return ||alpha/(gamma v) - clip(e)||, in units of y, and the largest excess of |alpha|/(gamma v) over delta.

    The excess is measured by ``bound_scale``, otherwise like the first. A method that computes alpha itself can satisfy
    the bound to rounding of the bound, and should be held to that: where delta is below the rounding of y, no other
    scale reveals an alpha that is too large.
    """
    implied, clipped = support_values / gamma_v, np.clip(e, -delta, delta)
    size = float(np.linalg.norm(implied) + np.linalg.norm(clipped) + np.linalg.norm(y)) if scale is None else scale
    excess = max(0.0, float((np.abs(implied) - delta).max()))
    return (
        Row(
            name="stationarity in e",
            value=float(np.linalg.norm(implied - clipped)),
            scale=size,
            tolerance=tolerance,
            formula="||alpha/(gamma v) - clip(e)||",
        ),
        Row(
            name="bound on alpha",
            value=excess,
            scale=size if bound_scale is None else bound_scale,
            tolerance=tolerance,
            formula="max (|alpha|/(gamma v) - delta)",
        ),
    )
