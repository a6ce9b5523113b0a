"""The algebra of kernels: what is written is what is computed, and what would not be positive is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Kernel, Laplacian, Linear, Polynomial, Precomputed, Product, Restricted, Scaled, Sum

X = np.random.default_rng(11).normal(size=(9, 3))
K1, K2, K3 = RBF(1.2), Linear(), Polynomial(2, 0.3)


def test_a_product_plus_a_kernel_is_not_a_sum():
    assert_allclose((K1 * K2 + K3)(X), K1(X) * K2(X) + K3(X), rtol=1e-14)
    assert_allclose((K3 + K1 * K2)(X), K1(X) * K2(X) + K3(X), rtol=1e-14)
    assert_allclose((K1 * (K2 + K3))(X), K1(X) * (K2(X) + K3(X)), rtol=1e-14)
    assert_allclose(((K1 + K2) * K3)(X), (K1(X) + K2(X)) * K3(X), rtol=1e-14)
    assert type(K1 * K2 + K3) is Sum
    assert type(K1 * (K2 + K3)) is Product


def test_mixed_algebra_between_two_point_sets():
    Z = X[:4] + 0.5
    assert_allclose((2.0 * K1 * K2 + K3)(X, Z), 2.0 * K1(X, Z) * K2(X, Z) + K3(X, Z), rtol=1e-14)


@pytest.mark.parametrize("factor", [3, 3.0, np.float64(3), np.float32(3), np.int64(3)], ids=repr)
def test_scaling_from_either_side_is_the_same_kernel(factor):
    assert factor * K1 == K1 * factor == Scaled(3.0, K1)
    assert isinstance(factor * K1, Kernel)
    assert_array_equal((factor * K1)(X), 3.0 * K1(X))
    assert repr(factor * K1) == "3.0 * RBF(sigma=1.2)"


def test_a_factor_of_nought_gives_the_nought_matrix():
    assert_array_equal((0.0 * K1)(X), np.zeros((9, 9)))


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


@pytest.mark.parametrize("node", [Sum, Product])
def test_a_node_joins_two_kernels(node):
    with pytest.raises(DeclarationError, match=f"{node.__name__} is made of other kernels, received"):
        node(K1, 2.0)


def test_only_a_kernel_is_restricted():
    with pytest.raises(DeclarationError, match="Restricted is made of other kernels, received 'rbf'"):
        Restricted("rbf", (0,))
    with pytest.raises(DeclarationError, match="a precomputed matrix has no input columns"):
        Precomputed().on(0)


def test_restriction_to_a_missing_column_names_it():
    kernel = RBF(1.0).on(0, 3)
    for call in (kernel, kernel.diag, kernel.resolved):
        with pytest.raises(
            DataError, match=r"RBF\(sigma=1.0\)\.on\(0, 3\) asks for column 3, the points have 3 columns"
        ):
            call(X)


@pytest.mark.parametrize("columns", [(), (-1,), (0, 0)], ids=repr)
def test_columns_are_distinct_and_not_negative(columns):
    with pytest.raises(DeclarationError, match="columns must be distinct and non-negative, at least one; received"):
        RBF(1.0).on(*columns)


@pytest.mark.parametrize("columns", [(0.5,), ("a",), (None,)], ids=repr)
def test_columns_are_integers(columns):
    with pytest.raises(DeclarationError, match="columns are integers, received"):
        RBF(1.0).on(*columns)


def test_parameters_reach_through_nested_kernels():
    kernel = 2.0 * (RBF(1.0) + Laplacian(3.0).on(1)) * Linear()
    changed = kernel.with_params(
        left__factor=4.0, left__kernel__left__sigma=5.0, left__kernel__right__kernel__sigma=6.0
    )
    assert changed == 4.0 * (RBF(5.0) + Laplacian(6.0).on(1)) * Linear()
    assert kernel == 2.0 * (RBF(1.0) + Laplacian(3.0).on(1)) * Linear()
    assert kernel.get_params()["left__kernel__right__kernel__sigma"] == 3.0
    assert kernel.get_params(deep=False) == {"left": kernel.left, "right": Linear()}


def test_a_replaced_kernel_and_its_own_parameter_are_taken_together():
    kernel = RBF(1.0) + Linear()
    assert kernel.with_params(right=Laplacian(1.0), right__sigma=7.0) == RBF(1.0) + Laplacian(7.0)


def test_new_parameters_are_checked_like_the_first_ones():
    with pytest.raises(DeclarationError, match="sigma must be positive and finite, received -1"):
        (RBF(1.0) + Linear()).with_params(left__sigma=-1)
    with pytest.raises(DeclarationError, match=r"'sigma' of RBF\(sigma=1.0\) is not a kernel"):
        RBF(1.0).with_params(sigma__inner=2.0)


def test_a_product_with_a_precomputed_matrix_is_exactly_symmetric():
    K = (Precomputed() * RBF(1.0))(RBF(1.0)(np.random.default_rng(0).normal(size=(30, 3))))
    assert_array_equal(K, K.T)


def test_scale_matters_where_distances_are_compared_over_several_columns():
    assert RBF(1.0).compared_columns(3) == ((0, 1, 2),)
    assert (2.0 * RBF(1.0) + Linear()).compared_columns(2) == ((0, 1),)
    assert RBF(1.0).on(1).compared_columns(3) == ((1,),)
    assert (RBF(1.0).on(1, 2) * RBF(2.0).on(0, 3)).compared_columns(4) == ((1, 2), (0, 3))
    assert (Linear() * Polynomial()).compared_columns(3) == ()
