"""The task of classification: labels of any kind as codes of two-class machines, probabilities, and sets of labels."""

from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from problems.estimators.shared.base import KernelEstimator, WeightedRows
from problems.estimators.shared.calibration_scores import CalibrationScores, probabilities, probability_maps
from problems.estimators.shared.coded import Classes, class_factors, scores_of, winners
from problems.estimators.shared.guarantees import Guarantee
from problems.estimators.shared.probabilities import Calibration
from substrate.arrays import Array, is_device_array, on_device_of, own_copy, same_home, take_rows, to_numpy
from substrate.codings import code_book
from substrate.errors import DataError
from substrate.uncertainty.calibration import in_set
from substrate.uncertainty.intervals import exact_level

__all__ = ["Classifier"]


def _calibrates(model: Any) -> bool:
    """Return whether a model has probabilities: ``calibration=None`` asks for none."""
    return model.calibration is not None


class Classifier(ClassifierMixin, KernelEstimator):
    """An estimator of classes: machines on their codes, decoded by ``code_book_``.

    The coefficients of its expansion are ``support_codes_ * support_values_``, or the support values themselves where
    the machines are regressions on the codes, all on the same rows. It is calibrated by a kind
    of :class:`Calibration`.
    """

    coding: str
    calibration: Literal["sigmoid", "isotonic"] | None
    _labels = True
    #: Whether the machines are regressions on the codes: there are then no codes of the support.
    _regressed: ClassVar[bool] = False
    #: The kind of its calibration.
    _calibration_type: ClassVar[type[Calibration]] = Calibration

    @property
    def _calibration(self) -> Calibration:
        return self._calibration_type(self)

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
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

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
        maps = probability_maps(self._calibration.scores(rows), self._calibration.rule())
        host = to_numpy(scores)
        return on_device_of(scores, probabilities(maps, host, winners(host)))  # type: ignore[no-any-return]

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
        self._calibration.rule()
        less, n = self._calibration.less_strange(X, rows)
        return on_device_of(self.support_values_, in_set(less, coverage, n))

    def set_guarantee(self, coverage: float = 0.9) -> Guarantee:
        """Return what :meth:`predict_set` guarantees for this model, and what breaks it, if anything does."""
        check_is_fitted(self)
        self._calibration.rule()
        return self._calibration.guarantee(coverage)

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
        self.calibration_scores_ = CalibrationScores.of(scores, self._calibration.numbers(labels), None, "split")
        return self

    @property
    def calibration_scores_(self) -> CalibrationScores:
        """The scores that the model is calibrated by, found at the first call; saved with the model if they were."""
        check_is_fitted(self)
        return self._calibration.scores(None)

    @calibration_scores_.setter
    def calibration_scores_(self, scores: CalibrationScores) -> None:
        self._calibration.state().keep(scores)

    def to_numpy(self) -> Self:
        """Return a copy of this model with its arrays in numpy, wherever it was fitted."""
        copied = super().to_numpy()
        self._calibration.move(copied)
        return copied

    def _begin_fit(self) -> None:
        super()._begin_fit()
        self._calibration.begin()

    def _check_data(self, X: Any, y: Any, sample_weight: Any, **rules: Any) -> tuple[Any, Any, Array]:
        checked = super()._check_data(X, y, sample_weight, **rules)
        if self._calibration.keeps_rows() and not self.__sklearn_is_fitted__():
            self._calibration.state().rows = (checked[0], checked[1], None if sample_weight is None else checked[2])
        return checked

    def _check_coding(self) -> None:
        """Refuse an unknown coding before any work."""
        code_book(self.coding, 2)

    def _weighted(self, X: Any, y: Any, weights: Array) -> WeightedRows:
        """Multiply the class weights in, where there are some, and drop rows of weight zero."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is not None:
            given = to_numpy(weights)
            weights = on_device_of(weights, given * class_factors(class_weight, to_numpy(y), given))
        return super()._weighted(X, y, weights)

    def _encode(self, labels: Any) -> Classes:
        """Return the coding of the labels: the codes of their classes."""
        return Classes.of(labels, self.coding)

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
        return Classes(classes, self.code_book_).codes(labels)

    def _keep_classes(self, classes: Classes, codes: Any = None) -> None:
        """Set the attributes for decoding; ``codes`` are the codes of the support, one column per machine."""
        self.classes_, self.code_book_ = classes.names, classes.book
        if not self._regressed:
            self.support_codes_ = own_copy(codes[:, 0] if codes.shape[1] == 1 else codes)

    def _coefficients(self) -> Array:
        if self._regressed:
            return super()._coefficients()
        codes = self.support_codes_
        if self.support_values_.ndim > codes.ndim:  # one expansion per component: its axis comes last
            codes = codes[..., None]
        coefficients: Array = codes * self.support_values_
        return coefficients

    def _further_attributes(self) -> dict[str, Any]:
        scores = self._calibration.state().scores if self.__sklearn_is_fitted__() else None
        return {} if scores is None else {"calibration_scores_": scores}

    def _check_loaded(self) -> None:
        fitted = self.__sklearn_is_fitted__()
        if fitted and not self._regressed:
            machines = 1 if self.support_codes_.ndim == 1 else self.support_codes_.shape[1]
            if (
                self.support_codes_.shape != self.support_values_.shape[: self.support_codes_.ndim]
                or self.classes_.ndim != 1
            ):
                raise DataError("the codes, the classes and the support values do not belong together")
            if self.code_book_.shape != (self.classes_.size, machines):
                raise DataError(
                    f"a code book of shape {self.code_book_.shape} does not fit {self.classes_.size} classes"
                )
        super()._check_loaded()
        self._calibration.check_loaded()
        if fitted and self._regressed:
            machines = 1 if self.support_values_.ndim == 1 else self.support_values_.shape[1]
            if self.classes_.ndim != 1 or self.code_book_.shape != (self.classes_.size, machines):
                raise DataError("the code book, the classes and the support values do not belong together")
