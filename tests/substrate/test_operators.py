"""Laws of all matrices that are maps of vectors: products, blocks and the diagonal are of one matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from substrate.arrays import on_device_of, to_numpy
from substrate.kernels import RBF
from substrate.operators.gram import Gram
from substrate.operators.kernel_tiles import KernelTiles

EPS = np.finfo(float).eps
GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(70, 3))
KERNEL = RBF(1.3)
K = KERNEL(X)


def strict(values):
    return pytest.importorskip("array_api_strict").asarray(values)


def tensor(values):
    return pytest.importorskip("torch").asarray(values)


#: Each makes an operator, its matrix on the host, and an array on the device of its vectors.
MEMBERS = {
    "Gram": lambda: (Gram.of(KERNEL, X), K, K),
    "Gram of a matrix": lambda: (Gram.from_matrix(K), K, K),
    "Gram, torch": lambda: (Gram.of(KERNEL, tensor(X)), K, tensor(X)),
    "Gram, strict": lambda: (Gram.of(KERNEL, strict(X)), K, strict(X)),
    "KernelTiles": lambda: (KernelTiles(KERNEL, X), K, K),
    "KernelTiles, torch": lambda: (KernelTiles(KERNEL, tensor(X)), K, K),
}
over_members = pytest.mark.parametrize("name", MEMBERS)
SYSTEMS = [name for name in MEMBERS if not name.startswith("Kernel")]


def assert_close(found, expected, terms):
    """Up to the rounding of sums of so many terms, and of kernel values that are computed in another way."""
    assert found.shape == expected.shape
    assert_allclose(to_numpy(found), expected, rtol=0.0, atol=8.0 * terms * EPS * max(np.abs(expected).max(), 1.0))


@over_members
def test_products_and_blocks_are_those_of_the_matrix(name):
    operator, matrix, home = MEMBERS[name]()
    n = operator.n
    for columns in (1, 3, 20):
        V = GENERATOR.normal(size=(n, columns))
        assert_close(operator.product(on_device_of(home, V)), matrix @ V, 8 * n)
    rows, columns = np.array([0, 3, n - 1]), np.array([n - 1, 0])
    assert_close(operator.block(rows, columns), matrix[np.ix_(rows, columns)], 4)


@over_members
def test_a_symmetric_one_has_a_diagonal_and_mirrored_blocks(name):
    operator, matrix, _ = MEMBERS[name]()
    assert operator.n == matrix.shape[0]
    assert_close(operator.diagonal, np.diagonal(matrix), 4)
    rows, columns = np.array([7, 1]), np.array([4, 9, 1])
    assert_close(operator.block(rows, columns), to_numpy(operator.block(columns, rows)).T, 8)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_factor_solves_and_leaves_the_matrix_as_it_is(name):
    operator, matrix, home = MEMBERS[name]()
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
