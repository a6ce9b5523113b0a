r"""What is fused: the program of a machine, of its folds or of a cvxpy problem, and its validation error.

What is validated is what ``predict`` returns. An output of several columns is validated column by column, and several
outputs each against its own target: the validation error is the sum of theirs.

*Losses.* For a target y, a prediction f and a level q, with labels :math:`y = \pm 1` in the last two,

.. math::

    (y - f)^2, \qquad |y - f|, \qquad \max(q (y - f), (q - 1) (y - f)), \qquad \max(1 - y f, 0), \qquad
    \log(1 + e^{-y f}) .

The validation error is the mean over the rows, and the sum over outputs and columns.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array, real_array, real_points
from substrate.declare.level import Substrate
from substrate.declare.linear_operators import without_single_column
from substrate.declare.machine import Machine
from substrate.declare.outputs import LinearPart, One, Term, WeightedTerm, base_of, columns_of
from substrate.declare.program import Program, read_problem, squares_of, stack
from substrate.declare.span import keys_of
from substrate.errors import DataError, DeclarationError
from substrate.fusion.chord import Chord
from substrate.fusion.universal import Universal
from substrate.left_out.leave_one_out import Split, checked_splits

__all__ = [
    "FusionTask",
    "ValidationSet",
    "complete_box",
    "declare",
    "families_of",
    "folds_of",
]


# --- the rows of a validation -----------------------------------------------------------------------------------------

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

    def total(self, targets: Array, values: Array) -> float:
        """Return the sum of the loss."""
        return float(self.expression(targets, values).value)

    def expression(self, targets: Array, values: Any) -> Any:
        """Return the sum of the loss as a convex expression of cvxpy."""
        errors = targets - values
        if self.name == "squared":
            return cp.sum_squares(errors)
        if self.name == "mean_absolute":
            return cp.norm1(errors)
        if self.name == "pinball":
            return cp.sum(cp.maximum(self.level * errors, (self.level - 1.0) * errors))
        margins = cp.multiply(targets, values)
        return cp.sum(cp.pos(1.0 - margins) if self.name == "hinge" else cp.logistic(-margins))

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
    """Validation points, and the targets of those outputs that are validated; None names the only output."""

    X: Array
    targets: Mapping[Name, Array]
    loss: ValidationLoss = SQUARED

    @property
    def rows(self) -> int:
        """Number of validation rows."""
        return int(self.X.shape[0])

    @property
    def stacked_targets(self) -> Array:
        """Return all targets, output by output and column by column."""
        return np.concatenate([target.ravel(order="F") for target in self.targets.values()])

    def values(self, predicted: Any) -> Array:
        """Return predictions in the order of ``stacked_targets``."""
        values = predicted if isinstance(predicted, Mapping) else {None: predicted}
        every = [np.asarray(values[name]).reshape(target.shape) for name, target in self.targets.items()]
        return np.concatenate([matrix.ravel(order="F") for matrix in every])

    def total(self, predicted: Any) -> float:
        """Return the sum of the loss of predictions."""
        return self.loss.total(self.stacked_targets, self.values(predicted))


def check_validation(machine: Machine, X_val: Any, y_val: Any, loss: ValidationLoss = SQUARED) -> ValidationSet:
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
    return ValidationSet(X, targets, loss)


def check_pair(pair: Any, called: str) -> tuple[Any, Any]:
    """Return points and targets; refuse anything else."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise DeclarationError(f"{called} is (X, y), received {type(pair).__name__}")
    X, y = pair
    return X, y


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
        training_rows = set(keys_of(points))
        repeated = [number for number, key in enumerate(keys_of(X)) if key in training_rows]
        if repeated:
            raise DataError(
                f"rows {repeated[:5]} of X_val are fitted by the objective already (as (23) fits its validation rows), "
                "so they cannot choose its weight; hold other rows back"
            )


def folds_of(
    build: Callable[..., Any], data: Any, cv: Any, validation: Any, loss: ValidationLoss = SQUARED
) -> tuple[list[Machine], list[ValidationSet], Machine]:
    """Return one machine and one validation set per fold, and the machine of all rows."""
    if data is None:
        raise DeclarationError("a function (X, y) -> Machine needs data=(X, y)")
    points, targets = check_pair(data, "data")
    X, y = real_points(points, "X"), _check_data(targets)
    if (cv is None) == (validation is None):
        raise DeclarationError("a function (X, y) -> Machine needs either cv or validation=(X, y)")
    final = _build_machine(build, X, y)
    if validation is not None:
        return [final], [check_validation(final, *check_pair(validation, "validation"), loss)], final
    machines, sets = [], []
    for train, test in _splits(cv, final, y, X.shape[0]):
        machine = _build_machine(build, X[train], _take_rows(y, train))
        machines.append(machine)
        sets.append(check_validation(machine, X[test], _take_rows(y, test), loss))
    return machines, sets, final


