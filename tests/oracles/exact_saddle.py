"""The fitted values of the exact LS-SVM: the saddle system solved in ball arithmetic, kernels by separate formulas.

Nothing of the package is used but the parameters of its kernels. The system is solved with more and more bits until the
balls are far narrower than any double.
"""

import flint
import numpy as np

from substrate.kernels import RBF, Laplacian, Linear, Matern, Polynomial, Precomputed, Product, Scaled, Sum

__all__ = ["exact_distance"]


def exact_distance(kernel, X, y, gamma, v, fitted, linear=None):
    """Return the weighted root mean square distance of ``fitted`` from the exact fitted values, rounded once at the
    end.

    ``linear`` are further columns that are not penalised, next to the ones.
    """
    for bits in (256, 512, 1024, 2048, 4096):
        before, flint.ctx.prec = flint.ctx.prec, bits
        try:
            distance = _distance(kernel, X, y, gamma, v, fitted, linear)
            if distance.is_finite() and distance.rad() <= flint.arb(1e-3) * distance.mid() + flint.arb(1e-300):
                return float(distance)
        except ZeroDivisionError:  # a matrix of balls that may be singular
            pass
        finally:
            flint.ctx.prec = before
    raise ArithmeticError(f"4096 bits do not decide {kernel!r} with gamma {gamma}")


def _distance(kernel, X, y, gamma, v, fitted, linear):
    arb, n = flint.arb, len(y)
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
    points = [[arb(float(value)) for value in row] for row in dense]
    if isinstance(kernel, Precomputed) or callable(getattr(kernel, "function", None)):
        matrix = dense if isinstance(kernel, Precomputed) else np.asarray(kernel(dense))
        K = [[(arb(float(matrix[i, j])) + arb(float(matrix[j, i]))) / 2 for j in range(n)] for i in range(n)]
    else:
        K = [[_value(kernel, x, z) for z in points] for x in points]
    weights, targets = [arb(float(number)) for number in v], [arb(float(number)) for number in y]
    pull = [arb(float(gamma)) * number for number in weights]
    # rows times gamma v: the unknowns are the errors e = alpha / (gamma v), b, and the coefficients of linear columns
    columns = np.ones((n, 1)) if linear is None else np.column_stack([np.ones(n), linear])
    Z = [[arb(float(value)) for value in row] for row in columns]
    m = columns.shape[1]
    rows = [[K[i][j] * pull[j] + (1 if i == j else 0) for j in range(n)] + Z[i] for i in range(n)]
    sums = [[pull[j] * Z[j][k] for j in range(n)] + [arb(0)] * m for k in range(m)]
    system = flint.arb_mat(n + m, n + m, [value for row in [*rows, *sums] for value in row])
    errors = system.solve(flint.arb_mat(n + m, 1, [*targets, *[arb(0)] * m]))
    total = arb(0)
    for i in range(n):
        difference = targets[i] - errors[i, 0] - arb(float(fitted[i]))
        total += weights[i] * difference * difference
    mean = total / sum(weights, arb(0))
    if mean > 0 or not mean.is_finite():
        return mean.sqrt()
    half = mean.upper().sqrt() / 2  # anything from zero to the root of its upper end
    return arb(half, half)


def _value(kernel, x, z):
    arb = flint.arb
    pairs = list(zip(x, z, strict=True))
    if isinstance(kernel, Scaled):
        return arb(float(kernel.factor)) * _value(kernel.kernel, x, z)
    if isinstance(kernel, Sum):
        return _value(kernel.left, x, z) + _value(kernel.right, x, z)
    if isinstance(kernel, Product):
        return _value(kernel.left, x, z) * _value(kernel.right, x, z)
    if isinstance(kernel, Linear):
        return sum((p * q for p, q in pairs), arb(0))
    if isinstance(kernel, Polynomial):
        return (sum((p * q for p, q in pairs), arb(0)) + arb(float(kernel.offset))) ** kernel.degree
    sigma = arb(float(kernel.sigma))
    if isinstance(kernel, Laplacian):
        return (-sum((abs(p - q) for p, q in pairs), arb(0)) / sigma).exp()
    squares = sum(((p - q) ** 2 for p, q in pairs), arb(0)) / sigma**2
    if isinstance(kernel, RBF):
        return (-squares).exp()
    if isinstance(kernel, Matern) and kernel.nu == 1.5:
        s = (3 * squares).sqrt()
        return (1 + s) * (-s).exp()
    raise NotImplementedError(f"{kernel!r} has no formula here")
