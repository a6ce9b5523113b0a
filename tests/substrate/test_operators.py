"""Laws of all matrices that are maps of vectors: products, blocks and the diagonal are of one matrix."""

import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import substrate
from substrate.device_gram import DeviceGram, HostVectors, InPlaceGram
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.kernels import RBF, Linear, Precomputed
from substrate.least_squares.kernel_tiles import KernelTiles
from substrate.least_squares.stacked_least_squares import CUTOFF, StackedBasis
from substrate.least_squares.stored_kernel import KernelBlocks, KernelTriangle
from substrate.namespaces import on_device_of, to_numpy
from substrate.operators import Operator, SymmetricOperator, SystemMatrix
from substrate.penalized.variation.component_features import ComponentFeatures
from substrate.reduced.features import LinearFeatures
from substrate.reduced.rows import BasisValues, GivenValues, KernelRows, KernelValues, MatrixColumns, RowValues
from substrate.streaming.array_source import ArraySource
from substrate.streaming.source import Block

EPS = np.finfo(float).eps
GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(70, 3))
KERNEL = RBF(1.3)
K = KERNEL(X)
POINTS = X[5:14]
S = np.arange(5, 14)


def strict(values):
    return pytest.importorskip("array_api_strict").asarray(values)


def tensor(values):
    return pytest.importorskip("torch").asarray(values)


def stacked():
    basis = StackedBasis.of(K, CUTOFF)
    return basis, basis.values


def accurate_tiles(points):
    tiles = KernelTiles(KERNEL, points)
    assert tiles.use_accurate_products()
    return tiles


#: Each makes an operator, its matrix on the host, and an array beside which its vectors are.
MEMBERS = {
    "Gram": lambda: (Gram.of(KERNEL, X), K, K),
    "Gram of a matrix": lambda: (Gram.from_matrix(K), K, K),
    "DeviceGram, torch": lambda: (DeviceGram.of(KERNEL, tensor(X)), K, tensor(X)),
    "DeviceGram, strict": lambda: (DeviceGram.of(KERNEL, strict(X)), K, strict(X)),
    "InPlaceGram, torch": lambda: (InPlaceGram.of(KERNEL, tensor(X)), K, tensor(X)),
    "InPlaceGram, strict": lambda: (InPlaceGram.of(KERNEL, strict(X)), K, strict(X)),
    "HostVectors, torch": lambda: (HostVectors(DeviceGram.of(KERNEL, tensor(X))), K, K),
    "HostVectors, strict": lambda: (HostVectors(DeviceGram.of(KERNEL, strict(X))), K, K),
    "KernelTriangle": lambda: (KernelTriangle.of(KERNEL, X), K, K),
    "KernelBlocks": lambda: (KernelBlocks(KERNEL, X), K, K),
    "KernelTiles": lambda: (accurate_tiles(X), K, K),
    "KernelTiles, torch": lambda: (accurate_tiles(tensor(X)), K, K),
    "KernelRows": lambda: (KernelRows.of(KERNEL, X, POINTS), KERNEL(X, POINTS), K),
    "KernelRows, columns": lambda: (KernelRows.of(Precomputed(), K, S), K[:, S], K),
    "KernelRows, torch": lambda: (KernelRows.of(KERNEL, tensor(X), tensor(POINTS)), KERNEL(X, POINTS), tensor(X)),
    "StackedBasis": lambda: (*stacked(), K),
}
over_members = pytest.mark.parametrize("name", MEMBERS)
SYMMETRIC = [name for name in MEMBERS if not name.startswith(("KernelRows", "StackedBasis"))]
SYSTEMS = [name for name in SYMMETRIC if not name.startswith("Kernel")]


def assert_close(found, expected, terms):
    """Up to the rounding of sums of so many terms, and of kernel values that are computed in another way."""
    assert found.shape == expected.shape
    assert_allclose(to_numpy(found), expected, rtol=0.0, atol=8.0 * terms * EPS * max(np.abs(expected).max(), 1.0))


def test_every_operator_is_a_member():
    for module in pkgutil.walk_packages(substrate.__path__, "substrate."):
        import_module(module.name)
    kinds, found = [Operator], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith("substrate."):
            found.add(kind.__name__)
    assert found == {name.partition(",")[0].partition(" ")[0] for name in MEMBERS}


