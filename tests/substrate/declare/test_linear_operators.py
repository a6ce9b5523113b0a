"""Linear operators on f: what they are, how they join the expansion, and equations that they state."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearOperator, Machine, Substrate
from substrate.declare.linear_operators import add_lengths, inner_product_matrix
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Linear, Matern, Polynomial

derivative, value = LinearOperator.derivative, LinearOperator.value
STEP = np.array([0.5, 0.0])


@pytest.fixture
def plane():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=14)


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def second_difference(predict, P, one, other, step=1e-3):
    """The mixed second derivative by central differences, or the second one where both are the same."""
    u, v = step * np.eye(P.shape[1])[one], step * np.eye(P.shape[1])[other]
    return (predict(P + u + v) - predict(P + u - v) - predict(P - u + v) + predict(P - u - v)) / (4.0 * step**2)


KERNELS = [RBF(1.0), Matern(1.5, 3.5), Polynomial(4, 1.0), RBF(2.0) * Polynomial(2, 1.0), Componentwise(RBF(1.5))]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_second_derivatives_are_limits_of_differences_of_predictions(plane, kernel):
    X, y = plane
    P = np.random.default_rng(2).normal(size=(5, 2))
    s = Substrate(kernel, X, y)
    bend, twist = s.derivative(P, {0: 2}), s.derivative(P, {0: 1, 1: 1})
    result = Machine(s, minimize=ridge(s), subject_to=[bend >= -0.2, twist <= 0.3]).solve()
    assert result.certificate.holds, str(result.certificate)
    size = np.abs(y).max() + np.abs(bend.value).max()
    assert_allclose(bend.value, second_difference(result.predict, P, 0, 0), atol=2e-5 * size)
    assert_allclose(twist.value, second_difference(result.predict, P, 0, 1), atol=2e-5 * size)
    assert_allclose(result.derivative(P, {0: 2}), bend.value, atol=1e-9 * size)
    assert bend.value.min() >= -0.2 - 1e-6 * size
    assert_allclose(s.laplacian(P).value, (s.derivative(P, {0: 2}) + s.derivative(P, {1: 2})).value, atol=1e-9 * size)


def test_the_optimum_is_that_over_all_w():
    """Against the features themselves: with a quartic kernel w has five entries, and two rows span two of them."""
    rng = np.random.default_rng(3)
    x, p = rng.uniform(-1.0, 1.0, size=2), np.linspace(-1.0, 1.0, 7)
    y = rng.normal(size=2)
    s = Substrate(Polynomial(4, 1.0), x[:, None], y)
    result = Machine(s, minimize=ridge(s), subject_to=[s.derivative(p[:, None], {0: 2}) >= 0.5]).solve()
    assert result.certificate.holds, str(result.certificate)
    roots, powers = np.sqrt([1.0, 4.0, 6.0, 4.0, 1.0]), np.arange(5)
    w, b = cp.Variable(5), cp.Variable()
    bend = (powers * (powers - 1.0) * p[:, None] ** np.maximum(powers - 2, 0) * roots) @ w
    e = y - (np.vander(x, 5, increasing=True) * roots) @ w - b
    raw = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + 5.0 * cp.sum_squares(e)), [bend >= 0.5])
    raw.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)
    assert_allclose(result.objective, raw.value, rtol=1e-6)
    assert_allclose(result.derivative(p[:, None], {0: 2}), bend.value, atol=1e-5)


def test_an_ordinary_differential_equation_by_collocation():
    """f'' + f = 0, f(0) = 0, f'(0) = 1 has the solution sin x; the equation contains f, and so the bias."""
    grid = np.linspace(0.0, 3.0, 16)[:, None]
    s = Substrate(RBF(2.0), grid[:2], np.zeros(2))
    equation = derivative({0: 2}) + value()
    rules = [s.apply(equation, grid) == 0.0, s.f(grid[:1]) == 0.0, s.derivative(grid[:1], {0: 1}) == 1.0]
    result = Machine(s, minimize=s.squared_norm, subject_to=rules).solve()
    fine = np.linspace(0.0, 3.0, 301)[:, None]
    assert_allclose(result.predict(fine), np.sin(fine[:, 0]), atol=1e-4)
    assert_allclose(result.apply(equation, fine), 0.0, atol=1e-3)


