"""The fusion of the sparse substrate: SCIP's global optimum agrees with ``fuse``; the penalised form at one zeta."""

import cvxpy as cp
import numpy as np
import pytest
from complementarity_program import optimum_of_sparsity
from numpy.testing import assert_allclose

from problems import fused_l1_substrate, l1_substrate
from substrate import Machine, Substrate, fuse
from substrate.errors import DataError, DeclarationError
from substrate.fits.l1 import solve_l1, zeta_max
from substrate.kernels import RBF

KERNEL = RBF(1.0)


def case(n=7, n_val=5, seed=0):
    rng = np.random.default_rng(seed)
    X, V = rng.uniform(-2.0, 2.0, size=(n, 2)), rng.uniform(-2.0, 2.0, size=(n_val, 2))
    y, w = (np.sin(P[:, 0]) + 0.3 * rng.normal(size=len(P)) for P in (X, V))
    return X, y, V, w


def test_scip_and_fuse_agree():
    """:place [Pelckmans2005]_ section 4.2, "along the same lines": two ways to the global optimum."""
    X, y, V, w = case(seed=0)
    found = optimum_of_sparsity(KERNEL(X), y, KERNEL(V, X), w)
    s = Substrate(KERNEL, X, y)
    zeta = cp.Parameter(nonneg=True, name="zeta")
    machine = Machine(s, minimize=0.5 * cp.sum_squares(s.e) + zeta * cp.norm1(s.alpha))
    best = fuse(machine, over=zeta, validation=(V, w), gap=1e-4)
    assert_allclose(best.validation_error * w.size, found.value, rtol=1.1e-4)
    assert best.lower_bound * w.size <= found.value * (1.0 + 1e-6)
    grid = np.linspace(1e-3, zeta_max(KERNEL(X), y), 40)
    solved = [solve_l1(KERNEL(X), y, value) for value in grid]
    errors = [np.sum((w - KERNEL(V, X) @ one.coefficients - one.bias) ** 2) for one in solved]
    assert found.value <= min(errors) * (1.0 + 1e-6)


@pytest.mark.parametrize(("weight", "value", "alpha"), [(None, 4.0, 1.0), (1.0, 3.5, 1.25), (3.0, 4.0, 1.0)])
def test_the_hand_example_of_structure_detection_is_one_of_sparsity_too(weight, value, alpha):
    """Omega = I_2, y = (1, -1), Omega^v = (2, 0), y^v = 4: the products of (s, -s) are 4 s (s - 1) in both."""
    best = optimum_of_sparsity(np.eye(2), np.array([1.0, -1.0]), np.array([[2.0, 0.0]]), np.array([4.0]), weight=weight)
    assert_allclose(best.value, value, rtol=1e-6)
    assert_allclose(best.support_values, [alpha, -alpha], atol=1e-3)
    assert best.slackness.holds == (alpha == 1.0)


def test_a_heavy_weight_at_one_zeta_trains_the_machine():
    X, y, V, w = case()
    declared = fused_l1_substrate.declare(KERNEL(X), y, KERNEL(V, X), w, zeta=0.2, weight=1.0).solve()
    assert declared.certificate().holds, str(declared.certificate())
    light = float(declared.complementarity)
    declared.parameters["weight"].value = 1e4
    declared.solve()
    assert_allclose(declared.errors, l1_substrate.closed_form(KERNEL(X), y, 0.2)["errors"], atol=2e-3)
    assert declared.complementarity < 1e-3 * light


def test_refusals():
    X, y, V, w = case()
    for wrong in (0.0, -1.0, None):
        with pytest.raises(DeclarationError, match="zeta must be"):
            fused_l1_substrate.declare(KERNEL(X), y, KERNEL(V, X), w, wrong)
    with pytest.raises(DeclarationError, match="weight must be"):
        fused_l1_substrate.declare(KERNEL(X), y, KERNEL(V, X), w, 1.0, weight=-2.0)
    with pytest.raises(DataError, match="expected 7 columns"):
        fused_l1_substrate.declare(KERNEL(X), y, KERNEL(X, V), w, 1.0)
