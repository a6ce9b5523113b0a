"""Errors, ranks and CPU time on twenty tables and functions, against scikit-learn's kernel methods and boosting.

Finished cells (a method on a split) are kept in a file, by the code that made them, so that an interrupted run goes on:
``SUBSTRATE_BENCHMARK_CELLS`` names it; unless given it is in the user's folder for caches.
"""

import gc
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from benchmarks.accuracy_peers import LABELS, NUMBERS, PEERS, Method
from benchmarks.accuracy_sets import CLASSIFICATION, REGRESSION, split_of
from benchmarks.table import Table, yes_no
from problems import LSSVMClassifierCV, LSSVMRegressorCV
from substrate.arrays import Array

__all__ = ["run"]

SPLITS, QUICK_SPLITS = 10, 1
QUICK_SETS = ("motorcycle", "friedman3", "iris", "moons")
#: Largest share of the Gaussian process's time.
MOST_TIME = 1.0 / 3.0
KERNEL_METHODS = ("ours", "kernel ridge", "SVM", "Gaussian process")
#: The first is ranked among the peers; the others show what its parts contribute.
OURS: Mapping[str, Mapping[str, Any]] = {
    "ours": {"kernels": "families"},
    "RBF, median width": {},
}
_ROOT = Path(__file__).resolve().parents[1]

Cell = tuple[str, int, str]
Measured = tuple[float, float]


class Cells:
    """Errors and CPU seconds of finished cells, one line of a file each; ours are those of the present code."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[str, Cell], Measured] = {}
        self._code = f"{_digest('benchmarks/accuracy_*.py')} {sklearn.__version__}"
        self._own_code = _digest("substrate/**/*.py", "problems/**/*.py", "benchmarks/accuracy_sets.py")
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                kept = json.loads(line)
                self._known[kept["code"], tuple(kept["cell"])] = (kept["error"], kept["seconds"])
            except (ValueError, KeyError, TypeError):  # the line at which a run was interrupted
                continue

    def get(self, cell: Cell) -> Measured | None:
        return self._known.get((self._made_by(cell), cell))

    def add(self, cell: Cell, found: Measured) -> None:
        self._known[self._made_by(cell), cell] = found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"code": self._made_by(cell), "cell": cell, "error": found[0], "seconds": found[1]})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _made_by(self, cell: Cell) -> str:
        method = cell[2]
        return self._code if method in PEERS else f"{self._own_code} {dict(OURS[method])!r}"


def _digest(*patterns: str) -> str:
    """Of the files that decide a result."""
    made = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(_ROOT.glob(pattern)):
            made.update(path.read_bytes())
    return made.hexdigest()[:16]


def _cells_file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lssvm-substrate"
    return Path(os.environ.get("SUBSTRATE_BENCHMARK_CELLS") or folder / "accuracy.jsonl")


def _methods(name: str) -> Mapping[str, Method]:
    labels = name in CLASSIFICATION
    machine: Any = LSSVMClassifierCV if labels else LSSVMRegressorCV
    own = {method: partial(_made, machine, parameters) for method, parameters in OURS.items()}
    return {**own, **(LABELS if labels else NUMBERS)}


def _made(machine: Any, parameters: Mapping[str, Any], d: int) -> Any:
    return machine(**parameters)


def _cells(sets: tuple[str, ...], splits: int) -> Iterator[Cell]:
    """All methods of a split take turns, so that what else the machine does falls on them alike."""
    for seed in range(splits):
        for name in sets:
            yield from ((name, seed, method) for method in _methods(name))


def measured(cell: Cell) -> Measured:
    """The error on the rows to test, and the CPU seconds of fit and prediction."""
    name, seed, method = cell
    split = split_of(name, seed)
    model = _methods(name)[method](split.X.shape[1])
    gc.collect()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        predicted = model.fit(split.X, split.y).predict(split.X_test)
        seconds = time.process_time() - start
    if name in CLASSIFICATION:
        return float(np.mean(predicted != split.y_test)), seconds
    return float(np.sqrt(np.mean((predicted - split.y_test) ** 2))), seconds


def _all_measured(sets: tuple[str, ...], splits: int) -> dict[Cell, Measured]:
    cells, wanted = Cells(_cells_file()), list(_cells(sets, splits))
    missing = [cell for cell in wanted if cells.get(cell) is None]
    for number, cell in enumerate(missing):
        print(
            f"\r\x1b[K{number}/{len(missing)} {cell[0]}, split {cell[1]}: {cell[2]}",
            end="",
            file=sys.stderr,
            flush=True,
        )
        cells.add(cell, measured(cell))
    if missing:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {cell: cells.get(cell) or (np.nan, np.nan) for cell in wanted}


def _ranks(
    found: dict[Cell, Measured], sets: tuple[str, ...], splits: int, methods: tuple[str, ...]
) -> dict[str, float]:
    """The mean rank of each method over sets of equal weight, among those that a set has."""
    ranks: dict[str, list[float]] = {method: [] for method in methods}
    for name in sets:
        here = [method for method in methods if method in _methods(name)]
        places = np.mean([rankdata([found[name, seed, m][0] for m in here]) for seed in range(splits)], axis=0)
        for method, place in zip(here, places, strict=True):
            # places among fewer methods count as much as those among all
            ranks[method].append(1.0 + (place - 1.0) * (len(methods) - 1.0) / (len(here) - 1.0))
    return {method: float(np.mean(places)) for method, places in ranks.items()}


def _of(found: dict[Cell, Measured], name: str, method: str, splits: int, which: int = 0) -> Array:
    return np.array([found[name, seed, method][which] for seed in range(splits)])


if __name__ == "__main__":
    _all_measured((*REGRESSION, *CLASSIFICATION), SPLITS)
