"""Kernels from elsewhere: names, callables, scikit-learn objects; and callables that misbehave."""

import numpy as np
import pytest
from kernel_examples import cauchy
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from substrate.errors import DataError, DeclarationError
from substrate.kernels import RBF, Foreign, Laplacian, Linear, Matern, Polynomial, Precomputed, as_kernel
from substrate.operators import Gram

X = np.random.default_rng(8).normal(size=(150, 2))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("rbf", RBF()),
        ("linear", Linear()),
        ("polynomial", Polynomial()),
        ("laplacian", Laplacian()),
        ("matern", Matern()),
        ("precomputed", Precomputed()),
    ],
)
def test_a_name_means_the_default_kernel(name, kernel):
    assert as_kernel(name) == kernel


def test_a_callable_equals_what_it_computes():
    assert_allclose(as_kernel(rbf_kernel)(X), rbf_kernel(X), rtol=1e-12)
    assert_array_equal(as_kernel(cauchy).diag(X), np.ones(150))
    assert repr(as_kernel(cauchy)) == "cauchy"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DeclarationError, match=r"unknown kernel name 'gauss'; known are \['laplacian', 'linear'"):
        as_kernel("gauss")


def broken(A, B):
    raise KeyError("no such table")


def transposed(A, B):
    return np.ones((B.shape[0] + 1, A.shape[0]))


def pair_only(A, B):
    return 1.0


def poisoned(A, B):
    K = cauchy(A, B)
    K[0, 0] = np.nan
    return K


def endless(A, B):
    return np.full((A.shape[0], B.shape[0]), np.inf)


uses = pytest.mark.parametrize(
    "use",
    [
        lambda kernel: kernel(X),
        lambda kernel: kernel(X, X[:3]),
        lambda kernel: kernel.diag(X),
        lambda kernel: Gram.of(2.0 * kernel + Linear(), X),
    ],
    ids=["square", "rectangle", "diag", "gram"],
)


@uses
def test_a_callable_that_raises_is_named_and_its_error_chained(use):
    with pytest.raises(
        DataError, match=r"the kernel broken raised KeyError on points of shapes .*no such table"
    ) as caught:
        use(Foreign(broken))
    assert isinstance(caught.value.__cause__, KeyError)


@uses
@pytest.mark.parametrize("function", [transposed, pair_only], ids=lambda function: function.__name__)
def test_a_callable_that_returns_the_wrong_shape_is_named_with_both_shapes(use, function):
    with pytest.raises(
        DataError, match=rf"the kernel {function.__name__} must return a matrix of shape \(\d+, \d+\) .*received \("
    ):
        use(Foreign(function))


@uses
@pytest.mark.parametrize("function", [poisoned, endless], ids=lambda function: function.__name__)
def test_a_callable_that_returns_nan_or_infinity_is_named(use, function):
    with pytest.raises(DataError, match=rf"the kernel {function.__name__} returned NaN or infinity"):
        use(Foreign(function))


def test_an_interruption_is_not_swallowed():
    def interrupted(A, B):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Foreign(interrupted)(X)
