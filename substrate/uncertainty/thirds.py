"""Coverage and width of intervals over the low, the middle and the high third of the predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import real_array
from substrate.errors import DataError
from substrate.namespaces import to_numpy

__all__ = ["CoverageByThirds", "coverage_by_thirds"]


@dataclass(frozen=True, slots=True)
class CoverageByThirds:
    """What intervals do where predictions are low, in the middle, and high.

    Parameters
    ----------
    shares, widths, counts
        The share of covered rows, the mean width, and the number of rows of each third, the low one first.
    width_ratio
        The widest interval over the narrowest.
    """

    shares: tuple[float, float, float]
    widths: tuple[float, float, float]
    counts: tuple[int, int, int]
    width_ratio: float

    def __str__(self) -> str:
        covered = " / ".join(f"{share:.2f}" for share in self.shares)
        return (
            f"covered {covered} of the {sum(self.counts)} rows with low, middle and high predictions; the widest "
            f"interval is {self.width_ratio:.3g} times the narrowest"
        )


def coverage_by_thirds(y: Any, predicted: Any, ends: Any) -> CoverageByThirds:
    """Return the coverage of intervals by thirds of the predictions, at rows that the model has not seen.

    Parameters
    ----------
    y, predicted : array of shape (n,)
        Targets and predictions of three rows at least.
    ends : array of shape (n, 2)
        Lower and upper ends, those of ``predict_interval``.

    Examples
    --------
    >>> from substrate.uncertainty import coverage_by_thirds
    >>> coverage_by_thirds([1.0, 2.0, 9.0], [1.0, 2.0, 3.0], [[0.0, 2.0], [1.0, 3.0], [1.0, 5.0]]).shares
    (1.0, 1.0, 0.0)
    """
    targets, centers = (real_array(to_numpy(v), name, ndim=1) for v, name in ((y, "y"), (predicted, "predicted")))
    limits = np.asarray(to_numpy(ends), dtype=np.float64)
    n = targets.size
    if n < 3 or centers.shape != (n,) or limits.shape != (n, 2) or np.isnan(limits).any():
        raise DataError(
            "coverage by thirds needs targets, predictions and ends (lower, upper) of the same rows, three at least: "
            f"received {targets.shape}, {centers.shape} and {limits.shape}; of several outputs give one at a time"
        )
    parts = np.array_split(np.argsort(centers, kind="stable"), 3)
    covered, width = (limits[:, 0] <= targets) & (targets <= limits[:, 1]), limits[:, 1] - limits[:, 0]
    low, middle, high = ((float(covered[p].mean()), float(width[p].mean()), p.size) for p in parts)
    narrowest = float(width.min())
    return CoverageByThirds(
        shares=(low[0], middle[0], high[0]),
        widths=(low[1], middle[1], high[1]),
        counts=(low[2], middle[2], high[2]),
        width_ratio=float(width.max()) / narrowest if narrowest > 0.0 and np.isfinite(narrowest) else float("nan"),
    )
