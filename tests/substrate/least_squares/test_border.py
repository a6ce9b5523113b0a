"""The columns that a machine does not penalise: elimination, projection, bounds, and columns that are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DataError, SolverError
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.least_squares.answer import Expansion, bound_expansion, bound_products, kernel_roots
from substrate.least_squares.border import NO_BORDER, ONES, Border
from substrate.least_squares.leave_one_out import (
    hat_matrix,
    projected_diagonal,
    projected_inverse,
)
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system
from substrate.numbers import Double
from tests.oracles.bordered_system import solve_with
from tests.oracles.exact_saddle import exact_distance
from tests.oracles.sampled_cases import first

N, KERNEL = 30, RBF(1.3)


def instance(seed, columns=2, offset=0.0, unit=1.0):
    rng = np.random.default_rng(seed)
    X, z = rng.normal(size=(N, 2)), offset + unit * rng.normal(size=(N, columns))
    Y = np.column_stack([np.sin(X[:, 0]) + (z - offset) @ np.ones(columns) / unit, rng.normal(size=N)])
    return X, z, Y + 3.0, rng.uniform(0.3, 3.0, size=N)


def borders(z, v):
    return {
        "ones": (ONES, np.ones((N, 1))),
        "none": (NO_BORDER, np.ones((N, 0))),
        "linear": (Border.of(z, v), np.column_stack([np.ones(N), z - z.mean(axis=0)])),
        "no bias": (Border.of(z, v, constant=False), z),
    }


@pytest.mark.parametrize("which", ["ones", "none", "linear", "no bias"])
@pytest.mark.parametrize("seed", first(1, range(4)))
def test_elimination_and_projection_are_those_of_the_bordered_matrix(which, seed):
    X, z, Y, v = instance(seed)
    border, Z = borders(z, v)[which]
    ridge, K = ridge_of(5.0, v), KERNEL(X)
    solved = solve_saddle_system(Gram(K.copy()), Y, ridge, border=border)
    alpha, c = solve_with(K, Y, ridge, Z)
    assert_allclose(solved.support_values, alpha, atol=1e-11)
    fitted = solved.products + solved.bias + border.slope_values(solved.slopes)
    assert_allclose(fitted, K @ alpha + Z @ c, atol=1e-11)
    if which in ("linear", "no bias"):
        assert_allclose(solved.slopes, c[-2:], rtol=1e-9)
    B = np.column_stack([solve_with(K, unit, ridge, Z)[0] for unit in np.eye(N)])
    assert_allclose(projected_inverse(Gram(K.copy()), ridge, border), B, atol=1e-10)
    assert_allclose(projected_diagonal(Gram(K.copy()), ridge, border), B.diagonal(), atol=1e-10)
    assert_allclose(hat_matrix(Gram(K.copy()), ridge, border), np.eye(N) - ridge[:, None] * B, atol=1e-10)
    assert border.count == Z.shape[1]


def test_the_balance_is_the_sum_of_the_support_values():
    X, z, Y, v = instance(0)
    border = Border.of(z, v)
    solved = solve_saddle_system(Gram.of(KERNEL, X), Y, ridge_of(5.0, v), 2.5, border)
    assert_allclose(solved.support_values.sum(axis=0), 2.5)
    assert_allclose(border.linear_basis.T @ solved.support_values, 0.0, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e8, -1e12])
@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e9])
def test_offsets_and_units_of_the_columns_cost_no_digits(offset, unit):
    X, z, Y, v = instance(1, offset=offset * unit, unit=unit)
    border = Border.of(z, v)
    root = np.sqrt(v / v.sum())[:, None]
    full = root * border.matrix(v[:, None])
    assert_allclose(full.T @ full, np.eye(3), atol=1e-12)
    # columns that were rounded with their offset are other columns: the same span in plain units is the reference
    plain = Border.of((z - z[0]) / unit, v)
    ridge, K = ridge_of(5.0, v), KERNEL(X)
    found, wanted = (solve_saddle_system(Gram(K.copy()), Y, ridge, border=one) for one in (border, plain))
    assert_allclose(found.support_values, wanted.support_values, atol=1e-10)
    assert_allclose(unit * found.slopes, wanted.slopes, rtol=1e-9)


def spoilt(alpha, bias, slopes, rng, size):
    """Coefficients that are off by a share, out of balance with the border too."""
    moved = alpha * (1.0 + size * rng.normal(size=alpha.size))
    return moved, bias + size * rng.normal(), slopes * (1.0 + size * rng.normal(size=slopes.size))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-4, 0.3])
@pytest.mark.parametrize("offset", first(1, [1e6, 0.0]))
@pytest.mark.parametrize("seed", first(1, range(6)))
def test_the_bound_is_true_whatever_the_coefficients(seed, offset, size, constant):
    """Against the exact saddle system in ball arithmetic, for right and for wrong coefficients."""
    X, z, Y, v = instance(seed, offset=offset if constant else 0.0)
    X, z, Y, v = X[:14], z[:14], Y[:14], v[:14]
    border, y, rng = Border.of(z, v, constant=constant), Y[:, 0], np.random.default_rng(seed)
    ridge = ridge_of(4.0, v)
    solved = solve_saddle_system(Gram.of(KERNEL, X), y, ridge, border=border)
    bias = float(solved.bias) if constant else 0.0
    a, b, c = spoilt(solved.support_values, bias, solved.slopes, rng, size)
    b = b if constant else 0.0
    K = KERNEL(X)
    machine, roots = Expansion(y, 4.0, v, a, b, border=border, slopes=c), kernel_roots(K.diagonal())
    fitted = K @ a + b + border.slope_values(c)
    if constant:
        true = exact_distance(KERNEL, X, y, 4.0, v, fitted, z)
    else:
        exact, coefficients = solve_with(K, y, ridge, z)
        apart = fitted - K @ exact - z @ coefficients
        true = float(np.sqrt(v @ apart**2 / v.sum())) - 1e-12
    plain = bound_products(machine, K @ a, roots, KERNEL.rounding(X))
    sharper = bound_expansion(machine, Double, lambda a: (KERNEL.enclose(X, X) * a).add_up(), fitted).upper()
    assert true <= plain, (true, plain)
    assert true <= sharper, (true, sharper)
    if size == 0.0:
        assert sharper <= 1e-6 * np.std(y)


def test_without_the_imbalance_the_bound_would_be_false():
    """K = 0, a = y - 7 z: the residual vanishes, and the answer is off by 7 z."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    border = Border.of(z, np.ones(20))
    a = y - 7.0 * (z - border.center)[:, 0]
    known = (y, 1.0, np.ones(20), a - a.mean(), float(a.mean()))
    machine = Expansion(*known, border=border, slopes=np.array([7.0]))
    bound = bound_products(machine, np.zeros(20), kernel_roots(np.zeros(20)), 0.0)
    assert bound >= 0.99 * np.sqrt(np.mean((7.0 * (z - border.center)) ** 2)) - np.std(y)
    assert bound > 1e-6 * np.std(y)


