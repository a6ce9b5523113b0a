r"""Fusion over two or three parameters: the box, the folds, the search, and the result.

.. math::

    \min_{\theta \in B} \; \frac1n \sum_{j=1}^n (y^v_j - f_\theta(x^v_j))^2 \quad \text{where} \quad
    f_\theta = \arg\min \; \text{the machine at } \theta

[Pelckmans2005]_ eq. (28) with several weights. Every parameter is in the linear term of a quadratic program, at most
one in the quadratic term; the box is covered by simplices with a bound each (:mod:`substrate.fusion.simplex_bound`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from substrate.certificates import Certificate, Row
from substrate.certificates.rows import power_of_two, spread_of
from substrate.composition import Machine
from substrate.fusion.affine_program import AffineProgram
from substrate.fusion.affine_terms import AffineTerms
from substrate.fusion.box import Box, checked_box, levels, parameters_of
from substrate.fusion.determined_errors import DeterminedErrors
from substrate.fusion.faces import Faces, bound_beyond, outer_ends
from substrate.fusion.joint_result import JointFusion, JointPath
from substrate.fusion.knot_store import KnotStore, ProgramFold
from substrate.fusion.output_map import output_map
from substrate.fusion.simplex_search import Progress, Searched, cell_simplices, searched
from substrate.fusion.unproved_search import searched_without_bounds
from substrate.fusion.validation import Validation

__all__ = ["fuse_jointly"]

_RADIUS = (
    "where squares do not determine a variable, its optimum is taken to be within 1000 times its size, or the spread "
    "of y, of the knots; were it k times farther, the effect of rounding on the bound would be at most k times larger"
)
#: The effect of rounding in the few operations of a bound.
_BELOW = 1.0 - 1e-10


def fuse_jointly(
    machines: Sequence[Machine],
    sets: Sequence[Validation],
    final: Machine,
    over: Sequence[Any],
    box: Any,
    gap: float,
    budget: int,
    progress: Progress,
    n_jobs: int,
) -> JointFusion:
    """Choose the values of several parameters whose machine validates best, and bound what all others could do.

    :equation [Pelckmans2005]_ (28): fusion over several weights at once
    """
    names = [parameter.name() for parameter in parameters_of(final, over)]
    terms = [AffineTerms.of(one.problem, parameters_of(one, names)) for one in machines]
    ridge = terms[0].ridge
    ends = checked_box(box, names, names[ridge] if ridge >= 0 else None)
    folds = [_fold(*each, ends) for each in zip(machines, terms, sets, strict=True)]
    store = KnotStore(folds, n_jobs)
    inner = outer_ends(store, ends)
    first = store.add(tuple(high for _, high in inner))
    if not all(fold.reach.determined(own[first].x) for fold, own in zip(store.folds, store.knots, strict=True)):
        found = searched_without_bounds(store, inner, budget, progress)
        return _fusion(final, names, store, sets, found, -np.inf, inner, gap)
    found = searched(store, cell_simplices([levels(one, len(inner)) for one in inner]), gap, budget, progress)
    target = min((1.0 - gap) * float(store.squares.min()), found.lower_bound)
    beyond, covered = bound_beyond(Faces.of(store, ends, inner), target, budget)
    proved = tuple((low, np.inf if k in covered else high) for k, (low, high) in enumerate(inner))
    return _fusion(final, names, store, sets, found, min(found.lower_bound, beyond), proved, gap)


def _fold(machine: Machine, terms: AffineTerms, known: Validation, ends: Box) -> ProgramFold:
    size = max(compiled.spread for compiled in machine._compiled) * float(np.sqrt(machine.substrates[0].n))
    low, high = ends[terms.ridge] if terms.ridge >= 0 else (0.0, 0.0)
    program = AffineProgram(terms, power_of_two(size), low)
    M = output_map(machine, program.columns, program.q0.size, known)
    return ProgramFold(program, M, known.known, DeterminedErrors.of(program, M, high), size)


def _fusion(
    final: Machine,
    names: Sequence[str],
    store: KnotStore,
    sets: Sequence[Validation],
    found: Searched,
    bound: float,
    ends: Box,
    gap: float,
) -> JointFusion:
    rows = sum(known.rows for known in sets)
    best = store.best
    values: dict[str, Any] = dict(zip(names, store.corners[best], strict=True))
    error = float(store.squares[best]) / rows
    lower = _BELOW * min(bound, float(store.squares[best])) / rows
    result = final.solve(**values)
    title = f"Fusion over {' and '.join(names)}"
    facts = [
        *((f"fused over {name}", _range(one)) for name, one in zip(names, ends, strict=True)),
        ("search", f"{store.solves} solves, {len(found.simplices)} simplices; {found.stop}"),
    ]
    proof: list[Row] = []
    if np.isfinite(lower):
        proof.append(_gap_row(error, lower, sets, gap))
        facts.append(("radius of the bound", _RADIUS))
    else:
        facts.append(("no certificate", "the loss is not strongly convex in f, or does not determine the predictions"))
    if len(store.folds) == 1:
        proof.append(_agreement_row(store, sets[0], result))
    certificate = Certificate(title, (*result.certificate.rows, *proof), (*result.certificate.record, *facts))
    path = JointPath(
        tuple(names), np.array(store.corners), store.squares / rows, tuple(tuple(own) for own in store.knots),
        np.array(found.simplices, dtype=np.intp).reshape(-1, len(names) + 1), found.bounds / rows, found.stop,
    )  # fmt: skip
    proved = dict(zip(names, ends, strict=True))
    return JointFusion(values, error, lower, proved, result, path, certificate)


def _range(ends: tuple[float, float]) -> str:
    return f"from {ends[0]:g} on" if np.isinf(ends[1]) else f"from {ends[0]:g} to {ends[1]:g}"


def _gap_row(error: float, lower: float, sets: Sequence[Validation], gap: float) -> Row:
    rows = np.concatenate([known.known for known in sets])
    _, rounding = spread_of(rows, np.ones(rows.size))
    scale = error + 1e-12 * float(np.var(rows)) + rounding**2  # an error of rounding size requires no bound
    return Row("gap of the search", error - lower, scale, gap, "validation error - lower bound over the box")


def _agreement_row(store: KnotStore, known: Validation, result: Any) -> Row:
    fold, knot = store.folds[0], store.knots[0][store.best]
    ours, again = fold.errors(knot), known.errors(result.predict(known.X))
    determined = fold.reach.determined(knot.x)
    tolerance = 1e-5 if determined else 1e-3
    spread, rounding = spread_of(known.known, np.ones(known.known.size))
    size = np.sqrt(known.known.size) * max(spread, rounding / tolerance) + float(np.linalg.norm(ours))
    if determined:  # validation errors magnify those of the fit
        size += fold.program.unit * fold.reach.largest(fold.program.tau(store.corners[store.best]))
    difference = float(np.linalg.norm(again - ours))
    return Row("knot and machine agree", difference, size, tolerance, "||e^v of the knot - e^v of the machine||")
