"""Which library an array belongs to, and what the array API lacks."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from array_homes import sender
from numpy.testing import assert_array_equal

from substrate.arrays import room_on_device, same_home, solve_triangular, to_numpy, where_it_lives
from substrate.errors import DataError


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
