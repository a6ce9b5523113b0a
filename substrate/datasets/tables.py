"""Tables: the embedded comma-separated files, read with the standard library.

A file has one header row, no quoting and no empty cell; its last column is the target. Nothing is
cached: each reading builds new arrays, so callers may overwrite what they were given.
"""

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

__all__ = ["Table", "provenance", "read_table"]

_FOLDER = files("substrate.datasets").joinpath("data")


@dataclass(frozen=True, slots=True)
class Table:
    """One file: the numbers of all columns but the last, and the last column as it is written."""

    inputs: NDArray[np.float64]
    last: tuple[str, ...]
    input_names: tuple[str, ...]
    last_name: str


def read_table(filename: str) -> Table:
    """Read ``filename`` from the embedded data folder."""
    text = _FOLDER.joinpath(filename).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return Table(
        inputs=np.array([row[:-1] for row in rows], dtype=np.float64),
        last=tuple(row[-1] for row in rows),
        input_names=tuple(header[:-1]),
        last_name=header[-1],
    )


def provenance(heading: str) -> str:
    """Return the section ``## heading`` of the provenance page that travels with the files."""
    page = _FOLDER.joinpath("PROVENANCE.md").read_text(encoding="utf-8")
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    return sections[heading].strip()
