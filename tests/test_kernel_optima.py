"""Composed machines against optima from the kernel in ball arithmetic: no coordinates of the package take part."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from kernel_optima import BITS, PENALISED, UNPENALISED, kernel_optimum

from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise

flint = pytest.importorskip("flint", reason="the optima are computed with python-flint")


@pytest.fixture(autouse=True)
def many_digits():
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    yield
    flint.ctx.prec = before


def solved(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return case.machine.solve()


def error_of(case, result, fitted):
    difference = result.predict(case.X) - fitted
    about_mean = "about their mean" in result.certificate.promise
    return float(np.sqrt(np.mean((difference - about_mean * difference.mean()) ** 2)))


@pytest.mark.parametrize("kind", PENALISED + UNPENALISED)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.covering
def test_no_answer_is_farther_from_the_optimum_of_the_kernel_than_its_bound(kind, seed):
    case = kernel_optimum(kind, seed, unit=10.0 ** [0, 0, 3, -3][seed % 4] if kind != "hinge" else 1.0)
    result = solved(case)
    certificate, exact = result.certificate, case.exact(result)
    if exact is None or "equalities to" in certificate.promise:
        return  # another machine is stated in the first line
    if certificate.answer is not None:
        assert error_of(case, result, exact[0]) <= certificate.accuracy, str(certificate)
    if certificate.holds:
        assert result.objective == pytest.approx(exact[1], rel=1e-4), str(certificate)


@pytest.mark.parametrize("kind", ["known values", "collocation", "bounds", "rising"])
def test_smooth_kernels_whose_directions_are_cut_promise_no_more_than_they_keep(kind):
    bounded = 0
    for seed in range(10):
        case = kernel_optimum(kind, seed, sigma=[1.0, 2.0, 3.0, 5.0][seed % 4], rows=10, points=8)
        result = solved(case)
        exact = case.exact(result)
        if exact is None or result.certificate.answer is None or "equalities to" in result.certificate.promise:
            continue
        bounded += 1
        assert error_of(case, result, exact[0]) <= result.certificate.accuracy, (seed, str(result.certificate))
    assert bounded >= 1


@pytest.mark.parametrize("seed", range(6))
def test_squares_of_a_component_are_bounded_in_all_directions(seed):
    """Against the linear system of all representers, in 60 digits."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(seed)
    X, p, sigma = rng.uniform(-2.0, 2.0, size=(10, 2)), rng.uniform(-2.0, 2.0, size=(6, 2)), [1.0, 3.0, 6.0][seed % 3]
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=10)
    s = Substrate(Componentwise(RBF(sigma)), X, y)
    objective = 0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e) + 2.0 * cp.sum_squares(s.component(0, p) - 1.0)
    result = Machine(s, minimize=objective).solve()
    assert result.certificate.holds
    with mpmath.workdps(60):

        def product(a, b):
            columns = (0, 1) if a[1] == b[1] == "f" else (0,)
            parts = [(mpmath.mpf(float(a[0][c])) - mpmath.mpf(float(b[0][c]))) / mpmath.mpf(sigma) for c in columns]
            return mpmath.fsum(mpmath.exp(-(part**2)) for part in parts)

        rows = [(x, "f") for x in X] + [(x, "component") for x in p]
        M = mpmath.matrix(17, 17)
        for i, left in enumerate(rows):
            M[i, 16] = M[16, i] = int(left[1] == "f")
            for j, right in enumerate(rows):
                M[i, j] = product(left, right)
            M[i, i] += mpmath.mpf(1) / (10 if left[1] == "f" else 4)
        a = mpmath.lu_solve(M, mpmath.matrix([*map(float, y), *[1.0] * 6, 0.0]))
        fitted = [
            float(mpmath.fsum(product(left, right) * a[j] for j, right in enumerate(rows)) + a[16])
            for left in rows[:10]
        ]
    error = float(np.sqrt(np.mean((result.predict(X) - fitted) ** 2)))
    assert error <= result.certificate.accuracy < 1e-5


