"""``substrate fit``: from a table to a certified model, how good it is, and the bound on its weight."""

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from problems.estimators.chosen.stacked import MOST_LEFT_OUT
from problems.tables.class_columns import calibrate_classifier
from problems.tables.dependent_rows import DependentRows, hold_out_last, rule_of, time_order
from problems.tables.effort import Effort, effort_of
from problems.tables.inputs import Input, describe_imputation, fill_inputs, raw_matrix, with_ranges
from problems.tables.models import (
    MODELS,
    N_FAMILIES,
    SCREENED_KERNELS,
    SCREENED_ROWS,
    Choices,
    check_dependence,
    check_validation,
    estimator_class,
    fit_model,
    kernel_of,
    refit_model,
)
from problems.tables.preparation import Preparation, Split, refuse_overflow, split_rows, standardise
from problems.tables.quality import Quality, quality_of
from problems.tables.sizes import MOST_DENSE
from problems.tables.table import Table, named_columns
from problems.tables.tabular_model import TabularModel
from problems.tables.treatment import ColumnOptions, Treated, treat
from substrate.arrays import Array, positive
from substrate.certificates import Certificate
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.simplex_weights import StackGap

__all__ = [
    "Choices",
    "Fit",
    "PreparedFit",
    "Reliance",
    "WeightBound",
    "bound_of",
    "fit_prepared",
    "prepare",
    "reliance_of",
    "stack_errors",
]

#: Seconds from which the estimate of a fit is a line of its own.
_LONG = 5.0
#: How many times the distance from the exact optimum must fit into the error on other rows to be of no account.
_WELL_KNOWN = 10.0
#: The least that the smallest class may be of the largest one without a word.
_BALANCED = 0.25


