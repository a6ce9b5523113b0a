r"""A lower bound of the validation error over a simplex of parameters, from the knots at its vertices.

Let :math:`\theta(t) = \sum_i t_i \theta_i` run through a simplex, and let :math:`x(t)`, multipliers :math:`\mu(t)` and
slacks :math:`s(t)` be the same combinations of the knots. x(t) is feasible, stationarity is linear in t where the
parameters are in the linear term, and subtracting the conditions of the optimum :math:`x^\star` at :math:`\theta(t)`
gives

.. math::

    \|x^\star - x(t)\|_P^2 \le \mu(t)^T s(t) = t^T Q t, \qquad Q_{ij} = \tfrac12 (\mu_i^T s_j + \mu_j^T s_i) \ge 0 .

For every u with :math:`\|u\| \le 1`, with the validation errors :math:`e_i` at the vertices and
:math:`\sigma_u = \|M^T u\|_{P^{-1}}`,

.. math:: \|e(x^\star)\| \ge u^T e(x^\star) \ge \sum_i t_i u^T e_i - \sigma_u \sqrt{t^T Q t} ,

whose minimum over the simplex is found by a test of copositivity (:mod:`substrate.fusion.copositive`). The direction is
that of the smallest error among the combinations of the :math:`e_i`.

A ridge weight :math:`\tau` leaves a residual, the covariance
:math:`r(t) = -\sum_{i<j} t_i t_j (\tau_i - \tau_j) P_1 (x_i - x_j)`, and :math:`\|d\| \le \sqrt{t^T Q t} + \|r\|`
follows, with

.. math::

    \|r(t)\|_{P_t^{-1}} \le \rho(t) = \sum_{i<j} t_i t_j R_{ij}, \qquad
    R_{ij} = |\tau_i - \tau_j| \, \|P_1 (x_i - x_j)\|_{P(\tau_{\min})^{-1}} ,

.. math:: (\sqrt{t^T Q t} + \rho)^2 \le (1 + \omega) \, t^T Q t + (1 + 1/\omega) \, \bar\rho \, \rho(t) ,

one quadratic form again, for :math:`\bar\rho \ge \max \rho` and any :math:`\omega > 0`.

Folds are stacked. With any weights :math:`w_f > 0`,
:math:`\sum_f \sigma_f \sqrt{g_f} \le \sqrt{\sum_f w_f \, \sum_f \sigma_f^2 g_f / w_f}`.

Knots need not be exact: their gaps are the diagonal of Q, allowances for residuals are part of all its entries
(:meth:`~substrate.fusion.affine_program.AffineProgram.cross`), and further errors of the validation errors are
subtracted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.copositive import least_difference, pairwise_difference
from substrate.fusion.knot_store import KnotStore

__all__ = ["SimplexBound", "nearest_combination", "simplex_bound"]

#: Factors of the balanced omega that are tried.
_OMEGAS = (1.0, 0.4, 2.5)
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-12


@dataclass(frozen=True, slots=True)
class SimplexBound:
    """The bound, as a sum of squares; the smallest error on the flat simplex, where, and the squared radii Q.

    ``flat`` is what the sum of squares would be without a radius, at the combination ``place``; ``sharp`` is whether
    the bound cannot be improved, as it can be where it was good enough.
    """

    value: float
    flat: float
    place: Array
    radii: Array
    sharp: bool = True


def nearest_combination(E: Array) -> Array:
    """Return the combination (weights at least zero, of sum one) of a few rows that has the smallest norm, nearly."""
    K = E @ E.T
    n = K.shape[0]
    K = K + 1e-15 * max(float(np.trace(K)), 1e-300) * np.eye(n)
    best, least = np.full(n, 1.0 / n), np.inf
    for size in range(n, 0, -1):
        for chosen in combinations(range(n), size):
            at = np.array(chosen)
            w = np.linalg.solve(K[np.ix_(at, at)], np.ones(size))
            total = float(w.sum())
            if total > 0.0 and (w >= 0.0).all() and 1.0 / total < least:
                least, best = 1.0 / total, np.zeros(n)
                best[at] = w / total
                if size == n or (K @ best >= least * (1.0 - 1e-12)).all():  # no vertex is a way down
                    return best
    return best


#: Q and R of one fold, in the units of its program.
Forms = tuple[Array, Array]


def simplex_bound(store: KnotStore, vertices: Sequence[int], enough: float = np.inf) -> SimplexBound:
    """Return the bound over the simplex of these knots; one of at least ``enough`` is not sharpened further."""
    at = list(vertices)
    E = store.errors[at]
    forms = [store.radii(f, at) for f in range(len(store.folds))]
    place = nearest_combination(E)
    nearest = place @ E
    length = float(np.linalg.norm(nearest))
    if length == 0.0:
        return SimplexBound(value=0.0, flat=0.0, place=place, radii=forms[0][0])
    u = nearest / (length * (1.0 + 1e-14))  # of length one, or less by rounding
    reach = store.along(u, at)
    a = E @ u - store.error_radii[at] - relative_rounding(E.shape[1]) * np.linalg.norm(E, axis=1) - reach.loss
    omegas = _OMEGAS if any(R.any() for _, R in forms) else _OMEGAS[:1]
    choices = [_stack_forms(forms, reach.sigmas, omega) for omega in omegas]
    lows = [pairwise_difference(a, Q) for Q in choices]
    chosen = int(np.argmax(lows))
    enough = math.sqrt(enough) if math.isfinite(enough) else math.inf
    beta = lows[chosen] if lows[chosen] >= enough else least_difference(a, choices[chosen], enough)
    return SimplexBound(
        value=_BELOW * max(beta, 0.0) ** 2, flat=length**2, place=place, radii=choices[chosen], sharp=beta < enough
    )


def _stack_forms(forms: Sequence[Forms], sigmas: Sequence[float], factor: float) -> Array:
    """Return one quadratic form for all folds, in units of y squared, ridge weights included."""
    n = forms[0][0].shape[0]
    whole, weights = [], []
    for (Q, R), sigma in zip(forms, sigmas, strict=True):
        largest = float(R.max(initial=0.0))
        form = Q
        if largest > 0.0:
            top = largest * (1.0 - 1.0 / n) / 2.0
            omega = factor * top / max(float(np.sqrt(Q.max())), 1e-12 * top)
            form = (1.0 + omega) * Q + (1.0 + 1.0 / omega) * (top / 2.0) * R
        whole.append(sigma**2 * form)
        weights.append(sigma * float(np.sqrt(max(form.max(), 0.0))))
    if len(whole) == 1:
        return whole[0]
    shares = np.maximum(np.array(weights), 1e-12 * max(max(weights), 1e-300))
    total = float(shares.sum())
    return np.asarray(sum(total / share * form for form, share in zip(whole, shares, strict=True)))
