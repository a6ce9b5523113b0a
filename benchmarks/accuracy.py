"""Errors, ranks and CPU time on nineteen tables and functions, and on public tables, against other methods.

``python -m benchmarks accuracy`` measures the nineteen sets of this package and of scikit-learn. ``python -m
benchmarks.accuracy --tables FOLDER`` measures public tables with their printed splits, read from a folder
(:mod:`benchmarks.accuracy_tables`), and with ``--write`` puts them into the record; ``--sets``, ``--splits`` and
``--methods`` choose some of all. As many cells are measured at a time as there are cores, each on one thread, or as
many as ``--jobs`` says.

Finished cells (a method on a split) are kept in a file, by the code and the rows that made them, so that an interrupted
run goes on: ``SUBSTRATE_BENCHMARK_CELLS`` names it; unless given it is in the user's folder for caches.
``SUBSTRATE_BENCHMARK_SPLITS`` is another number of splits than ten.

The nineteen sets have 200 rows to fit at most, small grids and sums of kernels on ten inputs at most: ten splits take
less than 40 minutes of one core. Of public tables with more than 2,000 rows to fit, ours is the sparse search on all of
them, and the peers have 2,000 drawn ones.
"""

import argparse
import gc
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from benchmarks.accuracy_peers import KERNEL_PEERS, LABELS, MISSING, NUMBERS, PEERS, Method
from benchmarks.accuracy_sets import Collection, EmbeddedSets, Split
from benchmarks.accuracy_tables import PublicTables
from benchmarks.processes import complete_each
from benchmarks.record import Record
from benchmarks.table import Headline, Table, yes_no
from problems import (
    LSSVMClassifierCV,
    LSSVMRegressorCV,
    SparseLSSVMRegressorCV,
    StackedLSSVMClassifier,
    StackedLSSVMRegressor,
)
from problems.estimators.chosen.families import RECOMMENDED
from substrate.kernels import RBF, Componentwise

__all__ = ["run"]

