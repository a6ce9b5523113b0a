r"""Fusion of training and validation: the parameter of a machine chosen with a proof.

.. math::

    \min_{\rho \ge 0} \; \frac1n \sum_{j=1}^n (y^v_j - f_\rho(x^v_j))^2 \quad \text{where} \quad
    f_\rho = \arg\min \; \text{the machine at } \rho

[Pelckmans2005]_ eq. (28): the machine's optimality conditions are constraints of a problem in rho as well. The paper
turns it into (29) and calls that convex; it is not, see :mod:`problems.fused_maximal_variation`. Here (28) itself is
solved: the machine is a parametric quadratic program, its path is followed by refinement, and a bound over the whole
path states how far from the global optimum the answer can be (:mod:`substrate.paths.chord_certificate`).
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, positive, real_array, real_points
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import power_of_two, spread_of
from substrate.composition import Machine
from substrate.errors import DataError, DeclarationError
from substrate.folds import checked_splits
from substrate.fusion.fold import Fold
from substrate.fusion.parametric_qp import Knot, ParametricQP
from substrate.fusion.refinement import Refined, refined
from substrate.fusion.result import FusedPath, Fusion

__all__ = ["fuse"]

Progress = Callable[[int, float, float], None]

_RADIUS = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times its size, or the spread "
    "of y, of the knots; were it k times farther, the effect of rounding on the bound would be at most k times larger"
)


def fuse(
    machine: Any,
    over: Any,
    validation: tuple[Any, Any] | None = None,
    cv: Any = None,
    gap: float = 1e-3,
    *,
    data: tuple[Any, Any] | None = None,
    budget: int = 500,
    up_to: float | None = None,
    n_jobs: int = 1,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Fusion:
    """Choose the parameter whose machine validates best, and bound how much better any other could be.

    :equation [Pelckmans2005]_ (28): fusion of structure detection with validation, over all rho

    Parameters
    ----------
    machine
        A :class:`~substrate.Machine`; a function ``(X, y) -> Machine`` (with ``cv``, and the parameter by name); or an
        estimator that supports fusion.
    over
        The parameter, a ``cvxpy.Parameter(nonneg=True)`` or its name. It must enter the linear term of a quadratic
        program: the weight of a norm, a maximum, a hinge.
    validation
        Points and targets to validate on.
    cv
        A sequence of ``(train, test)`` rows, for a function or an estimator, with ``data``; ``"loo"`` where an
        estimator offers it.
    gap
        Relative distance between validation error and lower bound at which the search ends.
    data
        X and y, for a function or an estimator.
    budget
        Largest number of solves; a search that uses all of them reports it.
    up_to
        The largest value of the parameter that is considered; ``None`` ends where a larger one changes nothing.
    n_jobs
        How many folds are solved at a time.
    progress
        Called with the number of solves, the best error and the bound (sums of squares) during the search; True writes
        them to a terminal.

    Returns
    -------
    Fusion
        With ``lower_bound`` minus infinity, and a certificate that states why, where no proof exists: a loss that is
        not strongly convex in f (Huber, pinball), or predictions that the squared errors do not determine.
    """
    target = positive(gap, "gap")
    for name, count in (("budget", budget), ("n_jobs", n_jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DeclarationError(f"{name} must be a positive integer, received {count!r}")
    top = None if up_to is None else positive(up_to, "up_to")
    if hasattr(machine, "__fuse__"):
        if top is not None:
            raise DeclarationError("up_to is for machines; an estimator has the range of its path as a parameter")
        fused: Fusion = machine.__fuse__(over, validation=validation, cv=cv, gap=target, data=data, **options)
        return fused
    if options:
        raise DeclarationError(f"fuse has no options {sorted(options)}")
    if isinstance(machine, Machine):
        if validation is None or cv is not None:
            raise DeclarationError(
                "a machine is fused with validation=(X, y); for folds pass a function (X, y) -> Machine, data and cv"
            )
        machines, sets = [machine], [_checked_validation(machine, *validation)]
        final = machine
    elif callable(machine):
        machines, sets, final = _folds(machine, data, cv, validation)
    else:
        raise DeclarationError(
            f"a Machine, a function (X, y) -> Machine or an estimator is fused, received {machine!r}"
        )
    parameters = [_parameter(one, over) for one in machines]
    folds = [_fold(one, parameter, *known) for one, parameter, known in zip(machines, parameters, sets, strict=True)]
    found = refined(folds, target, budget, _shown(progress), n_jobs, top)
    return _fusion(final, _parameter(final, over), folds, sets, found, target)


def _shown(progress: Progress | bool | None) -> Progress:
    """The function called during the search: the user's, one that writes a line to a terminal, or none."""
    if callable(progress):
        return progress
    if progress is not True or not sys.stderr.isatty():
        return lambda *_: None
    return lambda solves, best, lower: print(
        f"\rfuse: {solves} solves, squares {best:.6g}, bound {lower:.6g} ", end="", file=sys.stderr, flush=True
    )


