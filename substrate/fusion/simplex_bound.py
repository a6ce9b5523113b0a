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
that of the smallest error among the combinations of the :math:`e_i`; where this is not enough, it is steered away from
what is poorly determined (:mod:`substrate.fusion.steered_direction`), and rows that are active at all vertices are used
(:mod:`substrate.fusion.common_rows`).

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.copositive import least_difference, pairwise_difference
from substrate.fusion.knot_store import KnotStore, Reach, SimplexReach
from substrate.fusion.steered_direction import Spectrum, residual_direction, worst_place

__all__ = ["OMEGAS", "SimplexBound", "bound_simplex", "nearest_combination", "scale_direction", "simplex_bound"]

#: Factors of the balanced omega that are tried.
OMEGAS = (1.0, 0.4, 2.5)
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-12
_ROOM = 1.0 + 1e-9
#: How many directions are tried after the first.
_STEERED = 1
#: Vertices of a simplex from which on common rows are not looked for.
_MOST = 4


@dataclass(frozen=True, slots=True)
class SimplexBound:
    """The bound, as a sum of squares; the smallest error on the flat simplex, where, and the squared radii Q.

    ``flat`` is what the sum of squares would be without a radius, at the combination ``place``; ``sharp`` is whether
    the bound cannot be improved, as it can be where it was good enough; ``direction`` and ``etas`` are the direction
    and the pressed rows of every fold with which it was found.
    """

    value: float
    flat: float
    place: Array
    radii: Array
    direction: Array
    sharp: bool = True
    etas: tuple[Array, ...] = ()


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


@dataclass(frozen=True, slots=True)
class _Trial:
    """A direction, what is known along it, the line a and the form Q, and the latter for every fold without sigma."""

    u: Array
    reach: Reach
    a: Array
    Q: Array
    parts: list[Array]
    low: float


def simplex_bound(
    store: KnotStore, vertices: Sequence[int], enough: float = np.inf, saved: float = 0.0
) -> SimplexBound:
    """Return the bound over the simplex of these knots; one of at least ``enough`` is not sharpened further.

    Common rows are not looked for where a share ``saved`` of the radius would still be too much. A search that cuts
    such a simplex anyway may set it; a check must not, as its ``enough`` is not that of the search.
    """
    at = list(vertices)
    forms = [store.radii(f, at) for f in range(len(store.folds))]
    # the covariance that a ridge weight leaves is of the second order, and common rows do not reduce it; a knot of
    # tetrahedra is shared by so many that it costs less than their projections
    reach = SimplexReach(store, at, common=not store.ridge and 1 < len(at) < _MOST)
    return bound_simplex(store.errors[at], store.error_radii[at], forms, reach, enough, saved)


def bound_simplex(
    E: Array,
    radii: Array,
    forms: Sequence[Forms],
    reach: SimplexReach,
    enough: float = np.inf,
    saved: float = 0.0,
) -> SimplexBound:
    """Return the bound by errors at the vertices (one row each), what these may be off, and Q and R of every fold."""
    place = nearest_combination(E)
    nearest = place @ E
    length = float(np.linalg.norm(nearest))
    if length == 0.0:
        return SimplexBound(value=0.0, flat=0.0, place=place, radii=forms[0][0], direction=nearest)
    off = radii + relative_rounding(E.shape[1]) * np.linalg.norm(E, axis=1)
    enough = math.sqrt(enough) if math.isfinite(enough) else math.inf

    def attempt(u: Array, along: Callable[[Array], Reach]) -> _Trial:
        return _try_direction(E, off, forms, u, along(u))

    first = attempt(scale_direction(nearest), reach.along)
    best = first
    spectra = None if first.low >= enough or place.size == 1 else reach.spectra()
    if spectra is not None:
        best = _ascend(E, best, spectra, lambda u: attempt(u, reach.along), enough)
    beta = best.low if best.low >= enough else least_difference(best.a, best.Q, enough)
    hopeful = math.isinf(enough) or length - saved * (length - beta) >= enough
    if beta < enough and reach.common and hopeful:
        tops = [_largest_value(Q) for Q, _ in forms]
        common = reach.common_rows(best.u, tops)
        if any(rows is not None for rows in common):
            spectra, u = reach.common_spectra(common), best.u
            if spectra is not None:
                nearly = partial(Reach.nearly, spectra=spectra)
                u = _ascend(E, attempt(u, nearly), spectra, lambda v: attempt(v, nearly), np.inf).u
            held = attempt(u, lambda v: reach.pressed(v, common))
            sharper = held.low if held.low >= enough else least_difference(held.a, held.Q, enough)
            best, beta = (held, sharper) if sharper > beta else (best, beta)
    return SimplexBound(
        value=_BELOW * max(beta, 0.0) ** 2,
        flat=length**2,
        place=place,
        radii=first.Q,
        sharp=beta < enough,
        direction=best.u,
        etas=best.reach.etas,
    )