@over_members
def test_shape_products_and_blocks_are_those_of_the_matrix(name):
    operator, matrix, home = MEMBERS[name]()
    m, n = matrix.shape
    assert operator.shape == (m, n)
    for columns in (1, 3, 20):
        V, U = GENERATOR.normal(size=(n, columns)), GENERATOR.normal(size=(m, columns))
        assert_close(operator.product(on_device_of(home, V)), matrix @ V, 8 * n)
        assert_close(operator.adjoint(on_device_of(home, U)), matrix.T @ U, 8 * m)
    rows, columns = np.array([0, 3, m - 1]), np.array([n - 1, 0])
    assert_close(operator.block(rows, columns), matrix[np.ix_(rows, columns)], 4)


@over_members
def test_a_product_with_unit_vectors_gives_the_blocks(name):
    operator, _, home = MEMBERS[name]()
    m, n = operator.shape
    some = np.array([2, 0])
    unit = np.zeros((n, 2))
    unit[some, [0, 1]] = 1.0
    assert_close(operator.product(on_device_of(home, unit)), to_numpy(operator.block(np.arange(m), some)), 8)


@over_members
def test_the_adjoint_is_the_adjoint(name):
    operator, matrix, home = MEMBERS[name]()
    m, n = operator.shape
    V, U = GENERATOR.normal(size=(n, 2)), GENERATOR.normal(size=(m, 3))
    left = U.T @ to_numpy(operator.product(on_device_of(home, V)))
    right = to_numpy(operator.adjoint(on_device_of(home, U))).T @ V
    size = float((np.abs(U).T @ np.abs(matrix) @ np.abs(V)).max())
    assert_allclose(left, right, rtol=0.0, atol=8.0 * (m + n) * EPS * size)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_a_symmetric_one_has_a_diagonal_and_mirrored_blocks(name):
    operator, matrix, _ = MEMBERS[name]()
    assert isinstance(operator, SymmetricOperator)
    assert operator.n == matrix.shape[0]
    assert_close(operator.diagonal, np.diagonal(matrix), 4)
    rows, columns = np.array([7, 1]), np.array([4, 9, 1])
    assert_close(operator.block(rows, columns), to_numpy(operator.block(columns, rows)).T, 8)
    if name.startswith(("DeviceGram", "InPlaceGram")):
        return  # its rows are chosen by numbers on the host; these two are for the choice of a basis, in numpy
    assert_array_equal(operator.diagonal_at(rows), operator.diagonal[rows])
    some = np.array([3, 8, 2, 60])
    for place in range(4):
        assert_close(operator.columns(some)(place), matrix[some, some[place]], 8)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_factor_solves_and_leaves_the_matrix_as_it_is(name):
    operator, matrix, home = MEMBERS[name]()
    assert isinstance(operator, SystemMatrix)
    n = operator.n
    ridge, B, V = np.linspace(0.5, 2.0, n), GENERATOR.normal(size=(n, 2)), GENERATOR.normal(size=(n, 2))
    before = to_numpy(operator.product(on_device_of(home, V)))
    operator.factorize(on_device_of(home, ridge))
    solved = to_numpy(operator.solve(on_device_of(home, B)))
    assert_allclose(matrix @ solved + ridge[:, None] * solved, B, rtol=0.0, atol=1e4 * n * EPS)
    assert_array_equal(to_numpy(operator.product(on_device_of(home, V))), before)
    assert_array_equal(to_numpy(operator.diagonal), np.diagonal(matrix))
    operator.release()
    assert_array_equal(to_numpy(operator.product(on_device_of(home, V))), before)
    assert_close(operator.block(np.arange(n), np.arange(n)), matrix, 4)


#: Values of rows, and the matrix they have at the rows of X (of K where rows are those of a matrix).
VALUES = {
    "KernelValues": lambda: (KernelValues(KERNEL, POINTS), X, KERNEL(X, POINTS)),
    "MatrixColumns": lambda: (MatrixColumns(S), K, K[:, S]),
    "GivenValues": lambda: (GivenValues(3), X, X),
    "LinearFeatures": lambda: (
        LinearFeatures(KernelValues(KERNEL, POINTS), np.full(9, 0.1), np.eye(9)[:, :4], np.full(4, 0.2)),
        X,
        KERNEL(X, POINTS)[:, :4] - 0.1 - 0.2,
    ),
    "ComponentFeatures": lambda: (
        ComponentFeatures((KernelValues(KERNEL, POINTS), KernelValues(Linear(), POINTS)), (np.eye(9), np.ones((9, 1)))),
        X,
        np.hstack([KERNEL(X, POINTS), Linear()(X, POINTS).sum(axis=1, keepdims=True)]),
    ),
}
over_values = pytest.mark.parametrize("name", VALUES)


