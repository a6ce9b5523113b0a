"""The time that ``substrate fit`` estimates before it begins, against the time that the fit takes, on tables."""

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_friedman1

from benchmarks.measure import measure_result
from benchmarks.table import Headline, Table, yes_no
from problems.tables.embedded_sets import question_of
from problems.tables.fit import Choices, fit_prepared, prepare
from problems.tables.frames import frame_of
from problems.tables.table import Table as Rows
from problems.tables.table import read_table

__all__ = ["run"]

#: How far an estimate may be from what happened, in both directions.
MOST_OFF = 3.0


def embedded(name: str) -> tuple[Rows, str, str]:
    return read_table(f"@{name}"), *question_of(name)


def friedman(n: int, d: int) -> tuple[Rows, str, str]:
    X, y = make_friedman1(n, d, noise=1.0, random_state=0)
    return frame_of({**{f"x{k}": X[:, k] for k in range(d)}, "y": y}).table, "y", "regression"


def waves(n: int, d: int) -> tuple[Rows, str, str]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    labels = np.where(y > 0.0, "above", "below")
    return frame_of({**{f"x{k}": X[:, k] for k in range(d)}, "y": labels}).table, "y", "classification"


def bundled(load: Callable[[], object], task: str) -> tuple[Rows, str, str]:
    bunch: object = load()
    X, y = np.asarray(bunch.data), np.asarray(bunch.target)  # type: ignore[attr-defined]
    return frame_of({**{f"x{k}": X[:, k] for k in range(X.shape[1])}, "y": y}).table, "y", task


TABLES: dict[str, Callable[[], tuple[Rows, str, str]]] = {
    "motorcycle": lambda: embedded("motorcycle"),
    "iris": lambda: bundled(load_iris, "classification"),
    "diabetes": lambda: bundled(load_diabetes, "regression"),
    "boston": lambda: embedded("boston"),
    "breast cancer": lambda: bundled(load_breast_cancer, "classification"),
    "friedman 1000": lambda: friedman(1000, 10),
    "friedman 1800": lambda: friedman(1800, 6),
    "waves 4000": lambda: waves(4000, 4),
    "friedman 6000": lambda: friedman(6000, 8),
    "friedman 20000": lambda: friedman(20_000, 8),
}
QUICK = ("motorcycle", "iris", "boston")


def run(quick: bool) -> Table:
    rows, worst = [], 1.0
    for name in QUICK if quick else TABLES:
        table, target, task = TABLES[name]()
        ready = prepare(table, Choices(target, task=task, model="auto", kernel="families"))
        took, estimate = measure_result(partial(fit_prepared, ready))[1], ready.effort.seconds
        off = max(took / estimate, estimate / took)
        worst = max(worst, off)
        cells = (f"{estimate:.1f}", f"{took:.1f}", f"{took / estimate:.2f}", yes_no(off <= MOST_OFF))
        rows.append((name, str(table.n_rows), ready.choices.model, *cells))
    missed = f"an estimate is off by a factor of {worst:.1f}, {MOST_OFF:g} allowed."
    return Table(
        "The estimate of time of substrate fit",
        "Seconds that are estimated before a fit begins, from the smallest of five decompositions of a small "
        "matrix, against the CPU seconds of the search and both fits.",
        ("table", "rows", "model", "estimate, s", "took, s", "took / estimate", "met: within a factor of 3"),
        tuple(rows),
        () if worst <= MOST_OFF else (missed,),
        (Headline("estimates of a fit", "what it takes", MOST_OFF / worst, least=1.0),),
    )
