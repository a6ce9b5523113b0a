"""The bound of least squares on kept columns: true for right and for wrong coefficients."""

import numpy as np
import pytest

from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.column_accuracy import (
    ColumnMachine,
    KeptColumnFactor,
    bound_columns_by_factor,
    enclose_columns,
)
from substrate.least_squares.column_reduction import solve_columns
from substrate.least_squares.regularization import Regularization
from substrate.least_squares.saddle_system import bordered_matrix, bordered_target


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_not_below_the_distance_from_the_solution(seed, size):
    rng = np.random.default_rng(seed)
    n, kernel, gamma = 30, [RBF(1.5), Linear()][seed % 2], 10.0 ** rng.uniform(-2.0, 3.0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    columns = np.sort(rng.permutation(n)[:8])
    gram = Gram.of(kernel, X)
    solved = solve_columns(
        bordered_matrix(gram.matrix, Regularization(gamma).ridge(np.ones(n))), columns, bordered_target(y)
    )
    enclosed = enclose_columns(kernel, X, columns)
    values = enclosed.matrix.middle

    def bound(a, b, fitted):
        machine = ColumnMachine(y, columns, gamma, b, a)
        factor = KeptColumnFactor.of_columns(machine.add_border(values))
        return tuple(bound_columns_by_factor(machine, enclosed, factor, values) for values in (None, fitted))

    best = values @ solved.coefficients + solved.bias
    left = min(bound(solved.coefficients, solved.bias, best))
    assert left <= 1e-9
    a = solved.coefficients * (1.0 + size * rng.normal(size=8))
    b = solved.bias + size * rng.normal()
    fitted = values @ a + b
    distance = float(np.sqrt(np.mean((fitted - best) ** 2)))
    for found in bound(a, b, fitted):
        assert distance - left <= found <= 100.0 * distance + 1e-9


@pytest.mark.parametrize("m", [1, 2, 7, 60])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_the_smallest_singular_value_is_bounded_from_below_within_a_factor(m, condition):
    rng = np.random.default_rng(m)
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    lower = np.linalg.cholesky((Q * np.geomspace(1.0, condition**-2.0, m)) @ Q.T)
    exact = np.linalg.svd(lower, compute_uv=False)[-1]
    factor = KeptColumnFactor.of_normal_equations(np.asfortranarray(lower), np.ones(m), 2 * m)
    assert 0.45 * exact <= factor.smallest <= exact


def test_a_factor_that_is_singular_or_not_finite_has_no_bound():
    for value in (0.0, np.nan):
        lower = np.asfortranarray(np.diag([1.0, value, 1.0]))
        assert KeptColumnFactor.of_normal_equations(lower, np.ones(3), 5).smallest == 0.0