def _parameter(machine: Machine, over: Any) -> Any:
    name = over.name() if isinstance(over, cp.Parameter) else over
    known = {parameter.name(): parameter for parameter in machine.problem.parameters()}
    if name not in known:
        raise DeclarationError(f"the machine has no parameter {name!r}; it has {sorted(known)}")
    parameter = known[name]
    if not parameter.is_scalar() or not parameter.is_nonneg():
        raise DeclarationError(f"{name!r} must be one non-negative number: cp.Parameter(nonneg=True, name={name!r})")
    missing = sorted(other for other, one in known.items() if other != name and one.value is None)
    if missing:
        raise DeclarationError(f"parameters {missing} have no value; give them one before fusing over {name!r}")
    return parameter


def _checked_validation(machine: Machine, X_val: Any, y_val: Any) -> tuple[Array, Array]:
    X, y = real_points(X_val, "X_val"), real_array(y_val, "y_val", ndim=1)
    width = machine.substrates[0].X.shape[1]
    if X.shape[0] == 0:
        raise DataError("X_val is empty; give at least one validation row")
    if X.shape[1] != width:
        raise DataError(f"X_val has {X.shape[1]} columns, the training points have {width}")
    if y.size != X.shape[0]:
        raise DataError(f"y_val must have one entry per row of X_val: expected {X.shape[0]}, received {y.size}")
    _refuse_fitted(machine, X)
    if machine.substrates[0].task == "classification" and not np.isin(y, (-1.0, 1.0)).all():
        raise DataError(f"y_val must hold labels -1 and +1, received {np.unique(y)[:5]}")
    return X, y


def _refuse_fitted(machine: Machine, X: Array) -> None:
    """Rows that the objective already fits cannot choose its weight: the search would end where it fits them best."""
    for points in machine.fitted_points:
        known = {row.tobytes() for row in np.asarray(points.toarray() if hasattr(points, "toarray") else points)}
        again = [number for number, row in enumerate(np.asarray(X)) if row.tobytes() in known]
        if again:
            raise DataError(
                f"rows {again[:5]} of X_val are fitted by the objective already (as (23) fits its validation rows), so "
                "they cannot choose its weight; hold other rows back"
            )


def _folds(
    build: Callable[[Any, Any], Any], data: Any, cv: Any, validation: Any
) -> tuple[list[Machine], list[tuple[Array, Array]], Machine]:
    """One machine and one validation set per fold, and the machine of all rows."""
    if data is None:
        raise DeclarationError("a function (X, y) -> Machine needs data=(X, y)")
    X, y = real_points(data[0], "X"), real_array(data[1], "y", ndim=1)
    if (cv is None) == (validation is None):
        raise DeclarationError("a function (X, y) -> Machine needs either cv or validation=(X, y)")
    if validation is not None:
        final = _built(build, X, y)
        return [final], [_checked_validation(final, *validation)], final
    if isinstance(cv, (str, bytes)) or not isinstance(cv, Sequence):
        raise DeclarationError(f"cv must be a sequence of (train, test) rows, received {cv!r}")
    splits = checked_splits(cv, y.size)
    final = _built(build, X, y)
    machines, sets = [], []
    for train, test in splits:
        one = _built(build, X[train], y[train])
        machines.append(one)
        sets.append(_checked_validation(one, X[test], y[test]))
    return machines, sets, final


def _built(build: Callable[[Any, Any], Any], X: Any, y: Array) -> Machine:
    machine = build(X, y)
    if not isinstance(machine, Machine):
        raise DeclarationError(f"the function must return a Machine, received {machine!r}")
    return machine


