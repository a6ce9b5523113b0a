"""A fitted machine as an ONNX graph in onnxruntime, beside its own predictions; and what fewer vectors cost."""

from functools import partial

import numpy as np

from benchmarks.data import regression_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMRegressor
from problems.export import compress, to_onnx

__all__ = ["run"]

SIZES: dict[int, int] = {500: 5, 2000: 3}
QUICK: dict[int, int] = {300: 2}
GAMMA, NEW_ROWS = 10.0, 1000
#: The distance that a compressed machine may have, as a share of the spread of y.
SHARE = 0.1
#: The graph takes differences column by column, and must not take more times as long as the matrix products of predict.
SLOWER = 5.0


def run(quick: bool) -> Table:
    import onnxruntime

    rows: list[tuple[str, ...]] = []
    summary: list[Headline] = []
    shortfalls: list[str] = []
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for n, repeats in (QUICK if quick else SIZES).items():
        X, y = regression_data(n)
        model = LSSVMRegressor(KERNEL, GAMMA, solver="cholesky").fit(X, y)
        small = compress(model, SHARE * float(np.std(y)))
        new = np.random.default_rng(1).uniform(X.min(axis=0), X.max(axis=0), size=(NEW_ROWS, X.shape[1]))
        calls, exports = {"predict": partial(model.predict, new)}, {}
        for name, machine, precision in (
            ("float64", model, "float64"),
            ("float32", model, "float32"),
            ("compressed", small, "float64"),
        ):
            exports[name] = to_onnx(machine, precision=precision)
            session = onnxruntime.InferenceSession(exports[name].content, options)
            feed = {"X": new.astype(exports[name].precision)}
            calls[name] = partial(session.run, None, feed)
        errors = {name: float(np.abs(calls[name]()[0] - model.predict(new)).max()) for name in exports}
        assert errors["float64"] <= exports["float64"].bound.loss + 1e-9
        assert errors["compressed"] <= small.distance + 1e-9
        t = time_interleaved(calls, repeats)
        slower = t["float64"] / t["predict"]
        rows.append(
            (
                str(n),
                *(f"{t[name]:.4f}" for name in calls),
                f"{slower:.1f}",
                f"≤ {SLOWER:g}",
                yes_no(slower <= SLOWER),
                f"{exports['float64'].bound.loss:.1e}",
                f"{exports['float32'].bound.loss:.1e}",
                f"{errors['float32']:.1e}",
                f"{small.n_vectors}",
                f"{small.distance:.1e}",
                f"{errors['compressed']:.1e}",
            )
        )
        summary.append(Headline(f"ONNX in float64, N = {n}", "predict", slower, most=SLOWER))
        if slower > SLOWER:
            shortfalls.append(f"N = {n}: differences column by column take longer than one matrix product.")
    return Table(
        "Export: an LS-SVM in onnxruntime",
        f"`to_onnx(LSSVMRegressor(...))` on one thread against `predict`, {NEW_ROWS} new rows of ten columns; and a "
        f"machine compressed to within {SHARE:g} of the spread of y. Median CPU seconds; losses that are proved in the "
        "box of the vectors, and the largest errors at the new rows.",
        (
            "N",
            "predict, s",
            "float64, s",
            "float32, s",
            "compressed, s",
            "float64 / predict",
            "target",
            "met",
            "loss, float64",
            "loss, float32",
            "error, float32",
            "vectors",
            "distance",
            "error, compressed",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
