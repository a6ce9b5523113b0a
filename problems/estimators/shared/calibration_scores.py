"""The scores by which a classifier is calibrated: decision values of rows in machines that have not seen them.

They are decision values of the training rows left out, exactly where a machine has leave-one-out in closed form and
otherwise in folds, or decision values of rows given to ``calibrate``. The probabilities and the label sets of
:mod:`substrate.intervals.calibration` follow from them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from substrate.arrays import Array, is_sparse
from substrate.errors import DataError
from substrate.intervals.calibration import beside_decision, fit_isotonic, fit_sigmoid, margins, nonconformity
from substrate.robust_weights import check_choice
from substrate.values import Record

__all__ = [
    "CALIBRATIONS",
    "MOST_ROWS",
    "N_FOLDS",
    "CalibrationScores",
    "equal_rows",
    "fold_numbers",
    "fold_scores",
    "probabilities",
    "probability_maps",
]

#: The maps from scores to probabilities, by name.
CALIBRATIONS = ("sigmoid", "isotonic")
#: Number of rows of which scores are kept; of more, evenly spaced ones.
MOST_ROWS = 2**16
#: Number of folds where rows are not left out one by one.
N_FOLDS = 5
#: A function of the margins of one class.
Map = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationScores(Record):
    """The decision values of rows in machines that have not seen them, the numbers of their classes, and their weights.

    ``source`` is how: "left out" one by one, in "folds", or "split" from the training rows beforehand.
    """

    scores: Array
    classes: NDArray[np.intp]
    weights: Array
    source: Literal["left out", "folds", "split"]

    @classmethod
    def of(cls, scores: Array, classes: Any, weights: Any, source: Any) -> "CalibrationScores":
        """Return the scores of all rows, or of evenly spaced ones where there are very many."""
        n = len(classes)
        rows = np.arange(n) if n <= MOST_ROWS else np.linspace(0, n - 1, MOST_ROWS).astype(np.intp)
        v = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(np.ascontiguousarray(scores[rows]), np.asarray(classes, dtype=np.intp)[rows], v[rows], source)

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.classes.size)

    @property
    def n_classes(self) -> int:
        """Return the number of classes that the scores decide between."""
        return 2 if self.scores.ndim == 1 else int(self.scores.shape[1])

    @property
    def nonconformity(self) -> Array:
        """Return how far the class of each row is behind the best other class."""
        return nonconformity(self.scores, self.classes)


def probability_maps(scores: CalibrationScores, calibration: Any) -> list[Map]:
    """Return the map of each class, or of the second of two."""
    check_choice(calibration, CALIBRATIONS, "calibration")
    fit = fit_sigmoid if calibration == "sigmoid" else fit_isotonic
    ahead, wanted = margins(scores.scores), [1] if scores.n_classes == 2 else range(scores.n_classes)
    return [fit(ahead[:, number], scores.classes == number, scores.weights) for number in wanted]


def probabilities(maps: list[Map], scores: Array, decided: Any) -> Array:
    """Return the probabilities of the classes, one column each, that agree with the decisions and sum to one."""
    ahead = margins(scores)
    if scores.ndim == 1:
        second = maps[0](ahead[:, 1])
        return beside_decision(np.column_stack([1.0 - second, second]), decided)
    return beside_decision(np.column_stack([map_(ahead[:, k]) for k, map_ in enumerate(maps)]), decided)


def _contents(X: Any) -> list[Any]:
    """Return the contents of each row in a form that can be compared and sorted."""
    if is_sparse(X):
        rows = X.tocsr().sorted_indices()
        cut = list(zip(rows.indptr[:-1], rows.indptr[1:], strict=True))
        return [(rows.indices[a:b].tobytes(), (rows.data[a:b] + 0.0).tobytes()) for a, b in cut]
    return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]  # no negative zero


def equal_rows(X: Any, classes: Any) -> Any:
    """Return the number of each row's group: rows with the same inputs and the same class are one group.

    Groups are numbered by their contents, whatever the order of the rows.
    """
    keys = [(key, int(number)) for key, number in zip(_contents(X), classes, strict=True)]
    numbers = {key: number for number, key in enumerate(sorted(set(keys)))}
    return np.array([numbers[key] for key in keys])


def fold_numbers(groups: Any, classes: Any, n_folds: int) -> Any:
    """Return the fold of each row: the groups of equal rows of each class in turn; -1 for the only group of a class.

    Without such rows their class would be unknown, so they are in every fold's training rows and calibrate nothing.
    """
    folds = np.full(len(classes), -1)
    for number in np.unique(classes):
        (rows,) = np.nonzero(classes == number)
        distinct, place = np.unique(groups[rows], return_inverse=True)
        if distinct.size > 1:
            folds[rows] = place % n_folds
    return folds


def fold_scores(machine: Any, X: Any, labels: Any, numbers: Any, weights: Any, pairwise: bool) -> CalibrationScores:
    """Return the decision values of the rows of each fold in the machine fitted to the other rows.

    ``numbers`` are the class numbers of ``labels``; X is a kernel matrix where ``pairwise``. Rows of weight zero are
    absent; equal rows are in one fold, and folds do not depend on the order of the rows, but for a kernel matrix.
    """
    if weights is not None and not (weights > 0.0).all():
        (rows,) = np.nonzero(weights > 0.0)
        X, labels = (X[rows][:, rows] if pairwise else X[rows]), labels[rows]
        numbers, weights = numbers[rows], weights[rows]
    groups = np.arange(len(labels)) if pairwise else equal_rows(X, numbers)
    folds, scores_found = fold_numbers(groups, numbers, N_FOLDS), None
    for fold in range(N_FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not test.size:
            continue
        inside, outside = (X[train][:, train], X[test][:, train]) if pairwise else (X[train], X[test])
        weighed = {} if weights is None else {"sample_weight": weights[train]}
        scores = clone(machine).fit(inside, labels[train], **weighed).decision_function(outside)
        scores_found = np.empty((len(labels), *scores.shape[1:])) if scores_found is None else scores_found
        scores_found[test] = scores
    if scores_found is None:
        raise DataError("every class has one row only, and none can be left out; give more rows, or calibrate(X, y)")
    is_left_out = folds >= 0
    return CalibrationScores.of(
        scores_found[is_left_out], numbers[is_left_out], None if weights is None else weights[is_left_out], "folds"
    )
