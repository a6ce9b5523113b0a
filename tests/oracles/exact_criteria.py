"""Criteria of model selection in ball arithmetic: what a machine's criterion is, kernel values included."""

import numpy as np

from substrate.bounds.proof import ball, flint, formula_of, precision

__all__ = ["exact_criterion"]

_BITS = 500


def exact_criterion(which, kernel, X, y, gammas, splits=()):
    """Return the mean square leave-one-out residual, GCV, evidence, or mean square error over splits, for every gamma.

    From the bordered system, (5) of [Suykens2002]_, inverted with hundreds of digits.
    """
    with precision(_BITS):
        return np.array([_criterion(which, kernel, X, y, gamma, splits) for gamma in gammas])


def _criterion(which, kernel, X, y, gamma, splits):
    if which == "folds":
        errors = [_validation(kernel, X[train], y[train], gamma, X[valid], y[valid]) for train, valid in splits]
        return float(np.mean(errors))
    inverse, alpha, _ = _machine(kernel, X, y, gamma)
    n = len(y)
    if which == "evidence":  # the determinant of the bordered matrix is -n times the determinant of the contrasts
        minus = 1 / inverse.det()
        quadratic = sum(coefficient * ball(float(value)) for coefficient, value in zip(alpha, y, strict=True))
        return float(quadratic / (n - 1) * ((-minus / n).log() / (n - 1)).exp())
    if which == "gcv":
        total = sum(inverse[i, i] for i in range(n))
        return float(n * sum(coefficient * coefficient for coefficient in alpha) / (total * total))
    return float(sum((alpha[i] / inverse[i, i]) ** 2 for i in range(n)) / n)


def _validation(kernel, X, y, gamma, V, v):
    _, alpha, b = _machine(kernel, X, y, gamma)
    rows = _matrix(kernel, V, X)
    errors = [
        ball(float(target)) - b - sum(r * a for r, a in zip(row, alpha, strict=True))
        for row, target in zip(rows, v, strict=True)
    ]
    return float(sum(error * error for error in errors) / len(errors))


def _machine(kernel, X, y, gamma):
    """Return the inverse of the bordered matrix, the support values and the bias."""
    n, ridge = len(y), 1 / ball(float(gamma))
    K = _matrix(kernel, X, X)
    bordered = [[K[i][j] + (ridge if i == j else 0) for j in range(n)] + [ball(1.0)] for i in range(n)]
    inverse = flint().arb_mat([*bordered, [ball(1.0)] * n + [ball(0.0)]]).inv()
    solved = inverse * flint().arb_mat([[ball(float(value))] for value in [*y, 0.0]])
    return inverse, [solved[i, 0] for i in range(n)], solved[n, 0]


def _matrix(kernel, X, Z):
    value = formula_of(kernel, X.shape[1])
    rows, columns = ([[ball(float(entry)) for entry in row] for row in points] for points in (X, Z))
    return [[value(x, z) for z in columns] for x in rows]
