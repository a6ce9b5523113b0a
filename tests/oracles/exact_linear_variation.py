"""Maximal variation with linear components in exact rational arithmetic: least squares with a weight on every slope.

With f = X w + b the largest value of component l is max_i |x_il| |w_l|, and the machine minimises
|y - X w - b|^2 / 2 + rho sum_l max_i |x_il| |w_l|; its signs are found by trying all of them.
"""

from fractions import Fraction
from itertools import product

import numpy as np

__all__ = ["exact_linear_errors"]


def exact_linear_errors(X, y, rho):
    """f - y at the training points, for the exact optimum; rounded once, at the end."""
    n, p = X.shape
    columns = [[Fraction(float(value)) for value in column] for column in X.T]
    weights = [Fraction(float(rho)) * max(abs(value) for value in column) for column in columns]
    Z = [_center(column) for column in columns]
    target = _center([Fraction(float(value)) for value in y])
    gram = [[_dot(a, b) for b in Z] for a in Z]
    right = [_dot(a, target) for a in Z]
    for signs in product((0, 1, -1), repeat=p):
        active = [k for k in range(p) if signs[k]]
        w = _solve([[gram[a][b] for b in active] for a in active], [right[a] - weights[a] * signs[a] for a in active])
        if w is None or any(value * signs[k] <= 0 for value, k in zip(w, active, strict=True)):
            continue
        slopes = dict(zip(active, w, strict=True))
        gradient = [right[a] - sum((gram[a][b] * slopes[b] for b in active), Fraction(0)) for a in range(p)]
        if all(abs(gradient[a]) <= weights[a] for a in range(p) if a not in slopes):
            fitted = [sum((Z[k][i] * slopes[k] for k in active), Fraction(0)) for i in range(n)]
            return np.array([float(f - t) for f, t in zip(fitted, target, strict=True)])
    raise AssertionError("no signs satisfy the optimality conditions")


def _center(values):
    mean = sum(values, Fraction(0)) / len(values)
    return [value - mean for value in values]


def _dot(a, b):
    return sum((x * z for x, z in zip(a, b, strict=True)), Fraction(0))


def _solve(A, b):
    """Gauss-Jordan elimination; None for a singular matrix."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    size = len(b)
    for i in range(size):
        pivot = next((k for k in range(i, size) if rows[k][i] != 0), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(size):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [x - factor * z for x, z in zip(rows[k], rows[i], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]
