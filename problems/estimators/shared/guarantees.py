"""The guarantee of a prediction interval, in words, which depends on how the machine was made."""

from dataclasses import dataclass
from typing import Any

from substrate.intervals.conformal import exact_level

__all__ = ["UNEQUAL", "Guarantee", "guarantee_of"]

_EXCHANGEABLE = "the training rows and the new row are exchangeable"
#: The reason why a guarantee fails where rows have weights.
UNEQUAL = "rows of unequal weight are not exchangeable with a new row of weight one"
_FIXED = "kernel, gamma and the preparation of the columns are fixed before these rows are seen"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The coverage that is guaranteed for a new row, and under which conditions.

    Parameters
    ----------
    method, coverage
        The method and the coverage of the call.
    level
        The share of new rows that is covered at least, in finite samples; None where nothing is proved.
    conditions
        What has to be true of the data for that.
    broken
        What was done with these rows that invalidates the guarantee; the coverage is then approximate.
    """

    method: str
    coverage: float
    level: float | None
    conditions: tuple[str, ...]
    broken: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether a level is guaranteed under the conditions, and nothing breaks it."""
        return self.level is not None and not self.broken

    def __str__(self) -> str:
        wanted = " and ".join(self.conditions)
        if self.level is None:
            return f"approximate: {self.method} covers {self.coverage:g} of new rows if {wanted}"
        if self.broken:
            return (
                f"approximate: {'; '.join(self.broken)} (otherwise at least {self.level:g} in finite samples, if "
                f"{wanted}); choose on other rows, then calibrate(X, y) on rows that were not used and method='split'"
            )
        return f"covers at least {self.level:g} of new rows in finite samples, if {wanted}"


def guarantee_of(method: str, coverage: Any, outputs: int, broken: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of a method; ``broken`` says what the machine did that invalidates it."""
    level = exact_level(coverage)
    level_given = float(level)
    each = ("each output is asked for on its own",) if outputs > 1 else ()
    if method == "split":
        rows = "the calibration rows and the new row are exchangeable, and the former were not used in the fit"
        return Guarantee(method, level_given, level_given, (rows, *each))
    proved = max(2 * level - 1, 0 * level) if method == "jackknife+" else level
    return Guarantee(
        method=method,
        coverage=level_given,
        level=float(proved),
        conditions=(_EXCHANGEABLE, _FIXED, *each),
        broken=broken,
    )
