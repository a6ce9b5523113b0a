"""The power function: against 50 digits, and as a bound on what was not observed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate import LinearOperator, Machine, Substrate
from substrate.errors import DeclarationError
from substrate.kernels import RBF, DivergenceFree, Matern

LAPLACIAN = LinearOperator.derivative({0: 2}) + LinearOperator.derivative({1: 2})


@pytest.mark.parametrize("n", [4, 8, 14])
def test_it_is_an_upper_bound_and_near_the_exact_one(n):
    """Values and slopes of RBF, whose matrix has a condition beyond double precision for the largest n."""
    mpmath = pytest.importorskip("mpmath")
    X, Z, at = np.linspace(0.0, 2.0, n), np.linspace(0.1, 1.9, n - 1), np.array([0.33, 1.05, 2.2])
    s = Substrate(RBF(1.0), [X[:, None], Z[:, None]], np.zeros(2 * n - 1), observed=["value", {0: 1}], bias=False)
    found = Machine(s, minimize=s.squared_norm, subject_to=[s.e == 0.0]).solve().power(at[:, None])
    with mpmath.workdps(60):

        def k(u, order=0):
            slope = {0: 1, 1: -2 * u, 2: 4 * u**2 - 2}[order]
            return slope * mpmath.exp(-(u**2))

        rows = [(mpmath.mpf(float(x)), 0) for x in X] + [(mpmath.mpf(float(z)), 1) for z in Z]
        G = mpmath.matrix([[k(x - z, a + b) * (-1) ** b for z, b in rows] for x, a in rows])
        exact = []
        for p in at:
            c = mpmath.matrix([k(x - mpmath.mpf(float(p)), a) for x, a in rows])
            exact.append(float(mpmath.sqrt(1 - (c.T * mpmath.lu_solve(G, c))[0])))
    assert (found >= exact).all()
    assert (found <= np.array(exact) * 1.01 + 2e-3).all()
    assert (found[:2] <= np.array(exact[:2]) * 1.01 + 2e-5).all()  # inside, where no coefficient is large


def test_a_partial_differential_equation_is_solved_within_the_bound():
    kernel, rng = Matern(0.7, 4.5), np.random.default_rng(1)
    centres, heights = rng.uniform(0.0, 1.0, size=(4, 2)), rng.normal(size=4)
    R = np.sqrt(heights @ kernel(centres) @ heights)
    middles, ends = (np.arange(4) + 0.5) / 4, np.linspace(0.0, 1.0, 5)
    inside = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 2)
    edge = np.array([[x, y] for x in ends for y in ends if {x, y} & {0.0, 1.0}])
    source = sum(kernel.derivative(inside, centres, {c: 2}) for c in (0, 1)) @ heights
    known = [kernel(edge, centres) @ heights, source]
    s = Substrate(kernel, [edge, inside], known, observed=["value", LAPLACIAN], bias=False)
    result = Machine(s, minimize=s.squared_norm, subject_to=[s.e == 0.0]).solve()
    assert result.certificate.holds, str(result.certificate)
    P = rng.uniform(0.0, 1.0, size=(300, 2))
    errors = np.abs(result.predict(P) - kernel(P, centres) @ heights)
    bound = result.power(P) * np.sqrt(R**2 - result.squared_norm)
    assert (errors <= bound + 1e-12).all()
    assert 1e-6 < bound.max() < 10.0 * errors.max()


def test_it_vanishes_at_observations_and_is_k_far_from_them():
    X = np.array([[0.0], [1.0], [2.5]])
    s = Substrate(RBF(1.0), X, np.ones(3), bias=False)
    result = Machine(s, minimize=s.squared_norm, subject_to=[s.e == 0.0]).solve()
    assert_allclose(result.power(X), 0.0, atol=1e-6)
    assert_allclose(result.power([[50.0]]), 1.0, rtol=1e-12)
    boxes = Substrate(RBF(1.0), np.array([[[0.0, 1.0]], [[1.0, 2.0]]]), [0.3, 0.4], observed="integral", bias=False)
    integrals = Machine(boxes, minimize=boxes.squared_norm, subject_to=[boxes.e == 0.0]).solve().power([[0.5], [9.0]])
    assert 0.0 < integrals[0] < 0.5 < integrals[1] <= 1.0 + 1e-11


def test_a_bias_has_no_bound():
    rng = np.random.default_rng(0)
    s = Substrate(RBF(1.0), rng.normal(size=(5, 1)), rng.normal(size=5))
    result = Machine(s, minimize=s.squared_norm, subject_to=[s.e == 0.0]).solve()
    with pytest.raises(DeclarationError, match="declare the substrate with bias=False"):
        result.power([[0.0]])
    field = Substrate(DivergenceFree(RBF(1.0)), rng.normal(size=(6, 4)), np.ones(6), bias=False)
    solved = Machine(field, minimize=field.squared_norm, subject_to=[field.e == 0.0]).solve()
    assert (solved.power(field.X) < 1e-4 * np.sqrt(field.kernel.diag(field.X))).all()
