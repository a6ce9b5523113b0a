"""Class probabilities from left-out decision values: time and Brier score beside CalibratedClassifierCV."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.data import classification_data
from benchmarks.measure import time_interleaved
from benchmarks.regression_fit import KERNEL
from benchmarks.table import Headline, Table, yes_no
from problems import LSSVMClassifier, LSSVMClassifierCV
from substrate import conventions
from substrate.arrays import Array
from substrate.datasets import ionosphere, pima, ripley, tic_tac_toe

__all__ = ["run"]

SIZES: dict[int, int] = {300: 9, 1000: 7, 3000: 3}
QUICK: dict[int, int] = {300: 3}
#: How much faster probabilities are to be at 1000 rows.
FASTER = 2.5
_EMBEDDED: dict[str, Callable[[], Any]] = {
    "ripley": ripley,
    "pima": pima,
    "ionosphere": ionosphere,
    "tic_tac_toe": tic_tac_toe,
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
}


def run(quick: bool) -> Table:
    times, scores = list(_times(QUICK if quick else SIZES)), list(_scores(quick))
    rows = [row for row, _ in (*times, *scores)]
    summary = [
        Headline(f"probabilities, N = {row[1]}", "CalibratedClassifierCV", ratio, least=FASTER)
        for row, ratio in times
        if row[-1]
    ]
    least = min(ratio for _, ratio in scores)
    summary.append(Headline("Brier score of probabilities, all data sets", "CalibratedClassifierCV", least, least=1.0))
    return Table(
        "Class probabilities: beside CalibratedClassifierCV",
        "`LSSVMClassifier(...).fit(X, y).predict_proba(X_test)`, calibrated by Platt's sigmoid on left-out decision "
        "values, against `CalibratedClassifierCV(cv=10)` of scikit-learn, which fits ten times, around the same "
        "classifier and around `SVC`. First the time of fit, calibration and 1000 predictions, median CPU seconds of "
        f"contenders that take turns; the target is {FASTER} times faster at 1000 rows. Then the Brier score (of two "
        "classes half the sum over classes) on 40 % of the rows, mean over splits, gamma and width chosen by "
        "leave-one-out on the others; the target is that of the same classifier in `CalibratedClassifierCV` or "
        "less. With `ensemble=False` it calibrates one machine by the decision values of folds, as is done here by "
        "those of rows; its probabilities need not agree with `predict`, ours do.",
        ("data", "rows", "ours", "same classifier", "same, ensemble=False", "SVC", "same / ours", "met"),
        tuple(rows),
        summary=tuple(summary),
    )


def _calibrated_peer(machine: Any, X: Array, y: Any, X_test: Array, ensemble: bool = True) -> Array:
    p: Array = CalibratedClassifierCV(machine, cv=10, ensemble=ensemble).fit(X, y).predict_proba(X_test)
    return p


def _ours(machine: Any, X: Array, y: Any, X_test: Array) -> Array:
    p: Array = machine.fit(X, y).predict_proba(X_test)
    return p


def _times(sizes: dict[int, int]) -> Iterator[tuple[tuple[str, ...], float]]:
    X_test, _ = classification_data(1000, seed=10)
    rate = conventions.sigma_to("scikit-learn", float(KERNEL.sigma))
    for n, repeats in sizes.items():
        X, y = classification_data(n, noise=0.1)
        contenders: dict[str, Callable[[], object]] = {
            "ours": partial(_ours, LSSVMClassifier(kernel=KERNEL), X, y, X_test),
            "same": partial(_calibrated_peer, LSSVMClassifier(kernel=KERNEL, calibration=None), X, y, X_test),
            "one": partial(_calibrated_peer, LSSVMClassifier(kernel=KERNEL, calibration=None), X, y, X_test, False),
            "svc": partial(_calibrated_peer, SVC(gamma=rate), X, y, X_test),
        }
        t = time_interleaved(contenders, repeats)
        ratio = t["same"] / t["ours"]
        met = yes_no(ratio >= FASTER) if n == 1000 else ""
        seconds = [f"{t[name]:.3f}" for name in ("ours", "same", "one", "svc")]
        yield ("time, s", str(n), *seconds, f"{ratio:.2f}", met), ratio


def _scores(quick: bool) -> Iterator[tuple[tuple[str, ...], float]]:
    for name, read in _EMBEDDED.items():
        data = read()
        X, y = np.asarray(data[0], dtype=np.float64), np.unique(data[1], return_inverse=True)[1]
        rows = []
        for train, test in StratifiedShuffleSplit(2 if quick else 10, test_size=0.4, random_state=0).split(X, y):
            scale = StandardScaler().fit(X[train])
            rows.append(_brier(scale.transform(X[train]), y[train], scale.transform(X[test]), y[test]))
            if len(y) > 1000 and len(rows) == (1 if quick else 3):
                break
        scores = np.mean(rows, axis=0)
        met = yes_no(scores[0] <= scores[1])
        cells, ratio = [f"{score:.4f}" for score in scores], float(scores[1] / scores[0])
        yield (f"Brier, {name}", str(y.size), *cells, f"{ratio:.2f}", met), ratio


def _brier(X: Array, y: Any, X_test: Array, y_test: Any) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns without spread, and widths at the end of a range
        chosen = LSSVMClassifierCV(calibration=None).fit(X, y)
        machine = LSSVMClassifier(chosen.kernel_, float(chosen.gamma_))
        rate = conventions.sigma_to("scikit-learn", float(chosen.kernel_.sigma))
        plain = LSSVMClassifier(chosen.kernel_, float(chosen.gamma_), calibration=None)
        outputs = [
            _ours(machine, X, y, X_test),
            _calibrated_peer(plain, X, y, X_test),
            _calibrated_peer(plain, X, y, X_test, ensemble=False),
            _calibrated_peer(SVC(gamma=rate), X, y, X_test),
        ]
    truth = np.eye(int(y.max()) + 1)[y_test]
    half = 0.5 if truth.shape[1] == 2 else 1.0
    return [half * float(np.mean(np.square(p - truth).sum(axis=1))) for p in outputs]
