r"""How far the fitted values of a declared problem are from those of its exact optimum.

A squared loss makes an objective strongly convex in the fitted values, so that a primal feasible point of value P and
a dual feasible one of value Q give :math:`\tfrac12 \|f - f^\star\|^2 \le P - Q`. A solver's point is only nearly so: it
is made feasible first, and the change is added. The gap is never a difference of two large numbers:

- least squares with a kernel: the residual itself, :mod:`~substrate.closed_form.saddle_certificate`;
- the L1 substrate, with :math:`e = y - \Phi a - b 1`, :math:`\theta = s e` and s such that
  :math:`|\Phi^T \theta - \nu| \le \zeta`,

  .. math:: P - Q = \tfrac12 (1 - s)^2 \|e\|^2 + \sum_i \left(\zeta |a_i| - (\Phi^T\theta - \nu)_i a_i\right) ;

- plain least squares: the exact fitted values are the projection of the target, with which they are compared;
- Huber's loss, which is not strongly convex in the fitted values, but :math:`\tfrac12 w^T w` is in w: with the b for
  which the multipliers :math:`\alpha = \gamma v \psi(e)` of :math:`e = y - R w - b 1` sum to zero,
  :math:`P - Q = \tfrac12 \|w - R^T \alpha\|^2`, which bounds the fitted values about their mean;
- maximal variation, in the coordinates u of :mod:`~substrate.closed_form.component_coordinates` and with multipliers
  brought into their balls :math:`\|\xi^l\|_1 \le \rho`,

  .. math:: P - Q = \tfrac12 \|u - (\tilde y - \textstyle\sum_l B^{lT} \xi^l)\|^2
            + \sum_l \left(\rho \|B^l u\|_\infty - \xi^{lT} B^l u\right) .

Every term is non-negative; rounding of the products is added to it.
"""

from dataclasses import replace

import numpy as np

from substrate.arrays import EPS, Array
from substrate.certificates.rows import UNPOLISHED, Accuracy, accuracy_row, root_mean_square, spread_of
from substrate.closed_form.component_coordinates import ComponentCoordinates, centred
from substrate.closed_form.maximal_variation import right_divided
from substrate.closed_form.saddle_certificate import Expansion, expansion_accuracy

__all__ = [
    "huber_accuracy",
    "least_squares_accuracy",
    "page_spread",
    "sparse_accuracy",
    "stacked_accuracy",
    "variation_accuracy",
]

_GAP = "sqrt(2 (primal - dual)) + rounding"


def page_spread(y: Array, weights: Array) -> tuple[float, float]:
    """The spread of y and a bound on its rounding; a conic solver fits a constant target to a millionth only."""
    spread, rounding = spread_of(y, weights)
    return spread, max(rounding, 1e-6 * float(np.abs(y).max(initial=0.0))) if spread <= rounding else rounding


def least_squares_accuracy(
    R: Array, y: Array, ridge: Array, a: Array, b: float, fitted: Array, tolerance: float = UNPOLISHED
) -> Accuracy:
    """For K = R R' and coefficients a in regression's sign; ``fitted`` are the values of the solution."""
    products = R @ (R.T @ a)
    machine = Expansion(y, ridge, a, b, np.einsum("ij,ij->i", R, R))
    # two products instead of one
    row = expansion_accuracy(machine, products, (R.shape[1] + 2.0) * EPS, tolerance=tolerance)
    apart = root_mean_square(fitted - products - b, machine.weights)
    spread, rounding = page_spread(y, machine.weights)
    return accuracy_row(row.value + 1.01 * apart, spread, row.formula, tolerance=tolerance, rounding=rounding)


def sparse_accuracy(
    Phi: Array, y: Array, a: Array, b: float, fitted: Array, zeta: float, balanced: bool, tolerance: float = UNPOLISHED
) -> Accuracy:
    """For 1/2||e||^2 + zeta||a||_1 with a free bias, ``balanced`` with 1'a = 0."""
    n, p = Phi.shape
    if balanced:
        a = a - a.mean()
    e = y - Phi @ a - b
    e = e - e.mean()
    size, absolute = np.abs(Phi), np.abs(a)
    moved = (p + 4.0) * EPS * (size @ absolute + np.abs(y) + abs(b) + np.abs(e))
    c = Phi.T @ e
    unsure = size.T @ (moved + (n + 2.0) * EPS * np.abs(e))
    nu = 0.5 * float(c.max() + c.min()) if balanced else 0.0
    largest = float((np.abs(c - nu) + unsure).max())
    s = 1.0 if largest <= zeta else zeta / largest
    products = zeta * absolute - s * (c - nu) * a
    rounded = unsure + 4.0 * EPS * (zeta + np.abs(c) + abs(nu))
    gap = (
        0.5 * ((1.0 - s) * float(np.linalg.norm(e))) ** 2 + float(products.sum()) + p * EPS * float(absolute @ rounded)
    )
    gap = max(gap, 0.0) + float(absolute @ rounded) + (p + 2.0) * EPS * abs(nu) * float(absolute.sum())
    distance = float(np.linalg.norm(fitted - (y - e))) + float(np.linalg.norm(moved))
    return _row(np.sqrt(2.0 * gap) + distance, y, tolerance)


