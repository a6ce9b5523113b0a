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
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import positive
from substrate.certificates.rows import power_of_two
from substrate.composition import Machine
from substrate.errors import DeclarationError, SolverError
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import check_box, parameters_of
from substrate.fusion.error_gram import ErrorGram
from substrate.fusion.fold import Fold
from substrate.fusion.interval_proof import IntervalProof
from substrate.fusion.joint import fuse_jointly
from substrate.fusion.machine_fusion import RANGE, MachineFamily, fuse_over_box
from substrate.fusion.output_map import weighed_map
from substrate.fusion.parametric_qp import ParametricQP
from substrate.fusion.refinement import Refined, refine
from substrate.fusion.result import FusedPath, Fusion
from substrate.fusion.shaped_fusion import fuse_shaped
from substrate.fusion.simplex_proof import RADIUS
from substrate.fusion.unsaved_proof import UnsavedProof
from substrate.fusion.validated_machine import (
    Candidate,
    ValidatedMachine,
    certify_search,
    end_of_search,
    least_error,
    solve_candidates,
)
from substrate.fusion.validation import ValidationSet, check_pair, check_validation, folds_of
from substrate.fusion.validation_loss import SQUARED, check_loss
from substrate.fusion.variations import component_variations
from substrate.search.best_first import Limits, Progress, SpentError, end_by, late_progress

__all__ = ["fuse"]

#: Largest number of solves, for one parameter and for several.
_BUDGETS = (500, 2000)
#: Solves of a fold over one weight by simplices, before the refinement of one parameter is tried.
_FIRST = 80


