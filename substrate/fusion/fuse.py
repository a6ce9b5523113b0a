r"""Fusion of training and validation: the parameter of a machine chosen with a proof.

.. math::

    \min_{\rho \ge 0} \; \frac1n \sum_{j=1}^n (y^v_j - f_\rho(x^v_j))^2 \quad \text{where} \quad
    f_\rho = \arg\min \; \text{the machine at } \rho

[Pelckmans2005]_ eq. (28): the machine's optimality conditions are constraints of a problem in rho as well. The paper
turns it into (29) and calls that convex; it is not, see :mod:`problems.fused_maximal_variation`. Here (28) itself is
solved: the machine is a parametric quadratic program, its path is followed by refinement, and a bound over the whole
path states how far from the global optimum the answer can be (:mod:`substrate.penalized.homotopy.chord_certificate`).
Several parameters are searched by simplices (:mod:`substrate.fusion.joint`).
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array, positive
from substrate.certificates.rows import power_of_two
from substrate.composition import Machine
from substrate.errors import DeclarationError
from substrate.fusion.box import checked_box
from substrate.fusion.error_gram import ErrorGram
from substrate.fusion.fold import Fold
from substrate.fusion.joint import fuse_jointly
from substrate.fusion.joint_result import JointFusion
from substrate.fusion.machine_fusion import RANGE, MachineFamily, fuse_over_range
from substrate.fusion.output_map import output_map
from substrate.fusion.parametric_qp import Knot, ParametricQP
from substrate.fusion.refinement import Refined, refined
from substrate.fusion.result import FusedPath, Fusion
from substrate.fusion.validated_machine import Candidate, certify_search, solve_candidates
from substrate.fusion.validation import Validation, checked_validation, folds_of

__all__ = ["fuse"]

Progress = Callable[[int, float, float], None]

#: Largest number of solves, for one parameter and for several.
_BUDGETS = (500, 2000)

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
    box: Any = None,
    budget: int | None = None,
    up_to: float | None = None,
    n_jobs: int = 1,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Fusion | JointFusion:
    """Choose the parameter whose machine validates best, and bound how much better any other could be.

    :equation [Pelckmans2005]_ (28): fusion of structure detection with validation, over all rho

    Parameters
    ----------
    machine
        A :class:`~substrate.Machine`; a function ``(X, y) -> Machine`` (with ``cv``, and the parameter by name); or an
        estimator that supports fusion.
    over
        The parameter, a ``cvxpy.Parameter(nonneg=True)`` or its name: the weight of a term of the objective. Where it
        is in the linear term of a quadratic program whose squares determine the predictions (the weight of a 1-norm or
        a maximum beside squared errors), or the weight of all squares there, every value of it is covered. Elsewhere
        (C of a tube, hinge or pinball loss with a bias, a ridge beside squared errors and constraints, logistic
        losses) a range is: ``box``, or from 1e-3 to 1e3 (:mod:`substrate.fusion.universal_bound`). Two or three
        parameters, as a tuple, are chosen together: each a weight in the linear term, and at most one of them the
        weight of squares, such as a ridge. With three, the search may spend its budget before the gap is met, and says
        so.
    validation
        Points and targets to validate on; a machine whose outputs have names takes a dict of targets, with None for
        an output that is not validated, and the sum of the outputs' errors is minimised.
    cv
        A number of folds, ``"loo"``, a scikit-learn splitter or a list of ``(train, test)`` rows, for a function or
        an estimator, with ``data``. As in scikit-learn, a number of folds means consecutive rows, stratified in
        classification.
    gap
        Relative distance between validation error and lower bound at which the search ends.
    data
        X and y, for a function or an estimator; y is a dict of targets for a function whose machine has named outputs.
    box
        The values of the parameters that are considered: ``{parameter or name: (low, high)}``. Unless given, of
        several a weight of the linear term is considered from zero on, and the weight of squares from 1e-3 to 1e3; its
        lower end must be above zero. ``proved_on`` of the result, or ``path.coverage``, states where the bound holds.
    budget
        Largest number of solves, 500 for one parameter and 2000 for several unless given; a search that uses all of
        them reports it.
    up_to
        The largest value of the parameter that is considered, or of 1/parameter where it is the weight of all squares;
        ``None`` ends where a larger one changes nothing.
    n_jobs
        How many folds are solved at a time.
    progress
        Called with the number of solves, the best error and the bound (sums of squares) during the search; True writes
        them to a terminal.

    Returns
    -------
    Fusion or JointFusion
        The second for several parameters. Its ``validation_error`` is that of what its ``predict`` returns for the
        validation rows; with ``cv`` it is that of the machines of the folds. The certificate holds where the gap is
        proved. Where no proof exists (several parameters and a loss that is not strongly convex in f, such as Huber or
        pinball), ``lower_bound`` is minus infinity, and the certificate does not hold and states why.
    """
    target = positive(gap, "gap")
    several = isinstance(over, (list, tuple)) and len(over) > 1
    budget = (_BUDGETS[several]) if budget is None else budget
    for name, count in (("budget", budget), ("n_jobs", n_jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DeclarationError(f"{name} must be a positive integer, received {count!r}")
    top = None if up_to is None else positive(up_to, "up_to")
    if several and top is not None:
        raise DeclarationError("up_to is for one parameter; for several give box={name: (low, high)}")
    if top is not None and box is not None:
        raise DeclarationError("give either up_to or box={name: (low, high)}, not both")
    if hasattr(machine, "__fuse__"):
        if several:
            raise DeclarationError("an estimator is fused over its one parameter; for several fuse a Machine")
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
        machines, sets = [machine], [checked_validation(machine, *validation)]
        final = machine
    elif callable(machine):
        machines, sets, final = folds_of(machine, data, cv, validation)
    else:
        raise DeclarationError(
            f"a Machine, a function (X, y) -> Machine or an estimator is fused, received {machine!r}"
        )
    with ExitStack() as held:  # the parameters of a machine have one value at a time
        for one in {id(one): one for one in (*machines, final)}.values():
            held.enter_context(one.lock)
        if several:
            return fuse_jointly(machines, sets, final, over, box, target, budget, _shown(progress), n_jobs)
        over = over[0] if isinstance(over, (list, tuple)) and over else over
        parameters = [_parameter(one, over) for one in machines]
        folds = _folds(machines, parameters, sets) if box is None else DeclarationError("")
        if isinstance(folds, DeclarationError) or not all(np.isfinite(fold.sigma) for fold in folds):
            inverse = not isinstance(folds, DeclarationError) and folds[0].program.inverse
            ends = _range_of(parameters[0].name(), box, top, inverse)
            families = _families(machines, parameters, sets, folds)
            if families is not None:
                return fuse_over_range(
                    families, sets, final, parameters[0].name(), ends, target, budget, _shown(progress)
                )
        assert not isinstance(folds, DeclarationError)
        found = refined(folds, target, budget, _shown(progress), n_jobs, top)
        return _fusion(final, _parameter(final, over), folds, sets, found, target)


def _folds(machines: list[Machine], parameters: list[Any], sets: list[Validation]) -> list[Fold] | DeclarationError:
    """The programs of the folds, or why they are not quadratic programs with the parameter in the linear term."""
    try:
        return [_fold(one, parameter, known) for one, parameter, known in zip(machines, parameters, sets, strict=True)]
    except DeclarationError as refusal:
        return refusal


def _families(
    machines: list[Machine], parameters: list[Any], sets: list[Validation], folds: list[Fold] | DeclarationError
) -> list[MachineFamily] | None:
    """What the universal bound needs of the folds; None where it does not apply and another search does."""
    try:
        return [MachineFamily(*each) for each in zip(machines, parameters, sets, strict=True)]
    except DeclarationError as refusal:
        if isinstance(folds, DeclarationError):
            raise (folds if str(folds) else refusal) from refusal
        return None


def _range_of(name: str, box: Any, top: float | None, inverse: bool) -> tuple[float, float]:
    """The values of a weight that are considered: as given, or from 1e-3 to 1e3."""
    if box is not None:
        ((low, high),) = checked_box(box, [name], None)
        if not np.isfinite(high) or low >= high:
            raise DeclarationError(f"the range of {name!r} must be two numbers with low < high, received {box!r}")
        return low, high
    low, high = RANGE
    if top is None:
        return low, high
    return (1.0 / top, max(high, 1e3 / top)) if inverse else (min(low, 1e-3 * top), top)


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
    if isinstance(over, (list, tuple, set, frozenset, dict)):
        raise DeclarationError(f"several parameters are fused as a tuple, over=(one, other), received {over!r}")
    name = over.name() if isinstance(over, cp.Parameter) else over
    if not isinstance(name, str):
        raise DeclarationError(f"over is a cvxpy.Parameter or its name, received {over!r}")
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


def _fold(machine: Machine, parameter: Any, known: Validation) -> Fold:
    """The program of a machine, and the affine map from its solution to validation errors."""
    size = max(compiled.spread for compiled in machine._compiled) * float(np.sqrt(machine.substrates[0].n))
    dense = [compiled.z.id for compiled in machine._compiled]
    program = ParametricQP(machine.problem, parameter, power_of_two(size), dense)
    M = output_map(machine, program.columns, program.q0.size, known)
    tie = program.tie(M, program.solve(size).x)
    sigma, rest = (np.inf, 0.0) if tie is None else (tie.factor, tie.rest)
    directions = ErrorGram.of(program.program, M) if np.isfinite(sigma) else None
    return Fold(program, M, known.known, sigma, {}, rest, size, directions)


def _fusion(
    final: Machine,
    parameter: Any,
    folds: list[Fold],
    sets: list[Validation],
    found: Refined,
    gap: float,
) -> Fusion:
    rows = sum(known.rows for known in sets)
    name, inverse = parameter.name(), folds[0].program.inverse
    known = sets[0] if len(sets) == 1 else None
    order = found.order(positive=inverse)  # at rho = 0 the weight 1/rho is infinite
    knots = [float(found.values[k]) for k in order]
    chosen = solve_candidates(final, (_candidate(name, rho, folds, inverse) for rho in knots), known)
    value = chosen.values[name]
    error = (float(found.squares[order[0]]) if known is None else chosen.squares) / rows
    lower = min(found.lower_bound / rows, error)
    searched = f"1/{name}" if inverse else name
    reach = "on" if found.complete else f"to {found.values[-1]:g}"
    facts = [
        ("fused over", f"{searched} from {found.values[0]:g} {reach}"),
        ("search", f"{found.solves} solves, {found.values.size} knots; {found.stop}"),
        *found.ends(1.0 / value if inverse else value),
    ]
    if inverse:
        facts.append(("chosen", f"{name} = {value:.6g}; the machine is the one divided by it"))
    if np.isfinite(lower):
        facts.append(("radius of the bound", _RADIUS))
    else:
        facts.append(("no certificate", "the loss is not strongly convex in f, or does not determine the predictions"))
    determined = bool(np.isfinite(folds[0].sigma))
    # where the errors do not determine the predictions, two solvers may differ more; where they do, validation errors
    # magnify those of the fit
    agreement = (1e-5, folds[0].sigma * folds[0].program.unit) if determined else (1e-3, 0.0)
    formula = "validation error - lower bound over the values covered"
    certificate = certify_search(
        f"Fusion over {name}", chosen, error, lower, gap, sets, (f"gap of {name}", formula), agreement, facts
    )
    return Fusion(name, value, error, lower, chosen.result, _path(name, final, folds, found, rows), certificate)


def _candidate(name: str, rho: float, folds: list[Fold], inverse: bool) -> Candidate:
    """The value of a knot, with its validation errors where there is one validation set."""
    errors = folds[0].errors(folds[0].knots[rho]) if len(folds) == 1 else None
    return Candidate({name: 1.0 / rho if inverse else rho}, errors)


def _path(name: str, final: Machine, folds: list[Fold], found: Refined, rows: int) -> FusedPath:
    """The knots in the parameter, ascending."""
    values, errors = found.values, found.squares / rows
    knots = tuple(tuple(fold.knots[float(rho)] for rho in values) for fold in folds)
    top = np.inf if found.complete else float(values[-1])
    covered = (float(values[0]), top)
    variation = _variations(final, folds[0], knots[0]) if len(folds) == 1 else None
    if folds[0].program.inverse:
        with np.errstate(divide="ignore"):  # rho = 0 is an infinite weight
            values = 1.0 / values[::-1]
        errors, knots = errors[::-1], tuple(each[::-1] for each in knots)
        covered = (1.0 / top, np.inf)
        variation = None if variation is None else variation[::-1]
    return FusedPath(name, values, errors, knots, covered, (), found.stop, variation)


def _variations(machine: Machine, fold: Fold, knots: tuple[Knot, ...]) -> Array | None:
    """The maximal variation of every component at the knots, where a machine has components."""
    compiled = machine._compiled[0]
    parts = compiled.frame.components
    if len(machine._compiled) > 1 or parts is None or len(parts) < 2:
        return None
    sizes = np.zeros((len(knots), len(parts)))
    for column in range(*compiled.substrate.columns or (1,)):
        places = compiled.places(fold.program.columns, column)[: parts[0].shape[1]]
        Z = np.array([knot.x[places] for knot in knots]) * fold.program.unit
        if compiled.frame.kind == "coefficients":
            signs = compiled.substrate.signs
            Z = Z * signs.reshape(signs.shape[0], -1)[:, column]
        sizes = np.maximum(sizes, np.column_stack([np.abs(Z @ part.T).max(axis=1) for part in parts]))
    return sizes
