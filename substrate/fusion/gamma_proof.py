r"""The proof of a search of gamma, as plain numbers.

The file has the kernel matrix of the training rows, that of the validation rows with these where there are some, the
targets and weights, and which rows train and which validate. The check decomposes the matrices again, measures how far
the decompositions are off (:mod:`substrate.least_squares.spectrum_error`), and bounds the criterion

.. math:: F(\lambda), \qquad \lambda = 1/\gamma ,

on intervals that cover the range (:mod:`substrate.search.gamma_search`). Nothing of the search is read but the range,
the criterion at its choice and the bound that it states, so that no number of it need be trusted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.certificates.rounding import relative_rounding
from substrate.fusion.saved_proof import SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.search.gamma_rows import GammaPart, GammaRows
from substrate.search.gamma_search import search_gamma

__all__ = ["GammaProof"]

#: What the few operations after a search lose, and the ends of a range that is turned over.
_ROUNDING = relative_rounding(16.0)


@dataclass(frozen=True, kw_only=True)
class GammaProof(SavedProof):
    """The proof of a search of one gamma: the rows, and the machines whose criteria are added up."""

    kinds = ("proof of a search of gamma",)

    rows: GammaRows
    parts: tuple[GammaPart, ...]

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the rules, and all arrays."""
        content = self.rows.words() | {"parts": [[part.column, part.fold, part.rounding] for part in self.parts]}
        arrays = {f"rows.{name}": array for name, array in self.rows.arrays().items()}
        for number, part in enumerate(self.parts):
            for name in ("train", "check"):
                arrays[f"part{number}.{name}"] = np.asarray(getattr(part, name), dtype=np.int64)
        return content, arrays

    @classmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> "GammaProof":
        """Return the proof of a file; raise where its numbers do not fit together."""
        content, arrays = archive.content, archive.arrays
        rows = GammaRows.read(content, arrays_under(arrays, "rows."))
        parts = []
        for number, words in enumerate(content["parts"]):
            parts.append(rows.read_part(words, *(arrays[f"part{number}.{name}"] for name in ("train", "check"))))
        if not parts or len(statement["names"]) != 1:
            refuse_numbers()
        return cls(**statement, rows=rows, parts=tuple(parts))

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and what it assumes."""
        return (
            ("proof", f"{len(self.rows.matrix)} rows, {len(self.parts)} machines, judged by {self.rows.criterion}"),
            ("kernel values", "within the rounding in the file of those of the kernel"),
        )

    def bound(self) -> float:
        """Compute the bound on the criterion over the range again."""
        ((low, high),) = self.box
        if not 0.0 < low < high < np.inf:
            raise UnprovedError(f"a range of gamma from {low:g} to {high:g} is not searched")
        # gamma is that of weights of mean one times their mean, and the ends are rounded outwards
        size, criterion = self.rows.unit_weight, self.rows.sum_criteria(self.parts)
        lambdas = (1.0 - _ROUNDING) / (size * high), (1.0 + _ROUNDING) / (size * low)
        if lambdas[0] <= criterion.lift:
            raise UnprovedError("a kernel matrix has a negative eigenvalue beyond the range")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite proves nothing
            bound = float(search_gamma(criterion, lambdas, self.gap).lower_bound[0])
        if not np.isfinite(bound):
            raise UnprovedError("rounding hides the criterion in a part of the range")
        return self.divisor * (1.0 - _ROUNDING) * bound
