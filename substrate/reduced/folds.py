"""The validation fold of every row, by the number of the row."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.errors import DeclarationError

__all__ = ["GivenFolds", "folds_of"]


@dataclass(frozen=True, slots=True)
class GivenFolds:
    """One label per row; -1 is no fold."""

    count: int
    labels: Any


def folds_of(splits: Any, n: int) -> GivenFolds | None:
    """Return the validation rows of each split; training must be all the others, since sums allow only that."""
    labels, count = np.full(n, -1, dtype=np.int32), 0
    for number, (train, valid) in enumerate(splits):
        if train.size + valid.size != n or (labels[valid] >= 0).any():
            raise DeclarationError(
                f"split {number} of cv is no fold: each row must validate once at most and train otherwise; use KFold, "
                "StratifiedKFold or GroupKFold"
            )
        labels[valid], count = number, number + 1
    return GivenFolds(count, labels) if count else None
