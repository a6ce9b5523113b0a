r"""The task of classification: labels of any kind as codes of two-class machines, probabilities, and sets of labels.

Decision values of rows that a machine has not seen tell how often it is right. Machines with exact leave-one-out have
them for all training rows without a refit, and no row is held back; other machines are fitted five more times, without
a fifth of the rows each. That is done at the first call that needs it, not by ``fit``.

``predict`` follows the decision function, and probabilities agree with it: a map from scores to probabilities is
monotone, and its value is moved to one half where it and the decision are on different sides, see
:mod:`substrate.intervals.calibration`. For more than two classes the score of a class is its margin, the distance to
the best other one; each class has its map, and the values are divided by their sum, which keeps the largest.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator, WeightedRows
from problems.estimators.shared.coded import Coding, class_factors, scores_of, winners
from problems.estimators.shared.guarantees import Guarantee, guarantee_of
from substrate.arrays import Array, is_device_array, is_sparse, on_device_of, same_home, take_rows, to_numpy
from substrate.codings import code_book
from substrate.errors import DataError
from substrate.intervals.calibration import (
    beside_decision,
    fit_isotonic,
    fit_sigmoid,
    in_set,
    less_strange,
    margins,
    nonconformity,
)
from substrate.intervals.conformal import exact_level
from substrate.robust_weights import check_choice
from substrate.values import Record

__all__ = ["CalibrationScores", "Classifier", "equal_rows", "probability_maps", "take_block"]

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
    def nonconformity(self) -> Array:
        """Return how far the class of each row is behind the best other class."""
        return nonconformity(self.scores, self.classes)


def probability_maps(scores: CalibrationScores, calibration: Any) -> list[Map]:
    """Return the map of each class, or of the second of two."""
    check_choice(calibration, CALIBRATIONS, "calibration")
    fit = fit_sigmoid if calibration == "sigmoid" else fit_isotonic
    ahead = margins(scores.scores)
    wanted = [1] if ahead.shape[1] == 2 else range(ahead.shape[1])
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


def take_block(X: Any, rows: Any, columns: Any, pairwise: bool) -> Any:
    """Return some of the points; of a kernel matrix, where ``pairwise``, also some of the columns."""
    return X[rows][:, columns] if pairwise else X[rows]


def fold_numbers(groups: Any, classes: Any) -> Any:
    """Return the fold of each row: the groups of equal rows of each class in turn; -1 for the only group of a class.

    Without such rows their class would be unknown, so they are in every fold's training rows and calibrate nothing.
    """
    folds = np.full(len(classes), -1)
    for number in np.unique(classes):
        (rows,) = np.nonzero(classes == number)
        distinct, place = np.unique(groups[rows], return_inverse=True)
        if distinct.size > 1:
            folds[rows] = place % N_FOLDS
    return folds


def fold_scores(machine: Any, X: Any, labels: Any, numbers: Any, weights: Any, pairwise: bool) -> CalibrationScores:
    """Return the decision values of the rows of each fold in the machine fitted to the other rows.

    ``numbers`` are the class numbers of ``labels``; X is a kernel matrix where ``pairwise``. Rows of weight zero are
    absent; equal rows are in one fold, and folds do not depend on the order of the rows, but for a kernel matrix.
    """
    if weights is not None and not (weights > 0.0).all():
        (rows,) = np.nonzero(weights > 0.0)
        X, labels = take_block(X, rows, rows, pairwise), labels[rows]
        numbers, weights = numbers[rows], weights[rows]
    groups = np.arange(len(labels)) if pairwise else equal_rows(X, numbers)
    folds = fold_numbers(groups, numbers)
    scores, places = list[Array](), list[Any]()
    for fold in range(N_FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not test.size:
            continue
        weighed = {} if weights is None else {"sample_weight": weights[train]}
        fitted = clone(machine).fit(take_block(X, train, train, pairwise), labels[train], **weighed)
        scores.append(fitted.decision_function(take_block(X, test, train, pairwise)))
        places.append(test)
    if not places:
        raise DataError("every class has one row only, and none can be left out; give more rows, or calibrate(X, y)")
    left_out = np.concatenate(places)
    order = np.argsort(left_out)
    rows = left_out[order]
    given = None if weights is None else weights[rows]
    return CalibrationScores.of(np.concatenate(scores)[order], numbers[rows], given, "folds")


def _calibrates(model: Any) -> bool:
    """Return whether a model has probabilities: ``calibration=None`` asks for none."""
    return model.calibration is not None


@dataclass(slots=True)
class _Calibration:
    """The rows that a fit keeps for the calibration, and its scores: one object, so that predicting sets no
    attribute."""

    rows: Any = None
    scores: CalibrationScores | None = None


@dataclass(eq=False, repr=False)
class Classifier(ClassifierMixin, KernelEstimator):
    """An estimator of classes: machines on their codes, decoded by ``code_book_``.

    Its support values are those of regressions on the codes y: the multipliers of y f = 1 - e times y.
    """

    _: KW_ONLY
    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic"] | None = "sigmoid"
    _labels = True
    #: How decision values of training rows are found that the machine has not seen, in words.
    _left_out: ClassVar[str] = f"rows left out in {N_FOLDS} folds"

    def decision_function(self, X: Any) -> Array:
        """Return f(x) for two classes, one score per class for more; the largest score wins.

        :equation [Carvalho2006]_ (1): the separating hyperplane, where the decision value is zero
        """
        return scores_of(self._expansion(X), self.coding, self.code_book_)

    def predict(self, X: Any) -> Any:
        """Return the class of each row.

        :equation [Carvalho2006]_ (5): the classifier, a sign of the expansion on the support vectors
        """
        scores = self.decision_function(X)  # raises if nothing is fitted yet
        numbers = winners(scores)
        return take_rows(on_device_of(numbers, self.classes_), numbers)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted; labels and weights are where X is."""
        from sklearn.metrics import accuracy_score  # as in scikit-learn: imported only to score

        if is_device_array(X):
            same_home(X=X, y=y, sample_weight=sample_weight)
        return float(accuracy_score(to_numpy(y), to_numpy(self.predict(X)), sample_weight=to_numpy(sample_weight)))

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, rows: Any = None) -> Array:
        """Return the probability of each class, one column per class in the order of ``classes_``.

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
        maps = probability_maps(self._find_scores(rows), self.calibration)
        host = to_numpy(scores)
        return on_device_of(scores, probabilities(maps, host, winners(host)))

    def predict_set(self, X: Any, coverage: float = 0.9, *, rows: Any = None) -> Any:
        """Return which labels belong to a set that holds the right one with probability ``coverage``.

        :meth:`set_guarantee` states what is guaranteed for this model. A set may have no label, if the row is unlike
        all others whatever its label, or all labels, if rows are too few for the coverage.

        Parameters
        ----------
        X : array of shape (n, n_features)
            New rows.
        coverage : float, default=0.9
            Share of new rows whose label is to be in the set, above 0 and below 1.
        rows : pair of arrays or source of rows, default=None
            As for :meth:`predict_proba`.

        Returns
        -------
        array of bool of shape (n, n_classes)
        """
        exact_level(coverage)
        check_is_fitted(self)
        check_choice(self.calibration, CALIBRATIONS, "calibration")
        scores, seen = to_numpy(self.decision_function(X)), self._find_scores(rows)
        less = less_strange(seen.nonconformity, scores)
        return on_device_of(self.support_values_, in_set(less, coverage, seen.n_rows))

    def set_guarantee(self, coverage: float = 0.9) -> Guarantee:
        """Return what :meth:`predict_set` guarantees for this model, and what breaks it, if anything does."""
        check_is_fitted(self)
        check_choice(self.calibration, CALIBRATIONS, "calibration")
        scores = self._kept.scores
        if scores is not None and scores.source == "split":
            return guarantee_of("split", coverage, 1, ())
        stable = "the machine changes little when a row is left out"
        return Guarantee(f"conformity to {self._left_out}", float(exact_level(coverage)), None, (stable,))

    def calibrate(self, X: Any, y: Any) -> Self:
        """Calibrate on rows that this fitted model has not seen, instead of by leaving out training rows.

        The machine itself is not changed. Probabilities and label sets then follow from these rows, and the
        coverage of sets is guaranteed if they are exchangeable with new ones, however the model was chosen and fitted.
        """
        scores = to_numpy(self.decision_function(X))
        labels = np.asarray(to_numpy(y))
        if labels.shape != scores.shape[:1]:
            raise DataError(
                f"y must have one label per row of X: expected {scores.shape[0]}, received shape {labels.shape}"
            )
        self.calibration_scores_ = CalibrationScores.of(scores, self._class_numbers(labels), None, "split")
        return self

    @property
    def calibration_scores_(self) -> CalibrationScores:
        """The scores that the model is calibrated by, found at the first call; saved with the model if they were."""
        check_is_fitted(self)
        return self._find_scores(None)

    @calibration_scores_.setter
    def calibration_scores_(self, scores: CalibrationScores) -> None:
        self._kept_calibration = _Calibration(scores=scores)

    def to_numpy(self) -> Self:
        """Return a copy of this model with its arrays in numpy, wherever it was fitted."""
        copied, kept = super().to_numpy(), self._kept
        rows = None if kept.rows is None else tuple(to_numpy(array) for array in kept.rows)
        copied._kept_calibration = _Calibration(rows, kept.scores)
        return copied

    @property
    def _kept(self) -> _Calibration:
        """Return the rows and scores of the calibration; a model from a file has none."""
        kept: _Calibration = self.__dict__.setdefault("_kept_calibration", _Calibration())
        return kept

    def _keeps_rows(self) -> bool:
        """Return whether rows are needed that the model does not hold; the fit keeps a reference to them, no copy."""
        return self.calibration is not None

    def _find_scores(self, rows: Any) -> CalibrationScores:
        """Return the scores of rows left out, found once; again where rows are given."""
        kept = self._kept
        if kept.scores is None or rows is not None:
            scores = self._score_left_out(self._training_rows(rows))
            kept.rows, kept.scores = None, scores
        return kept.scores

    def _training_rows(self, rows: Any) -> tuple[Any, Any, Any]:
        """Return training rows, labels and weights, as given or as kept from the fit."""
        data = self._kept.rows if rows is None else rows
        if data is None and self._keeps_rows():
            raise DataError(
                f"this {type(self).__name__} does not hold its training rows and was not calibrated before it was "
                "saved; give them once, rows=(X, y), or call calibrate(X, y) with rows that it was not fitted to"
            )
        if data is None:
            return None, None, None
        if not isinstance(data, tuple) or len(data) not in (2, 3):
            raise DataError(f"rows must be a pair (X, y) of the training rows and their labels, received {type(data)}")
        return data if len(data) == 3 else (*data, None)

    def _score_left_out(self, rows: tuple[Any, Any, Any]) -> CalibrationScores:
        """Return decision values of training rows in machines without them: by default in folds."""
        X, labels, weights = rows
        if rows is not self._kept.rows:
            X, labels, _ = self._check_again(X, labels, weights)
        pairwise = self.__sklearn_tags__().input_tags.pairwise
        numbers = self._class_numbers(np.asarray(labels))
        return fold_scores(self._fold_machine(X), X, labels, numbers, weights, pairwise)

    def _fold_machine(self, X: Any) -> Any:
        """Return the estimator that is fitted without a fold; what was chosen on all rows is kept."""
        return clone(self).set_params(calibration=None)

    def _class_numbers(self, labels: Any) -> Any:
        """Return the numbers of the classes of labels, each of which the model must know."""
        place = np.minimum(np.searchsorted(self.classes_, labels), self.classes_.size - 1)
        if (strange := labels[self.classes_[place] != labels]).size:
            raise DataError(
                f"y has classes {np.unique(strange)[:5]} that the model does not know; it knows {self.classes_}"
            )
        return place

    def _begin_fit(self) -> None:
        super()._begin_fit()
        code_book(self.coding, 2)  # refuses an unknown coding
        if self.calibration is not None:
            check_choice(self.calibration, CALIBRATIONS, "calibration")
        self._kept_calibration = _Calibration()

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Array]:
        checked = super()._check_data(X, y, sample_weight)
        if self._keeps_rows() and not self.__sklearn_is_fitted__():
            self._kept.rows = (checked[0], checked[1], None if sample_weight is None else checked[2])
        return checked

    def _weighted(self, X: Any, y: Any, weights: Array) -> WeightedRows:
        """Multiply the class weights in, where there are some, and drop rows of weight zero."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is not None:
            given = to_numpy(weights)
            weights = on_device_of(weights, given * class_factors(class_weight, to_numpy(y), given))
        return super()._weighted(X, y, weights)

    def _encode(self, labels: Any) -> Coding:
        """Return the coding of the labels: the codes of their classes."""
        return Coding.of_labels(labels, self.coding)

    def _codes_again(self, labels: Any) -> Any:
        """Return the codes of the labels of the fit, given again; refuse labels that the model does not know, and
        classes in an order that no fit leaves.
        """
        classes, present = np.asarray(self.classes_), np.unique(to_numpy(labels))
        if not np.array_equal(np.unique(classes), classes):
            raise DataError(
                f"classes_ must be sorted, each class once, as a fit leaves them; the model holds {classes}"
            )
        if not np.isin(present, classes).all():
            raise DataError(f"the model knows classes {classes}, these data have {present}")
        return Coding(classes, self.code_book_).codes(labels)

    def _keep_classes(self, classes: Coding) -> None:
        """Set the attributes for decoding."""
        self.classes_, self.code_book_ = classes.names, classes.book

    def _further_attributes(self) -> dict[str, Any]:
        scores = self._kept.scores if self.__sklearn_is_fitted__() else None
        return {} if scores is None else {"calibration_scores_": scores}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if self.__sklearn_is_fitted__():
            machines = (*self._outputs(), 1)[0]
            if self.classes_.ndim != 1 or self.code_book_.shape != (self.classes_.size, machines):
                raise DataError("the code book, the classes and the support values do not belong together")