@pytest.mark.parametrize("bias", [True, False])
def test_a_value_is_that_of_f_with_its_bias(plane, bias):
    X, y = plane
    s = Substrate(RBF(1.0), X, y + 5.0, bias=bias)
    P = X[:4] + 0.1
    twice = s.apply(2.0 * value(), P)
    result = Machine(s, minimize=ridge(s), subject_to=[twice <= 11.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    assert_allclose(twice.value, 2.0 * result.predict(P), rtol=1e-7)
    assert_allclose(result.apply(2.0 * value(), P), twice.value, rtol=1e-7)


@pytest.mark.parametrize("kernel", [RBF(0.8), Matern(1.1, 2.5), Polynomial(3, 0.5), RBF(1.0) + Linear()], ids=repr)
def test_rounding_is_relative_to_the_terms_before_they_cancel(kernel):
    """Against exact arithmetic: a difference over 1e-7 has a representer of that length, and errors of the values'."""
    flint = pytest.importorskip("flint")
    flint.ctx.prec, kept = 300, flint.ctx.prec
    try:
        P = np.random.default_rng(5).normal(size=(6, 2))
        near = value(at=lambda points: points + 2e-7 * STEP) - value()
        formula = kernel.exact_formula(flint.arb, 2)
        moved = P + 2e-7 * STEP

        def k(x, z):
            return formula([flint.arb(float(a)) for a in x], [flint.arb(float(a)) for a in z])

        exact = [
            [float(k(moved[i], moved[j]) - k(moved[i], P[j]) - k(P[i], moved[j]) + k(P[i], P[j])) for j in range(6)]
            for i in range(6)
        ]
        found = inner_product_matrix(kernel, near, P, near, P)
        lengths = add_lengths(kernel, near, P)
        allowed = 8.0 * max(kernel.rounding(P), np.finfo(float).eps) * np.outer(lengths, lengths)
        assert (np.abs(found - exact) <= allowed).all()
        assert (lengths > 0.5).all()
    finally:
        flint.ctx.prec = kept


def test_what_is_no_operator_or_has_no_derivative_is_refused(plane):
    s = Substrate(Matern(1.0, 1.5), *plane)
    with pytest.raises(DeclarationError, match="derivatives up to order 1 there, received order 2"):
        s.derivative(None, {0: 2})
    with pytest.raises(DeclarationError, match="up to order 1"):
        s.laplacian(None)
    with pytest.raises(DeclarationError, match="expected a LinearOperator"):
        s.apply({0: 2})
    with pytest.raises(DeclarationError, match="mapping from columns"):
        derivative([1])
    with pytest.raises(DeclarationError, match="at must be a function"):
        value(at=3)
    smooth = Substrate(RBF(1.0), *plane)
    with pytest.raises(DataError, match=r"one number per point: expected shape \(14,\), received \(14, 2\)"):
        smooth.apply((lambda P: P) * value())
    with pytest.raises(DataError, match="NaN or infinity"):
        smooth.apply((lambda P: P[:, 0] * np.nan) * value())
    with pytest.raises(DataError, match="must return points of the shape"):
        Machine(smooth, minimize=ridge(smooth) + cp.sum_squares(smooth.apply(value(at=lambda P: P[:2])))).solve()


@pytest.mark.parametrize("kernel", [RBF(1.0), Componentwise(RBF(1.5)), Polynomial(2, 1.0) + RBF(2.0)], ids=repr)
def test_an_integral_is_that_of_predictions(plane, kernel):
    """Constrained, with its bias, and beside derivatives; against the middles of a fine grid."""
    X, y = plane
    boxes = np.array([[[-1.0, 1.0], [0.0, 2.0]], [[0.5, 1.5], [-1.0, -0.5]]])
    s = Substrate(kernel, X, y + 2.0)
    total = s.integral(boxes)
    rules = [total[0] == 9.0, total[1] <= 1.0, s.derivative(X[:3], {0: 1}) >= -0.5]
    result = Machine(s, minimize=ridge(s), subject_to=rules).solve()
    assert result.certificate.holds, str(result.certificate)
    assert_allclose(total.value[0], 9.0, atol=1e-6)
    assert_allclose(result.integral(boxes), total.value, rtol=1e-8)
    assert_allclose(result.integral(boxes[0]), total.value[:1], rtol=1e-8)
    for box, found in zip(boxes, total.value, strict=True):
        axes = [low + (high - low) * (np.arange(60) + 0.5) / 60 for low, high in box]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        area = np.prod(box[:, 1] - box[:, 0])
        assert_allclose(found, area * result.predict(grid).mean(), rtol=1e-3)
