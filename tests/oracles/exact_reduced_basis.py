r"""The machine on all directions of a reduced basis, from its kernel alone: no coordinates of the package.

.. math:: \min_{\beta, b} \tfrac12 \beta^T K_{SS} \beta + \tfrac\gamma2 \sum_i v_i (y_i - k_S(x_i)^T \beta - b)^2

Kernels are formulas of balls, and the system is solved in as many bits as it requires; a linear or polynomial kernel is
evaluated in fractions, where the vectors that depend on others are found exactly and left out.
"""

import flint
import numpy as np


def rbf(sigma):
    """exp(-||x - z||^2 / sigma^2)."""
    return lambda x, z: (-sum(((a - b) * (a - b) for a, b in zip(x, z, strict=True)), 0 * x[0]) / sigma**2).exp()


def laplacian(sigma):
    """exp(-sum |x - z| / sigma)."""
    return lambda x, z: (-sum((abs(a - b) for a, b in zip(x, z, strict=True)), 0 * x[0]) / sigma).exp()


def polynomial(degree, offset):
    """(x'z + offset)^degree, in fractions."""
    return lambda x, z: (sum((a * b for a, b in zip(x, z, strict=True)), 0 * x[0]) + offset) ** degree


def exact_distance(kernel, X, points, y, gamma, fitted, v=None, *, fractions=False):
    """Return the weighted root mean square distance of ``fitted`` from the exact fitted values, and the spread of y."""
    v = np.ones(y.size) if v is None else v
    for bits in (300, 900, 2700, 8100):
        before, flint.ctx.prec = flint.ctx.prec, bits
        try:
            distance = _distance(kernel, X, points, y, gamma, fitted, v, fractions)
        except ZeroDivisionError:
            distance = None
        finally:
            flint.ctx.prec = before
        if distance is not None:
            mean = v @ y / v.sum()
            return distance, float(np.sqrt(v @ (y - mean) ** 2 / v.sum()))
    raise AssertionError("8,100 bits are not enough")


def _distance(kernel, X, points, y, gamma, fitted, v, fractions):
    number = (lambda t: flint.fmpq(*float(t).as_integer_ratio())) if fractions else (lambda t: flint.arb(float(t)))
    table = flint.fmpq_mat if fractions else flint.arb_mat
    S = [[number(t) for t in z] for z in np.unique(points, axis=0)]
    rows = [[number(t) for t in x] for x in X]
    weights, targets, lam = [number(t) for t in v], [number(t) for t in y], 1 / number(gamma)
    if fractions:
        reduced, rank = table([[kernel(a, b) for b in S] for a in S]).rref()
        pivots = [next(j for j in range(len(S)) if reduced[i, j] != 0) for i in range(rank)]
        S = [S[j] for j in pivots]
    n, zero = len(S), number(0.0)
    mass = sum(weights, zero)
    mean = sum((a * b for a, b in zip(weights, targets, strict=True)), zero) / mass
    values = [mean] * len(rows)
    if n:
        K = [[kernel(x, z) for z in S] for x in rows]
        middle = [sum((weights[i] * K[i][j] for i in range(len(rows))), zero) / mass for j in range(n)]
        centred = table([[row[j] - middle[j] for j in range(n)] for row in K])
        pulled = table([[weights[i] * centred[i, j] for j in range(n)] for i in range(len(rows))]).transpose()
        H = pulled * centred + table([[lam * kernel(a, b) for b in S] for a in S])
        beta = H.solve(pulled * table([[t - mean] for t in targets]))
        values = [mean + sum((centred[i, j] * beta[j, 0] for j in range(n)), zero) for i in range(len(rows))]
    total = sum((w * (number(f) - t) ** 2 for w, f, t in zip(weights, fitted, values, strict=True)), zero) / mass
    if fractions:
        return float(np.sqrt(int(total.p) / int(total.q)))
    if not total.is_finite() or (float(total.rad()) > 1e-3 * abs(float(total.mid())) + 1e-60):
        return None
    return float(np.sqrt(max(float(total.mid()), 0.0)))
