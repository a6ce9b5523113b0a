"""What every proof of a fusion has in common: what it states, its file, and the certificate of its check."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from substrate.archive import read_archive, write_archive
from substrate.certificates import PROVED, Certificate, Row
from substrate.certificates.balls import flint, precision
from substrate.errors import DataError

__all__ = [
    "SLACK",
    "SavedProof",
    "UnprovedError",
    "arrays_under",
    "check_convex",
    "read_sparse",
    "refuse_numbers",
    "sparse_arrays",
]

#: What a recomputed bound may be below the one that is stated, as a share of the gap: the radius in the file is the one
#: at the end of the search, and that of a bound is of when it was computed.
SLACK = 0.01


class UnprovedError(Exception):
    """A part of a proof that does not hold, with the reason."""


@dataclass(frozen=True, kw_only=True)
class SavedProof(ABC):
    """A proof as plain numbers: written to a file, read by another person, and checked without solving anything.

    Parameters
    ----------
    names, box
        The parameters, and the values over which the bound is stated; an infinite end is proved too.
    values, validation_error
        The values that were chosen, and the validation error there.
    lower_bound
        What no values in the box validate better than.
    gap, least
        The gap that was asked for, relative to the validation error, or to ``least`` where that is more.
    divisor
        What the sums of the folds are divided by.
    """

    names: tuple[str, ...]
    box: tuple[tuple[float, float], ...]
    values: dict[str, float]
    validation_error: float
    lower_bound: float
    gap: float
    divisor: float
    least: float = 0.0

    #: What a file of this kind calls itself.
    kinds: ClassVar[tuple[str, ...]] = ()

    @property
    def how(self) -> str:
        """State how a check computes the bound."""
        return "checked in double precision, with all rounding"

    @property
    def kind(self) -> str:
        """Return what a file of this proof calls itself."""
        return self.kinds[0]

    @abstractmethod
    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the file holds beside the statement: entries of its header, and arrays by name."""

    @classmethod
    @abstractmethod
    def read(cls, statement: dict[str, Any], archive: Any) -> Self:
        """Return the proof of a file, whose statement is read already; raise where its numbers do not fit together."""

    @abstractmethod
    def bound(self) -> float:
        """Compute the bound on the sums of the folds again, in double precision with its rounding; raise an
        :class:`UnprovedError` where a part of the proof does not hold.
        """

    @abstractmethod
    def describe(self) -> tuple[tuple[str, str], ...]:
        """State how large the proof is, and what it assumes, as facts of a certificate."""

    def in_units(self, square: float) -> Self:
        """Return the proof with errors times a number: those of targets in other units."""
        return replace(
            self,
            validation_error=square * self.validation_error,
            lower_bound=square * self.lower_bound,
            divisor=self.divisor / square,
            least=square * self.least,
        )

    def contents(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return all that a file holds: its header, and arrays by name."""
        content, arrays = self.numbers()
        statement = {
            "kind": self.kind,
            "names": list(self.names),
            "box": [list(ends) for ends in self.box],
            "values": dict(self.values),
            "validation_error": self.validation_error,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "divisor": self.divisor,
            "least": self.least,
        }
        return statement | content, arrays

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the proof in the format of model files: plain arrays and a JSON header, without pickle."""
        write_archive(path, *self.contents(), check=type(self)._check)

    @classmethod
    def _check(cls, archive: Any) -> None:
        cls.recall(archive)

    @classmethod
    def recall(cls, archive: Any) -> Self:
        """Return the proof of the contents of a file; raise where its numbers do not fit together."""
        content = archive.content
        numbers = {name: float(content[name]) for name in ("validation_error", "lower_bound", "gap", "divisor")}
        statement: dict[str, Any] = {
            "names": tuple(str(name) for name in content["names"]),
            "box": tuple((float(low), float(high)) for low, high in content["box"]),
            "values": {str(name): float(value) for name, value in content["values"].items()},
            "least": float(content.get("least", 0.0)),
            **numbers,
        }
        proof = cls.read(statement, archive)
        if not (len(proof.names) == len(proof.box) > 0 and proof.divisor > 0.0 and proof.least >= 0.0):
            refuse_numbers()
        return proof

    @classmethod
    def load(cls, path: str | os.PathLike[str], max_bytes: float | None = None) -> Self:
        """Read a proof; a file that is something else, or damaged, is refused."""
        archive = read_archive(path, max_bytes)
        try:
            if archive.content.get("kind") not in cls.kinds:
                raise DataError(
                    f"{path} is not a saved proof of a fusion of this kind; substrate.fusion.load_proof reads all "
                    "kinds, and problems.load a model file"
                )
            return cls.recall(archive)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} is refused: it does not describe a proof, {error!r}"[:500]) from error

    def check(self) -> Certificate:
        """Compute every bound again, in double precision with its rounding; nothing is solved."""
        return self.certify(self.bound, self.how)

    def prove(self, bits: int = 160) -> Certificate:
        """Compute every bound again in ball arithmetic; for small proofs by the universal inequality or by chords."""
        flint()
        with precision(bits):
            return self.certify(self.bound_in_balls, f"proved in balls of {bits} bits")

    def bound_in_balls(self) -> float:
        """Compute the bound on the sums of the folds again in ball arithmetic."""
        raise DataError(
            "proofs in balls are for bounds by the universal inequality and by chords over simplices; check() counts "
            "all rounding of this one in double precision"
        )

    def certify(self, compute: Any, how: str) -> Certificate:
        """Return the certificate of what ``compute`` returns as the bound of the sums, or raises."""
        reason, bound = "", -np.inf
        try:
            bound = compute() / self.divisor
        except UnprovedError as unproved:
            reason = str(unproved)
        scale = max(abs(self.validation_error), self.least)
        rows = (
            Row(
                name="bound as stated",
                value=max(self.lower_bound - bound, 0.0),
                scale=scale,
                tolerance=SLACK * self.gap,
                formula="lower bound stated - computed",
            ),
            Row(
                name="gap of the search",
                value=self.validation_error - min(bound, self.validation_error) if np.isfinite(bound) else np.inf,
                scale=scale,
                tolerance=self.gap * (1.0 + 1e-6),
                formula="validation error stated - lower bound computed",
            ),
        )
        ranges = ", ".join(
            f"{name} from {low:g} {'on' if np.isinf(high) else f'to {high:g}'}"
            for name, (low, high) in zip(self.names, self.box, strict=True)
        )
        facts = (
            (PROVED, f"no value below {bound:.6g} for {ranges}" if not reason else f"nothing: {reason}"),
            ("how", how),
            *self.describe(),
            ("taken as given", "the numbers of the programs, and the validation error of the values chosen"),
        )
        return Certificate(f"Proof of the fusion over {' and '.join(self.names)}", rows, facts)


