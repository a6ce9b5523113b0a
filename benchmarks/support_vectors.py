"""Support vector machines as composed machines, against libsvm, and the memory of five thousand rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
from sklearn.svm import SVC, SVR

from benchmarks.composed_machines import rows_of
from benchmarks.measure import MIB, cost, time_interleaved
from benchmarks.table import Headline, Table, yes_no
from substrate import Machine, Result, Substrate
from substrate.kernels import RBF

__all__ = ["prepare_rows", "run"]

Array = Any
SIGMA, WIDTH, TOLERANCE = 1.5, 0.1, 1e-6
#: Most times the CPU time of libsvm, by machine.
MOST = {"SVR": 3.0, "SVC": 10.0}
#: Rows of the machine whose memory is measured, and the most of it in MiB: half of what the compiled form took.
MANY, MOST_MEMORY = 5000, 2200.0


def labels_of(y: Array) -> Array:
    return np.where(y > np.median(y), 1.0, -1.0)


def regression(X: Array, y: Array, C: float) -> Result:
    s = Substrate(RBF(SIGMA), X, y)
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(cp.abs(s.e) - WIDTH))).solve()


def classification(X: Array, y: Array, C: float) -> Result:
    s = Substrate(RBF(SIGMA), X, labels_of(y), task="classification")
    return Machine(s, minimize=0.5 * s.squared_norm + C * cp.sum(cp.pos(s.e))).solve()


def peer_of(name: str, C: float) -> Any:
    shared = {"gamma": 1.0 / SIGMA**2, "C": C, "tol": TOLERANCE, "cache_size": 1000}
    return SVR(epsilon=WIDTH, **shared) if name == "SVR" else SVC(**shared)


OURS: dict[str, Callable[[Array, Array, float], Result]] = {"SVR": regression, "SVC": classification}


def prepare_rows(n: int) -> Callable[[], object]:
    """Return the fit whose memory is measured in a process of its own."""
    X, y = rows_of(n)
    return partial(regression, X, y, 10.0)


def run(quick: bool) -> Table:
    n = 300 if quick else 1000
    X, y = rows_of(n)
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for name, fit in OURS.items():
        for C in (1.0, 10.0):
            targets = y if name == "SVR" else labels_of(y)
            peer = peer_of(name, C)
            contenders = {"ours": partial(fit, X, y, C), "libsvm": partial(peer.fit, X, targets)}
            seconds = time_interleaved(contenders, 3 if quick else 15)
            result = fit(X, y, C)
            values = peer.predict(X) if name == "SVR" else peer.decision_function(X)
            ratio, certified = seconds["ours"] / seconds["libsvm"], bool(result.certificate.holds)
            met = ratio <= MOST[name] and certified
            rows.append(
                (
                    f"{name}, C = {C:g}",
                    str(n),
                    f"{1e3 * seconds['ours']:.0f}",
                    f"{1e3 * seconds['libsvm']:.0f}",
                    f"{ratio:.1f}",
                    f"{float(np.abs(values - result.f).max()):.0e}",
                    yes_no(certified),
                    f"≤ {MOST[name]:g}",
                    yes_no(met),
                )
            )
            summary.append(
                Headline(f"machine: {name}, C = {C:g}, N = {n}", "libsvm", ratio, most=MOST[name], held=certified)
            )
            if not met:
                shortfalls.append(f"{name}, C = {C:g}: {ratio:.1f} times the time of libsvm.")
    many = 1000 if quick else MANY
    spent, memory = cost(prepare_rows, many)
    least = 8.0 * many**2 / MIB
    met = memory / MIB <= MOST_MEMORY
    rows.append(
        (
            f"SVR, C = 10: {memory / MIB:.0f} MiB, of which {least:.0f} are K",
            str(many),
            f"{1e3 * spent:.0f}",
            "",
            "",
            "",
            "",
            f"≤ {MOST_MEMORY:g} MiB",
            yes_no(met),
        )
    )
    summary.append(
        Headline(
            f"machine: memory of SVR, N = {many}",
            "half of 4.4 GB",
            memory / MIB / MOST_MEMORY,
            most=1.0,
            limit=memory / MIB / least,
        )
    )
    return Table(
        "Machines: support vector machines, against libsvm",
        "A machine from its rows to its certified solution against scikit-learn's SVR and SVC at a tolerance of "
        f"{TOLERANCE:g}. RBF({SIGMA:g}); one BLAS thread. CPU milliseconds, the median of 15, interleaved. libsvm "
        "stops at a tolerance and proves nothing; the least work of a certificate is one product with the kernel "
        "matrix, and of the solution a factor of the rows at a kink.",
        ("machine", "N", "ours, ms", "libsvm, ms", "ratio", "values differ", "holds", "target", "met"),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
