"""Which library an array belongs to, and what the array API lacks."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from array_homes import HOMES, assert_close, sender
from numpy.testing import assert_allclose, assert_array_equal

from substrate.arrays import (
    HOST,
    check_finite,
    cholesky,
    diagonal_set,
    is_device_array,
    on_device_of,
    own_copy,
    paired_sums,
    real_points,
    room_on_device,
    same_home,
    solve_triangular,
    take_rows,
    to_numpy,
    where_it_lives,
    zeros_beside,
)
from substrate.errors import DataError, SolverError

everywhere = pytest.mark.parametrize("home", HOMES)


@everywhere
def test_an_array_goes_there_and_back(home):
    send, values = sender(home), np.arange(6.0).reshape(3, 2)
    there = send(values)
    assert is_device_array(there)
    assert home in where_it_lives(there)
    np.testing.assert_array_equal(to_numpy(there), values)
    assert is_device_array(on_device_of(there, [1, 2]))
    assert_close(take_rows(there, [2, 0]), values[[2, 0]])
    assert_close(own_copy(there[:, 0]), values[:, 0])


@everywhere
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named(home, value):
    send, whole = sender(home), np.ones((3, 2))
    check_finite(X=send(1e308 * whole), y=send(-5e-324 * whole))
    broken = whole.copy()
    broken[1, 1] = value
    for first, second, name in ((broken, whole, "X"), (whole, broken, "y")):
        with pytest.raises(DataError, match=f"^{name} contains NaN or infinity"):
            check_finite(X=send(first), y=send(second))


@everywhere
def test_sums_of_products_are_where_their_factors_are(home):
    send, rng = sender(home), np.random.default_rng(0)
    left, right = rng.normal(size=(2, 7, 3))
    for axis in (0, 1):
        wanted = (left * right).sum(axis=axis)
        np.testing.assert_allclose(paired_sums(left, right, axis), wanted, rtol=1e-14)
        assert_close(paired_sums(send(left), send(right), axis), wanted, 1e-14)
    zeros = zeros_beside(send(left), (2, 3))
    assert_array_equal(to_numpy(zeros), np.zeros((2, 3)))
    assert where_it_lives(zeros) == where_it_lives(send(left))
    assert where_it_lives(zeros_beside(left, ())) == HOST


@everywhere
def test_triangular_systems_and_factors(home):
    send, rng = sender(home), np.random.default_rng(0)
    A = rng.normal(size=(6, 6))
    A, B = A @ A.T + np.eye(6), rng.normal(size=(6, 2))
    L = cholesky(send(A))
    assert_allclose(np.tril(to_numpy(L)), np.linalg.cholesky(A), rtol=1e-12)
    assert_close(solve_triangular(L, send(B)), np.linalg.solve(np.linalg.cholesky(A), B))
    assert_close(solve_triangular(L, send(B), transposed=True), np.linalg.solve(np.linalg.cholesky(A).T, B))
    with pytest.raises(SolverError, match="not positive definite"):
        cholesky(send(-A))
    matrix = send(A.copy())
    diagonal_set(matrix, send(np.arange(6.0)))
    np.fill_diagonal(A, np.arange(6.0))
    assert_close(matrix, A)


@everywhere
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([[1.0, np.nan]]), "NaN or infinity"),
        (np.ones(3), "must be 2-D, received 1-D"),
        (np.empty((0, 2)), "is empty"),
        (np.eye(2, dtype=np.complex128), "is complex"),
    ],
)
def test_points_are_checked(home, values, message):
    with pytest.raises(DataError, match=message):
        real_points(sender(home)(values))


def test_two_places_are_refused():
    send = sender("array_api_strict")
    same_home(X=send(np.eye(2)), y=None)
    with pytest.raises(DataError, match=r"X is array_api_strict on .*, y is numpy"):
        same_home(X=send(np.eye(2)), y=np.ones(2))


class _CupyArray:
    """As much of an array of CuPy as is asked for where the standard has no function."""

    device = 0

    def get(self):
        return np.arange(3.0)


_CupyArray.__module__ = "cupy._core.core"


def test_the_functions_of_cupy_that_the_standard_lacks(monkeypatch):
    cupy, linalg = ModuleType("cupy"), ModuleType("cupyx.scipy.linalg")
    cupy.cuda = SimpleNamespace(Device=lambda number: SimpleNamespace(mem_info=(2**20, 2**30)))
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 2**20)
    linalg.solve_triangular = lambda factor, right, trans, lower: (trans, lower)
    for name, module in (("cupy", cupy), ("cupyx.scipy.linalg", linalg)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("cupyx", "cupyx.scipy"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    array = _CupyArray()
    array.mT = array
    assert where_it_lives(array) == "cupy on 0"
    assert_array_equal(to_numpy(array), np.arange(3.0))
    assert solve_triangular(array, array) == (0, True)
    assert solve_triangular(array, array, transposed=True) == (1, True)
    room_on_device(array, 2.0**21, "a matrix", "take fewer rows.")
    with pytest.raises(DataError, match="needs 3 MiB and 2 MiB are free on 0; take fewer rows"):
        room_on_device(array, 3.0 * 2**20, "a matrix", "take fewer rows.")
