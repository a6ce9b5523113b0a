r"""Code books: several classes as the columns of two-class machines.

A code book is a matrix with one row per class and one column per machine: +1 and -1 are the two sides.

- *one_vs_rest*: column k is class k against all others.
- *minimum_output*: the classes numbered in binary, :math:`\lceil\log_2 K\rceil` columns, the fewest possible.
- *ecoc*: error-correcting output codes [Dietterich1995]_: all :math:`2^{K-1}-1` splits up to seven classes, beyond that
  the columns of a Hadamard matrix, any two rows of which differ in half of their entries.

Every row is in all machines, which share one kernel matrix and one factorisation. One machine for each pair of classes,
on the rows of these two, is scikit-learn's ``OneVsOneClassifier`` around an estimator.
"""

import numpy as np

from substrate.arrays import Array
from substrate.errors import DeclarationError

__all__ = ["CODINGS", "code_book", "correlation_scores"]

CODINGS: tuple[str, ...] = ("one_vs_rest", "minimum_output", "ecoc")

#: Up to this number of classes all splits are used; 2^6 - 1 = 63 columns for seven classes.
_MOST_EXHAUSTIVE = 7


def code_book(coding: str, n_classes: int) -> Array:
    """Return the code book of a coding; two classes always need one machine only, with the second class positive."""
    if coding not in CODINGS:
        raise DeclarationError(
            f"coding must be one of {', '.join(CODINGS)}, received {coding!r}; one machine for each pair of classes is "
            "scikit-learn's OneVsOneClassifier around this estimator"
        )
    if n_classes < 2:
        raise DeclarationError(f"a code book needs at least two classes, received {n_classes}")
    if n_classes == 2:
        return np.array([[-1.0], [1.0]])
    if coding == "one_vs_rest":
        return np.asarray(2.0 * np.eye(n_classes) - 1.0, dtype=np.float64)
    if coding == "minimum_output":
        bits = int(np.ceil(np.log2(n_classes)))
        return np.asarray(2.0 * (np.arange(n_classes)[:, None] >> np.arange(bits) & 1) - 1.0, dtype=np.float64)
    if n_classes <= _MOST_EXHAUSTIVE:  # every split into two sides, once; the first class is on the positive side
        splits = np.arange(2 ** (n_classes - 1) - 1)
        sides = 2.0 * (splits[None, :] >> np.arange(n_classes - 1)[:, None] & 1) - 1.0
        return np.vstack([np.ones(splits.size), sides])
    from scipy.linalg import hadamard

    book: Array = hadamard(2 ** int(np.ceil(np.log2(n_classes))))[:n_classes, 1:].astype(np.float64)
    return book[:, np.abs(book.sum(axis=0)) < n_classes]  # a column with all classes on one side carries no information


def correlation_scores(outputs: Array, book: Array) -> Array:
    """Return mean agreement of the machines' outputs with each class's code: its largest entry decodes by least
    distance.

    All codes have the same length, so :math:`\\|f - c_k\\|^2` is smallest where :math:`c_k^T f` is largest.
    """
    return np.asarray(outputs @ book.T / book.shape[1])
