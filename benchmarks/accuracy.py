"""Errors, ranks and CPU time on nineteen tables and functions, against scikit-learn's kernel methods and boosting.

Finished cells (a method on a split) are kept in a file, by the code that made them, so that an interrupted run goes on:
``SUBSTRATE_BENCHMARK_CELLS`` names it; unless given it is in the user's folder for caches.
``SUBSTRATE_BENCHMARK_SPLITS`` is another number of splits than ten.
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
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMClassifierCV, LSSVMRegressorCV
from problems.estimators.chosen.families import RECOMMENDED
from substrate.arrays import Array

__all__ = ["run"]

SPLITS, QUICK_SPLITS = 10, 1
QUICK_SETS = ("motorcycle", "friedman3", "iris", "moons")
#: Largest share of the Gaussian process's time.
MOST_TIME = 1.0 / 3.0
#: Least error of the two ways without a rule, as a multiple of that of the rule.
SAFE = 0.995
KERNEL_METHODS = ("ours", "kernel ridge", "SVM", "Gaussian process")
#: The first is ranked among the peers; the others show what its parts contribute.
OURS: Mapping[str, Mapping[str, Any]] = {
    "ours": {**RECOMMENDED},
    "always shared": {**RECOMMENDED, "widths": "shared"},
    "always each": {**RECOMMENDED, "widths": "each"},
    "no search": {"kernels": "families"},
    "RBF": {},
}
METHODS = (*OURS, *PEERS)
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


def _errors(found: dict[Cell, Measured], name: str, method: str, splits: int) -> Array:
    return np.array([found[name, seed, method][0] for seed in range(splits)])


def _ranks(found: dict[Cell, Measured], sets: tuple[str, ...], splits: int) -> dict[str, float]:
    """The mean rank of ours and of each peer over sets of equal weight, among those that a set has."""
    ranked = ("ours", *PEERS)
    ranks: dict[str, list[float]] = {method: [] for method in ranked}
    for name in sets:
        here = [method for method in ranked if method in _methods(name)]
        places = np.mean(rankdata([_errors(found, name, m, splits) for m in here], axis=0), axis=1)
        for method, place in zip(here, places, strict=True):
            # a place among fewer methods counts as much as one among all
            ranks[method].append(1.0 + (place - 1.0) * (len(ranked) - 1.0) / (len(here) - 1.0))
    return {method: float(np.mean(places)) for method, places in ranks.items()}


def _ratios(found: dict[Cell, Measured], sets: tuple[str, ...], splits: int) -> dict[str, float]:
    """Geometric means over sets of each method's error over ours; half a row more is wrong, since none may be."""
    logarithms: dict[str, list[float]] = {method: [] for method in METHODS}
    for name in sets:
        more = 0.5 / split_of(name, 0).y_test.shape[0] if name in CLASSIFICATION else 0.0
        for method in _methods(name):
            mean = float(_errors(found, name, method, splits).mean())
            logarithms[method].append(np.log((mean + more) / (_errors(found, name, "ours", splits).mean() + more)))
    return {method: float(np.exp(np.mean(values))) for method, values in logarithms.items()}


def _row(found: dict[Cell, Measured], name: str, splits: int) -> tuple[str, ...]:
    X, known = split_of(name, 0).X, _methods(name)
    labels = name in CLASSIFICATION
    cells = []
    for method in METHODS:
        mean = float(_errors(found, name, method, splits).mean()) if method in known else np.nan
        cells.append("" if np.isnan(mean) else f"{100.0 * mean:.1f} %" if labels else f"{mean:.4g}")
    return (name, f"{X.shape[0]} x {X.shape[1]}", *cells, "", "")


def run(quick: bool) -> Table:
    sets = QUICK_SETS if quick else (*REGRESSION, *CLASSIFICATION)
    splits = QUICK_SPLITS if quick else int(os.environ.get("SUBSTRATE_BENCHMARK_SPLITS", SPLITS))
    found = _all_measured(sets, splits)
    ranks, ratios = _ranks(found, sets, splits), _ratios(found, sets, splits)
    seconds = {m: float(np.mean([t for (_, _, method), (_, t) in found.items() if method == m])) for m in METHODS}
    first = all(ranks["ours"] <= ranks[method] for method in KERNEL_METHODS)
    process = "Gaussian process"
    quickly = seconds["ours"] <= MOST_TIME * seconds[process] and ranks["ours"] <= ranks[process]
    safe = min(ratios["always shared"], ratios["always each"]) >= SAFE
    rows = [_row(found, name, splits) for name in sets]
    rows += [
        ("mean rank", "", *(f"{ranks[m]:.2f}" if m in ranks else "" for m in METHODS), "first of kernel methods",
         yes_no(first)),
        ("error over ours", "", *(f"{ratios[m]:.3f}" for m in METHODS), f"shared, each ≥ {SAFE:g}", yes_no(safe)),
        ("CPU seconds", "", *(f"{seconds[m]:.2f}" for m in METHODS), "≤ a third of the Gaussian process",
         yes_no(quickly)),
    ]  # fmt: skip
    shortfalls = []
    if not first:
        ahead = ", ".join(m for m in KERNEL_METHODS if ranks[m] < ranks["ours"])
        shortfalls.append(f"Ahead of ours by mean rank: {ahead}.")
    if not safe:
        shortfalls.append("The rule has larger errors than one of the two ways it decides between.")
    if not quickly:
        times = seconds["ours"] / seconds[process]
        shortfalls.append(f"{times:.2f} times the CPU time of the Gaussian process, of mean rank {ranks[process]:.2f}.")
    return Table(
        "Accuracy: families of kernels, refined by gradients, against scikit-learn",
        f"Root mean square errors and shares of wrong classes, means over {splits} splits (two thirds of the rows "
        'train, 200 at most; inputs standardised). `ours` is `kernels="families", search="gradient"`, where the rule '
        "decides between a shared width and one per input; `always shared` and `always each` do without it, `no "
        "search` tries the list of kernels, `RBF` is one kernel of the median width; every gamma is the best one by "
        "leave-one-out. The peers: `KernelRidge` and `SVR`/`SVC` by grids and five folds, Gaussian processes with one "
        "width per input (the classifier with 60 evaluations at most), `HistGradientBoosting` as it is, ridge or "
        "logistic regression. Ranks are among `ours` and the peers, in each split; `error over ours` is the geometric "
        "mean of ratios of mean errors; CPU seconds are means of one fit with prediction, on one thread.",
        ("data", "rows x inputs", *METHODS, "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        (
            Headline(
                "accuracy: CPU time of families with search",
                process,
                seconds["ours"] / seconds[process],
                most=MOST_TIME,
                held=ranks["ours"] <= ranks[process],
            ),
            Headline(
                "accuracy: mean rank",
                "best other kernel method",
                ranks["ours"] / min(ranks[m] for m in KERNEL_METHODS if m != "ours"),
                most=1.0,
            ),
            Headline(
                "accuracy: error of the better of both ways",
                "ours",
                min(ratios["always shared"], ratios["always each"]),
                least=SAFE,
            ),
        ),
    )
