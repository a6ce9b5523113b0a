r"""Fusion of a machine over a box of its parameters by the universal bound: where no chord proves anything.

The chord between two knots needs a quadratic program whose squares determine the predictions, and squared validation
errors (:mod:`substrate.fusion.joint`). Losses with a bias and no squares (tube, hinge, pinball), 1-norms of the
support values, Huber and logistic losses, a ridge weight from zero on, widths of tubes and bounds of
constraints, and validation by another loss have no such chord. They are proved by
:mod:`substrate.fusion.universal_bound`, over a box that is stated; the bounds of folds add up.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition import Machine
from substrate.errors import DeclarationError
from substrate.fusion.cell_paths import record_cells
from substrate.fusion.cell_search import CellSearch, Progress
from substrate.fusion.fused_family import FusedFamily, FusedKnot
from substrate.fusion.output_map import output_map
from substrate.fusion.problem_fusion import RANGE, search_facts, solvable_box
from substrate.fusion.program_numbers import parameters_at
from substrate.fusion.result import Fusion
from substrate.fusion.validated_machine import (
    Candidate,
    PlaceInProgram,
    certify_search,
    compare_bound,
    end_of_search,
    least_error,
    narrower_gap,
    solve_candidates,
)
from substrate.fusion.validation import ValidationSet
from substrate.search.best_first import Limits, describe_met

__all__ = ["MachineFamily", "fuse_over_box"]

#: Largest relative difference, in the spread of the targets, of the errors of a knot and of its machine.
_AGREEMENT = (1e-3, 0.0)


class MachineFamily(FusedFamily):
    """The problem of a machine with the sum of the loss of its validation rows."""

    def __init__(self, machine: Machine, parameters: Sequence[Any], validation_set: ValidationSet) -> None:
        variables = machine.problem.variables()
        edges = np.concatenate([[0], np.cumsum([variable.size for variable in variables])]).astype(int)
        columns = {variable.id: int(start) for variable, start in zip(variables, edges[:-1], strict=True)}
        M = output_map(machine, columns, int(edges[-1]), validation_set)
        blocks = [
            (variable, M[:, start:stop]) for variable, start, stop in zip(variables, edges[:-1], edges[1:], strict=True)
        ]
        self._parts, self._known = [(variable, block) for variable, block in blocks if block.any()], validation_set
        loss = validation_set.loss.expression(
            validation_set.stacked_targets, _values(self._parts), validation_set.every_weight
        )
        unit = max(compiled.spread for compiled in machine._compiled)
        super().__init__(machine.problem, parameters, loss, unit)

    def errors(self, knot: FusedKnot) -> Array:
        """Return the validation errors at a knot, times the roots of the rows' weights."""
        self.assign(knot)
        return self.present_errors()

    def excess(self, knot: FusedKnot) -> float:
        """Return how far the objective at the present values of the variables is above its lower bound, relative."""
        size = abs(knot.lowest) + float(np.abs(knot.weights) @ np.abs(knot.terms))
        with parameters_at(self.base.parameters, self.base.join(knot.theta, knot.place)):
            value = float(np.asarray(self.base.problem.objective.expr.value).item())
        return (value - knot.lowest) / size if size > 0.0 else np.inf

    def present_errors(self) -> Array:
        """Return the validation errors at the present values of the variables, times the roots of the weights."""
        values = [block @ np.ravel(variable.value, order="F") for variable, block in self._parts]
        return np.asarray(self._known.roots * (self._known.stacked_targets - np.sum(values, axis=0)))


def _values(blocks: Sequence[tuple[Any, Array]]) -> Any:
    """Return the predictions as an expression of the problem's variables."""
    import cvxpy as cp

    return sum(block @ cp.vec(variable, order="F") for variable, block in blocks)


