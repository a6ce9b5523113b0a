"""Components that a machine mentions have coefficients of their own where w is penalised: the optimum over all w."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise, Laplacian, Linear

KERNELS = {
    "RBF": Componentwise(RBF(1.5)),
    "RBF and linear": Componentwise([RBF(1.0), Linear()]),
    "Laplacian": Componentwise(Laplacian(1.0)),
    "pairs": Componentwise({0: RBF(1.5), 1: RBF(1.5), (0, 1): RBF(1.5)}),
}


class OverAllW:
    """f = sum_l F_l z_l + b with a factor F_l F_l' of every component's own kernel matrix, and w'w = |z|^2.

    It has the expressions of a substrate, on points that are given beforehand.
    """

    def __init__(self, kernel, X, y, bias=True):
        self._kernels, self._X = kernel.components(X.shape[1]), X
        self._spots = np.vstack([X, X[:4] + 0.3])
        self._z, factors = [], []
        for part in self._kernels:
            values, vectors = np.linalg.eigh(part(self._spots))
            keep = values > 1e-15 * values[-1]
            factors.append(vectors[:, keep] * np.sqrt(values[keep]))
            self._z.append(cp.Variable(int(keep.sum())))
        self._parts = [F @ z for F, z in zip(factors, self._z, strict=True)]
        self._b, self._n = (cp.Variable() if bias else 0.0), len(X)
        self.e = y - sum(self._parts)[: self._n] - self._b
        self.squared_norm = sum(cp.sum_squares(z) for z in self._z)
        self.norm = cp.norm(cp.hstack(self._z))
        self.maximal_variation = cp.hstack([cp.norm_inf(part[: self._n]) for part in self._parts])

    def component(self, part, points=None):
        return self._parts[part][: self._n] if points is None else self._parts[part][self._n :]


def variation(s, tau, X):
    return 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm + cp.sum(s.maximal_variation), []


def sparse_component(s, tau, X):
    return cp.norm1(s.e) + 0.5 * tau * s.squared_norm + 0.3 * cp.norm1(s.component(0)), []


def bounded_component(s, tau, X):
    return 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm, [s.component(1) <= 0.2, s.component(0) >= -0.3]


def rows_and_points(s, tau, X):
    there = s.component(1, X[:4] + 0.3)
    return 0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm + cp.norm1(there), [cp.abs(s.component(1)) <= 0.4]


def bounded_norm(s, tau, X):
    return 0.5 * cp.sum_squares(s.e) + 0.5 * cp.sum(s.maximal_variation), [s.norm <= 1.0]


TERMS = [variation, sparse_component, bounded_component, rows_and_points, bounded_norm]


def sample(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(10, 2))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.4 * rng.normal(size=10)


CASES = [(kernel, tau, seed) for seed in range(3) for tau in (1e-2, 1.0, 1e-5) for kernel in KERNELS]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the oracle, which is asked for 1e-10
@pytest.mark.parametrize("case", CASES[:5], ids=lambda case: "-".join(map(str, case)))
@pytest.mark.parametrize("terms", TERMS, ids=lambda terms: terms.__name__)
@pytest.mark.covering
def test_the_optimum_is_that_over_all_w(terms, case):
    name, tau, seed = case
    X, y = sample(seed)
    kernel, bias = KERNELS[name], bool(seed % 2 == 0)
    s, over_all = Substrate(kernel, X, y, bias=bias), OverAllW(kernel, X, y, bias)
    cost, rules = terms(s, tau, X)
    result = Machine(s, minimize=cost, subject_to=rules).solve()
    cost, rules = terms(over_all, tau, X)
    truth = cp.Problem(cp.Minimize(cost), rules).solve(
        solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10, tol_feas=1e-10
    )
    assert_allclose(result.objective, truth, rtol=2e-6)
    assert result.certificate.holds, str(result.certificate)
    assert dict(result.certificate.record)["span"].endswith("the optimum over all w")
    total = sum(result.component(part, X) for part in range(len(s.components)))
    assert_allclose(total + result.b, result.predict(X), atol=1e-9)


@pytest.mark.parametrize(("tau", "move"), [(1e-5, 1e-9), (1e-2, -1e-7)])
def test_points_moved_a_little_find_nothing_better(tau, move):
    X, y = sample(7)
    costs = []
    for points in (None, X + move):
        s = Substrate(Componentwise(RBF(1.5)), X, y)
        variations = sum(cp.norm_inf(s.component(part, points)) for part in range(2))
        machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + 0.5 * tau * s.squared_norm + variations)
        costs.append(machine.solve().objective)
    assert_allclose(costs[1], costs[0], rtol=1e-6)


def test_without_a_penalty_on_w_the_components_share_their_coefficients_as_in_the_paper():
    X, y = sample(0)
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    result = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + cp.sum(s.maximal_variation)).solve()
    assert result.further == ()
    K = [part(X) for part in s.components]
    assert_allclose(result.component(1, X), K[1] @ result.alpha, atol=1e-9)
    assert_allclose(result.alpha.sum(), 0.0, atol=1e-9)


def test_where_they_share_them_although_w_is_penalised_it_is_said():
    X, y = sample(0)
    s = Substrate(Componentwise(RBF(1.5)), X, y)
    cost = 0.5 * cp.sum_squares(s.e) + 0.5 * s.squared_norm + cp.sum(s.maximal_variation)
    result = Machine(s, minimize=cost + 0.1 * cp.norm1(s.alpha)).solve()
    assert "components share the coefficients of the training rows" in dict(result.certificate.record)["span"]
    assert result.further == ()
