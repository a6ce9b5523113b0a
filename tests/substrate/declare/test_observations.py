"""Derivatives, integrals and averages as data: the fit in 50 digits, and every observation left out."""

from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearOperator, Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Matern

derivative, value = LinearOperator.derivative, LinearOperator.value
KINDS = ["value", {0: 1}, "integral"]
CELLS = np.array([[[-2.0, 0.0]], [[0.0, 2.0]], [[-1.0, 0.5]]])


@pytest.fixture
def blocks():
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-2.0, 2.0, size=(6, 1)), rng.uniform(-2.0, 2.0, size=(5, 1))
    y, slopes = np.sin(2.0 * X[:, 0]) + 3.0, 2.0 * np.cos(2.0 * Z[:, 0])
    masses = 6.0 + 0.1 * rng.normal(size=3)
    return [X, Z, CELLS], [y + 0.1 * rng.normal(size=6), slopes + 0.1 * rng.normal(size=5), masses]


def ridge(s, weight=10.0):
    return 0.5 * s.squared_norm + 0.5 * weight * cp.sum_squares(s.e)


def exact_fit(places, targets, sigma, gamma, at):
    """f at points, from the bordered system of all functionals, by quadrature and linear algebra in 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        mp, s = mpmath.mpf, mpmath.mpf(sigma)

        def k(u, order=0):
            slope = {0: 1, 1: -2 * u / s**2, 2: 4 * u**2 / s**4 - 2 / s**2}[order]
            return slope * mpmath.exp(-((u / s) ** 2))

        def tail(u, antiderivative):  # of k, once and twice
            first = s * mpmath.sqrt(mpmath.pi) / 2 * mpmath.erf(u / s)
            return first if antiderivative == 1 else u * first + s**2 / 2 * mpmath.exp(-((u / s) ** 2))

        def product(left, right):
            (kind, a), (other, b) = left, right
            orders = {"value": 0, "slope": 1}
            if kind != "integral" and other != "integral":
                return k(a - b, orders[kind] + orders[other]) * (-1) ** orders[other]
            if kind == "integral" and other == "integral":
                (low, high), (start, end) = a, b
                return tail(high - start, 2) - tail(high - end, 2) - tail(low - start, 2) + tail(low - end, 2)
            if kind == "integral":
                return product(right, left)
            low, high = b
            if kind == "value":
                return tail(a - low, 1) - tail(a - high, 1)
            return k(a - low) - k(a - high)

        rows = [("value", mp(float(x))) for x in places[0][:, 0]]
        rows += [("slope", mp(float(x))) for x in places[1][:, 0]]
        rows += [("integral", (mp(float(low)), mp(float(high)))) for low, high in places[2][:, 0]]
        n = len(rows)
        masses = {"value": lambda _: mp(1), "slope": lambda _: mp(0), "integral": lambda ends: ends[1] - ends[0]}
        constants = [masses[kind](at) for kind, at in rows]
        M = mpmath.matrix(n + 1, n + 1)
        for i in range(n):
            M[i, n] = M[n, i] = constants[i]
            for j in range(n):
                M[i, j] = product(rows[i], rows[j]) + (mp(1) / gamma if i == j else 0)
        right = mpmath.matrix([mp(float(t)) for t in np.concatenate(targets)] + [0])
        a = mpmath.lu_solve(M, right)
        values = [sum(a[i] * product(("value", mp(float(x))), rows[i]) for i in range(n)) + a[n] for x in at]
        inverse = M**-1
        return np.array(list(map(float, values))), np.array([float(a[i] / inverse[i, i]) for i in range(n)])


def test_the_fit_and_what_is_left_out_against_50_digits(blocks):
    places, targets = blocks
    s = Substrate(RBF(1.0), places, targets, observed=KINDS)
    result = Machine(s, minimize=ridge(s)).solve()
    assert result.certificate.holds, str(result.certificate)
    values, residuals = exact_fit(places, targets, 1.0, 10.0, places[0][:, 0])
    accuracy = result.certificate["accuracy"].value
    assert np.sqrt(np.mean((result.predict(places[0]) - values) ** 2)) <= accuracy < 1e-5
    assert_allclose(result.leave_one_out(), residuals, rtol=1e-9, atol=1e-10)
    assert_allclose(result.e, s.e.value, atol=1e-10)
    fitted = [result.predict(places[0]), result.derivative(places[1], {0: 1}), result.integral(CELLS)]
    assert_allclose(result.e, np.concatenate(targets) - np.concatenate(fitted), atol=1e-10)


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_left_out_is_that_of_refits(blocks, bias):
    """With a parameter and unequal weights."""
    places, targets = blocks
    weights = np.linspace(0.5, 2.0, 14)

    def fit(kept, places, targets):
        s = Substrate(RBF(1.3), places, targets, observed=KINDS, bias=bias)
        C = cp.Parameter(nonneg=True, name="C")
        errors = cp.sum_squares(cp.multiply(np.sqrt(weights[kept]), s.e))
        return Machine(s, minimize=0.5 * s.squared_norm + C * errors / 2).solve(C=4.0)

    result = fit(np.full(14, True), places, targets)
    left_out = result.leave_one_out()
    edges = [0, 6, 11, 14]
    for i in (0, 4, 7, 12):
        kept = np.arange(14) != i
        parts = [kept[a:b] for a, b in pairwise(edges)]
        without = fit(
            kept,
            [p[k] for p, k in zip(places, parts, strict=True)],
            [t[k] for t, k in zip(targets, parts, strict=True)],
        )
        block = int(np.searchsorted(edges, i, side="right")) - 1
        at = places[block][i - edges[block]][None]
        found = without.integral(at)[0] if block == 2 else without.derivative(at, {0: 1} if block else {})[0]
        assert_allclose(left_out[i], np.concatenate(targets)[i] - found, atol=1e-7)


@pytest.mark.parametrize(
    "write",
    [
        lambda s, v: cp.sum_squares(cp.multiply(np.sqrt(v), s.e)),
        lambda s, v: cp.sum(cp.multiply(v, cp.square(s.e))),
        lambda s, v: v @ cp.square(s.y - s.f()),
        lambda s, v: 6.0 * cp.mean(cp.multiply(v, (s.f() - s.y) ** 2)) + 7.0,
        lambda s, v: cp.sum_squares(cp.multiply(np.sqrt(v), s.e)) / 2 + 0.5 * (v @ cp.square(s.e)),
    ],
)
def test_squares_are_known_however_they_are_written(blocks, write):
    (X, *_), (y, *_) = blocks
    v = np.linspace(0.5, 2.0, 6)
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=0.5 * s.squared_norm + 5.0 * write(s, v)).solve()
    K = np.block([[RBF(1.0)(X) + np.diag(0.1 / v), np.ones((6, 1))], [np.ones((1, 6)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(K)
    expected = (inverse @ np.append(y, 0.0))[:6] / np.diagonal(inverse)[:6]
    assert_allclose(result.leave_one_out(), expected, rtol=1e-8)


def test_conformal_intervals_beside_slopes_are_those_of_refits_for_every_target(blocks):
    """By brute force: the machine with the new row, for targets on a grid; only values are compared with it.

    :place [Vovk2005]_ section 2.3: the set of targets by studentised residuals is one interval
    """
    places, targets = blocks
    at = np.array([[0.4]])
    s = Substrate(RBF(1.0), places, targets, observed=KINDS)
    ((low, high),) = Machine(s, minimize=ridge(s)).solve().predict_interval(at, 0.7)
    rank = int(np.ceil(0.7 * 7))

    def is_inside(z):
        more = [np.vstack([places[0], at]), *places[1:]], [np.append(targets[0], z), *targets[1:]]
        s = Substrate(RBF(1.0), *more, observed=KINDS)
        result = Machine(s, minimize=ridge(s)).solve()
        errors = more[1][0] - result.predict(more[0][0])
        scores = np.abs(errors * result.leave_one_out()[:7])  # squares of studentised residuals, times a constant
        return int((scores[:6] < scores[6]).sum()) < rank

    width = high - low
    assert is_inside(low + 0.01 * width)
    assert is_inside(high - 0.01 * width)
    assert not is_inside(low - 0.01 * width)
    assert not is_inside(high + 0.01 * width)


def test_what_was_not_observed_is_refused(blocks):
    places, targets = blocks
    with pytest.raises(DeclarationError, match="observed is 'value', 'integral'"):
        Substrate(RBF(1.0), places[0], targets[0], observed="slope")
    with pytest.raises(DeclarationError, match="derivatives up to order 1 there, received order 2"):
        Substrate(Matern(1.0, 1.5), places[0], targets[0], observed={0: 2})
    with pytest.raises(DataError, match="X must be a list with one entry for each of the 3 kinds"):
        Substrate(RBF(1.0), places[:2], targets, observed=KINDS)
    with pytest.raises(DataError, match=r"y\[1\] must have one entry per observation: expected 5, received 4"):
        Substrate(RBF(1.0), places, [targets[0], targets[1][:4], targets[2]], observed=KINDS)
    with pytest.raises(DataError, match="expected 14, received 3"):
        Substrate(RBF(1.0), places, np.zeros(3), observed=KINDS)
    with pytest.raises(DataError, match="observations have targets"):
        Substrate(RBF(1.0), places, observed=KINDS)
    with pytest.raises(DataError, match="list of arrays of points"):
        Substrate(RBF(1.0), places[0], targets[0], observed="average")
    with pytest.raises(DataError, match="on the same columns"):
        Substrate(RBF(1.0), [places[0], np.zeros((2, 2))], [targets[0], [0.0, 1.0]], observed=["value", "value"])
    with pytest.raises(DeclarationError, match="observed= is for task='regression'"):
        Substrate(RBF(1.0), places[0], np.sign(targets[0]), "classification", observed="value")
    with pytest.raises(DeclarationError, match="empty list"):
        Substrate(RBF(1.0), [], [], observed=[])
    s = Substrate(RBF(1.0) + Linear(), places, targets, observed=KINDS)
    cases = [
        (ridge(s), [s.f(places[0]) >= 0.0], "has constraints"),
        (ridge(s) + cp.norm1(s.f()), [], "not made of w'w and of one square for each row"),
        (0.5 * s.squared_norm + cp.sum_squares(s.e[:5]), [], "not every error is in a square"),
        (0.5 * s.squared_norm + cp.sum_squares(s.e - cp.Variable(14, name="own")), [], "not made of w'w"),
    ]
    for objective, constraints, reason in cases:
        with pytest.raises(DeclarationError, match=reason):
            Machine(s, minimize=objective, subject_to=constraints).solve().leave_one_out()
    with pytest.raises(DeclarationError, match="method must be one of"):
        Machine(s, minimize=ridge(s)).solve().predict_interval(places[0], method="split")


MORE_SQUARES = {
    "at other points": lambda s: cp.sum_squares(s.f([[-0.3], [0.7]])),
    "slopes elsewhere": lambda s: 0.1 * cp.sum_squares(s.gradient(np.linspace(-2.0, 2.0, 5)[:, None], 0) - 1.0),
    "slopes at the rows": lambda s: 0.1 * cp.sum_squares(s.gradient(None, 0)),
    "the bias": lambda s: cp.sum_squares(s.b - 1.0),
    "the sum of the errors": lambda s: 5.0 * cp.square(cp.sum(s.e)),
    "differences of errors": lambda s: cp.sum_squares(cp.diff(s.e)),
    "errors in another order": lambda s: cp.sum_squares(s.e + s.e[::-1]),
    "values of f": lambda s: cp.sum_squares(s.f()),
    "values of f at two rows": lambda s: cp.sum_squares(s.f(s.X[:2])),
    "the errors, by hand": lambda s: cp.sum_squares(s.y[:3] - s.f(s.X[:3])),
    "the errors, by an operator": lambda s: cp.sum_squares(s.y[:3] - s.apply(value(), s.X[:3])),
    "a loss that is no square": lambda s: cp.sum(cp.huber(s.e, 0.1)),
}


def rows_and_targets():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(8, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=8)


@pytest.mark.parametrize("more", MORE_SQUARES)
def test_squares_of_more_than_single_errors_are_refused(more):
    X, y = rows_and_targets()
    s = Substrate(RBF(1.0), X, y)
    result = Machine(s, minimize=ridge(s) + MORE_SQUARES[more](s)).solve()
    for left_out in (result.leave_one_out, lambda: result.predict_interval(X)):
        with pytest.raises(DeclarationError, match="Refit without rows instead"):
            left_out()


@pytest.mark.parametrize("rows", [slice(0), slice(5), slice(None, None, -1)])
def test_a_left_out_prediction_does_not_know_its_target(rows):
    X, y = rows_and_targets()

    def left_out(targets):
        s = Substrate(RBF(1.0), X, targets)
        return targets - Machine(s, minimize=ridge(s) + cp.sum_squares(s.e[rows])).solve().leave_one_out()

    assert_allclose(left_out(y)[2], left_out(y + np.eye(8)[2])[2], atol=1e-8)