def fuse(
    machine: Any,
    over: Any,
    validation: tuple[Any, ...] | None = None,
    cv: Any = None,
    gap: float = 1e-3,
    *,
    loss: Any = "squared",
    data: tuple[Any, ...] | None = None,
    box: Any = None,
    budget: int | None = None,
    time_limit: float | None = None,
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
        The parameter, a ``cvxpy.Parameter(nonneg=True)`` or its name: the weight of a term of the objective. Where it
        is in the linear term of a quadratic program whose squares determine the predictions (the weight of a 1-norm or
        a maximum beside squared errors), or the weight of all squares there, every value of it is covered. Elsewhere
        (C of a tube, hinge or pinball loss with a bias, a ridge beside squared errors and constraints, logistic
        losses) a range is: ``box``, or from 1e-3 to 1e3 (:mod:`substrate.fusion.universal_bound`). The width of a tube
        and the bound of a constraint are parameters too, with a range in ``box``. Two or three parameters, as a tuple,
        are chosen together. With three, the search may spend its budget before the gap is met, and says so. A machine
        with shapes that hold everywhere (:class:`~substrate.Everywhere`) has one parameter, a weight of squared errors
        or of the norm, and the bound is for the machines of the infinite problem
        (:mod:`substrate.fusion.shaped_chord`).
    validation
        Points and targets to validate on; a machine whose outputs have names takes a dict of targets, with None for
        an output that is not validated, and the sum of the outputs' errors is minimised. ``(X, y, weights)`` weighs
        the rows.
    cv
        A number of folds, ``"loo"``, a scikit-learn splitter or a list of ``(train, test)`` rows, for a function or
        an estimator, with ``data``. As in scikit-learn, a number of folds means consecutive rows, stratified in
        classification.
    gap
        Relative distance between validation error and lower bound at which the search ends.
    loss : {"squared", "mean_absolute", "pinball", "hinge", "log_loss"} or ("pinball", level)
        What is taken of the targets and predictions of the validation rows; the certificate states it. Labels -1 and
        +1 for the last two. Losses other than squares are proved over a range, ``box``.
    data
        X and y, for a function or an estimator; y is a dict of targets for a function whose machine has named outputs.
        With weights of rows, ``(X, y, weights)``, the function is called with all three, and the folds are weighed.
    box
        The values of the parameters that are considered: ``{parameter or name: (low, high)}``. Unless given, of
        several a weight of the linear term is considered from zero on, and the weight of squares from 1e-3 to 1e3; its
        lower end must be above zero. A parameter in a constraint needs a range. ``proved_on`` of the result states
        where the bound holds.
    budget
        Largest number of solves, 500 for one parameter and 2000 for several unless given; a search that uses all of
        them reports it.
    time_limit
        Largest number of seconds, from the call on; None: as long as it takes. A solve that has begun is finished, and
        the machine that is returned is solved after it. The result's ``estimate`` is what was expected.
    up_to
        The largest value of the parameter that is considered, or of 1/parameter where it is the weight of all squares;
        ``None`` ends where a larger one changes nothing.
    n_jobs
        How many folds are solved at a time.
    progress
        Called with the number of solves, the best error and the bound (sums of squares) during the search; True writes
        them to a terminal, None does so from ten seconds on, with an estimate of the time. One of more than ten
        minutes is a :class:`~substrate.errors.LongFitWarning` too.

    Returns
    -------
    Fusion
        Its ``validation_error`` is that of what its ``predict`` returns for the validation rows; with ``cv`` it is that
        of the machines of the folds, which are its ``folds``. The certificate holds where the gap is proved, relative
        to the validation error or to a millionth of the variance of the targets where that is more. An interrupt or a
        spent budget ends the search with the best machine so far; ``stop`` says so, and the certificate does not hold.
    """
    target, judged = positive(gap, "gap"), check_loss(loss)
    several = isinstance(over, (list, tuple)) and len(over) > 1
    budget = (_BUDGETS[several]) if budget is None else budget
    for name, count in (("budget", budget), ("n_jobs", n_jobs)):
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DeclarationError(f"{name} must be a positive integer, received {count!r}")
    limits = Limits(budget, np.inf if time_limit is None else positive(time_limit, "time_limit"))
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
        if time_limit is not None:
            raise DeclarationError("time_limit is for machines; an estimator follows its path to the end of its range")
        if judged != SQUARED:
            raise DeclarationError(f"an estimator is validated by squared errors; fuse a Machine for loss={loss!r}")
        fused: Fusion = machine.__fuse__(over, validation=validation, cv=cv, gap=target, data=data, **options)
        return fused
    if options:
        raise DeclarationError(f"fuse has no options {sorted(options)}")
    if isinstance(machine, Machine):
        if validation is None or cv is not None:
            raise DeclarationError(
                "a machine is fused with validation=(X, y); for folds pass a function (X, y) -> Machine, data and cv"
            )
        machines, sets = [machine], [check_validation(machine, *check_pair(validation, "validation"), judged)]
        final = machine
    elif callable(machine):
        machines, sets, final = folds_of(machine, data, cv, validation, judged)
    else:
        raise DeclarationError(
            f"fuse needs a Machine, a function (X, y) -> Machine or an estimator, received {machine!r}"
        )
    with ExitStack() as stack:  # the parameters of a machine have one value at a time
        for each in {id(each): each for each in (*machines, final)}.values():
            stack.enter_context(each.lock)
        names = _names(final, over)
        ends = _given_ends(names, box)
        late = stack.enter_context(late_progress("fuse", limits))
        shown = late if progress is None else _choose_progress(progress)
        if any(each.shapes is not None for each in (*machines, final)):
            if len(names) > 1:
                raise DeclarationError("with a shape that holds everywhere fuse takes one parameter, a weight")
            range_ = ends[0] or (RANGE if top is None else _range_up_to(top, False))
            return fuse_shaped(machines, sets, final, names[0], range_, target, limits, shown)
        first: Fusion | None = None
        refusal = None
        if judged == SQUARED and (several or (box is None and top is None)):
            result = _by_simplices(machines, sets, final, names, box, target, limits, shown, n_jobs)
            if isinstance(result, DeclarationError):
                refusal = result
            elif several or _is_final(result, limits, len(machines)):
                return result
            else:
                first = result
        try:
            second = _by_intervals_or_cells(
                machines,
                sets,
                final,
                names,
                box is None and judged == SQUARED,
                top,
                ends,
                refusal,
                target,
                limits,
                shown,
                n_jobs,
            )
        except (KeyboardInterrupt, SolverError, SpentError) as error:
            if first is None:
                raise
            return _restate_stop(first, end_by(error, True))
        if first is None or second.certificate.holds or second.gap <= first.gap:
            return second
        kept: dict[str, Any] = dict(first.values)
        with suppress(KeyboardInterrupt, SolverError):  # the expressions of the substrates have the second's values
            final.solve(**kept)
        return first


def _is_final(result: Fusion, limits: Limits, folds: int) -> bool:
    """Return whether a first search over one weight needs no second one: it proves the gap, or nothing more may be
    solved.
    """
    spent = limits.spent + folds > limits.budget or limits.seconds_left <= 0.0
    return result.certificate.holds or "interrupted" in result.stop or spent


def _restate_stop(result: Fusion, stop: str) -> Fusion:
    """Return the result of a first search where the second one ended before it found anything."""
    words = f"{result.stop}; then {stop}"
    record = tuple(
        (title, text.replace(result.stop, words) if title == "search" else text)
        for title, text in result.certificate.record
    )
    return replace(
        result, path=replace(result.path, stop=words), certificate=replace(result.certificate, record=record)
    )


def _by_intervals_or_cells(
    machines: list[Machine],
    sets: list[ValidationSet],
    final: Machine,
    names: list[str],
    chords: bool,
    top: float | None,
    ends: list[tuple[float, float] | None],
    refusal: DeclarationError | None,
    gap: float,
    limits: Limits,
    progress: Progress,
    n_jobs: int,
) -> Fusion:
    """Return the fusion over one weight by chords between knots, or over a box by the universal bound.

    ``chords`` is whether the first are asked for: squared validation errors, and no range.
    """
    parameters = [parameters_of(each, names) for each in machines]
    folds: list[Fold] | DeclarationError = DeclarationError("")
    if len(names) == 1 and chords:
        folds = _folds(machines, [parameter for (parameter,) in parameters], sets)
    if isinstance(folds, DeclarationError) or not all(np.isfinite(fold.sigma) for fold in folds):
        if top is not None:
            inverse = not isinstance(folds, DeclarationError) and folds[0].program.inverse
            ends = [_range_up_to(top, inverse)]
        families = _families(machines, parameters, sets, folds, refusal)
        if families is not None:
            return fuse_over_box(families, machines, sets, final, names, ends, gap, limits, progress)
    assert not isinstance(folds, DeclarationError)
    least = least_error(sets) * sum(validation_set.weight for validation_set in sets)
    path = refine(folds, gap, limits, progress, n_jobs, top, least)
    return _fusion(final, machines, names[0], folds, sets, path, gap, limits)


def _names(machine: Machine, over: Any) -> list[str]:
    """Return the names of the parameters that are fused over."""
    if isinstance(over, (list, tuple)) and len(over) > 1:
        return [parameter.name() for parameter in parameters_of(machine, over)]
    over = over[0] if isinstance(over, (list, tuple)) and over else over
    return [_parameter(machine, over).name()]


def _by_simplices(
    machines: list[Machine],
    sets: list[ValidationSet],
    final: Machine,
    names: list[str],
    box: Any,
    gap: float,
    limits: Limits,
    progress: Progress,
    n_jobs: int,
) -> Fusion | DeclarationError:
    """Return the fusion over weights by chords over simplices, or why there are none.

    One weight of squares is left to others: as its inverse, or over a range.
    """
    try:
        terms = [AffineTerms.of(machine.problem, parameters_of(machine, names)) for machine in machines]
    except DeclarationError as refusal:
        return refusal
    if len(names) == 1 and terms[0].ridge >= 0:
        return DeclarationError("")
    if len(names) > 1:
        result = fuse_jointly(machines, sets, final, names, box, gap, limits, progress, n_jobs)
        return DeclarationError("") if result is None else result
    # near a weight of zero the refinement of one parameter has better knots, and proves more
    first = replace(limits, budget=min(limits.budget, _FIRST * len(machines)))
    try:
        result = fuse_jointly(machines, sets, final, names, box, gap, first, progress, n_jobs)
    except DeclarationError as refusal:  # no upper end is found
        return refusal
    finally:
        limits.spent, limits.estimate = first.spent, first.estimate
    return DeclarationError("") if result is None else result


def _folds(machines: list[Machine], parameters: list[Any], sets: list[ValidationSet]) -> list[Fold] | DeclarationError:
    """Return the programs of the folds, or why they are not quadratic programs with the parameter in the linear
    term.
    """
    try:
        return [
            _fold(machine, parameter, validation_set)
            for machine, parameter, validation_set in zip(machines, parameters, sets, strict=True)
        ]
    except DeclarationError as refusal:
        return refusal


def _families(
    machines: list[Machine],
    parameters: list[list[Any]],
    sets: list[ValidationSet],
    folds: list[Fold] | DeclarationError,
    joint: DeclarationError | None,
) -> list[MachineFamily] | None:
    """Return what the universal bound needs of the folds; None where it does not apply and another search does."""
    try:
        return [MachineFamily(*each) for each in zip(machines, parameters, sets, strict=True)]
    except DeclarationError as refusal:
        if isinstance(folds, DeclarationError):
            raise (joint if joint is not None and str(joint) else refusal) from refusal
        return None


def _given_ends(names: list[str], box: Any) -> list[tuple[float, float] | None]:
    """Return the ranges that are given, in the order of names."""
    check_box(box, names, None, signed=True)
    ends_by_name = {key.name() if isinstance(key, cp.Parameter) else key: ends for key, ends in (box or {}).items()}
    ends_found = []
    for name in names:
        ends = ends_by_name.get(name)
        ends_found.append(None if ends is None else (float(ends[0]), float(ends[1])))
    return ends_found


def _range_up_to(top: float, inverse: bool) -> tuple[float, float]:
    """Return the values of a weight up to the largest that is considered, or of its inverse."""
    low, high = RANGE
    return (1.0 / top, max(high, 1e3 / top)) if inverse else (min(low, 1e-3 * top), top)


def _choose_progress(progress: Progress | bool) -> Progress:
    """Return the function called during the search: the user's, one that writes a line to a terminal, or none."""
    if callable(progress):
        return progress
    if not progress or not sys.stderr.isatty():
        return lambda *_: None
    return lambda solves, best, lower: print(
        f"\rfuse: {solves} solves, squares {best:.6g}, bound {lower:.6g} ", end="", file=sys.stderr, flush=True
    )


def _parameter(machine: Machine, over: Any) -> Any:
    if isinstance(over, (list, tuple, set, frozenset, dict)):
        raise DeclarationError(f"give several parameters as a tuple, over=(first, second), received {over!r}")
    name = over.name() if isinstance(over, cp.Parameter) else over
    if not isinstance(name, str):
        raise DeclarationError(f"over is a cvxpy.Parameter or its name, received {over!r}")
    by_name = {parameter.name(): parameter for parameter in machine.problem.parameters()}
    if name not in by_name:
        raise DeclarationError(f"the machine has no parameter {name!r}; it has {sorted(by_name)}")
    parameter = by_name[name]
    weighs = any(parameter_of_problem is parameter for parameter_of_problem in machine.problem.objective.parameters())
    if not parameter.is_scalar() or (weighs and not parameter.is_nonneg()):
        raise DeclarationError(f"{name!r} must be one non-negative number: cp.Parameter(nonneg=True, name={name!r})")
    missing = sorted(
        name_of_other
        for name_of_other, parameter_of_problem in by_name.items()
        if name_of_other != name and parameter_of_problem.value is None
    )
    if missing:
        raise DeclarationError(f"parameters {missing} have no value; give them one before fusing over {name!r}")
    return parameter


def _fold(machine: Machine, parameter: Any, validation_set: ValidationSet) -> Fold:
    """Return the program of a machine, and the affine map from its solution to validation errors."""
    size = max(compiled.spread for compiled in machine._compiled) * float(np.sqrt(machine.substrates[0].n))
    dense = [compiled.z.id for compiled in machine._compiled]
    program = ParametricQP(machine.problem, parameter, power_of_two(size), dense)
    M, targets = weighed_map(machine, program.columns, program.q0.size, validation_set)
    tie = program.tie(M, program.solve(size).x)
    sigma, remainder = (np.inf, 0.0) if tie is None else (tie.factor, tie.remainder)
    directions = ErrorGram.of(program.program, M) if np.isfinite(sigma) else None
    return Fold(
        program=program,
        M=M,
        errors_at_zero=targets,
        sigma=sigma,
        knots={},
        remainder=remainder,
        size=size,
        directions=directions,
    )


def _fusion(
    final: Machine,
    machines: list[Machine],
    name: str,
    folds: list[Fold],
    sets: list[ValidationSet],
    refined_search: Refined,
    gap: float,
    limits: Limits,
) -> Fusion:
    weight = sum(validation_set.weight for validation_set in sets)
    inverse = folds[0].program.inverse
    order = refined_search.order(positive=inverse)  # at rho = 0 the weight 1/rho is infinite
    knots = [float(refined_search.values[k]) for k in order]
    chosen = solve_candidates(final, machines, sets, (_candidate(name, rho, folds, inverse) for rho in knots), limits)
    refined_search = replace(refined_search, stop=end_of_search(refined_search.stop, chosen))
    value = chosen.values[name]
    error = chosen.total / weight
    lower = min(refined_search.lower_bound / weight, error)
    searched = f"1/{name}" if inverse else name
    reach = "on" if refined_search.complete else f"to {refined_search.values[-1]:g}"
    facts = [
        ("fused over", f"{searched} from {refined_search.values[0]:g} {reach}"),
        ("search", f"{refined_search.solves} solves, {refined_search.values.size} knots; {refined_search.stop}"),
        *refined_search.ends(1.0 / value if inverse else value),
    ]
    if inverse:
        facts.append(("chosen", f"{name} = {value:.6g}; the machine is the one divided by it"))
    if np.isfinite(lower):
        facts.append(("radius of the bound", RADIUS))
    else:
        facts.append(("no certificate", "the loss is not strongly convex in f, or does not determine the predictions"))
    determined = bool(np.isfinite(folds[0].sigma))
    # where the errors do not determine the predictions, two solvers may differ more; where they do, validation errors
    # magnify those of the fit
    sigma = max(fold.sigma * fold.program.unit for fold in folds)
    agreement = (1e-5, sigma) if determined else (1e-3, 0.0)
    formula = "validation error - lower bound over the values covered"
    row = (f"gap of {name}", formula)
    certificate = certify_search(
        f"Fusion over {name}", chosen, error, lower, gap, sets, row, agreement, facts, refined_search.values.size
    )
    path = _path(name, final, folds, refined_search, weight)
    return Fusion(
        values=chosen.values,
        validation_error=error,
        lower_bound=lower,
        proved_on={name: path.coverage},
        result=chosen.result,
        path=path,
        certificate=certificate,
        loss=SQUARED.words,
        least=least_error(sets),
        folds=chosen.folds,
        proof=_collect_proof(name, chosen, error, lower, folds, refined_search, path.coverage, gap, sets),
        estimate=limits.estimate,
    )


def _collect_proof(
    name: str,
    chosen: ValidatedMachine,
    error: float,
    lower: float,
    folds: list[Fold],
    search: Refined,
    coverage: tuple[float, float],
    gap: float,
    sets: list[ValidationSet],
) -> IntervalProof | UnsavedProof:
    """Return the numbers behind the bound, or why there are none."""
    if not np.isfinite(lower):
        return UnsavedProof(f"nothing is proved over all values: {search.stop}")
    statement = {
        "names": (name,),
        "values": chosen.values,
        "validation_error": error,
        "lower_bound": lower,
        "gap": gap,
        "divisor": float(sum(validation_set.weight for validation_set in sets)),
        "least": least_error(sets),
    }
    try:
        return IntervalProof.of(folds, search.values, coverage, statement)
    except KeyboardInterrupt:
        return UnsavedProof("interrupted while the numbers of the proof were collected; fuse again to save it")


def _candidate(name: str, rho: float, folds: list[Fold], inverse: bool) -> Candidate:
    """Return the value of a knot, with its validation errors."""
    errors = np.concatenate([fold.errors(fold.knots[rho]) for fold in folds])
    return Candidate({name: 1.0 / rho if inverse else rho}, errors)


def _path(name: str, final: Machine, folds: list[Fold], refined_search: Refined, weight: float) -> FusedPath:
    """Return the knots in the parameter, ascending."""
    values, errors = refined_search.values, refined_search.squares / weight
    knots = tuple(tuple(fold.knots[float(rho)] for rho in values) for fold in folds)
    top = np.inf if refined_search.complete else float(values[-1])
    covered = (float(values[0]), top)
    variation = component_variations(final, folds[0], knots[0]) if len(folds) == 1 else None
    if folds[0].program.inverse:
        with np.errstate(divide="ignore"):  # rho = 0 is an infinite weight
            values = 1.0 / values[::-1]
        errors, knots = errors[::-1], tuple(each[::-1] for each in knots)
        covered = (1.0 / top, np.inf)
        variation = None if variation is None else variation[::-1]
    return FusedPath(
        parameter=name,
        values=values,
        validation_errors=errors,
        knots=knots,
        coverage=covered,
        holes=(),
        stop=refined_search.stop,
        maximal_variation=variation,
    )
