"""Laws that every kernel obeys, over all classes found by walking the package."""

import copy
import dataclasses
import importlib
import pickle
import pkgutil

import numpy as np
import pytest
import scipy.sparse
from kernel_examples import ALL, EXAMPLES, cauchy, columns_for, concrete_kernels
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import substrate.kernels
from substrate.errors import DataError, DeclarationError
from substrate.kernels import Kernel, as_kernel

NAMES = {name: getattr(substrate.kernels, name) for name in substrate.kernels.__all__} | {"cauchy": cauchy}
ON_POINTS = [example for example in ALL if not example.kernel.pairwise]

every = pytest.mark.parametrize("example", ALL, ids=str)
every_on_points = pytest.mark.parametrize("example", ON_POINTS, ids=str)


def test_every_kernel_class_has_an_example():
    for module in pkgutil.walk_packages(substrate.kernels.__path__, "substrate.kernels."):
        importlib.import_module(module.name)
    assert concrete_kernels() == set(EXAMPLES)


def test_every_kernel_class_is_exported():
    assert {cls.__name__ for cls in concrete_kernels()} <= set(substrate.kernels.__all__)


@every_on_points
def test_rectangular_matrix_equals_the_naive_double_loop(example):
    X, Z, r = example.points(7), example.points(5, seed=1), example.rounding
    naive = example.naive(X, Z)
    assert example.kernel(X, Z).shape == (7, 5)
    assert_allclose(example.kernel(X, Z), naive, rtol=2e-12 * r, atol=1e-13 * r * np.abs(naive).max())


@every
@pytest.mark.parametrize("n", [1, 2, 40, 300])
@pytest.mark.covering
def test_matrix_is_exactly_symmetric(example, n):
    K = example.kernel(example.points(n))
    assert_array_equal(K, K.T)


@every
def test_matrix_is_positive_semi_definite_up_to_rounding(example):
    """:equation [Suykens2002]_ (7): every kernel here meets it on points."""
    X = example.points(40)
    if not example.kernel.pairwise:
        X[20:] = X[:20]
    values = np.linalg.eigvalsh(example.kernel(X))
    assert values[0] >= -10 * 40 * example.rounding * np.finfo(float).eps * values[-1]


@every
def test_diag_is_the_diagonal_of_the_matrix(example):
    X, r = example.points(70), example.rounding
    diag = example.kernel.diag(X)
    assert diag.shape == (70,)
    assert_array_equal(example.kernel(X).diagonal(), diag)
    if not example.kernel.pairwise:
        assert_allclose(example.kernel(X, X).diagonal(), diag, rtol=1e-12 * r, atol=1e-13 * r)


@every
@pytest.mark.parametrize("n", [65, 257])
@pytest.mark.covering
def test_blocks_join_without_seams(example, n):
    X, r = example.points(n, seed=n), example.rounding
    whole = np.empty((n, n))
    example.kernel.fill(X, X, whole)
    K = example.kernel(X)
    assert_allclose(K, whole, rtol=1e-12 * r, atol=1e-13 * r * np.abs(whole).max())
    if not example.kernel.pairwise:
        part, largest = example.kernel(X, X[:100]), np.abs(whole).max()
        assert_allclose(part, whole[:, :100], rtol=1e-12 * r, atol=1e-13 * r * largest)
        seams = [i for i in (0, 63, 64, 65, 255, 256, 257, n - 1) if i < n]
        naive = example.naive(X[seams], X[seams])
        assert_allclose(K[np.ix_(seams, seams)], naive, rtol=2e-12 * r, atol=1e-13 * r * np.abs(naive).max())


@every_on_points
@pytest.mark.parametrize("form", ["csr_matrix", "csr_array", "csc_array", "coo_matrix"])
@pytest.mark.covering
def test_sparse_points_give_what_dense_points_give(example, form):
    X, Z, r = example.points(30), example.points(20, seed=3), example.rounding
    X[np.abs(X) < 0.6] = 0.0
    Z[np.abs(Z) < 0.6] = 0.0
    make = getattr(scipy.sparse, form)
    dense = example.kernel(X, Z)
    scale = np.abs(dense).max()
    for left, right in ((make(X), make(Z)), (make(X), Z), (X, make(Z))):
        assert_allclose(example.kernel(left, right), dense, rtol=1e-11 * r, atol=1e-13 * r * scale)
    K = example.kernel(make(X))
    assert_array_equal(K, K.T)
    assert_allclose(K, example.kernel(X), rtol=1e-11 * r, atol=1e-13 * r * scale)


@every_on_points
def test_points_are_not_modified_and_may_be_read_only_or_strided(example):
    X = example.points(20)
    kept = X.copy()
    plain = example.kernel(X)
    assert_array_equal(X, kept)
    X.flags.writeable = False
    assert_array_equal(example.kernel(X), plain)
    assert_array_equal(example.kernel(np.asfortranarray(X)), plain)
    wide = np.zeros((20, 2 * X.shape[1]))
    wide[:, ::2] = X
    assert_array_equal(example.kernel(wide[:, ::2]), plain)
    assert_array_equal(example.kernel(X.tolist()), plain)


@every
def test_repr_is_the_formula_that_makes_it_again(example):
    again = eval(repr(example.kernel), {}, NAMES)
    assert as_kernel(again) == example.kernel


@every
def test_kernels_are_values(example):
    kernel = example.kernel
    for twin in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel), clone(kernel), kernel.with_params()):
        assert twin == kernel
        assert hash(twin) == hash(kernel)
        assert repr(twin) == repr(kernel)
    assert len({kernel, pickle.loads(pickle.dumps(kernel))}) == 1


@every
def test_get_params_lists_every_field_and_with_params_takes_them_back(example):
    kernel = example.kernel
    shallow = kernel.get_params(deep=False)
    assert set(shallow) == {field.name for field in dataclasses.fields(kernel)}
    assert kernel.with_params(**shallow) == kernel
    deep = kernel.get_params()
    assert shallow.items() <= deep.items()
    for name, value in deep.items():
        if isinstance(value, Kernel):
            assert {f"{name}__{inner}" for inner in value.get_params()} <= set(deep)
    nested = {name: value for name, value in deep.items() if "__" in name}
    assert kernel.with_params(**nested) == kernel


@every
def test_an_unknown_parameter_is_refused_with_the_known_ones(example):
    with pytest.raises(DeclarationError, match=r"has no parameter 'wdith'; it has \["):
        example.kernel.with_params(wdith=3.0)


@every_on_points
def test_restriction_to_columns_is_the_kernel_on_those_columns(example):
    kernel = example.kernel
    wide = np.random.default_rng(5).normal(size=(9, 5))
    columns = [4, 0, 2, 1][: columns_for(kernel)]
    narrow = wide[:, columns]
    restricted = kernel.on(*columns)
    assert_allclose(restricted(wide), kernel(narrow), rtol=1e-12, atol=1e-14)
    assert_allclose(restricted(wide[:4], wide), kernel(narrow[:4], narrow), rtol=1e-12, atol=1e-14)
    assert_allclose(restricted.diag(wide), kernel.diag(narrow), rtol=1e-14)


@every_on_points
def test_points_of_different_width_are_refused(example):
    with pytest.raises(DataError, match=r"X has 3 columns and Z has 2; they must agree"):
        example.kernel(np.ones((4, 3)), np.ones((4, 2)))


@every
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.covering
def test_points_that_are_not_finite_are_refused(example, bad):
    X = example.points(4)
    X[2, 1] = bad
    with pytest.raises(DataError, match=r"X contains NaN or infinity, first at \(2, 1\)"):
        example.kernel(X)
