"""Shapes that hold everywhere: proofs against extended precision, brackets against dense grids, and refusals."""

import warnings
from itertools import product
from types import SimpleNamespace

import cvxpy as cp
import mpmath
import numpy as np
import pytest

from substrate import Everywhere, Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial
from substrate.shapes.shape_oracle import ExpandedFunction, bound_derivative

EVERYWHERE = Everywhere()
DISTANCE = "distance from the optimum over all functions"


def rows(n=40, d=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, d))
    y = np.tanh(2.0 * (X[:, 0] - 1.0)) + 0.3 * rng.standard_normal(n) + (0.1 * X[:, -1] if d > 1 else 0.0)
    return X, y


def squares(s, gamma=10.0):
    return 0.5 * gamma * cp.sum_squares(s.e) + 0.5 * s.squared_norm


def shaped_values(result, constraint, points):
    return constraint.bind([ExpandedFunction.of(e) for e in result.expansions]).values(points)


# (kernel, columns, the constraints of a substrate)
CASES = {
    "slope": (RBF(1.0), 1, lambda s: [s.gradient(EVERYWHERE, 0) >= 0]),
    "slope, Matern 5/2": (Matern(1.0, nu=2.5), 1, lambda s: [s.gradient(EVERYWHERE, 0) >= 0]),
    "curvature": (RBF(1.5), 1, lambda s: [s.derivative(EVERYWHERE, {0: 2}) <= 0]),
    "band": (RBF(1.0), 1, lambda s: [s.f(EVERYWHERE) >= -0.7, s.f(EVERYWHERE) <= 0.8]),
    "values, Matern 3/2": (Matern(1.0, nu=1.5), 1, lambda s: [s.f(EVERYWHERE) >= -0.7]),
    "polynomial": (Polynomial(3), 1, lambda s: [s.gradient(EVERYWHERE, 0) >= 0]),
    "sum": (RBF(1.0) + Linear(), 1, lambda s: [s.gradient(EVERYWHERE, 0) >= 0.01]),
    "additive": (Componentwise(RBF(1.5)), 5, lambda s: [s.gradient(EVERYWHERE, 0) >= 0, s.f(EVERYWHERE) >= -1.5]),
    "component": (Componentwise(RBF(1.5)), 2, lambda s: [s.component(0, EVERYWHERE) <= 0.6]),
}


#: Kernels of which cells prove so little that the optimum is not bracketed in reasonable time; the shape is proved.
ROUGH = ("slope, Matern 5/2", "values, Matern 3/2")


@pytest.mark.parametrize("case", CASES)
def test_the_shape_holds_at_random_points_and_the_bracket_is_narrow(case):
    """No violation at 10,000 random points, and a value that is bracketed to 1e-4."""
    kernel, d, shapes = CASES[case]
    X, y = rows(30, d)
    s = Substrate(kernel, X, y)
    constraints = shapes(s)
    result = Machine(s, minimize=squares(s), subject_to=constraints).solve(time_limit=60.0)
    if case not in ROUGH:
        assert result.certificate.holds, result.certificate
    assert result.certificate.holds == (result.certificate[DISTANCE].relative <= 1e-4)
    assert result.lower_bound <= result.objective
    points = np.random.default_rng(1).uniform(X.min(axis=0), X.max(axis=0), (10_000, d))
    for constraint, report in zip(constraints, result.shapes, strict=True):
        values = shaped_values(result, constraint, points)
        assert report.slack >= 0.0
        assert values.min() >= constraint.bound + report.slack - 1e-9
    value = 5.0 * np.sum((y - result.predict(X)) ** 2) + 0.5 * result.squared_norm
    assert abs(value - result.objective) <= 1e-9 * result.objective


def test_the_bracket_contains_the_optimum():
    """Constraints on a grid give a value below v; with a margin that the oracle proves, one above the lower bound."""
    X, y = rows(30)
    s = Substrate(RBF(1.0), X, y)
    shape = s.gradient(EVERYWHERE, 0) >= 0
    result = Machine(s, minimize=squares(s), subject_to=[shape]).solve()
    grid = np.linspace(X.min(), X.max(), 100)[:, None]
    plain, inside = (
        Machine(s, minimize=squares(s), subject_to=[s.gradient(grid, 0) >= m]).solve() for m in (0.0, 0.01)
    )
    proof = shape.bind([ExpandedFunction.of(inside.expansions[0])]).proof(1e-4, 0.0)
    assert proof.lower >= 0.0
    assert plain.objective <= result.objective * (1.0 + 1e-9)
    assert result.lower_bound <= inside.objective * (1.0 + 1e-9)
    assert result.lower_bound >= plain.objective * (1.0 - 1e-5)


