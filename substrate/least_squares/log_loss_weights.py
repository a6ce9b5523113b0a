r"""Weights of a stack of classifiers: the log-loss of mixed probabilities over the simplex, with a lower bound.

With the left-out probabilities :math:`P_{im}` that M machines give to the right answer of every row, one column each,
and weights v of the rows that sum to one, a stack gives it :math:`p_i = \sum_m u_m P_{im}`, and

.. math:: \min_u \; L(u) = - \sum_i v_i \log (P u)_i \quad \text{subject to} \quad u \ge 0, \; 1^T u = 1

is convex. With :math:`A_{im} = P_{im} / p_i` its gradient is :math:`-A^T v` and its Hessian :math:`A^T V A`; since
:math:`A u = 1`, the quadratic model at u, as a function of the next weights w, is

.. math:: \tfrac12 \sum_i v_i (A w - 1)_i^2 - \sum_i v_i (A w - 1)_i = \tfrac12 \| (2 \cdot 1 1^T - A) w \|_v^2 + c,

the weights of machines whose left-out errors are :math:`2 - P_{im} / p_i`
(:mod:`~substrate.least_squares.simplex_weights`): Newton's method is a few of those problems, each followed by a search
along the line.

Convexity gives the bound, for whatever u,

.. math:: L(u) - \min L \; \le \; \max_m \langle -\nabla L(u), e_m - u \rangle
          = \max_m \sum_i v_i \frac{P_{im}}{p_i} - 1 ,

the gap of [Frank1956]_, which vanishes at the optimum; what rounding of the products may have hidden is added.
"""

from dataclasses import dataclass

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Row
from substrate.certificates.rounding import relative_rounding
from substrate.certificates.rows import ACCURATE
from substrate.least_squares.simplex_weights import weigh_machines

__all__ = ["LogLossGap", "bound_log_loss", "left_out_probabilities", "weigh_by_log_loss"]

#: Most steps of Newton's method, halvings of one of them, and the gap at which they end.
_STEPS, _HALVINGS, _SMALL = 50, 40, 1e-9


@dataclass(frozen=True, slots=True)
class LogLossGap:
    """The mean log-loss of given weights, and how far below it that of the best weights can be, rounding included."""

    loss: float
    gap: float

    @property
    def row(self) -> Row:
        """The row of a certificate: how much of the loss other weights could take off."""
        return Row(
            name="gap of the weights",
            value=self.gap,
            scale=1.0,
            tolerance=ACCURATE,
            formula="max_m sum_i v_i P_im / (P u)_i - 1 + rounding",
        )


def left_out_probabilities(errors: Array, codes: Array) -> Array:
    """Return the probability of the right code, -1 or 1, of every row and code, from left-out errors y - f.

    That is :math:`(1 + y f)/2 = 1 - y (y - f)/2`, and from 1/(N + 2) to 1 - 1/(N + 2), N the number of rows: a share
    that was never seen is not zero. ``errors`` have machines in the last axis.
    """
    least = 1.0 / (errors.shape[0] + 2.0)
    return np.asarray(np.clip(1.0 - 0.5 * codes[..., None] * errors, least, 1.0 - least))


def weigh_by_log_loss(probabilities: Array, weights: Array, start: Array | None = None) -> Array:
    """Return the u of machines, one column of probabilities of the right answer each, by the weights of the rows.

    ``start`` are weights to begin with, equal ones unless given.
    """
    P, v = probabilities, weights / weights.sum()
    u = np.full(P.shape[1], 1.0 / P.shape[1]) if start is None else start
    for _ in range(_STEPS):
        ratios = P / (P @ u)[:, None]
        if float((v @ ratios).max()) - 1.0 <= _SMALL:
            break
        step = weigh_machines(2.0 - ratios, v) - u
        slope = -float(v @ (ratios @ step))
        loss, length = -float(v @ np.log(P @ u)), 1.0
        for _ in range(_HALVINGS):
            w = np.maximum(u + length * step, 0.0)
            w /= w.sum()
            if -float(v @ np.log(P @ w)) <= loss + 0.25 * length * slope:
                break
            length *= 0.5
        else:
            break  # nothing is left to gain in floating point, and the gap says how much may be
        u = w
    return u


def bound_log_loss(probabilities: Array, weights: Array, u: Array) -> LogLossGap:
    """Bound how much the loss of given weights, which sum to one, is above that of the best ones."""
    n, M = probabilities.shape
    v = weights / weights.sum()
    p = probabilities @ u
    sums = v @ (probabilities / p[:, None])
    # all terms are positive: the products with u, the quotient, those with v and its own share have so many roundings
    rounding = relative_rounding(n + M + 8) * float(sums.max())
    return LogLossGap(-float(v @ np.log(p)), max(float(sums.max()) - 1.0, 0.0) + rounding)
