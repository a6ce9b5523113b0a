"""The parameters of single kernels: what is refused."""

import numpy as np
import pytest
import scipy.sparse

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Linear, Matern, Polynomial

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


# ---- degree and offset ---------------------------------------------------------------------------


def test_a_negative_offset_is_refused_with_the_reason():
    with pytest.raises(DeclarationError, match="offset must be >= 0 to keep the kernel positive semi-definite"):
        Polynomial(2, -0.1)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(3)], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_an_overflow_is_refused_rather_than_passed_on(kernel, form):
    with pytest.raises(DataError, match=r"overflows on these points; scale X first"):
        kernel(form(X * 1e200))