def refuse_numbers() -> None:
    """Refuse the numbers of a file that do not fit together."""
    raise DataError("the numbers of this proof do not fit together; save it again from the fusion")


def check_convex(P: Any) -> None:
    """Check that P has no negative eigenvalue beyond rounding: cvxpy knows this of a problem, a file need not."""
    matrix = sp.csr_array(P)
    diagonal = matrix.diagonal()
    beside = np.flatnonzero(np.asarray(abs(matrix - sp.diags_array(diagonal)).sum(axis=0)).ravel())
    values = np.delete(diagonal, beside)
    if beside.size:
        values = np.append(values, np.linalg.eigvalsh(matrix[beside][:, beside].toarray()))
    if values.min(initial=0.0) < -1e-12 * np.abs(values).max(initial=0.0):
        raise UnprovedError("a program is not convex")


def sparse_arrays(name: str, matrix: Any) -> dict[str, Any]:
    """Return the entries of a sparse matrix as arrays of a file."""
    entries = sp.coo_array(matrix)
    return {
        f"{name}_rows": entries.row.astype(np.int64),
        f"{name}_columns": entries.col.astype(np.int64),
        f"{name}_values": entries.data.astype(float),
    }


def arrays_under(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the arrays of a file whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def read_sparse(arrays: Mapping[str, Any], name: str, shape: tuple[int, int]) -> Any:
    """Return the sparse matrix of a file."""
    rows, columns, values = (arrays[f"{name}_{part}"] for part in ("rows", "columns", "values"))
    return sp.csr_array((values, (rows, columns)), shape=shape)
