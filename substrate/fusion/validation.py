"""The rows a fusion validates on: points, and a target for each output of the machine.

What is validated is what ``predict`` returns. An output of several columns is validated column by column, and several
outputs each against its own target: the validation error is the sum of theirs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.composition import Machine, Substrate
from substrate.composition.outputs import columns_of
from substrate.composition.targets import without_single_column
from substrate.errors import DataError, DeclarationError
from substrate.fusion.validation_loss import SQUARED, ValidationLoss
from substrate.least_squares.leave_one_out import Split, checked_splits

__all__ = ["Validation", "checked_pair", "checked_validation", "folds_of"]

Name = str | None


@dataclass(frozen=True, slots=True)
class Validation:
    """Validation points, and the targets of those outputs that are validated; None names the only output.

    ``weights`` are those of the rows, one each unless given; ``loss`` is what is taken of targets and predictions.
    """

    X: Array
    targets: Mapping[Name, Array]
    weights: Array | None = None
    loss: ValidationLoss = SQUARED

    @property
    def rows(self) -> int:
        """Number of validation rows."""
        return int(self.X.shape[0])

    @property
    def weight(self) -> float:
        """The sum of the weights of the rows: their number unless weights were given."""
        return float(self.rows) if self.weights is None else float(self.weights.sum())

    @property
    def known(self) -> Array:
        """All targets, output by output and column by column."""
        return np.concatenate([target.ravel(order="F") for target in self.targets.values()])

    @property
    def every_weight(self) -> Array:
        """The weights in the order of ``known``."""
        one = np.ones(self.rows) if self.weights is None else self.weights
        return np.tile(one, self.known.size // self.rows)

    @property
    def roots(self) -> Array:
        """The square roots of the weights in the order of ``known``: errors times these have the weighted squares."""
        return np.sqrt(self.every_weight)

    def values(self, predicted: Any) -> Array:
        """Predictions in the order of ``known``."""
        values = predicted if isinstance(predicted, Mapping) else {None: predicted}
        every = [np.asarray(values[name]).reshape(target.shape) for name, target in self.targets.items()]
        return np.concatenate([one.ravel(order="F") for one in every])

    def errors(self, predicted: Any) -> Array:
        """Targets minus predictions, times the roots of the weights, in the order of ``known``."""
        return np.asarray(self.roots * (self.known - self.values(predicted)))

    def total(self, predicted: Any) -> float:
        """The weighted sum of the loss of predictions."""
        return self.loss.total(self.known, self.values(predicted), self.every_weight)


def checked_validation(
    machine: Machine, X_val: Any, y_val: Any, weights: Any = None, loss: ValidationLoss = SQUARED
) -> Validation:
    """Validation rows for every output of the machine, or why they do not fit."""
    X = real_points(X_val, "X_val")
    if X.shape[0] == 0:
        raise DataError("X_val is empty; give at least one validation row")
    for term in (term for terms in machine.outputs.terms.values() for term in terms):
        if isinstance(term, Substrate) and term.X.shape[1] != X.shape[1]:
            raise DataError(f"X_val has {X.shape[1]} columns, the training points have {term.X.shape[1]}")
    _refuse_fitted(machine, X)
    given = _by_output(machine, y_val)
    targets = {name: _checked_target(machine, name, y, X) for name, y in given.items() if y is not None}
    for target in targets.values():
        loss.check(target)
    return Validation(X, targets, _checked_weights(weights, X.shape[0], "the weights of validation"), loss)


def _checked_weights(weights: Any, rows: int, called: str) -> Array | None:
    if weights is None:
        return None
    found = real_array(weights, called, ndim=1)
    if found.shape != (rows,):
        raise DataError(f"{called} must have one entry per row: expected {rows}, received {found.size}")
    if (found < 0.0).any() or not found.any():
        raise DataError(f"{called} must not be negative, and not all zero")
    return found


def checked_pair(given: Any, called: str) -> tuple[Any, Any, Any]:
    """Points, targets and the weights of rows, None where there are none; or why this is not what was given."""
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise DeclarationError(f"{called} is (X, y), or (X, y, weights of rows), received {type(given).__name__}")
    X, y, *weights = given
    return X, y, weights[0] if weights else None


def _by_output(machine: Machine, y_val: Any) -> Mapping[Name, Any]:
    """The targets by output: all must be there, though one may be None."""
    names = list(machine.outputs.terms)
    if names == [None]:
        if isinstance(y_val, Mapping):
            raise DataError(f"y_val has targets for {list(y_val)}, but the one output of this machine has no name")
        return {None: y_val}
    if not isinstance(y_val, Mapping):
        example = ", ".join(f"{name!r}: ..." for name in names)
        raise DataError(
            f"the machine predicts {names}, and y_val is one target for all; give each output its own, "
            f"{{{example}}}, with None for an output that is not validated"
        )
    missing, unknown = [n for n in names if n not in y_val], [n for n in y_val if n not in names]
    if missing or unknown:
        raise DataError(
            f"y_val must have the outputs of the machine, {names}: missing {missing}, unknown {unknown}; None stands "
            "for an output that is not validated"
        )
    if all(y_val[name] is None for name in names):
        raise DataError("y_val is None for every output; give at least one target")
    return {name: y_val[name] for name in names}


def _checked_target(machine: Machine, name: Name, y_val: Any, X: Array) -> Array:
    called = "y_val" if name is None else f"y_val[{name!r}]"
    terms = machine.outputs.terms[name]
    columns = columns_of(terms[0])
    given = real_array(y_val, called, ndim=(1, 2))
    y = real_array(given if columns else without_single_column(given, called), called, ndim=1 + len(columns))
    if y.shape[1:] != columns:
        raise DataError(f"{called} must have {columns[0]} columns, as the output has, received {y.shape[1]}")
    if y.shape[0] != X.shape[0]:
        raise DataError(f"{called} must have one entry per row of X_val: expected {X.shape[0]}, received {y.shape[0]}")
    signed = any(isinstance(t, Substrate) and t.task == "classification" for t in terms)
    if signed and not np.isin(y, (-1.0, 1.0)).all():
        raise DataError(f"{called} must hold labels -1 and +1, received {np.unique(y)[:5]}")
    return y


def _refuse_fitted(machine: Machine, X: Array) -> None:
    """Rows that the objective already fits cannot choose its weight: the search would end where it fits them best."""
    for points in machine.fitted_points:
        known = {row.tobytes() for row in _dense(points)}
        again = [number for number, row in enumerate(_dense(X)) if row.tobytes() in known]
        if again:
            raise DataError(
                f"rows {again[:5]} of X_val are fitted by the objective already (as (23) fits its validation rows), so "
                "they cannot choose its weight; hold other rows back"
            )


def _dense(points: Any) -> Array:
    return np.ascontiguousarray(points.toarray() if is_sparse(points) else points, dtype=np.float64)


def folds_of(
    build: Callable[..., Any], data: Any, cv: Any, validation: Any, loss: ValidationLoss = SQUARED
) -> tuple[list[Machine], list[Validation], Machine]:
    """One machine and one validation set per fold, and the machine of all rows.

    Where ``data`` has weights of rows, the function is called with them too, and the rows held back keep theirs.
    """
    if data is None:
        raise DeclarationError("a function (X, y) -> Machine needs data=(X, y)")
    points, targets, given = checked_pair(data, "data")
    X, y = real_points(points, "X"), _checked_data(targets)
    weights = _checked_weights(given, X.shape[0], "the weights of data")
    if (cv is None) == (validation is None):
        raise DeclarationError("a function (X, y) -> Machine needs either cv or validation=(X, y)")
    if cv is not None:
        _refuse_cv(cv)
    final = _built(build, X, y, weights)
    if validation is not None:
        return [final], [checked_validation(final, *checked_pair(validation, "validation"), loss)], final
    machines, sets = [], []
    for train, test in _splits(cv, final, X.shape[0]):
        kept, held = (None, None) if weights is None else (weights[train], weights[test])
        one = _built(build, X[train], _taken(y, train), kept)
        machines.append(one)
        sets.append(checked_validation(one, X[test], _taken(y, test), held, loss))
    return machines, sets, final


def _checked_data(y: Any) -> Any:
    if isinstance(y, Mapping):
        return {name: real_array(target, f"y[{name!r}]", ndim=(1, 2)) for name, target in y.items()}
    return real_array(y, "y", ndim=(1, 2))


def _taken(y: Any, rows: Any) -> Any:
    return {name: target[rows] for name, target in y.items()} if isinstance(y, dict) else y[rows]


def _built(build: Callable[..., Any], X: Any, y: Any, weights: Array | None) -> Machine:
    machine = build(X, y) if weights is None else build(X, y, weights)
    if not isinstance(machine, Machine):
        raise DeclarationError(f"the function must return a Machine, received {machine!r}")
    machine.refuse_shapes("fuse")
    return machine


def _refuse_cv(cv: Any) -> None:
    """What scikit-learn would misread: text, and numbers of folds that are none."""
    whole = isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)
    iterable = hasattr(cv, "split") or hasattr(cv, "__iter__")
    if not (cv == "loo" if isinstance(cv, (str, bytes)) else (whole and cv > 1) or (iterable and not whole)):
        raise DeclarationError(
            "cv must be a number of folds from 2 on, 'loo', a scikit-learn splitter or a list of (train, test) rows, "
            f"received {cv!r}"
        )


def _splits(cv: Any, machine: Machine, n: int) -> tuple[Split, ...]:
    """The splits as scikit-learn makes them: stratified by the classes of the first substrate, or by their codes."""
    from sklearn.model_selection import LeaveOneOut, check_cv

    first = machine.substrates[0]
    labels: Any = first.y if first.task == "classification" and first.y.shape[:1] == (n,) else None
    if labels is not None and labels.ndim == 2:
        labels = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    splitter = LeaveOneOut() if isinstance(cv, str) else check_cv(cv, labels, classifier=labels is not None)
    try:
        return checked_splits(splitter.split(np.arange(n), labels), n)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"cv={cv!r} does not split {n} rows into (train, test): {error}") from error
