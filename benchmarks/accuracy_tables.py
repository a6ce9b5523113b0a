"""Public tables with the splits that papers print, read from a folder.

``splits.json`` has, for every table, a list of splits: the numbers of the rows, from 0, that are tested, and all others
train. ``<table>.csv`` has one line of names and then the rows, the target last. Where there is no such file, the table
is the embedded one of that name (Boston).
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from benchmarks.accuracy_sets import Collection, Split, standardise
from substrate import datasets as own
from substrate.arrays import Array

__all__ = ["PublicTables"]

#: Tables of which a folder may have splits alone.
_EMBEDDED = {"boston": own.boston}


class PublicTables(Collection):
    """The tables of a folder; those with few rows come first."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        file = self.folder / "splits.json"
        if not file.is_file():
            raise SystemExit(f"{file} is missing; it has the rows to test, a list of splits for each table")
        splits: dict[str, list[list[int]]] = json.loads(file.read_text(encoding="utf-8"))
        self._splits = {name: splits[name] for name in splits if self._has_rows(name) and splits[name]}
        if not self._splits:
            raise SystemExit(f"{file} has splits of no table that is in the folder, as <name>.csv, or embedded")
        self._read_tables: dict[str, tuple[Array, Array]] = {}
        self.names = tuple(sorted(self._splits, key=lambda name: (self._rows(name)[1].size, name)))
        self.n_splits = min(len(lists) for lists in self._splits.values())

    def split_of(self, name: str, number: int) -> Split:
        """Return a split as it is printed."""
        X, y = self._rows(name)
        test = np.array(self._splits[name][number], dtype=np.intp)
        if test.size == 0 or test.min() < 0 or test.max() >= y.size or np.unique(test).size < test.size:
            raise SystemExit(f"split {number} of {name} must have different rows of 0 to {y.size - 1}")
        train = np.setdiff1d(np.arange(y.size), test)
        return standardise(X[train], y[train], X[test], y[test])

    def has_labels(self, name: str) -> bool:
        """Return False: the targets of these tables are numbers."""
        return False

    def source(self, name: str) -> str:
        """Return a digest of rows and splits."""
        X, y = self._rows(name)
        hasher = hashlib.sha256(np.ascontiguousarray(X).tobytes() + np.ascontiguousarray(y).tobytes())
        hasher.update(json.dumps(self._splits[name]).encode())
        return hasher.hexdigest()[:16]

    def _has_rows(self, name: str) -> bool:
        return name in _EMBEDDED or (self.folder / f"{name}.csv").is_file()

    def _rows(self, name: str) -> tuple[Array, Array]:
        if name not in self._read_tables:
            self._read_tables[name] = self._read(name)
        return self._read_tables[name]

    def _read(self, name: str) -> tuple[Array, Array]:
        file = self.folder / f"{name}.csv"
        if not file.is_file():
            X, y = _EMBEDDED[name]()
            return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        rows = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
        return rows[:, :-1], rows[:, -1]
