"""A certified classifier: two classes against the limit, ten classes against two."""

from collections.abc import Callable
from functools import partial

from benchmarks.data import COLUMNS, classification_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import GAMMA, KERNEL, limit
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMClassifier

__all__ = ["run"]

SIZES: dict[int, int] = {2000: 9, 5000: 5}
QUICK: dict[int, int] = {2000: 2}
MOST_ABOVE_LIMIT = 1.15
MOST_ABOVE_BINARY = 1.3


def ours() -> LSSVMClassifier:
    return LSSVMClassifier(kernel=KERNEL, gamma=GAMMA, solver="cholesky")


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, repeats in (QUICK if quick else SIZES).items():
        X, two = classification_data(n)
        ten = classification_data(n, n_classes=10)[1]
        assert ours().fit(X, two).certificate_.holds
        assert ours().fit(X, ten).certificate_.holds
        contenders: dict[str, Callable[[], object]] = {
            "two": partial(ours().fit, X, two),
            "ten": partial(ours().fit, X, ten),
            "limit": partial(limit, X),
        }
        t = time_interleaved(contenders, repeats)
        above, more = t["two"] / t["limit"], t["ten"] / t["two"]
        near, cheap = above <= MOST_ABOVE_LIMIT, more <= MOST_ABOVE_BINARY
        rows.append(
            (
                str(n),
                f"{t['two']:.4f}",
                f"{t['limit']:.4f}",
                f"{above:.2f}",
                f"≤ {MOST_ABOVE_LIMIT:g}",
                yes_no(near),
                f"{t['ten']:.4f}",
                f"{more:.2f}",
                f"≤ {MOST_ABOVE_BINARY:g}",
                yes_no(cheap),
            )
        )
        work = f"classification fit, N = {n}"
        summary.append(Headline(work, "kernel matrix + Cholesky", above, most=MOST_ABOVE_LIMIT, limit=above))
        summary.append(Headline(f"{work}, ten classes", "two classes", more, most=MOST_ABOVE_BINARY))
        if not (near and cheap):
            spent = 100.0 * (1.0 - t["limit"] / t["two"])
            shortfalls.append(f"N = {n}: {spent:.0f} % of a two-class fit is spent outside kernel matrix and factor.")
    return Table(
        "Classification: fit with certificate",
        f"`LSSVMClassifier(RBF(sqrt(10)), gamma=2, solver='cholesky').fit` on {COLUMNS} columns, two classes, and ten "
        "classes one against the rest; the limit is our kernel matrix and one Cholesky factorisation. Median CPU "
        "seconds.",
        (
            "N",
            "two classes, s",
            "kernel matrix + dpotrf, s",
            "fit / limit",
            "target",
            "met",
            "ten classes, s",
            "ten / two",
            "target ",
            "met ",
        ),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )
