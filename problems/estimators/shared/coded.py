"""Classes as codes of two-class machines: the codes of labels, and from the machines' outputs back to classes."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from substrate.arrays import Array, is_device_array, namespace_of, on_device_of, take_rows, to_numpy
from substrate.codings import code_book, correlation_scores
from substrate.errors import DataError, DeclarationError

__all__ = [
    "NUMBERS",
    "Coding",
    "class_factors",
    "numbers_of_codes",
    "scores_of",
    "winners",
]


def class_factors(class_weight: Any, labels: Any, weights: Array) -> Array:
    """Return the weight of the class of every label; 1 for labels of weight zero.

    ``"balanced"`` is by the labels and their weights: n / (n_classes n_c), where row i counts ``weights[i]`` times.
    """
    kept = weights > 0.0
    present = np.unique(labels[kept])
    factors = np.ones(labels.shape[0])
    if present.size:
        by_class = compute_class_weight(class_weight, classes=present, y=labels[kept], sample_weight=weights[kept])
        by_class = np.asarray(by_class, dtype=np.float64)
        if not (np.isfinite(by_class).all() and (by_class >= 0.0).all()):
            raise DeclarationError(
                f"class_weight must give every class a finite weight that is not negative, received {class_weight!r}"
            )
        factors[kept] = by_class[np.searchsorted(present, labels[kept])]
    return factors


class Coding(NamedTuple):
    """The targets of machines: codes of classes, one row per class, or the numbers of a regression, without names."""

    names: Any = None
    book: Any = None

    @classmethod
    def of_labels(cls, labels: Any, coding: str) -> "Coding":
        """Return the coding of the classes of checked labels, at least two, wherever they are."""
        check_classification_targets(to_numpy(labels))
        names = np.unique(to_numpy(labels))
        if names.size < 2:
            raise DataError(
                f"a classifier needs at least two classes among rows of positive weight, received one class: {names}"
            )
        return cls(names, code_book(coding, names.size))

    def codes(self, y: Any) -> Any:
        """Return the targets of the machines, one column per machine, where y is."""
        if self.names is None:
            return y[:, None] if y.ndim == 1 else y
        numbers = namespace_of(y).searchsorted(on_device_of(y, self.names), y)
        return take_rows(on_device_of(y, self.book), numbers)


#: The coding of numbers, which are unchanged.
NUMBERS = Coding()


def numbers_of_codes(Y: Array, book: Array) -> Any:
    """Return the number of the class of each row of code words, where the codes are."""
    xp = namespace_of(Y)
    is_same = xp.all(Y[:, None, :] == on_device_of(Y, book), axis=2)
    return xp.argmax(xp.astype(is_same, xp.int8), axis=1)


def scores_of(outputs: Array, coding: str, book: Array) -> Array:
    """Return decision values from the machines' outputs: f for two classes, one score per class for more."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        return outputs[:, 0]
    if book.shape[0] == 2 or coding == "one_vs_rest":
        return outputs
    if is_device_array(outputs):
        return on_device_of(outputs, scores_of(to_numpy(outputs), coding, book))
    return correlation_scores(outputs, book)


def winners(scores: Array) -> Any:
    """Return the number of the class with the largest score, row by row."""
    xp = namespace_of(scores)
    return xp.astype(scores > 0.0, xp.int64) if scores.ndim == 1 else xp.argmax(scores, axis=1)
