"""Maximal variation, shared expansion: declared = fast path = (24) written down; certificate, errata, zeros."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from problems import maximal_variation
from substrate.fits.coordinates import shared_coordinates
from substrate.fits.variation import rho_max
from substrate.kernels import RBF, Linear, Polynomial

TASKS = ("regression", "classification")
KERNELS = (RBF(0.5), Linear(), Polynomial(degree=2))
QUANTITIES = ("bias", "errors", "maximal_variation", "component_values")
over_tasks = pytest.mark.parametrize("task", TASKS)
over_bias = pytest.mark.parametrize("bias", [True, False])
over_kernels = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def inputs(n, d, seed):
    """Inputs spread evenly in a random order: RBF(0.5) is well conditioned on them, and raw problems are solvable."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.permutation(np.linspace(-3.0, 3.0, n)) for _ in range(d)])


def case(kernel, task="regression", n=16, d=3, seed=0):
    X, rng = inputs(n, d, seed), np.random.default_rng(seed + 50)
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    y = y if task == "regression" else np.where(y > 0.0, 1.0, -1.0)
    return [kernel(X[:, [part]]) for part in range(d)], y


def features(kernel, K, bias, seed=0):
    """Matrices G^l with f^l = G^l theta for every alpha with 1'alpha = 0 (any alpha without bias), without kernels.

    A linear component is w_l x. A quadratic one, from (1 + x z)^2, is s + sqrt(2) w_l1 x + w_l2 x^2, where the constant
    s = 1'alpha is shared by all. Otherwise theta is alpha itself.
    """
    n, d = K[0].shape[0], len(K)
    X = inputs(n, d, seed)
    if isinstance(kernel, Linear):
        return [X * (np.arange(d) == part) for part in range(d)]
    if isinstance(kernel, Polynomial):
        own = [np.column_stack([np.sqrt(2.0) * X[:, part], X[:, part] ** 2]) for part in range(d)]
        shared = np.zeros((n, 0)) if bias else np.ones((n, 1))
        return [
            np.hstack([shared, *(own[other] if other == part else 0.0 * own[other] for other in range(d))])
            for part in range(d)
        ]
    return K


def written_down(G, y, rho, bias, task="regression", half=0.5, raw=True):
    """(24); with ``raw`` the parameters are alpha. In classification the errors are 1 - y f. ``half=1`` is (14)."""
    d = len(G)
    theta, t = cp.Variable(G[0].shape[1]), cp.Variable(d)
    b = cp.Variable() if bias else cp.Constant(0.0)
    constraints = [cp.sum(theta) == 0] if bias and raw else []
    lower, upper = [], []
    for part in range(d):
        lower.append(-t[part] <= G[part] @ theta)
        upper.append(G[part] @ theta <= t[part])
    f = sum(G) @ theta + b
    e = y - f if task == "regression" else 1.0 - cp.multiply(y, f)
    problem = cp.Problem(cp.Minimize(half * cp.sum_squares(e) + rho * cp.sum(t)), constraints + lower + upper)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it may fall short of 1e-11 and say so; 1e-5 is what is compared
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    values = {
        "bias": b.value,
        "errors": e.value,
        "maximal_variation": t.value,
        "component_values": np.array([part @ theta.value for part in G]),
    }
    duals = [np.array([c.dual_value for c in side]) for side in (lower, upper)]
    return problem.value, values, (theta.value, *duals)


def assert_same(found, expected, tolerance, size):
    for name in QUANTITIES:
        assert_allclose(found[name], expected[name], atol=tolerance * size, err_msg=name)


def largest(K, y, bias=True):
    return rho_max(shared_coordinates(K, bias), y)


# ---- agreement -----------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.6, 0.1])
@over_bias
@over_tasks
@over_kernels
@pytest.mark.covering
def test_declared_fast_path_and_written_down_agree(kernel, task, bias, share):
    """:equation [Pelckmans2005]_ (24): the declared problem, the fast path and the problem written down anew."""
    K, y = case(kernel, task)
    rho = share * largest(K, y, bias)
    G = features(kernel, K, bias)
    value, expected, _ = written_down(G, y, rho, bias, task, raw=G is K)
    fast = maximal_variation.closed_form(K, y, rho, task, bias)
    assert_same(fast, expected, 1e-5, np.abs(y).max())
    cost = 0.5 * np.sum(fast["errors"] ** 2) + rho * fast["maximal_variation"].sum()
    assert_allclose(cost, value, rtol=1e-7)
    declared = maximal_variation.declare(K, y, rho, task, "conditioned", bias).solve()
    certificate = declared.certificate(against=fast)
    assert certificate.holds, str(certificate)
    assert sum(row.name.startswith("agreement") for row in certificate.rows) == 4
    assert_allclose(declared.problem.value, value, rtol=1e-6)


@over_tasks
def test_support_values_make_the_components(task):
    K, y = case(RBF(0.5), task)
    declared = maximal_variation.declare(K, y, 0.5, task).solve()
    a = declared.support_values * (y if task == "classification" else 1.0)
    assert_allclose([part @ a for part in K], declared.component_values, atol=1e-8)
    assert_allclose(a.sum(), 0.0, atol=1e-9)
    f = declared.component_values.sum(axis=0) + declared.bias
    assert_allclose(declared.errors, y - f if task == "regression" else 1.0 - y * f, atol=1e-6)
    assert_allclose(declared.maximal_variation, np.abs(declared.component_values).max(axis=1), atol=1e-6)


# ---- the certificate -----------------------------------------------------------------------------


def parts_of(declared):
    """Variables by name and constraints by label."""
    variables = {variable.name(): variable for variable in declared.problem.variables()}
    return variables, {constraint.label: constraint.dual_variables[0] for constraint in declared.problem.constraints}


