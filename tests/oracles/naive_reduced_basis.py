"""The reduced-basis LS-SVM, slowly: explicit features, refits for leave-one-out, J(S) from scratch."""

import numpy as np

__all__ = ["explicit_leave_one_out", "fit", "greedy_basis", "objective", "printed_system", "reconstruction"]


def root_features(K_basis, K_rows):
    """Return rows z with z z' = K_rows K_basis^+ K_rows'."""
    values, vectors = np.linalg.eigh(K_basis)
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    return K_rows @ (vectors[:, kept] / np.sqrt(values[kept]))


def fit(K_basis, K_rows, y, gamma):
    """Return the fitted values of all rows, by stacked least squares: no normal equations."""
    u, b, Z = weights(K_basis, K_rows, y, gamma)
    return Z @ u + b


def weights(K_basis, K_rows, y, gamma):
    Z = root_features(K_basis, K_rows)
    n, r = Z.shape
    stacked = np.block([[Z, np.ones((n, 1))], [np.eye(r) / np.sqrt(gamma), np.zeros((r, 1))]])
    solution = np.linalg.lstsq(stacked, np.concatenate([y, np.zeros(r)]), rcond=None)[0]
    return solution[:-1], solution[-1], Z


def explicit_leave_one_out(K_basis, K_rows, y, gamma):
    """y_i - f without row i, one fit a row, the basis staying as it is."""
    out = np.empty(len(y))
    Z = root_features(K_basis, K_rows)
    for i in range(len(y)):
        is_other = np.arange(len(y)) != i
        u, b, _ = weights(K_basis, K_rows[is_other], y[is_other], gamma)
        out[i] = y[i] - Z[i] @ u - b
    return out


def objective(K_basis, K_rows, y, gamma, beta, b):
    return 0.5 * beta @ K_basis @ beta + 0.5 * gamma * np.sum((y - K_rows @ beta - b) ** 2)


def printed_system(K_basis, K_rows, y, gamma_printed):
    """Equation (3) of Cawley and Talbot (2004) with their gamma, as printed."""
    n = K_basis.shape[0]
    Z = np.column_stack([K_rows, np.ones(len(y))])
    R = np.zeros((n + 1, n + 1))
    R[:n, :n] = K_basis / (2.0 * gamma_printed)
    return R + Z.T @ Z, Z.T @ y


def reconstruction(K, chosen):
    """1 - J(S), equation (5)."""
    block = K[np.ix_(chosen, chosen)]
    cross = K[chosen]
    explained = np.einsum("ij,ij->j", cross, np.linalg.lstsq(block, cross, rcond=None)[0])
    return float(np.mean(1.0 - explained / K.diagonal()))


def greedy_basis(K, count):
    """Return the published greedy rule: J(S) anew for every candidate at every step."""
    chosen = []
    for _ in range(count):
        candidates = [i for i in range(K.shape[0]) if i not in chosen]
        errors = [reconstruction(K, [*chosen, i]) for i in candidates]
        chosen.append(candidates[int(np.argmin(errors))])
    return chosen
