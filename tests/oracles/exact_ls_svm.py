"""The LS-SVM in rational numbers: the error that a machine has, where a fit in floating point adds one of its own.

Floating-point numbers are fractions, so data, gamma and the kernels that are polynomials in the data are known exactly,
and the bordered system is solved by fraction-free elimination (Bareiss): every intermediate number is an integer.
"""

from fractions import Fraction
from math import lcm

import numpy as np

from substrate.kernels import Linear, Polynomial

__all__ = ["exact_validation_error"]


def exact_validation_error(kernel, X, y, gamma, V, v):
    """Return the mean squared error at (V, v) of the LS-SVM fitted to (X, y), rounded once at the end."""
    n, gamma = len(y), Fraction(float(gamma))
    K = _matrix(kernel, X, X)
    # gamma times (K + I/gamma) a + 1 b = y, and 1'a = 0
    rows = [[gamma * K[i][j] + (i == j) for j in range(n)] + [gamma, gamma * Fraction(float(y[i]))] for i in range(n)]
    *a, b = _solve([*rows, [Fraction(1)] * n + [Fraction(0), Fraction(0)]])
    errors = [
        Fraction(float(target)) - b - sum(k * each for k, each in zip(row, a, strict=True))
        for row, target in zip(_matrix(kernel, V, X), v, strict=True)
    ]
    return float(sum(e * e for e in errors) / len(errors))


def _matrix(kernel, X, Z):
    """Return kernel values as fractions; of a kernel that is no polynomial, the fractions that its values are rounded
    to.
    """
    if not isinstance(kernel, Linear | Polynomial):
        return [[Fraction(float(value)) for value in row] for row in kernel(X, Z)]
    degree, offset = (kernel.degree, Fraction(kernel.offset)) if isinstance(kernel, Polynomial) else (1, Fraction(0))
    rows, columns = ([[Fraction(float(value)) for value in row] for row in np.asarray(points)] for points in (X, Z))
    return [[(sum(p * q for p, q in zip(x, z, strict=True)) + offset) ** degree for z in columns] for x in rows]


def _solve(rows):
    """Return the solution of the equations, each a row with its right-hand side at the end."""
    table = []
    for row in rows:
        scale = lcm(*(value.denominator for value in row))
        table.append([int(value * scale) for value in row])
    n, before = len(table), 1
    for k in range(n):
        pivot = next(i for i in range(k, n) if table[i][k])
        table[k], table[pivot] = table[pivot], table[k]
        for i in range(k + 1, n):
            head, line = table[k], table[i]
            table[i] = line[: k + 1] + [(head[k] * line[j] - line[k] * head[j]) // before for j in range(k + 1, n + 1)]
        before = table[k][k]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        total = sum((table[i][j] * x[j] for j in range(i + 1, n)), Fraction(0))
        x[i] = (table[i][n] - total) / table[i][i]
    return x
