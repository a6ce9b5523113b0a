"""The machine that a fusion returns: solved at the chosen values, and validated as it will predict.

A search compares knots, points of a quadratic program. Where the optimum at some values is not unique, as at a weight
of zero, the machine that a solver returns there can be another one than the knot and predict otherwise. So the machine
at the best knot is solved and validated itself, and where it does not validate as its knot did, those at the next best
knots are: the error that is reported is that of the predictions of what is returned.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import spread_of
from substrate.composition import Machine
from substrate.errors import SolverError
from substrate.fusion.validation import ValidationSet
from substrate.fusion.validation_loss import SQUARED
from substrate.search.best_first import Limits, describe_met

__all__ = [
    "MARGIN",
    "Candidate",
    "PlaceInProgram",
    "ValidatedMachine",
    "certify_search",
    "compare_bound",
    "describe_missed",
    "describe_values",
    "end_of_search",
    "least_error",
    "narrower_gap",
    "solve_candidates",
    "state_proof",
]

#: Share of the gap within which a search stays, so that the solver's rounding of the machine returned is inside it too.
MARGIN = 1e-2
#: How many machines are solved at most until one validates as its knot did.
_TRIALS = 5
#: Relative excess of the sum of squares over that of the knot at which the two count as the same machine.
_AGREES = 1e-6
#: Largest relative difference of the predictions of a machine from those of its place in the program, and of the
#: objective there from its lower bound, for a machine that is another optimum than its knot.
_SAME_PREDICTIONS, _OPTIMAL = 1e-6, 1e-6
#: Largest share of a gap that was met, and smallest share of the first one, that a search goes on for.
_FASTER, _LEAST_ASKED = 0.9, 0.1
#: Error below this share of the variance of the targets counts as none.
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of the parameters, and the validation errors of the knots there, fold by fold.

    ``locate`` says where the machines that were solved last are in the programs of the search, where that is known;
    ``optima`` are points and multipliers of the folds, which are taken where the solver's machines validate otherwise
    than the knots: of several optima, or by the tolerance of the solver.
    """

    values: dict[str, float]
    errors: Array
    locate: "Callable[[], PlaceInProgram] | None" = None
    optima: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class PlaceInProgram:
    """Validation errors of solved machines by the programs of a search, and how far they are from an optimum there.

    ``excess`` is the largest difference of an objective from a lower bound of it, relative to its size.
    """

    errors: Array
    excess: float


@dataclass(frozen=True, slots=True)
class ValidatedMachine:
    """The values chosen, the machine there, and the validation errors of its predictions and of its knot.

    ``total`` is the sum of the loss of the predictions. With folds it is that of the machines of the folds, which are
    ``folds``: ``result`` is trained on all rows. ``interrupted`` is whether an interrupt ended the choice, ``place``
    where the machines are in the programs of the search.
    """

    values: dict[str, float]
    result: Any
    errors: Array
    knot: Array
    total: float
    folds: tuple[Any, ...] = ()
    interrupted: bool = False
    place: PlaceInProgram | None = None


def solve_candidates(
    final: Machine,
    machines: Sequence[Machine],
    sets: Sequence[ValidationSet],
    candidates: Iterable[Candidate],
    limits: Limits | None = None,
) -> ValidatedMachine:
    """Solve the machines at the candidates, the best first, until they validate as their knots did; return the best.

    An interrupt ends the choice with the best so far, and where there is none yet, with the machine at hand. Where the
    time is spent, one machine is solved.
    """
    best: ValidatedMachine | None = None
    failure: SolverError | None = None
    latest: ValidatedMachine | None = None
    interrupted = False
    best_candidate: Candidate | None = None
    for candidate in islice(candidates, _TRIALS):
        try:
            latest = _solve(final, machines, sets, candidate)
        except SolverError as error:
            failure = failure or error
            continue
        except KeyboardInterrupt:
            interrupted = True
            if best is not None:
                break
            latest = _solve(final, machines, sets, candidate)
        if any(optimum is not None for optimum in candidate.optima) and not _agrees(latest, sets):
            # the knot validates better, and is an optimum as well: one of several, or one that is solved more exactly
            by_solver = latest
            try:
                latest = _solve(final, machines, sets, candidate, adopt=True)
            except (SolverError, KeyboardInterrupt) as error:
                interrupted = interrupted or isinstance(error, KeyboardInterrupt)
                candidate = replace(candidate, optima=())
                latest = _solve(final, machines, sets, candidate)
            if _is_certified(by_solver) and not _is_certified(latest):
                candidate = replace(candidate, optima=())
                latest = _solve(final, machines, sets, candidate)
        else:
            candidate = replace(candidate, optima=())
        if best is None or latest.total < best.total:
            best, best_candidate = latest, candidate
        late = limits is not None and limits.seconds_left <= 0.0
        if interrupted or late or _agrees(latest, sets):
            break
    if best is None or best_candidate is None:
        raise failure or SolverError("the search found no values at which the machine can be solved")
    if best is not latest:  # the expressions of its substrates have the values of the machine solved last
        try:
            best = _solve(final, machines, sets, best_candidate, adopt=True)
        except KeyboardInterrupt:
            interrupted = True
            best = _solve(final, machines, sets, best_candidate, adopt=True)
    return replace(best, interrupted=interrupted)


