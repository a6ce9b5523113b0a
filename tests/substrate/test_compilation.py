"""Compiled twins: what is called, what is kept on disk under which name, and the order of operations."""

from types import FunctionType

import numpy as np
import pytest

from substrate import compilation
from substrate.compilation import choose_twin, compiled, entry, entry_in_order, has_compiler, loops_of, run_interpreted

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="numba is not installed")


@pytest.fixture(autouse=True)
def own_marks(monkeypatch):
    """Marks and twins of a test are its own."""
    for name in ("_marked", "_entries", "_in_order"):
        monkeypatch.setattr(compilation, name, type(getattr(compilation, name))())
    compilation._twin.cache_clear()
    compilation._digest.cache_clear()
    yield
    compilation._twin.cache_clear()
    compilation._digest.cache_clear()


def outer(x: float) -> float:
    return middle(x) + 1.0


def middle(x: float) -> float:
    return inner(x) * 2.0


def inner(x: float) -> float:
    return x - 3.0


def apart(x: float) -> float:
    return x


def shift(values: np.ndarray) -> None:
    """Round to integers, by a number that leaves no room for more."""
    for i in range(values.size):
        values[i] = (values[i] + 6755399441055744.0) - 6755399441055744.0


def test_a_name_on_disk_changes_with_whatever_is_called_and_nothing_else():
    for function in (outer, middle, inner):
        compiled(function)
    before = compilation._digest("outer")
    compiled(apart)
    compilation._digest.cache_clear()
    assert compilation._digest("outer") == before
    changed = FunctionType(inner.__code__.replace(co_consts=(None, 4.0)), inner.__globals__, "inner")
    compiled(changed)
    compilation._digest.cache_clear()
    assert compilation._digest("outer") != before


@needs_compiler
def test_a_twin_calls_what_is_marked():
    entry(outer), compiled(middle)

    @loops_of(inner)
    def other(x):
        return x - 5.0

    assert choose_twin(outer)(10.0) == 11.0
    assert outer(10.0) == 15.0
    with run_interpreted():
        assert choose_twin(outer) is outer


@needs_compiler
def test_operations_keep_their_order_where_that_is_asked_for():
    entry_in_order(shift)
    values = np.array([0.25, 0.75, 1.5, -2.6])
    choose_twin(shift)(values)
    np.testing.assert_array_equal(values, [0.0, 1.0, 2.0, -3.0])
