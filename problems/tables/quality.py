r"""The quality of a model in the usual measures, compared with a prediction that ignores the inputs.

For numbers, with predictions :math:`f_i` and the mean :math:`\bar y` of the rows judged,

.. math::

    \text{RMSE} = \Big(\frac1n \sum_i (y_i - f_i)^2\Big)^{1/2}, \quad \text{MAE} = \frac1n \sum_i |y_i - f_i|, \quad
    R^2 = 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2};

for classes the accuracy, its mean over the classes (balanced accuracy), and the area under the receiver operating
characteristic, for more than two classes the mean over one class against the others. The rows judged were held out;
where none were, every training row is left out in turn, in closed form, or folds of them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.tables.machines import Search
from substrate.arrays import Array

__all__ = ["Confusion", "Quality", "QualityMeasure", "quality_of", "training_quality"]

_HELD_OUT = "held-out rows"
_LEFT_OUT = "rows, each left out in turn"
_IN_FOLDS = "rows, left out in folds"
_IN_TIME = "rows, predicted in folds from other times"
_TRAINING = "training rows"
#: A model is called worse if its error exceeds a simple prediction's by this factor.
_CLEARLY = 1.01
#: The least share of the error of the mean that counts as an error: without noise a straight line has none.
_OF_ACCOUNT = 1e-3


@dataclass(frozen=True, slots=True)
class QualityMeasure:
    """One measure, of the model and of the baseline: the mean of the training rows, or their most frequent class."""

    name: str
    value: float
    baseline: float
    #: Whether it is in units of the target; otherwise it is at most 1.
    in_units: bool = False


@dataclass(frozen=True, slots=True)
class Confusion:
    """The counts of rows by class (down) and predicted class (across)."""

    classes: tuple[str, ...]
    counts: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures, the rows they were computed on, the baseline, and a caveat where these rows also chose the model.

    ``worse_than`` says which simple prediction is better on rows held out: the mean, the last value, a straight line,
    or the most frequent class; it is empty where none is better.
    """

    rows: str
    n_rows: int
    baseline: str
    measures: tuple[QualityMeasure, ...]
    confusion: Confusion | None = None
    caveat: str = ""
    worse_than: str = ""


def quality_of(machine: Any, search: Search, X: Array, y: NDArray[Any], X_val: Array, y_val: NDArray[Any]) -> Quality:
    """Measure the quality of a machine of the training rows ``X, y`` on held-out rows, or by leaving training rows
    out."""
    if y_val.size:
        quality = _measure(_HELD_OUT, y_val, machine.predict(X_val), _scores(machine, X_val), y)
        if quality.confusion is not None:
            return replace(quality, worse_than=_compare_classes(quality))
        rivals = _simple_predictions(X, y, X_val, search.in_time)
        return replace(quality, worse_than=_compare(quality, y_val, rivals))
    caveat = "" if search.gamma is not None else "these rows also chose the kernel and gamma"
    if search.rule != "loo" or not hasattr(machine, "leave_one_out"):
        return _leave_folds_out(machine, search, X, y, caveat)
    on_a_basis = hasattr(machine, "basis_indices_")  # keeps its basis and not its rows
    left_out = machine.leave_one_out(X, y) if on_a_basis else machine.leave_one_out()
    outputs = np.asarray(left_out.outputs) if hasattr(machine, "classes_") else np.empty(0)
    return replace(_measure(_LEFT_OUT, y, np.asarray(left_out.predictions), outputs, y), caveat=caveat)


def training_quality(machine: Any, X: Array, y: NDArray[Any], caveat: str = "") -> Quality:
    """Measure the quality of a machine on its training rows."""
    return replace(_measure(_TRAINING, y, machine.predict(X), _scores(machine, X), y), caveat=caveat)


def _leave_folds_out(machine: Any, search: Search, X: Array, y: NDArray[Any], caveat: str) -> Quality:
    """Measure the quality by machines of the same kernel and gamma, fitted again without each fold."""
    predicted, scores = np.empty(y.shape, dtype=y.dtype), np.empty(0)
    folds = search.folds(y.size)
    for train, test in folds:
        if search.task == "classification" and np.unique(y[train]).size < np.unique(y).size:
            alone = "one fold has all rows of a class, so no fold could be left out: errors on new rows are larger"
            return training_quality(machine, X, y, alone)
        without = search.refit(machine, X[train], y[train])
        predicted[test] = without.predict(X[test])
        of_fold = _scores(without, X[test])
        scores = np.empty((y.size, *of_fold.shape[1:])) if of_fold.size and not scores.size else scores
        if of_fold.size:
            scores[test] = of_fold
    judged = np.sort(np.concatenate([test for _, test in folds]))  # of a series the first rows only train
    outputs = scores[judged] if scores.size else scores
    rows = _IN_TIME if search.in_time else _IN_FOLDS
    return replace(_measure(rows, y[judged], predicted[judged], outputs, y), caveat=caveat)