def _solve(
    final: Machine,
    machines: Sequence[Machine],
    sets: Sequence[ValidationSet],
    candidate: Candidate,
    adopt: bool = False,
) -> ValidatedMachine:
    """Solve the machines at a candidate; with ``adopt``, take the optimum of its knot where that is another one."""
    values_given: dict[str, Any] = dict(candidate.values)
    optima = candidate.optima if adopt and candidate.optima else (None,) * len(machines)
    results = [
        machine.solve_program(**values_given) if optimum is None else machine.take_optimum(*optimum, **values_given)
        for machine, optimum in zip(machines, optima, strict=True)
    ]
    predicted = [
        result.decision_function(validation_set.X) for result, validation_set in zip(results, sets, strict=True)
    ]
    errors = np.concatenate(
        [validation_set.errors(values) for validation_set, values in zip(sets, predicted, strict=True)]
    )
    total = sum(validation_set.total(values) for validation_set, values in zip(sets, predicted, strict=True))
    place = None if candidate.locate is None else candidate.locate()
    if len(machines) == 1 and machines[0] is final:
        return ValidatedMachine(
            values=candidate.values, result=results[0], errors=errors, knot=candidate.errors, total=total, place=place
        )
    return ValidatedMachine(
        values=candidate.values,
        result=final.solve_program(**values_given),
        errors=errors,
        knot=candidate.errors,
        total=total,
        folds=tuple(results),
        place=place,
    )


def _is_certified(machine: ValidatedMachine) -> bool:
    """Return whether the certificates of all machines hold."""
    return all(result.certificate.holds for result in (machine.result, *machine.folds))


def _agrees(machine: ValidatedMachine, sets: Sequence[ValidationSet]) -> bool:
    """Return whether the squares of the machines are those of their knots."""
    targets = np.concatenate([validation_set.stacked_targets for validation_set in sets])
    negligible = _NOTHING * targets.size * float(np.var(targets))
    return float(machine.errors @ machine.errors) <= (1.0 + _AGREES) * float(machine.knot @ machine.knot) + negligible


def compare_bound(
    name: str, formula: str, error: float, lower: float, gap: float, sets: Sequence[ValidationSet]
) -> Row:
    """Return the row that compares the error of the machine with the lower bound; it fails where nothing is proved."""
    targets = np.concatenate([validation_set.stacked_targets for validation_set in sets])
    _, rounding = spread_of(targets, np.ones(targets.size))
    return Row(
        name=name,
        value=error - lower if np.isfinite(lower) else np.inf,
        # an error of rounding size requires no bound
        scale=max(error, least_error(sets)) + (rounding**2 if sets[0].loss == SQUARED else rounding),
        tolerance=gap,
        formula=formula,
    )