def test_dependent_columns_are_refused_by_name():
    rng = np.random.default_rng(0)
    z, v = rng.normal(size=(20, 3)), np.ones(20)
    with pytest.raises(DataError, match=r"age of the linear part is determined by the constant and .*height.*"):
        Border.of(np.column_stack([z[:, 0], 3.0 * z[:, 0] - 2.0]), v, ["height", "age"])
    with pytest.raises(DataError, match=r"column 1 of the linear part is determined by the constant"):
        Border.of(np.column_stack([z[:, 0], np.full(20, 1e8)]), v)
    with pytest.raises(DataError, match="3 rows do not determine 3 linear columns and the bias"):
        Border.of(z[:3], v[:3])
    with pytest.raises(DataError, match="overflow"):
        Border.of(np.column_stack([z[:, 0], np.where(np.arange(20) > 9, 1e308, -1e308)]), v)
    nearly = np.column_stack([z[:, 0], z[:, 0] + 1e-9 * z[:, 1]])
    assert Border.of(nearly, v).count == 3  # a small difference is one


def test_a_row_that_alone_determines_a_column_cannot_be_left_out():
    X, z, _Y, v = instance(0)
    z[:, 1] = 0.0
    z[7, 1] = 1.0
    diagonal = projected_diagonal(Gram.of(KERNEL, X), ridge_of(2.0, v), Border.of(z, v))
    assert diagonal[7] == 0.0
    assert (np.delete(diagonal, 7) > 0.0).all()


def test_a_constant_target_gives_exact_zeros():
    X, z, _Y, v = instance(0)
    solved = solve_saddle_system(Gram.of(KERNEL, X), np.full(N, 3.7), ridge_of(2.0, v), border=Border.of(z, v))
    assert_array_equal(solved.support_values, 0.0)
    assert_array_equal(solved.slopes, 0.0)
    assert solved.bias == 3.7


def test_a_border_that_the_system_does_not_determine_is_refused():
    with pytest.raises(SolverError, match="not determined"):
        Border.of(np.arange(5.0)[:, None], np.ones(5)).eliminate(np.zeros((5, 2)))


@pytest.mark.parametrize("which", range(4))
def test_values_are_shortened_by_a_combination_of_the_columns(which):
    z, y, v = columns_and_targets()
    border = [ONES, NO_BORDER, Border.of(z, v), Border.of(z, v, constant=False)][which]
    Z, rest = border.matrix(y), border.shorten(y)
    taken = y - rest
    assert_allclose(Z @ np.linalg.lstsq(Z, taken, rcond=None)[0], taken, atol=1e-12)
    shortest = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
    assert (np.linalg.norm(rest, axis=0) <= 1.01 * np.linalg.norm(shortest, axis=0)).all()


def columns_and_targets():
    """Columns in units and offsets of their own, targets of two outputs, weights."""
    rng = np.random.default_rng(7)
    z = rng.normal(size=(30, 2)) * [1e-3, 1e3] + [1.0, -1e4]
    return z, rng.normal(size=(30, 2)) + 5.0, rng.uniform(0.2, 3.0, 30)
