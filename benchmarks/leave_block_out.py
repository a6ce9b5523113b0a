"""Leave-block-out without refitting, against one refit per block, on the sunspot numbers."""

from functools import partial

import numpy as np

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, windowize
from substrate.arrays import Array
from substrate.datasets import sunspots
from substrate.gram import Gram
from substrate.kernels import RBF
from substrate.least_squares.leave_one_out import projected_inverse
from substrate.least_squares.left_out_blocks import LeftOutBlocks, block_residuals
from substrate.least_squares.saddle_system import solve_saddle_system

__all__ = ["run"]

KERNEL, GAMMA = RBF(sigma=150.0), 10.0
#: Neighbours on both sides that are left out with every row, and the least factor that is wanted for the first.
REACHES, LEAST_FASTER = (2, 10), 20.0


def fast(X: Array, y: Array, blocks: LeftOutBlocks) -> Array:
    gram, ridge = Gram.of(KERNEL, X), np.full(y.size, 1.0 / GAMMA)
    alpha = solve_saddle_system(gram, y, ridge).support_values
    return block_residuals(alpha, projected_inverse(gram, ridge), blocks)


def explicit(X: Array, y: Array, blocks: LeftOutBlocks) -> Array:
    residuals = np.empty(y.size)
    for block, counted in zip(blocks.rows, blocks.counted, strict=True):
        others = np.setdiff1d(np.arange(y.size), block)
        rows = block[counted]
        residuals[rows] = y[rows] - LSSVMRegressor(KERNEL, GAMMA).fit(X[others], y[others]).predict(X[rows])
    return residuals


def run(quick: bool) -> Table:
    windows = windowize(sunspots()[1], lags=6)
    X, y = windows.X, windows.y
    lines, missed, headlines = [], [], []
    for reach in REACHES:
        blocks = LeftOutBlocks.centred(y.size, reach)
        difference = float(np.abs(fast(X, y, blocks) - explicit(X, y, blocks)).max() / np.abs(y).max())
        contenders = {"fast": partial(fast, X, y, blocks), "explicit": partial(explicit, X, y, blocks)}
        t = time_interleaved(contenders, 3 if quick else 9)
        faster = t["explicit"] / t["fast"]
        met = faster >= LEAST_FASTER
        if not met:
            missed.append(
                f"{faster:.0f} times faster than {y.size} refits with reach {reach}, {LEAST_FASTER:g} wanted."
            )
        lines.append(
            (
                str(y.size),
                str(2 * reach + 1),
                f"{t['fast']:.4f}",
                f"{t['explicit']:.4f}",
                f"{faster:.0f}",
                f"≥ {LEAST_FASTER:g}",
                yes_no(met),
                f"{difference:.1e}",
            )
        )
        if reach == REACHES[0]:
            headlines.append(Headline(f"leave-block-out, N = {y.size}", "one refit per block", faster, LEAST_FASTER))
    return Table(
        "Leave-block-out: one fit against one per block",
        "Every window of the yearly sunspot numbers, 6 lags, left out with its neighbours on both sides, the fit "
        "included, against a fit and a prediction without every block. Median CPU seconds.",
        (
            "N",
            "rows of a block",
            "ours, s",
            "explicit, s",
            "times faster",
            "target",
            "met",
            "largest difference / largest y",
        ),
        tuple(lines),
        tuple(missed),
        tuple(headlines),
    )
