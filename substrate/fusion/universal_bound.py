r"""A lower bound on the validation error of every parametric problem over a simplex of parameters.

Let :math:`\varphi_\theta = \varphi_0 + \sum_i \theta_i \varphi_i` be minimised over a set S that does not depend on
theta, v any function (the validation error), :math:`\theta_k` the vertices of a simplex,
:math:`\varphi_k = \varphi_{\theta_k}`, :math:`x_j` any points of S, :math:`p_k` any numbers and

.. math::

    h_k(s) = \min_{x \in S} \; v(x) + s \, (\varphi_k(x) - p_k), \qquad D_{jk} = \varphi_k(x_j) - p_k .

For all :math:`s_k > 0`, all weights :math:`\lambda` (at least zero, of sum one) and
:math:`\psi = \sum_k \lambda_k s_k \varphi_k`, every minimiser :math:`x^\star` of :math:`\psi` over S has for every j

.. math::

    v(x^\star) \;\ge\; \sum_k \lambda_k \left( h_k(s_k) - s_k D_{jk} \right) .

*Proof.* Every x in S has :math:`v(x) + \sum_k \lambda_k s_k (\varphi_k(x) - p_k) \ge \sum_k \lambda_k h_k(s_k)`. Put
:math:`x = x^\star`. It minimises :math:`\psi`, so :math:`\psi(x^\star) \le \psi(x_j)`, and
:math:`\sum_k \lambda_k s_k (\varphi_k(x^\star) - p_k) \le \sum_k \lambda_k s_k D_{jk}`. Subtract.

:math:`\psi` is a multiple of :math:`\varphi_\theta` with :math:`\theta = \sum_k \lambda_k s_k \theta_k / \sum_k
\lambda_k s_k`, and as lambda varies theta is everywhere in the simplex. No convexity is used but to find the minima,
and nothing need be unique: where a problem has several optima, the bound holds for that which validates best.

Over the simplex the bound is the value of a matrix game: every mu (at least zero, of sum one) proves

.. math:: v(x^\star) \ge \min_k \sum_j \mu_j M_{jk}, \qquad M_{jk} = h_k(s_k) - s_k D_{jk} .

On an interval :math:`[\theta_a, \theta_b]` there is a one-sided form too. With
:math:`\varphi_a(x_a) \le \varphi_a(x) + \varepsilon_a` on S and :math:`\theta = (1 - \tau) \theta_a + \tau \theta_b`,
:math:`\varphi_\theta(x^\star) \le \varphi_\theta(x_a)` gives :math:`\varphi_b(x^\star) \le \varphi_b(x_a) +
\varepsilon_a (1 - \tau) / \tau`, so that for all :math:`\tau \ge \tau_0`

.. math:: v(x^\star) \ge h_b(s) - s \left( D_{ab} + \varepsilon_a \frac{1 - \tau_0}{\tau_0} \right),

and below :math:`\tau_0` the first inequality with j = a is nearly :math:`h_a`.
"""

from collections.abc import Sequence

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding, subtract_below

__all__ = ["bound_game", "bound_interval", "bound_one_side"]

#: Share of a one-sided bound's excess that the inexact minimum at the other end may add, and the least tau_0.
_SHARE, _LEAST = 1e-2, 1e-6


def bound_game(M: Array) -> float:
    """Bound :math:`\\min_\\lambda \\max_j \\sum_k M_{jk} \\lambda_k` over the simplex from below, rounding included."""
    if not np.isfinite(M).all():
        return -np.inf
    best = max(_prove(M, mu) for mu in np.eye(M.shape[0]))
    return max(best, _prove(M, _strategy(M)))


def _prove(M: Array, mu: Array) -> float:
    """Return what weights mu of the points prove."""
    return float((mu @ M - relative_rounding(4.0 * M.shape[0]) * (np.abs(mu) @ np.abs(M))).min())


def _strategy(M: Array) -> Array:
    """Return weights mu that are optimal up to rounding."""
    n = M.shape[0]
    if M.shape == (2, 2):
        rise = M[0] - M[1]  # mu M = M[1] + mu_0 rise, equal in both columns
        slope = float(rise[0] - rise[1])
        share = float(np.clip((M[1, 1] - M[1, 0]) / slope, 0.0, 1.0)) if slope else 0.5
        return np.array([share, 1.0 - share])
    from scipy.optimize import linprog

    size = float(np.abs(M).max()) or 1.0
    rows = np.hstack([-M.T / size, np.ones((M.shape[1], 1))])
    equal = np.append(np.ones(n), 0.0)[None, :]
    bounds = [(0.0, None)] * n + [(None, None)]
    optimum = linprog(np.append(np.zeros(n), -1.0), rows, np.zeros(M.shape[1]), equal, [1.0], bounds, method="highs")
    mu = np.maximum(optimum.x[:n], 0.0) if optimum.status == 0 else np.ones(n)
    return np.asarray(mu / mu.sum())


def bound_one_side(
    near: Sequence[tuple[float, float]],
    far: Sequence[tuple[float, float]],
    excess: float,
    epsilon: float,
    own_bound: float = 0.0,
) -> float:
    """Bound v on an interval by the end b: ``near`` are pairs (s, h_a(s)), ``far`` pairs (s, h_b(s)).

    ``excess`` is D_ab, ``own_bound`` D_aa, ``epsilon`` how far x_a may be from a minimum at a, all rounded up.
    """
    if not near or not far or not np.isfinite(excess + epsilon + own_bound):
        return -np.inf
    start = min(0.5, max(_LEAST, epsilon / (_SHARE * excess) if excess > 0.0 else 0.5))
    beyond = max(subtract_below(h, s * (excess + epsilon * (1.0 - start) / start)) for s, h in far)
    within = -np.inf
    for s_a, value in near:
        h_a = subtract_below(value, s_a * own_bound)
        for s_b, h_b in far:
            share = 1.01 * start * s_a / (start * s_a + (1.0 - start) * s_b)
            other_bound = subtract_below(h_b, s_b * excess)
            between = h_a + min(share, 1.0) * (other_bound - h_a)
            within = max(within, min(h_a, between - relative_rounding(4.0) * (abs(h_a) + abs(other_bound))))
    return min(beyond, within)


def bound_interval(
    values: Sequence[Sequence[tuple[float, float]]], excesses: Array, epsilons: Sequence[float]
) -> float:
    """Bound v on an interval by all pairs (s, h(s)) known at its two ends; ``excesses`` is D."""
    best = -np.inf
    for s_a, h_a in values[0]:
        for s_b, h_b in values[1]:
            h, s = np.array([h_a, h_b]), np.array([s_a, s_b])
            best = max(best, bound_game(subtract_below(h, s * excesses)))
    forward = bound_one_side(values[0], values[1], float(excesses[0, 1]), epsilons[0], float(excesses[0, 0]))
    backward = bound_one_side(values[1], values[0], float(excesses[1, 0]), epsilons[1], float(excesses[1, 1]))
    return max(best, forward, backward)
