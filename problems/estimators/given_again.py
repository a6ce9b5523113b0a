"""The training data given a second time, for a check or a proof of what a model holds now."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from problems.estimators.coded import classes_of
from substrate.arrays import Array
from substrate.certificates import Certificate, warn_unless_holds
from substrate.errors import DataError

__all__ = ["given_again", "refuse_strange_classes", "refuse_weights", "rows_of_fit", "warn_once_unless_holds"]


def given_again(model: Any, X: Any, y: Any, *, labels: bool) -> tuple[Any, Array]:
    """Rows and targets as the fit checked them, one column per machine; of labels their codes."""
    check_is_fitted(model)
    if y is None:
        raise DataError(f"{type(model).__name__} keeps no targets; pass the y of the fit beside its X")
    X, y, _ = clone(model)._checked(X, y, None, numeric=not labels)
    if X.shape[1] != model.n_features_in_:
        raise DataError(f"X has {X.shape[1]} features, this model was fitted to {model.n_features_in_}")
    if not labels:
        return X, y[:, None]
    classes = classes_of(y)
    if not np.array_equal(classes, model.classes_):
        raise DataError(f"the model knows classes {model.classes_}, these data have {classes}")
    return X, model.code_book_[np.searchsorted(classes, y)]


def refuse_strange_classes(model: Any, labels: Any) -> None:
    """Say that labels are not those that a model knows, or that it knows them in an order that no fit leaves."""
    held, present = np.asarray(model.classes_), np.unique(labels)
    if not np.array_equal(np.unique(held), held):
        raise DataError(f"classes_ must be sorted, each class once, as a fit leaves them; the model holds {held}")
    if not np.isin(present, held).all():
        raise DataError(f"the model knows classes {held}, these data have {present}")


def refuse_weights(model: Any, sample_weight: Any) -> None:
    """Say that a model was fitted without weights."""
    if sample_weight is not None:
        raise DataError(f"{type(model).__name__} is fitted without sample_weight; pass None")


def rows_of_fit(model: Any, n: int) -> Any:
    """The rows that the machine was fitted to: all of them, but where some were held out to choose a parameter."""
    if not hasattr(model, "best_parameter_"):
        return np.arange(n)
    rows = getattr(model, "training_rows_", model.support_)
    if rows.size and rows.max() >= n:
        raise DataError(f"the model was fitted to more rows than these {n}; pass the X and y of the fit")
    return rows


def warn_once_unless_holds(certificate: Certificate) -> None:
    """As every fit, but where the solver's point was rejected, which has been warned of."""
    solvers = [fact for name, fact in certificate.record if name == "solver"]
    if not any("rejected" in fact and "accepted" not in fact for fact in solvers):
        warn_unless_holds(certificate)