QUICK_SPLITS = 1
QUICK_SETS = ("motorcycle", "friedman3", "iris", "moons")
#: Largest share of the Gaussian process's time.
MOST_TIME = 1.0 / 3.0
#: Least error of the two ways without a rule, as a multiple of that of the rule.
SAFE = 0.995
#: Most error of the stack as a multiple of that of one machine: over the nineteen sets, and over some public tables.
MOST_ERROR, MOST_ERROR_OF_TABLES = 1.0, 0.94
DECIDING_TABLES = ("boston", "energy", "wine_red")
#: Most CPU time of the stack, as a multiple of that of one machine.
MOST_STACK_TIME = 3.0
#: Most rows to fit of a machine on all of them, and of a peer.
MOST_ROWS = 2000
#: Inputs of a sum of main effects and pairs: 55 terms, each with a weight.
FEWEST_OF_SUM, MOST_OF_SUM = 2, 10
#: The stack is ranked among the peers, and so is one machine in its place; the others show what the parts of the search
#: contribute, and what else could be asked for.
STACK, ONE = "stack", "ours"
OURS: Mapping[str, Mapping[str, Any]] = {
    STACK: {**RECOMMENDED},
    ONE: {**RECOMMENDED},
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

    def __init__(self, path: Path, collection: Collection) -> None:
        self._path = path
        self._known: dict[tuple[str, Cell], Measured] = {}
        self._code = f"{_digest('benchmarks/accuracy_*.py')} {sklearn.__version__}"
        self._own_code = _digest("substrate/**/*.py", "problems/**/*.py", "benchmarks/accuracy_sets.py")
        self._sources = {name: collection.source(name) for name in collection.names}
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
        name, _, method = cell
        code = self._code if method in PEERS else f"{self._own_code} {dict(OURS[method])!r}"
        return f"{code} {self._sources.get(name, '')}".rstrip()


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is measured: some sets of a collection, a number of splits, and some methods of all."""

    collection: Collection
    sets: tuple[str, ...]
    splits: int
    methods: tuple[str, ...] = METHODS
    _shapes: dict[str, tuple[int, int, int]] = field(default_factory=dict, init=False, repr=False)

    def shape(self, name: str) -> tuple[int, int, int]:
        """Return rows that train, inputs, and rows that are tested, the same in every split."""
        if name not in self._shapes:
            split = self.collection.split_of(name, 0)
            self._shapes[name] = (*split.X.shape, split.y_test.shape[0])
        return self._shapes[name]

    def methods_of(self, name: str) -> dict[str, Method]:
        """Return the methods that a set is measured with: above 2,000 rows ours is the sparse search alone."""
        rows, d, _ = self.shape(name)
        labels = self.collection.has_labels(name)
        machine: Any = LSSVMClassifierCV if labels else LSSVMRegressorCV
        stack: Any = StackedLSSVMClassifier if labels else StackedLSSVMRegressor
        own: dict[str, Method] = {
            method: _Fixed(stack if method == STACK else machine, parameters) for method, parameters in OURS.items()
        }
        if not FEWEST_OF_SUM <= d <= MOST_OF_SUM:
            del own["sums"]
        if rows > MOST_ROWS:
            own = {ONE: _Fixed(SparseLSSVMRegressorCV, OURS[ONE])}
        every = {**own, **(LABELS if labels else NUMBERS)}
        return {method: every[method] for method in every if method in self.methods}

    def cells(self) -> Iterator[Cell]:
        """Yield all cells; the methods of a split take turns, so that what else the machine does falls on them
        alike.
        """
        for number in range(self.splits):
            for name in self.sets:
                yield from ((name, number, method) for method in self.methods_of(name))

    def measure(self, cell: Cell) -> Measured:
        """Return the error on the rows to test, and the CPU seconds of fit and prediction."""
        name, number, method = cell
        split = self.collection.split_of(name, number)
        if method in PEERS and split.X.shape[0] > MOST_ROWS:
            split = _draw_rows(split, number)
        model = self.methods_of(name)[method](split.X.shape[1])
        gc.collect()
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            predicted = model.fit(split.X, split.y).predict(split.X_test)
            seconds = time.process_time() - start
        if self.collection.has_labels(name):
            return float(np.mean(predicted != split.y_test)), seconds
        return float(np.sqrt(np.mean((predicted - split.y_test) ** 2))), seconds

    def measure_all(self, jobs: int | None = None) -> dict[Cell, Measured]:
        """Return all cells, those of the file without measuring them again: ``jobs`` at a time, by default as many as
        there are cores, tables of many rows first, being the longest.
        """
        cells, wanted = Cells(_cells_file(), self.collection), list(self.cells())
        missing = [cell for cell in wanted if cells.get(cell) is None]
        missing.sort(key=lambda cell: -self.shape(cell[0])[0])
        for number, (cell, measured) in enumerate(complete_each(self.measure, missing, jobs), 1):
            cells.add(cell, measured)
            done = f"{number}/{len(missing)} {cell[0]}, split {cell[1]}: {cell[2]}"
            print(f"\r\x1b[K{done}", end="", file=sys.stderr, flush=True)
        if missing:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return {cell: cells.get(cell) or (np.nan, np.nan) for cell in wanted}


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A machine with its parameters, whatever the number of inputs."""

    machine: Any
    parameters: Mapping[str, Any]

    def __call__(self, d: int) -> Any:
        return self.machine(**self.parameters)


def _draw_rows(split: Split, number: int) -> Split:
    """Return as many rows to fit as a peer has, drawn by the number of the split."""
    rows = np.random.default_rng(number).choice(split.X.shape[0], MOST_ROWS, replace=False)
    return replace(split, X=split.X[rows], y=split.y[rows])


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured cells of a comparison, and what the table says of them."""

    comparison: Comparison
    cells: Mapping[Cell, Measured]

    def error(self, name: str, method: str) -> float:
        """Return the mean root mean square error over splits, or the share of wrong rows of all splits together."""
        return float(np.mean([self.cells[name, number, method][0] for number in range(self.comparison.splits)]))

    def ranks(self, ranked: Sequence[str]) -> dict[str, float]:
        """Return the mean over sets, of equal weight, of the rank of each method's error among those that a set has.

        Equal errors share the mean of their places; they are compared to nine digits, since shares of rows are exact.
        """
        ranks: dict[str, list[float]] = {method: [] for method in ranked}
        for name in self.comparison.sets:
            present = [method for method in ranked if method in self.comparison.methods_of(name)]
            if len(present) < 2:
                continue
            places = rankdata([float(f"{self.error(name, method):.9g}") for method in present])
            for method, place in zip(present, places, strict=True):
                # a place among fewer methods counts as much as one among all
                ranks[method].append(1.0 + (place - 1.0) * (len(ranked) - 1.0) / (len(present) - 1.0))
        return {method: float(np.mean(places)) for method, places in ranks.items() if places}

    def ranks_of_ours(self, peers: Sequence[str]) -> dict[str, float]:
        """Return ranks among peers: those of the stack and theirs, and that of one machine in the stack's place."""
        ranks, places = self.ranks((STACK, *peers)), self.ranks((ONE, *peers))
        return places | ranks | ({ONE: places[ONE]} if ONE in places else {})

    def ratios(self, over: str, sets: Sequence[str] | None = None) -> dict[str, float]:
        """Return geometric means over sets of each method's error over that of another one.

        Wrong rows are counted over all splits first, and (wrong + 1/2) / (rows + 1) is the share, since there may be
        none.
        """
        comparison = self.comparison
        logarithms: dict[str, list[float]] = {method: [] for method in METHODS}
        for name in comparison.sets if sets is None else sets:
            methods = comparison.methods_of(name)
            if over not in methods:
                continue
            rows = comparison.splits * comparison.shape(name)[2] if comparison.collection.has_labels(name) else 0
            unit = self.error(name, over)
            for method in methods:
                pair = np.array([self.error(name, method), unit])
                pair = (pair * rows + 0.5) / (rows + 1.0) if rows else pair
                logarithms[method].append(float(np.log(pair[0] / pair[1])))
        return {method: float(np.exp(np.mean(values))) for method, values in logarithms.items() if values}

    def seconds(self) -> dict[str, float]:
        """Return the mean CPU seconds of each method, over the cells that it has."""
        every: dict[str, list[float]] = {}
        for (_, _, method), (_, seconds) in self.cells.items():
            every.setdefault(method, []).append(seconds)
        return {method: float(np.mean(times)) for method, times in every.items()}

    def time_ratio(self, method: str, over: str) -> float:
        """Return the CPU time of a method over that of another, on the sets that have both; not a number without."""
        methods_of = self.comparison.methods_of
        shared = [cell for cell in self.cells if cell[2] == method and over in methods_of(cell[0])]
        if not shared:
            return float("nan")
        own, others = (sum(self.cells[name, k, m][1] for name, k, _ in shared) for m in (method, over))
        return own / others if others > 0.0 else float("nan")

    def row(self, name: str) -> tuple[str, ...]:
        """Return the errors of a set."""
        (train, inputs, _), methods = self.comparison.shape(name), self.comparison.methods_of(name)
        labels, cells = self.comparison.collection.has_labels(name), []
        for method in METHODS:
            mean = self.error(name, method) if method in methods else np.nan
            cells.append("" if np.isnan(mean) else f"{100.0 * mean:.1f} %" if labels else f"{mean:.4g}")
        return (name, f"{train} x {inputs}", *cells, "", "")


def run(quick: bool) -> Table:
    """Measure the embedded sets."""
    embedded = EmbeddedSets()
    splits = QUICK_SPLITS if quick else int(os.environ.get("SUBSTRATE_BENCHMARK_SPLITS", embedded.n_splits))
    comparison = Comparison(embedded, QUICK_SETS if quick else embedded.names, splits)
    return tabulate(Figures(comparison, comparison.measure_all()))


@dataclass(frozen=True, slots=True)
class _Target:
    """A figure that is wanted to be small: a line of the table, a sentence if it is missed, a line of the record."""

    work: str
    peer: str
    figure: float
    most: float
    held: bool = True

    @property
    def is_met(self) -> bool:
        return bool(self.figure <= self.most and self.held)

    @property
    def line(self) -> tuple[str, str]:
        return f"≤ {self.most:.3g}", yes_no(self.is_met)

    @property
    def headline(self) -> Headline:
        return Headline(self.work, self.peer, self.figure, most=round(self.most, 2), held=self.held)


def tabulate(figures: Figures) -> Table:
    """Return the table of a comparison, with the targets for which the methods were measured."""
    comparison, process = figures.comparison, "Gaussian process"
    ratios, seconds = figures.ratios(ONE), figures.seconds()
    ranks, overall = (figures.ranks_of_ours(peers) for peers in (KERNEL_PEERS, PEERS))
    rows = [figures.row(name) for name in comparison.sets]
    targets, lines = _targets(figures, ranks, overall, ratios)
    rows += [
        ("mean rank, kernel methods", "", *_cells_of(ranks, ".2f"), *lines["rank"]),
        ("mean rank, all", "", *_cells_of(overall, ".2f"), *lines["boosting"]),
        ("error over ours", "", *_cells_of(ratios, ".3f"), *lines["error"]),
        ("CPU seconds", "", *_cells_of(seconds, ".2f"), *lines["time"]),
        (
            "CPU time over that of the Gaussian process",
            "",
            *_cells_of({m: t for m in METHODS if np.isfinite(t := figures.time_ratio(m, process))}, ".2f"),
            *lines["process"],
        ),
    ]
    shortfalls = [
        f"{target.work}: {target.figure:.3g} of {target.peer}, at most {target.most:.3g} wanted."
        for target in targets
        if not target.is_met
    ]
    if MISSING:
        shortfalls.append(f"Not installed here, and left out: {', '.join(MISSING)}.")
    headlines = [target.headline for target in targets]
    for method, words in (("always shared", "a shared width"), ("always each", "one width per input")):
        if method in ratios and ONE in ratios:
            work = f"the rule of widths: error of {words} over ours"
            headlines.append(Headline(work, method, ratios[method], least=SAFE))
            if ratios[method] < SAFE:
                shortfalls.append(f"The rule has larger errors than {method}, {ratios[method]:.3f} of its own.")
    return Table(
        f"Accuracy{' on public tables' if _is_public(comparison) else ''}: a stack of machines, and one machine, "
        "against other methods",
        _note(comparison),
        ("data", "rows x inputs", *METHODS, "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        tuple(headlines),
    )


def _targets(
    figures: Figures, ranks: Mapping[str, float], overall: Mapping[str, float], ratios: Mapping[str, float]
) -> tuple[list[_Target], dict[str, tuple[str, str]]]:
    """Return the targets whose methods were measured, and what the last lines of the table say of them."""
    comparison, targets = figures.comparison, list[_Target]()
    lines: dict[str, tuple[str, str]] = dict.fromkeys(("rank", "boosting", "error", "time", "process"), ("", ""))

    def want(key: str, target: _Target) -> None:
        targets.append(target)
        lines[key] = target.line

    peers = [ranks[method] for method in KERNEL_PEERS if method in ranks]
    if STACK in ranks and peers:
        want("rank", _Target("mean rank of the stack", "the best kernel method", ranks[STACK], min(peers)))
    if STACK in overall and "boosting" in overall:
        want("boosting", _Target("mean rank of the stack", "boosting", overall[STACK], overall["boosting"]))
    if STACK in ratios and ONE in ratios:
        is_public = _is_public(comparison)
        deciding = [name for name in DECIDING_TABLES if name in comparison.sets] if is_public else comparison.sets
        if deciding:
            error = figures.ratios(ONE, deciding)[STACK]
            most = MOST_ERROR_OF_TABLES if is_public else MOST_ERROR
            want("error", _Target(f"error of the stack, {len(deciding)} sets", "one machine", error, most))
        want("time", _Target("CPU time of the stack", "one machine", figures.time_ratio(STACK, ONE), MOST_STACK_TIME))
    process = "Gaussian process"
    if ONE in ranks and process in ranks:
        held = ranks[ONE] <= ranks[process]
        want(
            "process",
            _Target("kernel, widths and gamma chosen", process, figures.time_ratio(ONE, process), MOST_TIME, held),
        )
    return targets, lines


def _is_public(comparison: Comparison) -> bool:
    return isinstance(comparison.collection, PublicTables)


def _note(comparison: Comparison) -> str:
    rows = (
        f"the first {comparison.splits} of the printed splits"
        if _is_public(comparison)
        else f"means over {comparison.splits} splits (two thirds of the rows train, 200 at most)"
    )
    return (
        f"Root mean square errors and shares of wrong classes, {rows}, inputs standardised. `stack` is "
        '`StackedLSSVMRegressor.recommended()` or the classifier, `ours` is one machine, `kernels="families", '
        'search="gradient"`, where the rule decides between a shared width and one per input; `always shared` and '
        "`always each` do without it, `no search` tries the list of kernels, `RBF` is one kernel of the median width, "
        "and `sums` are main effects and pairs with a weight each, `Componentwise(RBF(), order=2)`, where there are "
        f"{FEWEST_OF_SUM} to {MOST_OF_SUM} inputs; every gamma is the best one by leave-one-out. With more than "
        f"{MOST_ROWS} rows to fit, `ours` is the sparse search on all of them, and peers have {MOST_ROWS} drawn rows. "
        "The peers: `KernelRidge` and `SVR`/`SVC` by grids and five folds, Gaussian processes with one width per input "
        "(the classifier with 60 evaluations at most), `HistGradientBoosting` and `RandomForest` as they are, ridge or "
        "logistic regression, xRFM and CatBoost as they are where installed. Ranks are of the errors in this table, "
        "set by set, equal ones sharing their places, among the stack and the peers, and of one machine in the place "
        "of the stack. `error over ours` is the geometric mean over sets of the ratio of errors; wrong rows are "
        "counted over all splits first, and (wrong + 1/2)/(rows + 1) is their share, since there may be none. CPU "
        "seconds are means of one fit with prediction, on one thread; the target of that line is on stack over ours."
    )


def _cells_of(numbers: Mapping[str, float], form: str) -> Iterator[str]:
    """Return one cell for every method, empty where it has no number."""
    return (f"{numbers[method]:{form}}" if method in numbers else "" for method in METHODS)


def main(arguments: list[str] | None = None) -> int:
    """Measure what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="Compare errors on tables.")
    parser.add_argument("--tables", metavar="FOLDER", help="a folder of public tables with splits.json; else the sets")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="some sets or tables of all")
    parser.add_argument("--splits", type=int, help="the first so many splits; default: all")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="some methods of all")
    parser.add_argument("--jobs", type=int, help="how many cells are measured at a time (all cores)")
    parser.add_argument("--write", action="store_true", help="put the section into the record")
    parser.add_argument("--record", default="", help="the record to write to; default: that of this processor")
    options = parser.parse_args(arguments)
    collection: Collection = PublicTables(options.tables) if options.tables else EmbeddedSets()
    sets = tuple(options.sets or collection.names)
    if unknown := sorted(set(sets) - set(collection.names)):
        parser.error(f"unknown sets {', '.join(unknown)}; known are {', '.join(collection.names)}")
    splits = collection.n_splits if options.splits is None else options.splits
    if not 1 <= splits <= (collection.n_splits if options.tables else 1000):
        parser.error(f"--splits must be from 1 to {collection.n_splits}, received {splits}")
    if options.jobs is not None and options.jobs < 1:
        parser.error(f"--jobs must be at least 1, received {options.jobs}")
    comparison = Comparison(collection, sets, splits, tuple(options.methods))
    start = time.perf_counter()
    cells = comparison.measure_all(options.jobs)
    table = tabulate(Figures(comparison, cells))
    print(table.markdown())
    if options.write:
        topic = " ".join(["accuracy_of_tables", *(options.sets or ())]) if options.tables else "accuracy"
        taken = sum(seconds for _, seconds in cells.values())
        command = f"python -m benchmarks.accuracy{_describe_choice(options)}"
        Record.read(options.record).add(topic, table, command, taken, time.perf_counter() - start)
    return 0


def _describe_choice(options: argparse.Namespace) -> str:
    """Return the options that chose some of all, as they were given."""
    chosen = ["--tables FOLDER"] if options.tables else []
    chosen += [f"--splits {options.splits}"] if options.splits is not None else []
    chosen += [f"--sets {' '.join(options.sets)}"] if options.sets else []
    chosen += [f"--methods {' '.join(map(repr, options.methods))}"] if options.methods != METHODS else []
    return "".join(f" {words}" for words in chosen)


if __name__ == "__main__":
    raise SystemExit(main())
