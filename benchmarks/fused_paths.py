"""Fusion along exact paths: a certified rho path against one conic solve, folds over zeta against a grid of solves."""

import time
import warnings
from collections import Counter
from collections.abc import Callable

import cvxpy as cp
import numpy as np
from sklearn.model_selection import KFold

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.solution_paths import RHO, WIDTH, D, N, components, raw
from benchmarks.table import Headline, Table, yes_no
from problems import FusedL1SubstrateRegressor
from substrate.arrays import Array
from substrate.datasets.additive import additive_function
from substrate.kernels import RBF
from substrate.penalized.homotopy.homotopies import variation_path
from substrate.penalized.homotopy.knots import Path
from substrate.penalized.homotopy.read_off import ReadOff, read_off
from substrate.penalized.homotopy.tracks import VariationFold
from substrate.penalized.l1.active_set import zeta_max
from substrate.penalized.variation.active_rows import divide_from_right
from substrate.penalized.variation.component_coordinates import shared_coordinates

__all__ = ["run"]

REPEATS, QUICK = 3, 1
#: The rows of a grid search: folds, values of zeta in each, and how many of them are really solved, of how many folds.
ROWS, FOLDS, VALUES = 250, 10, 50
SOLVED, SOLVED_QUICK = (5, 10), (3, 10)
MOST_OF_ONE_SOLVE, LARGEST_GAP, FASTER = 0.25, 1e-4, 5.0


def relative_gap(error: float, bound: float) -> float:
    return (error - bound) / error


def rho_row(repeats: int) -> tuple[tuple[str, ...], list[str], Headline]:
    matrices, y = components()
    X, _ = additive_function(N, D, random_state=0)
    X_val, y_val = additive_function(N, D, random_state=1)
    below = [RBF(WIDTH)(X_val[:, [column]], X[:, [column]]) for column in range(D)]

    def ours() -> ReadOff:
        coordinates = shared_coordinates(matrices)
        fold = VariationFold.of(coordinates, y, coordinates.rows_at(below), y_val)
        return read_off([fold.knots], [fold.path])

    def path_alone() -> Path:
        coordinates = shared_coordinates(matrices)
        return variation_path(list(divide_from_right(coordinates.parts, coordinates.metric)), coordinates.targets(y))

    def coordinates_alone() -> object:
        return shared_coordinates(matrices)

    begin = time.process_time()
    read = ours()
    first = time.process_time() - begin
    contenders = {"ours": ours, "path": path_alone, "coordinates": coordinates_alone, "raw": raw(matrices, y)}
    seconds = time_interleaved(contenders, repeats)
    share, gap = seconds["ours"] / seconds["raw"], relative_gap(read.error, read.lower_bound)
    met = share <= MOST_OF_ONE_SOLVE and gap < LARGEST_GAP
    cells = (
        "rho, one validation set",
        f"{N}, d = {D}",
        str(read.values.size),
        f"{read.value:.4g}",
        f"{gap:.1e}",
        f"{seconds['ours']:.2f}",
        f"one solve, rho = {RHO:g}",
        f"{seconds['raw']:.2f}",
        f"{1.0 / share:.2f}",
        f"≥ {1.0 / MOST_OF_ONE_SOLVE:g}, gap < {LARGEST_GAP:g}",
        yes_no(met),
        f"{first:.1f}",
    )
    followed = seconds["path"] - seconds["coordinates"]
    missed = (
        f"rho: {share:.2f} of one solve, relative gap {gap:.1e}, {read.values.size} knots. Of this time "
        f"{seconds['coordinates'] / seconds['ours']:.0%} coordinates, {followed / seconds['ours']:.0%} the path "
        f"({1e6 * followed / read.values.size:.0f} µs a knot: {N * D} rows times one vector, and the update of "
        f"the factors of the active ones), {1.0 - seconds['path'] / seconds['ours']:.0%} the certificate."
    )
    work = f"certified rho path, N = {N}, d = {D}"
    line = Headline(work, "one raw solve, cvxpy", share, most=MOST_OF_ONE_SOLVE, held=gap < LARGEST_GAP)
    return cells, [] if met else [missed], line


