"""The bound of machines with a norm as penalty: true against hundreds of digits, in both arithmetics."""

import numpy as np
import pytest
from exact_l1 import exact_l1_distance

from substrate.certificate import Tolerance
from substrate.fits.l1 import solve_l1, zeta_max
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.penalties import Columns, OneNorm, accuracy_of

TOLERANCE = Tolerance(1e-6, 1.0, 0.0)


def bound_of(kernel, X, y, zeta, a, fitted):
    columns = Columns.of_kernel(kernel, X, kernel(X))
    return accuracy_of(columns, OneNorm(zeta), y, a, fitted, TOLERANCE).value


@pytest.mark.parametrize("seed", range(24))
def test_certificate_and_proof_bound_the_exact_distance(seed):
    """At the optimum or near it, in wild units."""
    pytest.importorskip("flint")
    from substrate.bounds.proof import prove_l1

    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 25)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([0, -2, 2]) + rng.choice([0.0, 100.0])
    kernel = (RBF(3.0), Linear(), Polynomial(2), Laplacian(2.0))[seed % 4]
    y = (np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=n)) * 10.0 ** rng.choice([0, 5, -5]) + rng.choice([0.0, 1e6])
    zeta = zeta_max(kernel(X), y) * 10.0 ** rng.uniform(-4, 0)
    best = solve_l1(kernel(X), y, zeta)
    a = best.coefficients * (1.0 + rng.choice([0.0, 0.0, 1e-10, 1e-3]) * rng.normal(size=n))
    fitted = kernel.expansion_values(X, a, best.bias, X)
    true = exact_l1_distance(kernel, X, y, zeta, best.coefficients, fitted)
    if true is None:
        pytest.skip("the support of the solver is not optimal")
    assert bound_of(kernel, X, y, zeta, a, fitted) >= true * (1.0 - 1e-12)
    proof = prove_l1(kernel, X, X, y, OneNorm(zeta), a, fitted, np.ones(n), TOLERANCE)
    assert proof.accuracy >= true * (1.0 - 1e-12)


def test_equal_points_share_their_coefficient_at_no_cost():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 2))
    X, y = np.concatenate([X, X]), np.tile(np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=25), 2)
    kernel = RBF(1.0)
    best = solve_l1(kernel(X), y, 0.3)
    halved = 0.5 * (best.coefficients + np.roll(best.coefficients, 25))
    assert bound_of(kernel, X, y, 0.3, halved, kernel(X) @ halved + best.bias) < 1e-7
    opposite = np.concatenate([2.0 * halved[:25], -halved[25:]])
    assert bound_of(kernel, X, y, 0.3, opposite, kernel(X) @ opposite + best.bias) > 0.01


def test_a_column_that_should_be_in_use_is_counted():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 2))
    y, kernel = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=25), RBF(1.0)
    best = solve_l1(kernel(X), y, 0.3)
    (used,) = np.nonzero(best.coefficients)
    others = np.delete(np.arange(25), used[np.abs(best.coefficients[used]).argmin()])
    fewer = solve_l1(kernel(X)[:, others], y, 0.3)
    a = np.zeros(25)
    a[others] = fewer.coefficients
    fitted, right = kernel(X) @ a + fewer.bias, kernel(X) @ best.coefficients + best.bias
    assert bound_of(kernel, X, y, 0.3, a, fitted) >= np.sqrt(np.mean((fitted - right) ** 2)) > 1e-5