@pytest.mark.parametrize("rule", ["equality", "bound"])
@pytest.mark.parametrize("sigma", [0.3, 1.25])
def test_a_rule_on_one_value_is_bounded_in_all_directions(sigma, rule):
    """Against the linear system of the rows and the point of the rule, in 60 digits; the bound is active."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    X, p, gamma = rng.uniform(size=(20, 1)), np.array([[0.2]]), 20
    y, value = np.sin(3.0 * X[:, 0]), 0.75
    s = Substrate(RBF(sigma), X, y)
    stated = s.f(p) == value if rule == "equality" else s.f(p) >= value
    objective = 0.5 * s.squared_norm + 0.5 * gamma * cp.sum_squares(s.e)
    result = Machine(s, minimize=objective, subject_to=[stated]).solve()
    with mpmath.workdps(60):
        points = [mpmath.mpf(float(x)) for x in (*X[:, 0], *p[:, 0])]
        K = mpmath.matrix(20, 21)
        M = mpmath.matrix(22, 22)
        for i, x in enumerate(points):
            M[i, 21] = M[21, i] = 1
            for j, z in enumerate(points):
                M[i, j] = mpmath.exp(-(((x - z) / mpmath.mpf(sigma)) ** 2))
        K[:, :] = M[:20, :21]
        for i in range(20):
            M[i, i] += mpmath.mpf(1) / gamma
        a = mpmath.lu_solve(M, mpmath.matrix([*map(float, y), value, 0.0]))
        fitted = np.array([float(v + a[21]) for v in K * a[:21]])
    difference = result.predict(X) - fitted
    difference -= difference.mean() * ("about their mean" in result.certificate.promise)
    assert np.sqrt(np.mean(difference**2)) <= result.certificate.accuracy < 1e-5


@pytest.mark.parametrize("kind", PENALISED + UNPENALISED)
def test_ordinary_machines_hold_for_all_directions(kind):
    case = kernel_optimum(kind, 1, sigma=0.7, rows=8, points=3)
    result = solved(case)
    assert result.certificate.holds, str(result.certificate)
    assert "equalities to" not in result.certificate.promise
    fitted, objective = case.exact(result)
    assert result.certificate.accuracy <= 1e-3 * result.certificate.spread
    assert error_of(case, result, fitted) <= result.certificate.accuracy
    assert result.objective == pytest.approx(objective, rel=1e-7)


@pytest.mark.parametrize("kind", ["known values", "collocation"])
@pytest.mark.parametrize("which", [(0, 10), (1, 20), (2, 25)])
@pytest.mark.covering
def test_a_feasible_machine_is_not_called_infeasible(kind, which):
    seed, points = which
    case = kernel_optimum(kind, seed, sigma=[1.0, 2.0, 3.0][seed % 3], points=points)
    certificate = solved(case).certificate
    equalities = dict(certificate.record).get("equalities", "")
    row = next(row for row in certificate.rows if row.name == "constraint 1: feasible")
    assert row.relative <= 1e-5
    assert bool(equalities) == ("equalities to" in certificate.promise) or certificate.answer is None


def test_multipliers_of_dependent_equalities_are_those_of_the_machine():
    rng = np.random.default_rng(1)
    X, y, p = rng.normal(size=(9, 1)), rng.normal(size=9), np.array([[0.3], [-0.8], [0.3]])
    s = Substrate(RBF(1.0), X, y)
    rule = s.f(p) == np.array([0.1, 0.2, 0.1])
    result = Machine(s, minimize=0.5 * s.squared_norm + 0.5 * cp.sum_squares(s.e), subject_to=[rule]).solve()
    assert result.certificate.holds
    t = Substrate(RBF(1.0), X, y)
    once = t.f(p[:2]) == np.array([0.1, 0.2])
    plain = Machine(t, minimize=0.5 * t.squared_norm + 0.5 * cp.sum_squares(t.e), subject_to=[once]).solve()
    np.testing.assert_allclose(result.f, plain.f, atol=1e-9)
    value = rule.dual_value
    np.testing.assert_allclose([value[0] + value[2], value[1]], once.dual_value, atol=1e-7)


@pytest.mark.parametrize("penalty", [cp.norm_inf, cp.norm1], ids=["largest", "sum"])
def test_directions_that_are_left_out_are_told(penalty):
    from sklearn.exceptions import ConvergenceWarning

    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 1))
    y = 50.0 * (np.sin(3.0 * X[:, 0]) + rng.normal(size=9))
    s = Substrate(RBF(2.0), X, y)
    with pytest.warns(ConvergenceWarning, match="directions of the kernel"):
        certificate = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + penalty(s.f())).solve().certificate
    assert not certificate.holds
    assert certificate.accuracy == np.inf
