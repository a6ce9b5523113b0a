"""Classifiers made of two-class machines: from machines' outputs to classes, whatever fitted them.

``score`` wherever the rows are: scikit-learn's own measures, given numpy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets

from problems.estimators.shared.base import KernelEstimator
from substrate.arrays import Array
from substrate.codings import code_book, correlation_scores
from substrate.errors import DataError, DeclarationError
from substrate.namespaces import is_device_array, namespace_of, on_device_of, same_home, take_rows, to_numpy

__all__ = [
    "CodedClassifier",
    "RegressedClassifier",
    "ScoredClassifier",
    "ScoredRegressor",
    "classes_of",
    "codes_of",
    "members_of",
    "numbers_of",
    "numbers_of_codes",
    "scores_of",
    "winners",
]


class ScoredRegressor(RegressorMixin):
    """R^2 of predictions."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions of X against y; targets and weights are where X is."""
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import r2_score  # as scikit-learn does: only who scores pays for it

        return float(r2_score(*_on_host(self, X, y, sample_weight), sample_weight=to_numpy(sample_weight)))


class ScoredClassifier(ClassifierMixin):
    """Accuracy of predictions."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted; labels and weights are where X is."""
        if not is_device_array(X):
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(*_on_host(self, X, y, sample_weight), sample_weight=to_numpy(sample_weight)))


def _on_host(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """What is known and what is predicted, in numpy."""
    same_home(X=X, y=y, sample_weight=sample_weight)
    return to_numpy(y), to_numpy(model.predict(X))


def classes_of(labels: Any) -> Any:
    """The classes of checked labels, at least two, on the host."""
    if is_device_array(labels):
        classes = to_numpy(namespace_of(labels).unique_values(labels))
        classes.sort()  # the standard promises no order
    else:
        check_classification_targets(labels)
        classes = np.unique(labels)
    if classes.size < 2:
        raise DataError(
            f"a classifier needs at least two classes among rows of positive weight, received one class: {classes}"
        )
    return classes


def numbers_of(labels: Any, classes: Any) -> Any:
    """The number of each label's class, where the labels are."""
    return namespace_of(labels).searchsorted(on_device_of(labels, classes), labels)


def codes_of(labels: Any, classes: Any, book: Array) -> Any:
    """The code words of labels, one column per machine, where the labels are."""
    return take_rows(on_device_of(labels, book), numbers_of(labels, classes))


def numbers_of_codes(Y: Array, book: Array) -> Any:
    """The number of the class of each row of code words, where the codes are."""
    xp = namespace_of(Y)
    same = xp.all(Y[:, None, :] == on_device_of(Y, book), axis=2)
    return xp.argmax(xp.astype(same, xp.int8), axis=1)


def scores_of(outputs: Array, coding: str, book: Array) -> Array:
    """Decision values from the machines' outputs: f for two classes, one score a class for more."""
    if book.shape[0] == 2 or coding == "one_vs_rest":
        return outputs
    if is_device_array(outputs):
        scores: Array = on_device_of(outputs, scores_of(to_numpy(outputs), coding, book))
        return scores
    if coding == "one_vs_one":
        return np.asarray(_ovr_decision_function(outputs > 0.0, outputs, book.shape[0]))
    return correlation_scores(outputs, book)


def winners(scores: Array) -> Any:
    """The number of the class with the largest score, row by row."""
    xp = namespace_of(scores)
    return xp.astype(scores > 0.0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)


def members_of(Y: Array, column: int, labels: bool) -> Any:
    """The rows of one machine: of codes those that are not zero, of plain targets all."""
    return np.flatnonzero(Y[:, column]) if labels else np.arange(Y.shape[0])


@dataclass(eq=False, repr=False, kw_only=True)
class CodedClassifier(ScoredClassifier, KernelEstimator):
    """Decodes the outputs of machines by ``code_book_``; the coefficients are ``support_codes_ * support_values_``."""

    coding: str = "one_vs_rest"

    def decision_function(self, X: Any) -> Array:
        """f(x) for two classes, one score a class for more; the largest score wins.

        :equation [Carvalho2006]_ (1): the separating hyperplane, where the decision value is zero
        """
        return scores_of(self._expansion(X), self.coding, self.code_book_)

    def predict(self, X: Any) -> Any:
        """The class of each row.

        :equation [Carvalho2006]_ (5): the classifier, a sign of the expansion on the support vectors
        """
        scores = self.decision_function(X)  # says so if nothing is fitted yet
        numbers = winners(scores)
        return take_rows(on_device_of(numbers, self.classes_), numbers)

    def _coefficients(self) -> Array:
        codes = self.support_codes_
        if self.support_values_.ndim > codes.ndim:  # an expansion a component: its axis comes last
            codes = codes[..., None]
        coefficients: Array = codes * self.support_values_
        return coefficients

    def _check_loaded(self) -> None:
        if self.__sklearn_is_fitted__():
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


class RegressedClassifier(CodedClassifier):
    """Machines that are regressions on the codes, all on the same rows: coefficients are the support values."""

    def _check_coding(self) -> None:
        code_book(self.coding, 2)  # an unknown coding is refused before any work
        if self.coding == "one_vs_one":
            raise DeclarationError(
                "coding 'one_vs_one' has other rows in every machine and no statistic in common; use 'one_vs_rest', "
                "'minimum_output' or 'ecoc', or scikit-learn's OneVsOneClassifier around this estimator"
            )

    def _keep_classes(self, classes: Any) -> None:
        """``classes`` has their names and codes; a regression has None."""
        if classes is None:
            raise TypeError("a classification without classes")
        self.classes_, self.code_book_ = classes.names, classes.book

    def _coefficients(self) -> Array:
        coefficients: Array = self.support_values_
        return coefficients

    def _check_loaded(self) -> None:
        super(CodedClassifier, self)._check_loaded()  # there are no codes of support vectors
        if self.__sklearn_is_fitted__():
            machines = 1 if self.support_values_.ndim == 1 else self.support_values_.shape[1]
            if self.classes_.ndim != 1 or self.code_book_.shape != (self.classes_.size, machines):
                raise DataError("the code book, the classes and the support values do not belong together")
