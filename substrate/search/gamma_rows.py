"""The numbers by which gamma is judged, as plain arrays: what a criterion of model selection is computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.errors import DataError
from substrate.gram import Gram
from substrate.least_squares.criteria import Criterion, LeaveOneOut
from substrate.least_squares.evidence import OF_SPECTRUM
from substrate.least_squares.left_out_blocks import LeftOutBlocks
from substrate.least_squares.spectrum import centred_spectrum
from substrate.least_squares.validation import CriterionSum, ValidationCriterion

__all__ = ["GammaPart", "GammaRows"]

#: The criteria, by the names of the searches.
_CRITERIA = (*OF_SPECTRUM, "blocks", "folds", "validation")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GammaPart:
    """The rows of one machine: those that train, those that validate, its column of targets, and its fold.

    ``column`` is -1 for all columns; ``rounding`` bounds the error of a row of kernel values of a validation row.
    """

    train: Any
    check: Any
    column: int = -1
    fold: int = 0
    rounding: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class GammaRows:
    """The numbers by which gamma is judged.

    Parameters
    ----------
    criterion
        What is taken of the residuals: "loo", "gcv", "evidence", "blocks", "folds" or "validation".
    matrix, rounding
        The kernel matrix of the rows, and how far its entries may be from those of the kernel, relative to the roots of
        its diagonal.
    below
        The kernel values of validation rows with the rows; none where folds validate.
    Y, Y_val
        Their targets, one column per output; with ``pooled`` zero where a row is not in the machine of a column.
    weights, weights_val
        Those of the rows, none where all are equal.
    """

    criterion: str
    pooled: bool
    rounding: float
    matrix: Array
    below: Array
    Y: Array
    Y_val: Array
    weights: Array
    weights_val: Array
    blocks: LeftOutBlocks | None = None

    @property
    def unit_weight(self) -> float:
        """Return the mean weight, by which gamma is multiplied where weights have the mean one."""
        return float(self.weights.mean()) if self.weights.size else 1.0

    def criterion_of(self, part: GammaPart) -> Criterion:
        """Return the criterion of one machine as a function of gamma, on a decomposition that is made here."""
        train, columns = part.train, slice(None) if part.column < 0 else part.column
        weights = self.weights / self.unit_weight if self.weights.size else None
        v = None if weights is None else weights[train]
        Y = np.ascontiguousarray(self.Y[train][:, columns])
        spectrum = centred_spectrum(Gram(self.matrix[np.ix_(train, train)]), self.rounding, v)
        if self.criterion not in ("folds", "validation"):
            if self.blocks is not None:
                blocks = self.blocks if part.column < 0 else self.blocks.restrict(train)
                return LeaveOneOut.of_blocks(spectrum, Y, blocks, pooled=self.pooled)
            return OF_SPECTRUM[self.criterion].of(spectrum, Y, pooled=self.pooled)
        folds = self.criterion == "folds"
        values, targets = (self.matrix, self.Y) if folds else (self.below, self.Y_val)
        w = None if weights is None else (weights if folds else self.weights_val)[part.check]
        return ValidationCriterion.of(
            spectrum,
            Y,
            np.ascontiguousarray(values[np.ix_(part.check, train)]),
            np.ascontiguousarray(targets[part.check][:, columns]),
            pooled=self.pooled and part.column < 0,
            rounding=part.rounding,
            weights=w,
        )

    def sum_criteria(self, parts: Sequence[GammaPart]) -> CriterionSum:
        """Return the weighted sum of the criteria of all machines."""
        return CriterionSum.of([self.criterion_of(part) for part in parts], self.shares(parts))

    def shares(self, parts: Sequence[GammaPart]) -> list[float]:
        """Return the share of every machine: alike for folds, and by the rows of the machines of one."""
        is_validated, folds = self.criterion in ("folds", "validation"), len({part.fold for part in parts})
        weights = self.weights_val if self.criterion == "validation" else self.weights / self.unit_weight
        sizes = [part.check if is_validated else part.train for part in parts]
        masses = [float(weights[rows].sum()) if self.weights.size else float(rows.size) for rows in sizes]
        totals = [sum(m for m, other in zip(masses, parts, strict=True) if other.fold == part.fold) for part in parts]
        if not is_validated:  # a mean of squares over the rows of each machine, weighed by their number
            masses = [
                float(rows.size) if part.column >= 0 else m for rows, part, m in zip(sizes, parts, masses, strict=True)
            ]
        return [mass / (total * folds) for mass, total in zip(masses, totals, strict=True)]

    def words(self) -> dict[str, Any]:
        """Return the rules for the header of a file."""
        blocks = 0 if self.blocks is None else len(self.blocks.rows)
        return {"criterion": self.criterion, "pooled": self.pooled, "rounding": self.rounding, "blocks": blocks}

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of a file."""
        names = ("matrix", "below", "Y", "Y_val", "weights", "weights_val")
        arrays = {name: getattr(self, name) for name in names}
        pairs = [] if self.blocks is None else list(zip(self.blocks.rows, self.blocks.counted, strict=True))
        for number, (rows, counted) in enumerate(pairs):
            arrays |= {f"block{number}": rows.astype(np.int64), f"counted{number}": counted.astype(np.int64)}
        return arrays

    def read_part(self, words: Any, train: Any, check: Any) -> GammaPart:
        """Return a part of a file; refuse rows that are not those of its machine."""
        column, fold, rounding = words[0], words[1], float(words[2])
        n, is_validated = len(self.matrix), self.criterion in ("folds", "validation")
        fits = type(column) is int and -1 <= column < self.Y.shape[1] and (self.pooled or column < 0)
        fits = fits and type(fold) is int and 0.0 <= rounding < np.inf
        _check_numbers(train, n)
        if is_validated:
            _check_numbers(check, len(self.Y_val) if self.criterion == "validation" else n)
            fits = fits and train.size > 1 and np.unique(train).size == train.size
        else:  # a criterion of all rows, or of those of one machine
            every = np.arange(n) if column < 0 else np.flatnonzero(self.Y[:, column])
            fits = fits and np.array_equal(train, every)
        if not fits:
            _refuse()
        return GammaPart(train=train, check=check, column=column, fold=fold, rounding=rounding)

    @classmethod
    def read(cls, words: Mapping[str, Any], arrays: Mapping[str, Any]) -> "GammaRows":
        """Return the numbers of a file; refuse those that do not fit together, or are not finite."""
        numbers = {name: arrays[name] for name in ("matrix", "below", "Y", "Y_val", "weights", "weights_val")}
        matrix, Y = numbers["matrix"], numbers["Y"]
        n, m = len(matrix), len(numbers["Y_val"])
        pooled, criterion, rounding = words["pooled"], words["criterion"], float(words["rounding"])
        fits = all(array.dtype.kind == "f" and np.isfinite(array).all() for array in numbers.values())
        fits = fits and matrix.shape == (n, n) and bool((matrix == matrix.T).all()) and n > 1
        fits = fits and Y.ndim == 2 and Y.shape[0] == n and Y.shape[1] > 0
        fits = fits and numbers["below"].shape == (m, n if m else 0) and numbers["Y_val"].shape == (m, Y.shape[1])
        fits = fits and numbers["weights"].shape in ((0,), (n,)) and numbers["weights_val"].shape in ((0,), (m,))
        fits = fits and all(bool((numbers[name] > 0.0).all()) for name in ("weights", "weights_val"))
        fits = fits and isinstance(pooled, bool) and criterion in _CRITERIA and 0.0 <= rounding < 1.0
        if not fits:
            _refuse()
        blocks = None
        if criterion == "blocks":
            pairs = [(arrays[f"block{k}"], arrays[f"counted{k}"]) for k in range(int(words["blocks"]))]
            for rows, places in pairs:
                _check_numbers(rows, n)
                _check_numbers(places, rows.size)
            counted = np.concatenate([np.zeros(0, int), *(rows[places] for rows, places in pairs)])
            if not np.array_equal(np.sort(counted), np.arange(n)):  # every row counts once
                _refuse()
            blocks = LeftOutBlocks(n, tuple(rows for rows, _ in pairs), tuple(places for _, places in pairs))
        return cls(criterion=criterion, pooled=pooled, rounding=rounding, **numbers, blocks=blocks)


def _refuse() -> None:
    raise DataError("the numbers of this proof do not fit together; save it again from the fusion")


def _check_numbers(array: Any, n: int) -> None:
    """Refuse what are no numbers of rows."""
    if array.ndim != 1 or array.dtype.kind != "i" or not array.size or array.min() < 0 or array.max() >= n:
        _refuse()