def _simple_predictions(X: Array, y: Array, X_val: Array, in_time: bool) -> dict[str, Array]:
    """Return what the training rows predict without a machine: a straight line in all inputs, the last value."""
    rivals: dict[str, Array] = {}
    if X.shape[1] + 1 < X.shape[0]:
        line = np.linalg.lstsq(np.column_stack([np.ones(X.shape[0]), X]), y, rcond=None)[0]
        rivals["a straight line"] = line[0] + X_val @ line[1:]
    if in_time:
        rivals["the last value"] = np.full(X_val.shape[0], y[-1])
    return rivals


def _compare(quality: Quality, y: Array, rivals: dict[str, Array]) -> str:
    """Return which of the baseline and its rivals predicts the rows best, if clearly better than the model."""
    error = quality.measures[0]
    errors = {name: _rmse(y - predicted) for name, predicted in rivals.items()}
    errors[quality.baseline.removeprefix("always ")] = error.baseline
    best = min(errors, key=errors.__getitem__)
    if not error.value > max(_CLEARLY * errors[best], _OF_ACCOUNT * error.baseline):
        return ""
    return f"worse than {best}, with an RMSE of {error.value:.4g} against {errors[best]:.4g}"


def _compare_classes(quality: Quality) -> str:
    """Return whether the most frequent class is right more often than the model."""
    right = quality.measures[0]
    if right.value >= right.baseline:
        return ""
    return f"worse than {quality.baseline}, right in {right.value:.1%} of the rows against {right.baseline:.1%}"


def _scores(machine: Any, X: Array) -> Array:
    return np.asarray(machine.decision_function(X) if hasattr(machine, "classes_") else np.empty(0))


def _measure(rows: str, y: NDArray[Any], predicted: NDArray[Any], scores: Array, y_train: NDArray[Any]) -> Quality:
    if scores.size:
        return _measure_classes(rows, y, predicted, scores, y_train)
    # a row that is left out is no part of the mean of the others
    mean = (y.sum() - y) / max(y.size - 1, 1) if rows == _LEFT_OUT else np.full(y.size, y_train.mean())
    spread = _rmse(y - y.mean())
    values = []
    for errors in (y - predicted, y - mean):
        explained = 1.0 - (_rmse(errors) / spread) ** 2 if spread > 0.0 else float("nan")
        values.append((_rmse(errors), float(np.mean(np.abs(errors))), explained))
    measures = tuple(
        QualityMeasure(name, value, baseline, name != "R squared")
        for name, value, baseline in zip(("RMSE", "MAE", "R squared"), *values, strict=True)
    )
    return Quality(rows=rows, n_rows=y.size, baseline="always the mean", measures=measures)


def _measure_classes(
    rows: str, y: NDArray[Any], predicted: NDArray[Any], scores: Array, y_train: NDArray[Any]
) -> Quality:
    from sklearn.metrics import confusion_matrix

    trained, counts = np.unique(y_train, return_counts=True)
    usual, classes = trained[counts.argmax()], np.union1d(trained, y)  # a small class may be held out as a whole
    table = confusion_matrix(y, predicted, labels=classes)
    guess = confusion_matrix(y, np.full(y.shape, usual), labels=classes)
    sizes = table.sum(axis=1)
    right, right_by_guess = (np.diag(each)[sizes > 0] / sizes[sizes > 0] for each in (table, guess))
    measures = (
        QualityMeasure("accuracy", float(np.trace(table) / y.size), float(np.trace(guess) / y.size)),
        QualityMeasure("balanced accuracy", float(right.mean()), float(right_by_guess.mean())),
        QualityMeasure("AUC", _auc(y, scores, trained), 0.5),
    )
    confusion = Confusion(tuple(map(str, classes)), table)
    return Quality(rows=rows, n_rows=y.size, baseline=f"always {usual}", measures=measures, confusion=confusion)


def _auc(y: NDArray[Any], scores: Array, classes: NDArray[Any]) -> float:
    """Return the share of pairs of different classes that the scores rank correctly; NaN where all rows have one
    class."""
    from sklearn.metrics import roc_auc_score

    columns, sides = (scores[:, None], classes[1:]) if scores.ndim == 1 else (scores, classes)
    if columns.shape[1] != sides.size:  # outputs of a coding that has no column per class
        return float("nan")
    pairs = zip(columns.T, sides, strict=True)
    areas = [roc_auc_score(y == side, column) for column, side in pairs if 0 < np.sum(y == side) < y.size]
    return float(np.mean(areas)) if areas else float("nan")


def _rmse(errors: Array) -> float:
    unit = float(np.abs(errors).max()) or 1.0
    return unit * float(np.sqrt(np.mean(np.square(errors / unit))))
