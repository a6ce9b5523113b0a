"""Operators by their action on the kernel: a blur, as a term, a constraint and as data."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import KernelAction, LinearOperator, Machine, Measure, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Precomputed

SIGMA, WIDTH = 1.0, 0.4


def bell(width, rows, others):
    return np.exp(-((rows - others.T) ** 2) / width) / np.sqrt(width)


BLUR = KernelAction(
    once=lambda rows, points: SIGMA * bell(SIGMA**2 + 2.0 * WIDTH**2, rows, points),
    twice=lambda rows, others: SIGMA * bell(SIGMA**2 + 4.0 * WIDTH**2, rows, others),
    of_one=1.0,
)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def blur(predict, rows):
    """The mean under the bell by a rule of Gauss."""
    points = rows + WIDTH * NODES
    return predict(points.reshape(-1, 1)).reshape(points.shape) @ WEIGHTS / WEIGHTS.sum()


@pytest.fixture
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, size=(12, 1))
    return X, np.sin(2.0 * X[:, 0]) + 2.0


@pytest.mark.parametrize("bias", [True, False])
def test_its_values_are_those_of_predictions(line, bias):
    X, y = line
    rows = np.array([[-1.0], [0.3], [1.7]])
    s = Substrate(RBF(SIGMA), X, y, bias=bias)
    blurred = s.apply(BLUR, rows)
    rules = [blurred >= 2.2, s.apply(BLUR, X[:2]) <= 2.8]
    result = Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=rules).solve()
    assert result.certificate.holds, str(result.certificate)
    assert blurred.value.min() >= 2.2 - 1e-6
    assert_allclose(blurred.value, blur(result.predict, rows), atol=1e-7)
    assert_allclose(result.apply(BLUR, rows), blurred.value, atol=1e-9)


def test_it_is_data_with_its_exact_leave_one_out(line):
    """Blurred measurements beside two values, against the closed form of the bordered system."""
    X, y = line
    targets = [[2.0, 2.5], y]
    ends = np.array([[-2.0], [2.0]])
    s = Substrate(RBF(SIGMA), [ends, X], targets, observed=["value", BLUR])
    result = Machine(s, minimize=0.5 * s.squared_norm + 50.0 * cp.sum_squares(s.e)).solve()
    assert result.certificate.holds, str(result.certificate)
    K = np.block([[RBF(SIGMA)(ends), BLUR.once(X, ends).T], [BLUR.once(X, ends), BLUR.twice(X, X)]])
    system = np.block([[K + np.eye(14) / 100.0, np.ones((14, 1))], [np.ones((1, 14)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(system)
    a = inverse @ np.append(np.concatenate(targets), 0.0)
    assert_allclose(result.leave_one_out(), a[:14] / np.diagonal(inverse)[:14], rtol=1e-7)
    assert_allclose(result.e, a[:14] / 100.0, atol=1e-7)


def test_it_is_known_beside_values_and_sums_of_values(line):
    X, y = line
    s = Substrate(RBF(SIGMA), X, y)
    step = LinearOperator.value(at=lambda points: points + 0.5) - LinearOperator.value()
    mean = s.integral(Measure.of_points(X))
    rules = [s.apply(BLUR, X[:3]) == 2.0, s.apply(step, X[:2]) <= 0.1, mean == 2.0]
    result = Machine(s, minimize=0.5 * s.squared_norm + 5.0 * cp.sum_squares(s.e), subject_to=rules).solve()
    assert result.certificate.holds, str(result.certificate)
    assert_allclose(blur(result.predict, X[:3]), 2.0, atol=1e-6)


def test_what_is_not_known_of_it_is_refused(line):
    X, y = line
    s = Substrate(RBF(SIGMA), X, y)
    cost = 0.5 * s.squared_norm + cp.sum_squares(s.e)
    for other in (s.derivative(X[:2], {0: 1}), s.integral([[0.0, 1.0]])):
        with pytest.raises(DeclarationError, match="known together with values and with itself"):
            Machine(s, minimize=cost, subject_to=[s.apply(BLUR, X[:2]) == 0.0, other <= 9.0]).solve()
    with pytest.raises(DeclarationError, match="once and twice are functions"):
        KernelAction(once=1.0, twice=2.0)
    with pytest.raises(DeclarationError, match="a precomputed matrix has no points"):
        Substrate(Precomputed(), RBF(1.0)(X), y).apply(BLUR, X)
    wrong = KernelAction(once=BLUR.once, twice=lambda rows, others: np.zeros(3))
    with pytest.raises(DataError, match="one number for every pair"):
        Machine(s, minimize=cost + cp.sum_squares(s.apply(wrong, X[:2]))).solve()
    unknown = KernelAction(once=BLUR.once, twice=lambda rows, others: np.full((len(rows), len(others)), np.nan))
    with pytest.raises(DataError, match="NaN or infinity"):
        Machine(s, minimize=cost + cp.sum_squares(s.apply(unknown, X[:2]))).solve()
