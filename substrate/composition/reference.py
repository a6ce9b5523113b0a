"""Where the check of an answer starts: a machine's program as numbers, and points of it with multipliers."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from substrate.arrays import Array
from substrate.composition.cone_program import ConeProgram
from substrate.composition.conic import Witness
from substrate.composition.nearness import corrected_multipliers
from substrate.composition.polish import interior_point, polished
from substrate.composition.standard_form import StandardForm

__all__ = ["Reference", "reference"]

#: How many times its size and the spread of y a variable of the optimum is taken to be away at most.
_FAR = 1000.0
_ACCURACIES = (1e-13, 1e-10)


@dataclass(frozen=True, slots=True)
class Reference:
    """The program, the column where each variable of the machine begins, the unit of its variables, and a point.

    ``starts`` are the columns where a variable of cvxpy's begins, its own included; ``point`` is None where the solver
    worked on another form of the program.
    """

    program: ConeProgram
    columns: dict[int, int]
    starts: tuple[int, ...]
    unit: float
    point: tuple[Array, Array] | None

    def points(self) -> Iterator[tuple[Array, Array]]:
        """Points with multipliers, the cheapest first; nothing is believed of them."""
        program = self.program
        if program.quadratic and self.point is not None:
            yield polished(program, *self.point)
        if program.quadratic:
            for accuracy in _ACCURACIES:
                inside = interior_point(program, accuracy)
                if inside is not None:
                    yield polished(program, *inside)
        if self.point is not None:
            yield self.point[0], corrected_multipliers(program, *self.point)

    def radius(self, x: Array, spread: float) -> Array:
        """How far each coordinate of the optimum is taken to be from x at most; ``spread`` in units of x."""
        radius = np.zeros_like(x)
        edges = [*self.starts, x.size]
        for start, stop in pairwise(edges):
            radius[start:stop] = _FAR * (spread + float(np.abs(x[start:stop]).max(initial=0.0)))
        return radius


def reference(problem: Any, witness: Witness) -> Reference | str:
    """The program behind a solver's point, or why nothing can be said of it."""
    form, z = witness.form, witness.form.multipliers(witness.duals)
    point = None if z is None else (witness.x, z)
    own, unit = witness.own, witness.unit
    if not form.understood:
        return "its cones are beyond this check"
    if form.bounded or not form.numbers()[0].nnz:
        # rows alone do not say it all, or a solver without a quadratic term was given squares as cones
        form = StandardForm(problem.get_problem_data("CLARABEL")[0]["param_prob"], "CLARABEL")
        point, unit, own = None, 1.0, tuple(variable.id for variable in problem.variables())
        if not form.understood or form.bounded or not form.numbers()[0].nnz:
            return ""
    elif point is None:
        return "the solver left no multipliers that can be read"
    P, q, A, b = form.numbers()
    known = [P.data, q, A.data, b, *(point or ())]
    if not all(np.isfinite(values).all() for values in known):
        return "the solver's point, or a number of the problem, is not finite"
    program = ConeProgram.of((P, q, A, b), form.cones)
    if point is None and not program.quadratic:
        return "the solver was given the squares as cones; CLARABEL and SCS take them as they are"
    columns = {v.id: form.columns[key] for key, v in zip(own, problem.variables(), strict=True) if key in form.columns}
    return Reference(program, columns, tuple(sorted(form.columns.values())), unit, point)
