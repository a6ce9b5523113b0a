r"""How well a classifier is calibrated and decides: reliability of its probabilities, confusion matrix, and ROC curve.

The rows are grouped by their predicted probability p of a class; in each group the share of rows of that class is drawn
over the mean of p. On the diagonal, p is what it says. The title has the Brier score

.. math:: \frac1n \sum_i \sum_c \big( p_c(x_i) - 1[y_i = c] \big)^2

and, for two classes, half of it, which is the usual form for them. Give rows that the model was not fitted to.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from problems.displays.canvas import LEGEND, axes_for, demand, distinct
from problems.estimators.shared.classifier import Classifier
from substrate.arrays import Array
from substrate.errors import DataError, DeclarationError

__all__ = ["ClassificationDisplay"]

#: Most classes that have a curve each; of more, the most frequent.
_CURVES = 6
#: Rows of one point of the reliability curve, at least, and most points.
_ROWS, _POINTS = 10, 10


@dataclass(eq=False, repr=False)
class ClassificationDisplay:
    """Reliability diagram, confusion matrix and ROC curve.

    Parameters
    ----------
    truth, predicted : array of shape (n_rows,)
        The number of each row's class, and of the class that is predicted.
    probabilities : array of shape (n_rows, n_classes)
        The predicted probabilities.
    scores : array of shape (n_rows,) or (n_rows, n_classes)
        The decision values.
    classes : list of str
        The names of the classes.

    Attributes
    ----------
    axes_, figure_
        The three axes, and their figure.
    """

    truth: NDArray[np.intp]
    predicted: NDArray[np.intp]
    probabilities: Array
    scores: Array
    classes: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, rows: Any = None, ax: Any = None) -> Self:
        """Draw a classifier at rows that it was not fitted to; ``rows`` as for ``predict_proba``."""
        demand(estimator, (Classifier,), cls.__name__, "classifiers")
        if estimator.calibration is None:
            raise DeclarationError("this model has no probabilities; set calibration to 'sigmoid', for instance")
        scores, p = np.asarray(estimator.decision_function(X)), np.asarray(estimator.predict_proba(X, rows=rows))
        labels = np.asarray(y)
        if labels.shape != p.shape[:1]:
            raise DataError(f"y must have one label per row of X: expected {p.shape[0]}, received shape {labels.shape}")
        names = [str(label).replace("$", r"\$") for label in estimator.classes_]
        return cls(
            truth=estimator._calibration.numbers(labels),
            predicted=p.argmax(axis=1),
            probabilities=p,
            scores=scores,
            classes=names,
        ).plot(ax)

    @property
    def brier(self) -> float:
        """Return the Brier score: of two classes that of the second one."""
        squares = np.square(self.probabilities - np.eye(len(self.classes))[self.truth]).sum(axis=1)
        return float(np.mean(squares)) * (0.5 if len(self.classes) == 2 else 1.0)

    def plot(self, ax: Any = None) -> Self:
        """Draw on the three axes given, or on new ones."""
        from sklearn.metrics import ConfusionMatrixDisplay

        self.figure_, self.axes_ = axes_for(ax, 1, 3, size=(12.0, 4.2))
        marks = distinct(_CURVES)
        for number, style in zip(self._classes_to_draw(), marks, strict=False):
            self._reliability(number, style)
            self._roc(number, style)
        first, middle, last = self.axes_
        first.set(xlabel="predicted probability (share)", ylabel="observed frequency (share)")
        first.set_title(f"Brier score {self.brier:.4g}, {self.truth.size} rows", fontsize="small")
        ConfusionMatrixDisplay.from_predictions(
            self.truth,
            self.predicted,
            labels=np.arange(len(self.classes)),
            display_labels=self.classes,
            ax=middle,
            cmap="Greys",
            colorbar=False,
            xticks_rotation="vertical" if len(self.classes) > 4 else "horizontal",
        )
        middle.set(xlabel="predicted class (label)", ylabel="class (label)")
        wrong = float(np.mean(self.truth != self.predicted))
        middle.set_title(f"{wrong:.1%} of the rows in a wrong class", fontsize="small")
        last.set(xlabel="false positives (share)", ylabel="true positives (share)")
        last.set_title("decision values over all thresholds", fontsize="small")
        for axes, place in ((first, "upper left"), (last, "lower right")):
            axes.set_aspect("equal")
            axes.legend(loc=place, **LEGEND)
        return self

    def _classes_to_draw(self) -> list[int]:
        """Return the classes that have curves: the second of two, or the most frequent that have rows and are not
        all.
        """
        counts = np.bincount(self.truth, minlength=len(self.classes))
        usable = [int(k) for k in np.argsort(-counts, kind="stable") if 0 < counts[k] < self.truth.size]
        if len(self.classes) == 2:
            return usable and [1]
        return usable[:_CURVES]

    def _reliability(self, number: int, style: dict[str, Any]) -> None:
        from sklearn.calibration import CalibrationDisplay

        points = int(np.clip(self.truth.size // _ROWS, 1, _POINTS))
        CalibrationDisplay.from_predictions(
            self.truth == number,
            self.probabilities[:, number],
            n_bins=points,
            strategy="quantile",
            name=f"class {self.classes[number]}",
            ax=self.axes_[0],
            ref_line=not self.axes_[0].lines,
            **style,
        )

    def _roc(self, number: int, style: dict[str, Any]) -> None:
        from sklearn.metrics import RocCurveDisplay

        scores = self.scores if self.scores.ndim == 1 else self.scores[:, number]
        RocCurveDisplay.from_predictions(
            self.truth == number,
            scores,
            name=f"class {self.classes[number]}",
            ax=self.axes_[2],
            plot_chance_level=not self.axes_[2].lines,
            curve_kwargs=style | {"marker": ""},
            chance_level_kw={"linestyle": ":", "color": "0.5"},
        )
