r"""The quality of predictions in the usual measures, compared with predictions that ignore the inputs, and which inputs
matter to it.

For numbers, with predictions :math:`f_i` and the mean :math:`\bar y` of these rows,

.. math::

    \text{RMSE} = \Big(\frac1n \sum_i (y_i - f_i)^2\Big)^{1/2}, \quad \text{MAE} = \frac1n \sum_i |y_i - f_i|, \quad
    R^2 = 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2};

for classes the accuracy, its mean over the classes (balanced accuracy), and the area under the receiver operating
characteristic, for more than two classes the mean over one class against the others.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from substrate.arrays import Array
from substrate.certificate import Certificate

__all__ = [
    "LEFT_OUT",
    "Quality",
    "QualityMeasure",
    "digits",
    "importance",
    "importance_shares",
    "important",
    "is_reliable",
    "measure_quality",
]

#: How rows that are left out one by one are called.
LEFT_OUT = "rows, each left out in turn"
#: A model is called worse if its error exceeds a simple prediction's by this factor.
_CLEARLY = 1.01
#: The least share of the error of the mean that counts as an error: without noise a straight line has none.
_OF_ACCOUNT = 1e-3
#: How many times the distance from the exact optimum must fit into the error on other rows to be of no account.
_WELL_KNOWN = 10.0
#: Multiplications up to which importances are looked for, and for each second of a time that is given.
_MOST_WORK, _IN_A_SECOND = 4e9, 1e8
#: Permutations of each input, and rows beyond which a single permutation is enough.
_REPEATS, _MANY_ROWS = 3, 5000
#: The least that shuffling an input that matters adds, as a share of the error, or takes from the accuracy.
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class QualityMeasure:
    """One measure, of the model and of the baseline: the mean of the training rows, or their most frequent class."""

    name: str
    value: float
    baseline: float
    #: Whether it is in units of the target; otherwise it is at most 1.
    in_units: bool = False

    def show(self, value: float) -> str:
        """Return a value of it in a few digits, or a dash where there is none."""
        if np.isnan(value):
            return "-"
        return digits(value) if self.in_units else f"{round(value, 3) + 0.0:.3f}"  # + 0.0: no minus zero


@dataclass(frozen=True, slots=True)
class Quality:
    """The measures, the rows they were computed on, the baseline, and a caveat where these rows also chose the model.

    ``counts`` has the rows by class (down) and predicted class (across), in the order of ``classes``, which a
    regression has none of. ``worse_than`` says which simple prediction is better on rows held out: the mean, the last
    value, a straight line, or the most frequent class; it is empty where none is better.
    """

    rows: str
    n_rows: int
    baseline: str
    measures: tuple[QualityMeasure, ...]
    classes: tuple[str, ...] = ()
    counts: NDArray[np.intp] | None = None
    caveat: str = ""
    worse_than: str = ""


def measure_quality(
    rows: str,
    y: NDArray[Any],
    predicted: NDArray[Any],
    outputs: Array,
    y_train: NDArray[Any],
    *,
    rivals: Mapping[str, Array] | None = None,
    caveat: str = "",
) -> Quality:
    """Return the quality of predictions of the targets ``y``, by a machine of the targets ``y_train``.

    ``outputs`` are what the classes were decided by, empty for numbers. With ``rivals``, simple predictions of the same
    rows by name, the model is compared with them and with the baseline.
    """
    if outputs.size:
        return _measure_classes(rows, y, predicted, outputs, y_train, rivals is not None, caveat)
    # a row that is left out is no part of the mean of the others
    mean = (y.sum() - y) / max(y.size - 1, 1) if rows == LEFT_OUT else np.full(y.size, y_train.mean())
    spread = _rmse(y - y.mean())
    values = []
    for errors in (y - predicted, y - mean):
        explained = 1.0 - (_rmse(errors) / spread) ** 2 if spread > 0.0 else float("nan")
        values.append((_rmse(errors), float(np.mean(np.abs(errors))), explained))
    measures = tuple(
        QualityMeasure(name, value, baseline, name != "R squared")
        for name, value, baseline in zip(("RMSE", "MAE", "R squared"), *values, strict=True)
    )
    worse = ""
    if rivals is not None:
        error, of_mean = values[0][0], values[1][0]
        errors_of = {name: _rmse(y - simple) for name, simple in rivals.items()} | {"the mean": of_mean}
        best = min(errors_of, key=errors_of.__getitem__)
        if error > max(_CLEARLY * errors_of[best], _OF_ACCOUNT * of_mean):
            worse = f"worse than {best}, with an RMSE of {error:.4g} against {errors_of[best]:.4g}"
        elif error >= of_mean > 0.0:  # by little, but such a model has found nothing
            worse = f"no better than the mean, with an RMSE of {error:.4g} against {of_mean:.4g}"
    return Quality(rows, y.size, "always the mean", measures, caveat=caveat, worse_than=worse)


def _measure_classes(
    rows: str,
    y: NDArray[Any],
    predicted: NDArray[Any],
    outputs: Array,
    y_train: NDArray[Any],
    is_compared: bool,
    caveat: str,
) -> Quality:
    from sklearn.metrics import confusion_matrix

    trained, sizes_trained = np.unique(y_train, return_counts=True)
    usual, classes = trained[sizes_trained.argmax()], np.union1d(trained, y)  # a small class may be held out whole
    counts = confusion_matrix(y, predicted, labels=classes)
    guess = confusion_matrix(y, np.full(y.shape, usual), labels=classes)
    sizes = counts.sum(axis=1)
    right, right_by_guess = (np.diag(each)[sizes > 0] / sizes[sizes > 0] for each in (counts, guess))
    accuracy, baseline = float(np.trace(counts) / y.size), float(np.trace(guess) / y.size)
    measures = (
        QualityMeasure("accuracy", accuracy, baseline),
        QualityMeasure("balanced accuracy", float(right.mean()), float(right_by_guess.mean())),
        QualityMeasure("AUC", _auc(y, outputs, trained), 0.5),
    )
    worse = ""
    if is_compared and accuracy < baseline:
        worse = f"worse than always {usual}, right in {accuracy:.1%} of the rows against {baseline:.1%}"
    return Quality(rows, y.size, f"always {usual}", measures, tuple(map(str, classes)), counts, caveat, worse)


def _auc(y: NDArray[Any], outputs: Array, classes: NDArray[Any]) -> float:
    """Return the share of pairs of different classes that the outputs rank correctly; NaN where all rows have one
    class."""
    from sklearn.metrics import roc_auc_score

    columns, sides = (outputs[:, None], classes[1:]) if outputs.ndim == 1 else (outputs, classes)
    if columns.shape[1] != sides.size:  # outputs of a coding that has no column per class
        return float("nan")
    pairs = zip(columns.T, sides, strict=True)
    areas = [roc_auc_score(y == side, column) for column, side in pairs if 0 < np.sum(y == side) < y.size]
    return float(np.mean(areas)) if areas else float("nan")


def _rmse(errors: Array) -> float:
    unit = float(np.abs(errors).max()) or 1.0
    return unit * float(np.sqrt(np.mean(np.square(errors / unit))))


def importance(model: Any) -> Any:
    """Measure the importance of inputs by leaving training rows out; None if the machine cannot, or if it takes more
    work than the fit, or than the time allows.

    An input is a column of the table: the 0-1 columns of its categories are permuted together.
    """
    machine, X, groups = model.judged_.machine, model.judged_.X, model.preparation_.columns_of_inputs
    if len(groups) < 2 or not hasattr(machine, "left_out_importance"):
        return None
    repeats = _REPEATS if X.shape[0] <= _MANY_ROWS else 1
    work = float(X.size) * machine.support_values_.shape[0] * len(groups) * repeats
    most = _MOST_WORK if model.seconds is None else min(_MOST_WORK, _IN_A_SECOND * model.seconds)
    if work * len(getattr(machine, "estimators_", (None,))) > most:
        return None
    rows = (X, model.judged_.y) if hasattr(machine, "basis_indices_") else ()  # a basis does not keep them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # importances that rounding decides are not shown
        importances = machine.left_out_importance(*rows, n_repeats=repeats, groups=groups)
    return importances if importances.certificate.holds else None


def important(importances: Any) -> list[int]:
    """Return the inputs whose importance is more than chance, and than a hundredth of the error and of all together,
    the most important first.
    """
    mean, deviation = np.asarray(importances.importances_mean), np.asarray(importances.importances_std)
    all_together = max(abs(importances.left_out_score), float(mean.clip(0.0).sum()))
    least = np.maximum(2.0 * deviation, _LEAST_SHARE * all_together)
    return [int(k) for k in np.argsort(-mean, kind="stable") if mean[k] > least[k]]


def importance_shares(importances: Any) -> tuple[Array, Array]:
    """Return the share of each input in the error that shuffling adds, and its standard deviation."""
    mean, deviation = np.asarray(importances.importances_mean), np.asarray(importances.importances_std)
    total = max(float(mean.clip(0.0).sum()), np.finfo(float).tiny)
    return mean / total, deviation / total


def is_reliable(certificate: Certificate, quality: Quality) -> bool:
    """Return whether to predict with a model.

    Where only the choice of a weight is not proved, the machine of this weight is; and a solution that is known to a
    tenth of the errors on other rows is known well enough, as for a table without noise.
    """
    failed = {row.name for row in certificate.failures}
    if all(name.startswith(("gap of", "range of")) for name in failed):
        return True
    error = quality.measures[0]
    is_known = error.in_units and _WELL_KNOWN * certificate.accuracy <= error.value
    return is_known and failed <= {"accuracy", *(name for name in failed if name.startswith(("gap of", "range of")))}


def digits(value: float) -> str:
    """Return a number to three digits, without an exponent where it is of ordinary size."""
    return f"{float(f'{value:.3g}'):.6g}"
