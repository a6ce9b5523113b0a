"""Integrals of f against measures: points, lengths, products and sums; sums in the place of integrals, with a bound."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate import LinearOperator, Machine, Measure, Substrate, load_result
from substrate.composition import gauss_rules
from substrate.composition.linear_operators import MeasureIntegral, add_lengths, inner_product_matrix
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed

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
@pytest.mark.some_cases(2)
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
    functional = MeasureIntegral.of(kernel, [LINES])
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


def test_many_terms_are_read_in_parts(plane):
    rng = np.random.default_rng(3)
    kernel, measures = RBF(1.0), [Measure.of_points(rng.normal(size=(m, 2))) for m in (900, 5, 1500, 40, 1990)]
    functional = MeasureIntegral.of(kernel, measures)
    numbers = np.arange(5.0)[:, None]
    assert [part.stop - part.start for part in functional.split(numbers)] == [2, 2, 1]
    found = inner_product_matrix(kernel, functional, numbers, functional, numbers)
    for i in (0, 2, 4):
        expected = kernel(measures[i].boxes[..., 0], measures[1].boxes[..., 0]).mean()
        assert_allclose(found[i, 1], expected, rtol=1e-12)
    assert_allclose(found, found.T, rtol=1e-12)


def test_a_sum_in_the_place_of_an_integral_is_bounded_on_the_certificate(plane):
    """A Matern kernel of two columns: against a rule with twice as many points in each of them."""
    X, y = plane
    box = np.array([[0.0, 1.0], [-1.0, 1.0]])
    s = Substrate(Matern(1.5, 2.5), X, y)
    total = s.integral(box)
    result = Machine(s, minimize=ridge(s), subject_to=[total == 4.0]).solve()
    (fact,) = [fact for name, fact in result.certificate.record if name == "quadrature"]
    bound = float(fact.split(" = ")[1].split()[0])
    axes = [low + (high - low) * (np.arange(88) + 0.5) / 88 for low, high in box]
    fine = 2.0 * result.predict(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)).mean()
    assert 0.0 < abs(total.value[0] - fine) <= bound < 1e-2
    (radius,) = result.integral_radius(box)
    assert abs(total.value[0] - fine) <= radius <= bound
    assert result.integral_radius(Measure.of_points(X)) == 0.0
    assert result.norm * 1e-5 < bound
    assert "quadrature" not in str(Machine(s, minimize=ridge(s)).solve().certificate)


def test_a_precomputed_matrix_has_no_points_to_read_at(plane):
    X, y = plane
    s = Substrate(Precomputed(), RBF(1.0)(X), y)
    result = Machine(s, minimize=ridge(s)).solve()
    value = LinearOperator.value(at=lambda points: points)
    for read in (
        lambda: s.apply(value),
        lambda: s.integral(Measure.of_points(RBF(1.0)(X))),
        lambda: result.apply(value, RBF(1.0)(X)),
        lambda: Substrate(Precomputed(), [RBF(1.0)(X)], y[:1], observed="average"),
    ):
        with pytest.raises(DeclarationError, match="a precomputed matrix has no points at which"):
            read()


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
    with pytest.raises(DeclarationError, match="needs 501"):
        Substrate(Polynomial(1000, 1.0), 0.1 * X, y).integral(LINES)


@pytest.mark.parametrize("box", [[[0.0, 1.0]], [[-3.0, 2.0]]], ids=str)
def test_a_smooth_product_on_the_same_column_is_integrated_by_a_rule_of_gauss(box, tmp_path):
    """The integral of the solution in 30 digits is within the radius that is stated, far below the tolerance."""
    X = np.linspace(-1.0, 2.0, 9)[:, None]
    s = Substrate(RBF(1.25) * Polynomial(3, 1.0), X, np.sin(2.0 * X[:, 0]))
    total = s.integral(box)
    result = Machine(s, minimize=ridge(s), subject_to=[total == 1.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    assert any(name == "quadrature" for name, _ in result.certificate.record)
    (further,) = result.further
    (rule,) = further.operator.measures
    places = [*X[:, 0], *rule.boxes[:, 0, 0]]
    coefficients = [*result.alpha, *(float(further.coefficients[0]) * rule.weights)]
    with mpmath.workdps(30):

        def f(x):
            terms = [
                mpmath.mpf(c) * mpmath.exp(-(((x - p) / mpmath.mpf(1.25)) ** 2)) * (x * p + 1) ** 3
                for p, c in zip(map(mpmath.mpf, places), coefficients, strict=True)
            ]
            return mpmath.fsum(terms) + mpmath.mpf(float(result.b))

        exact = mpmath.quad(f, [box[0][0], 0.5, box[0][1]])
    (radius,) = result.integral_radius(box)
    assert 0.0 < radius < 1e-8
    assert abs(result.integral(box)[0] - exact) <= radius
    assert abs(total.value[0] - 1.0) < 1e-9
    result.save(tmp_path / "result.npz")
    assert_array_equal(load_result(tmp_path / "result.npz").integral(box), result.integral(box))


@pytest.mark.parametrize("d", [2, 3])
def test_a_rule_of_gauss_on_several_columns_is_that_of_predictions(d):
    X = np.random.default_rng(2).uniform(-1.0, 2.0, size=(20, d))
    s = Substrate(2.0 * RBF(1.5) * Polynomial(2, 1.0) + Linear(), X, np.sin(2.0 * X[:, 0]) + X[:, 1])
    box = np.array([[-1.0, 1.0], [0.0, 0.5], [0.0, 1.0]][:d])
    result = Machine(s, minimize=ridge(s), subject_to=[s.integral(box) == 1.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    axes = [low + 0.5 * (high - low) * (nodes + 1.0) for low, high in box]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    masses = np.prod(np.stack(np.meshgrid(*d * [weights], indexing="ij")), axis=0).ravel()
    fine = float(np.prod(0.5 * (box[:, 1] - box[:, 0])) * (masses @ result.predict(points)))
    assert_allclose([fine, result.integral(box)[0]], 1.0, rtol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(0.7) * Polynomial(3, 1.0), RBF(0.7) * Linear() + RBF(0.3) * RBF(0.4)], ids=repr)
@pytest.mark.parametrize("missed", [1.0, 1e-2, 1e-4])
def test_what_a_coarse_rule_of_gauss_misses_is_within_its_radius(monkeypatch, kernel, missed):
    monkeypatch.setattr(gauss_rules, "_MISSED", missed)
    box, x = [[-1.0, 2.0]], np.linspace(-2.0, 3.0, 41)[:, None]
    functional = MeasureIntegral.of(kernel, [Measure.of_box(box)])
    found = inner_product_matrix(kernel, functional, np.zeros((1, 1)), LinearOperator.value(), x)[0]
    nodes, weights = np.polynomial.legendre.leggauss(100)
    exact = 1.5 * kernel(x, 0.5 + 1.5 * nodes[:, None]) @ weights
    misses = np.abs(found - exact) / np.sqrt(kernel.diag(x))
    assert 1e-4 * functional.radii[0] < misses.max() <= functional.radii[0]


def test_no_rule_of_gauss_is_claimed_for_rough_kernels_and_sharp_widths(plane):
    X, y = plane
    box = [[0.0, 1.0], [0.0, 1.0]]
    for kernel in (Laplacian(1.0) * Linear(), Matern(1.0, 2.5) * Polynomial(2, 1.0)):
        with pytest.raises(DeclarationError, match=r"s\.integral\(Measure\.of_points\(points, weights\)\)"):
            Substrate(kernel, X, y).integral(box)
    with pytest.raises(DeclarationError, match="more than 4096 points"):
        Substrate(RBF(0.01) * Linear(), X, y).integral(box)
