"""Componentwise kernels: three spellings of one sum over columns."""

import naive_kernels as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Componentwise, Linear, Precomputed, Sum

X = np.random.default_rng(4).normal(size=(8, 3))


def test_three_spellings_are_one_kernel():
    one = Componentwise(RBF(1.5))
    listed = Componentwise([RBF(1.5), RBF(1.5), RBF(1.5)])
    named = Componentwise({0: RBF(1.5), 1: RBF(1.5), 2: RBF(1.5)})
    assert listed == named
    assert hash(listed) == hash(named)
    assert one.components(3) == listed.components(3) == named.components(3)
    oracle = naive.matrix(naive.total(*(naive.on(naive.rbf(1.5), c) for c in range(3))), X, X)
    for kernel in (one, listed, named):
        assert_allclose(kernel(X), oracle, rtol=1e-13)


@pytest.mark.parametrize(
    "kernel",
    [
        Componentwise([RBF(1.0).on(0), RBF(2.0).on(0)]),
        Componentwise([RBF(1.0).on(0, 1), Linear().on(0, 1)]),
        Componentwise({0: RBF(1.0).on(0), 1: Linear().on(0)}),
        Componentwise({2: RBF(1.0)}),
        Componentwise({1: RBF(1.0), 0: Linear()}),
        Componentwise(2.0 * RBF(1.0) + Linear()),
        Componentwise([2.0 * RBF(1.0), RBF(1.0) + Linear()]),
        Componentwise(RBF(1.0), order=2),
        Componentwise({1: RBF(1.0), (0, 2): Linear()}, order=2),
    ],
    ids=repr,
)
def test_repr_makes_the_same_kernel_also_where_columns_repeat(kernel):
    again = eval(repr(kernel))
    assert again == kernel
    assert_array_equal(again(X), kernel(X))


@pytest.mark.parametrize("given", [3, "rbf", None, RBF], ids=repr)
def test_anything_else_is_refused(given):
    with pytest.raises(DeclarationError, match="Componentwise takes a kernel, a list of kernels or a mapping"):
        Componentwise(given)


def test_a_precomputed_matrix_has_no_components():
    for given in (Precomputed(), Sum(Linear(), Precomputed())):
        with pytest.raises(DeclarationError, match="a precomputed matrix has no inputs"):
            Componentwise(given)
    with pytest.raises(DeclarationError, match="a precomputed matrix has no input columns"):
        Componentwise([Precomputed()])


def test_the_first_order_is_the_sum_over_columns_bit_by_bit():
    assert Componentwise(RBF(1.5), order=1) == Componentwise(RBF(1.5))
    assert repr(Componentwise(RBF(1.5), order=1)) == "Componentwise(RBF(sigma=1.5))"
    total = np.zeros((8, 8))
    for part in Componentwise(RBF(1.5)).components(3):
        total += part(X, X)
    assert_array_equal(Componentwise(RBF(1.5))(X, X), total)


@pytest.mark.parametrize("order", [2, 3])
def test_the_components_of_an_order_are_all_products_up_to_it(order):
    kernel = Componentwise(RBF(1.5) + Linear(), order=order)
    parts = kernel.components(3)
    assert len(parts) == (6 if order == 2 else 7)
    assert [part.columns for part in parts[:6]] == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    single = [part(X) for part in parts[:3]]
    assert_allclose(parts[4](X), single[0] * single[2], rtol=1e-14)
    for values, terms in ((kernel(X), [part(X) for part in parts]), (kernel.diag(X), [part.diag(X) for part in parts])):
        assert_allclose(values, sum(terms), rtol=1e-13)
    assert_allclose(kernel.enclose(X, X).midpoint, kernel(X), rtol=1e-12)


@pytest.mark.parametrize("order", [0, -1, True, 2.0, "2", None], ids=repr)
def test_an_order_is_a_positive_integer(order):
    with pytest.raises(DeclarationError, match="order must be an integer >= 1"):
        Componentwise(RBF(1.0), order=order)


def test_an_order_beyond_the_columns_is_refused():
    with pytest.raises(DataError, match="number of columns in a product, and there are 3; use order=3 or less"):
        Componentwise(RBF(1.0), order=4)(X)
    with pytest.raises(DeclarationError, match="number of components in a product, and there are 2"):
        Componentwise([RBF(1.0), Linear()], order=3)
    with pytest.raises(DeclarationError, match="has a column twice"):
        Componentwise({0: RBF(1.0), (0, 1): Linear()}, order=2)
