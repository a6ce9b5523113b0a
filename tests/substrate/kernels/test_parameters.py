"""The parameters of single kernels: what is refused."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Matern, Polynomial, Precomputed

X = np.random.default_rng(2).normal(size=(25, 3))


# ---- smoothness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.0, -0.5, np.nan, np.inf], ids=repr)
def test_a_smoothness_that_is_not_positive_is_refused(nu):
    with pytest.raises(DeclarationError, match="nu must be positive and finite, received"):
        Matern(1.0, nu)


@pytest.mark.parametrize("nu", [0.4, 1.0, 11.5], ids=repr)
def test_a_smoothness_without_a_polynomial_is_refused(nu):
    with pytest.raises(DeclarationError, match=r"nu must be 0.5, 1.5, 2.5, .* up to 10.5, .* RBF\(sigma"):
        Matern(1.0, nu)


def test_matern_of_great_smoothness_tends_to_the_rbf():
    gaps = [np.abs(Matern(1.0, nu)(X) - RBF(np.sqrt(2.0))(X)).max() for nu in (2.5, 5.5, 10.5)]
    assert gaps[0] > 2.0 * gaps[1] > 3.0 * gaps[2] > 0.0
    assert gaps[2] < 0.05


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 10.5])
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