def test_quantiles_never_cross():
    """The difference of two outputs is not negative anywhere; without squares, values are bounded about their mean."""
    X, y = rows(30, seed=2)
    low, high = (Substrate(RBF(1.0), X, y, name=name) for name in ("low", "high"))
    loss = sum(20.0 * cp.sum(cp.maximum(q * s.e, (q - 1.0) * s.e)) for q, s in ((0.45, low), (0.55, high)))
    shape = high.f(EVERYWHERE) - low.f(EVERYWHERE) >= 0
    penalty = 0.5 * low.squared_norm + 0.5 * high.squared_norm
    result = Machine(low, high, minimize=loss + penalty, subject_to=[shape]).solve()
    assert result.certificate.holds
    assert "about their mean" in result.certificate.promise
    values = result.predict(np.linspace(X.min(), X.max(), 5000)[:, None])
    assert (values["high"] - values["low"]).min() >= 0.0
    assert shape.description == "high - low >= 0"


@pytest.mark.parametrize(("d", "n", "width", "noise"), [(2, 25, 1.5, 0.2), (3, 10, 3.0, 0.4)])
def test_jointly_convex(d, n, width, noise):
    """The smallest eigenvalue of the Hessian is not negative anywhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = 0.3 * np.square(X).sum(axis=1) + noise * rng.standard_normal(n)
    s = Substrate(RBF(width), X, y)
    shape = s.hessian(EVERYWHERE) >= 0
    result = Machine(s, minimize=squares(s), subject_to=[shape]).solve()
    assert result.certificate.holds, result.certificate
    points = rng.uniform(X.min(axis=0), X.max(axis=0), (2000, d))
    entries = {key: result.derivative(points, orders) for key, orders in _second(d).items()}
    H = np.array([[entries[min(i, j), max(i, j)] for j in range(d)] for i in range(d)])
    assert np.linalg.eigvalsh(np.moveaxis(H, 2, 0)).min() >= -1e-9


def _second(d):
    pairs = [(i, j) for i, j in product(range(d), repeat=2) if i <= j]
    return {(i, j): {i: 2} if i == j else {i: 1, j: 1} for i, j in pairs}


def expanded(s, coefficients, bias):
    """Return the function with these coefficients of the training rows."""
    return ExpandedFunction.of(SimpleNamespace(substrate=s, coefficients=coefficients, further=(), b=bias))


KERNELS = [RBF(0.7), Matern(0.8, nu=2.5), Matern(0.8, nu=1.5), Polynomial(3), RBF(1.0) * Linear(), RBF(1.0) + Linear()]


@pytest.mark.parametrize(
    ("kernel", "order"), [(k, order) for k in KERNELS for order in (0, 1) if k != Matern(0.8, nu=1.5) or not order]
)
def test_the_lower_bound_is_below_the_function_in_extended_precision(kernel, order):
    """Random expansions with large coefficients: no value in 50 digits is below the bound, and the gap is met."""
    rng = np.random.default_rng(order)
    X = rng.uniform(-1.0, 1.0, (12, 1))
    a = 1e3 * rng.standard_normal(12)
    s = Substrate(kernel, X, np.zeros(12))
    shape = s.derivative(EVERYWHERE, {0: order}) >= 0 if order else s.f(EVERYWHERE) >= 0
    bound = shape.bind([expanded(s, a, 0.25)])
    grid = np.linspace(X.min(), X.max(), 2001)[:, None]
    values = bound.values(grid)
    scale = np.ptp(values)
    gap = 1e-4 * scale
    proof = bound.proof(gap)
    assert proof.value - proof.lower <= 1.01 * gap or proof.stop
    assert proof.lower <= values.min() + 1e-9 * scale

    def exact(x, z):
        return mpmath.diff(lambda t: _formula(kernel, t, z), x, order) if order else _formula(kernel, x, z)

    with mpmath.workdps(50):
        for x in grid[np.argsort(values)[:3], 0]:
            total = sum(
                mpmath.mpf(c) * exact(mpmath.mpf(float(x)), mpmath.mpf(float(z)))
                for c, z in zip(a, X[:, 0], strict=True)
            )
            assert proof.lower <= total + (0.25 if not order else 0.0)


def _formula(kernel, x, z):
    if isinstance(kernel, RBF):
        return mpmath.exp(-((x - z) ** 2) / mpmath.mpf(kernel.sigma) ** 2)
    if isinstance(kernel, Matern):
        s = mpmath.sqrt(2 * mpmath.mpf(kernel.nu)) * abs(x - z) / mpmath.mpf(kernel.sigma)
        factor = {1.5: 1 + s, 2.5: 1 + s + s * s / 3, 3.5: 1 + s + 2 * s * s / 5 + s**3 / 15}[kernel.nu]
        return factor * mpmath.exp(-s)
    if isinstance(kernel, Polynomial):
        return (x * z + mpmath.mpf(kernel.offset)) ** kernel.degree
    if isinstance(kernel, Linear):
        return x * z
    left, right = (_formula(side, x, z) for side in (kernel.left, kernel.right))
    return left * right if type(kernel).__name__ == "Product" else left + right


@pytest.mark.parametrize("kernel", [RBF(0.7), Matern(0.8, nu=3.5), Polynomial(3)], ids=repr)
def test_the_rounding_of_values_is_counted(kernel):
    """Values and derivatives of expansions that cancel, at points with an offset, in 50 digits."""
    rng = np.random.default_rng(7)
    X = 20.0 + rng.uniform(-1.0, 1.0, (10, 1))
    a = 1e5 * rng.standard_normal(10)
    s = Substrate(kernel, X, np.zeros(10))
    points = 20.0 + rng.uniform(-1.0, 1.0, (4, 1))
    target = (s.f(EVERYWHERE) >= 0).bind([expanded(s, a, 0.0)]).targets[0]
    largest = 0.0
    for order in range(3):
        more = {0: order} if order else {}
        values, radii = (np.ravel(found) for found in target.derivatives(points, [more])[0])
        with mpmath.workdps(50):
            for x, value, radius in zip(points[:, 0], values, radii, strict=True):
                at = mpmath.mpf(float(x))
                exact = sum(
                    mpmath.mpf(float(c))
                    * mpmath.diff(lambda t, z=z: _formula(kernel, t, mpmath.mpf(float(z))), at, order)
                    for c, z in zip(a, X[:, 0], strict=True)
                )
                assert abs(exact - mpmath.mpf(float(value))) <= radius
                largest = max(largest, float(abs(exact - mpmath.mpf(float(value)))))
    assert largest > 0.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_norms_of_derivatives_in_cells_are_below_their_bounds(kernel):
    """||D phi(x)|| in a cell."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        centre, half = rng.uniform(-1.0, 1.0), rng.uniform(0.001, 0.5)
        points = np.linspace(centre - half, centre + half, 21)[:, None]
        for orders in ({}, {0: 1}):
            values = kernel.derivative if orders else lambda X, Z, a, b: kernel(X, Z)
            squares_at = np.diagonal(values(points, points, orders, orders))
            assert np.sqrt(squares_at).max() <= bound_derivative(kernel, orders, points[:1], points[-1:])[0]


