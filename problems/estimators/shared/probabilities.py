r"""Probabilities of classes and sets of labels, for every classifier.

Decision values of rows that a machine has not seen tell how often it is right. Machines with exact leave-one-out have
them for all training rows without a refit, and no row is held back; other machines are fitted five more times, without
a fifth of the rows each. That is done at the first call that needs it, not by ``fit``.

``predict`` follows the decision function, and probabilities agree with it: a map from scores to probabilities is
monotone, and its value is moved to one half where it and the decision are on different sides, see
:mod:`substrate.uncertainty.calibration`. For more than two classes the score of a class is its margin, the distance to
the best other one; each class has its map, and the values are divided by their sum, which keeps the largest.
"""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator
from problems.estimators.shared.calibration_scores import (
    CALIBRATIONS,
    N_FOLDS,
    CalibrationScores,
    fold_scores,
    probabilities,
    probability_maps,
    probability_pairs,
    venn_abers,
)
from problems.estimators.shared.guarantees import Guarantee, guarantee_of
from substrate import uncertainty
from substrate.arrays import Array
from substrate.errors import DataError
from substrate.least_squares.robust_weights import check_choice
from substrate.namespaces import namespace_of, on_device_of, to_numpy

__all__ = ["Probabilities"]


class _Held:
    """What a fit leaves for the calibration, and what it finds; one object, so that predicting changes no attribute."""

    __slots__ = ("found", "rows", "scores")

    def __init__(self) -> None:
        self.rows: Any = None
        self.scores: CalibrationScores | None = None
        self.found: dict[str, Any] = {}

    def keep(self, scores: CalibrationScores) -> CalibrationScores:
        """Keep scores; rows are not needed any more."""
        self.rows, self.scores, self.found = None, scores, {}
        return scores


def _calibrates(model: Any) -> bool:
    """Whether a model has probabilities: ``calibration=None`` asks for none."""
    return model.calibration is not None


