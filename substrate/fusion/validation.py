r"""The rows a fusion validates on: points, and a target for each output of the machine.

What is validated is what ``predict`` returns. An output of several columns is validated column by column, and several
outputs each against its own target: the validation error is the sum of theirs.

*Losses.* For a target y, a prediction f and a level q, with labels :math:`y = \pm 1` in the last two,

.. math::

    (y - f)^2, \qquad |y - f|, \qquad \max(q (y - f), (q - 1) (y - f)), \qquad \max(1 - y f, 0), \qquad
    \log(1 + e^{-y f}) .

The validation error is the mean over the rows, weighted where rows have weights, and the sum over outputs and columns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from substrate.arrays import Array, is_sparse, real_array, real_points
from substrate.composition.level import Substrate
from substrate.composition.machine import Machine
from substrate.composition.observations import without_single_column
from substrate.composition.outputs import One, base_of, columns_of
from substrate.errors import DataError, DeclarationError
from substrate.least_squares.leave_one_out import Split, checked_splits

__all__ = ["SQUARED", "ValidationLoss", "ValidationSet", "check_loss", "check_pair", "check_validation", "folds_of"]

#: The losses by name, with the words of a certificate.
_WORDS = {
    "squared": "mean squared error",
    "mean_absolute": "mean absolute error",
    "pinball": "mean pinball loss",
    "hinge": "mean hinge loss",
    "log_loss": "mean log-loss",
}
_ALIASES = {"absolute": "mean_absolute", "mean_squared": "squared", "logistic": "log_loss"}
#: Share of the size of the targets below which a validation error counts as none.
_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class ValidationLoss:
    """A loss by name; ``level`` is the level of a pinball loss."""

    name: str = "squared"
    level: float = 0.5

    @property
    def words(self) -> str:
        """Return the loss in words, for a certificate."""
        return f"{_WORDS[self.name]} at {self.level:g}" if self.name == "pinball" else _WORDS[self.name]

    @property
    def is_signed(self) -> bool:
        """Return whether the targets are labels."""
        return self.name in ("hinge", "log_loss")

    def check(self, targets: Array) -> None:
        """Refuse targets that are not labels where the loss needs some."""
        if self.is_signed and not np.isin(targets, (-1.0, 1.0)).all():
            raise DataError(
                f"loss={self.name!r} compares predictions with labels -1 and +1, received {np.unique(targets)[:5]}"
            )

    def total(self, targets: Array, values: Array, weights: Array) -> float:
        """Return the weighted sum of the loss."""
        return float(self.expression(targets, values, weights).value)

    def expression(self, targets: Array, values: Any, weights: Array) -> Any:
        """Return the weighted sum of the loss as a convex expression of cvxpy."""
        import cvxpy as cp

        if self.name == "squared":
            return cp.sum_squares(cp.multiply(np.sqrt(weights), targets - values))
        if self.name == "mean_absolute":
            return cp.norm1(cp.multiply(weights, targets - values))
        if self.name == "pinball":
            errors = cp.multiply(weights, targets - values)
            return cp.sum(cp.maximum(self.level * errors, (self.level - 1.0) * errors))
        if self.name == "hinge":
            return cp.sum(cp.pos(weights - cp.multiply(weights * targets, values)))
        return weights @ cp.logistic(-cp.multiply(targets, values))

    def least(self, targets: Array) -> float:
        """Return the mean loss below which one counts as none: a millionth of the variance, or of the size, of the
        targets.
        """
        if self.is_signed:
            return _NOTHING
        spread = float(np.std(targets))
        return _NOTHING * (spread**2 if self.name == "squared" else spread)


SQUARED = ValidationLoss()


def check_loss(loss: Any) -> ValidationLoss:
    """Return the loss that is meant by a name, or by a pair ("pinball", level)."""
    name, level = loss, 0.5
    if isinstance(loss, (tuple, list)) and len(loss) == 2 and loss[0] == "pinball":
        name = "pinball"
        try:
            level = float(loss[1])
        except (TypeError, ValueError):
            level = np.nan
        if not 0.0 < level < 1.0:
            raise DeclarationError(f"the level of a pinball loss is between 0 and 1, received {loss[1]!r}")
    name = _ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in _WORDS:
        raise DeclarationError(f"loss must be one of {', '.join(_WORDS)}, or ('pinball', level), received {loss!r}")
    return ValidationLoss(name, level)


Name = str | None


@dataclass(frozen=True, slots=True)
class ValidationSet:
    """Validation points, and the targets of those outputs that are validated; None names the only output.

    ``weights`` has one weight per row, all one unless given; ``loss`` compares targets and predictions.
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
        """Return the sum of the weights of the rows: their number unless weights were given."""
        return float(self.rows) if self.weights is None else float(self.weights.sum())

    @property
    def stacked_targets(self) -> Array:
        """Return all targets, output by output and column by column."""
        return np.concatenate([target.ravel(order="F") for target in self.targets.values()])

    @property
    def every_weight(self) -> Array:
        """Return the weights in the order of ``stacked_targets``."""
        weights = np.ones(self.rows) if self.weights is None else self.weights
        return np.tile(weights, self.stacked_targets.size // self.rows)

    def values(self, predicted: Any) -> Array:
        """Return predictions in the order of ``stacked_targets``."""
        values = predicted if isinstance(predicted, Mapping) else {None: predicted}
        every = [np.asarray(values[name]).reshape(target.shape) for name, target in self.targets.items()]
        return np.concatenate([matrix.ravel(order="F") for matrix in every])

    def total(self, predicted: Any) -> float:
        """Return the weighted sum of the loss of predictions."""
        return self.loss.total(self.stacked_targets, self.values(predicted), self.every_weight)


def check_validation(
    machine: Machine, X_val: Any, y_val: Any, weights: Any = None, loss: ValidationLoss = SQUARED
) -> ValidationSet:
    """Return validation rows for every output of the machine, or say why they do not fit."""
    X = real_points(X_val, "X_val")
    if X.shape[0] == 0:
        raise DataError("X_val is empty; give at least one validation row")
    for term in (term for terms in machine.outputs.values() for term in terms):
        if isinstance(base_of(term), One):
            raise DeclarationError(
                "an output with a number added to it is not validated; take the number from y and from y_val instead"
            )
        if isinstance(term, Substrate) and term.X.shape[1] != X.shape[1]:
            raise DataError(f"X_val has {X.shape[1]} columns, the training points have {term.X.shape[1]}")
    _refuse_fitted(machine, X)
    targets_by_output = _group_by_output(machine, y_val)
    targets = {name: _check_target(machine, name, y, X) for name, y in targets_by_output.items() if y is not None}
    for target in targets.values():
        loss.check(target)
    return ValidationSet(X, targets, _check_weights(weights, X.shape[0], "the weights of validation"), loss)


def _check_weights(weights: Any, rows: int, called: str) -> Array | None:
    if weights is None:
        return None
    weights_found = real_array(weights, called, ndim=1)
    if weights_found.shape != (rows,):
        raise DataError(f"{called} must have one entry per row: expected {rows}, received {weights_found.size}")
    if (weights_found < 0.0).any() or not weights_found.any():
        raise DataError(f"{called} must not be negative, and not all zero")
    return weights_found


def check_pair(pair: Any, called: str) -> tuple[Any, Any, Any]:
    """Return points, targets and the weights of rows, None without weights; refuse anything else."""
    if not isinstance(pair, (tuple, list)) or len(pair) not in (2, 3):
        raise DeclarationError(f"{called} is (X, y), or (X, y, weights of rows), received {type(pair).__name__}")
    X, y, *weights = pair
    return X, y, weights[0] if weights else None


def _group_by_output(machine: Machine, y_val: Any) -> Mapping[Name, Any]:
    """Return the targets by output: all must be there, though one may be None."""
    names = list(machine.outputs)
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


def _check_target(machine: Machine, name: Name, y_val: Any, X: Array) -> Array:
    called = "y_val" if name is None else f"y_val[{name!r}]"
    terms = machine.outputs[name]
    columns = max(map(columns_of, terms))
    target = real_array(y_val, called, ndim=(1, 2))
    y = real_array(target if columns else without_single_column(target, called), called, ndim=1 + len(columns))
    if y.shape[1:] != columns:
        raise DataError(f"{called} must have {columns[0]} columns, as the output has, received {y.shape[1]}")
    if y.shape[0] != X.shape[0]:
        raise DataError(f"{called} must have one entry per row of X_val: expected {X.shape[0]}, received {y.shape[0]}")
    signed = any(isinstance(t, Substrate) and t.task == "classification" for t in terms)
    if signed and not np.isin(y, (-1.0, 1.0)).all():
        raise DataError(f"{called} must hold labels -1 and +1, received {np.unique(y)[:5]}")
    return y


def _refuse_fitted(machine: Machine, X: Array) -> None:
    """Refuse rows that the objective fits already: the search would end where it fits them best."""
    for points in machine.fitted_points:
        training_rows = {row.tobytes() for row in _dense(points)}
        repeated = [number for number, row in enumerate(_dense(X)) if row.tobytes() in training_rows]
        if repeated:
            raise DataError(
                f"rows {repeated[:5]} of X_val are fitted by the objective already (as (23) fits its validation rows), "
                "so they cannot choose its weight; hold other rows back"
            )


def _dense(points: Any) -> Array:
    return np.ascontiguousarray(points.toarray() if is_sparse(points) else points, dtype=np.float64)


def folds_of(
    build: Callable[..., Any], data: Any, cv: Any, validation: Any, loss: ValidationLoss = SQUARED
) -> tuple[list[Machine], list[ValidationSet], Machine]:
    """Return one machine and one validation set per fold, and the machine of all rows.

    Where ``data`` has weights of rows, the function is called with them too, and the rows held back keep theirs.
    """
    if data is None:
        raise DeclarationError("a function (X, y) -> Machine needs data=(X, y)")
    points, targets, data_weights = check_pair(data, "data")
    X, y = real_points(points, "X"), _check_data(targets)
    weights = _check_weights(data_weights, X.shape[0], "the weights of data")
    if (cv is None) == (validation is None):
        raise DeclarationError("a function (X, y) -> Machine needs either cv or validation=(X, y)")
    final = _build_machine(build, X, y, weights)
    if validation is not None:
        return [final], [check_validation(final, *check_pair(validation, "validation"), loss)], final
    machines, sets = [], []
    for train, test in _splits(cv, final, y, X.shape[0]):
        kept, weights_val = (None, None) if weights is None else (weights[train], weights[test])
        machine = _build_machine(build, X[train], _take_rows(y, train), kept)
        machines.append(machine)
        sets.append(check_validation(machine, X[test], _take_rows(y, test), weights_val, loss))
    return machines, sets, final


def _check_data(y: Any) -> Any:
    if isinstance(y, Mapping):
        return {name: real_array(target, f"y[{name!r}]", ndim=(1, 2)) for name, target in y.items()}
    return real_array(y, "y", ndim=(1, 2))


def _take_rows(y: Any, rows: Any) -> Any:
    return {name: target[rows] for name, target in y.items()} if isinstance(y, dict) else y[rows]


def _build_machine(build: Callable[..., Any], X: Any, y: Any, weights: Array | None) -> Machine:
    machine = build(X, y) if weights is None else build(X, y, weights)
    if not isinstance(machine, Machine):
        raise DeclarationError(f"the function must return a Machine, received {machine!r}")
    return machine


def _splits(cv: Any, machine: Machine, y: Any, n: int) -> tuple[Split, ...]:
    """Return the splits as scikit-learn makes them: stratified by classes of the first substrate, or by their codes.

    A splitter is given the targets too, of the first output where they have names: it may stratify by them.
    """
    from sklearn.model_selection import LeaveOneOut, check_cv

    first = machine.substrates[0]
    labels: Any = first.y if first.task == "classification" and first.y.shape[:1] == (n,) else None
    is_classifier = labels is not None
    if labels is None and hasattr(cv, "split"):
        labels = next(iter(y.values())) if isinstance(y, Mapping) else y
    if labels is not None and labels.ndim == 2:
        labels = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    try:
        splitter = LeaveOneOut() if cv == "loo" else check_cv(cv, labels, classifier=is_classifier)
        return checked_splits(splitter.split(np.arange(n), labels), n)
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(
            f"cv={cv!r} does not split {n} rows into (train, test): {error}; cv is a number of folds from 2 on, 'loo', "
            "a scikit-learn splitter or a list of (train, test) rows"
        ) from error