def test_more_than_three_columns_at_once_are_refused():
    """With the reason and the way out, before a solve."""
    X, y = rows(20, 4)
    s = Substrate(RBF(1.0), X, y)
    with pytest.raises(DeclarationError, match=r"4 columns at once.*Componentwise"):
        Machine(s, minimize=squares(s), subject_to=[s.gradient(EVERYWHERE, 0) >= 0])
    fixed = Everywhere({2: (1.0, 1.0), 3: (2.0, 2.0)})
    (s.gradient(fixed, 0) >= 0).refuse()  # two columns move


def test_what_cannot_be_said_is_refused():
    """Rough kernels, machines without a norm, other comparisons."""
    X, y = rows(20)
    s = Substrate(Laplacian(1.0), X, y)
    with pytest.raises(DeclarationError, match="no derivatives"):
        s.gradient(EVERYWHERE, 0)
    with pytest.raises(DeclarationError, match=r"values .* at points only"):
        Machine(s, minimize=squares(s), subject_to=[s.f(EVERYWHERE) >= 0.0])
    s = Substrate(Matern(1.0, nu=2.5), X, y)
    with pytest.raises(DeclarationError, match="can be proved at points only"):
        Machine(s, minimize=squares(s), subject_to=[s.derivative(EVERYWHERE, {0: 2}) >= 0])
    s = Substrate(RBF(1.0), X, y)
    with pytest.raises(DeclarationError, match="needs the norm of w"):
        Machine(s, minimize=cp.sum_squares(s.e), subject_to=[s.f(EVERYWHERE) >= 0])
    for comparison in (
        lambda: s.f(EVERYWHERE) == 0,
        lambda: s.f(EVERYWHERE) >= s.b,
        lambda: bool(s.f(EVERYWHERE) >= 0),
    ):
        with pytest.raises(DeclarationError):
            comparison()
    with pytest.raises(DataError, match="lower <= upper"):
        Everywhere([[1.0, 0.0]])


