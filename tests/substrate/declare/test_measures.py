"""Integrals of f against measures: points, lengths, products and sums; sums in the place of integrals, with a bound."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearOperator, Machine, Measure, Substrate
from substrate.declare.linear_operators import Integral, add_lengths, inner_product_matrix
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial

mpmath = pytest.importorskip("mpmath")

LINES = Measure.product(Measure.of_box([[0.0, 1.0]]), Measure.of_points([[0.0], [1.0]], [0.3, 0.7]))


@pytest.fixture
def plane():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=14)


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def test_a_measure_is_a_sum_of_weighted_boxes():
    mean = Measure.of_points([[0.0, 1.0], [2.0, 3.0]])
    assert_allclose([mean.mass, LINES.mass, (2.0 * mean - LINES).mass], [1.0, 1.0, 1.0])
    assert mean.is_discrete
    assert not LINES.is_discrete
    cube = Measure.product(Measure.of_box([[0.0, 2.0]]), Measure.of_box([[1.0, 4.0]]), Measure.of_points([[5.0]]))
    assert_allclose(cube.boxes, [[[0.0, 2.0], [1.0, 4.0], [5.0, 5.0]]])
    assert_allclose(cube.mass, 6.0)


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplacian(2.0), Componentwise(Matern(1.0, 1.5))], ids=repr)
def test_an_integral_against_a_measure_is_that_of_predictions(plane, kernel):
    X, y = plane
    s = Substrate(kernel, X, y + 2.0)
    some = Measure.of_points(X[:5], [0.5, -1.0, 2.0, 0.0, 1.0])
    lines, points = s.integral(LINES), s.integral([some, LINES - some])
    result = Machine(s, minimize=ridge(s), subject_to=[lines == 3.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    middles = (np.arange(400) + 0.5) / 400
    along = [result.predict(np.column_stack([middles, np.full(400, at)])).mean() for at in (0.0, 1.0)]
    assert_allclose(lines.value, 3.0, atol=1e-6)
    assert_allclose(0.3 * along[0] + 0.7 * along[1], 3.0, atol=1e-4)
    at_points = some.weights @ result.predict(X[:5])
    assert_allclose(points.value, [at_points, 3.0 - at_points], atol=1e-6)
    assert_allclose(result.integral([some, LINES - some]), points.value, atol=1e-8)


def test_inner_products_of_measures_against_50_digits():
    """Of the lines above with each other and with a slope, for RBF: sums of products of error functions."""
    kernel, sigma = RBF(0.8), mpmath.mpf(0.8)
    functional = Integral((LINES,))
    number, slope = np.zeros((1, 1)), LinearOperator.derivative({0: 1})
    with mpmath.workdps(50):

        def k(u):
            return mpmath.exp(-((u / sigma) ** 2))

        double = 2 * mpmath.quad(lambda u: (1 - u) * k(u), [0, 1])
        masses = [mpmath.mpf(0.3), mpmath.mpf(0.7)]
        exact = double * sum(m * n * k(i - j) for i, m in enumerate(masses) for j, n in enumerate(masses))
        x = [mpmath.mpf(0.4), mpmath.mpf(-0.3)]
        across = sum(m * k(x[1] - j) for j, m in enumerate(masses))
        along = mpmath.quad(lambda z: -2 * (x[0] - z) / sigma**2 * k(x[0] - z), [0, x[0], 1])
    found = inner_product_matrix(kernel, functional, number, functional, number)
    assert_allclose(found, [[float(exact)]], rtol=1e-14)
    mixed = inner_product_matrix(kernel, slope, np.array([[0.4, -0.3]]), functional, number)
    assert_allclose(mixed, [[float(across * along)]], rtol=1e-13)
    assert add_lengths(kernel, functional, number)[0] >= np.sqrt(float(exact))


def test_what_is_no_measure_is_refused(plane):
    X, y = plane
    s = Substrate(Laplacian(1.0) * Linear(), X, y)
    with pytest.raises(DeclarationError, match="has no integrals over boxes in closed form"):
        s.integral(LINES)
    assert s.integral(Measure.of_points(X)).shape == (1,)  # values need no closed form
    with pytest.raises(DataError, match="on 1 columns, the training points have 2"):
        s.integral(Measure.of_box([[0.0, 1.0]]))
    with pytest.raises(DeclarationError, match="expected a Measure"):
        s.integral([LINES, 3.0])
    with pytest.raises(DataError, match="one entry per point: expected 2, received 3"):
        Measure.of_points([[0.0], [1.0]], [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="points is empty"):
        Measure.of_points(np.empty((0, 2)))
    with pytest.raises(DataError, match="below its upper end"):
        Measure.of_box([[1.0, 1.0]])
    with pytest.raises(DeclarationError, match="made of measures"):
        Measure.product()
    with pytest.raises(DataError, match="have no sum"):
        LINES + Measure.of_box([[0.0, 1.0]])
    with pytest.raises(DeclarationError, match="needs 251001 points"):
        Substrate(Polynomial(1000, 1.0), 0.1 * X, y).integral(LINES)
