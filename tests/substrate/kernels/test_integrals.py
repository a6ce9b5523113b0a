"""Integrals of kernels over boxes against quadrature in many digits, and refusals with the reason."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Symmetric

mpmath = pytest.importorskip("mpmath")

#: Boxes that are wide, short in units of the width, far away, and side by side.
BOXES = np.array(
    [[[-1.0, 2.5], [0.0, 3.0]], [[0.3, 0.3001], [-2.0, 2.0]], [[7.0, 9.5], [0.5, 0.6]], [[2.5, 4.0], [3.0, 5.0]]]
)
ONE = BOXES[:, :1]
X = np.array([[0.1, -0.4], [2.5, 1.0], [-6.0, 0.55], [0.30005, 8.0]])


def exact_interval(k, x, ends):
    """The integral of k(x, z), cut where it has a kink."""
    cuts = sorted({*map(float, ends), *(float(c) for c in (x,) if ends[0] < c < ends[1])})
    with mpmath.workdps(20):
        return mpmath.quad(lambda z: k(mpmath.mpf(float(x)), z), [mpmath.mpf(c) for c in cuts])


def outer_integral(kernel, ends, others):
    """The double integral by a fine rule on the single one, cut where that has kinks."""
    cuts = np.unique([*np.linspace(*ends, 9), *(end for end in others if ends[0] < end < ends[1])])
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * np.diff(cuts)
    points = (cuts[:-1, None] + half[:, None] * (1.0 + nodes)).ravel()
    return (half[:, None] * weights).ravel() @ kernel.integral(points[:, None], others[None])[:, 0]


def gaussian(sigma):
    return lambda x, z: mpmath.exp(-(((x - z) / sigma) ** 2))


def matern(sigma, nu):
    def value(x, z):
        s = mpmath.sqrt(2 * mpmath.mpf(nu)) * abs(x - z) / sigma
        return {0.5: 1, 1.5: 1 + s, 2.5: 1 + s + s * s / 3}[nu] * mpmath.exp(-s)

    return value


def name_of(value):
    return repr(value) if hasattr(value, "diag") else ""


FUNCTIONS = [
    (RBF(0.8), gaussian(0.8)),
    (RBF(30.0), gaussian(30.0)),
    (RBF(1e-3), gaussian(1e-3)),
    (Matern(0.7, 0.5), matern(0.7, 0.5)),
    (Matern(1.2, 1.5), matern(1.2, 1.5)),
    (Matern(0.9, 2.5), matern(0.9, 2.5)),
    (Laplacian(0.6), matern(0.6, 0.5)),
]


@pytest.mark.parametrize(("kernel", "k"), FUNCTIONS, ids=name_of)
def test_integrals_over_intervals(kernel, k):
    exact = np.array([[float(exact_interval(k, x, ends[0])) for ends in ONE] for x in X[:, 0]])
    found = kernel.integral(X[:, :1], ONE)
    scale = np.sqrt(np.diag(kernel.double_integral(ONE, ONE)))
    assert_allclose(found, exact, rtol=1e-12, atol=1e-14 * scale.max())
    assert (np.abs(found - exact) <= 1e-13 * scale + 1e-300).all()


@pytest.mark.parametrize("kernel", [kernel for kernel, _ in FUNCTIONS if kernel != RBF(1e-3)], ids=repr)
def test_double_integrals_over_intervals(kernel):
    found = kernel.double_integral(ONE, ONE)
    scale = np.sqrt(np.outer(np.diag(found), np.diag(found)))
    expected = [[outer_integral(kernel, ends[0], others[0]) for others in ONE] for ends in ONE]
    assert (np.abs(found - expected) <= 1e-12 * scale).all()
    assert_allclose(found, found.T, rtol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.8), RBF((0.5, 2.0)), Polynomial(3, 0.5), Linear()], ids=repr)
def test_integrals_over_boxes_are_those_of_a_fine_rule(kernel):
    """By 20 points of Gauss in each of four pieces of every column: all digits, by another way."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    for b, box in enumerate(BOXES):
        axes, masses = [], []
        for low, high in box:
            edges = np.linspace(low, high, 5)
            half = 0.5 * np.diff(edges)
            axes.append((edges[:-1, None] + half[:, None] * (1.0 + nodes)).ravel())
            masses.append((half[:, None] * weights).ravel())
        grid = np.array(list(product(*axes)))
        mass = np.multiply.outer(*masses).ravel()
        for orders in ({}, {0: 1}, {0: 1, 1: 1}, {1: 2}):
            expected = kernel.derivative(X, grid, orders) @ mass
            found = kernel.integral(X, BOXES[b], orders)[:, 0]
            assert_allclose(found, expected, rtol=1e-11, atol=1e-13 * np.abs(mass).sum() * (1 + np.abs(expected).max()))
        inner = kernel.integral(grid, BOXES)
        assert_allclose(kernel.double_integral(BOXES[b], BOXES)[0], mass @ inner, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.0) + 0.5 * Linear(),
        Componentwise(RBF(0.8)),
        Componentwise({0: Matern(1.0, 1.5), 1: RBF(0.5)}),
        RBF(0.7).on(1),
        RBF(0.7).on(0) * Matern(1.1, 2.5).on(1),
    ],
    ids=repr,
)
def test_composed_kernels_have_the_integrals_of_their_parts(kernel):
    """Against a rule on the values, which have kinks: to a few digits."""
    edges = [np.linspace(low, high, 101) for low, high in BOXES[0]]
    middles = [0.5 * (edge[1:] + edge[:-1]) for edge in edges]
    grid = np.array(list(product(*middles)))
    cell = np.prod([edge[1] - edge[0] for edge in edges])
    for orders in ({}, {1: 1}):
        expected = kernel.derivative(X[:3], grid, orders).sum(axis=1) * cell
        assert_allclose(kernel.integral(X[:3], BOXES[0], orders)[:, 0], expected, rtol=2e-3, atol=2e-3)
    expected = kernel.integral(grid, BOXES[3])[:, 0].sum() * cell
    assert_allclose(kernel.double_integral(BOXES[0], BOXES[3])[0, 0], expected, rtol=2e-3)


def test_what_has_no_integral_is_refused_with_the_reason():
    for kernel in (Symmetric(RBF(1.0), "even"), Laplacian(1.0) * Linear(), RBF(1.0) * Linear()):
        with pytest.raises(DeclarationError, match="has no integrals over boxes in closed form: "):
            kernel.integral(X, BOXES)
    with pytest.raises(DeclarationError, match="intervals of one column, not over boxes of 2"):
        Matern(1.0, 1.5).integral(X, BOXES)
    with pytest.raises(DataError, match=r"expected shape \(2, 2\), received \(1, 2\)"):
        RBF(1.0).integral(X, ONE)
    with pytest.raises(DataError, match="below its upper end"):
        RBF(1.0).integral(X, BOXES[:, :, ::-1])
    with pytest.raises(DeclarationError, match="kink"):
        Laplacian(1.0).integral(X, BOXES, {0: 1})
    with pytest.raises(DeclarationError, match="needs 251001 points"):
        Polynomial(1000, 1.0).double_integral(BOXES, BOXES)
