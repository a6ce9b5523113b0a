"""Errors, ranks and CPU time on nineteen tables and functions, against scikit-learn's kernel methods and boosting.

Finished cells (a method on a split) are kept in a file, by the code that made them, so that an interrupted run goes on:
``SUBSTRATE_BENCHMARK_CELLS`` names it; unless given it is in the user's folder for caches.
``SUBSTRATE_BENCHMARK_SPLITS`` is another number of splits than ten.

Tables of 200 rows at most, small grids and sums of kernels on ten inputs at most: ten splits take less than 25 minutes
of one core.
"""

import gc
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
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
from substrate.kernels import RBF, Componentwise

__all__ = ["run"]

SPLITS, QUICK_SPLITS = 10, 1
QUICK_SETS = ("motorcycle", "friedman3", "iris", "moons")
#: Largest share of the Gaussian process's time.
MOST_TIME = 1.0 / 3.0
#: Least error of the two ways without a rule, as a multiple of that of the rule.
SAFE = 0.995
KERNEL_METHODS = ("ours", "kernel ridge", "SVM", "Gaussian process")
#: Inputs of a sum of main effects and pairs: 55 terms, each with a weight.
FEWEST_OF_SUM, MOST_OF_SUM = 2, 10
#: The first is ranked among the peers; the others show what its parts contribute, and what else could be asked for.
OURS: Mapping[str, Mapping[str, Any]] = {
    "ours": {**RECOMMENDED},
    "always shared": {**RECOMMENDED, "widths": "shared"},
    "always each": {**RECOMMENDED, "widths": "each"},
    "no search": {"kernels": "families"},
    "RBF": {},
    "sums": {"kernel": Componentwise(RBF(), order=2), "search": "gradient", "max_evaluations": 20},
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

    def add(self, cell: Cell, results: Measured) -> None:
        self._known[self._made_by(cell), cell] = results
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"code": self._made_by(cell), "cell": cell, "error": results[0], "seconds": results[1]})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _made_by(self, cell: Cell) -> str:
        method = cell[2]
        return self._code if method in PEERS else f"{self._own_code} {dict(OURS[method])!r}"


def _digest(*patterns: str) -> str:
    """Digest the files that decide a result."""
    hasher = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(_ROOT.glob(pattern)):
            hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]


def _cells_file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lssvm-substrate"
    return Path(os.environ.get("SUBSTRATE_BENCHMARK_CELLS") or folder / "accuracy.jsonl")


@lru_cache
def _shape(name: str) -> tuple[int, int, int]:
    """Return rows that train, inputs, and rows that are tested, the same in every split."""
    split = split_of(name, 0)
    return *split.X.shape, split.y_test.shape[0]


def _methods(name: str) -> Mapping[str, Method]:
    labels = name in CLASSIFICATION
    machine: Any = LSSVMClassifierCV if labels else LSSVMRegressorCV
    methods = {method: partial(_make_machine, machine, parameters) for method, parameters in OURS.items()}
    if not FEWEST_OF_SUM <= _shape(name)[1] <= MOST_OF_SUM:
        del methods["sums"]
    return {**methods, **(LABELS if labels else NUMBERS)}


def _make_machine(machine: Any, parameters: Mapping[str, Any], d: int) -> Any:
    return machine(**parameters)


def _cells(sets: tuple[str, ...], splits: int) -> Iterator[Cell]:
    """All methods of a split take turns, so that what else the machine does falls on them alike."""
    for seed in range(splits):
        for name in sets:
            yield from ((name, seed, method) for method in _methods(name))


def measure(cell: Cell) -> Measured:
    """Return the error on the rows to test, and the CPU seconds of fit and prediction."""
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


def _measure_all(sets: tuple[str, ...], splits: int) -> dict[Cell, Measured]:
    cells, wanted = Cells(_cells_file()), list(_cells(sets, splits))
    missing = [cell for cell in wanted if cells.get(cell) is None]
    for number, cell in enumerate(missing):
        print(
            f"\r\x1b[K{number}/{len(missing)} {cell[0]}, split {cell[1]}: {cell[2]}",
            end="",
            file=sys.stderr,
            flush=True,
        )
        cells.add(cell, measure(cell))
    if missing:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {cell: cells.get(cell) or (np.nan, np.nan) for cell in wanted}


def _error(results: dict[Cell, Measured], name: str, method: str, splits: int) -> float:
    """Return the mean root mean square error over splits, or the share of wrong rows of all splits together."""
    return float(np.mean([results[name, seed, method][0] for seed in range(splits)]))


def _ranks(
    results: dict[Cell, Measured], sets: tuple[str, ...], splits: int, ranked: tuple[str, ...]
) -> dict[str, float]:
    """Return the mean over sets, of equal weight, of the rank of each method's error among those that a set has.

    Equal errors share the mean of their places; they are compared to nine digits, since shares of rows are exact.
    """
    ranks: dict[str, list[float]] = {method: [] for method in ranked}
    for name in sets:
        present = [method for method in ranked if method in _methods(name)]
        places = rankdata([float(f"{_error(results, name, method, splits):.9g}") for method in present])
        for method, place in zip(present, places, strict=True):
            # a place among fewer methods counts as much as one among all
            ranks[method].append(1.0 + (place - 1.0) * (len(ranked) - 1.0) / (len(present) - 1.0))
    return {method: float(np.mean(places)) for method, places in ranks.items()}