def test_every_kind_of_values_is_walked():
    kinds, found = [RowValues], set()
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith("substrate."):
            found.add(kind.__name__)
    assert found == set(VALUES)


@over_values
def test_tiles_products_and_adjoint_are_of_one_matrix(name):
    values, rows, matrix = VALUES[name]()
    assert values.n_basis == matrix.shape[1]
    assert_close(values.matrix(rows), matrix, 16)
    walked = [np.array(tile) for _, _, tile in values.walk([Block(rows[:40], None, 0), Block(rows[40:], None, 40)])]
    assert_close(np.concatenate(walked), matrix, 16)
    V, U = GENERATOR.normal(size=(matrix.shape[1], 2)), GENERATOR.normal(size=(70, 2))
    assert_close(values.product(rows, V), matrix @ V, 8 * matrix.shape[1])
    assert_close(values.product(rows, V[:, 0]), matrix @ V[:, 0], 8 * matrix.shape[1])
    assert_close(values.adjoint(rows, U), matrix.T @ U, 8 * 70)


@over_values
def test_values_of_rows_and_a_source_are_an_operator(name):
    values, rows, matrix = VALUES[name]()
    operator, V = KernelRows(values, ArraySource(rows, None)), GENERATOR.normal(size=(matrix.shape[1], 2))
    assert operator.shape == matrix.shape
    assert_close(operator.product(V), matrix @ V, 8 * matrix.shape[1])
    some = np.array([1, 5])
    assert_close(operator.block(some, np.array([2, 0])), matrix[np.ix_(some, [2, 0])], 16)


@pytest.mark.parametrize("name", ["KernelValues", "MatrixColumns"])
def test_what_is_known_of_a_basis(name):
    values, rows, matrix = VALUES[name]()
    own = K[np.ix_(S, S)]
    assert isinstance(values, BasisValues)
    assert type(BasisValues.of(KERNEL if name == "KernelValues" else Precomputed(), values.points)) is type(values)
    careful = np.empty_like(matrix)
    values.fill_carefully(rows, careful)
    assert np.abs(careful - matrix).max() <= values.rounding(rows) + values.careful_rounding(rows)
    assert values.deviation(rows, matrix) <= values.rounding(rows) + values.careful_rounding(rows)
    assert values.deviation(rows, np.where(matrix == matrix[0, 0], np.nan, matrix)) == np.inf
    assert values.most_directions == 9
    assert_close(values.diagonal(Block(rows, None, 0)), np.ones(70), 4)
    assert_close(values.expand(rows, np.ones((9, 1)), 0.5), matrix.sum(axis=1, keepdims=True) + 0.5, 80)
    assert_array_equal(values.distinct_vectors(own), np.arange(9))
    (high, low), rounding = values.doubled_matrix(own)
    assert np.abs(high + low - own).max() <= values.basis_rounding() + rounding
    assert (values.careful_matrix() is None) == values.defined_by_values


def test_of_vectors_that_agree_one_counts():
    twice = np.concatenate([POINTS, POINTS[2:4]])
    matrix = KERNEL(twice)
    assert_array_equal(KernelValues(KERNEL, twice).distinct_vectors(matrix), np.arange(9))
    assert_array_equal(MatrixColumns(np.arange(11)).distinct_vectors(matrix), np.arange(9))
    assert KernelValues(Linear(), POINTS).most_directions == 3


def test_columns_of_a_matrix_refuse_what_only_a_kernel_knows():
    with pytest.raises(TypeError, match="these values have no kernel to differentiate"):
        MatrixColumns(S).scaling_kernel()
    with pytest.raises(TypeError, match="need the sizes"):
        MatrixColumns(S).basis_sizes()
    with pytest.raises(DataError, match="not computed on a device"):
        MatrixColumns(S).evaluate(K)


def test_directions_of_a_stacked_basis_are_orthonormal_and_have_no_constant():
    basis, values = stacked()
    assert_close(basis.adjoint(values), np.eye(basis.rank), 70 * 8)
    assert np.abs(basis.adjoint(np.ones((70, 1)))).max() <= 70 * EPS * 8
