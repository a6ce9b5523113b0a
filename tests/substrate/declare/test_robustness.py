"""Many random machines: each is certified, or the user is warned that it is not."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from substrate import Machine, Substrate
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial

KERNELS = [
    RBF(0.5),
    RBF(1.0),
    RBF(8.0),
    Linear(),
    Polynomial(2, 1.0),
    Laplacian(1.0),
    Matern(1.0, 1.5),
    RBF(1.0) + Linear(),
    Componentwise(RBF(1.0)),
    Componentwise(Linear()),
]
LOSSES = {
    "squares": lambda e: 0.5 * cp.sum_squares(e),
    "huber": lambda e: cp.sum(cp.huber(e, 0.1)),
    "absolute": cp.norm1,
    "pinball": lambda e: cp.sum(cp.maximum(0.8 * e, -0.2 * e)),
    "tube": lambda e: cp.sum(cp.pos(cp.abs(e) - 0.1)),
    "hinge": lambda e: cp.sum(cp.pos(e)),
    "largest": cp.norm_inf,
    "length": cp.norm2,
}
PENALTIES = {
    "norm": lambda s: s.squared_norm,
    "sparse": lambda s: cp.norm1(s.alpha),
    "variation": lambda s: cp.sum(s.maximal_variation),
    "shrunken": lambda s: cp.sum_squares(s.alpha),
    "none": lambda s: cp.Constant(0.0),
}
CONSTRAINTS = {
    "none": lambda s, X: [],
    "ceiling": lambda s, X: [s.f() <= 0.9 * s.y.max()],
    "ball": lambda s, X: [cp.norm(s.e) <= 10.0 * np.linalg.norm(s.y)],
    "rising": lambda s, X: [s.f(X[:3] - 0.5) <= s.f(X[:3] + 0.5)],
    "mean": lambda s, X: [cp.sum(s.f()) == s.y.sum()],
}


def choice(rng, table):
    return table[list(table)[rng.integers(len(table))]]


def random_machine(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(5, 61)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d))
    kernel = KERNELS[rng.integers(len(KERNELS))]
    if rng.random() < 0.25:
        y, task = np.where(X[:, 0] + 0.3 * rng.normal(size=n) > np.median(X[:, 0]), 1.0, -1.0), "classification"
        y[:2] = 1.0, -1.0
    else:
        y, task = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n), "regression"
    s = Substrate(kernel, X, y, task, bias=bool(rng.random() < 0.8))
    weight = cp.Parameter(nonneg=True, name="weight")
    objective = choice(rng, LOSSES)(s.e) + weight * choice(rng, PENALTIES)(s)
    return Machine(s, minimize=objective, subject_to=choice(rng, CONSTRAINTS)(s, X)), 10.0 ** rng.uniform(-3.0, 3.0)


def test_random_machines_are_certified_or_warn():
    warned = 0
    for seed in range(15):
        machine, weight = random_machine(seed)
        given = {"weight": weight} if machine.problem.parameters() else {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = machine.solve(**given)
        assert {warning.category for warning in caught} <= {ConvergenceWarning}, seed
        assert result.certificate.holds == (not caught), (seed, str(result.certificate))
        # without a penalty on w, directions that the kernel has and double precision does not are told of
        warned += any("directions of the kernel" not in str(warning.message) for warning in caught)
    assert warned <= 1


@pytest.mark.parametrize("case", ["two points", "duplicates", "one value", "wide"])
def test_small_and_degenerate_sets(case):
    rng = np.random.default_rng(0)
    X, y = {
        "two points": (np.array([[0.0], [1.0]]), np.array([1.0, 3.0])),
        "duplicates": (np.repeat(rng.normal(size=(5, 2)), 4, axis=0), rng.normal(size=20)),
        "one value": (rng.normal(size=(10, 2)), np.full(10, 4.0)),
        "wide": (rng.normal(size=(6, 30)), rng.normal(size=6)),
    }[case]
    for kernel in (Linear(), RBF(2.0)):
        s = Substrate(kernel, X, y)
        for term in (cp.sum_squares(s.e), cp.norm1(s.e) + s.squared_norm, cp.sum_squares(s.e) + cp.norm1(s.alpha)):
            result = Machine(s, minimize=term).solve()
            assert result.certificate.holds, str(result.certificate)
