"""Every verb of every backend gives what numpy's gives."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from array_homes import HOMES, sender
from numpy.testing import assert_allclose, assert_array_equal

from substrate import backends
from substrate.backends import Backend, CupyBackend, DeviceBackend, TorchBackend, backend_of, row_blocks
from substrate.errors import DataError, SolverError

NUMPY = Backend()
GENERATOR = np.random.default_rng(8)
A = GENERATOR.normal(size=(6, 4))
B = GENERATOR.normal(size=(6, 4))
G = A @ A.T + 3.0 * np.eye(6)
L = np.asfortranarray(np.linalg.cholesky(G))

#: A verb, its arguments (arrays are sent to the device, all else is passed as it is), and its keywords.
VERBS = {
    "copy": ((A,), {}),
    "take_rows": ((A, [4, 1]), {}),
    "take_columns": ((A, (3, 0)), {}),
    "diagonal": ((G,), {}),
    "paired_sums": ((A, B, 0), {}),
    "paired_sums along rows": ((A, B, 1), {}),
    "sum_squares": ((A,), {}),
    "column_squares": ((L,), {}),
    "multiply_triangle": ((L, B), {}),
    "multiply_rows": ((A.T, L), {}),
    "multiply_rows transposed": ((A.T, L), {"transposed": True}),
    "cholesky": ((G,), {}),
    "solve_triangular": ((L, B), {}),
    "solve_triangular transposed": ((L, B), {"transposed": True}),
    "invert_triangle": ((L,), {}),
}


def fresh(values):
    """A copy in the same order: some verbs work in the memory of their arguments."""
    return np.array(values, order="K") if isinstance(values, np.ndarray) else values


def test_every_library_has_its_backend():
    assert type(backend_of(A)) is Backend
    assert type(backend_of([1.0])) is type(backend_of(None)) is type(backend_of(2.0)) is Backend
    for home, kind in zip(HOMES, (DeviceBackend, TorchBackend), strict=True):
        there = sender(home)(A)
        assert type(backend_of(there)) is kind
        assert backend_of(there).where(there).startswith(f"{home} on ")
        assert backend_of(there).on_device


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_means_the_same_everywhere(home, verb):
    send, (arguments, keywords) = sender(home), VERBS[verb]
    name = verb.partition(" ")[0]
    expected = getattr(NUMPY, name)(*(fresh(one) for one in arguments), **keywords)
    there = [send(np.ascontiguousarray(one)) if isinstance(one, np.ndarray) else one for one in arguments]
    backend = backend_of(there[0])
    found = getattr(backend, name)(*there, **keywords)
    assert backend_of(found) is backend
    assert_allclose(backend.to_host(found), expected, rtol=0.0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("home", HOMES)
def test_creation_order_and_reduction(home):
    there = sender(home)(A)
    backend = backend_of(there)
    for name in ("zeros", "ones"):
        made = getattr(backend, name)((2, 3), there)
        assert backend.where(made) == backend.where(there)
        assert_array_equal(backend.to_host(made), getattr(NUMPY, name)((2, 3), A), strict=True)
    for k in range(4):  # which entries come first, whatever their order
        for values in (NUMPY.partition(A, k), backend.to_host(backend.partition(there, k))):
            assert_array_equal(values[:, k], np.sort(A, axis=1)[:, k])
            assert_array_equal(np.sort(values[:, :k], axis=1), np.sort(A, axis=1)[:, :k])
    for where, columns, vector in ((NUMPY, A, B[:, 0]), (backend, there, backend.send(B[:, 0], there))):
        R, c = (where.to_host(part) for part in where.reduce_columns(columns, vector))
        assert_allclose(R.T @ R, A.T @ A, atol=1e-13)
        assert_allclose(R.T @ c, A.T @ B[:, 0], atol=1e-13)
    matrix = sender(home)(np.array(G))
    backend.set_diagonal(matrix, backend.send(np.arange(6.0), matrix))
    assert_array_equal(np.diagonal(backend.to_host(matrix)), np.arange(6.0))


@pytest.mark.parametrize("home", ["numpy", *HOMES])
def test_a_matrix_that_is_not_positive_definite_has_no_factor(home):
    matrix = np.array(-G) if home == "numpy" else sender(home)(-G)
    with pytest.raises(SolverError, match="not positive definite"):
        backend_of(matrix).cholesky(matrix)


@pytest.mark.parametrize("home", ["numpy", *HOMES])
def test_blocks_cover_all_rows_once(home, monkeypatch):
    monkeypatch.setattr(backends, "_BLOCK_ENTRIES", 20)
    backend = backend_of(A if home == "numpy" else sender(home)(A))
    assert [row for rows in backend.blocks(301, 7) for row in range(301)[rows]] == list(range(301))
    assert list(NUMPY.blocks(301, 7)) == list(row_blocks(301, 7))


class _DeviceArray:
    """As much of an array of CuPy as its backend asks for where the standard has no function."""

    device = 0

    def get(self):
        return np.arange(3.0)


_DeviceArray.__module__ = "cupy._core.core"


def test_the_functions_of_cupy_that_the_standard_lacks(monkeypatch):
    cupy, linalg = ModuleType("cupy"), ModuleType("cupyx.scipy.linalg")
    cupy.cuda = SimpleNamespace(Device=lambda number: SimpleNamespace(mem_info=(2**20, 2**30)))
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 2**20)
    linalg.solve_triangular = lambda factor, right, trans, lower: (trans, lower)
    for name, module in (("cupy", cupy), ("cupyx.scipy.linalg", linalg)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    array = _DeviceArray()
    backend = backend_of(array)
    assert type(backend) is CupyBackend
    assert backend.where(array) == "cupy on 0"
    assert_array_equal(backend.to_host(array), np.arange(3.0))
    assert backend.solve_triangular(array, array) == (0, True)
    assert backend.solve_triangular(array, array, transposed=True) == (1, True)
    backend.check_room(array, 2.0**21, "a matrix", "take fewer rows.")
    with pytest.raises(DataError, match="needs 3 MiB and 2 MiB are free on 0; take fewer rows"):
        backend.check_room(array, 3.0 * 2**20, "a matrix", "take fewer rows.")
