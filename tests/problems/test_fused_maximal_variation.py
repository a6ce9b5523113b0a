"""(28) and (29): the hand example, SCIP's global optimum against ``fuse``, and (29) at one rho, where it is convex."""

import cvxpy as cp
import numpy as np
import pytest
from complementarity_program import optimum_of_variations
from numpy.testing import assert_allclose

from problems import FusedMaximalVariationRegressor, fused_maximal_variation, maximal_variation
from substrate import Machine, Substrate, fuse
from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Linear

HAND = {"K": [np.eye(2)], "y": [1.0, -1.0], "K_val": [[2.0, 0.0]], "y_val": [4.0]}


def case(n=6, d=2, n_val=5, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, d)), rng.uniform(-2.0, 2.0, size=(n_val, d))
    y, w = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def matrices(kernel, X, V):
    parts = kernel.components(X.shape[1])
    return [part(X) for part in parts], [part(V, X) for part in parts]


# --- the hand example -----------------------------------------------------------------------------------------------


def test_28_of_the_hand_example():
    """:equation [Pelckmans2005]_ (28): the optimum known by hand."""
    best = optimum_of_variations(**HAND)
    assert_allclose(best.value, 4.0, rtol=1e-7)
    assert_allclose(best.support_values, [1.0, -1.0], atol=1e-6)
    assert_allclose(best.lower_bound, 4.0, rtol=1e-6)
    assert best.slackness.holds


@pytest.mark.parametrize(
    ("weight", "value", "alpha", "products"),
    [(0.5, 2.5, 1.5, 3.0), (1.0, 3.5, 1.25, 1.25), (1.5, 3.9, 1.1, 0.44), (2.5, 4.0, 1.0, 0.0), (10.0, 4.0, 1.0, 0.0)],
)
def test_29_of_the_hand_example_is_exact_from_weight_two_on(weight, value, alpha, products):
    """With a = (s, -s), s >= 1: (4 - 2s)^2 + weight (2s)(2s - 2), at its least for s = 1 + (2 - weight)/(2 + 2 weight)
    on (1, 1.5], that is, where the weight is below two.

    :equation [Pelckmans2005]_ (29): over all rho, for light and heavy weights.
    """
    best = optimum_of_variations(**HAND, weight=weight)
    assert_allclose(best.value, value, rtol=1e-6)
    assert_allclose(best.support_values, [alpha, -alpha], atol=1e-3)
    assert_allclose(best.slackness.sum, products, atol=5e-3)
    assert best.slackness.holds == (weight > 2.0)
    assert ("complementary slackness fails" in best.slackness.verdict) == (weight < 2.0)


def test_fuse_solves_28_of_the_hand_example():
    """A linear kernel on the points (1, 0) and (0, 1) has the identity for its matrix; (2, 0) has the row (2, 0)."""
    s = Substrate(Linear(), np.eye(2), np.array([1.0, -1.0]))
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.norm_inf(s.component(0)))
    best = fuse(machine, over=rho, validation=([[2.0, 0.0]], [4.0]), box={rho: (0.0, 10.0)})
    assert_allclose(best.validation_error, 4.0, rtol=1e-7)
    assert_allclose(best.alpha, [1.0, -1.0], atol=1e-7)
    assert best.rho == 0.0
    assert best.certificate.holds, str(best.certificate)


def test_the_exact_path_and_a_grid_of_rho_tell_28_from_29():
    """4 against 3.5: (28) by the exact path, (29) at weight 1 by the convex problems at a grid of rho."""
    one_component = Componentwise((Linear().on(0, 1),))
    model = FusedMaximalVariationRegressor(one_component).fit(np.eye(2), HAND["y"], HAND["K_val"], HAND["y_val"])
    assert_allclose(model.criterion_, 4.0, rtol=1e-9)
    assert_allclose(model.criterion_lower_bound_, 4.0, rtol=1e-6)
    grid = np.arange(0.1, 1.01, 0.1)
    values = [fused_maximal_variation.declare(**HAND, rho=float(rho)).solve().problem.value for rho in grid]
    assert_allclose(min(values), 3.5, rtol=1e-6)
    assert_allclose(grid[np.argmin(values)], 0.5)


def test_29_of_the_hand_example_at_one_rho():
    """At rho = 0.5 the convex problem finds the bilinear optimum: 3.5, with products that add up to 1.25.

    :equation [Pelckmans2005]_ (29): the value known by hand at one rho.
    """
    declared = fused_maximal_variation.declare(**HAND, rho=0.5).solve()
    assert_allclose(declared.problem.value, 3.5, rtol=1e-6)
    assert_allclose(declared.support_values, [1.25, -1.25], atol=1e-5)
    assert_allclose(declared.complementarity, 1.25, rtol=1e-5)
    certificate = declared.certificate()
    assert certificate.holds, str(certificate)
    facts = dict(certificate.record)
    assert "convex for this rho only" in facts["rho"]
    assert "complementary slackness fails" in facts["products"]


