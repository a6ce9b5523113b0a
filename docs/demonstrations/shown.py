"""The result of a demonstration: one measure at the printed statement and at the corrected one."""

from typing import NamedTuple

__all__ = ["Shown"]


class Shown(NamedTuple):
    """A measure of the error of the printed statement and of the corrected one.

    Parameters
    ----------
    measure
        What the two numbers are.
    printed, holds
        The measure of the statement as printed, and of the one that holds.
    limit
        Above it a statement is false, up to it true.
    slip
        False where the statement is right as printed, and only looks wrong.
    """

    measure: str
    printed: float
    holds: float
    limit: float = 1e-6
    slip: bool = True

    @property
    def is_demonstrated(self) -> bool:
        """Whether the corrected statement is true, and the printed one false (or, without a slip, true)."""
        return self.holds <= self.limit and (self.printed > self.limit) == self.slip
