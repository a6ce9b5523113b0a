"""Proofs in ball arithmetic: the bounds of the certificates, computed again with rigorous enclosures.

They need python-flint, ``pip install "lssvm-substrate[proof]"``. Nothing here uses the code that fitted a model:
kernels are evaluated from their formulas, on the stored numbers, in as many bits as the verdict needs. The numbers are
those of :mod:`~substrate.certificates.balls`; this file holds the record of a proof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from substrate.arrays import Array
from substrate.certificates.balls import above, ball, balls, below, flint, precision
from substrate.certificates.rounding import target_rounding
from substrate.certificates.rows import ACCURATE
from substrate.certificates.tolerance import Tolerance
from substrate.kernels import Kernel
from substrate.kernels.base import Formula

__all__ = [
    "Proof",
    "above",
    "ball",
    "balls",
    "below",
    "flint",
    "formula_of",
    "precision",
    "proof_of_outputs",
    "tolerance_in_balls",
]

#: Enough for the spread of targets that agree in all but their last digits.
_BITS = 200


def formula_of(kernel: Kernel, n_features: int) -> Formula:
    """Return the kernel as a function of two points in ball arithmetic."""
    return kernel.exact_formula(flint().arb, n_features)


@dataclass(frozen=True, slots=True)
class Proof:
    """A rigorous bound on the distance of the fitted values from those of the exact optimum.

    ``accuracy`` and ``spread`` are upper and lower ends of their enclosures, in units of y; ``proved`` is whether the
    accuracy is within the tolerance of the spread. ``reason`` states why there is no bound, where there is none;
    ``about`` names what is bounded. With several outputs ``outputs`` holds the proof of each: ``accuracy`` and
    ``spread`` are those of the output with the largest bound, in its own units, and ``proved`` is the verdict of all.
    """

    accuracy: float
    spread: float
    tolerance: float
    rounding: float
    bits: int
    reason: str = ""
    about: str = "fitted values"
    outputs: "tuple[Proof, ...]" = ()

    @classmethod
    def of(
        cls, accuracy: float, tolerance: Tolerance, bits: int, reason: str = "", about: str = "fitted values"
    ) -> Self:
        """Return the record of a bound, and of what is permitted for the targets of a user."""
        return cls(
            accuracy=accuracy,
            spread=tolerance.spread,
            tolerance=tolerance.share,
            rounding=tolerance.rounding,
            bits=bits,
            reason=reason,
            about=about,
        )

    @property
    def each(self) -> "tuple[Proof, ...]":
        """The proof of every output; this one where it is the only one."""
        return self.outputs or (self,)

    @property
    def proved(self) -> bool:
        """Whether the fitted values of every output are proved to be as near as the tolerance requires."""
        return all(
            math.isfinite(output.accuracy) and output.accuracy <= output._tolerance_of_outputs for output in self.each
        )

    @property
    def _tolerance_of_outputs(self) -> float:
        return max(self.tolerance * self.spread, self.rounding)

    @property
    def share(self) -> float:
        """The accuracy as a share of what is allowed, of several outputs the largest: at most one where proved."""
        return max(_share(output.accuracy, output._tolerance_of_outputs) for output in self.each)

    @property
    def digits(self) -> float:
        """Decimal digits of the spread of y to which the fitted values are known, of several outputs the fewest."""
        return min(_digits(output.accuracy, output.spread) for output in self.each)

    def __str__(self) -> str:
        if self.reason:
            return f"no proof: {self.reason}"
        conclusion = "proved" if self.proved else "not proved"
        several = f", the largest of {len(self.outputs)} outputs" if self.outputs else ""
        return (
            f"{conclusion}: {self.about} within {self.accuracy:.2e} of the exact optimum "
            f"(spread of y {self.spread:.3g}){several}, {self.digits:.1f} digits, {self.bits} bits"
        )


def _share(accuracy: float, allowed: float) -> float:
    if accuracy == 0.0:
        return 0.0
    return accuracy / allowed if allowed > 0.0 else math.inf


def _digits(accuracy: float, spread: float) -> float:
    if accuracy == 0.0:
        return math.inf
    if spread == 0.0 or not math.isfinite(accuracy):
        return 0.0
    return max(0.0, math.log10(spread) - math.log10(accuracy))


def tolerance_in_balls(y: Array, weights: Array, share: float = ACCURATE) -> Tolerance:
    """Return what is permitted for the targets of a user and the weights of their rows, not above the exact error."""
    with precision(_BITS):
        targets, v, zero = balls(y), balls(weights), ball(0.0)
        mass = sum(v, zero)
        mean = sum((weight * t for t, weight in zip(targets, v, strict=True)), zero) / mass
        scatter = sum((weight * (t - mean) * (t - mean) for t, weight in zip(targets, v, strict=True)), zero)
        spread = max(below((scatter / mass).sqrt()), 0.0) if scatter > 0 else 0.0
    return Tolerance(share, spread, target_rounding(y.size, float(np.abs(y).max(initial=0.0))))


def proof_of_outputs(proofs: Sequence[Proof]) -> Proof:
    """Return one proof for several outputs: the largest bound, in its own units, and the proof of every output."""
    if len(proofs) == 1:
        return proofs[0]
    largest = max(proofs, key=lambda output: output.accuracy)
    return replace(largest, outputs=tuple(proofs))