# --- the global optimum ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(5, 1, 0), (6, 2, 1)], ids=str)
def test_scip_and_fuse_agree(size):
    """:equation [Pelckmans2005]_ (28): two ways to the global optimum."""
    n, d, seed = size
    X, y, V, w = case(n, d, seed=seed)
    kernel = Componentwise(RBF(1.0))
    found = optimum_of_variations(*matrices(kernel, X, V)[:1], y, matrices(kernel, X, V)[1], w)
    s = Substrate(kernel, X, y)
    rho = cp.Parameter(nonneg=True, name="rho")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + rho * cp.sum(s.maximal_variation))
    best = fuse(machine, over=rho, validation=(V, w), gap=1e-4)
    assert_allclose(best.validation_error * w.size, found.value, rtol=1.1e-4)
    assert best.lower_bound * w.size <= found.value * (1.0 + 1e-6)
    trained = maximal_variation.closed_form(matrices(kernel, X, V)[0], y, max(found.point.rho, 1e-9))
    assert_allclose(found.point.t, trained["maximal_variation"], atol=1e-4)


def test_a_heavy_weight_makes_29_exact_and_a_light_one_does_not():
    X, y, V, w = case(5, 1, seed=2)
    K, K_val = matrices(Componentwise(RBF(1.0)), X, V)
    exact = optimum_of_variations(K, y, K_val, w)
    light, heavy = (
        optimum_of_variations(K, y, K_val, w, weight=0.05),
        optimum_of_variations(K, y, K_val, w, weight=50.0),
    )
    assert light.value < exact.value * (1.0 - 1e-3)
    assert not light.slackness.holds
    assert_allclose(heavy.value, exact.value, rtol=1e-3)
    assert heavy.lower_bound <= exact.value * (1.0 + 1e-6)


# --- (29) at one rho ------------------------------------------------------------------------------------------------


def written_down(K, y, K_val, y_val, rho, weight):
    """(29) for given rho in the support values themselves, with the bias."""
    n, omega = y.size, sum(K)
    alpha, b, t, nu = cp.Variable(n), cp.Variable(), cp.Variable(len(K)), cp.Variable()
    minus, plus = [cp.Variable(n) for _ in K], [cp.Variable(n) for _ in K]
    e = y - omega @ alpha - b
    net = sum(part.T @ (lower - upper) for part, lower, upper in zip(K, minus, plus, strict=True))
    constraints = [-omega.T @ e + nu == net, cp.sum(alpha) == 0, cp.sum(e) == 0]
    for part, bound, lower, upper in zip(K, t, minus, plus, strict=True):
        constraints += [cp.sum(lower + upper) == rho, lower >= 0, upper >= 0, cp.abs(part @ alpha) <= bound]
    centred = omega - omega.mean(axis=0)
    gap = cp.sum_squares(centred @ alpha) - y @ centred @ alpha + rho * cp.sum(t)
    cost = cp.sum_squares(y_val - sum(K_val) @ alpha - b) + weight * gap
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.parametrize("weight", [0.3, 1.0, 20.0])
def test_declared_and_written_down_agree(weight):
    X, y, V, w = case(7, 2)
    K, K_val = matrices(Componentwise(RBF(1.0)), X, V)
    declared = fused_maximal_variation.declare(K, y, K_val, w, 0.4, weight).solve()
    assert declared.certificate().holds, str(declared.certificate())
    assert_allclose(declared.problem.value, written_down(K, y, K_val, w, 0.4, weight), rtol=1e-5)


def test_refusals():
    X, y, V, w = case(6, 2)
    K, K_val = matrices(Componentwise(RBF(1.0)), X, V)
    with pytest.raises(DataError, match="K_val must have one matrix per component: expected 2, received 1"):
        fused_maximal_variation.declare(K, y, K_val[:1], w, 0.5)
    with pytest.raises(DataError, match="expected 6 columns"):
        fused_maximal_variation.declare(K, y, [part.T for part in K_val], w, 0.5)
    with pytest.raises(DataError, match="y_val must have one entry per row"):
        fused_maximal_variation.declare(K, y, K_val, w[1:], 0.5)
    with pytest.raises(DeclarationError, match="weight must be"):
        fused_maximal_variation.declare(K, y, K_val, w, 0.5, weight=0.0)
