"""Tables and functions on which methods are compared: those of this package and those bundled with scikit-learn."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

from substrate import datasets as own
from substrate.arrays import Array

__all__ = ["CLASSIFICATION", "REGRESSION", "Collection", "EmbeddedSets", "Split", "split_of", "standardise"]

Drawn = Callable[[int], tuple[Array, Any]]
#: Most rows that train, so that ten splits with all methods take 25 minutes of one core; and most that are tested.
MOST_TRAINING, MOST_TESTED = 200, 1000


@dataclass(frozen=True, slots=True)
class Split:
    """Rows to fit and rows to test, the inputs standardised by the rows to fit."""

    X: Array
    y: Any
    X_test: Array
    y_test: Any


class Collection(ABC):
    """Sets by name, each with numbered splits."""

    names: tuple[str, ...]
    #: The number of splits of every set, unless another one is asked for.
    n_splits: int

    @abstractmethod
    def split_of(self, name: str, number: int) -> Split:
        """Return one split of a set, the same at every call."""

    @abstractmethod
    def has_labels(self, name: str) -> bool:
        """Return whether the targets of a set are classes."""

    @abstractmethod
    def source(self, name: str) -> str:
        """Return a word that changes with the rows of a set, by which finished cells are known."""


def standardise(X: Array, y: Any, X_test: Array, y_test: Any) -> Split:
    """Return a split whose inputs have mean zero and deviation one on the rows to fit; constant ones are zero there."""
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    return Split((X - mean) / spread, y, (X_test - mean) / spread, y_test)


def _table(load: Callable[..., Any]) -> Drawn:
    """Return the same table whatever the seed, which then only splits it."""
    return lambda seed: load(return_X_y=True)


def _two_digits(seed: int) -> tuple[Array, Any]:
    X, y = bundled.load_digits(return_X_y=True)
    kept = np.isin(y, (3, 8))
    return X[kept], y[kept]


def _ripley(seed: int) -> tuple[Array, Any]:
    subsets = [own.ripley(subset=name) for name in ("train", "test")]
    return np.vstack([X for X, _ in subsets]), np.concatenate([y for _, y in subsets])


def _games(seed: int) -> tuple[Array, Any]:
    X, y = own.tic_tac_toe()
    return np.asarray(X, dtype=np.float64), y


REGRESSION: dict[str, Drawn] = {
    "motorcycle": lambda seed: own.motorcycle(),
    "boston": lambda seed: own.boston(),
    "diabetes": _table(bundled.load_diabetes),
    "sinc, t noise": lambda seed: own.sinc_student(random_state=seed),
    "additive": lambda seed: own.additive_function(400, random_state=seed),
    "friedman1": lambda seed: bundled.make_friedman1(600, noise=1.0, random_state=seed),
    "friedman2": lambda seed: bundled.make_friedman2(600, noise=125.0, random_state=seed),
    "friedman3": lambda seed: bundled.make_friedman3(600, noise=0.1, random_state=seed),
}

CLASSIFICATION: dict[str, Drawn] = {
    "iris": _table(bundled.load_iris),
    "wine": _table(bundled.load_wine),
    "breast cancer": _table(bundled.load_breast_cancer),
    "digits 3, 8": _two_digits,
    "ripley": _ripley,
    "pima": lambda seed: own.pima(),
    "ionosphere": lambda seed: own.ionosphere(),
    "tic-tac-toe": _games,
    "moons": lambda seed: bundled.make_moons(600, noise=0.3, random_state=seed),
    "classification": lambda seed: bundled.make_classification(
        600, 20, n_informative=6, n_redundant=4, n_clusters_per_class=3, random_state=seed
    ),
    "hastie": lambda seed: bundled.make_hastie_10_2(1000, random_state=seed),
}


def split_of(name: str, seed: int) -> Split:
    """Return one split of a set: two thirds of the rows train, 200 at most, the others are tested, 1,000 at most."""
    labels = name in CLASSIFICATION
    X, y = (CLASSIFICATION if labels else REGRESSION)[name](seed)
    X = np.asarray(X, dtype=np.float64)
    train = min(MOST_TRAINING, (2 * y.size) // 3)
    test = min(MOST_TESTED, y.size - train)
    arrays = train_test_split(X, y, train_size=train, test_size=test, random_state=seed, stratify=y if labels else None)
    X_train, X_test, y_train, y_test = arrays
    return standardise(X_train, y_train, X_test, y_test)


class EmbeddedSets(Collection):
    """The sets of this module, split at random."""

    names = (*REGRESSION, *CLASSIFICATION)
    n_splits = 10

    def split_of(self, name: str, number: int) -> Split:
        """Return the split of a seed."""
        return split_of(name, number)

    def has_labels(self, name: str) -> bool:
        """Return whether a set is one of classification."""
        return name in CLASSIFICATION

    def source(self, name: str) -> str:
        """Return nothing: these rows change with the code alone."""
        return ""
