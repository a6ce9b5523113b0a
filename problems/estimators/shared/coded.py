"""Classifiers made of two-class machines, from the machines' outputs to classes; ``score`` wherever the rows are.

``score`` is scikit-learn's own measure, computed in numpy.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets

from problems.estimators.shared.probabilities import Probabilities
from substrate.arrays import Array
from substrate.codings import code_book, correlation_scores
from substrate.errors import DataError, DeclarationError
from substrate.namespaces import is_device_array, namespace_of, on_device_of, own_copy, same_home, take_rows, to_numpy

__all__ = [
    "Classes",
    "CodedClassifier",
    "RegressedClassifier",
    "ScoredClassifier",
    "ScoredRegressor",
    "class_factors",
    "classes_of",
    "judged",
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
        from sklearn.metrics import r2_score  # as in scikit-learn: imported only to score

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
    """The true and the predicted targets, in numpy."""
    same_home(X=X, y=y, sample_weight=sample_weight)
    return to_numpy(y), to_numpy(model.predict(X))


def classes_of(labels: Any) -> Any:
    """The classes of checked labels, at least two, on the host."""
    if is_device_array(labels):
        classes = to_numpy(namespace_of(labels).unique_values(labels))
        classes.sort()  # the standard guarantees no order
    else:
        check_classification_targets(labels)
        classes = np.unique(labels)
    if classes.size < 2:
        raise DataError(
            f"a classifier needs at least two classes among rows of positive weight, received one class: {classes}"
        )
    return classes


def class_factors(class_weight: Any, labels: Any, weights: Array, others: Any = None) -> Array:
    """The weight of the class of each of the ``others``, or of the labels themselves; 1 for labels of weight zero.

    ``"balanced"`` is by the labels and their weights: n / (n_classes n_c), where row i counts ``weights[i]`` times.
    """
    kept = weights > 0.0
    present = np.unique(labels[kept])
    asked = labels if others is None else others
    factors = np.ones(asked.shape[0])
    if present.size:
        by_class = compute_class_weight(class_weight, classes=present, y=labels[kept], sample_weight=weights[kept])
        known = kept if others is None else np.isin(asked, present)
        factors[known] = np.asarray(by_class)[np.searchsorted(present, asked[known])]
    return factors


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a classification, and their codes, one row per class."""

    names: Any
    book: Array

    @classmethod
    def of(cls, labels: Any, coding: str) -> "Classes":
        """The classes of all labels, wherever they are."""
        names = classes_of(labels)
        return cls(names, code_book(coding, names.size))

    def numbers(self, labels: Any) -> Any:
        """The number of each label's class, where the labels are."""
        return namespace_of(labels).searchsorted(on_device_of(labels, self.names), labels)

    def codes(self, labels: Any) -> Any:
        """The targets of the machines, one column per machine, where the labels are."""
        return take_rows(on_device_of(labels, self.book), self.numbers(labels))


def numbers_of_codes(Y: Array, book: Array) -> Any:
    """The number of the class of each row of code words, where the codes are."""
    xp = namespace_of(Y)
    same = xp.all(Y[:, None, :] == on_device_of(Y, book), axis=2)
    return xp.argmax(xp.astype(same, xp.int8), axis=1)


def scores_of(outputs: Array, coding: str, book: Array) -> Array:
    """Decision values from the machines' outputs: f for two classes, one score per class for more."""
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


def judged(model: Any, outputs: Array) -> tuple[Any, float]:
    """The classes decoded from the outputs at the model's own rows, and the share of wrong ones."""
    found = winners(scores_of(outputs, model.coding, model.code_book_))
    codes = model.support_codes_[:, None] if model.support_codes_.ndim == 1 else model.support_codes_
    wrong = to_numpy(found != numbers_of_codes(codes, model.code_book_))
    return take_rows(on_device_of(found, model.classes_), found), float(np.mean(wrong))


@dataclass(eq=False, repr=False, kw_only=True)
class CodedClassifier(ScoredClassifier, Probabilities):
    """Decodes the outputs of machines by ``code_book_``; the coefficients are ``support_codes_ * support_values_``."""

    coding: str = "one_vs_rest"
    calibration: Literal["sigmoid", "isotonic", "venn-abers"] | None = "sigmoid"
    _labels = True

    def decision_function(self, X: Any) -> Array:
        """f(x) for two classes, one score per class for more; the largest score wins.

        :equation [Carvalho2006]_ (1): the separating hyperplane, where the decision value is zero
        """
        return scores_of(self._expansion(X), self.coding, self.code_book_)

    def predict(self, X: Any) -> Any:
        """The class of each row.

        :equation [Carvalho2006]_ (5): the classifier, a sign of the expansion on the support vectors
        """
        scores = self.decision_function(X)  # raises if nothing is fitted yet
        numbers = winners(scores)
        return take_rows(on_device_of(numbers, self.classes_), numbers)

    def _check_coding(self) -> None:
        """Refuse an unknown coding before any work."""
        code_book(self.coding, 2)

    def _codes_again(self, labels: Any) -> Any:
        """The codes of the labels of the fit, given again."""
        classes = classes_of(labels)
        if not np.array_equal(classes, self.classes_):
            raise DataError(f"the model knows classes {self.classes_}, these data have {classes}")
        return Classes(classes, self.code_book_).codes(labels)

    def _keep_classes(self, classes: Classes, codes: Any) -> None:
        """Set the attributes for decoding; ``codes`` are those of the support, one column per machine."""
        self.classes_, self.code_book_ = classes.names, classes.book
        self.support_codes_ = own_copy(codes[:, 0] if codes.shape[1] == 1 else codes)

    def _coefficients(self) -> Array:
        codes = self.support_codes_
        if self.support_values_.ndim > codes.ndim:  # one expansion per component: its axis comes last
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
        super()._check_coding()
        if self.coding == "one_vs_one":
            raise DeclarationError(
                "coding 'one_vs_one' has other rows in every machine and no statistic in common; use 'one_vs_rest', "
                "'minimum_output' or 'ecoc', or scikit-learn's OneVsOneClassifier around this estimator"
            )

    def _keep_classes(self, classes: Classes | None, codes: Any = None) -> None:
        """Set the attributes for decoding; the coefficients need no codes, and a regression has no classes."""
        if classes is None:
            raise TypeError("a classification without classes")
        self.classes_, self.code_book_ = classes.names, classes.book

    def _coefficients(self) -> Array:
        coefficients: Array = self.support_values_
        return coefficients

    def _fold_machine(self, X: Any) -> Any:
        """On the same basis vectors, unless they are columns of a matrix."""
        machine = super()._fold_machine(X)
        if self.kernel_.pairwise:
            return machine
        return machine.set_params(kernel=self.kernel_, basis=self.basis_)

    def _check_loaded(self) -> None:
        super(CodedClassifier, self)._check_loaded()  # there are no codes of support vectors
        if self.__sklearn_is_fitted__():
            machines = 1 if self.support_values_.ndim == 1 else self.support_values_.shape[1]
            if self.classes_.ndim != 1 or self.code_book_.shape != (self.classes_.size, machines):
                raise DataError("the code book, the classes and the support values do not belong together")
