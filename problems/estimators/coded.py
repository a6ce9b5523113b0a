"""Classifiers made of two-class machines: from machines' outputs to classes, whatever fitted them."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets

from problems.estimators.base import KernelEstimator
from substrate.arrays import Array
from substrate.codings import correlation_scores
from substrate.errors import DataError

__all__ = ["CodedClassifier", "classes_of", "members_of", "scores_of", "winners"]


def classes_of(labels: Any) -> Any:
    """The classes of checked labels, at least two."""
    check_classification_targets(labels)
    classes = np.unique(labels)
    if classes.size < 2:
        raise DataError(
            f"a classifier needs at least two classes among rows of positive weight, received one class: {classes}"
        )
    return classes


def scores_of(outputs: Array, coding: str, book: Array) -> Array:
    """Decision values from the machines' outputs: f for two classes, one score a class for more."""
    if book.shape[0] == 2 or coding == "one_vs_rest":
        return outputs
    if coding == "one_vs_one":
        return np.asarray(_ovr_decision_function(outputs > 0.0, outputs, book.shape[0]))
    return correlation_scores(outputs, book)


def winners(scores: Array) -> Any:
    """The number of the class with the largest score, row by row."""
    return (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def members_of(Y: Array, column: int, labels: bool) -> Any:
    """The rows of one machine: of codes those that are not zero, of plain targets all."""
    return np.flatnonzero(Y[:, column]) if labels else np.arange(Y.shape[0])


class CodedClassifier(ClassifierMixin, KernelEstimator):
    """Decodes the outputs of machines by ``code_book_``; the coefficients are ``support_codes_ * support_values_``."""

    coding: str

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
        return self.classes_[winners(scores)]

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
