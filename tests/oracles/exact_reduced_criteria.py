"""Criteria of model selection on a reduced basis in ball arithmetic, kernel values and directions included."""

import numpy as np

from substrate.bounds.proof import ball, ball_matrix, below, flint

__all__ = ["exact_reduced_criterion", "features_of"]


def features_of(model, X):
    """Coordinates of the rows in all directions of the basis: K_NS L^-T, with K_SS = L L'."""
    points, n = model.support_vectors_, model.support_vectors_.shape[0]
    L = ball_matrix(model.kernel_, points, points).values.tolist()
    K = flint().arb_mat(ball_matrix(model.kernel_, X, points).values.tolist())
    for j in range(n):
        for i in range(j):
            for k in range(j, n):
                L[k][j] -= L[k][i] * L[j][i]
        root = L[j][j].sqrt()
        for k in range(j, n):
            L[k][j] /= root
    lower = flint().arb_mat(n, n, [L[i][j] if j <= i else ball(0.0) for i in range(n) for j in range(n)])
    return lower.solve(K.transpose()).transpose()


def solve_machine(Z, members, y, gamma):
    """Return weights and bias of the machine on some rows, the inverse of its system, and the mean feature."""
    n, r = len(members), Z.ncols()
    means = [sum((Z[i, k] for i in members), ball(0.0)) / n for k in range(r)]
    centred = flint().arb_mat(n, r, [Z[i, k] - means[k] for i in members for k in range(r)])
    H = centred.transpose() * centred
    for k in range(r):
        H[k, k] += 1 / ball(gamma)
    mean = sum((ball(y[i]) for i in members), ball(0.0)) / n
    right = centred.transpose() * flint().arb_mat(n, 1, [ball(y[i]) - mean for i in members])
    return H.solve(right), mean, means, centred, H


def exact_reduced_criterion(Z, y, criterion, gamma):
    """Return the criterion at one gamma; the lower end of its ball."""
    n, zero = y.size, ball(0.0)
    if criterion == "folds":
        total = zero
        for fold in np.array_split(np.arange(n), 5):
            u, mean, means, _, _ = solve_machine(Z, np.setdiff1d(np.arange(n), fold).tolist(), y, gamma)
            errors = [
                ball(y[i]) - mean - sum(((Z[i, k] - means[k]) * u[k, 0] for k in range(Z.ncols())), zero)
                for i in fold.tolist()
            ]
            total += sum((e * e for e in errors), zero) / len(errors) / 5
        return below(total)
    u, mean, _, centred, H = solve_machine(Z, list(range(n)), y, gamma)
    fitted, half = centred * u, centred * H.inv()
    errors = [ball(y[i]) - mean - fitted[i, 0] for i in range(n)]
    if criterion == "evidence":
        quadratic = sum(((ball(y[i]) - mean) * e for i, e in enumerate(errors)), zero)
        product = H.det() * ball(float(gamma)) ** Z.ncols()
        return below(quadratic / (n - 1) * (product.log() / (n - 1)).exp())
    spare = [1 - ball(1.0) / n - sum((half[i, k] * centred[i, k] for k in range(Z.ncols())), zero) for i in range(n)]
    if criterion == "gcv":
        trace = sum(spare, zero)
        return below(n * sum((e * e for e in errors), zero) / (trace * trace))
    return below(sum(((e / s) ** 2 for e, s in zip(errors, spare, strict=True)), zero) / n)
