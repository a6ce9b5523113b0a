"""Times of prediction intervals: jackknife+ against MAPIE's, which refits once per row, and all methods in fits."""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from substrate.arrays import Array
from substrate.kernels import RBF
from substrate.uncertainty.levels import rank

__all__ = ["run"]

COVERAGE = 0.9
N, POINTS = 1000, 1000
#: The same size for a quick run, and for the comparison of all ends.
SMALL = 200
LEAST_FASTER, MOST_FITS, EQUAL = 120.0, 6.0, 1e-8


def machine() -> LSSVMRegressor:
    return LSSVMRegressor(RBF(5.0), gamma=10.0)


def refit(X: Array, y: Array, new: Array) -> Array:
    """Jackknife+ by MAPIE where it is installed, else by the same refits written out."""
    if importlib.util.find_spec("mapie") is not None:
        from mapie.regression import CrossConformalRegressor

        peer: Any = CrossConformalRegressor(machine(), COVERAGE, method="plus", cv=LeaveOneOut())
        return np.asarray(peer.fit_conformalize(X, y).predict_interval(new)[1][:, :, 0])
    outputs, errors, rows = [], [], np.arange(y.size)
    for i in rows:
        model = machine().fit(X[rows != i], y[rows != i])
        outputs.append(model.predict(new))
        errors.append(abs(y[i] - model.predict(X[[i]])[0]))
    values, sizes, k = np.array(outputs), np.array(errors)[:, None], rank(COVERAGE, y.size)
    low, high = np.sort(values - sizes, axis=0)[y.size - k], np.sort(values + sizes, axis=0)[k - 1]
    return np.column_stack([low, high])


def run(quick: bool) -> Table:
    n = SMALL if quick else N
    X, y = regression_data(n)
    new = np.random.default_rng(1).standard_normal((n if quick else POINTS, X.shape[1]))
    peer = "MAPIE" if importlib.util.find_spec("mapie") is not None else "explicit refits"
    model = machine().fit(X, y)
    methods = ("jackknife+", "jackknife-minmax", "conformal", "gaussian")
    contenders: dict[str, Callable[[], object]] = {
        method: (lambda method=method: model.predict_interval(new, COVERAGE, method))  # type: ignore[misc]
        for method in methods
    }
    contenders["region"] = lambda: model.predict_region(new, COVERAGE)
    contenders["fit"] = lambda: machine().fit(X, y)
    t = time_interleaved(contenders, 3 if quick else 9)
    start = time.process_time()
    explicit = refit(X, y, new)  # once: it takes minutes
    refits = time.process_time() - start
    ends = model.predict_interval(new, COVERAGE, "jackknife+")
    distance = float(np.abs(ends - explicit).max())
    rows, missed, summary = [], [], []
    for method in (*methods, "region"):
        fits = t[method] / t["fit"]
        name = "conformal, all pieces" if method == "region" else method
        row = [name, f"{t[method]:.3f}", f"{fits:.1f}"]
        if method == "jackknife+":
            faster = refits / t[method]
            met = faster >= LEAST_FASTER and distance <= EQUAL
            line = Headline(f"jackknife+ intervals, N = {n}", peer, faster, least=LEAST_FASTER, held=distance <= EQUAL)
            summary.append(line)
            row += [f"{refits:.1f}", f"{faster:.0f}", f"≥ {LEAST_FASTER:g}, apart ≤ {EQUAL:g}", f"{distance:.1e}"]
            if not met:
                missed.append(f"jackknife+ is {faster:.0f} times faster than {peer}, its ends {distance:.1e} apart.")
            row.append(yes_no(met))
        elif method == "conformal":
            met = fits <= MOST_FITS
            summary.append(Headline(f"conformal intervals, N = {n}", "one fit", fits, most=MOST_FITS))
            row += ["", "", f"≤ {MOST_FITS:g} fits", "", yes_no(met)]
            if not met:
                missed.append(f"full conformal takes {fits:.1f} fits, {MOST_FITS:g} wanted.")
        else:
            row += ["", "", "", "", ""]
        rows.append(tuple(row))
    return Table(
        "Prediction intervals: times",
        f"Intervals at {new.shape[0]} points of a fitted `LSSVMRegressor` of {n} rows, in median CPU seconds and in "
        f"fits; the inverse is computed in every call. The peer, {peer}, refits the same machine once per row: "
        '`CrossConformalRegressor(method="plus", cv=LeaveOneOut())`, measured once.',
        ("method", "s", "fits", f"{peer}, s", "times faster", "target", "largest difference", "met"),
        tuple(rows),
        tuple(missed),
        tuple(summary),
    )
