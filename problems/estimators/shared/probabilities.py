r"""Probabilities of classes and sets of labels, for every classifier.

Decision values of rows that a machine has not seen tell how often it is right. Machines with exact leave-one-out have
them for all training rows without a refit, and no row is held back; other machines are fitted five more times, without
a fifth of the rows each. That is done at the first call that needs it, not by ``fit``.

``predict`` follows the decision function, and probabilities agree with it: a map from scores to probabilities is
monotone, and its value is moved to one half where it and the decision are on different sides, see
:mod:`substrate.uncertainty.calibration`. For more than two classes the score of a class is its margin, the distance to
the best other one; each class has its map, and the values are divided by their sum, which keeps the largest.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from problems.estimators.shared.calibration_scores import (
    CALIBRATIONS,
    N_FOLDS,
    CalibrationScores,
    equal_rows,
    fold_scores,
)
from problems.estimators.shared.coded import numbers_of_codes, scores_of
from problems.estimators.shared.guarantees import Guarantee, guarantee_of
from substrate.arrays import to_numpy
from substrate.errors import DataError, SolverError
from substrate.kernels import as_kernel
from substrate.least_squares.robust_weights import check_choice
from substrate.uncertainty.calibration import less_strange
from substrate.uncertainty.intervals import exact_level

__all__ = ["Calibration", "LeftOutCalibration"]


class _Held:
    """The rows that a fit keeps for the calibration, and its scores; one object, so that predicting sets no
    attribute."""

    __slots__ = ("rows", "scores")

    def __init__(self) -> None:
        self.rows: Any = None
        self.scores: CalibrationScores | None = None

    def keep(self, scores: CalibrationScores) -> CalibrationScores:
        """Keep scores; rows are not needed any more."""
        self.rows, self.scores = None, scores
        return scores


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """The rows that a machine has not seen, by which a classifier is calibrated: left out in folds.

    The scores are held in one object of the estimator, ``_kept_calibration``. Machines that leave rows out without a
    refit, and machines whose folds keep what was chosen on all rows, have separate kinds.
    """

    estimator: Any

    #: Whether every row is left out without a refit; otherwise rows are left out in folds.
    leaves_rows_out: ClassVar[bool] = False

    def keeps_rows(self) -> bool:
        """Return whether rows are needed that the model does not hold; the fit keeps a reference to them, no copy."""
        return self.estimator.calibration is not None

    def score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Return decision values of training rows in machines without them: by default in folds."""
        X, labels, weights = rows
        if rows is not self.state().rows:
            X, labels, _ = self.estimator._check_again(X, labels, weights, numeric=False)
            return self.score_folds(X, labels, weights)
        return self.score_folds(X, labels, weights)

    def score_folds(self, X: Any, labels: Any, weights: Any) -> CalibrationScores:
        """Return decision values of rows in the units of the machine, left out in folds."""
        numbers, pairwise = self.numbers(np.asarray(labels)), self.estimator.__sklearn_tags__().input_tags.pairwise
        return fold_scores(self.fold_machine(X), X, labels, numbers, weights, pairwise)

    def fold_machine(self, X: Any) -> Any:
        """Return the estimator that is fitted without a fold; what was chosen on all rows is kept."""
        return clone(self.estimator).set_params(calibration=None)

    def less_strange(self, X: Any, rows: Any) -> tuple[Any, int]:
        """Return how many calibration rows conform better than each new row with each label, and the number of rows."""
        scores, calibration_scores = to_numpy(self.estimator.decision_function(X)), self.scores(rows)
        return less_strange(calibration_scores.nonconformity, scores), calibration_scores.n_rows

    def begin(self) -> None:
        """Forget an earlier calibration, before a fit."""
        self.rule(refused=False)
        self.estimator._kept_calibration = _Held()

    def move(self, model: Any) -> None:
        """Copy the stored calibration to ``model``, a copy of the estimator in numpy."""
        model._kept_calibration, state = _Held(), self.state()
        model._kept_calibration.scores = state.scores
        if state.rows is not None:
            model._kept_calibration.rows = tuple(to_numpy(array) for array in state.rows)

    def rule(self, refused: bool = True) -> Any:
        """Return the name of the map, checked."""
        calibration = self.estimator.calibration
        if calibration is not None or refused:
            check_choice(calibration, CALIBRATIONS, "calibration")
        return calibration

    def state(self) -> _Held:
        """Return the stored calibration."""
        model = self.estimator
        if not hasattr(model, "_kept_calibration"):
            model._kept_calibration = _Held()
        kept: _Held = model._kept_calibration
        return kept

    def numbers(self, labels: Any) -> Any:
        """Return the numbers of the classes of labels, each of which the model must know."""
        classes = self.estimator.classes_
        place = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
        if (strange := labels[classes[place] != labels]).size:
            raise DataError(f"y has classes {np.unique(strange)[:5]} that the model does not know; it knows {classes}")
        return place

    def scores(self, rows: Any) -> CalibrationScores:
        """Return the scores of rows left out, found once; again where rows are given."""
        state = self.state()
        if state.scores is not None and rows is None:
            return state.scores
        return state.keep(self.score_left_out(self.rows(rows)))

    def rows(self, rows: Any) -> tuple[Any, Any, Any]:
        """Return training rows, labels and weights, as given or as kept from the fit."""
        data = self.state().rows if rows is None else rows
        if data is None and self.keeps_rows():
            raise DataError(
                f"this {type(self.estimator).__name__} does not hold its training rows and was not calibrated before "
                "it was saved; give them once, rows=(X, y), or call calibrate(X, y) with rows that it was not fitted to"
            )
        if data is None:
            return None, None, None
        if not isinstance(data, tuple) or len(data) not in (2, 3):
            raise DataError(f"rows must be a pair (X, y) of the training rows and their labels, received {type(data)}")
        return data if len(data) == 3 else (*data, None)

    def guarantee(self, coverage: float) -> Guarantee:
        """Return what label sets guarantee, and what breaks it, if anything does."""
        scores = self.state().scores
        if scores is not None and scores.source == "split":
            return guarantee_of("split", coverage, 1, ())
        how = "left-out rows" if self.leaves_rows_out else f"rows left out in {N_FOLDS} folds"
        stable = "the machine changes little when a row is left out"
        return Guarantee(f"conformity to {how}", float(exact_level(coverage)), None, (stable,))

    def check_loaded(self) -> None:
        """Refuse scores that cannot result from a calibration."""
        scores = self.state().scores
        if scores is None:
            return
        shapes = (scores.scores.shape[:1], scores.classes.shape, scores.weights.shape)
        n = self.estimator.classes_.size
        if (
            len(set(shapes)) != 1
            or not scores.n_rows
            or scores.n_classes != n
            or scores.scores.ndim != (1 if n == 2 else 2)
            or not np.isfinite(scores.scores).all()
        ):
            raise DataError("the calibration scores, their classes and their weights do not belong together")
        if scores.classes.min() < 0 or scores.classes.max() >= n or not (scores.weights > 0.0).all():
            raise DataError("calibration scores are of known classes, with positive weights")