def _check_data(y: Any) -> Any:
    if isinstance(y, Mapping):
        return {name: real_array(target, f"y[{name!r}]", ndim=(1, 2)) for name, target in y.items()}
    return real_array(y, "y", ndim=(1, 2))


def _take_rows(y: Any, rows: Any) -> Any:
    return {name: target[rows] for name, target in y.items()} if isinstance(y, dict) else y[rows]


def _build_machine(build: Callable[..., Any], X: Any, y: Any) -> Machine:
    machine = build(X, y)
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


# --- the program ------------------------------------------------------------------------------------------------------

#: The values of a weight that are considered unless a range is given, in the unit in which it is of the order of one.
RANGE = (1e-3, 1e3)
#: Largest number of parameters.
_MOST = 3


@dataclass(frozen=True)
class FusionTask:
    """The program ``base`` and the same with the validation error as one more part, ``both``; its squares, if it has
    some; and what is solved and validated in the end.

    Validation errors are sums, ``weight`` times what is reported; below ``least`` one counts as none, and none is below
    ``floor``.
    """

    parameters: tuple[Any, ...]
    base: Program
    both: Program
    squares: tuple[Any, Array] | None
    validate: Callable[[Array], float]
    words: str
    weight: float = 1.0
    least: float = 0.0
    floor: float = -np.inf
    #: The machines of the folds with their rows, and of all rows; or the problem, and what gives it a point.
    machines: tuple[Machine, ...] = ()
    sets: tuple[ValidationSet, ...] = ()
    final: Machine | None = None
    problem: Any = None
    assign: Callable[[Array], None] | None = None
    #: The number of variables and of rows of each program that is stacked.
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [parameter.name() for parameter in self.parameters]

    @property
    def problems(self) -> tuple[Any, ...]:
        """Return the cvxpy problems that are solved."""
        return (self.problem,) if self.problem is not None else tuple(machine.problem for machine in self.machines)


def declare(machine: Any, over: Any, validation: Any, cv: Any, data: Any, loss: Any) -> FusionTask:
    """Return the task, or say why it cannot be fused."""
    judged = check_loss(loss)
    if isinstance(machine, cp.Problem):
        if not isinstance(validation, cp.Expression) or cv is not None or data is not None or judged != SQUARED:
            raise DeclarationError(
                "a cvxpy problem is fused with validation=, its validation error as a cvxpy expression, without cv, "
                "data and loss"
            )
        return _task_of_problem(machine, _parameters(machine, over, "the problem"), validation)
    if isinstance(machine, Machine):
        if validation is None or cv is not None:
            raise DeclarationError(
                "a machine is fused with validation=(X, y); for folds pass a function (X, y) -> Machine, data and cv"
            )
        final, machines = machine, [machine]
        sets = [check_validation(machine, *check_pair(validation, "validation"), judged)]
    elif callable(machine):
        machines, sets, final = folds_of(machine, data, cv, validation, judged)
    else:
        raise DeclarationError(
            f"fuse needs a Machine, a cvxpy.Problem or a function (X, y) -> Machine, received {machine!r}"
        )
    if any(each.shapes for each in (*machines, final)):
        raise DeclarationError(
            "fuse has no bound for machines whose shape holds everywhere: choose the weight by folds, as "
            "LSSVMRegressorCV(monotone={0: 1}, cv=5) does, or ask for the shape at points instead of Everywhere"
        )
    return _task_of_machines(machines, sets, final, over)


def _task_of_machines(
    machines: Sequence[Machine], sets: Sequence[ValidationSet], final: Machine, over: Any
) -> FusionTask:
    programs, maps, errors = list[Program](), list[Any](), list[Program]()
    parameters = _parameters(final.problem, over, "the machine")
    names = [parameter.name() for parameter in parameters]
    for machine, rows in zip(machines, sets, strict=True):
        unit = float(np.std(rows.stacked_targets)) or 1.0
        program, _ = read_problem(machine.problem, _parameters(machine.problem, names, "the machine"), unit)
        M = sp.csr_array(output_map(machine, program.columns, program.q.shape[1], rows))
        programs.append(program)
        maps.append(M)
        errors.append(_loss_program(machine, program, M, rows))
    base = stack(programs)
    M = sp.csr_array(sp.block_diag(maps))
    targets = np.concatenate([rows.stacked_targets for rows in sets])
    judged = sets[0].loss
    squares = (M, targets) if judged == SQUARED else None
    weight = float(sum(rows.rows for rows in sets))
    return FusionTask(
        parameters=tuple(parameters),
        base=base,
        both=_with_error(base, stack(errors), squares),
        squares=squares,
        validate=lambda x: judged.total(targets, M @ x),
        words=judged.words,
        weight=weight,
        least=judged.least(targets) * weight,
        floor=0.0,
        machines=tuple(machines),
        sets=tuple(sets),
        final=final,
        sizes=tuple((program.q.shape[1], program.A.shape[0]) for program in programs),
    )


