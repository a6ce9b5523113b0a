"""Componentwise kernels: three spellings of one sum over columns."""

import naive_kernels as naive
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.errors import DeclarationError
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


def test_it_is_the_sum_over_columns_bit_by_bit():
    total = np.zeros((8, 8))
    for part in Componentwise(RBF(1.5)).components(3):
        total += part(X, X)
    assert_array_equal(Componentwise(RBF(1.5))(X, X), total)
