"""The LS-SVM by the dense bordered matrix of the papers, and its hat matrix by refitting unit vectors."""

import numpy as np


def solve(K: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """alpha and b from [0 1'; 1 K + D] [b; alpha] = [0; y], by a general solver."""
    n = len(ridge)
    M = np.zeros((n + 1, n + 1))
    M[0, 1:] = M[1:, 0] = 1.0
    for i in range(n):
        for j in range(n):
            M[i + 1, j + 1] = K[i, j] + (ridge[i] if i == j else 0.0)
    solution = np.linalg.solve(M, np.concatenate([np.zeros((1, *y.shape[1:])), y]))
    return solution[1:], solution[0]


def solve_with(K: np.ndarray, y: np.ndarray, ridge: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """alpha and c from [0 Z'; Z K + D] [c; alpha] = [0; y], by a general solver."""
    m = Z.shape[1]
    M = np.block([[np.zeros((m, m)), Z.T], [Z, K + np.diag(ridge)]])
    solution = np.linalg.solve(M, np.concatenate([np.zeros((m, *y.shape[1:])), y]))
    return solution[m:], solution[:m]


def fit_values(K: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    alpha, b = solve(K, y, ridge)
    return K @ alpha + b


def hat_matrix(K: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Column j is the fit to the j-th unit vector: one refit a column."""
    return np.column_stack([fit_values(K, unit, ridge) for unit in np.eye(len(ridge))])


def left_out_residuals(K: np.ndarray, y: np.ndarray, ridge: np.ndarray, rows: list[int]) -> np.ndarray:
    """y - f at some rows, with f refitted to the others."""
    kept = [i for i in range(len(ridge)) if i not in set(rows)]
    alpha, b = solve(K[np.ix_(kept, kept)], y[kept], ridge[kept])
    return y[rows] - K[np.ix_(rows, kept)] @ alpha - b


def leave_one_out(K: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """One refit a row."""
    return np.array([left_out_residuals(K, y, ridge, [i])[0] for i in range(len(ridge))])