def _loss_program(machine: Machine, program: Program, M: Any, rows: ValidationSet) -> Program:
    """Return the program of the loss of the validation rows, in the variables of a machine."""
    values: Any = 0.0
    for variable in machine.problem.variables():
        start = program.columns[variable.id]
        block = M[:, start : start + variable.size]
        if block.nnz:
            values = values + block @ cp.vec(variable, order="F")
    loss = rows.loss.expression(rows.stacked_targets, values)
    return read_problem(cp.Problem(cp.Minimize(loss)), ())[0]


def _with_error(base: Program, error: Program, squares: tuple[Any, Array] | None) -> Program:
    """Return a program with its validation error: as squares where constraints stay, which takes half the time, and
    otherwise as rows and variables, which bounds over several values of the parameters can take.
    """
    return base.plus(error) if squares is None or base.b[1:].any() else base.plus_squares(*squares)


def _task_of_problem(problem: cp.Problem, parameters: Sequence[Any], validation: Any) -> FusionTask:
    expression = _check_expression(problem, validation)
    base, assign = read_problem(problem, parameters)
    error, _ = read_problem(cp.Problem(cp.Minimize(expression)), ())
    squares = squares_of(error, base)

    def validate(x: Array) -> float:
        assign(x)
        return float(np.asarray(expression.value).item())

    return FusionTask(
        parameters=tuple(parameters),
        base=base,
        both=_with_error(base, error, squares),
        squares=squares,
        validate=validate,
        words="validation error",
        floor=0.0 if expression.is_nonneg() else -np.inf,
        problem=problem,
        assign=assign,
        sizes=((base.q.shape[1], base.A.shape[0]),),
    )


def _check_expression(problem: Any, validation: Any) -> Any:
    """Return the validation error as one number of cvxpy, or raise where it does not fit the problem."""
    if not problem.is_dcp():
        raise DeclarationError("fuse needs a convex cvxpy.Problem, whose objective follows cvxpy's rules (is_dcp)")
    if not problem.is_dcp(dpp=True):
        raise DeclarationError(
            "the problem must be affine in its parameters (is_dcp(dpp=True)): no products of two parameters, no "
            "functions of a parameter but its multiples"
        )
    if problem.is_mixed_integer():
        raise DeclarationError("the problem has integer variables; a proof needs a convex problem")
    if not validation.is_scalar() or not validation.is_convex():
        raise DeclarationError("validation must be one number, convex in the variables, as cp.sum_squares(V @ x - u)")
    if validation.parameters():
        raise DeclarationError("validation must not depend on parameters; use numbers, as parameter.value")
    strange = {variable.id for variable in validation.variables()} - {variable.id for variable in problem.variables()}
    if strange:
        raise DeclarationError("validation has variables that are not in the problem")
    if not validation.variables():
        raise DeclarationError("validation has no variables, so that no parameter can change it")
    return cp.reshape(validation, (), order="F") if validation.shape else validation


def _parameters(problem: Any, over: Any, what: str) -> list[Any]:
    """Return the parameters that are fused over, given as such or by name."""
    by_name = {parameter.name(): parameter for parameter in problem.parameters()}
    keys = list(over) if isinstance(over, (list, tuple)) else [over]
    if not keys or not all(isinstance(key, (str, cp.Parameter)) for key in keys):
        raise DeclarationError(f"over is a cvxpy.Parameter or its name, or a tuple of them, received {over!r}")
    names = [key.name() if isinstance(key, cp.Parameter) else key for key in keys]
    if len(names) > _MOST:
        raise DeclarationError(
            f"fuse searches one to three parameters with a proof, received {len(names)}: the number of solves grows "
            "too fast beyond that; give all but three a value (parameter.value = ...) and fuse over the others"
        )
    if len(set(names)) != len(names):
        raise DeclarationError(f"a parameter is named twice: {names}")
    for name, key in zip(names, keys, strict=True):
        if name not in by_name or (isinstance(key, cp.Parameter) and by_name[name] is not key):
            raise DeclarationError(f"{what} has no parameter {name!r}; it has {sorted(by_name)}")
        weighs = any(by_name[name] is parameter for parameter in problem.objective.parameters())
        if not by_name[name].is_scalar() or (weighs and not by_name[name].is_nonneg()):
            raise DeclarationError(
                f"{name!r} must be one non-negative number: cp.Parameter(nonneg=True, name={name!r})"
            )
    missing = sorted(name for name, parameter in by_name.items() if name not in names and parameter.value is None)
    if missing:
        raise DeclarationError(f"the parameters {missing} have no value; give them one, or fuse over them too")
    return [by_name[name] for name in names]


