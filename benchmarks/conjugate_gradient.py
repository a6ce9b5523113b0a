"""Fits past the cost and the memory of a factorisation: a stored triangle against blocks of the kernel matrix."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import MIB, measure_result, peak_memory
from benchmarks.regression_fit import GAMMA, KERNEL, ours
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor

__all__ = ["make_fit", "run"]

SIZES = (5000, 20_000)
QUICK = (3000,)
#: Solver and tol; `auto` stores a triangle at these sizes.
WAYS: dict[str, tuple[str, float]] = {
    "blocks": ("cg", 1e-6),
    "stored, to 1e-3": ("auto", 1e-3),
    "stored, to 1e-6": ("auto", 1e-6),
}
#: Bytes: of blocks, whatever N is; and at the largest size of a stored triangle, in matrices of single precision.
MOST_BYTES, MOST_SINGLE = 1e9, 1.25
#: How much less CPU time a stored triangle takes than blocks, at the largest size.
LEAST_GAIN = 5.0
#: Up to here the closed form is run as well, to compare predictions.
COMPARED_UP_TO = 5000


def model_of(way: str) -> LSSVMRegressor:
    solver, tol = WAYS[way]
    return LSSVMRegressor(kernel=KERNEL, gamma=GAMMA, solver=solver, tol=tol)


def make_fit(way: str, n: int) -> Callable[[], object]:
    model_of(way).fit(*regression_data(100))
    X, y = regression_data(n)
    return lambda: model_of(way).fit(X, y)


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    missed: list[str] = []
    summary: list[Headline] = []
    for n in QUICK if quick else SIZES:
        X, y = regression_data(n)
        exact = ours().fit(X, y).predict(X) if n <= COMPARED_UP_TO else None
        first = 0.0
        for way, (solver, tol) in WAYS.items():
            used = peak_memory(make_fit, way, n, repeats=1)
            model, seconds = measure_result(partial(model_of(way).fit, X, y))
            assert model.certificate_.holds
            reached = model.certificate_.accuracy / model.certificate_.spread
            assert reached <= tol
            first = first or seconds
            largest, gain = n == max(SIZES), first / seconds
            most = MOST_BYTES if solver == "cg" else MOST_SINGLE * 4.0 * n * n if largest else math.inf
            aim = LEAST_GAIN if largest and solver != "cg" else 0.0
            met = used < most and gain >= aim
            difference = "" if exact is None else f"{np.sqrt(np.mean((model.predict(X) - exact) ** 2)):.1e}"
            rows.append(
                (
                    str(n),
                    way,
                    f"{model.solver_}, {model.n_iter_}",
                    f"{reached:.1e}",
                    difference,
                    f"{seconds:.1f}",
                    f"{gain:.1f}",
                    f"≥ {aim:g}" if aim else "",
                    f"{used / MIB:.0f}",
                    f"< {most / MIB:.0f}" if most < math.inf else "",
                    yes_no(met) if most < math.inf else "",
                )
            )
            work = f"memory of a fit by conjugate gradients, N = {n}, {way}, MiB"
            if most < math.inf:
                summary.append(Headline(work, "", used / MIB, most=most / MIB))
            if aim:
                summary.append(Headline(f"fit, N = {n}, {way}", "blocks computed anew", gain, least=aim))
            if not met:
                missed.append(f"N = {n}, {way}: {used / MIB:.0f} MiB and {gain:.1f} times less time than blocks.")
    return Table(
        "Conjugate gradients: time and memory",
        "`LSSVMRegressor(RBF(sqrt(10)), gamma=2, solver, tol).fit`: `solver='cg'`, which computes the kernel matrix "
        "anew for every product, and `solver='auto'`, which stores one triangle; the accuracy that the certificate "
        "proves, in units of the spread of y; CPU seconds of one fit; and peak memory beyond data and libraries in a "
        f"fresh process, to be below {MOST_BYTES / MIB:.0f} MiB for blocks and below {MOST_SINGLE:g} matrices of "
        "single precision for a triangle of double precision, at the largest N. A factorisation takes two of them.",
        (
            "N",
            "way",
            "solver, iterations",
            "reached",
            "distance from the closed form",
            "CPU s",
            "times less than blocks",
            "target",
            "fit, MiB",
            "target ",
            "met",
        ),
        tuple(rows),
        tuple(missed),
        tuple(summary),
    )
