"""Proofs in ball arithmetic: the bounds of the certificates, computed again with rigorous enclosures.

They need python-flint, ``pip install "lssvm-substrate[proof]"``. Nothing here uses the code that fitted a model:
kernels are evaluated from their formulas, on the stored numbers, in as many bits as the verdict needs. This file holds
the conversion of numbers and the record of a proof.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from substrate.errors import DataError
from substrate.kernels import Kernel
from substrate.kernels.base import Formula

__all__ = [
    "Proof",
    "above",
    "ball",
    "balls",
    "below",
    "feature_balls",
    "flint",
    "formula_of",
    "precision",
    "worst_proof",
]


def flint() -> Any:
    """The library, or an error with the command that installs it."""
    try:
        import flint as library
    except ImportError as error:
        raise DataError('a proof needs python-flint: pip install "lssvm-substrate[proof]"') from error
    return library


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Set the precision in bits inside the block."""
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


def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """The kernel as a function of two points in ball arithmetic."""
    return kernel.exact_formula(flint().arb, n_features)


def feature_balls(kernel: Kernel, x: Sequence[Any]) -> list[Any]:
    """phi(x) in ball arithmetic, in the order of ``kernel.features``."""
    return kernel.exact_features(flint().arb, x)


@dataclass(frozen=True, slots=True)
class Proof:
    """A rigorous bound on the distance of the fitted values from those of the exact optimum.

    ``accuracy`` and ``spread`` are upper and lower ends of their enclosures, in units of y; ``proved`` is whether the
    accuracy is within the tolerance of the spread. ``reason`` states why there is no bound, where there is none.
    """

    accuracy: float
    spread: float
    tolerance: float
    rounding: float
    bits: int
    reason: str = ""

    @property
    def proved(self) -> bool:
        """Whether the fitted values are proved to be as near as the tolerance requires."""
        return math.isfinite(self.accuracy) and self.accuracy <= self._allowed

    @property
    def _allowed(self) -> float:
        return max(self.tolerance * self.spread, self.rounding)

    @property
    def share(self) -> float:
        """The accuracy as a share of what is allowed: at most one where the answer is proved."""
        if self.accuracy == 0.0:
            return 0.0
        return self.accuracy / self._allowed if self._allowed > 0.0 else math.inf

    @property
    def digits(self) -> float:
        """Decimal digits of the spread of y to which the fitted values are known."""
        if self.accuracy == 0.0:
            return math.inf
        if self.spread == 0.0 or not math.isfinite(self.accuracy):
            return 0.0
        return max(0.0, math.log10(self.spread) - math.log10(self.accuracy))

    def __str__(self) -> str:
        if self.reason:
            return f"no proof: {self.reason}"
        verdict = "proved" if self.proved else "not proved"
        return (
            f"{verdict}: fitted values within {self.accuracy:.2e} of the exact optimum "
            f"(spread of y {self.spread:.3g}), {self.digits:.1f} digits, {self.bits} bits"
        )


def worst_proof(proofs: Sequence[Proof]) -> Proof:
    """The proof, of several outputs, that is farthest from its tolerance."""
    return max(proofs, key=lambda one: one.share)
