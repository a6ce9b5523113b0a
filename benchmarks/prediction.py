"""Prediction of many rows: time against two peers, and memory that must not grow with the rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVR

from benchmarks.data import COLUMNS, regression_data
from benchmarks.measure import MIB, peak_memory, time_interleaved
from benchmarks.regression_fit import KERNEL, exponentials, ours, peer
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array

__all__ = ["predict_ours", "predict_peer", "run"]

VECTORS = 500
ROWS = 100_000
FASTER_THAN_SVR = 5.0
FASTER_THAN_RIDGE = 1.6
#: Growth of the extra memory, from ROWS to 4 ROWS, that is the noise of pages and allocator.
MOST_GROWTH = 1.0 * MIB


def support_vector_regression() -> Any:
    """No tube, so that every one of the training points is a support vector."""
    return SVR(kernel="rbf", gamma=0.1, C=1.0, epsilon=0.0)


def new_rows(n: int) -> Array:
    return regression_data(n, seed=1)[0]


def predict_ours(n: int) -> Callable[[], object]:
    return _prepare(ours(), n)


def predict_peer(n: int) -> Callable[[], object]:
    return _prepare(peer(), n)


def _prepare(model: Any, n: int) -> Callable[[], object]:
    model.fit(*regression_data(VECTORS))
    X = new_rows(n)
    model.predict(X[:10])
    return partial(model.predict, X)


def products(left: Array, right: Array, n: int) -> Array:
    out = np.empty((left.shape[0], right.shape[1]))
    for _ in range(n // left.shape[0]):
        np.matmul(left, right, out=out)
    return out


def run(quick: bool) -> Table:
    n, repeats = (20_000, 3) if quick else (ROWS, 9)
    X, y = regression_data(VECTORS)
    models = {"ours": ours().fit(X, y), "KernelRidge": peer().fit(X, y), "SVR": support_vector_regression().fit(X, y)}
    assert models["SVR"].support_.size == VECTORS
    new = new_rows(n)
    left, right = new[:256, :], np.ascontiguousarray(X.T)
    t = time_interleaved(
        {
            **{name: partial(model.predict, new) for name, model in models.items()},
            "matrix": lambda: _fill(new, X),
            "exp": lambda: [exponentials(VECTORS) for _ in range(2 * n // VECTORS)],
            "product": lambda: products(left, right, n),
        },
        repeats,
    )
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for name, target in (("SVR", FASTER_THAN_SVR), ("KernelRidge", FASTER_THAN_RIDGE)):
        ratio = t[name] / t["ours"]
        rows.append(
            (
                f"CPU seconds against {name}",
                f"{n:,}",
                f"{t['ours']:.3f}",
                f"{t[name]:.3f}",
                f"{ratio:.2f} x",
                f"≥ {target:g} x",
                yes_no(ratio >= target),
            )
        )
        summary.append(Headline(f"prediction, {n:,} rows", name, ratio, least=target))
        if ratio < target:
            shortfalls.append(f"Against {name}: {_reason(t, name)}")
    rows.append(_fewer_rows(models, new[: n // 10], repeats))
    rows_memory, grew = _memory(n, 1 if quick else 3)
    return Table(
        f"Prediction against {VECTORS} vectors",
        f"`predict` of rows of {COLUMNS} columns by models of {VECTORS} training points; SVR with epsilon = 0 keeps "
        "them all as support vectors. Memory is the peak during `predict` beyond input, output and what was there "
        f"before, each in a fresh process; four times the rows may add at most {MOST_GROWTH / MIB:g} MiB.",
        ("what", "rows", "LSSVMRegressor", "peer", "ratio or growth", "target", "met"),
        (*rows, *rows_memory),
        (*shortfalls, *grew),
        tuple(summary),
    )


def _fewer_rows(models: dict[str, Any], new: Array, repeats: int) -> tuple[str, ...]:
    """Without a target, for information: the peer's matrix is small here, and fresh pages cost it little."""
    t = time_interleaved({name: partial(models[name].predict, new) for name in ("ours", "KernelRidge")}, repeats)
    return (
        "CPU seconds against KernelRidge",
        f"{new.shape[0]:,}",
        f"{t['ours']:.3f}",
        f"{t['KernelRidge']:.3f}",
        f"{t['KernelRidge'] / t['ours']:.2f} x",
        "",
        "",
    )


def _memory(n: int, repeats: int) -> tuple[list[tuple[str, ...]], list[str]]:
    used, peer_memory = {}, {}
    for rows in (n, 4 * n):
        output = 8.0 * rows
        used[rows] = peak_memory(predict_ours, rows, repeats=repeats) - output
        peer_memory[rows] = peak_memory(predict_peer, rows, repeats=repeats) - output
    growth = used[4 * n] - used[n]
    met = growth <= MOST_GROWTH
    table: list[tuple[str, ...]] = [
        (
            "extra MiB, KernelRidge beside it",
            f"{rows:,}",
            f"{used[rows] / MIB:.1f}",
            f"{peer_memory[rows] / MIB:.1f}",
            "" if rows == n else f"{round(growth / MIB, 1) + 0.0:+.1f} MiB",
            "" if rows == n else f"≤ {MOST_GROWTH / MIB:g} MiB",
            "" if rows == n else yes_no(met),
        )
        for rows in (n, 4 * n)
    ]
    reason = f"Memory: {growth / (3 * n):.1f} bytes per row are held beside input and output."
    return table, [] if met else [reason]


def _fill(new: Array, X: Array) -> Array:
    block = np.empty((256, X.shape[0]))
    for start in range(0, new.shape[0] - 255, 256):
        KERNEL.fill(new[start : start + 256], X, block)
    return block


def _reason(t: dict[str, float], name: str) -> str:
    shares = ", ".join(
        f"{what} {100.0 * seconds / t['ours']:.0f} %"
        for what, seconds in (
            ("exp()", t["exp"]),
            ("the matrix product of the distances", t["product"]),
            ("the rest of the kernel values", t["matrix"] - t["exp"] - t["product"]),
            ("the sum over the vectors and validation", t["ours"] - t["matrix"]),
        )
    )
    return f"of our time, {shares}; the time of {name} is {t[name] / t['exp']:.2f} times that of exp() alone."
