"""``substrate fit``: from a table to a certified model, its scores and the bound on its weight."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from problems.command_line.class_columns import calibrated
from problems.command_line.models import MODELS, Weights, check_validation, estimator_class, fitted
from problems.command_line.preparation import (
    Preparation,
    Split,
    inputs_of,
    raw_matrix,
    refuse_overflow,
    split_rows,
    standardised,
)
from problems.command_line.table import Table, named_columns, number
from problems.command_line.tabular_model import TabularModel
from substrate.arrays import Array
from substrate.errors import DataError

__all__ = ["Bound", "Choices", "Fit", "Score", "bound_of", "fit_table", "scores", "task_of"]


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of the command line."""

    target: str
    task: str = "auto"
    model: str = "lssvm"
    kernel: str = "rbf"
    sigma: float | None = None
    weights: Weights = field(default_factory=Weights)
    one_hot: Sequence[str] = ()
    standardise: bool = True
    validation: float = 0.25
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model with its rows (``X`` prepared), a description of its data, and the warnings raised."""

    model: TabularModel
    preparation: Preparation
    choices: Choices
    X: Array
    y: NDArray[Any]
    X_val: Array
    y_val: NDArray[Any]
    description: tuple[str, ...]
    warnings: tuple[str, ...]


def task_of(table: Table, target: str, task: str) -> tuple[str, str]:
    """Regression or classification, and the sentence that states why."""
    cells = table.column(target)
    table.refuse_missing([target])
    numeric = all(number(cell) is not None for cell in cells)
    values = len(set(cells))
    if task == "auto":
        if not numeric:
            return "classification", f"task: classification, since the target {target} is not numeric"
        hint = f" (it has {values} values; if they are classes, --task classification)" if values <= 10 else ""
        return "regression", f"task: regression, since the target {target} is numeric{hint}"
    if task == "regression" and not numeric:
        row = next(row for row, cell in enumerate(cells, 1) if number(cell) is None)
        raise DataError(
            f"the target {target!r} is not numeric (row {row} has {cells[row - 1]!r}); use --task classification"
        )
    return task, f"task: {task}"


def _targets(table: Table, target: str, task: str) -> NDArray[Any]:
    cells = table.column(target)
    numbers = [number(cell) for cell in cells]
    if task == "regression":
        targets = np.array(numbers, dtype=np.float64)
        refuse_overflow(target, targets)
        return targets
    # whole numbers stay numbers where a float represents them exactly; other classes are their text
    if all(value is not None and value.is_integer() and abs(value) < 2.0**53 for value in numbers):
        return np.array([int(value) for value in numbers if value is not None])
    return np.array(cells)


def fit_table(table: Table, choices: Choices) -> Fit:
    """Prepare and fit; every error that needs no fit is raised before it."""
    task, why = task_of(table, choices.target, choices.task)
    inputs = inputs_of(table, choices.target, choices.one_hot)
    weight = choices.weights.of(choices.model)
    estimator_class(choices.model, task, weight)
    y = _targets(table, choices.target, task)
    if task == "classification" and np.unique(y).size < 2:
        raise DataError(f"the target {choices.target!r} has one class only, {y[0]!s}; at least two are needed")
    train, held = split_rows(y.size, choices.validation, choices.seed, y if task == "classification" else None)
    check_validation(choices.model, weight, held.size)
    raw = raw_matrix(inputs, table)
    for name, values in zip((name for one in inputs for name in one.features), raw.T, strict=True):
        refuse_overflow(name, values)
    inputs = standardised(inputs, raw[train]) if choices.standardise else inputs
    split = Split(choices.validation, choices.seed, int(y.size), tuple(map(int, held)))
    preparation = Preparation(table.source, choices.target, task, choices.standardise, inputs, split)
    X = preparation.scaled(raw)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = fitted(
            choices.model, task, choices.kernel, choices.sigma, choices.weights, choices.seed,
            X[train], y[train], X[held], y[held],
        )  # fmt: skip
        if task == "classification":
            calibrated(estimator)  # by its training rows, left out; those that were held out judge it in the report
    raised = tuple(dict.fromkeys(f"{one.category.__name__}: {one.message}" for one in caught))
    description = (why, _split_description(train.size, held.size, choices), _scaling_description(preparation))
    chosen_by_them = MODELS[choices.model].validated and weight is None
    if task == "regression" and held.size and not chosen_by_them:
        estimator.calibrate(X[held], y[held])  # rows that neither fitted nor chose: intervals can rest on them
    model = TabularModel(estimator, preparation)
    return Fit(model, preparation, choices, X[train], y[train], X[held], y[held], description, raised)


def _split_description(n_train: int, n_held: int, choices: Choices) -> str:
    if not n_held:
        return f"rows: all {n_train} train, none validate"
    kind = MODELS[choices.model]
    use = f"they choose {kind.weight}" if kind.validated and choices.weights.of(choices.model) is None else "they judge"
    return f"rows: {n_train} train, {n_held} validate ({use}); drawn at random, seed {choices.seed}"


def _scaling_description(preparation: Preparation) -> str:
    coded = [one.name for one in preparation.inputs if one.categories is not None]
    coding = f"; one-hot: {named_columns(coded)}" if coded else ""
    if not preparation.standardised:
        return f"inputs: {len(preparation.features)}, in their own units{coding}"
    return f"inputs: {len(preparation.features)}, standardised by the rows that train{coding}"


@dataclass(frozen=True, slots=True)
class Score:
    """One line: what is measured, on the rows that train, on those that validate, and of a constant prediction."""

    name: str
    training: float
    validation: float | None
    guess: float


@dataclass(frozen=True, slots=True)
class Bound:
    """A weight that was chosen, its error, and the lower bound over all weights of the range."""

    weight: str
    value: float
    by: str
    error: float
    lower_bound: float


def scores(fit: Fit) -> list[Score]:
    """Mean squared error and its root, or the share of wrong classes; the constant is the training mean or majority."""
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
    if not hasattr(model, "criterion_lower_bound_"):
        return None
    kind = MODELS[fit.choices.model]
    found = (getattr(model, f"{kind.weight}_"), model.criterion_, model.criterion_lower_bound_)
    value, criterion, bound = (float(np.atleast_1d(number)[0]) for number in found)
    return Bound(kind.weight, value, "validation" if kind.validated else "loo", criterion, bound)