def stacked_accuracy(F: Array, y: Array, fitted: Array, tolerance: float = UNPOLISHED) -> Accuracy:
    """For ||y - F z - b 1||^2, whose columns F are orthonormal off the direction 1, or nearly so."""
    offset = float(y.mean())
    Q, _ = np.linalg.qr(centred(F, True))
    rest = y - offset
    exact = offset + Q @ (Q.T @ rest)
    rounding = 8.0 * F.shape[0] * EPS * float(np.linalg.norm(rest)) + EPS * float(np.linalg.norm(y))
    row = _row(float(np.linalg.norm(fitted - exact)) + rounding, y, tolerance)
    return replace(row, formula="||f - projection of y|| + rounding")


def huber_accuracy(
    R: Array, y: Array, gamma_v: Array, delta: float, w: Array, fitted: Array, tolerance: float = UNPOLISHED
) -> Accuracy:
    """For w'w/2 and Huber's loss of y - R w - b, about the mean of the fitted values."""
    n, own = y.size, R @ w
    rest = y - own

    def pulls(b: float) -> Array:
        return np.asarray(gamma_v * np.clip(rest - b, -delta, delta))

    low, high = float(rest.min()) - delta, float(rest.max()) + delta
    for _ in range(200):  # the sum decreases with b
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if pulls(middle).sum() > 0.0 else (low, middle)
    alpha = pulls(low)
    # multipliers must sum to zero: the rounding is subtracted from the largest, and its effect is added
    left = abs(float(alpha.sum())) + n * EPS * float(np.abs(alpha).sum())
    longest = float(np.sqrt(np.einsum("ij,ij->i", R, R).max(initial=0.0)))
    cost = left**2 / (2.0 * float(gamma_v.max())) + left * 2.0 * float(np.abs(rest - low).max())
    rounded = (n + w.size) * EPS * (float(np.linalg.norm(w)) + longest * float(np.abs(alpha).sum()))
    apart = float(np.linalg.norm(w - R.T @ alpha)) + left * longest + rounded
    bound = np.sqrt(apart**2 + 2.0 * cost)
    centre = R - R.mean(axis=0)
    moved = float(np.linalg.norm(centred(fitted - own, True))) + n * EPS * float(np.linalg.norm(np.abs(R) @ np.abs(w)))
    row = _row(float(np.linalg.norm(centre)) * bound + moved, y, tolerance)
    return replace(row, about="fitted values about their mean", formula="||w - R'alpha|| ||R - mean R|| + rounding")


def variation_accuracy(
    coordinates: ComponentCoordinates,
    y: Array,
    v: Array,
    fitted: Array,
    xi: Array,
    rho: float,
    tolerance: float = UNPOLISHED,
) -> Accuracy:
    """For maximal variation in its coordinates; ``xi`` (d x N) is such that the pull of component l is C^l' xi^l."""
    B = right_divided(coordinates.parts, coordinates.metric)
    target, u = coordinates.targets(y), coordinates.metric @ v
    sizes = np.abs(xi).sum(axis=1)
    xi = xi * np.where(sizes > rho, rho * (1.0 - 4.0 * EPS) / np.where(sizes > 0.0, sizes, 1.0), 1.0)[:, None]
    values = B @ u
    pull = np.einsum("lnr,ln->r", B, xi)
    left = float(np.linalg.norm(u - (target - pull)))
    slack = float(sum(rho * np.abs(part).max() - one @ part for part, one in zip(values, xi, strict=True)))
    n, length = y.size + u.size, float(np.linalg.norm(y))
    features = coordinates.features
    reach = float(np.linalg.norm(features)) * float(np.linalg.norm(v)) + length
    # the error of u, its target and the pull; component values have as much each
    unsure = n * EPS * (reach + float(np.abs(xi).sum()) * float(np.abs(B).max(initial=0.0)))
    gap = 0.5 * (left + unsure) ** 2 + max(slack, 0.0) + 2.0 * n * EPS * rho * float(np.abs(values).sum())
    own = features @ v + (y.mean() if coordinates.bias else 0.0)
    distance = float(np.linalg.norm(centred(fitted, coordinates.bias) - centred(own, coordinates.bias)))
    distance += abs(float(np.mean(fitted - own))) * np.sqrt(y.size) if coordinates.bias else 0.0
    return _row(np.sqrt(2.0 * gap) + distance + unsure, y, tolerance)


def _row(bound: float, y: Array, tolerance: float) -> Accuracy:
    spread, rounding = page_spread(y, np.ones(y.size))
    value = 1.01 * float(bound) / float(np.sqrt(y.size))
    return accuracy_row(value if np.isfinite(value) else np.inf, spread, _GAP, tolerance=tolerance, rounding=rounding)
