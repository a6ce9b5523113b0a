"""Symmetric LS-SVM regression against the plain machine on the rows and their mirror images."""

from functools import partial

import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor, SymmetricLSSVMRegressor

__all__ = ["run"]

SIZES: dict[int, int] = {500: 5, 2000: 3}
QUICK: dict[int, int] = {300: 2}
GAMMA = 10.0
#: The same fitted values from half the rows: at least this many times faster.
FASTER = 2.0


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        mirrored, twice = np.vstack([X, -X]), np.append(y, y)
        # an even machine at 2 gamma is the plain one at gamma on all 2N rows
        machine = SymmetricLSSVMRegressor(KERNEL, 2.0 * GAMMA, solver="cholesky")
        peer = LSSVMRegressor(KERNEL, GAMMA, solver="cholesky")
        certified = machine.fit(X, y).certificate_.holds and peer.fit(mirrored, twice).certificate_.holds
        distance = float(np.abs(machine.predict(X) - peer.predict(X)).max()) / float(np.std(y))
        assert certified
        assert distance < 1e-6
        t = time_interleaved({"ours": partial(machine.fit, X, y), "peer": partial(peer.fit, mirrored, twice)}, repeats)
        faster = t["peer"] / t["ours"]
        rows.append(
            (
                str(n),
                f"{t['ours']:.4f}",
                f"{t['peer']:.4f}",
                f"{faster:.1f}",
                f"≥ {FASTER:g}",
                yes_no(faster >= FASTER),
                f"{distance:.1e}",
            )
        )
        summary.append(Headline(f"symmetric LS-SVM, N = {n}", "mirrored rows", faster, least=FASTER))
        if faster < FASTER:
            shortfalls.append(f"N = {n}: two kernel matrices of N rows cost nearly as much as one of 2N.")
    return Table(
        "Symmetric LS-SVM: half the rows instead of mirrored ones",
        "`SymmetricLSSVMRegressor` on N rows at 2 gamma against `LSSVMRegressor` on the rows and their mirror images "
        "at gamma, which is the same machine, both in closed form. Median CPU seconds; the last column is the largest "
        "difference of fitted values, in deviations of y.",
        ("N", "symmetric, s", "mirrored rows, s", "mirrored / symmetric", "target", "met", "difference"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