@dataclass(frozen=True, slots=True)
class PreparedFit:
    """A table that is ready to be fitted: numbers, rows that train and that are held out, and what was done to it."""

    preparation: Preparation
    choices: Choices
    X: Array
    y: NDArray[Any]
    train: NDArray[Any]
    validation_rows: NDArray[Any]
    class_weight: Any
    description: tuple[str, ...]
    effort: Effort
    #: How the rows of ``train``, in their order, depend on each other.
    dependence: DependentRows


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted model with its rows (``X`` prepared), a description of its data, and the warnings raised.

    ``model`` was fitted to ``X, y`` and is judged by ``X_val, y_val``; ``saved`` is the one that is kept, by default
    fitted again to all of them with the kernel and the weight of ``model``.
    """

    model: TabularModel
    preparation: Preparation
    choices: Choices
    X: Array
    y: NDArray[Any]
    X_val: Array
    y_val: NDArray[Any]
    description: tuple[str, ...]
    warnings: tuple[str, ...]
    saved: TabularModel
    quality: Quality


def prepare(table: Table, choices: Choices) -> PreparedFit:
    """Do everything before the fit, with the estimate of what the fit will take."""
    options = ColumnOptions(
        target=choices.target,
        task=choices.task,
        one_hot=choices.one_hot,
        ordered=choices.ordered,
        categorical=choices.categorical,
        dates=choices.dates,
        ids=choices.ids,
        impute=choices.impute,
        group=choices.group,
    )
    treatment = treat(table, options)
    y, used = treatment.y, treatment.table
    if treatment.task == "classification" and np.unique(y).size < 2:
        raise DataError(f"the target {choices.target!r} has one class only, {y[0]!s}; at least two are needed")
    train, validation_rows, dependence = _divide(treatment, choices)
    choices, chosen = _model(choices, train.size, y.size)
    weight = choices.weights.of(choices.model)
    check_dependence(choices)
    estimator_class(choices.model, treatment.task, weight)
    kernel_of(choices.kernel, choices.sigma)
    check_validation(choices.model, weight, validation_rows.size)
    by_class = _class_weight(choices, treatment.task, y)
    inputs, remarks = treatment.inputs, treatment.remarks
    if choices.impute == "median":
        inputs = fill_inputs(inputs, used, train.tolist())
        remarks = (*remarks, *describe_imputation(inputs, used))
    raw = raw_matrix(inputs, used)
    for name, values in zip((name for input_ in inputs for name in input_.features), raw.T, strict=True):
        refuse_overflow(name, values, treatment.rows)
    inputs = with_ranges(inputs, raw)
    inputs = standardise(inputs, raw[train]) if choices.standardise else inputs
    rows = tuple(treatment.rows[row] for row in validation_rows)
    split = Split(
        fraction=choices.validation,
        seed=choices.seed,
        n_rows=table.n_rows,
        validation_rows=rows,
        kind=choices.split,
        group=choices.group or "",
        date=choices.dates[0] if choices.split == "time" and choices.dates else "",
    )
    said = (
        remarks[0],
        _split_description(train.size, validation_rows.size, choices, treatment.task),
        _scaling_description(inputs, choices),
        *remarks[1:],
        *_classes_description(treatment, by_class),
    )
    preparation = Preparation(
        source=table.source,
        target=choices.target,
        task=treatment.task,
        standardised=choices.standardise,
        inputs=inputs,
        split=split,
        decimal="," if any(input_.written is not None and input_.written.decimal == "," for input_ in inputs) else ".",
        ids=tuple(choices.ids),
        left_out=treatment.left_out,
        impute=choices.impute,
        target_written=treatment.target_written,
    )
    X = preparation.scale(raw)
    choices = choices.with_shapes_of(preparation.features, treatment.task).with_columns_of(inputs)
    choices, limited = _limit_kernels(choices, treatment.task, X[train], y[train])
    said = (*said, *limited)
    if choices.is_screened(train.size):
        screened = (
            f"kernels: searched on {SCREENED_ROWS} of the training rows, the best {SCREENED_KERNELS} judged on all"
        )
        said = (*said, f"{screened} (--evaluations 0: all families on all rows)")
    preparation = replace(preparation, remarks=said)
    by_classes = treatment.task == "classification"
    effort = effort_of(choices, train.size, raw.shape[1], choices.n_kernels(train.size), by_classes)
    said = (*said, *chosen, *([f"estimate: {effort}"] if effort.seconds > _LONG else []))
    return PreparedFit(
        preparation=preparation,
        choices=choices,
        X=X,
        y=y,
        train=train,
        validation_rows=validation_rows,
        class_weight=by_class,
        description=said,
        effort=effort,
        dependence=dependence,
    )


def _divide(treatment: Treated, choices: Choices) -> tuple[NDArray[Any], NDArray[Any], DependentRows]:
    """Return the rows that train and those held out, and how the former depend on each other."""
    table, y = treatment.table, treatment.y
    groups = None if choices.group is None else np.array(table.column(choices.group))
    rows = DependentRows(groups, choices.split == "time")
    if rows.in_time:
        train, validation_rows = hold_out_last(time_order(table, choices.dates), choices.validation)
    elif groups is not None:
        train, validation_rows = rows.hold_out(choices.validation, choices.seed)
    else:
        labels = y if treatment.task == "classification" else None
        train, validation_rows = split_rows(y.size, choices.validation, choices.seed, labels)
    if treatment.task == "classification" and np.unique(y[train]).size < 2:
        raise DataError(
            f"the rows that train have one class only, {y[train][0]!s}; give another --seed, a smaller --validation, "
            "or --split random without --group"
        )
    return train, validation_rows, rows.take(train)


def _model(choices: Choices, n_train: int, n_rows: int) -> tuple[Choices, tuple[str, ...]]:
    """Return the choices with a model in place of ``auto``, and the line that says so."""
    if choices.model == "stack" and n_rows > MOST_LEFT_OUT:
        raise DeclarationError(
            f"--model stack leaves every row out of all its machines, for at most {MOST_LEFT_OUT} rows, and the table "
            f"has {n_rows}; take --model lssvm, or sparse"
        )
    if choices.model == "stack" and n_train < 3:
        raise DeclarationError(
            f"--model stack weighs machines by rows left out, at least three of them, and {n_train} train; take "
            "--model lssvm"
        )
    if choices.model != "auto":
        return choices, ()
    if n_train <= MOST_DENSE:
        return replace(choices, model="lssvm"), ()
    full = replace(choices, model="lssvm")
    dense = effort_of(full, n_train, 1, full.n_kernels(n_train))
    return replace(choices, model="sparse"), (
        f"model: sparse, on {choices.n_basis} basis vectors, since more than {MOST_DENSE} rows train",
        f"estimate: --model lssvm for all rows takes {dense} (--n-basis for more vectors)",
    )


def _limit_kernels(choices: Choices, task: str, X: Array, y: NDArray[Any]) -> tuple[Choices, tuple[str, ...]]:
    """Return the choices with as many kernels as fit into ``--seconds``, by the time that one of them takes, and a
    remark.

    How much is tried is decided before the search, and recorded: the same command with these numbers repeats it.
    """
    if choices.evaluations is not None and choices.evaluations < 0:
        raise DeclarationError(f"--evaluations must be at least 0, received {choices.evaluations}")
    if choices.seconds is None:
        return choices, ()
    seconds = positive(choices.seconds, "--seconds")
    if choices.model == "stack":
        raise DeclarationError("--seconds limits the search of one machine; take --model lssvm, or leave it out")
    if not choices.tries_families:
        raise DeclarationError(
            "--seconds limits the search among families of kernels; leave it out, or --kernel and "
            "the weight or width given"
        )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself will say
        fit_model(replace(choices, kernel="rbf", sigma=1.0, shown=False), task, None, X, y, X[:2], y[:2])
    count = seconds / max(time.perf_counter() - start, 1e-9)
    if count >= choices.n_kernels(y.size):
        return choices, ()
    if count < N_FAMILIES:
        limited = replace(choices, kernel="rbf", evaluations=0)
        return limited, (f"kernels: the time for {count:.0f} of them (--seconds {seconds:g}), so rbf at a few widths",)
    limited, wanted = replace(choices, evaluations=int((count - N_FAMILIES) / 1.5)), choices.budget(y.size)
    return limited, (
        f"kernels: {N_FAMILIES}, then {limited.evaluations} evaluations of {wanted}, for which there is time "
        f"(--seconds {seconds:g})",
    )


def _class_weight(choices: Choices, task: str, y: NDArray[Any]) -> Any:
    """Return the weights of the classes by their labels as the estimator has them."""
    if choices.class_weight is None:
        return None
    if task != "classification":
        raise DeclarationError("--class-weight weighs classes, and this is a regression; leave it out")
    if not MODELS[choices.model].least_squares:
        raise DeclarationError(f"--model {choices.model} has no --class-weight; take lssvm, sparse or fused")
    if isinstance(choices.class_weight, str):
        return choices.class_weight
    labels = {str(label): label for label in np.unique(y).tolist()}
    if strange := [name for name in choices.class_weight if name not in labels]:
        raise DeclarationError(
            f"--class-weight names the class {strange[0]!r}; the classes are {named_columns(list(labels))}"
        )
    return {labels[name]: float(weight) for name, weight in choices.class_weight.items()}


def fit_prepared(ready: PreparedFit) -> Fit:
    """Fit to the rows that train, judge by the others, and fit again to all."""
    choices, preparation, task = ready.choices, ready.preparation, ready.preparation.task
    X, y, X_val, y_val = (
        ready.X[ready.train],
        ready.y[ready.train],
        ready.X[ready.validation_rows],
        ready.y[ready.validation_rows],
    )
    is_refitted = choices.refit and y_val.size > 0 and MODELS[choices.model].least_squares
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = fit_model(choices, task, ready.class_weight, X, y, X_val, y_val, ready.dependence)
        if task == "classification":
            calibrate_classifier(estimator)  # by its own rows, left out; those that were held out judge it
        chosen_by_them = MODELS[choices.model].validated and choices.weights.of(choices.model) is None
        if task == "regression" and y_val.size and not chosen_by_them:
            # rows that neither fitted nor chose: intervals can rest on them
            estimator.calibrate(X_val, y_val)
        quality = quality_of(estimator, choices, task, X, y, X_val, y_val, ready.dependence)
        first = len(caught)
        model = saved = TabularModel(estimator, preparation)
        if is_refitted:
            last = refit_model(estimator, choices, task, ready.class_weight, ready.X, ready.y)
            if task == "classification":
                calibrate_classifier(last)
            else:
                last._chosen_by = clone(estimator)  # nested intervals repeat the search
            # what rounding hides on more rows is no better for being fitted to them
            if last.certificate_.holds or not estimator.certificate_.holds:
                saved = TabularModel(last, replace(preparation, refitted=True))
            else:
                caught = caught[:first]
    categories = {
        warning.category for warning in caught[:first]
    }  # a warning of the same kind about nearly the same rows is no news
    kept = [*caught[:first], *(warning for warning in caught[first:] if warning.category not in categories)]
    raised = tuple(dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in kept))
    return Fit(
        model=model,
        preparation=preparation,
        choices=choices,
        X=X,
        y=y,
        X_val=X_val,
        y_val=y_val,
        description=ready.description,
        warnings=raised,
        saved=saved,
        quality=quality,
    )


def _split_description(n_train: int, n_held: int, choices: Choices, task: str) -> str:
    together = {"groups": "whole groups are left out together", "blocks": "neighbours in time are left out together"}
    if task == "regression":
        together["blocks"] = "earlier rows predict later ones to choose"
    rule = rule_of(choices.group is not None, choices.split == "time")
    kind, is_given = MODELS[choices.model], choices.weights.of(choices.model) is not None
    leaves_out = rule in together and kind.least_squares and (not n_held or not (kind.validated or is_given))
    left_out = f"; {together[rule]}" if leaves_out else ""
    if not n_held:
        return f"rows: all {n_train} train, none are held out{left_out}"
    chosen = kind.validated and not is_given
    use = f"choose {kind.weight} and judge the model" if chosen else "judge the model"
    if choices.split == "time":
        by = f"by {choices.dates[0]}" if choices.dates else "in the order of the table"
        return f"rows: {n_train} train, {n_held} held out to {use} (the last in time, {by}){left_out}"
    drawn = "drawn" if choices.group is None else "whole groups, drawn"
    return f"rows: {n_train} train, {n_held} held out to {use} ({drawn} at random, seed {choices.seed}){left_out}"


def _scaling_description(inputs: tuple[Input, ...], choices: Choices) -> str:
    count = sum(len(input_.features) for input_ in inputs)
    units = "standardised by the training rows" if choices.standardise else "in their own units"
    return f"inputs: {count}, {units}"


def _classes_description(treatment: Treated, by_class: Any) -> list[str]:
    """Return the classes and their sizes, and what to do where these are far apart."""
    if treatment.task != "classification":
        return []
    classes, counts = np.unique(treatment.y, return_counts=True)
    sizes = [
        f"{label} ({count} {'row' if count == 1 else 'rows'})" for label, count in zip(classes, counts, strict=True)
    ]
    listed = named_columns(sizes)
    if by_class is not None:
        return [f"classes: {listed}; weighted, --class-weight {_write_weights(by_class)}"]
    uneven = counts.min() < _BALANCED * counts.max()
    return [f"classes: {listed}{'; unequal: --class-weight balanced counts them alike' if uneven else ''}"]


def _write_weights(by_class: Any) -> str:
    """Return weights of classes as they are given on the command line."""
    if isinstance(by_class, str):
        return by_class
    return " ".join(f"{label}={weight:g}" for label, weight in by_class.items())


@dataclass(frozen=True, slots=True)
class WeightBound:
    """A weight that was chosen, its error, and the lower bound over all weights of the range."""

    weight: str
    value: float
    by: str
    error: float
    lower_bound: float


def stack_errors(stack: Any) -> StackGap:
    """Return the root mean square left-out error of a stack, with a bound below that of all weights."""
    (gap,) = (row.value for row in stack.certificate_.rows if row.name == "gap of the weights")
    error = float(np.sqrt(np.mean(stack.criterion_)))
    return StackGap(error, max(error - gap, 0.0), 0.0)


def bound_of(fit: Fit) -> WeightBound | None:
    """Return the weight that the model chose, or None where it was given."""
    model = fit.model.estimator
    if not hasattr(model, "criterion_lower_bound_"):
        return None
    kind = MODELS[fit.choices.model]
    numbers = (getattr(model, f"{kind.weight}_"), model.criterion_, model.criterion_lower_bound_)
    value, criterion, bound = (float(np.atleast_1d(number)[0]) for number in numbers)
    return WeightBound(
        weight=kind.weight,
        value=value,
        by=_criterion(fit),
        error=criterion,
        lower_bound=bound,
    )


def _criterion(fit: Fit) -> str:
    """Return what chose the weight: validation, or the rows that were left out."""
    choices = fit.choices
    if MODELS[choices.model].validated:
        return "validation"
    rule = rule_of(choices.group is not None, choices.split == "time")
    in_time = rule == "blocks" and fit.preparation.task == "regression"
    by_folds = (choices.model == "sparse" and rule != "loo") or in_time or choices.shapes
    return "folds" if by_folds else rule


class Reliance(NamedTuple):
    """Whether a model can be relied on, and what is to be said of its certificate."""

    is_good: bool
    words: str


def reliance_of(certificate: Certificate, quality: Quality | None = None) -> Reliance:
    """Return what a certificate means to someone who predicts with the model.

    Where only the choice of a weight is not proved, the machine of this weight is; and a solution that is known to a
    tenth of the errors on other rows is known well enough, as that of a table without noise.
    """
    if certificate.holds:
        return Reliance(True, f"holds; {certificate.promise}")
    failed = {row.name for row in certificate.failures}
    if all(name.startswith(("gap of", "range of")) for name in failed):
        return Reliance(True, f"holds for the chosen weight, which is not proved to be the best; {certificate.promise}")
    if quality is not None and failed <= {"accuracy"} and quality.measures[0].in_units:
        error = quality.measures[0].value
        if _WELL_KNOWN * certificate.accuracy <= error:
            return Reliance(True, f"known well enough for errors of {error:.2g}, not to tol; {certificate.promise}")
    return Reliance(False, f"DOES NOT HOLD; {certificate.promise}")