class LeftOutCalibration(Calibration):
    """A calibration by leaving out every row in closed form, with the rows that equal it in inputs and class.

    So a row of weight two equals two equal rows, and no copy of a row tells its class; the rows of a precomputed
    matrix, and those that are read in passes, count as different.
    """

    leaves_rows_out = True

    def keeps_rows(self) -> bool:
        """Return whether rows are to be kept: for a basis, a matrix, and for folds if the kernel is not definite."""
        model = self.estimator
        return super().keeps_rows() and (model.basis is not None or not as_kernel(model.kernel).trusted)

    def score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Score in closed form; by folds where the kernel is not positive semi-definite and leaves some machine
        undefined.
        """
        model = self.estimator
        try:
            left_out = model._model.leave_rows_out(*rows, is_checked=False)
            classes, residuals = numbers_of_codes(left_out.targets, model.code_book_), left_out.residuals
            if left_out.X is not None:
                residuals = model._model.leave_groups_out(left_out, equal_rows(to_numpy(left_out.X), classes))
        except SolverError:
            if rows[0] is None:
                raise
            return super().score_left_out(rows)
        outputs = left_out.targets - residuals
        scores = scores_of(outputs[:, 0] if outputs.shape[1] == 1 else outputs, model.coding, model.code_book_)
        return CalibrationScores.of(scores, classes, left_out.weights, "left out")
