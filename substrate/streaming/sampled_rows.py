"""Some rows of a source by their numbers, read once and kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import Passes
from substrate.streaming.source import Source

__all__ = ["SampledRows", "sample_of"]


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Rows in ascending order of their numbers; indexing takes the numbers they have in the source."""

    numbers: Any
    X: Any

    def __getitem__(self, rows: Any) -> Any:
        places = np.searchsorted(self.numbers, rows)
        if not np.array_equal(self.numbers[np.minimum(places, self.numbers.size - 1)], rows):
            raise KeyError("a row that is not in the sample")
        return self.X[places]


def sample_of(source: Source, passes: Passes, *numbers: Any) -> Any:
    """Rows to be had by the given numbers; of rows in memory, which need no reading, by any."""
    if isinstance(source, ArraySource):
        return source.X
    wanted = np.unique(np.concatenate(numbers))
    return SampledRows(wanted, passes.taken(source, wanted))
