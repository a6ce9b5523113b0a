"""The least-squares classifier beside scikit-learn's SVC: same kernel width, several N, C and shares of label noise."""

from collections.abc import Callable, Iterator
from functools import partial

from sklearn.svm import SVC

from benchmarks.data import COLUMNS, classification_data
from benchmarks.measure import interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Table
from problems import LSSVMClassifier
from substrate import conventions

__all__ = ["run"]

SIZES: dict[int, int] = {500: 7, 2000: 3, 4000: 3}
QUICK: dict[int, int] = {500: 3}
PENALTIES = (0.1, 1.0, 100.0)
NOISES = (0.0, 0.2)
N_TEST = 2000


def run(quick: bool) -> Table:
    return Table(
        "Classification: beside SVC",
        f"`LSSVMClassifier(RBF(sqrt(10)), gamma=C)` and `SVC(gamma=0.1, C)` fitted on the same {COLUMNS} columns, and "
        f"their accuracy on {N_TEST} further rows without label noise; a ratio above one means SVC takes longer. "
        "Our time depends on N alone, that of SVC on its support, on C and on the noise. Median CPU seconds.",
        (
            "N", "C = gamma", "label noise", "LSSVMClassifier, s", "SVC, s", "SVC / ours",
            "our accuracy", "SVC accuracy", "SVC support share",
        ),
        tuple(_rows(QUICK if quick else SIZES)),
    )  # fmt: skip


def _rows(sizes: dict[int, int]) -> Iterator[tuple[str, ...]]:
    X_test, y_test = classification_data(N_TEST, seed=10)
    rate = conventions.sigma_to("scikit-learn", float(KERNEL.sigma))
    for n, repeats in sizes.items():
        for noise in NOISES:
            X, y = classification_data(n, noise=noise)
            for penalty in PENALTIES:
                ours = LSSVMClassifier(kernel=KERNEL, gamma=conventions.gamma_from("scikit-learn SVM", penalty))
                peer = SVC(gamma=rate, C=penalty)
                contenders: dict[str, Callable[[], object]] = {
                    "ours": partial(ours.fit, X, y),
                    "peer": partial(peer.fit, X, y),
                }
                t = interleaved(contenders, repeats)
                yield (
                    str(n), f"{penalty:g}", f"{noise:.0%}", f"{t['ours']:.4f}", f"{t['peer']:.4f}",
                    f"{t['peer'] / t['ours']:.2f}", f"{ours.score(X_test, y_test):.3f}",
                    f"{peer.score(X_test, y_test):.3f}", f"{peer.support_.size / n:.0%}",
                )  # fmt: skip