def scale_direction(u: Array) -> Array:
    """Return a direction of a length that is one, or less by rounding."""
    return np.asarray(u / (float(np.linalg.norm(u)) * (1.0 + 1e-14)))


def _try_direction(E: Array, off: Array, forms: Sequence[Forms], u: Array, reach: Reach) -> _Trial:
    """Return the line and the form along a direction, with the best omega."""
    a = E @ u - off - reach.losses
    omegas = OMEGAS if any(R.any() for _, R in forms) else OMEGAS[:1]
    choices = [_stack_forms(forms, reach, omega) for omega in omegas]
    lows = [pairwise_difference(a, Q) for Q, _ in choices]
    chosen = int(np.argmax(lows))
    return _Trial(u=u, reach=reach, a=a, Q=choices[chosen][0], parts=choices[chosen][1], low=lows[chosen])


def _ascend(
    E: Array, trial: _Trial, spectra: Sequence[Spectrum], attempt: Callable[[Array], _Trial], enough: float
) -> _Trial:
    """Return the best of a few directions, each from the place at which the one before it has its bound."""
    best = trial
    for _ in range(_STEERED):
        t = worst_place(trial.a, trial.Q)
        u = residual_direction(t @ E, [float(t @ part @ t) for part in trial.parts], spectra)
        if u is None or not np.isfinite(u).all():
            break
        trial = attempt(scale_direction(u))
        if not trial.low > best.low:
            break
        best = trial
        if best.low >= enough:
            break
    return best


def _largest_value(form: Array) -> float:
    """Return a bound of t'Qt over the simplex: Q_ij at most off the diagonal, and the diagonal at most."""
    n = form.shape[0]
    diagonal = max(float(form.diagonal().max(initial=0.0)), 0.0)
    return float(_ROOM * ((1.0 - 1.0 / n) * max(float(form.max(initial=0.0)), 0.0) + diagonal))


def _stack_forms(forms: Sequence[Forms], reach: Reach, factor: float) -> tuple[Array, list[Array]]:
    """Return one quadratic form for all folds, in units of y squared, ridge weights included; and those of the folds
    without the squared factors of the radius.
    """
    n = forms[0][0].shape[0]
    whole, factors, weights = [], [], []
    for (Q, R), sigma, bend in zip(forms, reach.sigmas, reach.bends, strict=True):
        largest = float(R.max(initial=0.0))
        form = Q
        if largest > 0.0:
            top = largest * (1.0 - 1.0 / n) / 2.0
            omega = factor * top / max(float(np.sqrt(Q.max())), 1e-12 * top)
            form = (1.0 + omega) * Q + (1.0 + 1.0 / omega) * (top / 2.0) * R
        # bend g is at most bend times the largest root of g, times the root of g
        whole_sigma = sigma if bend == 0.0 else _ROOM * (sigma + bend * math.sqrt(_largest_value(form)))
        whole.append(form)
        factors.append(whole_sigma**2)
        weights.append(whole_sigma * float(np.sqrt(max(form.max(), 0.0))))
    if len(whole) == 1:
        return factors[0] * whole[0], whole
    shares = np.maximum(np.array(weights), 1e-12 * max(max(weights), 1e-300))
    total = float(shares.sum())
    parts = [total / share * form for form, share in zip(whole, shares, strict=True)]
    return np.asarray(sum(square * part for square, part in zip(factors, parts, strict=True))), parts