def certify_search(
    title: str,
    chosen: ValidatedMachine,
    gap_row: Row,
    sets: Iterable[ValidationSet],
    agreement: tuple[float, float],
    facts: Iterable[tuple[str, str]],
    trials: int,
) -> Certificate:
    """Report the machine that is returned, and what is proved about other values of the parameters.

    ``gap_row`` is that of :func:`compare_bound`; ``agreement`` the tolerance of the row that compares knot and machine,
    and what is added to its scale; ``trials`` how many values were tried.
    """
    validation_sets = list(sets)
    rows = np.concatenate([validation_set.stacked_targets for validation_set in validation_sets])
    spread, rounding = spread_of(rows, np.ones(rows.size))
    rows_found = [gap_row]
    if not gap_row.passes:
        error = chosen.total / sum(validation_set.weight for validation_set in validation_sets)
        proof = state_proof(gap_row, trials, gap_row.value >= error)
        title += f" ({describe_values(chosen.values)}, validation error {error:.4g}: {proof})"
    tolerance, more = agreement
    size = np.sqrt(rows.size) * max(spread, rounding / tolerance) + float(np.linalg.norm(chosen.knot)) + more
    difference = float(np.linalg.norm(chosen.errors - chosen.knot))
    agree = Row(
        name="knot and machine agree",
        value=difference,
        scale=size,
        tolerance=tolerance,
        formula="||e^v of the knot - e^v of the machine||",
    )
    facts = [("validation", validation_sets[0].loss.words), *facts]
    if agree.passes or chosen.place is None:
        rows_found.append(agree)
    else:
        # another optimum of the same program than its knot: the bound is for every optimum, and so for this one
        rows_found += _rows_of_another_optimum(chosen.errors, chosen.place, agree)
        facts.append(("several optima", f"the machine is another one than the knot, {agree.relative:.1g} from it"))
    machine = chosen.result.certificate
    return Certificate(title, (*machine.rows, *rows_found), (*machine.record, *facts))


def _rows_of_another_optimum(errors: Array, place: PlaceInProgram, agree: Row) -> list[Row]:
    """Compare a machine with its own place in the programs of the search, which must be an optimum of them."""
    return [
        replace(
            agree,
            name="program and machine agree",
            value=float(np.linalg.norm(errors - place.errors)),
            tolerance=_SAME_PREDICTIONS,
            formula="||e^v of the machine - e^v of its place in the program||",
        ),
        Row(
            name="optimum of the program",
            value=place.excess,
            scale=1.0,
            tolerance=_OPTIMAL,
            formula="objective at the machine - its lower bound, relative",
        ),
    ]


def describe_missed(gap: float) -> str:
    """State that a search has met its gap, and that the machine it led to has not."""
    return f"the points of the search meet the gap of {gap:g}, the machine that was solved at the best does not"


def narrower_gap(asked: float, gap: float, error: float, best: float, least: float) -> float:
    """Return the gap of the points of a search with which the machine that was solved meets the one that is asked for.

    Zero where the machine is so much worse than the best point that no search is of use.

    Parameters
    ----------
    asked, gap
        The gap that the points have met, and the one that the machine has to meet.
    error, best
        The validation error of the machine, and that of the best point.
    least
        The error below which one counts as none.
    """
    bound = error - gap * max(error, least)
    needed = min((best - bound) / max(best, least), _FASTER * asked)
    return needed if needed >= _LEAST_ASKED * gap else 0.0


def end_of_search(stop: str, chosen: ValidatedMachine, gap_row: Row) -> str:
    """State why a search ended, as the certificate does: with an interrupt of the last solves, and with a gap that its
    points met and the machine that was solved there does not.
    """
    met = describe_met(gap_row.tolerance)
    if stop.startswith(met) and not gap_row.passes:
        stop = describe_missed(gap_row.tolerance) + stop.removeprefix(met)
    return f"{stop}; interrupted while the best machine was solved" if chosen.interrupted else stop


def least_error(sets: Sequence[ValidationSet]) -> float:
    """Return the mean validation error below which one counts as none."""
    return sets[0].loss.least(np.concatenate([validation_set.stacked_targets for validation_set in sets]))


def describe_values(values: dict[str, float]) -> str:
    """State the values of parameters, as on the first line of a certificate."""
    return ", ".join(f"{name} = {value:.4g}" for name, value in values.items())


def state_proof(row: Row, trials: int, is_trivial: bool = False) -> str:
    """State how much of a gap that was asked for is proved: nothing where the bound is trivial, zero for a loss."""
    tried = f"the best of {trials} that were tried"
    if is_trivial or not np.isfinite(row.value):
        return f"{tried}, not proved to be the best there is"
    # as many digits as tell the two apart
    digits = next((k for k in range(2, 17) if float(f"{row.relative:.{k}g}") > row.tolerance), 17)
    return f"{tried}, proved to be within {row.relative:.{digits}g} of the best there is, not within {row.tolerance:g}"
