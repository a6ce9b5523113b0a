"""The column-reduced LS-SVM by the textbook: the matrix (4) by loops, reduced echelon form, pseudo-inverse, Adaline."""

import numpy as np


def system(K: np.ndarray, y: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """A and B of (4), entry by entry."""
    n = len(y)
    A, B = np.zeros((n + 1, n + 1)), np.ones(n + 1)
    B[0] = 0.0
    for i in range(n):
        A[0, i + 1] = A[i + 1, 0] = y[i]
        for j in range(n):
            A[i + 1, j + 1] = y[i] * y[j] * K[i, j] + (1.0 / gamma if i == j else 0.0)
    return A, B


def echelon(A: np.ndarray, threshold: float) -> list[int]:
    """Pattern columns that have a pivot in the reduced row echelon form; smaller entries are set to zero."""
    R = A.copy()
    rows, columns = R.shape
    row, kept = 0, []
    for column in range(columns):
        pivot = row + int(np.argmax(np.abs(R[row:, column])))
        if column > 0 and abs(R[pivot, column]) <= threshold:
            R[row:, column] = 0.0
            continue
        R[[row, pivot]] = R[[pivot, row]]
        R[row] /= R[row, column]
        for line in range(rows):
            if line != row:
                R[line] -= R[line, column] * R[row]
        kept.append(column)
        row += 1
    return [column - 1 for column in kept[1:]]


def pseudo_inverse(A: np.ndarray, columns: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(A[:, [0, *(np.asarray(columns) + 1)]]) @ B


def adaline(A: np.ndarray, B: np.ndarray, step: float, epochs: int) -> np.ndarray:
    """Return the plain rule, pattern by pattern within an epoch of fixed errors."""
    W = np.zeros(A.shape[1])
    for _ in range(epochs):
        errors = [B[i] - A[i] @ W for i in range(len(B))]
        for i in range(len(B)):
            W = W + step * errors[i] * A[i]
    return W
