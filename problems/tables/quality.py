r"""How good a model is, in the usual measures, beside a prediction that looks at no input.

For numbers, with predictions :math:`f_i` and the mean :math:`\bar y` of the rows judged,

.. math::

    \text{RMSE} = \Big(\frac1n \sum_i (y_i - f_i)^2\Big)^{1/2}, \quad \text{MAE} = \frac1n \sum_i |y_i - f_i|, \quad
    R^2 = 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2};

for classes the accuracy, its mean over the classes (balanced accuracy), and the area under the receiver operating
characteristic, for more than two classes the mean over one class against the others. The rows judged were held out;
where none were, every training row is left out in turn, in closed form.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from problems.estimators.chosen.stacked import StackedModel
from problems.estimators.shared.coded import scores_of, winners
from problems.estimators.shared.model import has_part
from problems.tables.dependent_rows import INDEPENDENT, DependentRows
from problems.tables.models import MODELS, Choices, refit_model
from substrate.arrays import Array

__all__ = ["Confusion", "Quality", "QualityMeasure", "quality_of"]

HELD_OUT = "held-out rows"
LEFT_OUT = "rows, each left out in turn"
IN_FOLDS = "rows, left out in folds of whole groups"
IN_TIME = "rows, predicted in folds from other times"
TRAINING = "training rows"
#: How many times the error of a simple prediction a model's error is to be called worse.
_CLEARLY = 1.01


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
    """Counts of rows by class (down) and predicted class (across)."""

    classes: tuple[str, ...]
    counts: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures, the rows they are of, what the baseline predicts, and a caveat where the rows also chose.

    ``worse_than`` says which simple prediction is better on rows held out: the mean, the last value, a straight line,
    or the most frequent class; it is empty where there is none.
    """

    rows: str
    n_rows: int
    baseline: str
    measures: tuple[QualityMeasure, ...]
    confusion: Confusion | None = None
    caveat: str = ""
    worse_than: str = ""


def quality_of(
    estimator: Any,
    choices: Choices,
    task: str,
    X: Array,
    y: NDArray[Any],
    X_val: Array,
    y_val: NDArray[Any],
    dependence: DependentRows = INDEPENDENT,
) -> Quality:
    """Judge a model of the training rows ``X, y`` by the rows held out, or by leaving training rows out."""
    kind = MODELS[choices.model]
    chose = choices.weights.of(choices.model) is None
    if y_val.size:
        predicted, scores = estimator.predict(X_val), _scores(estimator, task, X_val)
        caveat = f"these rows also chose {kind.weight}" if kind.validated and chose else ""
        quality = _measure_quality(HELD_OUT, task, y_val, predicted, scores, y, caveat)
        if task == "classification":
            return replace(quality, worse_than=_compare_classes(quality))
        rivals = _simple_predictions(X, y, X_val, dependence.in_time)
        return replace(quality, worse_than=_compare(quality, y_val, rivals))
    if not dependence.is_independent and kind.least_squares:
        return _leave_folds_out(estimator, choices, task, X, y, dependence)
    left_out = _leave_rows_out(estimator, X, y)
    if left_out is None:
        caveat = f"no row was held out, and --model {choices.model} cannot leave rows out: new rows are worse"
        return _measure_quality(TRAINING, task, y, estimator.predict(X), _scores(estimator, task, X), y, caveat)
    caveat = f"these rows also chose {'kernels and gammas' if choices.model == 'stack' else kind.weight}"
    caveat = caveat if chose else ""
    return _measure_quality(
        LEFT_OUT, task, y, np.asarray(left_out.predictions), np.asarray(left_out.outputs), y, caveat
    )


def _leave_folds_out(
    estimator: Any, choices: Choices, task: str, X: Array, y: NDArray[Any], dependence: DependentRows
) -> Quality:
    """Judge by machines of the same kernel and gamma, fitted again without each fold of rows that belong together."""
    predicted, scores = np.empty(y.shape, dtype=y.dtype), None
    class_weight = estimator.get_params(deep=False).get("class_weight")
    folds = dependence.folds(y.size, task)
    for train, test in folds:
        if task == "classification" and np.unique(y[train]).size < np.unique(y).size:
            caveat = "a class is in one fold of rows alone, so that none could be left out: new rows are worse"
            return _measure_quality(TRAINING, task, y, estimator.predict(X), _scores(estimator, task, X), y, caveat)
        machine = refit_model(estimator, choices, task, class_weight, X[train], y[train])
        predicted[test] = machine.predict(X[test])
        of_fold = _scores(machine, task, X[test])
        if of_fold.size:
            scores = np.empty((y.size, *of_fold.shape[1:])) if scores is None else scores
            scores[test] = of_fold
    rows = IN_TIME if dependence.in_time else IN_FOLDS
    chose = choices.weights.of(choices.model) is None
    caveat = f"these rows also chose {MODELS[choices.model].weight}" if chose else ""
    judged = np.sort(np.concatenate([test for _, test in folds]))  # of a series the first rows only train
    outputs = np.empty(0) if scores is None else scores[judged]
    return _measure_quality(rows, task, y[judged], predicted[judged], outputs, y, caveat)


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
    errors = {name: _rmse(y - predicted, y) for name, predicted in rivals.items()}
    errors[quality.baseline.removeprefix("always ")] = error.baseline
    best = min(errors, key=errors.__getitem__)
    if not error.value > _CLEARLY * errors[best]:
        return ""
    return f"worse than {best}, with an RMSE of {error.value:.4g} against {errors[best]:.4g}"


