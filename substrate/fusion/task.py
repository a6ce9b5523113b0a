"""What is fused: the program of a machine, of its folds or of a cvxpy problem, and its validation error."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from substrate.arrays import Array
from substrate.composition.machine import Machine
from substrate.composition.outputs import LinearPart, Term, WeightedTerm, base_of, columns_of
from substrate.composition.program import Program, read_problem, squares_of, stack
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.chord import Chord
from substrate.fusion.universal import Universal
from substrate.fusion.validation import SQUARED, ValidationSet, check_loss, check_pair, check_validation, folds_of

__all__ = ["RANGE", "FusionTask", "complete_box", "declare", "families_of", "output_map"]

#: The values of a weight that are considered unless a range is given, in the unit in which it is of the order of one.
RANGE = (1e-3, 1e3)
#: Largest number of parameters.
_MOST = 3
#: Share of a range by which it is kept from the end of the values that can be solved.
_INWARD = 1e-6


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
    weights = np.concatenate([rows.every_weight for rows in sets])
    squares, judged = None, sets[0].loss
    if judged == SQUARED:
        roots = np.sqrt(weights)
        squares = sp.csr_array(sp.diags_array(roots) @ M), roots * targets
    weight = float(sum(rows.weight for rows in sets))
    return FusionTask(
        parameters=tuple(parameters),
        base=base,
        both=_with_error(base, stack(errors), squares),
        squares=squares,
        validate=lambda x: judged.total(targets, M @ x, weights),
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
    loss = rows.loss.expression(rows.stacked_targets, values, rows.every_weight)
    return read_problem(cp.Problem(cp.Minimize(loss)), ())[0]


def _with_error(base: Program, error: Program, squares: tuple[Any, Array] | None) -> Program:
    """Return a program with its validation error: as squares where constraints stay, which takes half the time, and
    otherwise as rows and variables, which bounds over several values of the parameters can take.
    """
    return base.plus(error) if squares is None or base.b[1:].any() else base.plus_squares(*squares)


def _task_of_problem(problem: cp.Problem, parameters: Sequence[Any], validation: Any) -> FusionTask:
    expression = _check_validation(problem, validation)
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


def _check_validation(problem: Any, validation: Any) -> Any:
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


def complete_box(task: FusionTask, box: Any) -> tuple[list[tuple[float, float]], list[tuple[str, str]]]:
    """Return the range of every parameter, cut to where the constraints have solutions, and facts on what was cut."""
    if box is not None and not isinstance(box, Mapping):
        raise DeclarationError(f"box is a dict of (low, high) by parameter or name, received {box!r}")
    given = {key.name() if isinstance(key, cp.Parameter) else key: ends for key, ends in (box or {}).items()}
    if unknown := sorted(set(given) - set(task.names), key=str):
        raise DeclarationError(f"box has a range for {unknown[0]!r}, which is not fused over")
    placed = np.array([row.any() for row in task.base.b[1:]])
    ends = [
        _ends(parameter, given, None if placed[k] else _default_range(task.base, k + 1))
        for k, parameter in enumerate(task.parameters)
    ]
    if int(placed.sum()) != 1:
        return ends, []
    at = int(np.flatnonzero(placed)[0])
    low, high = _extent(task.base, ends, at)
    if (low, high) == ends[at]:
        return ends, []
    name = task.names[at]
    ends[at] = low, high
    words = f"the constraints have solutions with room for {name} from {low:g} to {high:g} only"
    return ends, [("range", f"{words}; nothing is said about other values")]


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


def _extent(base: Program, ends: Sequence[tuple[float, float]], at: int) -> tuple[float, float]:
    """Return the range of a parameter in constraints for which the problem has a point with room, within its ends.

    At the very end the constraints leave no inside, and nothing can be proved there: it begins a millionth further in.
    """
    low, high = ends[at]
    corner = np.array([1.0, *(first for first, _ in ends)])
    thetas = np.vstack([corner, corner])
    thetas[1, at + 1] = high
    reached = []
    for sign in (-1.0, 1.0):  # the smallest share, and the largest
        program = base.over(thetas, np.zeros(len(corner)), np.array([0.0, sign]))
        try:
            share = float(program.solve(np.ones(1)).x[-1])
        except SolverError:
            share = np.nan
        reached.append(low + share * (high - low))
    margin = _INWARD * (high - low)
    least, most = reached
    inner = (low if least < low + margin else least + margin), (high if most > high - margin else most - margin)
    if not inner[0] < inner[1]:
        raise DeclarationError(f"the constraints have no solution for values from {low:g} to {high:g}; take other ends")
    return inner


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
        for compiled in (compiled for compiled in machine._compiled if compiled.substrate is base):
            ones = np.ones((X_val.shape[0], int(compiled.substrate.bias)))
            block = np.hstack([compiled.values_at(rows, column), ones])
            M[:, compiled.places(columns, column)] += weights * block
        if isinstance(base, LinearPart):
            M[:, base.places(columns, column)] += weights * base.matrix(rows, "X_val")
    return M