def fuse_over_box(
    families: Sequence[MachineFamily],
    machines: Sequence[Machine],
    sets: Sequence[ValidationSet],
    final: Machine,
    names: Sequence[str],
    box: Sequence[tuple[float, float] | None],
    gap: float,
    limits: Limits,
    progress: Progress,
) -> Fusion:
    """Choose the values in a box whose machine validates best, and bound what all others could do.

    A weight whose range is None is considered in ``RANGE``.
    """
    weight = sum(validation_set.weight for validation_set in sets)
    least = least_error(sets)
    search = CellSearch(families=families, gap=gap, limits=limits, progress=progress, floor=0.0, least=least * weight)
    ends, cut_off = solvable_box(families, _complete(names, box, families[0]))
    search.run(ends)
    several, asked = len(names) > 1, gap
    while True:
        chosen = solve_candidates(final, machines, sets, _candidates(names, families, search), limits)
        error = chosen.total / weight
        lower = min(search.lower_bound / weight, error)
        row = compare_bound(
            "gap of the search" if several else f"gap of {names[0]}",
            f"validation error - lower bound over {'the box' if several else _range(names[0], (), ends[0])}",
            error,
            lower,
            gap,
            sets,
        )
        if search.stop != describe_met(asked):
            break
        search.stop = end_of_search(describe_met(gap), chosen, row)
        # the machine is solved to the tolerance of its solver, and has to meet the gap as well
        asked = narrower_gap(asked, gap, error, search.best / weight, least)
        if row.passes or chosen.interrupted or asked == 0.0:
            break
        search.narrow(asked)
    facts = [
        *(
            (_title("fused over", name, names), f"{_range(name, names, range_)}")
            for name, range_ in zip(names, ends, strict=True)
        ),
        *cut_off,
        *search_facts(search),
    ]
    for name, range_ in zip(names, ends, strict=True):
        if chosen.values[name] in range_:
            facts.append(("choice", f"{name} at {chosen.values[name]:g}, an end of its range; box= looks further"))
    title = f"Fusion over {' and '.join(names)}"
    certificate = certify_search(title, chosen, row, sets, _AGREEMENT, facts, len(search.knots))
    return Fusion(
        values=chosen.values,
        validation_error=error,
        lower_bound=lower,
        proved_on=dict(zip(names, ends, strict=True)),
        result=chosen.result,
        path=record_cells(names, ends, search, weight),
        certificate=certificate,
        loss=sets[0].loss.words,
        least=least,
        folds=chosen.folds,
        estimate=limits.estimate,
    )


def _title(words: str, name: str, names: Sequence[str]) -> str:
    return f"{words} {name}" if len(names) > 1 else words


def _range(name: str, names: Sequence[str], ends: tuple[float, float]) -> str:
    """Return a range in words; with the name where that is not in the title of the fact."""
    words = f"from {ends[0]:g} to {ends[1]:g}"
    return words if len(names) > 1 else f"{name} {words}"


def _complete(
    names: Sequence[str], box: Sequence[tuple[float, float] | None], family: FusedFamily
) -> list[tuple[float, float]]:
    """Return the range of every parameter: weights have one unless it is given, parameters in constraints need one."""
    completed = []
    for k, (name, ends) in enumerate(zip(names, box, strict=True)):
        if ends is None and k in family.base.placed:
            raise DeclarationError(
                f"{name!r} is in a constraint, or the width of a tube; state which values are considered: "
                f"box={{{name!r}: (low, high)}}"
            )
        low, high = RANGE if ends is None else ends
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise DeclarationError(
                f"the range of {name!r} must be two numbers with low < high, received {(low, high)!r}"
            )
        if k in family.base.weighing and low < 0.0:
            raise DeclarationError(f"{name!r} is a weight, its range begins at {low:g}; a weight is not negative")
        completed.append((float(low), float(high)))
    return completed


def _order(search: CellSearch) -> list[tuple[float, ...]]:
    """Return the vertices, the best first."""
    return sorted(search.knots, key=lambda theta: sum(knot.validation for knot in search.knots[theta]))


def _candidates(names: Sequence[str], families: Sequence[MachineFamily], search: CellSearch) -> Iterator[Candidate]:
    """Yield the vertices, the best first, with their validation errors."""
    for theta in _order(search):
        knots = search.knots[theta]
        errors = [family.errors(knot) for family, knot in zip(families, knots, strict=True)]
        locate = partial(_locate, families, knots)
        optima = [family.adopted_optimum(knot) for family, knot in zip(families, knots, strict=True)]
        yield Candidate(dict(zip(names, theta, strict=True)), np.concatenate(errors), locate, tuple(optima))


def _locate(families: Sequence[MachineFamily], knots: Sequence[FusedKnot]) -> PlaceInProgram:
    """Return where the machines that have just been solved at a vertex are in the programs of the search."""
    excesses = [family.excess(knot) for family, knot in zip(families, knots, strict=True)]
    return PlaceInProgram(np.concatenate([family.present_errors() for family in families]), max(excesses))