def _fold(machine: Machine, parameter: Any, X_val: Array, y_val: Array) -> Fold:
    """The program of a machine, and the affine map from its solution to validation errors."""
    size = max(compiled.spread for compiled in machine._compiled) * float(np.sqrt(machine.substrates[0].n))
    program = ParametricQP(machine.problem, parameter, power_of_two(size))
    M = np.zeros((y_val.size, program.q0.size))
    for compiled in machine._compiled:
        start = program.columns[compiled.z.id]
        M[:, start : start + compiled.z.size] += compiled.values_at(X_val)
        if compiled.substrate.bias:
            M[:, program.columns[compiled.shift.id]] += 1.0
    tie = program.tie(M, program.solve(size).x)
    sigma, rest = (np.inf, 0.0) if tie is None else (tie.factor, tie.rest)
    return Fold(program, M, y_val, sigma, {}, rest, size)


def _fusion(
    final: Machine,
    parameter: Any,
    folds: list[Fold],
    sets: list[tuple[Array, Array]],
    found: Refined,
    gap: float,
) -> Fusion:
    rows = sum(y.size for _, y in sets)
    best = found.best
    value, error = float(found.values[best]), float(found.squares[best]) / rows
    lower = found.lower_bound / rows
    chosen: dict[str, Any] = {parameter.name(): value}
    result = final.solve(**chosen)
    proved = np.isfinite(lower)
    top = np.inf if found.complete else float(found.values[-1])
    reach = "on" if found.complete else f"to {found.values[-1]:g}"
    facts = [
        ("fused over", f"{parameter.name()} from {found.values[0]:g} {reach}"),
        ("search", f"{found.solves} solves, {found.values.size} knots; {found.stop}"),
        *found.ends(),
    ]
    rows_known = np.concatenate([y for _, y in sets])
    proof: tuple[Row, ...] = ()
    if proved:
        formula = "validation error - lower bound over the values covered"
        # an error of rounding size requires no bound
        _, rounding = spread_of(rows_known, np.ones(rows))
        scale = error + 1e-12 * float(np.var(rows_known)) + rounding**2
        proof = (Row(f"gap of {parameter.name()}", error - lower, scale, gap, formula),)
        facts.append(("radius of the bound", _RADIUS))
    else:
        facts.append(("no certificate", "the loss is not strongly convex in f, or does not determine the predictions"))
    if len(folds) == 1 and len(sets) == 1 and final.problem is not None:
        again = sets[0][1] - result.predict(sets[0][0])
        known = folds[0].errors(folds[0].knots[value])
        # where the errors do not determine the predictions, two solvers may differ more
        tolerance = 1e-5 if np.isfinite(folds[0].sigma) else 1e-3
        spread, rounding = spread_of(rows_known, np.ones(rows))
        size = np.sqrt(rows) * max(spread, rounding / tolerance) + float(np.linalg.norm(known))
        if np.isfinite(folds[0].sigma):  # validation errors magnify those of the fit
            size += folds[0].sigma * folds[0].program.unit
        difference = float(np.linalg.norm(again - known))
        formula = "||e^v of the knot - e^v of the machine||"
        proof += (Row("knot and machine agree", difference, size, tolerance, formula),)
    certificate = Certificate(
        f"Fusion over {parameter.name()}", (*result.certificate.rows, *proof), (*result.certificate.record, *facts)
    )
    knots = tuple(tuple(fold.knots[float(v)] for v in found.values) for fold in folds)
    covered = (float(found.values[0]), top)
    variation = _variations(final, folds[0], knots[0]) if len(folds) == 1 else None
    path = FusedPath(parameter.name(), found.values, found.squares / rows, knots, covered, (), found.stop, variation)
    return Fusion(parameter.name(), value, error, lower, result, path, certificate)


def _variations(machine: Machine, fold: Fold, knots: tuple[Knot, ...]) -> Array | None:
    """The maximal variation of every component at the knots, where a machine has components."""
    compiled = machine._compiled[0]
    parts = compiled.frame.components
    if len(machine._compiled) > 1 or parts is None or len(parts) < 2:
        return None
    start = fold.program.columns[compiled.z.id]
    Z = np.array([knot.x[start : start + compiled.z.size] for knot in knots]) * fold.program.unit
    if compiled.frame.kind == "coefficients":
        Z = Z * compiled.substrate.signs
    return np.column_stack([np.abs(Z @ part.T).max(axis=1) for part in parts])