def _ratios(results: dict[Cell, Measured], sets: tuple[str, ...], splits: int) -> dict[str, float]:
    """Geometric means over sets of each method's error over ours.

    Wrong rows are counted over all splits first, and (wrong + 1/2) / (rows + 1) is the share, since there may be none.
    """
    logarithms: dict[str, list[float]] = {method: [] for method in METHODS}
    for name in sets:
        rows = splits * _shape(name)[2] if name in CLASSIFICATION else 0
        our_error = _error(results, name, "ours", splits)
        for method in _methods(name):
            pair = np.array([_error(results, name, method, splits), our_error])
            pair = (pair * rows + 0.5) / (rows + 1.0) if rows else pair
            logarithms[method].append(float(np.log(pair[0] / pair[1])))
    return {method: float(np.exp(np.mean(values))) for method, values in logarithms.items() if values}


def _row(results: dict[Cell, Measured], name: str, splits: int) -> tuple[str, ...]:
    (train, inputs, _), methods = _shape(name), _methods(name)
    labels = name in CLASSIFICATION
    cells = []
    for method in METHODS:
        mean = _error(results, name, method, splits) if method in methods else np.nan
        cells.append("" if np.isnan(mean) else f"{100.0 * mean:.1f} %" if labels else f"{mean:.4g}")
    return (name, f"{train} x {inputs}", *cells, "", "")


def run(quick: bool) -> Table:
    sets = QUICK_SETS if quick else (*REGRESSION, *CLASSIFICATION)
    splits = QUICK_SPLITS if quick else int(os.environ.get("SUBSTRATE_BENCHMARK_SPLITS", SPLITS))
    results = _measure_all(sets, splits)
    ratios, process = _ratios(results, sets, splits), "Gaussian process"
    ranks, overall = (_ranks(results, sets, splits, ranked) for ranked in (KERNEL_METHODS, ("ours", *PEERS)))
    seconds = {m: float(np.mean([t for (_, _, method), (_, t) in results.items() if method == m])) for m in METHODS}
    first = all(ranks["ours"] <= ranks[method] for method in KERNEL_METHODS)
    share = seconds["ours"] / seconds[process]
    quickly = share <= MOST_TIME and ranks["ours"] <= ranks[process]
    safe = min(ratios["always shared"], ratios["always each"]) >= SAFE
    rows = [_row(results, name, splits) for name in sets]
    rows += [
        ("mean rank, kernel methods", "", *_cells_of(ranks, ".2f"), "ours first", yes_no(first)),
        ("mean rank, all", "", *_cells_of(overall, ".2f"), "", ""),
        ("error over ours", "", *_cells_of(ratios, ".3f"), f"shared, each ≥ {SAFE:g}", yes_no(safe)),
        ("CPU seconds", "", *_cells_of(seconds, ".2f"), "", ""),
        (
            "CPU time over that of the Gaussian process",
            "",
            *_cells_of({method: time / seconds[process] for method, time in seconds.items()}, ".2f"),
            "ours ≤ 1/3",
            yes_no(quickly),
        ),
    ]
    shortfalls = []
    if not first:
        ahead = ", ".join(m for m in KERNEL_METHODS if ranks[m] < ranks["ours"])
        shortfalls.append(f"Ahead of ours by mean rank: {ahead}.")
    if not safe:
        shortfalls.append("The rule has larger errors than one of the two ways it decides between.")
    if not quickly:
        shortfalls.append(f"{share:.2f} times the CPU time of the Gaussian process, of mean rank {ranks[process]:.2f}.")
    headlines = (
        Headline(
            "the rule of widths: error of a shared width over ours",
            "always shared",
            ratios["always shared"],
            least=SAFE,
        ),
        Headline(
            "the rule of widths: error of one width per input over ours",
            "always each",
            ratios["always each"],
            least=SAFE,
        ),
        Headline(
            "kernel, widths and gamma chosen, 200 rows",
            f"scikit-learn's {process}",
            share,
            most=round(MOST_TIME, 2),
            held=ranks["ours"] <= ranks[process],
        ),
    )
    return Table(
        "Accuracy: families of kernels, refined by gradients, against scikit-learn",
        f"Root mean square errors and shares of wrong classes, means over {splits} splits (two thirds of the rows "
        'train, 200 at most; inputs standardised). `ours` is `kernels="families", search="gradient"`, where the rule '
        "decides between a shared width and one per input; `always shared` and `always each` do without it, `no "
        "search` tries the list of kernels, `RBF` is one kernel of the median width, and `sums` are main effects and "
        f"pairs with a weight each, `Componentwise(RBF(), order=2)`, where there are {FEWEST_OF_SUM} to {MOST_OF_SUM} "
        "inputs; every gamma is the best one by leave-one-out. The peers: `KernelRidge` and `SVR`/`SVC` by grids and "
        "five folds, Gaussian processes with one width per input (the classifier with 60 evaluations at most), "
        "`HistGradientBoosting` as it is, ridge or logistic regression. Ranks are of the errors in this table, set by "
        "set, equal ones sharing their places, among `ours`, kernel ridge, SVM and Gaussian process, and among `ours` "
        "and all peers. `error over ours` is the geometric mean over sets of the ratio of errors; wrong rows are "
        "counted over all splits first, and (wrong + 1/2)/(rows + 1) is their share, since there may be none. CPU "
        "seconds are means of one fit with prediction, on one thread.",
        ("data", "rows x inputs", *METHODS, "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        headlines,
    )


def _cells_of(numbers: Mapping[str, float], form: str) -> Iterator[str]:
    """Return one cell for every method, empty where it has no number."""
    return (f"{numbers[method]:{form}}" if method in numbers else "" for method in METHODS)