def test_outside_the_box_there_is_a_warning_once_and_names_of_columns_are_known():
    """Nothing is promised there."""
    pandas = pytest.importorskip("pandas")
    X, y = rows(30)
    frame = pandas.DataFrame({"price": X[:, 0]})
    s = Substrate(RBF(1.0), frame, -y)
    shape = s.gradient(Everywhere({"price": (0.0, 4.0)}), "price") <= 0
    assert shape.description == "d f/d price <= 0"
    result = Machine(s, minimize=squares(s), subject_to=[shape]).solve()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.predict(np.array([[2.0]]))
    with pytest.warns(UserWarning, match="outside the box"):
        result.predict(np.array([[5.0]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result.predict(np.array([[5.0]]))


COUNTS = np.array([2, 1, 0, 0, 3, 5, 0, 2, 4, 2, 2, 1, 4, 1, 2])
LABELS = np.where(np.arange(15) < 7, -1.0, 1.0)
WITHOUT_TARGETS = {
    "squares": lambda f: cp.sum_squares(LABELS - f),
    "hinge": lambda f: cp.sum(cp.pos(1.0 - cp.multiply(LABELS, f))),
    "logistic": lambda f: cp.sum(cp.logistic(-cp.multiply(LABELS, f))),
    "Poisson": lambda f: cp.sum(cp.exp(f) - cp.multiply(COUNTS, f)),
    "density": lambda f: -cp.sum(cp.log(f)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", WITHOUT_TARGETS)
def test_shapes_of_substrates_without_targets(loss):
    """Against the machine with the shape at many points, whose optimum is lower, by little."""
    X = np.sort(np.random.default_rng(0).normal(size=(15, 1)), axis=0)
    grid, results = np.linspace(X.min(), X.max(), 81)[:, None], []
    for place in (Everywhere(), grid):
        s = Substrate(RBF(1.0), X)
        shape = s.f(place) >= 0.0 if loss == "density" else s.gradient(place, 0) >= 0.0
        rules = [shape, s.integral([[-3.0, 3.0]]) == 1.0] if loss == "density" else [shape]
        objective = 0.5 * s.squared_norm + WITHOUT_TARGETS[loss](s.f())
        results.append(Machine(s, minimize=objective, subject_to=rules).solve())
    shaped, at_points = results
    fine = np.linspace(X.min(), X.max(), 1001)[:, None]
    assert (shaped.predict(fine) if loss == "density" else shaped.derivative(fine, {0: 1})).min() >= 0.0
    assert shaped.lower_bound <= shaped.objective
    assert at_points.objective <= shaped.objective + 1e-6 * abs(shaped.objective)
    difference = shaped.predict(X) - at_points.predict(X)
    difference -= difference.mean() * ("about their mean" in shaped.certificate.promise)
    assert np.sqrt(np.mean(difference**2)) <= shaped.certificate.accuracy + 1e-3
    assert shaped.certificate.holds, str(shaped.certificate)