class Probabilities(KernelEstimator):
    """``predict_proba``, ``predict_probability_interval`` and ``predict_set`` of a classifier."""

    calibration: Any
    #: Whether every row is left out without a refit; otherwise rows are left out in folds.
    _leaves_rows_out: ClassVar[bool] = False

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, rows: Any = None) -> Array:
        """The probability of each class, one column per class in the order of ``classes_``.

        The class with the largest probability is the one that ``predict`` returns.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        rows : pair of arrays or source of rows, default=None
            The training rows and labels (X, y), for a loaded model that neither keeps them nor was calibrated before it
            was saved; with a precomputed kernel the kernel matrix of the training rows in place of X.
        """
        scores = self.decision_function(X)
        maps = self._calibrated(self._calibration(), rows)
        host = to_numpy(scores)
        return on_device_of(scores, probabilities(maps, host, _winners(host)))  # type: ignore[no-any-return]

    def predict_probability_interval(self, X: Any, *, rows: Any = None) -> Array:
        """Intervals of probabilities by Venn-Abers, whatever ``calibration`` is; the wider, the less is known.

        Returns
        -------
        array of shape (n, 2) or (n, n_classes, 2)
            p0 and p1 of the second of two classes, or of each of more classes; the pairs are not moved to the side of
            the decision. ``rows`` is that of :meth:`predict_proba`.
        """
        self._calibration()
        scores = self.decision_function(X)
        pairs = probability_pairs(self._calibrated("pairs", rows), to_numpy(scores))
        return on_device_of(scores, pairs)  # type: ignore[no-any-return]

    def predict_set(self, X: Any, coverage: float = 0.9, *, rows: Any = None, diagonal: Any = None) -> Any:
        """Which labels belong to a set that holds the right one with probability ``coverage``.

        :meth:`set_guarantee` states what is guaranteed for this model. A set may have no label, of a row that is unlike
        all others whatever its label, or all of them, where rows are too few for the coverage.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new rows whose label is to be in the set, above 0 and below 1.
        rows : pair of arrays or source of rows, default=None
            As for :meth:`predict_proba`.
        diagonal : array of shape (n,), default=None
            k(x, x) of the new rows, which exact sets need with a precomputed kernel.

        Returns
        -------
        array of bool of shape (n, n_classes)
        """
        uncertainty.exact_level(coverage)
        check_is_fitted(self)
        self._calibration()
        less, n = self._less_strange(X, rows, diagonal)
        return on_device_of(self.support_values_, uncertainty.in_set(less, coverage, n))

    def set_guarantee(self, coverage: float = 0.9) -> Guarantee:
        """What :meth:`predict_set` guarantees for this model, and what breaks it, if anything does."""
        check_is_fitted(self)
        self._calibration()
        scores = self._state().scores
        if scores is not None and scores.source == "split":
            return guarantee_of("split", coverage, 1, True, ())
        if (exact := self._exact_guarantee(coverage)) is not None:
            return exact
        how = "left-out rows" if self._leaves_rows_out else f"rows left out in {N_FOLDS} folds"
        stable = "the machine changes little when a row is left out"
        return Guarantee(f"the strangeness of {how}", float(uncertainty.exact_level(coverage)), None, (stable,))

    def calibrate(self, X: Any, y: Any) -> Self:
        """Calibrate on rows that this fitted model has not seen, instead of by leaving out training rows.

        The machine itself is not changed. Probabilities, intervals and label sets then follow from these rows, and the
        coverage of sets is guaranteed if they are exchangeable with new ones, however the model was chosen and fitted.
        """
        scores = to_numpy(self.decision_function(X))
        labels = np.asarray(to_numpy(y))
        if labels.shape != scores.shape[:1]:
            raise DataError(
                f"y must have one label per row of X: expected {scores.shape[0]}, received shape {labels.shape}"
            )
        self.calibration_scores_ = CalibrationScores.of(scores, self._numbers(labels), None, "split")
        return self

    @property
    def calibration_scores_(self) -> CalibrationScores:
        """The scores that the model is calibrated by, found at the first call; saved with the model if they were."""
        check_is_fitted(self)
        return self._scores(None)

    @calibration_scores_.setter
    def calibration_scores_(self, scores: CalibrationScores) -> None:
        self._state().keep(scores)

    def to_numpy(self) -> Self:
        """A copy of this model with its arrays in numpy, wherever it was fitted."""
        moved = super().to_numpy()
        moved._kept_calibration, held = _Held(), self._state()
        moved._kept_calibration.scores = held.scores
        if held.rows is not None:
            moved._kept_calibration.rows = tuple(to_numpy(part) for part in held.rows)
        return moved

    def _begin_fit(self) -> None:
        super()._begin_fit()
        self._calibration(refused=False)
        self._kept_calibration = _Held()

    def _checked(self, X: Any, y: Any, sample_weight: Any, **rules: Any) -> tuple[Any, Any, Array]:
        found = super()._checked(X, y, sample_weight, **rules)
        if self._keeps_rows() and not self.__sklearn_is_fitted__():
            self._state().rows = (found[0], found[1], None if sample_weight is None else found[2])
        return found

    def _calibrate_by(self, X: Any, labels: Any, weights: Any) -> None:
        """Forget the calibration of the model that this one is a copy of, and keep rows for its own."""
        self._kept_calibration = _Held()
        if self._keeps_rows():
            self._kept_calibration.rows = (X, labels, weights)

    def _keeps_rows(self) -> bool:
        """Whether the calibration needs rows that the model does not hold; a reference to them is kept, no copy."""
        return self.calibration is not None

    def _calibration(self, refused: bool = True) -> Any:
        """The name of the map, checked."""
        if self.calibration is not None or refused:
            check_choice(self.calibration, CALIBRATIONS, "calibration")
        return self.calibration

    def _state(self) -> _Held:
        if not hasattr(self, "_kept_calibration"):
            self._kept_calibration = _Held()
        return self._kept_calibration

    def _numbers(self, labels: Any) -> Any:
        """The numbers of the classes of labels, each of which the model must know."""
        known = self.classes_
        place = np.minimum(np.searchsorted(known, labels), known.size - 1)
        if (strange := labels[known[place] != labels]).size:
            raise DataError(f"y has classes {np.unique(strange)[:5]} that the model does not know; it knows {known}")
        return place

    def _scores(self, rows: Any) -> CalibrationScores:
        held = self._state()
        if held.scores is not None and rows is None:
            return held.scores
        known = self._rows(rows)
        scores = held.keep(self._left_out_scores(known))
        held.rows = known if self._sets_need_rows() else None
        return scores

    def _calibrated(self, kind: str, rows: Any) -> Any:
        """The maps of a calibration, or the predictors of pairs, made once."""
        scores, found = self._scores(rows), self._state().found
        if kind not in found:
            found[kind] = venn_abers(scores) if kind == "pairs" else probability_maps(scores, kind)
        return found[kind]

    def _rows(self, rows: Any) -> tuple[Any, Any, Any]:
        """Training rows, labels and weights: those given, or those of the fit."""
        given = self._state().rows if rows is None else rows
        if given is None and self._keeps_rows():
            raise DataError(
                f"this {type(self).__name__} does not hold its training rows and was not calibrated before it was "
                "saved; give them once, rows=(X, y), or call calibrate(X, y) with rows that it was not fitted to"
            )
        if given is None:
            return None, None, None
        if not isinstance(given, tuple) or len(given) not in (2, 3):
            raise DataError(f"rows must be a pair (X, y) of the training rows and their labels, received {type(given)}")
        return given if len(given) == 3 else (*given, None)

    def _left_out_scores(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Decision values of training rows in machines without them: by default in folds."""
        X, labels, weights = rows
        if rows is not self._state().rows:
            X, labels, _ = clone(self)._checked(X, labels, weights, numeric=False)
        numbers, pairwise = self._numbers(np.asarray(labels)), self.__sklearn_tags__().input_tags.pairwise
        return fold_scores(self._fold_machine(X), X, labels, numbers, weights, pairwise)

    def _fold_machine(self, X: Any) -> Any:
        """The estimator that is fitted without a fold; what was chosen on all rows stays as it is."""
        return clone(self).set_params(calibration=None)

    def _exact_guarantee(self, coverage: float) -> Guarantee | None:
        """What exact sets guarantee; None where sets are not exact."""
        return None

    def _sets_need_rows(self) -> bool:
        """Whether label sets need rows that the model does not hold, also after it was calibrated."""
        return False

    def _less_strange(self, X: Any, rows: Any, diagonal: Any) -> tuple[Any, int]:
        """How many rows are less strange than each new row with each label, and of how many."""
        if diagonal is not None:
            raise DataError("diagonal is k(x, x) for exact sets with a precomputed kernel; leave it out here")
        scores, known = to_numpy(self.decision_function(X)), self._scores(rows)
        return uncertainty.less_strange(known.strangeness, scores), known.n_rows

    def _also_fitted(self) -> dict[str, Any]:
        scores = self._state().scores if self.__sklearn_is_fitted__() else None
        return {} if scores is None else {"calibration_scores_": scores}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        known = self._state().scores
        if known is None:
            return
        shapes = (known.scores.shape[:1], known.classes.shape, known.weights.shape)
        n = self.classes_.size
        if (
            len(set(shapes)) != 1
            or not known.n_rows
            or known.n_classes != n
            or known.scores.ndim != (1 if n == 2 else 2)
        ):
            raise DataError("the calibration scores, their classes and their weights do not belong together")
        if known.classes.min() < 0 or known.classes.max() >= n or not (known.weights > 0.0).all():
            raise DataError("calibration scores are of known classes, with positive weights")


def _winners(scores: Array) -> Any:
    """The number of the class that is decided for, row by row."""
    return (scores > 0.0).astype(np.intp) if scores.ndim == 1 else namespace_of(scores).argmax(scores, axis=1)
