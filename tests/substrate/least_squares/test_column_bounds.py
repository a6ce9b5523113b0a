"""The bound of least squares on kept columns: true for right and for wrong coefficients."""

import numpy as np
import pytest

from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.column_reduction import ColumnMachine, enclose_columns, solve_columns
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target, ridge_of


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_not_below_the_distance_from_the_solution(seed, size):
    rng = np.random.default_rng(seed)
    n, kernel, gamma = 30, [RBF(1.5), Linear()][seed % 2], 10.0 ** rng.uniform(-2.0, 3.0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    columns = np.sort(rng.permutation(n)[:8])
    gram = Gram.of(kernel, X)
    solved = solve_columns(bordered_matrix(gram.matrix, ridge_of(gamma, np.ones(n))), columns, bordered_target(y))
    enclosed = enclose_columns(kernel, X, columns)
    values = enclosed.middle

    def bound(a, b, fitted):
        return ColumnMachine(y, columns, gamma, b, a).bound(enclosed, fitted)

    best = values @ solved.coefficients + solved.bias
    left = bound(solved.coefficients, solved.bias, best)
    assert left <= 1e-9
    a = solved.coefficients * (1.0 + size * rng.normal(size=8))
    b = solved.bias + size * rng.normal()
    fitted = values @ a + b
    distance = float(np.sqrt(np.mean((fitted - best) ** 2)))
    assert distance - left <= bound(a, b, fitted) <= 100.0 * distance + 1e-9
