"""Where arrays can be sent without a device: the strict implementation of the array API, and torch on the CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

HOMES = ("array_api_strict", "torch")


def sender(home: str) -> Callable[[Any], Any]:
    """Return the function that makes an array of this library; a library that is not installed is a reported skip."""
    library = pytest.importorskip(home)
    return library.from_numpy if home == "torch" else library.asarray


def assert_close(actual: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    """Equal to numpy's up to rounding, relative to the largest value."""
    from substrate.arrays import is_device_array, to_numpy

    assert is_device_array(actual)
    values = to_numpy(actual)
    assert values.dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(values, wanted, rtol=0.0, atol=tolerance * float(np.nanmax(np.abs(wanted))))
