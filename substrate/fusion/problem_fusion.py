r"""Fusion of any convex problem with a validation error: its parameters chosen with a proof.

.. math::

    \min_{\theta \in B} \; v(x_\theta) \quad \text{where} \quad
    x_\theta = \arg\min_{x \in S} \; \varphi_0(x) + \sum_i \theta_i \, \varphi_i(x) .

[Pelckmans2005]_ eq. (28) for problems of every kind: elastic nets, logistic regression, portfolios, kernel machines.
The bound needs nothing but that the problem and the same problem with v beside it can be solved
(:mod:`substrate.fusion.universal_bound`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.certificates import PROVED, Certificate, Row
from substrate.errors import DeclarationError
from substrate.fusion.cell_paths import record_cells
from substrate.fusion.cell_search import CellSearch
from substrate.fusion.fused_family import FusedFamily
from substrate.fusion.result import Fusion
from substrate.fusion.validated_machine import describe_values, state_proof
from substrate.search.best_first import Limits, Progress

__all__ = ["RADIUS", "RANGE", "fuse_any_problem", "search_facts", "solvable_box"]

#: The values of a weight that are considered unless a range is given.
RANGE = (1e-3, 1e3)
#: How far the objective at the chosen point may be above its smallest value, relative.
_OPTIMAL = 1e-6
#: Share of a range by which it is kept from the end of the values that can be solved.
_INWARD = 1e-6
#: The assumption behind the bound, for the record.
RADIUS = (
    "where no square determines a variable, its optimum is taken to be within 1000 times the largest size that it has "
    "at any point of the search; were it k times farther, the effect of rounding would be at most k times larger"
)


def fuse_any_problem(
    problem: cp.Problem, over: Any, box: Any, validation: Any, gap: float, limits: Limits, progress: Progress
) -> Fusion:
    """Choose the parameters whose optimum validates best, and leave the problem there.

    :equation [Pelckmans2005]_ (28): fusion of training and validation, for a convex problem of any kind
    """
    parameters, ends = _check_parameters(problem, over, box)
    family = FusedFamily(problem, parameters, validation)
    floor = 0.0 if family.validation.is_nonneg() else -np.inf
    search = CellSearch(families=[family], gap=gap, limits=limits, progress=progress, floor=floor)
    ends, cut_off = solvable_box([family], ends)
    search.run(ends)
    return _result(parameters, ends, cut_off, family, search)


def solvable_box(
    families: Sequence[FusedFamily], box: Sequence[tuple[float, float]]
) -> tuple[list[tuple[float, float]], list[tuple[str, str]]]:
    """Cut a box to where all problems have points, for one parameter in constraints; and facts on what was cut off.

    At the very end the constraints leave no inside, and nothing can be proved there: the box begins a millionth of
    its width further in.
    """
    base = families[0].base
    if len(base.placed) != 1:
        return list(box), []
    at = base.placed[0]
    low, high = box[at]
    margin = _INWARD * (high - low)
    for family in families:
        least, most = family.base.extent((low, high))
        low = low if least < low - margin else max(low, least + margin)
        high = high if most > high + margin else min(high, most - margin)
    name = base.parameters[at].name()
    if not low < high:
        raise DeclarationError(
            f"the constraints have no solution for {name!r} from {box[at][0]:g} to {box[at][1]:g}; take other ends"
        )
    if (low, high) == tuple(box[at]):
        return list(box), []
    shrunk = [(low, high) if k == at else ends for k, ends in enumerate(box)]
    words = f"the constraints have solutions with room for {name} from {low:g} to {high:g} only"
    return shrunk, [("range", f"{words}; nothing is said about other values")]


def _result(
    parameters: list[Any],
    box: list[tuple[float, float]],
    cut_off: list[tuple[str, str]],
    family: FusedFamily,
    search: CellSearch,
) -> Fusion:
    error, theta = search.best_vertex
    lower = min(search.lower_bound, error)
    knot = search.knots[theta][0]
    family.sharpen(knot)
    names = [parameter.name() for parameter in parameters]
    values = dict(zip(names, theta, strict=True))
    scale = max(abs(error), search.smallest)
    formula = "validation error - lower bound over the box"
    gap_row = Row(
        name="gap of the search",
        value=error - lower if np.isfinite(lower) else np.inf,
        scale=scale,
        tolerance=search.gap,
        formula=formula,
    )
    size = abs(knot.lowest) + float(np.abs(knot.weights) @ np.abs(knot.terms))
    optimal = Row(
        name="optimality",
        value=knot.epsilon,
        scale=size,
        tolerance=_OPTIMAL,
        formula="objective - its dual bound, at the values chosen",
    )
    title = f"Fusion over {' and '.join(names)}"
    if not gap_row.passes:
        title += (
            f" ({describe_values(values)}, validation error {error:.4g}: {state_proof(gap_row, len(search.knots))})"
        )
    facts = [(f"fused over {name}", f"from {low:g} to {high:g}") for name, (low, high) in zip(names, box, strict=True)]
    if np.isfinite(lower):
        share = f"{error - lower:.2g} above the least over the box"
        facts.append((PROVED, f"validation error {error:.6g}, at most {share}"))
    certificate = Certificate(title, (optimal, gap_row), (*facts, *cut_off, *search_facts(search)))
    for parameter, value in zip(parameters, theta, strict=True):
        parameter.value = value
    family.assign(knot)
    return Fusion(
        values=values,
        validation_error=error,
        lower_bound=lower,
        proved_on=dict(zip(names, box, strict=True)),
        result=None,
        path=record_cells(names, box, search),
        certificate=certificate,
        loss="validation error",
        least=search.smallest,
        estimate=search.limits.estimate,
    )


def search_facts(search: CellSearch) -> list[tuple[str, str]]:
    """State what a search did, what its bound assumes, and which of several optima it speaks of."""
    cells = len(search.cells)
    facts = [("search", f"{search.solves} solves, {len(search.knots)} vertices, {cells} cells; {search.stop}")]
    if np.isfinite(search.lower_bound):
        facts.append(("radius of the bound", RADIUS))
        facts.append(("several optima", "the bound is for the optimum that validates best"))
    return facts


def _check_parameters(problem: cp.Problem, over: Any, box: Any) -> tuple[list[Any], list[tuple[float, float]]]:
    """Return the parameters and their ranges, or why they cannot be fused over."""
    by_name = {parameter.name(): parameter for parameter in problem.parameters()}
    keys = list(over) if isinstance(over, (list, tuple)) else [over]
    if not keys or not all(isinstance(key, (str, cp.Parameter)) for key in keys):
        raise DeclarationError(f"over is a cvxpy.Parameter or its name, or a tuple of them, received {over!r}")
    parameters = []
    for key in keys:
        name = key.name() if isinstance(key, cp.Parameter) else key
        if name not in by_name or (isinstance(key, cp.Parameter) and by_name[name] is not key):
            raise DeclarationError(f"the problem has no parameter {name!r}; it has {sorted(by_name)}")
        if not by_name[name].is_scalar():
            raise DeclarationError(f"{name!r} must be one number, it has the shape {by_name[name].shape}")
        parameters.append(by_name[name])
    missing = sorted(n for n, p in by_name.items() if p.value is None and not any(p is chosen for chosen in parameters))
    if missing:
        raise DeclarationError(f"the parameters {missing} have no value; give them one, or fuse over them too")
    if box is not None and not isinstance(box, Mapping):
        raise DeclarationError(f"box is a dict of ranges, {{weight: (1e-2, 1e3)}}, received {box!r}")
    given = {key.name() if isinstance(key, cp.Parameter) else key: ends for key, ends in (box or {}).items()}
    if strange := sorted(set(given) - {parameter.name() for parameter in parameters}, key=str):
        raise DeclarationError(f"box has a range for {strange[0]!r}, which is not fused over")
    return parameters, [_range_of(problem, parameter, given.get(parameter.name())) for parameter in parameters]


def _range_of(problem: cp.Problem, parameter: Any, ends: Any) -> tuple[float, float]:
    """Return the values that are considered: those given, or those of a weight."""
    name = parameter.name()
    if ends is None:
        if any(parameter is other for constraint in problem.constraints for other in constraint.parameters()):
            raise DeclarationError(
                f"{name!r} is in a constraint; give the values to consider, box={{{name!r}: (low, high)}}"
            )
        return RANGE
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise DeclarationError(f"the range of {name!r} is a pair (low, high), received {ends!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise DeclarationError(f"the range of {name!r} must be two numbers with low < high, received {ends!r}")
    if parameter.is_nonneg() and low < 0.0:
        raise DeclarationError(f"{name!r} is non-negative, its range begins at {low:g}")
    return low, high
