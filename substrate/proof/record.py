"""What a proof says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Proof", "worst_proof"]


@dataclass(frozen=True, slots=True)
class Proof:
    """A rigorous bound on the distance of the fitted values from those of the exact optimum.

    ``accuracy`` and ``spread`` are upper and lower ends of their enclosures, in units of y; ``proved`` says whether the
    accuracy is within the tolerance of the spread. ``reason`` says why there is no bound, where there is none.
    """

    accuracy: float
    spread: float
    tolerance: float
    rounding: float
    bits: int
    reason: str = ""

    @property
    def proved(self) -> bool:
        """Whether the fitted values are proved to be as near as the tolerance asks."""
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
    """Of several outputs' proofs the one that is farthest from what is allowed."""
    return max(proofs, key=lambda one: one.share)
