"""Machines with cones do not depend on the units of their targets: targets times u, fitted values times u."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from substrate import Machine, Substrate
from substrate.kernels import RBF

#: Each a function of a substrate (or of what has its expressions) and of the unit: objective and constraints.
MACHINES = {
    "w'w bounded": lambda s, u: (0.5 * cp.sum_squares(s.e), [s.squared_norm <= u**2]),
    "w'w bounded, not active": lambda s, u: (cp.sum_squares(s.e) + s.squared_norm, [s.squared_norm <= 100.0 * u**2]),
    "norm bounded": lambda s, u: (0.5 * cp.sum_squares(s.e), [s.norm <= u]),
    "norm penalised": lambda s, u: (0.5 * cp.sum_squares(s.e) + u * s.norm, []),
    "errors in a ball": lambda s, u: (0.5 * s.squared_norm, [cp.norm(s.e) <= 2.0 * u]),
    "squared errors bounded": lambda s, u: (0.5 * s.squared_norm, [cp.sum_squares(s.e) <= 4.0 * u**2]),
    "values in a ball": lambda s, u: (cp.sum_squares(s.e) + 0.1 * s.squared_norm, [cp.norm(s.f()[:5]) <= u]),
    "a cone": lambda s, u: (cp.sum_squares(s.e) + 0.1 * s.squared_norm, [cp.SOC(s.f()[5] + u, s.f()[:4])]),
    "absolute, w'w bounded": lambda s, u: (cp.norm1(s.e), [s.squared_norm <= u**2]),
    "huber, w'w bounded": lambda s, u: (cp.sum(cp.huber(s.e, 0.3 * u)), [s.squared_norm <= u**2]),
    "root of squares": lambda s, u: (cp.norm(s.e) + 0.1 * s.norm, []),
}
KERNEL = RBF(1.0)


def sample(seed=0, n=16):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.4 * rng.normal(size=n)


class InFeatures:
    """The expressions of a substrate with a factor of the kernel matrix, in units of one."""

    def __init__(self, X, y):
        values, vectors = np.linalg.eigh(KERNEL(X))
        self._F = vectors * np.sqrt(np.maximum(values, 0.0))
        self._z, self._b = cp.Variable(len(y)), cp.Variable()
        self.e, self.norm, self.squared_norm = y - self.f(), cp.norm(self._z), cp.sum_squares(self._z)

    def f(self):
        return self._F @ self._z + self._b


def reference(name, X, y):
    s = InFeatures(X, y)
    cost, rules = MACHINES[name](s, 1.0)
    tolerances = dict.fromkeys(("tol_gap_rel", "tol_gap_abs", "tol_feas"), 1e-10)
    cp.Problem(cp.Minimize(cost), rules).solve(solver="CLARABEL", max_step_fraction=0.9, **tolerances)
    return s.f().value


UNITS = [(unit, seed) for seed in range(3) for unit in (1e2, 1e-2, 1.0)]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the reference
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("case", UNITS[:2], ids=lambda case: f"{case[0]:g}-{case[1]}")
@pytest.mark.covering
def test_the_units_of_the_targets_do_not_matter(name, case):
    unit, seed = case
    X, y = sample(seed)
    s = Substrate(KERNEL, X, unit * y)
    cost, rules = MACHINES[name](s, unit)
    result = Machine(s, minimize=cost, subject_to=rules).solve()
    assert result.certificate.holds, str(result.certificate)
    # rows pass at 1e-5 of their size, and nothing here is strongly convex
    assert_allclose(result.f / unit, reference(name, X, y), atol=5e-5)


def bounded_least_squares(X, y, bound):
    """min |y - f|^2 with w'w <= bound, from the kernel matrix: ridge regression at the weight with w'w = bound."""
    K, n = KERNEL(X), len(y)

    def solve(log_ridge):
        system = np.block([[K + np.exp(log_ridge) * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        found = np.linalg.solve(system, np.append(y, 0.0))
        return found[:n], found[n]

    def excess(log_ridge):
        a, _ = solve(log_ridge)
        return np.log(a @ K @ a) - np.log(bound)

    a, b = solve(brentq(excess, -25.0, 60.0, xtol=1e-13))
    return K @ a + b


@pytest.mark.parametrize("unit", [1e3, 1e-3])
def test_a_bound_in_units_of_its_own(unit):
    """w'w <= 1 binds for targets of a thousand, w'w <= 1e-8 for those of a thousandth."""
    X, y = sample(0)
    bound = 1.0 if unit > 1.0 else 1e-2 * unit**2
    s = Substrate(KERNEL, X, unit * y)
    result = Machine(s, minimize=0.5 * cp.sum_squares(s.e), subject_to=[s.squared_norm <= bound]).solve()
    assert result.certificate.holds, str(result.certificate)
    truth = bounded_least_squares(X, unit * y, bound)
    assert np.sqrt(np.mean((result.f - truth) ** 2)) <= result.certificate.accuracy + 1e-9 * unit
    assert result.squared_norm <= bound * (1.0 + 1e-6)
