r"""The proof of a search of gamma, as plain numbers.

The file has the kernel matrix of the training rows, that of the validation rows with these where there are some, the
targets and weights, and which rows train and which validate. The check decomposes the matrices again, measures how far
the decompositions are off (:mod:`substrate.least_squares.spectrum_error`), and bounds the criterion

.. math:: F(\lambda), \qquad \lambda = 1/\gamma ,

on intervals that cover the range (:mod:`substrate.search.gamma_search`). Nothing of the search is read but the range,
the criterion at its choice and the bound that it states, so that no number of it need be trusted.

Several outputs may have a gamma each. They share all machines but the targets, so that one decomposition bounds all of
them, and with :math:`F_k(\lambda) \ge \beta_k` for output k

.. math:: \min_{\lambda_1, \ldots, \lambda_m} \sum_k F_k(\lambda_k) \ge \sum_k \beta_k .

The statement of such a proof is of the sum, and of every output: the check fails where one of them is not proved.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rounding import relative_rounding
from substrate.fusion.saved_proof import SLACK, SavedProof, UnprovedError, arrays_under, refuse_numbers
from substrate.search.gamma_rows import GammaPart, GammaRows
from substrate.search.gamma_search import search_gamma

__all__ = ["GammaProof", "OutputStatement"]

#: What the few operations after a search lose, and the ends of a range that is turned over.
_ROUNDING = relative_rounding(16.0)
#: Relative difference of a sum from that of its parts, as written in a file.
_SUM = 1e-9


class OutputStatement(NamedTuple):
    """What is stated of an output: its criterion, the bound of it, and the criterion below which one counts as none."""

    error: float
    lower_bound: float
    least: float


@dataclass(frozen=True, kw_only=True)
class GammaProof(SavedProof):
    """The proof of a search of gamma: the rows, and the machines whose criteria are added up.

    ``outputs`` has a statement for each output that has a gamma of its own; with one gamma it is empty.
    """

    kinds = ("proof of a search of gamma",)

    rows: GammaRows
    parts: tuple[GammaPart, ...]
    outputs: tuple[OutputStatement, ...] = ()

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the rules, and all arrays."""
        content = self.rows.words() | {"parts": [[part.column, part.fold, part.rounding] for part in self.parts]}
        if self.outputs:
            content["outputs"] = [list(output) for output in self.outputs]
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
        outputs = tuple(OutputStatement(*(float(number) for number in row)) for row in content.get("outputs", ()))
        gammas = 1 if rows.pooled else rows.Y.shape[1]
        fits = len(statement["names"]) == gammas == max(len(outputs), 1) and len(set(statement["box"])) == 1
        fits = fits and bool(np.isfinite(outputs).all()) and all(output.least >= 0.0 for output in outputs)
        if not parts or not fits:
            refuse_numbers()
        return cls(**statement, rows=rows, parts=tuple(parts), outputs=outputs)

    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and what it assumes."""
        each = tuple(
            (f"output {number}", f"criterion {output.error:.6g}, no value below {output.lower_bound:.6g}")
            for number, output in enumerate(self.outputs, start=1)
        )
        return (
            ("proof", f"{len(self.rows.matrix)} rows, {len(self.parts)} machines, judged by {self.rows.criterion}"),
            *each,
            ("kernel values", "within the rounding in the file of those of the kernel"),
        )

    def bound(self) -> float:
        """Compute the bound on the criterion over the range again."""
        low, high = self.box[0]
        if not 0.0 < low < high < np.inf:
            raise UnprovedError(f"a range of gamma from {low:g} to {high:g} is not searched")
        # gamma is that of weights of mean one times their mean, and the ends are rounded outwards
        size, criterion = self.rows.unit_weight, self.rows.sum_criteria(self.parts)
        lambdas = (1.0 - _ROUNDING) / (size * high), (1.0 + _ROUNDING) / (size * low)
        if lambdas[0] <= criterion.lift:
            raise UnprovedError("a kernel matrix has a negative eigenvalue beyond the range")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # what is not finite proves nothing
            nearly = np.asarray(search_gamma(criterion, lambdas, self.gap).lower_bound)
            bounds = nearly - _ROUNDING * np.abs(nearly)  # a logarithm may be negative
        if not np.isfinite(bounds).all():
            raise UnprovedError("rounding hides the criterion in a part of the range")
        self._check_outputs(bounds)
        return self.divisor * float(bounds.sum() - relative_rounding(bounds.size + 2.0) * np.abs(bounds).sum())

    def _check_outputs(self, bounds: Array) -> None:
        """Raise where one output has another bound than is stated, or a wider gap than was asked for."""
        for number, (output, bound) in enumerate(zip(self.outputs, bounds, strict=bool(self.outputs)), start=1):
            scale = max(abs(output.error), output.least)
            if not output.lower_bound - bound <= SLACK * self.gap * scale:  # nor where a number is none
                raise UnprovedError(f"output {number} has a bound of {bound:.6g}, not of {output.lower_bound:.6g}")
            if not output.error - bound <= self.gap * (1.0 + 1e-6) * scale:
                raise UnprovedError(
                    f"output {number} is proved to be {(output.error - bound) / scale:.2g} above its bound"
                )
        if not self.outputs:
            return
        errors, stated, _ = np.array(self.outputs).T
        for total, numbers in ((self.validation_error, errors), (self.lower_bound, stated)):
            if not abs(total - numbers.sum()) <= _SUM * np.abs(numbers).sum():
                raise UnprovedError("what is stated of the sum is not the sum of what is stated of the outputs")