def _compare_classes(quality: Quality) -> str:
    """Return whether the most frequent class is right more often than the model."""
    right = quality.measures[0]
    if right.value >= right.baseline:
        return ""
    return f"worse than {quality.baseline}, right in {right.value:.1%} of the rows against {right.baseline:.1%}"


class _LeftOutRows(NamedTuple):
    """Outputs at rows that were left out, and what they predict."""

    outputs: Array
    predictions: NDArray[Any]


def _leave_rows_out(estimator: Any, X: Array, y: NDArray[Any]) -> Any:
    """Return the training rows left out one by one; None for machines without a closed form for it."""
    if has_part(estimator, StackedModel):
        columns = estimator._model.leave_rows_out()
        outputs = columns if estimator._model.outputs() else columns[:, 0]
        if not estimator._labels:
            return _LeftOutRows(outputs, outputs)
        numbers = winners(scores_of(outputs, estimator.coding, estimator.code_book_))
        return _LeftOutRows(outputs, np.asarray(estimator.classes_)[numbers])
    if not hasattr(estimator, "leave_one_out") or hasattr(estimator, "shape_points_"):
        return None
    on_a_basis = hasattr(estimator, "basis_indices_")  # keeps its basis and not its rows
    return estimator.leave_one_out(X, y) if on_a_basis else estimator.leave_one_out()


def _scores(estimator: Any, task: str, X: Array) -> Array:
    return np.asarray(estimator.decision_function(X) if task == "classification" else np.empty(0))


def _measure_quality(
    rows: str, task: str, y: NDArray[Any], predicted: NDArray[Any], scores: Array, y_train: NDArray[Any], caveat: str
) -> Quality:
    if task == "classification":
        class_labels, counts = np.unique(y_train, return_counts=True)
        usual, classes = (
            class_labels[counts.argmax()],
            np.union1d(class_labels, y),
        )  # a small class may be held out as a whole
        table = np.array([[np.sum((y == a) & (predicted == b)) for b in classes] for a in classes])
        guess = np.where(classes[None, :] == usual, table.sum(axis=1)[:, None], 0)
        measures: tuple[QualityMeasure, ...] = (
            QualityMeasure("accuracy", float(np.trace(table) / y.size), float(np.trace(guess) / y.size)),
            QualityMeasure("balanced accuracy", _average_recall(table), _average_recall(guess)),
            QualityMeasure("AUC", _auc(y, scores, class_labels), 0.5),
        )
        baseline = f"always {usual}"
        return Quality(
            rows=rows,
            n_rows=y.size,
            baseline=baseline,
            measures=measures,
            confusion=Confusion(tuple(map(str, classes)), table),
            caveat=caveat,
        )
    # a row that is left out is no part of the mean of the others
    mean = (y.sum() - y) / max(y.size - 1, 1) if rows == LEFT_OUT else np.full(y.size, y_train.mean())
    errors, guess_errors = y - predicted, y - mean
    measures = tuple(
        QualityMeasure(name, measure(errors, y), measure(guess_errors, y), name != "R squared")
        for name, measure in (("RMSE", _rmse), ("MAE", _mae), ("R squared", _r_squared))
    )
    return Quality(rows=rows, n_rows=y.size, baseline="always the mean", measures=measures, caveat=caveat)


def _average_recall(table: Array) -> float:
    present = table.sum(axis=1) > 0
    return float(np.mean(np.diag(table)[present] / table.sum(axis=1)[present]))


def _auc(y: NDArray[Any], scores: Array, classes: NDArray[Any]) -> float:
    """Return the share of pairs of different class that the scores put in order; NaN where one class is there alone."""
    columns = scores[:, None] if scores.ndim == 1 else scores
    sides = classes[1:] if scores.ndim == 1 else classes
    if columns.shape[1] != sides.size:  # outputs of a coding that has no column per class
        return float("nan")
    areas = []
    for column, side in zip(columns.T, sides, strict=True):
        inside = y == side
        n_in, n_out = int(inside.sum()), int((~inside).sum())
        if n_in and n_out:
            ranks = rankdata(column)
            areas.append((ranks[inside].sum() - n_in * (n_in + 1) / 2) / (n_in * n_out))
    return float(np.mean(areas)) if areas else float("nan")


def _rmse(errors: Array, y: Array) -> float:
    unit = float(np.abs(errors).max()) or 1.0
    return unit * float(np.sqrt(np.mean(np.square(errors / unit))))


def _mae(errors: Array, y: Array) -> float:
    return float(np.mean(np.abs(errors)))


def _r_squared(errors: Array, y: Array) -> float:
    """Return R squared; NaN where all targets are the same."""
    spread = _rmse(y - y.mean(), y)
    return 1.0 - (_rmse(errors, y) / spread) ** 2 if spread > 0.0 else float("nan")
