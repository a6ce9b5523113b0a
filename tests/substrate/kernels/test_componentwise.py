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


def test_the_matrix_is_the_sum_of_the_components():
    kernel = Componentwise({(0, 2): RBF(1.0), 1: Linear()})
    parts = kernel.components(3)
    assert parts == (RBF(1.0).on(0, 2), Linear().on(1))
    assert_allclose(kernel(X), sum(part(X) for part in parts), rtol=1e-14)
    assert_allclose(kernel.diag(X), sum(part.diag(X) for part in parts), rtol=1e-14)


def test_an_additive_kernel_ignores_a_column_nobody_names():
    changed = X.copy()
    changed[:, 2] += 10.0
    kernel = Componentwise([RBF(1.0), Linear()])
    assert_array_equal(kernel(X), kernel(changed))


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


def test_each_component_takes_its_own_median():
    spread = X * np.array([1.0, 100.0, 0.01])
    resolved = Componentwise(RBF()).resolved(spread)
    widths = [part.kernel.sigma for part in resolved.components(3)]
    assert_allclose(widths, [naive.median_distance(spread[:, [c]]) for c in range(3)], rtol=1e-13)
    assert resolved.resolved(spread) == resolved


def test_more_kernels_than_columns_are_refused():
    with pytest.raises(DataError, match="names 4 columns, the points have 3"):
        Componentwise([Linear()] * 4)(X)
    with pytest.raises(DataError, match="asks for column 5, the points have 3 columns"):
        Componentwise({5: Linear()})(X)


@pytest.mark.parametrize("given", [3, "rbf", None, RBF], ids=repr)
def test_anything_else_is_refused(given):
    with pytest.raises(DeclarationError, match="Componentwise takes a kernel, a list of kernels or a mapping"):
        Componentwise(given)


@pytest.mark.parametrize("given", [[], {}, ()], ids=repr)
def test_no_component_is_refused(given):
    with pytest.raises(DeclarationError, match="at least one component"):
        Componentwise(given)


def test_a_precomputed_matrix_has_no_components():
    for given in (Precomputed(), Sum(Linear(), Precomputed())):
        with pytest.raises(DeclarationError, match="a precomputed matrix has no inputs"):
            Componentwise(given)
    with pytest.raises(DeclarationError, match="a precomputed matrix has no input columns"):
        Componentwise([Precomputed()])


def test_scales_matter_where_one_width_serves_several_columns():
    assert Componentwise(RBF(1.0)).compared_columns(3) == ((0, 1, 2),)
    assert Componentwise(RBF("median")).compared_columns(3) == ()
    assert Componentwise({(0, 2): RBF(1.0)}).compared_columns(3) == ((0, 2),)
    assert Componentwise([RBF(1.0), RBF(2.0)]).compared_columns(2) == ((0,), (1,))


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


def test_a_width_from_the_data_is_that_of_the_column_in_all_its_products():
    spread = X * np.array([1.0, 1e6, 1e-6])
    resolved = Componentwise(RBF(), order=2).resolved(spread)
    assert resolved == Componentwise([part.kernel for part in Componentwise(RBF()).resolved(spread).components(3)], 2)
    assert_allclose(resolved(spread), Componentwise(RBF(), order=2).resolved(X)(X), rtol=1e-9)


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


def test_so_many_components_are_not_listed():
    with pytest.raises(DataError, match="a list of 2368906509390 components needs"):
        Componentwise(Linear(), order=7).components(200)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("given", [RBF(1.3), [RBF(1.0), 2.0 * RBF(0.7), Linear()]], ids=["one", "list"])
def test_slopes_in_the_scales_of_an_order(given, order):
    W = np.random.default_rng(1).normal(size=(8, 8))
    kernel = Componentwise(given, order=order)
    assert_allclose(kernel.scale_gradient(X, X, W), _differences(kernel, W), atol=1e-7)


def _differences(kernel, W, step=1e-5):
    """Central differences in the logarithm of every scale."""
    slopes = []
    for name, value in kernel.scales().items():
        up, down = (kernel.with_scales({name: value * np.exp(move)})(X, X) for move in (step, -step))
        slopes.append(np.vdot(W, up - down) / (2.0 * step))
    return slopes
