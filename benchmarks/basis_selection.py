"""Choosing a basis: feature vectors from samples against k-means++ on all rows, and the error of either."""

from collections.abc import Callable

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import make_blobs

from benchmarks.measure import time_interleaved
from benchmarks.table import Headline, Table, yes_no
from substrate.arrays import Array
from substrate.kernels import RBF
from substrate.reduced import Basis
from substrate.reduced.choice import chosen_basis
from substrate.reduced.features import eigen_features, reconstruction_errors
from substrate.streaming.array_source import ArraySource
from substrate.streaming.passes import OpenPasses

__all__ = ["run"]

KERNEL = RBF(4.0)
#: Rows, vectors and rounds.
FULL = ((20_000, 100, 5), (100_000, 500, 1))
QUICK = ((20_000, 100, 1),)
#: Rows that are not given to any rule.
OTHERS = 1000
MOST_SLOWER = 1.5
RULES = ("feature_vectors", "stochastic", "pivoted_cholesky", "renyi", "kmeans++", "random")


def make_clusters(n: int) -> tuple[Array, Array]:
    """Sixty round clusters of standard deviation 0.5 in a box of side 20 in ten dimensions, and rows to judge by."""
    X, _ = make_blobs(n + OTHERS, 10, centers=60, cluster_std=0.5, random_state=0)
    return np.asarray(X[:n]), np.asarray(X[n:])


def error(points: Array, fresh: Array) -> float:
    features = eigen_features(KERNEL(points))
    return float(reconstruction_errors(KERNEL(fresh, points), np.ones(len(fresh)), features).mean())


def run(quick: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for n, count, repeats in QUICK if quick else FULL:
        more, short, headlines = _compare_rules(n, count, repeats)
        rows += more
        shortfalls += short
        summary += headlines
    return Table(
        "Choosing a basis",
        f"Vectors chosen from rows in sixty clusters of ten dimensions, {KERNEL!r}, 2000 candidates and 1000 scoring "
        "rows where a rule needs them; the error is the mean relative reconstruction error on "
        f"{OTHERS} other rows of the same clusters. Median CPU seconds.",
        ("rows", "vectors", "rule", "s", "of k-means++", "target", "met", "reconstruction error", "target ", "met "),
        tuple(rows),
        tuple(shortfalls),
        tuple(summary),
    )


def _compare_rules(n: int, count: int, repeats: int) -> tuple[list[tuple[str, ...]], list[str], list[Headline]]:
    X, fresh = make_clusters(n)
    y = np.sin(X[:, :1])

    def choose(rule: str) -> Array:
        choice = Basis(count, rule, random_state=0)
        return np.asarray(chosen_basis(choice, KERNEL, ArraySource(X, y), OpenPasses(), 1.0).rows)

    contenders: dict[str, Callable[[], object]] = {rule: (lambda rule=rule: choose(rule)) for rule in RULES}  # type: ignore[misc]
    contenders["peer"] = lambda: kmeans_plusplus(X, count, random_state=0)
    t = time_interleaved(contenders, repeats)
    at_random = error(X[choose("random")], fresh)
    spread = f"{error(X[kmeans_plusplus(X, count, random_state=0)[1]], fresh):.4f}"
    size = (str(n), str(count))
    rows = [(*size, "kmeans_plusplus of scikit-learn", f"{t['peer']:.2f}", "1.00", "", "", spread, "", "")]
    shortfalls: list[str] = []
    summary: list[Headline] = []
    for rule in RULES:
        slower, error_of_rule = t[rule] / t["peer"], error(X[choose(rule)], fresh)
        judged = rule == "feature_vectors"
        quick_enough, good = slower <= MOST_SLOWER, error_of_rule < at_random
        rows.append(
            (
                *size,
                rule,
                f"{t[rule]:.2f}",
                f"{slower:.2f}",
                f"≤ {MOST_SLOWER:g}" if judged else "",
                yes_no(quick_enough) if judged else "",
                f"{error_of_rule:.4f}",
                f"< {at_random:.4f}" if judged else "",
                yes_no(good) if judged else "",
            )
        )
        if judged:
            work = f"{rule}, {count} of {n:,} rows"
            summary.append(Headline(work, "k-means++ of scikit-learn", slower, most=MOST_SLOWER, held=good))
        if judged and not (quick_enough and good):
            compared = f"error {error_of_rule:.4f} against {at_random:.4f} at random"
            shortfalls.append(f"{count} of {n} rows, {rule}: {slower:.2f} times k-means++, {compared}.")
    return rows, shortfalls, summary
