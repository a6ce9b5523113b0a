"""The exact optimum of a small quadratic program in rational arithmetic, checked by its optimality conditions."""

import numpy as np


def exact_optimum(P, q, A, b, equal, near, rounds=30):
    """x* of min 1/2 x'Px + q'x s.t. (A x + b)[equal] = 0, the other rows >= 0, in rationals; None where not found.

    ``near`` is a guess of x and of the multipliers, for the active rows and for variables that the optimum leaves free;
    what comes back satisfies all conditions exactly.
    """
    from flint import fmpq, fmpq_mat

    P, A = (M.toarray() if hasattr(M, "toarray") else np.asarray(M) for M in (P, A))
    n, m = q.size, b.size
    exact_P, exact_A, exact_q, exact_b = _rational(P), _rational(A), _rational(q[:, None]), _rational(b[:, None])
    start = _rational(near[0][:, None])
    is_equal = np.zeros(m, dtype=bool)
    is_equal[equal] = True
    active = is_equal | (near[1] > np.maximum(A @ near[0] + b, 0.0))
    visited = set()
    for _ in range(rounds):
        if active.tobytes() in visited:
            return None
        visited.add(active.tobytes())
        rows = np.flatnonzero(active)
        gradient, slack = exact_P * start + exact_q, exact_A * start + exact_b
        size = n + rows.size
        system = [[fmpq(0)] * (size + 1) for _ in range(size)]
        for i in range(n):
            for j in range(n):
                system[i][j] = exact_P[i, j]
            system[i][size] = -gradient[i, 0]
        for k, i in enumerate(rows):
            for j in range(n):
                system[n + k][j] = exact_A[int(i), j]
                system[j][n + k] = -exact_A[int(i), j]
            system[n + k][size] = -slack[int(i), 0]
        solution = _solve(fmpq_mat(system))
        if solution is None:
            return None
        x = fmpq_mat(n, 1, [start[i, 0] + solution[i] for i in range(n)])
        slack = exact_A * x + exact_b
        negative = [i for k, i in enumerate(rows) if not is_equal[i] and solution[n + k] < 0]
        violated = [i for i in range(m) if not active[i] and slack[i, 0] < 0]
        if not negative and not violated:
            return [x[i, 0] for i in range(n)]
        active[violated if violated else negative] = bool(violated)
    return None


def exact_values(F, x):
    """F x for exact x, rounded once."""
    from flint import fmpq_mat

    product = _rational(np.asarray(F)) * fmpq_mat(len(x), 1, list(x))
    return np.array([int(product[i, 0].p) / int(product[i, 0].q) for i in range(F.shape[0])])


def _rational(matrix):
    from flint import fmpq, fmpq_mat

    return fmpq_mat([[fmpq(*float(value).as_integer_ratio()) for value in row] for row in matrix])


def _solve(system):
    """Return a solution of [K | right] with zeros for what is free; None where there is none."""
    from flint import fmpq

    reduced, rank = system.rref()
    size = system.ncols() - 1
    solution = [fmpq(0)] * size
    for row in range(rank):
        column = next(j for j in range(size + 1) if reduced[row, j] != 0)
        if column == size:
            return None
        solution[column] = reduced[row, size]
    return solution
