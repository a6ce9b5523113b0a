r"""Fusion over one to three parameters by chords: the box, the folds, the search, and the result.

.. math::

    \min_{\theta \in B} \; \frac1n \sum_{j=1}^n (y^v_j - f_\theta(x^v_j))^2 \quad \text{where} \quad
    f_\theta = \arg\min \; \text{the machine at } \theta

[Pelckmans2005]_ eq. (28) with several weights. Every parameter is in the linear term of a quadratic program, at most
one in the quadratic term; the box is covered by simplices with a bound each (:mod:`substrate.fusion.simplex_bound`).
One parameter that is the weight of all squares is searched as one over it (:mod:`substrate.fusion.affine_terms`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.certificates.rows import power_of_two
from substrate.composition import Machine
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import Box, check_box, levels, reciprocal_ends
from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.knot_store import KnotStore, ProgramFold
from substrate.fusion.output_map import weighed_map
from substrate.fusion.result import FusedPath, Fusion, JointPath
from substrate.fusion.simplex_search import NOT_COVERED, Progress, Searched, cell_simplices, search_simplices
from substrate.fusion.upper_ends import choose_upper_ends
from substrate.fusion.validated_machine import (
    Candidate,
    certify_search,
    compare_bound,
    describe_missed,
    end_of_search,
    least_error,
    narrower_gap,
    solve_candidates,
)
from substrate.fusion.validation import ValidationSet
from substrate.fusion.validation_loss import SQUARED
from substrate.fusion.variations import component_variations
from substrate.search.best_first import Limits, SpentError, describe_met, end_by

__all__ = ["fuse_jointly"]

#: Share of the gap that the distance of a knot from its optimum may be, and the ends of a knot's gap that is asked for.
_SHARE, _EXACT = 1e-3, (1e-16, 1e-10)
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10
#: The assumption behind the bound, for the record.
_RADIUS = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times its size, or the spread "
    "of y, of the knots; were it k times farther, the effect of rounding on the bound would be at most k times larger"
)


def fuse_jointly(
    machines: Sequence[Machine],
    sets: Sequence[ValidationSet],
    final: Machine,
    terms: Sequence[AffineTerms],
    names: Sequence[str],
    box: Any,
    gap: float,
    limits: Limits,
    progress: Progress,
    n_jobs: int,
) -> Fusion | None:
    """Choose the values of parameters whose machine validates best, and bound what all others could do.

    None where the squares do not determine the predictions, and no chord proves anything.

    :equation [Pelckmans2005]_ (28): fusion over several weights at once
    """
    ridge, inverse = terms[0].ridge, terms[0].inverse
    ends = check_box(box, names, names[ridge] if ridge >= 0 else None)
    ends = tuple(reciprocal_ends(range_) for range_ in ends) if inverse else ends
    folds = [_fold(*each, ends, gap) for each in zip(machines, terms, sets, strict=True)]
    # what is not determined next to zero is so nowhere: the radius that is assumed grows with the point
    if not all(fold.reach.is_determined(np.zeros_like(fold.program.q0)) for fold in folds):
        return None
    store = KnotStore(folds, n_jobs)
    try:
        inner = choose_upper_ends(store, ends, limits)
        first = store.add(tuple(high for _, high in inner))
    except (KeyboardInterrupt, SpentError) as error:
        store.trim()
        stop = end_by(error, bool(store.corners))
        result = Searched(simplices=(), bounds=np.zeros(0), lower_bound=-np.inf, stop=stop, unproved=NOT_COVERED)
        tried = np.array(store.corners)
        reached = tuple((low, float(top)) for (low, _), top in zip(ends, tried.max(axis=0), strict=True))
        return _fusion(final, machines, names, store, sets, result, reached, ends, gap, limits)
    if not all(fold.reach.is_determined(knots[first].x) for fold, knots in zip(store.folds, store.knots, strict=True)):
        return None
    weight = float(sum(validation_set.weight for validation_set in sets))
    least = least_error(sets) * weight
    cells = cell_simplices([levels(machine, len(inner)) for machine in inner])
    asked, earlier = gap, Searched(simplices=(), bounds=np.zeros(0), lower_bound=-np.inf, stop="")
    while True:
        result = search_simplices(store, cells, asked, limits, progress, least)
        store.trim()
        if result.lower_bound < earlier.lower_bound:  # a limit ended it before it was where the earlier one was
            result = replace(earlier, stop=result.stop)
        earlier = result
        if result.stop == describe_met(asked):
            result = replace(result, stop=describe_met(gap))
        fusion = _fusion(final, machines, names, store, sets, result, inner, ends, gap, limits)
        # the machine is solved to the tolerance of its solver, and has to meet the gap as well
        best = float(store.squares.min()) / weight
        asked = narrower_gap(asked, gap, fusion.validation_error, best, fusion.least)
        if fusion.stop != describe_missed(gap) or asked == 0.0:
            break
    limits.spent += store.solves
    return fusion


def _fold(
    machine: Machine, terms: AffineTerms, validation_set: ValidationSet, ends: Box, gap: float = 1.0
) -> ProgramFold:
    size = max(compiled.spread for compiled in machine._compiled) * float(np.sqrt(machine.substrates[0].n))
    low = ends[terms.ridge][0] if terms.ridge >= 0 else 0.0
    # the distance of a knot from its optimum is the root of its gap, and has to be a small share of that asked for
    exact = float(np.clip((_SHARE * gap) ** 2, *_EXACT))
    program = AffineProgram(terms, power_of_two(size), low, exact)
    M, targets = weighed_map(machine, program.columns, program.q0.size, validation_set)
    return ProgramFold(program=program, M=M, targets=targets, reach=DeterminedErrors(program, M), size=size)


def _fusion(
    final: Machine,
    machines: Sequence[Machine],
    names: Sequence[str],
    store: KnotStore,
    sets: Sequence[ValidationSet],
    search: Searched,
    ends: Box,
    given: Box,
    gap: float,
    limits: Limits,
) -> Fusion:
    """Return the result of a search over the box ``ends``, of which ``given`` was asked for."""
    weight = sum(validation_set.weight for validation_set in sets)
    chosen = solve_candidates(final, machines, sets, _candidates(names, store), limits)
    error = chosen.total / weight
    lower = min(_BELOW * min(search.lower_bound, float(store.squares.min())) / weight, error)
    several, inverse = len(names) > 1, store.folds[0].program.terms.inverse
    row = compare_bound(
        "gap of the search" if several else f"gap of {names[0]}",
        f"validation error - lower bound over {'the box' if several else 'the values covered'}",
        error,
        lower,
        gap,
        sets,
    )
    search = replace(search, stop=end_of_search(search.stop, chosen, row))
    kind = "simplices" if several else "intervals"
    facts = [
        *(
            [(f"fused over {name}", _range(range_)) for name, range_ in zip(names, ends, strict=True)]
            if several
            else _describe_line(names[0], store, chosen.values[names[0]], ends[0], math.isinf(given[0][1]))
        ),
        ("search", f"{store.solves} solves, {len(search.simplices)} {kind}; {search.stop}"),
        ("radius of the bound", _RADIUS) if np.isfinite(lower) else ("no certificate", search.unproved),
    ]
    fold, corner = store.folds[0], tuple(_searched(chosen.values[name], inverse) for name in names)
    # where the errors do not determine the predictions, two solvers may differ more; where they do, validation errors
    # magnify those of the fit
    determined = fold.reach.is_determined(store.knots[0][store.best].x)
    agreement = (1e-5, fold.program.unit * fold.reach.largest(fold.program.tau(corner))) if determined else (1e-3, 0.0)
    title = f"Fusion over {' and '.join(names)}"
    certificate = certify_search(title, chosen, row, sets, agreement, facts, len(store.corners))
    path: Any = JointPath(
        parameters=tuple(names),
        values=np.array(store.corners),
        validation_errors=store.squares / weight,
        knots=tuple(tuple(knots) for knots in store.knots),
        simplices=np.array(search.simplices, dtype=np.intp).reshape(-1, len(names) + 1),
        bounds=search.bounds / weight,
        stop=search.stop,
        solves=store.solves,
    )
    if not several:
        path = _line(names[0], final, store, ends[0], weight, search.stop)
    return Fusion(
        values=chosen.values,
        validation_error=error,
        lower_bound=lower,
        proved_on={
            name: reciprocal_ends(range_) if inverse else range_ for name, range_ in zip(names, ends, strict=True)
        },
        result=chosen.result,
        path=path,
        certificate=certificate,
        loss=SQUARED.words,
        least=least_error(sets),
        folds=chosen.folds,
        estimate=limits.estimate,
    )


def _line(
    name: str, final: Machine, store: KnotStore, ends: tuple[float, float], weight: float, stop: str
) -> FusedPath:
    """Return the knots over one parameter, ascending."""
    values = np.array(store.corners).ravel()
    if store.folds[0].program.terms.inverse:
        with np.errstate(divide="ignore"):  # zero is an infinite weight
            values, ends = 1.0 / values, reciprocal_ends(ends)
    order = np.argsort(values)
    knots = tuple(tuple(knots_of_fold[k] for k in order) for knots_of_fold in store.knots)
    variation = component_variations(final, store.folds[0], knots[0]) if len(knots) == 1 else None
    return FusedPath(
        parameter=name,
        values=values[order],
        validation_errors=store.squares[order] / weight,
        knots=knots,
        coverage=ends,
        stop=stop,
        maximal_variation=variation,
        solves=store.solves,
    )


def _searched(value: float, inverse: bool) -> float:
    """Return the parameter of the search at a weight: the weight, or one over it."""
    return 1.0 / value if inverse else value


def _describe_line(
    name: str, store: KnotStore, chosen: float, ends: tuple[float, float], vanishes: bool
) -> list[tuple[str, str]]:
    """State what was searched over one parameter, and where the choice is at an end of it.

    ``vanishes`` is whether the upper end is where what it weighs has vanished.
    """
    inverse = store.folds[0].program.terms.inverse
    values, value = np.array(store.corners).ravel(), _searched(chosen, inverse)
    facts = [("fused over", f"{f'1/{name}' if inverse else name} {_range(ends)}")]
    if inverse:
        facts.append(("chosen", f"{name} = {chosen:.6g}; the machine is the one divided by it"))
    at, of_ends = (f"{name} = {chosen:g}", ("upper", "lower")) if inverse else (f"{value:g}", ("lower", "upper"))
    if value <= values.min():
        facts.append(("choice", f"at {at}, the {of_ends[0]} end of its range"))
    elif vanishes and store.squares[values.argmax()] <= (1.0 + 1e-9) * store.squares.min():
        words = "smallest" if inverse else "largest"
        facts.append(("choice", f"at {at}; the {words} values of its range validate as well"))
    elif value >= values.max() * (1.0 - 1e-15):
        facts.append(("choice", f"at {at}, the {of_ends[1]} end of its range; box= looks further"))
    return facts


def _candidates(names: Sequence[str], store: KnotStore) -> Iterator[Candidate]:
    """Yield the corners by their error; after one with a weight of zero also the tiny weight that its knot was
    solved at.
    """
    program = store.folds[0].program
    inverse = program.terms.inverse
    for k in np.argsort(store.squares, kind="stable"):
        errors = np.concatenate([fold.errors(knots[k]) for fold, knots in zip(store.folds, store.knots, strict=True)])
        for corner in dict.fromkeys((store.corners[k], program.solved_at(store.corners[k]))):
            if not inverse or corner[0] > 0.0:  # one over zero is no weight
                values = {n: _searched(v, inverse) for n, v in zip(names, corner, strict=True)}
                optima = _optima(store, int(k)) if corner == store.corners[k] else ()
                yield Candidate(values, errors, optima=optima)


def _optima(store: KnotStore, k: int) -> tuple[tuple[Array, Array], ...]:
    """Return the points and multipliers of a knot, fold by fold, in the numbers of its machine."""
    optima = []
    for fold, knots in zip(store.folds, store.knots, strict=True):
        program, knot = fold.program, knots[k]
        # a program in one over a weight is the machine divided by it
        factor = program.unit / store.corners[k][0] if program.terms.inverse else program.unit
        optima.append((program.unit * knot.x, factor * knot.dual))
    return tuple(optima)


def _range(ends: tuple[float, float]) -> str:
    return f"from {ends[0]:g} to {ends[1]:g}"
