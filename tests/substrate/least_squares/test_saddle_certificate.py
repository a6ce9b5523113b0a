"""The certificate of the closed form: true solutions pass, tampered ones do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from problems import LSSVMRegressor
from substrate.certificates import Row, worst_rows
from substrate.datasets import motorcycle
from substrate.gram import Gram
from substrate.kernels import RBF, Componentwise, Polynomial
from substrate.least_squares.answer import FORMULA
from substrate.least_squares.saddle_certificate import saddle_row
from substrate.least_squares.saddle_system import ridge_of, solve_saddle_system, target_unit

X, Y = motorcycle()


@pytest.fixture(scope="module")
def fitted():
    gram = Gram.of(RBF(6.6), X)
    ridge = ridge_of(2.0, np.ones(len(Y)))
    return gram.matrix.copy(), ridge, solve_saddle_system(gram, Y, ridge)


def _passes(K, ridge, alpha, bias, y=Y):
    return saddle_row(K @ alpha, K.diagonal(), y, ridge, alpha, bias).passes


def test_the_true_solution_passes(fitted):
    K, ridge, solved = fitted
    assert _passes(K, ridge, solved.support_values, solved.bias)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tampering_with_any_single_support_value_is_caught(fitted, sign):
    K, ridge, solved = fitted
    step = sign * 1e-3 * np.abs(solved.support_values).max()
    assert not any(_passes(K, ridge, solved.support_values + step * unit, solved.bias) for unit in np.eye(len(Y)))


@pytest.mark.parametrize("step", [1e-3, -1e-3, 1e-6, 1e-9])
def test_tampering_with_the_bias_is_caught(fitted, step):
    K, ridge, solved = fitted
    assert not _passes(K, ridge, solved.support_values, solved.bias + step * np.abs(Y).max())


def test_other_support_values_that_sum_to_zero_are_caught(fitted):
    K, ridge, solved = fitted
    alpha = solved.support_values.copy()
    alpha[[0, 100]] = alpha[[100, 0]]
    assert not _passes(K, ridge, alpha, solved.bias)
    assert not _passes(K, ridge, 0.9 * solved.support_values, solved.bias)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_solution_that_is_not_finite_fails(fitted, bad):
    K, ridge, solved = fitted
    alpha = solved.support_values.copy()
    alpha[3] = bad
    with np.errstate(invalid="ignore"):
        assert not _passes(K, ridge, alpha, solved.bias)


@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e-12, 1e12, 1e150, 1e250])
def test_the_verdict_does_not_depend_on_the_unit_of_the_target(fitted, unit):
    K, ridge, solved = fitted
    alpha, b = unit * solved.support_values, unit * solved.bias
    assert _passes(K, ridge, alpha, b, unit * Y)
    tampered = alpha.copy()
    tampered[7] += 1e-3 * np.abs(alpha).max()
    assert not _passes(K, ridge, tampered, b, unit * Y)


def test_the_row_is_the_formula(fitted):
    """:equation [Suykens2002]_ (4): the conditions for optimality, written out."""
    K, ridge, _ = fitted
    rng = np.random.default_rng(0)
    alpha, b = rng.normal(size=len(Y)), 0.7
    row = saddle_row(K @ alpha, K.diagonal(), Y, ridge, alpha, b)
    e = Y - K @ alpha - b
    assert_allclose(row.value, np.hypot(np.linalg.norm(e - ridge * alpha), alpha.sum()), rtol=1e-12)
    # the scale of a backward error is never larger than it deserves
    M = np.block([[np.zeros((1, 1)), np.ones((1, len(Y)))], [np.ones((len(Y), 1)), K + np.diag(ridge)]])
    x = np.append(b, alpha)
    assert row.scale <= 2.0 * (np.linalg.norm(M, 2) * np.linalg.norm(x) + np.linalg.norm(Y))


def test_the_unit_is_one_or_a_power_of_two_near_the_largest():
    assert target_unit(np.array([3.0, -1e49])) == 1.0
    assert target_unit(np.zeros(3)) == 1.0
    for size in (1e200, 1e-200, -1e300):
        unit = target_unit(np.array([0.0, size]))
        assert np.frexp(unit)[0] == 0.5
        assert 1.0 <= abs(size) / unit < 2.0


def test_of_several_outputs_the_worst_row_is_kept():
    good, bad = Row("a", 1e-9, 1.0, 1e-6, "r"), Row("a", 1.0, 1.0, 1e-6, "r")
    fine, worse = Row("b", 0.0, 1.0, 1e-6, "s"), Row("b", 1e-8, 1.0, 1e-6, "s")
    kept = worst_rows([(good, worse), (bad, fine)])
    assert [row.value for row in kept] == [1.0, 1e-8]
    assert [row.passes for row in kept] == [False, True]
    assert kept[0].formula == "r, worst of 2 outputs"
    assert worst_rows([(good, fine)]) == (good, fine)
    unknown = Row("a", np.nan, 1.0, 1e-6, "r")
    assert not worst_rows([(good,), (unknown,), (bad,)])[0].passes


@pytest.mark.parametrize("kernel", [RBF(2.0), Componentwise(RBF(1.5)), Polynomial(2)])
def test_a_bound_that_misses_the_tolerance_is_computed_once_more_from_differences(kernel):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 3))
    y = np.sin(points[:, 0]) + points[:, 1] ** 2 + 0.1 * rng.normal(size=120)
    plain = LSSVMRegressor(kernel, gamma=1e4).fit(points, y).certificate_.answer
    strict = LSSVMRegressor(kernel, gamma=1e4, tol=0.5 * plain.relative).fit(points, y).certificate_.answer
    assert plain.formula == FORMULA
    assert strict.formula == f"{FORMULA}, from differences"
    assert strict.passes
    beyond = LSSVMRegressor(kernel, gamma=1e4, tol=1e-3 * strict.relative)
    with pytest.warns(ConvergenceWarning, match="double precision cannot give the answer"):
        beyond.fit(points, y)
    assert beyond.certificate_.answer.value == strict.value
