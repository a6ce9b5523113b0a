"""Checks of the arguments that datasets share; each refusal names argument, value and remedy."""

import math
import numbers
import reprlib
from typing import TypeAlias

import numpy as np

from substrate.errors import DataError

__all__ = [
    "RandomState",
    "check_choice",
    "check_count",
    "check_flag",
    "check_interval",
    "check_real",
    "random_source",
]

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def _refuse(name: str, value: object, wanted: str, remedy: str) -> DataError:
    # reprlib keeps the message readable when a whole array was passed by mistake
    return DataError(f"{name} must be {wanted}; received {reprlib.repr(value)}. Try {remedy}.")


def check_count(name: str, value: object, *, least: int, most: int | None = None, usual: int) -> int:
    """Return ``value`` as an int within ``[least, most]``; the refusal proposes ``usual``."""
    count = _whole(value)
    if count is None or count < least or (most is not None and count > most):
        bounds = f"at least {least}" if most is None else f"between {least} and {most}"
        raise _refuse(name, value, f"an integer, {bounds}", f"{name}={usual}")
    return count


def check_real(name: str, value: object, *, least: float, usual: float) -> float:
    """Return ``value`` as a finite float of at least ``least``."""
    number = _finite(value)
    if number is None or number < least:
        raise _refuse(name, value, f"a finite number, at least {least:g}", f"{name}={usual:g}")
    return number


def check_interval(name: str, value: object) -> tuple[float, float]:
    """Return ``value`` as a pair of finite floats in increasing order."""
    if isinstance(value, tuple | list) and len(value) == 2:
        low, high = _finite(value[0]), _finite(value[1])
        if low is not None and high is not None and low < high and math.isfinite(high - low):
            return low, high
    wanted = "a pair (low, high) of finite numbers, low < high"
    raise _refuse(name, value, wanted, f"{name}=(-5.0, 5.0)")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if isinstance(value, str) and value in choices:
        return value
    listed = ", ".join(repr(choice) for choice in choices)
    raise _refuse(name, value, f"one of {listed}", f"{name}={choices[0]!r}")


def check_flag(name: str, value: object) -> bool:
    """Return ``value`` as a bool; strings such as "no" would otherwise count as true."""
    if isinstance(value, bool | np.bool):
        return bool(value)
    raise _refuse(name, value, "True or False", f"{name}=True")


def random_source(random_state: object) -> np.random.Generator | np.random.RandomState:
    """Turn ``random_state`` into something that draws.

    None draws fresh entropy, a non-negative integer seeds a new ``numpy.random.Generator``; a
    Generator or a legacy RandomState is used as it is, and moves on by what is drawn from it.
    """
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    seed = _whole(random_state)
    if seed is not None and seed >= 0:
        return np.random.default_rng(seed)
    raise _refuse(
        "random_state",
        random_state,
        "None, a non-negative integer, a numpy Generator or a numpy RandomState",
        "random_state=0",
    )


def _whole(value: object) -> int | None:
    """``value`` as an int if it is a whole number, else None; True and False are not counts."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return None
    return int(value)


def _finite(value: object) -> float | None:
    """``value`` as a float if it is a finite real number, else None."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond 1e308
        return None
    return number if math.isfinite(number) else None