def grid_of(K: Array, y: Array) -> Callable[[float], str]:
    """Return one fold's problem with zeta a parameter: compiled once, each solve started from the last."""
    a, b, e, zeta = cp.Variable(y.size), cp.Variable(), cp.Variable(y.size), cp.Parameter(nonneg=True)
    cost = 0.5 * cp.sum_squares(e) + zeta * cp.norm1(a)
    problem = cp.Problem(cp.Minimize(cost), [y - K @ a - b - e == 0, cp.sum(a) == 0])
    assert problem.is_dcp(dpp=True)

    def solve(value: float) -> str:
        """Its status; inaccurate and failed solves are timed as well."""
        zeta.value = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                problem.solve(solver="CLARABEL", warm_start=True)
            except cp.SolverError:
                return "failed"
        return str(problem.status)

    return solve


def grid_seconds(X: Array, y: Array, folds: int, values: int) -> tuple[float, Counter[str]]:
    """CPU seconds of one warm-started solve, the mean over some values of some folds; and Clarabel's statuses."""
    elapsed, counts = [], Counter[str]()
    for train, _ in list(KFold(FOLDS).split(X))[:folds]:
        K, target = KERNEL(X[train]), y[train]
        top = zeta_max(K, target)
        solve = grid_of(K, target)
        solve(top)  # compiles
        for value in np.geomspace(top, 1e-4 * top, values):
            begin = time.process_time()
            counts[solve(float(value))] += 1
            elapsed.append(time.process_time() - begin)
    return float(np.mean(elapsed)), counts


def zeta_row(repeats: int, solved: tuple[int, int]) -> tuple[tuple[str, ...], list[str], Headline]:
    X, y = regression_data(ROWS)

    def ours() -> FusedL1SubstrateRegressor:
        return FusedL1SubstrateRegressor(KERNEL, cv=FOLDS).fit(X, y)

    begin = time.process_time()
    model = ours()
    first = time.process_time() - begin
    seconds = time_interleaved({"ours": ours}, repeats)["ours"]
    grid_time, counts = grid_seconds(X, y, *solved)
    peer, statuses = FOLDS * VALUES * grid_time, ", ".join(f"{count} {status}" for status, count in counts.items())
    faster, gap = peer / seconds, relative_gap(model.criterion_, model.criterion_lower_bound_)
    met = faster >= FASTER and model.certificate_.holds
    cells = (
        f"zeta, {FOLDS} folds",
        str(ROWS),
        str(model.path_["values"].size),
        f"{model.zeta_:.4g}",
        f"{gap:.1e}",
        f"{seconds:.2f}",
        f"{FOLDS * VALUES} solves, from {counts.total()} ({statuses})",
        f"{peer:.1f}",
        f"{faster:.1f}",
        f"≥ {FASTER:g}",
        yes_no(met),
        f"{first:.1f}",
    )
    holds = "holds" if model.certificate_.holds else "does not hold"
    missed = f"zeta: {faster:.1f} times faster than the grid; the certificate {holds}."
    work, certificate_holds = f"zeta by {FOLDS} folds, N = {ROWS}", model.certificate_.holds
    line = Headline(work, f"{FOLDS * VALUES} solves, cvxpy", faster, least=FASTER, held=certificate_holds)
    return cells, [] if met else [missed], line


def run(quick: bool) -> Table:
    repeats = QUICK if quick else REPEATS
    rho, missed_rho, of_rho = rho_row(repeats)
    zeta, missed_zeta, of_zeta = zeta_row(repeats, SOLVED_QUICK if quick else SOLVED)
    return Table(
        "Fusion along exact paths",
        f"rho: data set (31), RBF({WIDTH:g}) per column, {N} further rows to validate on; coordinates, the whole path, "
        f"its certificate and the optimum, against one cvxpy/Clarabel solve at rho = {RHO:g} on the raw matrices. "
        f"zeta: `FusedL1SubstrateRegressor(cv={FOLDS}).fit` with its final machine and certificate, against {VALUES} "
        f"values of zeta on each of {FOLDS} folds by Clarabel, one DPP problem per fold, compiled beforehand and "
        "solved again with `warm_start=True`; only some solves are measured, inaccurate and failed ones included, and "
        "the rest extrapolated by their mean. "
        "The gap is the error less its lower bound over the values covered, relative. CPU seconds, ours the "
        "median; the last column is the first call, with compilation where the store of compiled code was empty.",
        (
            "fused",
            "N",
            "knots",
            "chosen",
            "gap",
            "ours, s",
            "peer",
            "peer, s",
            "peer / ours",
            "target",
            "met",
            "first call, s",
        ),
        (rho, zeta),
        (*missed_rho, *missed_zeta),
        (of_rho, of_zeta),
    )
