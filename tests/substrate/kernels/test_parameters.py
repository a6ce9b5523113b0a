"""The parameters of single kernels: what is refused, and the median width."""

import naive_kernels as naive
import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError, SubstrateError
from substrate.kernels import RBF, Componentwise, Laplacian, Linear, Matern, Polynomial, Precomputed
from substrate.kernels.widths import median_distance

WIDTHS = [RBF, Laplacian, Matern]
with_width = pytest.mark.parametrize("kernel", WIDTHS, ids=lambda kernel: kernel.__name__)
X = np.random.default_rng(2).normal(size=(25, 3))


# ---- widths --------------------------------------------------------------------------------------


@with_width
@pytest.mark.parametrize("sigma", [0, 0.0, -1.0, np.nan, np.inf, -np.inf, np.float64(-2)], ids=repr)
def test_a_width_that_is_not_positive_is_refused(kernel, sigma):
    with pytest.raises(DeclarationError, match=r"sigma must be positive and finite, received") as caught:
        kernel(sigma)
    assert repr(sigma) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@with_width
@pytest.mark.parametrize("sigma", [True, None, 1j, {1.0}, np.bool_(True)], ids=repr)
def test_a_width_that_is_not_a_number_is_refused(kernel, sigma):
    with pytest.raises(DeclarationError, match="sigma must be a positive number, received"):
        kernel(sigma)


@with_width
@pytest.mark.parametrize("sigma", ["mean", "Median", "1.0", ""], ids=repr)
def test_a_width_in_words_is_a_rule_or_nothing(kernel, sigma):
    match = r"sigma must be a positive number, one per column, 'median' or 'each', received"
    with pytest.raises(DeclarationError, match=match):
        kernel(sigma)


@with_width
def test_a_width_too_large_for_a_float_is_refused_like_any_other(kernel):
    with pytest.raises(SubstrateError, match="sigma"):
        kernel(10**400)


@with_width
@pytest.mark.parametrize("sigma", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)], ids=repr)
def test_every_real_number_type_is_a_width(kernel, sigma):
    assert kernel(sigma) == kernel(2.0)
    assert_allclose(kernel(sigma)(X), kernel(2.0)(X), rtol=1e-15)


@pytest.mark.parametrize("nu", [0.0, -0.5, np.nan, np.inf], ids=repr)
def test_a_smoothness_that_is_not_positive_is_refused(nu):
    with pytest.raises(DeclarationError, match="nu must be positive and finite, received"):
        Matern(1.0, nu)


def test_matern_of_great_smoothness_tends_to_the_rbf():
    gaps = [np.abs(Matern(1.0, nu)(X) - RBF(np.sqrt(2.0))(X)).max() for nu in (10.0, 40.0, 160.0)]
    assert gaps[0] > 2.0 * gaps[1] > 4.0 * gaps[2] > 0.0
    assert gaps[2] < 1e-2


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.5, 2.2, 2.5, 30.0])
def test_matern_is_one_at_nought_and_nought_at_infinity(nu):
    points = np.array([[0.0], [0.0], [1e-300], [1e-12], [1e5], [1e300]])
    (values,) = Matern(1.0, nu)(points, points[:1]).T
    assert np.isfinite(values).all()
    assert_allclose(values[:3], 1.0, rtol=1e-12)
    assert 0.999 < values[3] <= 1.0
    assert_allclose(values[4:], 0.0, atol=1e-300)


# ---- degree and offset ---------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [0, -1, 1.5, 2.0, "2", None, True, np.nan], ids=repr)
def test_a_degree_is_an_integer_from_one_on(degree):
    with pytest.raises(DeclarationError, match="degree must be an integer >= 1, received"):
        Polynomial(degree)


def test_a_negative_offset_is_refused_with_the_reason():
    with pytest.raises(DeclarationError, match="offset must be >= 0 to keep the kernel positive semi-definite"):
        Polynomial(2, -0.1)


@pytest.mark.parametrize("offset", [np.nan, np.inf, "1", None, True], ids=repr)
def test_an_offset_is_a_finite_number(offset):
    with pytest.raises(DeclarationError, match="offset must be a finite number >= 0, received"):
        Polynomial(2, offset)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3)], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_an_overflow_is_refused_rather_than_passed_on(kernel, form):
    with pytest.raises(DataError, match=r"overflows on these points; scale X first"):
        kernel(form(X * 1e200))


# ---- precomputed ---------------------------------------------------------------------------------


def test_a_precomputed_matrix_of_the_wrong_shape_is_refused():
    with pytest.raises(DataError, match=r"matrix of shape \(4, 4\) is expected here, received \(4, 3\)"):
        Precomputed()(np.ones((4, 3)))
    with pytest.raises(DataError, match=r"a square kernel matrix is expected, received shape \(4, 3\)"):
        Precomputed().diag(np.ones((4, 3)))


def test_precomputed_rows_of_new_points_are_passed_through():
    rows = np.arange(12.0).reshape(3, 4)
    given = Precomputed()(rows, np.eye(4))
    assert given.tolist() == rows.tolist()
    given[0, 0] = -1.0
    assert rows[0, 0] == 0.0
    with pytest.raises(DataError, match=r"shape \(3, 5\) is expected here, received \(3, 4\)"):
        Precomputed()(rows, np.eye(5))


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


def test_the_median_of_sparse_points():
    sparse = np.where(np.abs(X) < 0.5, 0.0, X)
    assert_allclose(RBF().resolved(scipy.sparse.csr_array(sparse)).sigma, naive.median_distance(sparse), rtol=1e-13)


@pytest.mark.parametrize("points", [np.full((5, 2), 3.0), np.ones((1, 2))], ids=["equal", "single"])
def test_the_median_of_one_distinct_point_is_one(points):
    assert median_distance(points) == 1.0


def test_the_median_of_many_rows_is_deterministic_and_close():
    many = np.random.default_rng(0).uniform(size=(3000, 1))
    assert median_distance(many) == median_distance(many)
    assert_allclose(median_distance(many), 1.0 - np.sqrt(0.5), rtol=0.05)  # of |u - v|, u and v uniform


@pytest.mark.parametrize("kernel", [RBF(), Laplacian(), Matern(), RBF() + Linear(), 2.0 * RBF(), RBF().on(1)], ids=repr)
def test_an_unresolved_kernel_says_how_to_resolve_it(kernel):
    for call in (lambda: kernel(X), lambda: kernel(X, X)):
        with pytest.raises(DeclarationError, match=r"sigma='median'.* depends on data; call kernel\.resolved\(X\)"):
            call()


def test_resolving_reaches_every_kernel_inside():
    kernel = 2.0 * RBF().on(0, 2) + Laplacian() * Componentwise([RBF(), Linear(), Linear()])
    resolved = kernel.resolved(X)
    assert "median" not in repr(resolved)
    assert_allclose(resolved.left.kernel.kernel.sigma, naive.median_distance(X[:, [0, 2]]), rtol=1e-13)
    assert_allclose(resolved.right.left.sigma, naive.median_distance(X, 1), rtol=1e-13)
    assert_allclose(resolved.right.right.kernel[0].kernel.sigma, naive.median_distance(X[:, [0]]), rtol=1e-13)
    assert np.isfinite(resolved(X)).all()
