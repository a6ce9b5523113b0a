"""Proofs in ball arithmetic: the bounds of the certificates, computed again with rigorous enclosures.

They need python-flint, ``pip install "lssvm-substrate[proof]"``. Nothing here uses the code that fitted a model:
kernels are evaluated from their formulas, on the stored numbers, in as many bits as the result needs. The numbers come
from :mod:`~substrate.balls`; this file holds the record of a proof.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from substrate.arrays import Array
from substrate.balls import above, ball, balls, below, flint, precision
from substrate.certificates import ACCURATE, Accuracy, Tolerance, ratio_of
from substrate.kernels import Kernel
from substrate.kernels.kernel import Formula
from substrate.numbers import target_rounding

__all__ = [
    "Proof",
    "above",
    "ball",
    "balls",
    "below",
    "flint",
    "formula_of",
    "precision",
    "tolerance_in_balls",
]

#: Enough for the spread of targets that agree in all but their last digits.
_BITS = 200


def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """Return the kernel as a function of two points in ball arithmetic."""
    return kernel.exact_formula(flint().arb, n_features)


@dataclass(frozen=True, slots=True)
class Proof(Accuracy):
    """The row of an answer whose bound is rigorous.

    ``value`` and ``spread`` are upper and lower ends of their enclosures, in units of y. ``bits`` is the precision of
    the balls, and ``reason`` states why, if there is no bound. With several outputs ``outputs`` holds the proof of
    each.
    """

    bits: int = 0
    reason: str = ""

    @classmethod
    def of(
        cls, accuracy: float, tolerance: Tolerance, bits: int, reason: str = "", about: str = "fitted values"
    ) -> Self:
        """Return the record of a bound, and of the permitted error for the targets of a user."""
        return cls(
            name="accuracy",
            value=accuracy,
            scale=tolerance.scale,
            tolerance=tolerance.share,
            formula="in ball arithmetic",
            spread=tolerance.spread,
            about=about,
            bits=bits,
            reason=reason,
        )

    @property
    def accuracy(self) -> float:
        """The proved bound, in units of y; of several outputs the largest."""
        return self.value

    @property
    def proved(self) -> bool:
        """Return whether the fitted values of every output are proved to be as near as the tolerance requires."""
        return self.passes

    def __str__(self) -> str:
        if self.reason:
            return f"no proof: {self.reason}"
        with np.errstate(divide="ignore"):  # a bound of zero is right to any number of digits
            digits = -np.log10(max(ratio_of(row.value, row.spread) for row in self.each))
        several = f", the largest of {len(self.outputs)} outputs" if self.outputs else ""
        return (
            f"{'proved' if self.proved else 'not proved'}: {self.about} within {self.value:.2e} of the exact optimum "
            f"(spread of y {self.spread:.3g}){several}, {max(digits, 0.0):.1f} digits, {self.bits} bits"
        )


def tolerance_in_balls(y: Array, weights: Array, share: float = ACCURATE) -> Tolerance:
    """Return the permitted error for the targets of a user and the weights of their rows, not above the exact one."""
    with precision(_BITS):
        targets, v, zero = balls(y), balls(weights), ball(0.0)
        mass = sum(v, zero)
        mean = sum((weight * t for t, weight in zip(targets, v, strict=True)), zero) / mass
        scatter = sum((weight * (t - mean) * (t - mean) for t, weight in zip(targets, v, strict=True)), zero)
        spread = max(below((scatter / mass).sqrt()), 0.0) if scatter > 0 else 0.0
    return Tolerance(share, spread, target_rounding(y.size, float(np.abs(y).max(initial=0.0))))
