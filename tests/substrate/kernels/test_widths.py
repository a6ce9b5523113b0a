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
@pytest.mark.parametrize("sigma", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)], ids=repr)
def test_every_real_number_type_is_a_width(kernel, sigma):
    assert kernel(sigma) == kernel(2.0)
    assert_allclose(kernel(sigma)(X), kernel(2.0)(X), rtol=1e-15)


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
def test_widths_of_a_table_are_taken_and_a_mask_is_not_lost(kernel):
    pandas = pytest.importorskip("pandas")
    assert kernel(pandas.DataFrame(X).std()).sigma == tuple(pandas.DataFrame(X).std())
    with pytest.raises(DeclarationError, match=r"sigma\[1\] must be a positive number, received masked"):
        kernel(np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]))


@with_width
@pytest.mark.parametrize("none", [(), [], np.zeros(0)], ids=repr)
def test_no_widths_are_refused(kernel, none):
    with pytest.raises(DeclarationError, match=r"sigma must be a positive number or one per column, received .*empty"):
        kernel(none)


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


def test_the_median_is_over_distinct_points():
    doubled = np.repeat(X, 3, axis=0)
    assert_allclose(RBF().resolved(doubled).sigma, naive.median_distance(X), rtol=1e-13)


@pytest.mark.parametrize("factor", [1e-150, 1e-8, 1e8, 1e150, 1e300])
def test_the_median_scales_with_the_points(factor):
    assert_allclose(RBF().resolved(factor * X).sigma / factor, naive.median_distance(X), rtol=1e-12)


def test_the_median_does_not_see_an_offset():
    grid = np.round(X * 1024.0) / 1024.0
    assert_allclose(RBF().resolved(grid + 1e8).sigma, naive.median_distance(grid), rtol=1e-13)


@pytest.mark.parametrize("points", [np.full((5, 2), 3.0), np.ones((1, 2))], ids=["equal", "single"])
def test_the_median_of_one_distinct_point_is_one(points):
    assert RBF().resolved(points).sigma == 1.0


def test_the_median_of_many_rows_is_deterministic_and_close():
    many = np.random.default_rng(0).uniform(size=(3000, 1))
    assert RBF().resolved(many) == RBF().resolved(many)
    assert_allclose(RBF().resolved(many).sigma, 1.0 - np.sqrt(0.5), rtol=0.05)  # of |u - v|, u and v uniform


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


def test_one_width_of_the_components_compares_their_columns():
    assert Componentwise(RBF((0.5,))).compared_columns(3) == Componentwise(RBF(0.5)).compared_columns(3) == ((0, 1, 2),)
    assert Componentwise([RBF((0.5,)), RBF((2.0,))]).compared_columns(2) == Componentwise(RBF("each")).compared_columns(
        2
    )
    assert Componentwise(RBF("each")).compared_columns(2) == ()


@pytest.mark.parametrize("power", [-1000, -40, 3, 900])
def test_units_of_powers_of_two_change_no_bit_of_each_width(power):
    units = 2.0 ** np.array([0, power, -power])
    known = np.array(RBF("each").resolved(X).sigma)
    assert (np.array(RBF("each").resolved(X * units).sigma) / units == known).all()


def test_each_width_does_not_see_an_offset_the_order_of_rows_or_repeated_rows():
    grid = np.round(X * 1024.0) / 1024.0
    known = RBF("each").resolved(grid)
    assert_allclose(RBF("each").resolved(grid + 1e8).sigma, known.sigma, rtol=1e-12)
    assert RBF("each").resolved(grid[::-1]) == known
    assert RBF("each").resolved(np.repeat(grid, 3, axis=0)) == known
    assert RBF("each").resolved(scipy.sparse.csr_array(grid)) == known


@pytest.mark.parametrize("constant", [0.0, 3.0, -1e8])
def test_a_constant_column_has_no_effect_on_old_and_new_points(constant):
    wide = np.insert(X, 1, constant, axis=1)
    resolved, known = RBF("each").resolved(wide), RBF("each").resolved(X)
    assert resolved.sigma == (*known.sigma[:1], 1e100, *known.sigma[1:])
    assert_allclose(resolved(wide), known(X), rtol=1e-14)
    assert_allclose(resolved(np.insert(X, 1, 7.0, axis=1), wide), known(X, X), rtol=1e-14)
    assert_allclose(resolved.scale_gradient(wide, wide, np.ones((25, 25)))[1], 0.0)


@pytest.mark.parametrize("points", [np.full((5, 2), 3.0), np.ones((1, 2))], ids=["equal", "single"])
def test_each_width_of_one_distinct_point_has_no_effect(points):
    resolved = Matern("each").resolved(points)
    assert resolved.sigma == (1e100, 1e100)
    assert (resolved(points) == 1.0).all()


def test_resolving_reaches_every_kernel_inside():
    kernel = 2.0 * RBF().on(0, 2) + Laplacian() * Componentwise([RBF(), Linear(), Linear()])
    resolved = kernel.resolved(X)
    assert "median" not in repr(resolved)
    assert_allclose(resolved.left.kernel.kernel.sigma, naive.median_distance(X[:, [0, 2]]), rtol=1e-13)
    assert_allclose(resolved.right.left.sigma, naive.median_distance(X, 1), rtol=1e-13)
    assert_allclose(resolved.right.right.kernel[0].kernel.sigma, naive.median_distance(X[:, [0]]), rtol=1e-13)
    assert np.isfinite(resolved(X)).all()


def test_rare_entries_of_very_many_sparse_rows_are_seen(monkeypatch):
    many = scipy.sparse.random_array((3000, 3), density=0.4, rng=np.random.default_rng(2)).tolil()
    many[:, 1] = 0.0
    many[7, 1] = 5.0
    many[:, 2] = 0.0
    known = RBF("each").resolved(many).sigma
    monkeypatch.setattr("substrate.kernels.of_distance.MOST_DENSE", 100)
    found = RBF("each").resolved(many).sigma
    assert_allclose(found[:2], known[:2], rtol=0.5)  # of all rows, and of distinct ones: both see the rare entry
    assert found[2] == known[2] == 1e100
