"""How well a fitted model does on the rows that train and on those that validate, beside doing nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from problems.command_line.fit import Fit
from problems.command_line.models import MODELS

__all__ = ["Bound", "Score", "bound_of", "scores"]


@dataclass(frozen=True, slots=True)
class Score:
    """One line: what is measured, on the rows that train, on those that validate, and by the constant guess there."""

    name: str
    training: float
    validation: float | None
    guess: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A weight that was chosen, its error, and what no other weight of the range can go below."""

    weight: str
    value: float
    by: str
    error: float
    lower_bound: float


def scores(fit: Fit) -> list[Score]:
    """Mean squared error and its root, or the share of wrong classes; the guess is the training mean or majority."""
    model = fit.model.estimator
    y = fit.y_val if fit.y_val.size else fit.y
    inside = model.predict(fit.X)
    outside = model.predict(fit.X_val) if fit.y_val.size else None
    if fit.preparation.task == "classification":
        classes, counts = np.unique(fit.y, return_counts=True)
        guess = float(np.mean(y != classes[counts.argmax()]))
        held = None if outside is None else float(np.mean(outside != fit.y_val))
        return [Score("share of wrong classes", float(np.mean(inside != fit.y)), held, guess)]
    squares = [
        _mean_square(inside - fit.y),
        None if outside is None else _mean_square(outside - fit.y_val),
        _mean_square(y - fit.y.mean()),
    ]
    roots = [None if square is None else float(np.sqrt(square)) for square in squares]
    return [Score("mean squared error", *squares), Score("its root", *roots)]  # type: ignore[arg-type]


def _mean_square(errors: Any) -> float:
    return float(np.mean(errors**2))


def bound_of(fit: Fit) -> Bound | None:
    """The weight that the model chose, or None where it was given."""
    model = fit.model.estimator
    if hasattr(model, "best_parameter_"):
        numbers = (model.best_parameter_, "validation", model.validation_error_, model.lower_bound_)
        return Bound(MODELS[fit.choices.model].weight, *numbers)
    if hasattr(model, "criterion_lower_bound_"):
        values = (float(np.atleast_1d(part)[0]) for part in (model.criterion_, model.criterion_lower_bound_))
        return Bound("gamma", float(np.atleast_1d(model.gamma_)[0]), "loo", *values)
    return None
