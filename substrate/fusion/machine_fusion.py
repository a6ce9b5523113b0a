r"""Fusion of a machine over one weight by the universal bound: where no chord proves anything.

The chord between two knots needs a quadratic program whose squares determine the predictions
(:mod:`substrate.fusion.refinement`). Losses with a bias and no squares (tube, hinge, pinball), 1-norms of the support
values, Huber and logistic losses, and a ridge beside squared errors and constraints have no such chord. They are proved
by :mod:`substrate.fusion.universal_bound`, over a range of the weight that is stated; the bounds of folds add up.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from substrate.arrays import Array
from substrate.composition import Machine
from substrate.fusion.cell_search import CellSearch, Progress
from substrate.fusion.fused_family import FusedFamily
from substrate.fusion.fusion_proof import FusionProof
from substrate.fusion.output_map import output_map
from substrate.fusion.problem_fusion import search_facts
from substrate.fusion.result import FusedPath, Fusion
from substrate.fusion.validated_machine import Candidate, certify_search, solve_candidates
from substrate.fusion.validation import Validation

__all__ = ["RANGE", "MachineFamily", "fuse_over_range"]

#: The values of a weight that are considered unless a range is given.
RANGE = (1e-3, 1e3)


class MachineFamily(FusedFamily):
    """The problem of a machine with the sum of its squared validation errors."""

    def __init__(self, machine: Machine, parameter: Any, known: Validation) -> None:
        variables = machine.problem.variables()
        edges = np.concatenate([[0], np.cumsum([variable.size for variable in variables])]).astype(int)
        columns = {variable.id: int(start) for variable, start in zip(variables, edges[:-1], strict=True)}
        M = output_map(machine, columns, int(edges[-1]), known)
        parts = [
            (variable, M[:, start:stop]) for variable, start, stop in zip(variables, edges[:-1], edges[1:], strict=True)
        ]
        self._parts, self._known = [(variable, part) for variable, part in parts if part.any()], known.known
        values = sum(part @ cp.vec(variable, order="F") for variable, part in self._parts)
        unit = max(compiled.spread for compiled in machine._compiled)
        super().__init__(machine.problem, [parameter], cp.sum_squares(known.known - values), unit)

    def errors(self, knot: Any) -> Array:
        """The validation errors at a knot."""
        self.assign(knot)
        values = [part @ np.ravel(variable.value, order="F") for variable, part in self._parts]
        return np.asarray(self._known - np.sum(values, axis=0))


def fuse_over_range(
    families: Sequence[MachineFamily],
    sets: Sequence[Validation],
    final: Machine,
    name: str,
    ends: tuple[float, float],
    gap: float,
    budget: int,
    progress: Progress,
) -> Fusion:
    """Choose the weight in a range whose machine validates best, and bound what all others could do."""
    rows = sum(known.rows for known in sets)
    variance = float(np.var(np.concatenate([known.known for known in sets])))
    search = CellSearch(families, gap, budget, np.inf, progress, 0.0, rows * variance)
    search.run([ends])
    known = sets[0] if len(sets) == 1 else None
    chosen = solve_candidates(final, _candidates(name, families, search), known)
    value = chosen.values[name]
    error = (search.best[0] if known is None else chosen.squares) / rows
    lower = min(search.lower_bound / rows, error)
    facts = [("fused over", f"{name} from {ends[0]:g} to {ends[1]:g}"), *search_facts(search)]
    if value in ends:
        facts.append(("choice", f"at {value:g}, an end of its range; box= looks further"))
    formula = f"validation error - lower bound over {name} from {ends[0]:g} to {ends[1]:g}"
    row = (f"gap of {name}", formula)
    certificate = certify_search(f"Fusion over {name}", chosen, error, lower, gap, sets, row, (1e-3, 0.0), facts)
    thetas = sorted(search.knots)
    errors = np.array([sum(knot.validation for knot in search.knots[theta]) for theta in thetas]) / rows
    knots = tuple(tuple(search.knots[theta][fold] for theta in thetas) for fold in range(len(families)))
    path = FusedPath(name, np.array(thetas).ravel(), errors, knots, ends, (), search.stop)
    proof = None
    if np.isfinite(lower) and search.covered:
        proof = FusionProof.of(search, [name], [ends], chosen.values, error, lower, float(rows))
    return Fusion(name, value, error, lower, chosen.result, path, certificate, proof)


def _candidates(name: str, families: Sequence[MachineFamily], search: CellSearch) -> Iterator[Candidate]:
    """The vertices, the best first, with their validation errors where there is one validation set."""
    for theta in sorted(search.knots, key=lambda theta: sum(knot.validation for knot in search.knots[theta])):
        errors = families[0].errors(search.knots[theta][0]) if len(families) == 1 else None
        yield Candidate({name: theta[0]}, errors)
