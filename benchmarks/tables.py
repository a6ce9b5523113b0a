"""A table at the command line: a fit of 20,000 rows, and a prediction of ten."""

import csv
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.measure import Row
from substrate.arrays import Array

__all__ = ["rows"]

N, COLUMNS = 20_000, 20


def write(path: Path, X: Array, y: Array | None = None) -> None:
    """Write a table of rows, with their targets where there are any."""
    header = [f"x{column}" for column in range(X.shape[1])]
    table = X if y is None else np.column_stack([X, y])
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header if y is None else [*header, "y"], *table.tolist()])


def run(folder: Path, *arguments: str) -> float:
    """Run ``substrate`` in a folder, and return its CPU seconds."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "problems.command_line.main", *arguments]
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows() -> Iterator[Row]:
    """Yield the time and the error of the fit, and the time of the prediction."""
    X, y = make_friedman1(N, COLUMNS, noise=1.0, random_state=0)
    X_new, exact = make_friedman1(N, COLUMNS, noise=0.0, random_state=1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder / "rows.csv", X, y)
        write(folder / "new.csv", X_new)
        write(folder / "ten.csv", X_new[:10])
        seconds = run(folder, "fit", "rows.csv", "--target", "y", "--out", "model.npz", "--quiet")
        run(folder, "predict", "model.npz", "new.csv", "--out", "predicted.csv")
        predicted = np.genfromtxt(folder / "predicted.csv", delimiter=",", names=True)["prediction"]
        ten = run(folder, "predict", "model.npz", "ten.csv", "--out", "predicted.csv")
    peer = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    errors = [float(np.sqrt(np.mean((values - exact) ** 2))) for values in (predicted, peer.predict(X_new))]
    work = f"substrate fit of {N:,} x {COLUMNS}"
    yield Row(work, "CPU seconds", seconds, most=60.0)
    yield Row(f"{work}, error", "HistGradientBoosting", errors[0] / errors[1], most=1.15)
    yield Row("substrate predict of ten rows", "CPU seconds", ten, most=2.0)
