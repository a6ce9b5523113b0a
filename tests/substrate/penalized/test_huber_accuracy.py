"""The bound of the Huber LS-SVM: true for right and for wrong coefficients, in both precisions."""

import numpy as np
import pytest

from substrate.certificates.tolerance import Tolerance
from substrate.gram import Gram
from substrate.kernels import RBF, Linear
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts
from substrate.least_squares.regularization import Regularization
from substrate.penalized.huber.accuracy import ABOUT_MEAN, HuberMachine, huber_accuracy
from substrate.penalized.huber.active_set import solve_huber


@pytest.mark.parametrize("size", [1e-9, 1e-4, 0.1])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_not_below_the_distance_from_the_solution(seed, size):
    rng = np.random.default_rng(seed)
    n, kernel, gamma = 30, [RBF(1.5), Linear()][seed % 2], 10.0 ** rng.uniform(-1.0, 3.0)
    X, v = rng.normal(size=(n, 2)), 10.0 ** rng.uniform(-1.0, 1.0, size=n)
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_t(1.5, size=n)
    K = kernel(X)
    solved = solve_huber(Gram.of(kernel, X), y, Regularization(gamma).ridge(v), 0.4)
    products = CarefulProducts(kernel, X, PlainProducts(K, kernel.rounding(X), True))

    def row(a, b, tolerance):
        machine = HuberMachine(y, gamma, v, 0.4, a, b, K @ a + b, K.diagonal().copy())
        return huber_accuracy(machine, products, Tolerance.of(machine.y, machine.weights, tolerance))[0]

    best = row(solved.support_values, float(solved.bias), 1e-6)
    assert best.passes
    a = solved.support_values * (1.0 + size * rng.normal(size=n))
    b = float(solved.bias) + size * rng.normal()
    moved = K @ (a - solved.support_values) + b - float(solved.bias)
    for tolerance in (1e-6, 1e300):  # one that needs doubled precision, one that does not
        found = row(a, b, tolerance)
        apart = moved - v @ moved / v.sum() if ABOUT_MEAN in (found.about, best.about) else moved
        assert float(np.sqrt(v @ apart**2 / v.sum())) - best.value <= found.value < np.inf