@over_bias
@over_tasks
def test_tampering_makes_the_right_row_fail(task, bias):
    """:equation [Pelckmans2005]_ (27a): a changed number shows in the row of its condition."""
    K, y = case(RBF(0.5), task)
    rho = 0.3 * largest(K, y, bias)
    declared = maximal_variation.declare(K, y, rho, task, bias=bias).solve()
    variables, duals = parts_of(declared)
    t, v, e = variables["t"], variables["v"], variables["e"]
    above, below = duals["components above -t"], duals["components below t"]
    values = declared.component_values.ravel()

    def failures(leaf, changed):
        original = np.array(leaf.value, dtype=float)
        leaf.save_value(changed)
        found = {row.name for row in declared.certificate().failures}
        leaf.save_value(original)
        return found

    assert declared.certificate().holds
    for part in range(3):
        smaller, larger = (np.array(t.value) for _ in range(2))
        smaller[part] *= 0.99
        larger[part] *= 1.01
        assert "(27d) bounds" in failures(t, smaller)
        found = failures(t, larger)
        assert {"(27e) lower slackness", "(27f) upper slackness", "sum of all products"} & found
        assert "(27d) bounds" not in found
    for dual, sign, slack in ((above, -1.0, "(27e) lower slackness"), (below, 1.0, "(27f) upper slackness")):
        idle = int(np.argmin(np.abs(values[:16])))  # not at its bound
        more = np.array(dual.value)
        more[idle] += 0.05 * rho
        assert {"(27a) stationarity", "(27b) sums of multipliers", slack} <= failures(dual, more)
        less = np.array(dual.value)
        less[idle] -= 0.05 * rho
        assert "(27c) multipliers >= 0" in failures(dual, less)
        at_bound = int(np.argmax(sign * values[:16]))
        scaled = np.array(dual.value)
        scaled[at_bound] += 0.05 * rho
        assert "(27b) sums of multipliers" in failures(dual, scaled)
    for k in range(v.size):
        moved = np.array(v.value)
        moved[k] += 0.02 * np.abs(v.value).max()
        assert "fit equalities" in failures(v, moved)
    for i in range(y.size):
        moved = np.array(e.value)
        moved[i] += 0.02
        assert {"fit equalities", "(27a) stationarity"} <= failures(e, moved)
        assert ("1'e = 0" in failures(e, moved)) == bias
    assert declared.certificate().holds


# ---- errata --------------------------------------------------------------------------------------


@over_kernels
def test_27_holds_as_corrected_and_not_as_printed(kernel):
    """:equation [Pelckmans2005]_ (27a)-(27b): the optimum meets them as corrected and not as printed."""
    K, y = case(kernel)
    rho = 0.3 * largest(K, y, False)
    _, _, (alpha, minus, plus) = written_down(K, y, rho, bias=False)  # from (24) on the paper has no bias
    Omega, difference = sum(K), minus - plus
    left = Omega.T @ Omega @ alpha - Omega.T @ y
    size = np.linalg.norm(Omega.T @ y)
    corrected = sum(part.T @ xi for part, xi in zip(K, difference, strict=True))
    assert np.linalg.norm(left - corrected) <= 1e-6 * size
    assert np.linalg.norm(left - difference.sum(axis=0)) >= 1e-2 * size, "(27a) without Omega^l"
    sums = (minus + plus).sum(axis=1)
    assert_allclose(sums, rho, rtol=1e-6)
    assert np.abs((minus + plus).sum(axis=0) - rho).max() >= 0.1 * rho, "(27b) as one vector equation over the points"
    assert abs(sums.sum() - rho) >= 0.5 * rho, "(27b) summed over the components"


def test_the_rho_of_14_is_twice_that_of_24():
    """:equation [Pelckmans2005]_ (14): its rho is twice the rho of (24)."""
    K, y = case(RBF(0.5))
    ours = maximal_variation.closed_form(K, y, 0.4)
    assert_same(ours, written_down(K, y, 0.8, True, half=1.0)[1], 1e-5, np.abs(y).max())
    other = written_down(K, y, 0.4, True, half=1.0)[1]
    assert np.abs(other["maximal_variation"] - ours["maximal_variation"]).max() > 1e-2


# ---- zeros ---------------------------------------------------------------------------------------


@over_bias
@pytest.mark.parametrize("kernel", [RBF(0.5), RBF(1.5)], ids=repr)
def test_no_positive_definite_component_vanishes_alone(kernel, bias):
    K, y = case(kernel)
    top = largest(K, y, bias)
    for share in (0.999, 0.9, 0.5, 0.1, 1e-3):
        assert (maximal_variation.closed_form(K, y, share * top, bias=bias)["maximal_variation"] > 0.0).all()
    for share in (1.0, 2.0):
        assert_array_equal(maximal_variation.closed_form(K, y, share * top, bias=bias)["maximal_variation"], 0.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=2)], ids=repr)
@pytest.mark.covering
def test_components_of_finite_rank_vanish_exactly_where_the_written_down_ones_do(kernel, seed):
    K, y = case(kernel, seed=seed, d=5)
    found = 0
    for share in (0.8, 0.4, 0.1):
        rho = share * largest(K, y)
        t = maximal_variation.closed_form(K, y, rho)["maximal_variation"]
        G = features(kernel, K, True, seed)
        zeros = written_down(G, y, rho, True, raw=False)[1]["maximal_variation"] < 1e-5 * np.abs(y).max()
        assert_array_equal(t == 0.0, zeros)
        found += int(zeros.sum())
    assert found > 0
