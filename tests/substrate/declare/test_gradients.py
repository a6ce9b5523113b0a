"""Derivatives of f in a machine: what they are, how they join the expansion, and fits that they make rise or bend."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial


@pytest.fixture
def curve():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2.0, 2.0, size=25))
    return x[:, None], x**2 + 0.8 * rng.normal(size=25)


@pytest.fixture
def plane():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=14)


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


SMOOTH = [RBF(1.0), Matern(1.0, 2.5), Polynomial(3, 1.0) + RBF(2.0), RBF(2.0) * Linear(), Componentwise(RBF(1.5))]


@pytest.mark.parametrize("kernel", SMOOTH, ids=repr)
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.covering
def test_a_gradient_is_the_limit_of_differences_of_predictions(plane, kernel, column):
    X, y = plane
    P = np.random.default_rng(2).normal(size=(5, 2))
    s = Substrate(kernel, X, y)
    slope = s.gradient(P, column)
    result = Machine(s, minimize=ridge(s), subject_to=[slope <= 0.3, s.f(P[:2]) >= 0.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    step = 1e-5 * np.eye(2)[column]
    differences = (result.predict(P + step) - result.predict(P - step)) / 2e-5
    size = np.abs(differences).max() + 1.0
    assert_allclose(slope.value, differences, atol=1e-7 * size)
    assert_allclose(result.derivative(P, {column: 1}), slope.value, atol=1e-9 * size)
    assert slope.value.max() <= 0.3 + 1e-6
    orders = {further.operator and further.operator.terms[0].orders for further in result.further}
    assert orders == {None, ((column, 1),)}
    assert "5 functionals" in dict(result.certificate.record)["span"]


@pytest.mark.parametrize("bias", [True, False])
def test_the_optimum_is_that_over_all_w(bias):
    """Against the features themselves: with a cubic kernel w has four entries."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1.0, 1.0, size=5)
    y, p = rng.normal(size=5), np.linspace(-1.0, 1.0, 9)
    s = Substrate(Polynomial(3, 1.0), x[:2, None], y[:2], bias=bias)  # two rows span two of the four
    rules = [s.gradient(p[:, None], 0) >= 0.5]
    result = Machine(s, minimize=ridge(s), subject_to=rules).solve()
    roots = np.sqrt([1.0, 3.0, 3.0, 1.0])
    w, b = cp.Variable(4), cp.Variable() if bias else 0.0
    rise = (np.column_stack([0.0 * p, p**0, 2.0 * p, 3.0 * p**2]) * roots) @ w
    e = y[:2] - (np.vander(x[:2], 4, increasing=True) * roots) @ w - b
    raw = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 5.0 * cp.sum_squares(e)), [rise >= 0.5])
    raw.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    assert_allclose(result.objective, raw.value, rtol=1e-6)
    assert_allclose(result.derivative(p[:, None], {0: 1}), rise.value, atol=1e-5)


def test_a_derivative_has_no_bias_and_no_part_in_the_sum(curve):
    X, y = curve
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=ridge(s), subject_to=[s.gradient(X[:6], 0) >= 0.0]).solve()
    (further,) = result.further
    assert np.abs(further.coefficients).max() > 1e-3
    assert_allclose(result.alpha.sum(), 0.0, atol=1e-9)
    assert result.certificate["1'alpha = 0"].passes


def test_a_fit_rises_between_the_points_of_its_grid(curve):
    X, y = curve
    grid = np.linspace(-2.0, 2.0, 25)[:, None]
    s = Substrate(RBF(1.0), X, y)
    rising = s.gradient(grid, 0) >= 0.0
    result = Machine(s, minimize=ridge(s), subject_to=[rising]).solve()
    assert result.certificate.holds, str(result.certificate)
    fine = result.predict(np.linspace(-2.0, 2.0, 1000)[:, None])
    assert np.diff(fine).min() >= -1e-3 * np.ptp(fine)
    assert rising.dual_value.max() > 1e-2
    free = Machine(s, minimize=ridge(s)).solve()
    assert np.diff(free.predict(grid)).min() < -0.1


def test_units_of_the_inputs_do_not_matter(curve):
    """A derivative has another unit than a value; the coordinates make up for it."""
    X, y = curve
    fits = []
    for unit in (1.0, 1e-6, 1e6):
        s = Substrate(RBF(unit), unit * X, y)
        result = Machine(s, minimize=ridge(s), subject_to=[unit * s.gradient(unit * X[::4], 0) >= 0.0]).solve()
        assert result.certificate.holds, str(result.certificate)
        fits.append(result.f)
    assert_allclose(fits[1], fits[0], atol=1e-6)
    assert_allclose(fits[2], fits[0], atol=1e-6)


@pytest.mark.parametrize("terms", [lambda s: cp.sum_squares(s.e), lambda s: cp.sum_squares(s.e) + cp.norm1(s.alpha)])
def test_without_a_norm_the_derivative_is_read_on_the_training_rows(curve, terms):
    X, y = curve
    s = Substrate(RBF(1.0), X, y)
    slope = s.gradient(X[::3] + 0.1, 0)
    result = Machine(s, minimize=terms(s), subject_to=[slope >= -1.0]).solve()
    assert result.further == ()
    assert slope.value.min() >= -1.0 - 1e-5
    assert_allclose(slope.value, result.derivative(X[::3] + 0.1, {0: 1}), rtol=1e-6, atol=1e-6)


def test_what_has_no_derivatives_is_refused_with_the_reason(curve, plane):
    s = Substrate(Laplacian(1.0), *curve)
    with pytest.raises(DeclarationError, match=r"Laplacian\(sigma=1.0\) has no derivatives: it has a kink .*take RBF"):
        s.gradient(None, 0)
    fitted = Machine(s, minimize=ridge(s)).solve()
    with pytest.raises(DeclarationError, match="has no derivatives"):
        fitted.derivative(curve[0], {0: 1})
    smooth = Substrate(RBF(1.0), *plane)
    for column in (2, -1, 0.5, "x"):
        with pytest.raises(DeclarationError, match=r"column.* integer from 0 to 1"):
            smooth.derivative(plane[0], {column: 1})
    with pytest.raises(DataError, match="3 columns, the training points 2"):
        smooth.derivative(np.ones((4, 3)), {0: 1})
