"""The machine that a fusion returns: solved at the chosen values, and validated as it will predict.

A search compares knots, points of a quadratic program. Where the optimum at some values is not unique, as at a weight
of zero, the machine that a solver returns there can be another one than the knot and predict otherwise. So the machine
at the best knot is solved and validated itself, and where it does not validate as its knot did, those at the next best
knots are: the error that is reported is that of the predictions of what is returned.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates import Certificate, Row
from substrate.certificates.rows import spread_of
from substrate.composition import Machine
from substrate.errors import SolverError
from substrate.fusion.validation import Validation

__all__ = [
    "MARGIN",
    "Candidate",
    "ValidatedMachine",
    "certify_search",
    "describe_values",
    "solve_candidates",
    "state_proof",
]

#: Share of the gap within which a search stays, so that the solver's rounding of the machine returned is inside it too.
MARGIN = 1e-2
#: How many machines are solved at most until one validates as its knot did.
_TRIALS = 5
#: Relative excess of the sum of squares over that of the knot at which the two count as the same machine.
_AGREES = 1e-6
#: Error below this share of the variance of the targets counts as none.
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Candidate:
    """Values of the parameters, and the validation errors of the knot there (None: those of several folds)."""

    values: dict[str, float]
    errors: Array | None


@dataclass(frozen=True, slots=True)
class ValidatedMachine:
    """The values chosen, the machine there, and the validation errors of its predictions and of its knot.

    Both are None where the machine was validated in folds, whose rows are among those it is trained on.
    """

    values: dict[str, float]
    result: Any
    errors: Array | None
    knot: Array | None

    @property
    def squares(self) -> float:
        """The sum of squares of the predictions on the validation rows; infinite where there are none."""
        return np.inf if self.errors is None else float(self.errors @ self.errors)


def solve_candidates(machine: Machine, candidates: Iterable[Candidate], known: Validation | None) -> ValidatedMachine:
    """Solve the machine at the candidates, the best first, until one validates as its knot did; return the best."""
    best: ValidatedMachine | None = None
    failure: SolverError | None = None
    latest: ValidatedMachine | None = None
    for candidate in islice(candidates, _TRIALS):
        try:
            latest = _solve(machine, candidate, known)
        except SolverError as error:
            failure = failure or error
            continue
        best = latest if best is None or latest.squares < best.squares else best
        if known is None or candidate.errors is None or _agrees(latest, candidate.errors, known):
            break
    if best is None:
        raise failure or SolverError("the search found no values at which the machine can be solved")
    if best is not latest:  # the expressions of its substrates have the values of the machine solved last
        best = _solve(machine, Candidate(best.values, best.knot), known)
    return best


def _solve(machine: Machine, candidate: Candidate, known: Validation | None) -> ValidatedMachine:
    given: dict[str, Any] = dict(candidate.values)
    result = machine.solve(**given)
    errors = None if known is None else known.errors(result.predict(known.X))
    return ValidatedMachine(candidate.values, result, errors, candidate.errors)


def _agrees(found: ValidatedMachine, knot: Array, known: Validation) -> bool:
    nothing = _NOTHING * known.known.size * float(np.var(known.known))
    return found.squares <= (1.0 + _AGREES) * float(knot @ knot) + nothing


def certify_search(
    title: str,
    chosen: ValidatedMachine,
    error: float,
    lower: float,
    gap: float,
    sets: Iterable[Validation],
    gap_row: tuple[str, str],
    agreement: tuple[float, float],
    facts: Iterable[tuple[str, str]],
) -> Certificate:
    """Report the machine that is returned, and what is proved about other values of the parameters.

    ``gap_row`` is the name and the formula of the row for the gap, which fails where nothing is proved; ``agreement``
    the tolerance of the row that compares knot and machine, and what is added to its scale.
    """
    rows = np.concatenate([known.known for known in sets])
    spread, rounding = spread_of(rows, np.ones(rows.size))
    # an error of rounding size requires no bound
    scale = error + 1e-12 * float(np.var(rows)) + rounding**2
    name, formula = gap_row
    found = [Row(name, error - lower if np.isfinite(lower) else np.inf, scale, gap, formula)]
    if not found[0].passes:
        title += f" ({describe_values(chosen.values)}, validation error {error:.4g}: {state_proof(found[0])})"
    if chosen.errors is not None and chosen.knot is not None:
        tolerance, more = agreement
        size = np.sqrt(rows.size) * max(spread, rounding / tolerance) + float(np.linalg.norm(chosen.knot)) + more
        difference = float(np.linalg.norm(chosen.errors - chosen.knot))
        formula = "||e^v of the knot - e^v of the machine||"
        found.append(Row("knot and machine agree", difference, size, tolerance, formula))
    machine = chosen.result.certificate
    return Certificate(title, (*machine.rows, *found), (*machine.record, *facts))


def describe_values(values: dict[str, float]) -> str:
    """State the values of parameters, as on the first line of a certificate."""
    return ", ".join(f"{name} = {value:.4g}" for name, value in values.items())


def state_proof(row: Row) -> str:
    """State how much of a gap that was asked for is proved."""
    if not np.isfinite(row.value):
        return "the best that was found, not proved to be the best there is"
    return f"proved to be within {row.relative:.2g} of the best there is, not within {row.tolerance:g}"
