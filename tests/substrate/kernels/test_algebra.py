"""The algebra of kernels: what is written is what is computed, and what would not be positive is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, Product, Scaled, Sum

X = np.random.default_rng(11).normal(size=(9, 3))
K1, K2, K3 = RBF(1.2), Linear(), Polynomial(2, 0.3)


def test_a_product_plus_a_kernel_is_not_a_sum():
    assert_allclose((K1 * K2 + K3)(X), K1(X) * K2(X) + K3(X), rtol=1e-14)
    assert_allclose((K3 + K1 * K2)(X), K1(X) * K2(X) + K3(X), rtol=1e-14)
    assert_allclose((K1 * (K2 + K3))(X), K1(X) * (K2(X) + K3(X)), rtol=1e-14)
    assert_allclose(((K1 + K2) * K3)(X), (K1(X) + K2(X)) * K3(X), rtol=1e-14)
    assert type(K1 * K2 + K3) is Sum
    assert type(K1 * (K2 + K3)) is Product


@pytest.mark.parametrize("factor", [3, 3.0, np.float64(3), np.float32(3), np.int64(3)], ids=repr)
def test_scaling_from_either_side_is_the_same_kernel(factor):
    assert factor * K1 == K1 * factor == Scaled(3.0, K1)
    assert isinstance(factor * K1, Kernel)
    assert_array_equal((factor * K1)(X), 3.0 * K1(X))
    assert repr(factor * K1) == "3.0 * RBF(sigma=1.2)"


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (K1 * K2 + K3, "RBF(sigma=1.2) * Linear() + Polynomial(degree=2, offset=0.3)"),
        (K1 * (K2 + K3), "RBF(sigma=1.2) * (Linear() + Polynomial(degree=2, offset=0.3))"),
        (K1 + (K2 + K3), "RBF(sigma=1.2) + (Linear() + Polynomial(degree=2, offset=0.3))"),
        (K1 + K2 + K3, "RBF(sigma=1.2) + Linear() + Polynomial(degree=2, offset=0.3)"),
        (2.0 * (K1 + K2), "2.0 * (RBF(sigma=1.2) + Linear())"),
        (K1 * 2.0 * K2, "2.0 * RBF(sigma=1.2) * Linear()"),
        ((K1 * K2).on(0, 2), "(RBF(sigma=1.2) * Linear()).on(0, 2)"),
        ((2.0 * K1).on(1), "(2.0 * RBF(sigma=1.2)).on(1)"),
    ],
)
def test_repr_brackets_where_the_reader_needs_it(kernel, text):
    assert repr(kernel) == text


@pytest.mark.parametrize("factor", [-1, -0.5, np.float64(-2), -1e-300], ids=repr)
def test_negative_scaling_is_refused_with_the_reason(factor):
    for build in (lambda: factor * K1, lambda: K1 * factor, lambda: Scaled(factor, K1)):
        with pytest.raises(DeclarationError, match=r"must be >= 0 to keep the kernel positive semi-definite, received"):
            build()


@pytest.mark.parametrize(
    "factor", [np.nan, np.inf, "2", None, True, 1j, [2.0], np.ones(2), 10**400], ids=lambda factor: str(factor)[:6]
)
def test_scaling_by_what_is_not_a_number_is_refused(factor):
    for build in (lambda: K1 * factor, lambda: factor * K1):
        with pytest.raises(DeclarationError, match=r"the factor of a kernel must be a finite number >= 0, received"):
            build()


@pytest.mark.parametrize("other", [1.0, None, {}], ids=repr)
def test_only_kernels_are_added(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        K1 + other
    with pytest.raises(TypeError, match="unsupported operand"):
        other + K1


def test_restriction_to_a_missing_column_names_it():
    kernel = RBF(1.0).on(0, 3)
    for call in (kernel, kernel.diag, kernel.resolved):
        with pytest.raises(
            DataError, match=r"RBF\(sigma=1.0\)\.on\(0, 3\) asks for column 3, the points have 3 columns"
        ):
            call(X)


def test_parameters_reach_through_nested_kernels():
    kernel = 2.0 * (RBF(1.0) + Laplacian(3.0).on(1)) * Linear()
    changed = kernel.with_params(
        left__factor=4.0, left__kernel__left__sigma=5.0, left__kernel__right__kernel__sigma=6.0
    )
    assert changed == 4.0 * (RBF(5.0) + Laplacian(6.0).on(1)) * Linear()
    assert kernel == 2.0 * (RBF(1.0) + Laplacian(3.0).on(1)) * Linear()
    assert kernel.get_params()["left__kernel__right__kernel__sigma"] == 3.0
    assert kernel.get_params(deep=False) == {"left": kernel.left, "right": Linear()}
