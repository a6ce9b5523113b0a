"""Ball arithmetic: the few functions of python-flint that the proofs use, and how numbers get in and out."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from substrate.errors import DataError

__all__ = ["above", "ball", "balls", "below", "flint", "precision"]


def flint() -> Any:
    """The library, or an error with the command that installs it."""
    try:
        import flint as library
    except ImportError as error:
        raise DataError('a proof needs python-flint: pip install "lssvm-substrate[proof]"') from error
    return library


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """That many bits inside the block."""
    context = flint().ctx
    before = context.prec
    context.prec = bits
    try:
        yield
    finally:
        context.prec = before


def ball(value: float) -> Any:
    """A double as a ball without radius."""
    return flint().arb(float(value))


def balls(values: Any) -> list[Any]:
    """A vector of doubles as balls without radius."""
    arb = flint().arb
    return [arb(value) for value in values.tolist()]


def above(value: Any) -> float:
    """A double that is not below anything in the ball; infinity where the ball is not finite."""
    import numpy as np

    if not value.is_finite():
        return float("inf")
    if value == 0:
        return 0.0
    top = float(value.upper())
    return float(np.nextafter(top, np.inf))


def below(value: Any) -> float:
    """A double that is not above anything in the ball."""
    import numpy as np

    return float(np.nextafter(float(value.lower()), -np.inf)) if value.is_finite() else float("-inf")
