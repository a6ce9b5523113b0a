"""The L1 substrate with hundreds of digits: the active set of a fit, solved and checked in ball arithmetic."""

import numpy as np

from substrate.bounds.proof import ball, balls, flint, formula_of, precision
from substrate.fits.l1 import solve_l1, zeta_max

__all__ = ["exact_l1_distance", "exact_l1_error"]

_BITS = 600


def exact_l1_error(K, y, zeta, rows, targets):
    """Return the mean squared validation error at zeta, for kernel values as given.

    None where the active set is not optimal.
    """
    a = solve_l1(K, y, zeta).coefficients
    (support,) = np.nonzero(a)
    if not support.size:
        return float(np.mean((targets - y.mean()) ** 2)) if zeta >= zeta_max(K, y) else None
    with precision(_BITS):
        optimum = _optimum([balls(row) for row in K], y, zeta, a)
        if optimum is None:
            return None
        exact, b, _ = optimum
        below = flint().arb_mat([[ball(float(v)) for v in row] for row in rows[:, support]])
        f = below * flint().arb_mat([[value] for value in exact])
        errors = [ball(float(v)) - f[j, 0] - b for j, v in enumerate(targets)]
        return float(sum((error * error for error in errors), flint().arb(0)) / len(errors))


def exact_l1_distance(kernel, X, y, zeta, a, fitted):
    """Return the root mean square distance of fitted values from the exact optimum, kernel values included.

    ``a`` has the support and the signs to try. None where these are not optimal.
    """
    with precision(_BITS):
        points = [balls(row) for row in X]
        formula = formula_of(kernel, len(points[0]))
        optimum = _optimum([[formula(x, z) for z in points] for x in points], y, zeta, a)
        if optimum is None:
            return None
        errors = optimum[2]
        differences = [
            ball(float(f)) - ball(float(t)) + errors[i, 0] for i, (f, t) in enumerate(zip(fitted, y, strict=True))
        ]
        return float(
            (sum((difference * difference for difference in differences), flint().arb(0)) / len(differences)).sqrt()
        )


def _optimum(K, y, zeta, a):
    """Return coefficients of the support, bias and errors of the optimum; None where the support is not optimal."""
    (support,) = np.nonzero(a)
    n, k = len(y), support.size
    arb, weight = flint().arb, ball(float(zeta))
    columns = flint().arb_mat(K)
    C = flint().arb_mat([[row[j] for j in support] for row in K])
    target = flint().arb_mat([[ball(float(v))] for v in y])
    ones = flint().arb_mat([[ball(1.0)]] * n)
    gram, sums, right = C.transpose() * C, C.transpose() * ones, C.transpose() * target
    # C'(y - C a - b 1) - nu 1 = zeta s, 1'a = 0, 1'(y - C a - b 1) = 0
    table = [[gram[i, j] for j in range(k)] + [sums[i, 0], arb(1)] for i in range(k)]
    table += [[arb(1)] * k + [arb(0), arb(0)], [sums[j, 0] for j in range(k)] + [arb(n), arb(0)]]
    signs = np.sign(a[support])
    total = (ones.transpose() * target)[0, 0]
    right_side = [[right[i, 0] - weight * int(signs[i])] for i in range(k)] + [[arb(0)], [total]]
    try:
        solved = flint().arb_mat(table).solve(flint().arb_mat(right_side))
    except ZeroDivisionError:  # columns that depend on each other
        return None
    exact = [solved[i, 0] for i in range(k)]
    b, nu = solved[k, 0], solved[k + 1, 0]
    if not all((value * int(sign)) > 0 for value, sign in zip(exact, signs, strict=True)):
        return None
    e = target - C * flint().arb_mat([[value] for value in exact]) - b * ones
    c = columns.transpose() * e
    if not all(abs(c[i, 0] - nu) <= weight for i in range(n) if a[i] == 0.0):
        return None
    return exact, b, e
