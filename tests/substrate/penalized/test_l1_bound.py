"""The bound of the L1 substrates, by one formula for every representation and arithmetic: true, and hardly more."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from problems import SparseL1SubstrateRegressor
from substrate.certificates.enclosed import Double
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import RBF, Laplacian, Linear, Polynomial
from substrate.least_squares.kernel_products import CarefulProducts, PlainProducts, expansion_values
from substrate.penalized.l1.accuracy import ComputedColumns, DualPoint, SparseAnswer, bound_by_duality, l1_accuracy
from substrate.penalized.l1.active_set import solve_l1, zeta_max
from substrate.reduced import Basis
from tests.oracles.exact_l1 import exact_l1_distance
from tests.oracles.sampled_cases import first

KERNEL, ZETA = RBF(1.0), 0.3


@pytest.fixture
def solved():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(25, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=25)
    return X, y, solve_l1(KERNEL(X), y, ZETA).coefficients


def bound_of(X, y, a):
    """The bound on the distance at coefficients that sum to zero and errors that are known exactly."""
    K = KERNEL(X)
    e = y - K @ a
    e -= e.mean()
    plain = PlainProducts(K, 0.0, True, X)
    point = DualPoint(Double(a), Double(K @ e), Double(float(np.linalg.norm(e))), Double(0.0), ZETA)
    return bound_by_duality(point, ComputedColumns(plain, plain)).upper()


def values(X, a):
    f = KERNEL(X) @ a
    return f - f.mean()


def test_coefficients_that_were_moved_are_as_far_as_they_were_moved(solved):
    X, y, a = solved
    moved = a.copy()
    (used,) = np.nonzero(a)
    moved[used[:2]] += [1e-4, -1e-4]
    distance = np.linalg.norm(values(X, moved) - values(X, a))
    assert_allclose(bound_of(X, y, moved), distance, rtol=0.02)
    assert bound_of(X, y, a) < 1e-10


def test_a_column_that_should_be_in_use_is_counted(solved):
    X, y, a = solved
    (used,) = np.nonzero(a)
    weakest = used[np.abs(a[used]).argmin()]
    others = np.delete(np.arange(len(y)), weakest)
    without = np.zeros_like(a)
    # all errors, and all columns but one
    without[others] = solve_l1(KERNEL(X)[:, others], y, ZETA).coefficients
    distance = np.linalg.norm(values(X, without) - values(X, a))
    assert distance > 1e-4
    assert bound_of(X, y, without) >= distance


def test_equal_points_share_their_coefficient_at_no_cost(solved):
    X, y, _ = solved
    X, y = np.concatenate([X, X]), np.concatenate([y, y])
    a = solve_l1(KERNEL(X), y, ZETA).coefficients
    halved = 0.5 * (a + np.roll(a, len(y) // 2))
    assert np.count_nonzero(halved) > np.unique(X[halved != 0.0], axis=0).shape[0]
    assert bound_of(X, y, halved) < 1e-10


def test_equal_points_with_coefficients_of_both_signs_have_no_step(solved):
    X, y, a = solved
    X, y, twice = np.concatenate([X, X]), np.concatenate([y, y]), np.concatenate([2.0 * a, -a])
    assert bound_of(X, y, twice) > 0.1


def test_as_many_columns_as_rows_have_a_step_where_nu_is_free():
    X = np.random.default_rng(0).normal(size=(12, 2))
    y = np.sin(3.0 * X[:, 0])
    zeta = 1e-6 * zeta_max(KERNEL(X), y)
    best = solve_l1(KERNEL(X), y, zeta)
    assert best.coefficients.all()
    machine = SparseAnswer(y, zeta, best.coefficients, best.bias, KERNEL(X) @ best.coefficients + best.bias)
    careful = CarefulProducts(KERNEL, X, PlainProducts(KERNEL(X), KERNEL.rounding(X), True, X))
    assert (
        l1_accuracy(machine, careful, Tolerance.of(machine.y, np.ones(machine.y.size)))[0].value < 1e-9
    )  # without the step it is the root of a rounding error


def machines(seed):
    """A dense machine in wild units, at the optimum or beside it, and whether its coefficients sum to zero."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 25)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.choice([0, -2, 2]) + rng.choice([0.0, 100.0])
    kernel = (RBF(3.0), Linear(), Polynomial(2), Laplacian(2.0))[seed % 4]
    y = (np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=n)) * 10.0 ** rng.choice([0, 5, -5]) + rng.choice([0.0, 1e6])
    K = kernel(X)
    zeta = zeta_max(K, y) * 10.0 ** rng.uniform(-4, 0)
    best = solve_l1(K, y, zeta)
    a = best.coefficients * (1.0 + rng.choice([0.0, 0.0, 1e-10, 1e-3]) * rng.normal(size=n))
    machine = SparseAnswer(y, zeta, a, best.bias, expansion_values(kernel, X, a, best.bias, X))
    return kernel, X, K, machine, best.coefficients


@pytest.mark.parametrize("seed", first(12, range(60)))
def test_every_arithmetic_bounds_the_exact_distance(seed):
    pytest.importorskip("flint")
    from substrate.proof.duality import prove_sparse

    kernel, X, K, machine, best = machines(seed)
    true = exact_l1_distance(kernel, X, machine.y, machine.zeta, best, machine.fitted)
    careful = CarefulProducts(kernel, X, PlainProducts(K, kernel.rounding(X), True, X))
    with np.errstate(all="ignore"):
        plain, doubled = (l1_accuracy(machine, careful, Tolerance(tol, 1.0, 0.0))[0].value for tol in (np.inf, 1e-30))
    proved = prove_sparse(kernel, X, machine, Tolerance(1e-6, 1.0, 0.0)).accuracy
    assert doubled <= plain
    if true is not None:  # the support of the solver is that of the optimum
        assert min(plain, doubled, proved) >= true * (1.0 - 1e-12)


@pytest.mark.parametrize("seed", first(6, range(24)))
def test_on_a_basis_certificate_and_proof_bound_the_same_distance(seed):
    pytest.importorskip("flint")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2)) + rng.choice([0.0, 3.0])
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30) + rng.choice([0.0, 1e4])
    weights = None if seed % 2 else rng.uniform(0.1, 3.0, size=30)
    kernel = (RBF(3.0), Linear(), Polynomial(2))[seed % 3]
    model = SparseL1SubstrateRegressor(kernel, zeta=1e-3, basis=Basis(6, random_state=seed))
    model.fit(X, y, sample_weight=weights)
    proof = model.prove(X, y, sample_weight=weights)
    assert proof.proved
    answer = model.certify(X, y, sample_weight=weights).rows[0]
    assert answer.passes
    assert answer.value >= proof.accuracy