def complete_box(task: FusionTask, box: Any) -> list[tuple[float, float]]:
    """Return the range of every parameter."""
    if box is not None and not isinstance(box, Mapping):
        raise DeclarationError(f"box is a dict of (low, high) by parameter or name, received {box!r}")
    given = {key.name() if isinstance(key, cp.Parameter) else key: ends for key, ends in (box or {}).items()}
    if unknown := sorted(set(given) - set(task.names), key=str):
        raise DeclarationError(f"box has a range for {unknown[0]!r}, which is not fused over")
    return [
        _ends(parameter, given, None if task.base.b[k].any() else _default_range(task.base, k))
        for k, parameter in enumerate(task.parameters, start=1)
    ]


def _default_range(base: Program, part: int) -> tuple[float, float]:
    """Return the values of a weight that are considered: in the unit of the targets, a power of ten, where it weighs
    something linear against squares, in one over it for squares against something linear.
    """
    squares, weighs_squares = abs(base.P[0]).sum() > 0.0, abs(base.P[part]).sum() > 0.0
    unit = 10.0 ** round(math.log10(base.unit)) if np.isfinite(base.unit) else 1.0
    scale = 1.0 if squares == weighs_squares else unit if squares else 1.0 / unit
    return RANGE[0] * scale, RANGE[1] * scale


def _ends(parameter: Any, given: Mapping[str, Any], default: tuple[float, float] | None) -> tuple[float, float]:
    """Return the range of a parameter: that which is given, or the default of a weight."""
    name = parameter.name()
    ends = given.get(name, default)
    if ends is None:
        raise DeclarationError(
            f"{name!r} is in a constraint, or the width of a tube; state which values are considered: "
            f"box={{{name!r}: (low, high)}}"
        )
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise DeclarationError(f"box[{name!r}] must be two numbers (low, high), received {ends!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise DeclarationError(f"box[{name!r}] must be two numbers with low < high, received {ends!r}")
    if parameter.is_nonneg() and low < 0.0:
        raise DeclarationError(f"{name!r} is not negative, and its range begins at {low:g}")
    return low, high


def families_of(task: FusionTask, box: Sequence[tuple[float, float]], gap: float) -> dict[str, Any]:
    """Return the families of bounds by name, the first to be tried first: chords, where squares determine the
    validation errors, and the universal bound.
    """
    low, high = tuple(first for first, _ in box), tuple(last for _, last in box)
    families: dict[str, Any] = {"universal": Universal(task.base, task.both, task.validate, high, task.floor)}
    if task.squares is not None and not task.base.b[1:].any():
        chord = Chord(replace(task.base), *task.squares, high)
        if chord.determines(high, low, gap):
            return {"chord": chord} | families
    return families


def output_map(machine: Machine, columns: Mapping[int, int], size: int, validation_set: ValidationSet) -> Array:
    """Return the values of all outputs that are validated, by output and column; ``columns`` has the places."""
    terms = [machine.outputs[name] for name in validation_set.targets]
    return np.vstack(
        [
            _map(machine, dict(columns), size, terms_of_output, validation_set.X, k)
            for terms_of_output in terms
            for k in range(*max(map(columns_of, terms_of_output)) or (1,))
        ]
    )


def _map(
    machine: Machine, columns: dict[int, int], size: int, terms: tuple[Term, ...], X_val: Array, column: int
) -> Array:
    """Return the matrix that takes a solution of the program to the values of one output, or of one of its columns."""
    M = np.zeros((X_val.shape[0], size))
    for term in terms:
        base, rows, weights = base_of(term), X_val, np.ones((X_val.shape[0], 1))
        if isinstance(term, WeightedTerm):
            rows, weights = term.take(X_val), term.weights(X_val)[:, None]
        for compiled in (compiled for compiled in machine.conic.compiled if compiled.substrate is base):
            ones = np.ones((X_val.shape[0], int(compiled.substrate.bias)))
            block = np.hstack([compiled.values_at(rows, column), ones])
            M[:, compiled.places(columns, column)] += weights * block
        if isinstance(base, LinearPart):
            M[:, base.places(columns, column)] += weights * base.matrix(rows, "X_val")
    return M
