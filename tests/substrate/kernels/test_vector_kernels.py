"""Kernels of vector-valued functions: no divergence, no curl, Kronecker products, rounding against exact formulas."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate import LinearOperator, Machine, Substrate
from substrate.errors import DataError, DeclarationError
from substrate.kernels import (
    RBF,
    CurlFree,
    DivergenceFree,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    Separable,
    component_rows,
)

INNER = [RBF(0.9), RBF((0.5, 3.0, 1.0)), Matern(1.0, 2.5), Polynomial(3, 1.0) + RBF(2.0)]


def slopes(kernel, rows, others, point_column, component, d):
    """The derivatives in one column of the points of the component of f along one unit vector."""
    along = rows.copy()
    along[:, d:] = np.eye(d)[component]
    return kernel.derivative(along, others, {point_column: 1})


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_every_expansion_has_no_divergence(inner):
    rng = np.random.default_rng(0)
    rows, others = rng.normal(size=(2, 5, 6))
    kernel = DivergenceFree(inner)
    parts = [slopes(kernel, rows, others, c, c, 3) for c in range(3)]
    assert_allclose(sum(parts), 0.0, atol=1e-12 * np.abs(parts).max())
    assert np.abs(parts).max() > 0.01


@pytest.mark.parametrize("inner", INNER, ids=repr)
def test_every_expansion_has_no_curl(inner):
    rows, others = np.random.default_rng(1).normal(size=(2, 5, 6))
    kernel = CurlFree(inner)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        first, second = slopes(kernel, rows, others, a, b, 3), slopes(kernel, rows, others, b, a, 3)
        assert_allclose(first, second, atol=1e-12 * np.abs(first).max())
        assert np.abs(first).max() > 0.01


def test_all_components_have_a_kronecker_product():
    X = np.random.default_rng(3).normal(size=(4, 2))
    L = np.random.default_rng(4).normal(size=(3, 2))
    B = L @ L.T
    B = (B + B.T) / 2.0
    kernel = Separable(RBF(1.0), tuple(map(tuple, B)))
    assert_allclose(kernel(component_rows(X, 3)), np.kron(RBF(1.0)(X), B), atol=1e-14)
    assert kernel == Separable(RBF(1.0), B)
    assert_array_equal(component_rows(X)[:2], [[*X[0], 1.0, 0.0], [*X[0], 0.0, 1.0]])


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("wrap", [CurlFree, DivergenceFree, lambda inner: Separable(inner, ((1.0, 0.9), (0.9, 1.0)))])
def test_values_are_within_their_rounding_of_the_exact_ones(wrap, offset):
    """By the exact formula, which differentiates in ball arithmetic."""
    flint = pytest.importorskip("flint")
    kept, flint.ctx.prec = flint.ctx.prec, 200
    try:
        rng = np.random.default_rng(5)
        X = rng.normal(size=(7, 4))
        X[:, :2] = offset + X[:, :2]
        X[1, :2] = X[0, :2] + 1e-7
        X[2, 2:] = [1.0, -1.0]
        for inner in (RBF(0.7), RBF((0.1, 5.0))):
            kernel = wrap(inner)
            formula = kernel.exact_formula(flint.arb, 4)
            points = [[flint.arb(float(a)) for a in x] for x in X]
            exact = np.array([[float(formula(x, z)) for z in points] for x in points])
            sizes = np.sqrt(np.diagonal(exact))
            assert (np.abs(kernel(X) - exact) <= kernel.rounding(X) * np.outer(sizes, sizes)).all()
            assert kernel.rounding(X) < 1e-7
    finally:
        flint.ctx.prec = kept


def test_a_machine_fits_a_field_without_divergence():
    """A swirl, measured along random directions; as a functional of f the divergence is zero at all points."""
    rng = np.random.default_rng(7)
    X, angles = rng.uniform(-1.0, 1.0, size=(30, 2)), rng.uniform(0.0, 2.0 * np.pi, size=30)
    U = np.column_stack([np.cos(angles), np.sin(angles)])
    field = np.column_stack([-X[:, 1], X[:, 0]])
    s = Substrate(DivergenceFree(RBF(1.5)), np.hstack([X, U]), np.sum(U * field, axis=1), bias=False)
    result = Machine(s, minimize=1e-4 * s.squared_norm + cp.sum_squares(s.e)).solve()
    assert result.certificate.holds, str(result.certificate)
    inside = rng.uniform(-0.8, 0.8, size=(20, 2))
    found = result.predict(component_rows(inside)).reshape(20, 2)
    assert_allclose(found, np.column_stack([-inside[:, 1], inside[:, 0]]), atol=0.05)

    def towards(component):
        def move(points):
            moved = np.array(points)
            moved[:, 2:] = np.eye(2)[component]
            return moved

        return move

    divergence = LinearOperator.derivative({0: 1}, at=towards(0)) + LinearOperator.derivative({1: 1}, at=towards(1))
    rows = np.hstack([inside, np.ones((20, 2))])
    turning = LinearOperator.derivative({0: 1}, at=towards(1)) - LinearOperator.derivative({1: 1}, at=towards(0))
    assert_allclose(result.apply(divergence, rows), 0.0, atol=1e-9)
    assert_allclose(result.apply(turning, rows), 2.0, atol=0.3)


def test_what_makes_no_field_is_refused():
    with pytest.raises(DeclarationError, match="has no derivatives: it has a kink"):
        CurlFree(Laplacian(1.0))
    with pytest.raises(DeclarationError, match="received 'rbf'"):
        DivergenceFree("rbf")
    with pytest.raises(DeclarationError, match="made of a kernel of points, received Precomputed"):
        Separable(Precomputed(), ((1.0,),))
    with pytest.raises(DataError, match="received 3 columns"):
        CurlFree(RBF(1.0))(np.zeros((2, 3)))
    with pytest.raises(DataError, match="two columns at least"):
        DivergenceFree(RBF(1.0))(np.zeros((2, 2)))
    with pytest.raises(DataError, match="the last 2 columns being the direction"):
        Separable(RBF(1.0), ((1.0, 0.0), (0.0, 1.0)))(np.zeros((2, 2)))
    with pytest.raises(DeclarationError, match="smallest eigenvalue is -1"):
        Separable(RBF(1.0), ((1.0, 2.0), (2.0, 1.0)))
    with pytest.raises(DeclarationError, match="square symmetric"):
        Separable(RBF(1.0), ((1.0, 2.0), (0.0, 1.0)))
    rough = CurlFree(Matern(1.0, 1.5))
    assert np.isfinite(rough(np.ones((2, 4)))).all()
    with pytest.raises(DeclarationError, match="first derivatives only"):
        rough.derivative(np.ones((2, 4)), np.ones((2, 4)), {0: 1})
    with pytest.raises(DeclarationError, match="search over a grid"):
        CurlFree(RBF(1.0)).scale_gradient(np.ones((2, 4)), np.ones((2, 4)), np.ones((2, 2)))
    with pytest.raises(DeclarationError, match="n_components"):
        component_rows([[1.0]], 0)
    flint = pytest.importorskip("flint")
    with pytest.raises(DeclarationError, match="in double precision only"):  # a root has no derivative where x = z
        CurlFree(Matern(1.0, 2.5)).exact_formula(flint.arb, 4)([flint.arb(0.5)] * 4, [flint.arb(0.5)] * 4)
    assert DivergenceFree(RBF("median")).resolved(np.random.default_rng(0).normal(size=(9, 4))).kernel.sigma > 0.0
    assert np.linalg.eigvalsh(CurlFree(Linear())(np.random.default_rng(0).normal(size=(9, 4))))[0] > -1e-12
