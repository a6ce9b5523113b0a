"""Widths: one, one per column, or from the data, in the kernels of a distance."""

import naive_kernels as naive
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern

WIDTHS = [RBF, Laplacian, Matern]
with_width = pytest.mark.parametrize("kernel", WIDTHS, ids=lambda kernel: kernel.__name__)
X = np.random.default_rng(2).normal(size=(25, 3))


# ---- widths --------------------------------------------------------------------------------------


@with_width
@pytest.mark.parametrize("form", [tuple, list, np.array, lambda widths: np.array(widths, dtype=object)])
def test_one_width_per_column_is_a_tuple_of_floats(kernel, form):
    made = kernel(form([2, 0.5, np.float32(1.0)]))
    assert made.sigma == (2.0, 0.5, 1.0)
    assert all(type(one) is float for one in made.sigma)
    assert made == kernel((2.0, 0.5, 1.0))
    assert hash(made) == hash(kernel((2.0, 0.5, 1.0)))
    assert kernel((2.0,)) != kernel(2.0)
    assert_allclose(kernel((2.0,))(X[:, :1]), kernel(2.0)(X[:, :1]), rtol=1e-15)


@with_width
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, True, None, "1", "median", [1.0], 1j], ids=repr)
def test_a_width_of_a_column_that_is_none_is_named(kernel, bad):
    with pytest.raises(DeclarationError, match=r"sigma\[1\] must be (a positive number|positive and finite), received"):
        kernel((1.0, bad))


@with_width
@pytest.mark.parametrize("number", [1, 2, 4])
def test_as_many_widths_as_columns(kernel, number):
    wrong = kernel((1.0,) * number)
    match = rf"the number of widths of .* is {number}, the points have 3 columns; give one width per column"
    calls = (
        lambda: wrong(X),
        lambda: wrong(X, X),
        lambda: wrong(scipy.sparse.csr_array(X)),
        lambda: wrong.diag(X),
        lambda: wrong.resolved(X),
        lambda: (2.0 * wrong + Linear()).resolved(X),
        lambda: wrong.exact_formula(float, 3),
    )
    for call in calls:
        with pytest.raises(DataError, match=match):
            call()


# ---- the median width ----------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "order"), [(RBF(), 2), (Laplacian(), 1), (Matern(), 2)], ids=repr)
@pytest.mark.parametrize("n", [2, 3, 24, 25])
def test_the_median_is_resolved_recorded_and_equals_the_naive_one(kernel, order, n):
    resolved = kernel.resolved(X[:n])
    assert_allclose(resolved.sigma, naive.median_distance(X[:n], order), rtol=1e-13)
    assert isinstance(resolved.sigma, float)
    assert repr(resolved.sigma) in repr(resolved)
    assert kernel.sigma == "median"
    assert resolved.resolved(X * 9.0) == resolved


@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern(), RBF() + Linear(), 2.0 * RBF(), RBF().on(1)], ids=repr)
def test_an_unresolved_kernel_says_how_to_resolve_it(kernel):
    for call in (lambda: kernel(X), lambda: kernel(X, X)):
        with pytest.raises(DeclarationError, match=r"sigma='median'.* depends on data; call kernel\.resolved\(X\)"):
            call()
    with pytest.raises(DeclarationError, match=r"RBF\(sigma='each'\) depends on data; call kernel\.resolved\(X\)"):
        RBF("each")(X)


# ---- a width for each column from the data -------------------------------------------------------


def each(points, order=2):
    """By hand: spreads of distinct points times the median distance of the points divided by them."""
    spreads = np.unique(points, axis=0).std(axis=0)
    return spreads * naive.median_distance(points / spreads, order)


@pytest.mark.parametrize(
    ("kernel", "order"), [(RBF("each"), 2), (Laplacian("each"), 1), (Matern("each", 2.5), 2)], ids=repr
)
@pytest.mark.parametrize("n", [2, 3, 25])
def test_a_width_for_each_column_equals_the_naive_one(kernel, order, n):
    units = np.array([1e-12, 1.0, 1e12])
    resolved = kernel.resolved(X[:n] * units)
    assert_allclose(resolved.sigma, each(X[:n] * units, order), rtol=1e-12)
    assert all(type(one) is float for one in resolved.sigma)
    assert resolved.resolved(X * 9.0) == resolved
    assert eval(repr(resolved)) == resolved
    assert kernel.sigma == "each"
    assert kernel.compared_columns(3) == resolved.compared_columns(3) == ()


@pytest.mark.parametrize("constant", [0.0, 3.0, -1e8])
def test_a_constant_column_has_no_effect_on_old_and_new_points(constant):
    wide = np.insert(X, 1, constant, axis=1)
    resolved, known = RBF("each").resolved(wide), RBF("each").resolved(X)
    assert resolved.sigma == (*known.sigma[:1], 1e100, *known.sigma[1:])
    assert_allclose(resolved(wide), known(X), rtol=1e-14)
    assert_allclose(resolved(np.insert(X, 1, 7.0, axis=1), wide), known(X, X), rtol=1e-14)
    assert_allclose(resolved.scale_gradient(wide, wide, np.ones((25, 25)))[1], 0.0)


def test_resolving_reaches_every_kernel_inside():
    kernel = 2.0 * RBF().on(0, 2) + Laplacian() * Componentwise([RBF(), Linear(), Linear()])
    resolved = kernel.resolved(X)
    assert "median" not in repr(resolved)
    assert_allclose(resolved.left.kernel.kernel.sigma, naive.median_distance(X[:, [0, 2]]), rtol=1e-13)
    assert_allclose(resolved.right.left.sigma, naive.median_distance(X, 1), rtol=1e-13)
    assert_allclose(resolved.right.right.kernel[0].kernel.sigma, naive.median_distance(X[:, [0]]), rtol=1e-13)
    assert np.isfinite(resolved(X)).all()
