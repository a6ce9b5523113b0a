"""What a fit on a reduced basis is made from: rows with coded targets, and how passes over them are made."""

from dataclasses import dataclass
from typing import Any

from substrate.arrays import Array
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source
from substrate.streaming.target_summary import TargetSummary

__all__ = ["FitData"]


@dataclass(frozen=True, slots=True)
class FitData:
    """Rows and targets, a column an output; what is known of the targets already (None: nothing)."""

    source: Source
    passes: Passes
    targets: TargetSummary | None = None

    @classmethod
    def of_arrays(cls, X: Any, Y: Array, passes: Passes) -> "FitData":
        """Rows in memory."""
        return cls(ArraySource(X, Y), passes)
