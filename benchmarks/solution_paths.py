"""Whole solution paths: maximal variation against one conic solve of one rho, L1 against lars_path without 1'a = 0."""

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import cvxpy as cp
import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.compilation import has_compiler, run_interpreted
from substrate.datasets.additive import additive_function
from substrate.kernels import RBF
from substrate.penalized.homotopy.homotopies import l1_path, variation_path
from substrate.penalized.homotopy.knots import Path, l1_point_rows, variation_point_rows
from substrate.penalized.variation.active_rows import divide_from_right
from substrate.penalized.variation.component_coordinates import shared_coordinates

__all__ = ["run"]

N, D, RHO, WIDTH = 100, 25, 10.0, 0.5
REPEATS, QUICK = 3, 1
#: The share of one solve with numba and without, and of lars_path for each N.
MOST_OF_ONE_SOLVE, MOST_WITHOUT_NUMBA = 0.25, 1.0
MOST_OF_LARS = {100: 2.0, 1000: 2.0}


def components() -> tuple[tuple[Array, ...], Array]:
    X, y = additive_function(N, D, random_state=0)
    return tuple(RBF(WIDTH)(X[:, [column]]) for column in range(D)), y


class Form(NamedTuple):
    """Maximal variation in coordinates of the fitted values."""

    parts: list[Array]
    target: Array


def coordinates(matrices: tuple[Array, ...], y: Array) -> Form:
    """Return the stacked components, cut at 1e-6, with the fitted values made the quadratic term."""
    shared = shared_coordinates(matrices)
    return Form(list(divide_from_right(shared.parts, shared.metric)), shared.targets(y))


def raw(matrices: tuple[Array, ...], y: Array) -> Callable[[], object]:
    """Return one rho as one writes it in cvxpy; built beforehand and compiled in the uncounted first round."""
    a, b, t = cp.Variable(N), cp.Variable(), cp.Variable(D)
    errors = np.sum(matrices, axis=0) @ a + b - y
    limits = [cp.abs(matrix @ a) <= t[column] for column, matrix in enumerate(matrices)]
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(errors) + RHO * cp.sum(t)), [cp.sum(a) == 0, *limits])

    def solve() -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return problem.solve(solver="CLARABEL")

    return solve


def largest_gap(form: Form, path: Path) -> float:
    gaps = []
    for rho in path.values[:: max(1, len(path) // 300)]:
        point = path.at(float(rho))
        gaps.append(variation_point_rows(form.parts, form.target, float(rho), point.primal, point.dual)[-1].relative)
    return max(gaps)


def rho_rows(repeats: int) -> tuple[list[tuple[str, ...]], list[str], list[Headline]]:
    matrices, y = components()
    rows, shortfalls, summary = [], [], []
    for fast in (True, False) if has_compiler() else (False,):
        inside = nullcontext if fast else run_interpreted

        def ours(inside: Callable[[], object] = inside) -> Path:
            form = coordinates(matrices, y)
            with inside():  # type: ignore[attr-defined]
                return variation_path(form.parts, form.target)

        begin = time.process_time()
        path = ours()
        first = time.process_time() - begin
        seconds = time_interleaved({"ours": ours, "raw": raw(matrices, y)}, repeats)
        share, most = seconds["ours"] / seconds["raw"], MOST_OF_ONE_SOLVE if fast else MOST_WITHOUT_NUMBA
        met = share <= most and path.complete
        name = "rho path, numba" if fast else "rho path, numpy"
        work = f"{name}, N = {N}, d = {D}"
        summary.append(Headline(work, "one raw solve, cvxpy", share, most=most, held=path.complete))
        rows.append(
            (
                name,
                f"{N}, d = {D}",
                str(len(path)),
                f"{largest_gap(coordinates(matrices, y), path):.0e}",
                f"{seconds['ours']:.2f}",
                "Clarabel, one rho",
                f"{seconds['raw']:.2f}",
                f"{share:.2f}",
                f"≤ {most:g}",
                yes_no(met),
                f"{first:.1f}",
            )
        )
        if not met:
            shortfalls.append(
                f"{name}: {len(path)} knots, {1e6 * seconds['ours'] / path.steps:.0f} µs each; {path.stop}."
            )
    return rows, shortfalls, summary


def zeta_rows(repeats: int) -> tuple[list[tuple[str, ...]], list[str], list[Headline]]:
    from sklearn.linear_model import lars_path

    rows, shortfalls, summary = [], [], []
    for n, rounds in ((100, 3 * repeats), (1000, repeats)):
        X, y = regression_data(n)
        K = KERNEL(X)
        centred, errors = K - K.mean(axis=0), y - y.mean()
        begin = time.process_time()
        path = l1_path(K, y)
        first = time.process_time() - begin
        lowest = float(path.values[0])
        # its own limit, 500 steps, would end it long before this zeta
        options = {"method": "lasso", "alpha_min": lowest / n, "max_iter": 10 * n + 1000}
        lars = lambda: lars_path(centred, errors, **options)  # noqa: B023, E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it drops columns that nearly depend on each other, with a warning
            reached = lars()[0]
            seconds = time_interleaved({"ours": lambda: l1_path(K, y), "lars": lars}, rounds)  # noqa: B023
        gap = max(l1_point_rows(K, y, float(z), *path.at(float(z))[1::2])[-1].relative for z in path.values[::5])
        share, target = seconds["ours"] / seconds["lars"], MOST_OF_LARS[n]
        met = share <= target
        rows.append(
            (
                "zeta path",
                str(n),
                str(len(path)),
                f"{gap:.0e}",
                f"{seconds['ours']:.3f}",
                f"lars_path, {reached.size} knots",
                f"{seconds['lars']:.3f}",
                f"{share:.2f}",
                f"≤ {target:g}",
                yes_no(met),
                f"{first:.1f}",
            )
        )
        summary.append(Headline(f"L1 path, N = {n}", "lars_path", share, most=target))
        if not met:
            shortfalls.append(
                f"zeta path, N = {n}: {1e6 * seconds['ours'] / path.steps:.0f} µs per knot; lars_path ended at zeta = "
                f"{n * reached[-1]:.2g}, ours at {lowest:.2g}."
            )
    return rows, shortfalls, summary


def run(quick: bool) -> Table:
    repeats = QUICK if quick else REPEATS
    rho, missed_rho, of_rho = rho_rows(repeats)
    zeta, missed_zeta, of_zeta = zeta_rows(repeats)
    return Table(
        "Solution paths",
        f"The whole path of maximal variation on data set (31), RBF({WIDTH:g}) per column, stacked components cut at "
        f"1e-6, coordinates included, against one cvxpy/Clarabel solve at rho = {RHO:g} on the raw matrices; the L1 "
        "path down to 1e-4 zeta_max against scikit-learn's lars_path, which has no equality, on the same columns and "
        "down to the same zeta (by default it stops after 500 steps). "
        "Median CPU seconds; the gap is the largest at the knots, relative; the last column is the first call, with "
        "compilation where the store of compiled code was empty.",
        ("path", "N", "knots", "gap", "path, s", "peer", "peer, s", "path / peer", "target", "met", "first call, s"),
        tuple(rho + zeta),
        tuple(missed_rho + missed_zeta),
        tuple(of_rho + of_zeta),
    )
